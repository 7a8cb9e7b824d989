use super::*;
use crate::olm::api::catalog_source::Connection;
use crate::olm::catalog::served::{Catalogs, Ports};
use crate::olm::net::registry_client::{Dial, Times};
use crate::olm::registry::tests::{bundle, catalogs, channel, content, content_by, package, widgets};
use crate::olm::serve::registry::{Limits, Server};
use serde_json::json;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, copy};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, watch};
use tokio_util::sync::{CancellationToken, DropGuard};

const LIMIT: Duration = Duration::from_secs(20);

/// A server of catalogs, as long as the guard is there.
async fn serving(served: Catalogs) -> (SocketAddr, watch::Sender<Arc<Catalogs>>, DropGuard) {
    let server = Server::bind("127.0.0.1:0".parse().unwrap(), Limits::default()).await.unwrap();
    let (catalogs, of_catalogs) = watch::channel(Arc::new(served));
    let (_, ports) = watch::channel(Arc::new(Ports::new()));
    let (address, stop) = (server.address(), CancellationToken::new());
    tokio::spawn(server.run(of_catalogs, ports, stop.clone()));
    (address, catalogs, stop.drop_guard())
}

/// A client of the catalog `widgets` there.
async fn client(address: SocketAddr, times: Times) -> RegistryClient {
    let dial: Dial = Arc::new(move |_| Box::pin(TcpStream::connect(address)));
    let client = RegistryClient::start("widgets.one.svc:50051", dial, Arc::new(Notify::new()), times);
    let mut channel = client.channel();
    while channel.state != Connection::Ready {
        channel = tokio::time::timeout(LIMIT, client.changed(&channel)).await.unwrap();
    }
    client
}

fn store() -> (tempfile::TempDir, Arc<Store>) {
    let root = tempfile::tempdir().unwrap();
    let store = Arc::new(Store::open(root.path(), 0).unwrap());
    (root, store)
}

fn places() -> Arc<Semaphore> {
    Arc::new(Semaphore::new(1))
}

#[tokio::test]
async fn catalog_of_a_server_is_read_into_the_store_and_the_same_one_is_not_written_again() {
    let served = || catalogs(vec![("one", "widgets", content(&widgets()))]);
    let (address, catalogs, _running) = serving(served()).await;
    let client = client(address, Times::default()).await;
    let (_root, store) = store();
    let (name, first) = read(&store, &client, &places()).await.unwrap();
    assert!(name.to_string().starts_with("server widgets.one.svc:50051@sha256:"), "{name}");
    assert!(first.found.faults.is_empty(), "{:?}", first.found.faults);
    let names: Vec<&str> = first.content.index.packages().map(|package| package.name()).collect();
    assert_eq!(names, ["gears", "widgets"]);
    let widgets = first.content.index.package("widgets").unwrap();
    let head = widgets.default_channel().and_then(|channel| channel.head()).and_then(|entry| entry.bundle()).unwrap();
    let manifests = crate::olm::catalog::objects::manifests(&first.content, head).unwrap();
    assert!(manifests.iter().any(|manifest| manifest.contains("\"displayName\":\"Widgets\"")), "{manifests:?}");
    catalogs.send_replace(Arc::new(served()));
    let (same, second) = read(&store, &client, &places()).await.unwrap();
    assert_eq!(same, name);
    assert!(Arc::ptr_eq(&first.content, &second.content));
}

#[tokio::test]
async fn untidy_packages_of_a_server_are_read_with_a_note() {
    let mut blobs = [
        package("PkgMain", "stable"),
        channel("PkgMain", "stable", json!([{"name": "main.v2", "replaces": "main.v1"}, {"name": "main.v1"}])),
        bundle("PkgMain", "main.v1", "1.0.0", true, &[]),
        bundle("PkgMain", "main.v2", "1.0.0", true, &[]),
    ];
    blobs.iter_mut().filter(|it| it["schema"] == "olm.bundle").for_each(|it| it["image"] = json!("quay.io/a/main:1"));
    let served = catalogs(vec![("one", "widgets", content_by(Rules::Tolerant, &blobs))]);
    let (address, _catalogs, _running) = serving(served).await;
    let client = client(address, Times::default()).await;
    let (_root, store) = store();
    let (_, stored) = read(&store, &client, &places()).await.unwrap();
    assert_eq!(stored.content.index.package("PkgMain").unwrap().bundles().count(), 2);
    assert_eq!((stored.found.faults.len(), stored.found.notes.len()), (0, 2), "{:?}", stored.found);
}

#[tokio::test]
async fn server_that_has_no_such_catalog_or_goes_away_is_an_error_with_its_place() {
    let (address, catalogs, running) = serving(catalogs(vec![("one", "widgets", content(&widgets()))])).await;
    let client = client(address, Times::default()).await;
    let (root, store) = store();
    catalogs.send_replace(Arc::default());
    let error = read(&store, &client, &places()).await.unwrap_err().to_string();
    assert!(error.contains("ListPackages") && error.contains("widgets.one.svc:50051"), "{error}");
    drop(running);
    let mut channel = client.channel();
    while channel.state == Connection::Ready {
        channel = tokio::time::timeout(LIMIT, client.changed(&channel)).await.unwrap();
    }
    let error = read(&store, &client, &places()).await.unwrap_err().to_string();
    assert!(error.contains("not connected"), "{error}");
    let left: Vec<_> = std::fs::read_dir(root.path()).unwrap().flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(left, ["lock"], "nothing of it is left");
}

/// Sends what a server sends, a few bytes at a time.
async fn dripping(server: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let upstream = TcpStream::connect(server).await.unwrap();
            let ((mut from, mut to), (mut answers, mut questions)) = (stream.into_split(), upstream.into_split());
            tokio::spawn(async move { copy(&mut from, &mut questions).await });
            tokio::spawn(async move {
                let mut bytes = [0; 16];
                while let Ok(length @ 1..) = answers.read(&mut bytes).await {
                    let _sent = to.write_all(&bytes[..length]).await;
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            });
        }
    });
    address
}

#[tokio::test]
async fn server_that_drips_is_given_up_though_it_always_sends_something() {
    let text = json!({"type": "text", "value": "x".repeat(60_000)});
    let mut blobs = widgets();
    for blob in blobs.iter_mut().filter(|blob| blob["schema"] == "olm.bundle") {
        blob["properties"].as_array_mut().unwrap().push(text.clone());
    }
    let (address, _catalogs, _running) = serving(catalogs(vec![("one", "widgets", content(&blobs))])).await;
    let times = Times { catalog: Duration::from_millis(500), ..Times::default() };
    let client = client(dripping(address).await, times).await;
    let (_root, store) = store();
    let error = tokio::time::timeout(LIMIT, read(&store, &client, &places())).await.unwrap().unwrap_err();
    let error = error.to_string();
    assert!(error.contains("cannot be read within 500ms") && error.contains("or name an image"), "{error}");
}
