//! Catalogs as foreign clients read them: grpcurl, and what the server of operator-registry answers in its place.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use cvo::testing::api::olm::catalog_source::CatalogSource;
use e2e::conditions::Conditions;
use e2e::harness::Launch;
use e2e::until::until;
use e2e::workspace;
use futures::StreamExt;
use serde_json::{Value, json};
use tokio::process::Command;

use super::{LIMIT, World, push};

/// Names the program of operator-registry.
pub(super) const OPM: &str = "OPM";
/// Calls at once: each is a process.
const CALLS: usize = 4;

/// What is asked.
#[derive(Clone, Debug)]
struct Call {
    method: &'static str,
    data: Value,
}

fn call(method: &'static str, data: Value) -> Call {
    Call { method, data }
}

/// A server of catalogs without TLS, by `HOST:PORT`, as grpcurl asks it.
struct Server<'a> {
    world: &'a World,
    address: String,
}

impl Server<'_> {
    async fn run(&self, arguments: &[&str]) -> Result<String, String> {
        let program = self.world.cluster.client_program("grpcurl").unwrap();
        let mut command = Command::new(program);
        let output = command.arg("-plaintext").arg("-max-msg-sz=67108864").args(arguments).output().await.unwrap();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
    }

    /// The messages of the answer, or the name of its status code.
    async fn ask(&self, call: &Call) -> Result<Vec<Value>, String> {
        let data = call.data.to_string();
        let answer = self.run(&["-d", &data, &self.address, call.method]).await;
        let code = |error: String| {
            let code = error.lines().find_map(|line| line.trim().strip_prefix("Code: "));
            code.unwrap_or_else(|| panic!("{call:?}: {error}")).to_owned()
        };
        let answer = answer.map_err(code)?;
        Ok(serde_json::Deserializer::from_str(&answer).into_iter().collect::<Result<_, _>>().unwrap())
    }

    async fn one(&self, method: &'static str, data: Value) -> Value {
        let mut all = self.ask(&call(method, data)).await.unwrap();
        assert_eq!(all.len(), 1, "{all:?}");
        all.remove(0)
    }
}

impl World {
    /// The server of the first catalog.
    fn served(&self) -> Server<'_> {
        Server { world: self, address: format!("127.0.0.1:{}", self.catalog_ports.start()) }
    }
}

fn is_loaded(source: &CatalogSource) -> bool {
    source.has("ContentLoaded=True")
}

/// Services, health and each method, and what is said where there is nothing.
#[tokio::test(flavor = "multi_thread")]
async fn grpcurl_asks_for_everything_that_a_catalog_offers() {
    let world = World::up().await;
    let api = json!({"type": "olm.gvk", "value": {"group": "example.com", "version": "v1", "kind": "Gear"}});
    let mut blobs: Vec<Value> = e2e::catalogs::catalog("gears", &["1.0.0", "1.1.0"])
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    for blob in blobs.iter_mut().filter(|blob| blob["schema"] == "olm.bundle") {
        blob["properties"].as_array_mut().unwrap().push(api.clone());
    }
    blobs.push(json!({"schema": "example.notes", "package": "gears", "name": "notes", "text": "turn"}));
    let text = blobs.iter().map(Value::to_string).collect::<Vec<_>>().join("\n");
    push(&world.cluster.registry(), "catalogs/gears:v1", &[("configs/c.json", text.as_bytes())], &[]).await;
    world.start();
    world.create("shop", "gears", json!({"sourceType": "grpc", "image": world.image("catalogs/gears:v1")})).await;
    world.until("the catalog to be ready", ("shop", "gears"), is_loaded).await;
    let server = world.served();

    let services = server.run(&[&server.address, "list"]).await.unwrap();
    let expected =
        ["ExperimentalRegistry", "api.Registry", "grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection"];
    for service in expected {
        assert!(
            services.lines().any(|line| line == service || line.ends_with(&format!(".{service}"))),
            "{service}: {services}"
        );
    }
    let methods = server.run(&[&server.address, "describe", "api.Registry"]).await.unwrap();
    assert_eq!(methods.matches("rpc ").count(), 10, "{methods}");
    for service in ["", "Registry", "api.Registry", "something else"] {
        let health = server.one("grpc.health.v1.Health/Check", json!({"service": service})).await;
        assert_eq!(health, json!({"status": "SERVING"}), "{service}");
    }

    assert_methods(&server).await;
    assert_custom_schemas(&server, &services).await;
    for (method, data) in nothing() {
        let answer = server.ask(&call(method, data)).await;
        assert!(answer.as_ref().is_ok_and(Vec::is_empty) || answer.is_err(), "{method}: {answer:?}");
    }
    world.cluster.down().await.unwrap();
}

async fn assert_methods(server: &Server<'_>) {
    assert_eq!(server.one("api.Registry/ListPackages", json!({})).await, json!({"name": "gears"}));
    let package = server.one("api.Registry/GetPackage", json!({"name": "gears"})).await;
    let channels = json!([{"name": "stable", "csvName": "gears.v1.1.0"}]);
    assert_eq!(package, json!({"name": "gears", "channels": channels, "defaultChannelName": "stable"}));
    let bundles = server.ask(&call("api.Registry/ListBundles", json!({}))).await.unwrap();
    let names: Vec<&Value> = bundles.iter().map(|bundle| &bundle["csvName"]).collect();
    assert_eq!(names.len(), 2);
    let of = |csv: &str| json!({"pkgName": "gears", "channelName": "stable", "csvName": csv});
    let head = server.one("api.Registry/GetBundle", of("gears.v1.1.0")).await;
    assert_eq!((&head["version"], &head["bundlePath"]), (&json!("1.1.0"), &json!("registry.invalid/gears:1.1.0")));
    assert_eq!(head["providedApis"][0]["kind"], "Gear");
    let channel =
        server.one("api.Registry/GetBundleForChannel", json!({"pkgName": "gears", "channelName": "stable"})).await;
    assert_eq!(channel["csvName"], "gears.v1.1.0");
    let next = server.one("api.Registry/GetBundleThatReplaces", of("gears.v1.0.0")).await;
    assert_eq!(next["csvName"], "gears.v1.1.0");
    let entry = server.one("api.Registry/GetChannelEntriesThatReplace", json!({"csvName": "gears.v1.0.0"})).await;
    assert_eq!((&entry["bundleName"], &entry["replaces"]), (&json!("gears.v1.1.0"), &json!("gears.v1.0.0")));
    let gear = json!({"group": "example.com", "version": "v1", "kind": "Gear"});
    let all = server.ask(&call("api.Registry/GetChannelEntriesThatProvide", gear.clone())).await.unwrap();
    assert_eq!(all.len(), 2, "{all:?}");
    let latest = server.one("api.Registry/GetLatestChannelEntriesThatProvide", gear.clone()).await;
    assert_eq!(latest["bundleName"], "gears.v1.1.0");
    let default = server.one("api.Registry/GetDefaultBundleThatProvides", gear).await;
    assert_eq!(default["csvName"], "gears.v1.1.0");
}

async fn assert_custom_schemas(server: &Server<'_>, services: &str) {
    let custom = "ExperimentalRegistry/ExperimentalListPackageCustomSchemas";
    let custom = services
        .lines()
        .find(|line| line.ends_with("ExperimentalRegistry"))
        .map(|line| format!("{line}/{}", custom.split_once('/').unwrap().1))
        .unwrap();
    let asked = json!({"schema": "example.notes", "packageName": "gears"}).to_string();
    let header = "x-acknowledge-experimental: true";
    let notes = server.run(&["-H", header, "-d", &asked, &server.address, &custom]).await.unwrap();
    assert_eq!(serde_json::from_str::<Value>(&notes).unwrap()["text"], "turn");
    // Who has not acknowledged it is not disturbed.
    assert_eq!(server.run(&["-d", &asked, &server.address, &custom]).await.unwrap(), "");
}

/// Questions about what no catalog has.
fn nothing() -> [(&'static str, Value); 7] {
    let bundle = json!({"pkgName": "none", "channelName": "none", "csvName": "none"});
    let api = json!({"group": "none", "version": "v1", "kind": "None"});
    [
        ("api.Registry/GetPackage", json!({"name": "none"})),
        ("api.Registry/GetBundle", bundle.clone()),
        ("api.Registry/GetBundleForChannel", json!({"pkgName": "none", "channelName": "none"})),
        ("api.Registry/GetBundleThatReplaces", bundle),
        ("api.Registry/GetChannelEntriesThatReplace", json!({"csvName": "none"})),
        ("api.Registry/GetLatestChannelEntriesThatProvide", api.clone()),
        ("api.Registry/GetDefaultBundleThatProvides", api),
    ]
}

/// The files of a folder, below `configs`.
fn files(folder: &Path, below: &str, into: &mut Vec<(String, Vec<u8>)>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let name = format!("{below}/{}", entry.file_name().into_string().unwrap());
        if entry.path().is_dir() {
            files(&entry.path(), &name, into);
        } else {
            into.push((name, std::fs::read(entry.path()).unwrap()));
        }
    }
}

/// Lists in messages have no order of their own but for channel entries; what is JSON text is compared as JSON.
fn comparable(message: &Value) -> Value {
    match message {
        Value::Object(map) => {
            // Go writes the status of a ClusterServiceVersion that has none.
            let says = |(key, value): &(&String, &Value)| *key != "status" || **value != json!({"cleanup": {}});
            map.iter().filter(says).map(|(key, value)| (key.clone(), comparable(value))).collect()
        }
        Value::Array(list) => {
            let mut list: Vec<Value> = list.iter().map(comparable).collect();
            list.sort_by_key(Value::to_string);
            Value::Array(list)
        }
        Value::String(text) => match serde_json::from_str::<Value>(text) {
            Ok(inner @ (Value::Object(_) | Value::Array(_))) => comparable(&inner),
            _ => message.clone(),
        },
        _ => message.clone(),
    }
}

/// What both answer, by question; and what differs, as text.
async fn differences(ours: &Server<'_>, peer: &Server<'_>, calls: Vec<Call>) -> Vec<String> {
    let both = |call: Call| async move {
        let (ours, peer) = tokio::join!(ours.ask(&call), peer.ask(&call));
        let sorted = |answer: Result<Vec<Value>, String>| {
            answer.map(|all| {
                let mut all: Vec<Value> = all.iter().map(comparable).collect();
                all.sort_by_key(Value::to_string);
                all
            })
        };
        let (ours, peer) = (sorted(ours), sorted(peer));
        (ours != peer).then(|| format!("{} {}: {}", call.method, call.data, first_difference(&ours, &peer)))
    };
    let found: Vec<Option<String>> = futures::stream::iter(calls).map(both).buffer_unordered(CALLS).collect().await;
    found.into_iter().flatten().collect()
}

fn first_difference(ours: &Result<Vec<Value>, String>, peer: &Result<Vec<Value>, String>) -> String {
    match (ours, peer) {
        (Ok(ours), Ok(peer)) if ours.len() == peer.len() => {
            let pair = ours.iter().zip(peer).find(|(ours, peer)| ours != peer).unwrap();
            differs("", pair.0, pair.1)
        }
        (Ok(ours), Ok(peer)) => format!("{} messages, the peer {}", ours.len(), peer.len()),
        _ => format!("{ours:?}, the peer {peer:?}"),
    }
}

/// The place of the first difference, with both values.
fn differs(at: &str, ours: &Value, peer: &Value) -> String {
    if let (Value::Object(ours), Value::Object(peer)) = (ours, peer) {
        let keys: BTreeSet<&String> = ours.keys().chain(peer.keys()).collect();
        let key = keys.into_iter().find(|key| ours.get(*key) != peer.get(*key)).unwrap();
        let value = |map: &serde_json::Map<String, Value>| map.get(key).cloned().unwrap_or_else(|| json!("(none)"));
        return differs(&format!("{at}.{key}"), &value(ours), &value(peer));
    }
    let short = |value: &Value| value.to_string().chars().take(300).collect::<String>();
    format!("{at}: {}, the peer {}", short(ours), short(peer))
}

/// Names of what replaces or skips a bundle in its channel.
fn replacing<'a>(bundles: &'a [Value], bundle: &Value) -> Vec<&'a Value> {
    let is_beside = |other: &&Value| ["packageName", "channelName"].iter().all(|key| other[key] == bundle[key]);
    let name = &bundle["csvName"];
    let follows =
        |other: &&Value| other["replaces"] == *name || other["skips"].as_array().is_some_and(|all| all.contains(name));
    bundles.iter().filter(is_beside).filter(follows).map(|other| &other["csvName"]).collect()
}

/// Everything that can be asked about these packages and bundles, but for what the peer answers by chance.
async fn questions(ours: &Server<'_>, packages: &[Value], bundles: &[Value]) -> Vec<Call> {
    let mut calls = vec![call("api.Registry/ListPackages", json!({})), call("api.Registry/ListBundles", json!({}))];
    calls.extend(packages.iter().map(|package| call("api.Registry/GetPackage", package.clone())));
    let mut heads = BTreeMap::new();
    for bundle in bundles {
        let of = json!({"pkgName": bundle["packageName"], "channelName": bundle["channelName"], "csvName": bundle["csvName"]});
        let channel = json!({"pkgName": bundle["packageName"], "channelName": bundle["channelName"]});
        heads.insert(channel.to_string(), channel);
        calls.push(call("api.Registry/GetBundle", of.clone()));
        let next = call("api.Registry/GetBundleThatReplaces", of);
        match replacing(bundles, bundle).as_slice() {
            // The peer names whichever its map has first.
            several @ [_, _, ..] => {
                let said = ours.ask(&next).await.unwrap();
                assert!(matches!(&said[..], [one] if several.contains(&&one["csvName"])), "{next:?}: {said:?}");
            }
            _ => calls.push(next),
        }
        calls.push(call("api.Registry/GetChannelEntriesThatReplace", json!({"csvName": bundle["csvName"]})));
    }
    calls.extend(heads.into_values().map(|of| call("api.Registry/GetBundleForChannel", of)));
    calls.extend(nothing().map(|(method, data)| call(method, data)));
    calls
}

/// Both servers on the same folder of published catalogs, question by question.
#[tokio::test(flavor = "multi_thread")]
async fn answers_are_those_of_the_server_of_operator_registry() {
    let Some(opm) = std::env::var_os(OPM) else {
        return println!("skipped: no opm (set {OPM} to the path of the binary)");
    };
    let folder = workspace::shared_data().join("catalogs/v4.21");
    if !folder.is_dir() {
        return println!("skipped: no {}", folder.display());
    }
    let world = World::up().await;
    let mut content = Vec::new();
    files(&folder, "configs", &mut content);
    let content: Vec<(&str, &[u8])> = content.iter().map(|(name, bytes)| (name.as_str(), bytes.as_slice())).collect();
    push(&world.cluster.registry(), "catalogs/real:v1", &content, &[]).await;
    let port = world.cluster.port("peer");
    let folder = folder.display().to_string();
    let cache = world.cluster.dir().join("peer").display().to_string();
    let serve =
        format!("serve {folder} --port {port} --cache-dir {cache} --cache-enforce-integrity=false --pprof-addr=");
    let arguments = serve.split(' ').map(str::to_owned).collect::<Vec<_>>();
    world.cluster.spawn(Launch::new("opm", opm, arguments)).unwrap();
    world.start();
    world.create("shop", "real", json!({"sourceType": "grpc", "image": world.image("catalogs/real:v1")})).await;
    world.until("the catalog to be ready", ("shop", "real"), is_loaded).await;
    let (ours, peer) = (world.served(), Server { world: &world, address: format!("127.0.0.1:{port}") });
    let health = call("grpc.health.v1.Health/Check", json!({}));
    until("the peer to answer", LIMIT)
        .answer(async || peer.run(&["-d", "{}", &peer.address, health.method]).await)
        .await
        .unwrap();

    let packages = ours.ask(&call("api.Registry/ListPackages", json!({}))).await.unwrap();
    let bundles = ours.ask(&call("api.Registry/ListBundles", json!({}))).await.unwrap();
    println!("{} packages, {} entries of channels", packages.len(), bundles.len());
    let calls = questions(&ours, &packages, &bundles).await;
    let number = calls.len();
    let found = differences(&ours, &peer, calls).await;
    let mut by_method: BTreeMap<&str, Vec<&String>> = BTreeMap::new();
    for difference in &found {
        by_method.entry(difference.split(' ').next().unwrap()).or_default().push(difference);
    }
    for (method, found) in &by_method {
        println!("{method}: {} differ, such as", found.len());
        found.iter().take(3).for_each(|difference| println!("  {difference}"));
    }
    println!("{number} questions, {} answers differ", found.len());
    assert!(found.is_empty());
    world.cluster.down().await.unwrap();
}
