use super::*;
use crate::cluster::objects::tests::answering;
use crate::cluster::revision::Revision;
use crate::cluster::{Clients, Kinds, Objects};
use crate::object::manifest::Origin;
use crate::release::load::manifests_of;
use serde_json::{Value, json};
use std::time::Instant;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

#[test]
fn order_of_what_the_server_lists_does_not_matter() {
    let answer = in_any_order("definition is invalid: [spec.a: no such function, spec.b: too long]");
    assert_eq!(in_any_order("definition is invalid: [spec.b: too long, spec.a: no such function]"), answer);
    assert_ne!(in_any_order("definition is invalid: [spec.b: too long, spec.c: no such function]"), answer);
}

/// Operations on these manifests. The server answers requests with `answers`, one after the other.
fn operations(objects: &[Value], answers: Vec<(u16, Value)>) -> Operations {
    operations_at("http://127.0.0.1:1", objects, answers)
}

/// The same, with what else is asked of the server at `url`.
fn operations_at(url: &str, objects: &[Value], answers: Vec<(u16, Value)>) -> Operations {
    let _installed = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let clients = Arc::new(Clients::new(kube::Config::new(url.parse().unwrap())).unwrap());
    let server = Objects::new(answering(answers), "tests", Arc::new(|| true));
    let kinds = Arc::new(Kinds::default());
    kinds.add([
        Kind::config_map(),
        Kind::known("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", false),
    ]);
    let manifests = objects
        .iter()
        .flat_map(|object| manifests_of(Origin::Release, "0000_50_a_b.json", object.to_string().as_bytes()).unwrap());
    Operations {
        applier: Arc::new(Applier::new(
            clients,
            server,
            crate::cluster_version::rollout::MANAGER,
            kinds,
            CancellationToken::new(),
        )),
        manifests: manifests.collect(),
        cancel: CancellationToken::new(),
        logged: Logged::default(),
        namespaces: Namespaces::default(),
    }
}

#[tokio::test]
async fn definition_that_could_not_be_read_is_read_again() {
    let mut definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "versions": [{"name": "v1", "served": true, "storage": true}],
            "names": {"kind": "Widget", "plural": "widgets"}}});
    let manifest = definition.clone();
    definition["metadata"]["resourceVersion"] = json!("7");
    definition["metadata"]["uid"] = json!("u");
    definition["status"] = json!({"conditions": [{"type": "Established", "status": "True"}],
        "acceptedNames": {"kind": "Widget", "plural": "widgets"}});
    let failed = json!({"kind": "Status", "apiVersion": "v1", "code": 500, "reason": "InternalError", "message": "no"});
    let operations = operations(&[manifest], vec![(500, failed), (200, definition)]);
    let served = tokio::time::timeout(Duration::from_secs(20), operations.serve_kinds(0)).await;
    assert!(served.is_ok(), "it waits for a change of what is established already");
    assert!(operations.applier.kinds().get("example.com/v1", "Widget").is_some());
}

#[tokio::test]
async fn namespace_that_changes_during_an_attempt_ends_the_next_wait() {
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "late"}});
    let operations = operations(&[map], Vec::new());
    let wait = |pause| {
        let delay = Delay { pause, until: Wake::NamespaceChanged("late".to_owned()) };
        let operations = operations.clone();
        async move { operations.wait(0, &delay).await }
    };
    assert_eq!(wait(Duration::from_millis(10)).await, Some(()));
    // Now it is tried, in vain; and before the next wait begins:
    let namespace = json!({"metadata": {"name": "late", "uid": "u", "resourceVersion": "7"}});
    operations.applier.index().on_event(&namespace_id("late"), Revision::of(&namespace), None, None);
    let begun = Instant::now();
    assert_eq!(wait(Duration::from_secs(20)).await, Some(()));
    assert!(begun.elapsed() < Duration::from_secs(10), "the whole pause");
}

#[tokio::test]
async fn server_that_is_ready_again_ends_the_pause_after_an_attempt_without_an_answer() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    // It is away once, and then it is there.
    tokio::spawn(async move {
        drop(listener.accept().await.unwrap());
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = [0; 4096];
            let _read = stream.read(&mut request).await.unwrap();
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok").await.unwrap();
        }
    });
    let operations = operations_at(&url, &[map().0], Vec::new());
    let wait = async |pause| {
        let begun = Instant::now();
        let delay = Delay { pause, until: Wake::ServerReady };
        assert_eq!(operations.wait(0, &delay).await, Some(()));
        begun.elapsed()
    };
    assert!(wait(Duration::from_secs(100)).await < Duration::from_secs(10), "the whole pause");
    let pause = Duration::from_millis(300);
    assert!(wait(pause).await >= pause, "a server that is ready all the time is not asked without a pause");
}

/// A ConfigMap, an event of it, and one of its deletion.
fn map() -> (Value, impl Fn(&Operations, Option<&str>)) {
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "n"}});
    let told = |operations: &Operations, version: Option<&str>| {
        let id = ObjectId::new("", "ConfigMap", "n", "a");
        match version {
            Some(version) => {
                let object =
                    json!({"metadata": {"name": "a", "namespace": "n", "uid": "u", "resourceVersion": version}});
                operations.applier.index().on_event(&id, Revision::of(&object), None, None);
            }
            None => operations.applier.index().on_delete(&id, "99"),
        }
    };
    (map, told)
}

#[tokio::test(start_paused = true)]
async fn deleted_object_ends_the_pause_after_a_failure_and_nothing_else_does() {
    let (map, told) = map();
    let operations = operations(&[map], Vec::new());
    told(&operations, Some("1"));
    let begun = tokio::time::Instant::now();
    let delay = Delay { pause: Duration::from_secs(100), until: Wake::ObjectDeleted };
    let waiting = operations.wait(0, &delay);
    let others = async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        told(&operations, Some("2"));
        tokio::time::sleep(Duration::from_secs(5)).await;
        told(&operations, None);
    };
    let (ended, ()) = tokio::join!(waiting, others);
    assert_eq!((ended, begun.elapsed().as_secs()), (Some(()), 10));
    // It is not there: the pause is what keeps an attempt that fails from being repeated at once.
    let begun = tokio::time::Instant::now();
    assert_eq!(operations.wait(0, &delay).await, Some(()));
    assert!(begun.elapsed() >= Duration::from_secs(75));
}

#[tokio::test(start_paused = true)]
async fn change_of_what_brings_a_webhook_ends_the_pause() {
    let (map, told) = map();
    let operations = operations(&[map], Vec::new());
    let delay =
        |positions: &[usize]| Delay { pause: Duration::from_secs(100), until: Wake::AnyChanged(positions.to_vec()) };
    let begun = tokio::time::Instant::now();
    let waited = delay(&[0]);
    let (ended, ()) = tokio::join!(operations.wait(0, &waited), async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        told(&operations, Some("1"));
    });
    assert_eq!((ended, begun.elapsed().as_secs()), (Some(()), 5));
    for nothing in [delay(&[]), delay(&[0])] {
        let begun = tokio::time::Instant::now();
        assert_eq!(operations.wait(0, &nothing).await, Some(()));
        assert!(begun.elapsed() >= Duration::from_secs(75));
    }
}
