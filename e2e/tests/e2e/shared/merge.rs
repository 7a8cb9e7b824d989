//! Merging converges on a real API server, for every kind that it serves: a created object needs no further write, one write
//! updates an object from any release to any other and undoes any drift, and what others added stays.
//!
//! `CVO_SEED` repeats a run, `CVO_CASES` is the number of objects of each kind.

mod owned;
mod single;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cvo::testing::merge::{self, MANAGER, Outcome, Owner};
use futures::{StreamExt, stream};
use http::Method;
use kube::Client;
use serde_json::{Value, json};
use tokio::time::{Duration, sleep};

use e2e::harness::{Cluster, Options};
use e2e::manifests::{self, CUSTOM, Kind, extensions, openshift};
use e2e::random::SeededRandom;
use e2e::until::until;

/// For what comes at once on a server that is not busy.
const SOON: Duration = Duration::from_secs(30);
/// Objects that are tested concurrently.
const CONCURRENT: usize = 12;
/// How many manifests are generated until the server accepts one.
const ATTEMPTS: u64 = 8;
/// Objects of a release that are tested, of each kind.
const OF_RELEASE: usize = 5;

/// From so many objects of a kind on, some of them must have been updated.
const MANY: usize = 8;
/// Kinds of which a random update often changes nothing.
const FEW_CHANGES: [&str; 3] = ["ClusterOperator", "PersistentVolumeClaim", "PriorityClass"];

const ADDED: &str = "other.example/who";
const FINALIZER: &str = "other.example/hold";

struct Server {
    client: Client,
    seed: u64,
    owner: Owner,
}

/// An error answer of the server.
#[derive(Debug)]
struct Refusal {
    code: u16,
    message: String,
}

/// The result for one object.
#[derive(Debug, Default)]
struct Tested {
    /// The server accepted a manifest for it.
    accepted: bool,
    refused: Vec<String>,
    updated: bool,
    /// Another client could overwrite it with another manifest, and it was repaired.
    repaired: bool,
    problem: Option<String>,
}

impl Server {
    async fn call(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Value, Refusal> {
        let body = body.map(|body| serde_json::to_vec(body).unwrap()).unwrap_or_default();
        let kind = if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
        for pause in [50, 200, 500, 1000, 2000] {
            let request = http::Request::builder().method(method.clone()).uri(path).header("Content-Type", kind);
            match self.client.request::<Value>(request.body(body.clone()).unwrap()).await {
                Ok(value) => return Ok(value),
                Err(kube::Error::Api(status)) if matches!(status.code, 429 | 500 | 503 | 504) => {
                    sleep(Duration::from_millis(pause)).await;
                }
                Err(kube::Error::Api(status)) => {
                    return Err(Refusal { code: status.code, message: status.message.clone() });
                }
                Err(error) => panic!("{method} {path}: {error}"),
            }
        }
        Err(Refusal { code: 503, message: "it failed repeatedly".into() })
    }

    /// A manifest as the daemon would apply it.
    fn desired(&self, kind: &Kind, number: usize, turn: u64) -> Value {
        merge::prepare(kind.manifest(self.seed, number, turn), Some(&self.owner), false)
    }

    /// A manifest for an existing object that would be valid for a new one: the server answers that the name exists only
    /// when the rest is valid.
    async fn valid(&self, kind: &Kind, number: usize, turns: std::ops::Range<u64>) -> Option<Value> {
        for turn in turns {
            let desired = self.desired(kind, number, turn);
            let body = merge::initial(desired.clone());
            match self.call(Method::POST, &format!("{}?dryRun=All", kind.list()), Some(&body)).await {
                Ok(_) => return Some(desired),
                Err(refusal) if refusal.code == 409 => return Some(desired),
                Err(_) => {}
            }
        }
        None
    }

    /// Reads, merges and writes as the daemon does until there is nothing to do, with one write at most.
    async fn converge(&self, kind: &Kind, path: &str, desired: &Value) -> Result<(Value, Vec<String>), String> {
        let mut written: Option<Vec<String>> = None;
        // The controller that aggregates roles may write the old rules once more.
        let mut retries = if kind.kind == "ClusterRole" { 3 } else { 0 };
        for _ in 0..20 {
            let live = self.call(Method::GET, path, None).await.map_err(|r| format!("not readable: {}", r.message))?;
            let outcome =
                merge::merge(&live, desired, MANAGER).map_err(|error| format!("cannot be merged: {error}"))?;
            let (object, fields, replace) = match outcome {
                Outcome::Same => return Ok((live, written.unwrap_or_default())),
                Outcome::Changed { object, fields } => (object, fields, false),
                Outcome::Replace { object, fields } => (object, fields, true),
            };
            if written.is_some() && retries == 0 {
                return Err(format!("another write is needed:{}", values(&fields, &live, desired)));
            }
            let answer = if replace {
                self.delete(path).await;
                self.call(Method::POST, &kind.list(), Some(&object)).await
            } else {
                self.call(Method::PUT, path, Some(&object)).await
            };
            match answer {
                Ok(_) if written.is_some() => retries -= 1,
                Ok(_) => written = Some(fields),
                // Another client wrote in between.
                Err(refusal) if refusal.code == 409 => {}
                Err(refusal) => {
                    return Err(format!(
                        "the merged object is refused: {}{}",
                        refusal.message,
                        values(&fields, &live, desired)
                    ));
                }
            }
        }
        Err("twenty conflicts in a row".into())
    }

    async fn delete(&self, path: &str) {
        let options = json!({"propagationPolicy": "Background"});
        let free = json!({"metadata": {"finalizers": null}});
        drop(self.call(Method::PATCH, path, Some(&free)).await);
        let gone = async || self.call(Method::DELETE, path, Some(&options)).await.is_err_and(|it| it.code == 404);
        until(format!("{path} to go away"), SOON).holds(gone).await.unwrap();
    }

    /// Overwrites the object, again after conflicts with controllers.
    async fn put(&self, path: &str, mut object: Value) -> Result<Value, Refusal> {
        for _ in 0..20 {
            match self.call(Method::PUT, path, Some(&object)).await {
                Err(refusal) if refusal.code == 409 => {
                    let live = self.call(Method::GET, path, None).await?;
                    object["metadata"]["resourceVersion"] = live["metadata"]["resourceVersion"].clone();
                }
                answer => return answer,
            }
        }
        Err(Refusal { code: 409, message: "twenty conflicts in a row".into() })
    }

    /// Overwrites `live` with `other`; where a field cannot be changed, with the other fields.
    async fn overwrite(&self, path: &str, live: &Value, other: Value) {
        if self.put(path, other.clone()).await.is_ok() {
            return;
        }
        let mut current = live.clone();
        current["metadata"] = other["metadata"].clone();
        current = self.put(path, current).await.unwrap();
        for (key, value) in other["spec"].as_object().into_iter().flatten() {
            let mut next = current.clone();
            next["spec"][key] = value.clone();
            if let Ok(now) = self.put(path, next).await {
                current = now;
            }
        }
    }

    async fn test(&self, kind: &Kind, number: usize) -> Tested {
        let mut tested = Tested::default();
        let result = self.create_update_and_repair(kind, number, &mut tested).await;
        tested.problem = result.err().map(|what| format!("{} {}: {what}", kind.kind, kind.name(number)));
        tested
    }

    async fn create_update_and_repair(&self, kind: &Kind, number: usize, tested: &mut Tested) -> Result<(), String> {
        let path = format!("{}/{}", kind.list(), kind.name(number));
        let mut first = None;
        for turn in 0..ATTEMPTS {
            let desired = self.desired(kind, number, turn);
            match self.call(Method::POST, &kind.list(), Some(&merge::initial(desired.clone()))).await {
                Ok(_) => {
                    first = Some(desired);
                    break;
                }
                Err(refusal) => tested.refused.push(refusal.message),
            }
        }
        let Some(first) = first else { return Ok(()) };
        tested.accepted = true;
        let (_, fields) = self.converge(kind, &path, &first).await.map_err(|what| format!("after creation: {what}"))?;
        if !fields.is_empty() {
            return Err(format!("a second rollout writes {fields:?}; the manifest is {first}"));
        }

        // Update to the next release.
        let Some(second) = self.valid(kind, number, 100..100 + ATTEMPTS).await else { return Ok(()) };
        let (live, fields) =
            self.converge(kind, &path, &second).await.map_err(|what| format!("after the update: {what}"))?;
        tested.updated = !fields.is_empty();

        // Another client overwrites it, and adds something.
        let Some(mut other) = self.valid(kind, number, 200..200 + ATTEMPTS).await else { return Ok(()) };
        other["metadata"] = live["metadata"].clone();
        for (field, value) in [("labels", json!("x")), ("annotations", json!("y"))] {
            for owned in second["metadata"][field].as_object().into_iter().flat_map(|map| map.keys()) {
                other["metadata"][field][owned] = json!("drifted");
            }
            other["metadata"][field][ADDED] = value;
        }
        other["metadata"]["finalizers"] = json!([FINALIZER]);
        other["metadata"]["ownerReferences"] = json!([]);
        self.overwrite(&path, &live, merge::initial(other)).await;
        let uid = live["metadata"]["uid"].clone();
        let (live, fields) =
            self.converge(kind, &path, &second).await.map_err(|what| format!("after drift: {what}"))?;
        tested.repaired = !fields.is_empty();
        let metadata = &live["metadata"];
        let held = metadata["finalizers"].as_array().is_some_and(|list| list.contains(&json!(FINALIZER)));
        let kept = metadata["labels"][ADDED] == "x" && metadata["annotations"][ADDED] == "y";
        // Before an object was replaced, its finalizers had to be removed.
        if !kept || !held && metadata["uid"] == uid {
            return Err(format!("what others added is lost: {metadata}"));
        }
        Ok(())
    }

    async fn define(&self, definition: &Value) {
        let list = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        self.call(Method::POST, list, Some(definition)).await.unwrap();
        let (group, plural) = (&definition["spec"]["group"], &definition["spec"]["names"]["plural"]);
        let version = definition["spec"]["versions"].as_array().unwrap().iter().find(|v| v["served"] == true).unwrap();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let path = format!("/apis/{}/{}/{}", text(group), text(&version["name"]), text(plural));
        let served = async || self.call(Method::GET, &path, None).await.map_err(|refusal| refusal.message);
        until(format!("{path} to be served"), SOON).answer(served).await.unwrap();
    }

    /// Creates the CustomResourceDefinitions of the real release, and returns a kind for each tested object of it.
    async fn release_kinds(&self) -> Vec<Kind> {
        let Some(folder) = e2e::real_payload::manifests() else { return Vec::new() };
        let (definitions, objects) = openshift::read(&folder);
        let mut kinds = manifests::openshift();
        let mut of: BTreeMap<(String, String), usize> = BTreeMap::new();
        for object in objects {
            let group = object["apiVersion"].as_str().unwrap().split('/').next().unwrap().to_owned();
            let key = (group, object["kind"].as_str().unwrap().to_owned());
            let Some(definition) = definitions.get(&key) else { continue };
            let count = of.entry(key).or_default();
            *count += 1;
            if *count <= OF_RELEASE {
                kinds.push(Kind::of_release(definition, &object));
            }
        }
        for kind in manifests::openshift() {
            let group = kind.api_version.split('/').next().unwrap().to_owned();
            of.entry((group, kind.kind)).or_default();
        }
        for key in of.keys() {
            self.define(&definitions[key]).await;
        }
        kinds
    }
}

/// The live and desired values at these paths.
fn values(fields: &[String], live: &Value, desired: &Value) -> String {
    let show =
        |value: Option<&Value>| value.map_or("nothing".to_owned(), |v| v.to_string().chars().take(300).collect());
    let lines = fields
        .iter()
        .take(6)
        .map(|path| format!("\n    {path}: live {}, desired {}", show(at(live, path)), show(at(desired, path))));
    lines.collect()
}

/// The value at a path as `merge` writes them.
fn at<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    let (mut value, mut rest) = (value, path);
    while !rest.is_empty() {
        let step;
        (step, rest) = match rest.strip_prefix('[') {
            Some(inner) => inner.split_once(']')?,
            None => {
                let rest = rest.trim_start_matches('.');
                rest.split_at(rest.find(['.', '[']).unwrap_or(rest.len()))
            }
        };
        value = match value {
            Value::Array(list) => {
                let named = |v: &&Value| ["name", "mountPath", "uid"].iter().any(|key| v[*key] == step);
                list.iter().find(named).or_else(|| list.get(step.parse::<usize>().ok()?))?
            }
            other => other.get(step)?,
        };
    }
    Some(value)
}

/// A cluster with only the controllers that write into the tested objects.
async fn cluster() -> (Cluster, Arc<Server>) {
    let seed = SeededRandom::seed();
    let controllers = Some("serviceaccount-controller,clusterrole-aggregation-controller".into());
    let cluster = Cluster::up(Options { controllers, ..Options::default() }).await.unwrap();
    let client = cluster.client().await.unwrap();
    let owner = merge::owner("version", "5d9b3a7e-0000-4000-8000-000000000001");
    (cluster, Arc::new(Server { client, seed, owner }))
}

/// A rollout enforces what the release owns and changes nothing else.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "hack/soak runs it"]
async fn rollout_enforces_what_the_release_owns_and_nothing_else() {
    let (cluster, server) = cluster().await;
    let kinds = served_kinds(&server).await;
    let mut problems = single::rollouts(&server).await;
    let seed = server.seed;
    problems.extend(owned::random_rollouts(server, kinds).await);
    let shown: Vec<&str> = problems.iter().take(60).map(String::as_str).collect();
    assert!(shown.is_empty(), "{} problems, seed {seed}:\n{}", problems.len(), shown.join("\n"));
    cluster.down().await.unwrap();
}

/// What a rollout wrote is not written again, drift is repaired, and what others added stays.
#[tokio::test(flavor = "multi_thread")]
async fn every_kind_converges_on_a_real_server() {
    let (cluster, server) = cluster().await;
    let seed = server.seed;
    let kinds = served_kinds(&server).await;

    let begun = std::time::Instant::now();
    let tested = stream::iter(cases(&kinds)).map(|(kind, number)| {
        let server = server.clone();
        async move { (kind.kind.clone(), server.test(&kind, number).await) }
    });
    let tested: Vec<(String, Tested)> = tested.buffer_unordered(CONCURRENT).collect().await;
    println!("{} objects in {:.0} s", tested.len(), begun.elapsed().as_secs_f64());

    let mut by_kind: BTreeMap<&str, Vec<&Tested>> = BTreeMap::new();
    for (kind, one) in &tested {
        by_kind.entry(kind).or_default().push(one);
    }
    by_kind.iter().for_each(|(kind, all)| print_results(kind, all));
    let problems: Vec<&str> = tested.iter().filter_map(|(_, one)| one.problem.as_deref()).collect();
    assert!(problems.is_empty(), "{} problems, seed {seed}:\n{}", problems.len(), problems.join("\n"));
    let (accepted, updated) =
        (by_kind.values().map(|all| count(all, |s| s.accepted)), by_kind.values().map(|all| count(all, |s| s.updated)));
    assert!(2 * updated.sum::<usize>() >= accepted.sum::<usize>(), "too few objects were updated to prove anything");
    for (kind, all) in &by_kind {
        let accepted = count(all, |s| s.accepted);
        assert!(2 * accepted >= all.len(), "{kind}: the server accepted too few manifests to prove anything");
        // Two random manifests of a kind with few fields, or few that can be changed, are often the same.
        let updated = count(all, |s| s.updated);
        let least = if FEW_CHANGES.contains(kind) { 1 } else { accepted / 8 };
        assert!(accepted < MANY || updated >= least, "{kind}: only {updated} were updated, which proves nothing");
        assert!(2 * count(all, |s| s.repaired) >= accepted, "{kind}: too few were changed to prove anything");
    }
    cluster.down().await.unwrap();
}

/// All kinds to test, served and with the namespaces that their objects need.
async fn served_kinds(server: &Server) -> Vec<Kind> {
    let mut kinds = manifests::served();
    server.define(&extensions::custom_definition(CUSTOM)).await;
    kinds.extend(server.release_kinds().await);
    let namespaces: BTreeSet<String> = kinds.iter().filter_map(Kind::namespace).collect();
    for name in namespaces {
        let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        server.call(Method::POST, "/api/v1/namespaces", Some(&body)).await.unwrap();
    }
    kinds
}

/// Kind and number of each object to test; there is one of each kind whose manifests come from a release.
fn cases(kinds: &[Kind]) -> Vec<(Kind, usize)> {
    let cases = std::env::var("CVO_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(16);
    let of = |number: usize| kinds.iter().filter(move |kind| number == 0 || kind.is_made());
    (0..cases).flat_map(|number| of(number).map(move |kind| (kind.clone(), number))).collect()
}

fn count(all: &[&Tested], what: fn(&Tested) -> bool) -> usize {
    all.iter().filter(|one| what(one)).count()
}

fn print_results(kind: &str, all: &[&Tested]) {
    let (accepted, updated, repaired) =
        (count(all, |s| s.accepted), count(all, |s| s.updated), count(all, |s| s.repaired));
    let refused: usize = all.iter().map(|s| s.refused.len()).sum();
    println!(
        "{kind}: {accepted} of {} objects, {updated} updated, {repaired} repaired, {refused} manifests refused",
        all.len()
    );
    if let Some(why) = all.iter().flat_map(|s| &s.refused).next().filter(|_| refused > accepted) {
        println!("    refused: {}", why.chars().take(300).collect::<String>());
    }
}
