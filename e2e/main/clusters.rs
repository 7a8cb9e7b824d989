//! The harness itself: a cluster serves, keeps its data, and leaves nothing behind.

use std::{path::PathBuf, time::Instant};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;

use crate::harness::{Cluster, Identity, Options, named, process};

fn options() -> Options {
    Options { lab: Some(PathBuf::from(env!("CARGO_BIN_EXE_lab"))), ..Default::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn control_plane_keeps_data_over_a_restart_and_leaves_nothing() {
    let begun = Instant::now();
    let cluster = Cluster::up(Options { audit: true, ..options() }).await.unwrap();
    println!("control plane up after {:.1} s", begun.elapsed().as_secs_f32());
    let dir = cluster.dir();
    let maps: Api<ConfigMap> = Api::namespaced(cluster.client().await.unwrap(), "default");
    let data = [("colour".to_owned(), "blue".to_owned())].into();
    let wanted = ConfigMap { metadata: named("probe"), data: Some(data), ..Default::default() };
    maps.create(&Default::default(), &wanted).await.unwrap();

    cluster.restart_apiserver().await.unwrap();

    let found = maps.get("probe").await.unwrap();
    assert_eq!(found.data, wanted.data);
    let said = cluster.kubectl(["get", "configmap", "probe", "-o", "jsonpath={.data.colour}"]).await.unwrap();
    assert_eq!(said, "blue");
    let audit = std::fs::read_to_string(cluster.audit_log()).unwrap();
    let creates =
        audit.lines().filter(|line| line.contains(r#""verb":"create""#) && line.contains(r#""name":"probe""#));
    assert_eq!(creates.count(), 1, "one create of the ConfigMap in the audit log");

    let mark = dir.display().to_string();
    assert!(process::marked(&mark).len() >= 4, "etcd, API server, controllers and scheduler carry the mark");
    cluster.down().await.unwrap();
    assert_eq!(process::marked(&mark), Vec::<Identity>::new());
    assert!(!dir.exists(), "{} is removed", dir.display());
}
