//! Catalogs that other servers have, at an address.

use std::path::{Path, PathBuf};
use std::time::Instant;

use cvo::testing::api::olm::catalog_source::{CatalogSource, Connection};
use e2e::conditions::Conditions;
use e2e::harness::{Cvo, Launch};
use serde_json::{Value, json};

use super::{LIMIT, PROCESS, World, catalog, said, state};

/// Name of the process that serves the catalog.
const SERVER: &str = "catalog-server";

/// A folder with this catalog.
fn folder(world: &World, text: &str) -> PathBuf {
    let folder = world.cluster.dir().join("served");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("catalog.json"), text).unwrap();
    folder
}

/// Serves the folder: by `opm`, where the variable names one, else by our own command.
fn serve(world: &World, folder: &Path, port: u16) {
    let launch = match std::env::var_os("OPM") {
        Some(opm) => {
            let arguments = ["serve".to_owned(), folder.display().to_string(), format!("--port={port}")];
            let more = ["--pprof-addr=".to_owned(), "--termination-log=".to_owned()];
            Launch::new(SERVER, opm, arguments.into_iter().chain(more))
        }
        None => Cvo::new(["catalog", "serve"])
            .args([folder])
            .flag("--listen", format!("127.0.0.1:{port}"))
            .launch(SERVER)
            .unwrap(),
    };
    world.cluster.spawn(launch).unwrap();
}

/// The server dies and comes back with another catalog; what it told is served all the while.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "hack/soak runs it"]
async fn catalog_of_a_server_is_read_and_stays_while_the_server_is_away() {
    let world = World::up().await;
    let port = world.cluster.port("served catalog");
    let packages = world.cluster.port("packages");
    let process = world.process(PROCESS).flag("--secure-port", packages.to_string());
    world.cluster.spawn(process.launch(PROCESS).unwrap()).unwrap();
    world.register(packages).await;
    let (id, address) = (("shop", "served"), format!("127.0.0.1:{port}"));
    world.create(id.0, id.1, json!({"sourceType": "grpc", "address": address, "displayName": "Served"})).await;
    let away = |source: &CatalogSource| state(source) == Some(Connection::TransientFailure);
    let source = world.until("the server to be away", id, away).await;
    assert_eq!(said(&source).0, "RegistryServerError");
    assert!(said(&source).1.contains(&format!("the server at {address} does not answer")), "{source:?}");

    let folder_of_one = folder(&world, &catalog("one", "1.0.0"));
    serve(&world, &folder_of_one, port);
    let ready = |source: &CatalogSource| state(source) == Some(Connection::Ready);
    let source = world.until("the catalog to be ready", id, ready).await;
    assert_eq!(said(&source), Default::default());
    let connection = source.status.clone().unwrap().connection_state.unwrap();
    assert_eq!(connection.address, address);
    assert!(connection.last_connect.is_some());
    let content = format!("server {address}@sha256:");
    assert!(source.says("ContentLoaded=True", &[&content]), "{source:?}");
    world.until_package("one", "one.v1.0.0").await;

    world.cluster.kill(SERVER).unwrap();
    let killed = Instant::now();
    let source = world.until("the end of the server to be told", id, away).await;
    let told = killed.elapsed();
    assert!(told.as_secs() < 5, "{told:?}");
    assert!(said(&source).1.contains("is served meanwhile"), "{source:?}");
    assert!(source.says("ContentLoaded=True", &[&content]));
    let one = world.until_package("one", "one.v1.0.0").await;
    assert_eq!(one["status"]["catalogSource"], "served");

    let both = format!("{}\n{}", catalog("one", "1.1.0"), catalog("two", "1.0.0"));
    let folder_of_both = folder(&world, &both);
    serve(&world, &folder_of_both, port);
    let source = world.until("the catalog to be ready again", id, ready).await;
    assert_eq!(said(&source), Default::default());
    world.until_package("one", "one.v1.1.0").await;
    world.until_package("two", "two.v1.0.0").await;

    world.sources(id.0).delete(id.1, &Default::default()).await.unwrap();
    let wait = world.cluster.until("the packages to be gone", &[PROCESS]).within(LIMIT);
    let gone =
        async || world.kubectl("get packagemanifests -n shop --no-headers --ignore-not-found").await.trim().is_empty();
    wait.holds(gone).await.unwrap();
    world.cluster.down().await.unwrap();
}

impl World {
    /// The package of the namespace `shop` as soon as this is at the head of its first channel.
    async fn until_package(&self, name: &str, head: &str) -> Value {
        let get = format!("get packagemanifests {name} -n shop --ignore-not-found -o json");
        let read = async || serde_json::from_str::<Value>(&self.kubectl(&get).await).unwrap_or_default();
        let wait = self.cluster.until(format!("{head} to be served"), &[PROCESS]).within(LIMIT);
        wait.holds(async || read().await["status"]["channels"][0]["currentCSV"] == head).await.unwrap();
        read().await
    }
}
