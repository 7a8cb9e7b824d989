//! The component on a real node, as the release installs it: two replicas, which an update replaces and a fault kills.

use std::time::Duration;

use cvo::testing::api::olm::catalog_source::CatalogSource;
use cvo::testing::api::olm::{GLOBAL_CATALOG_NAMESPACE, NAMESPACE};
use e2e::conditions::Conditions;
use e2e::harness::audit;
use e2e::olm;
use e2e::platform::releases::Contents;
use e2e::platform::{LIMIT, Platform, Release, follow, operators};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

pub(super) const FIRST: Contents<'static> =
    Contents { version: "1.0.0", folders: &["base"], previous: &[], components: &[operators::COMPONENT] };
const SECOND: Contents<'static> = Contents {
    version: "1.1.0",
    folders: &["base", "1.1.0"],
    previous: &["1.0.0"],
    components: &[operators::COMPONENT],
};
/// Requests of which none may fail while the replicas are replaced.
const REQUESTS: usize = 2000;
/// The longest time after which everything is whole again when a replica is killed.
const WHOLE: SignedDuration = SignedDuration::from_secs(5);

/// What somebody has seen who asks for packages all the time.
#[derive(Debug, Default)]
struct Seen {
    answers: usize,
    /// When, and why.
    failures: Vec<(Timestamp, String)>,
}

/// Of packages.
fn names(list: &Value) -> impl Iterator<Item = &str> {
    list["items"].as_array().into_iter().flatten().filter_map(|it| it["metadata"]["name"].as_str())
}

/// Asks until told to end, and until there are so many answers.
async fn ask(client: Client, least: usize, end: CancellationToken) -> Seen {
    let path = format!("/apis/packages.operators.coreos.com/v1/namespaces/{GLOBAL_CATALOG_NAMESPACE}/packagemanifests");
    let mut seen = Seen::default();
    while seen.answers < least || !end.is_cancelled() {
        let request = http::Request::get(&path).body(Vec::new()).unwrap();
        match client.request::<Value>(request).await {
            Ok(list) if names(&list).any(|name| name == operators::CATALOG) => {}
            Ok(list) => seen.failures.push((Timestamp::now(), list.to_string())),
            Err(error) => seen.failures.push((Timestamp::now(), error.to_string())),
        }
        seen.answers += 1;
    }
    seen
}

async fn releases(platform: &Platform) -> [Release; 2] {
    operators::prepare(platform).await.unwrap();
    let (first, second) = (platform.release(FIRST).await.unwrap(), platform.release(SECOND).await.unwrap());
    platform.sign(&second).await.unwrap();
    platform.publish_graph(&[(&first, FIRST.previous), (&second, SECOND.previous)]).unwrap();
    [first, second]
}

/// Whoever asks for packages sees neither the update nor, for longer than five seconds, that a replica is killed; and what the
/// component may do is enough.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "hack/soak runs it"]
async fn packages_are_there_while_replicas_are_replaced_and_killed() {
    let Some(platform) = Platform::on_a_node().await.unwrap() else { return };
    let [first, second] = releases(&platform).await;
    platform.install(&first).await.unwrap();
    platform.until_completed(&first, LIMIT).await.unwrap();
    operators::until_offered(&platform.cluster, &first, LIMIT).await.unwrap();
    let client = platform.cluster.client().await.unwrap();
    serve_by_a_pod(&platform, &client).await;

    let end = CancellationToken::new();
    let asking = tokio::spawn(ask(client.clone(), REQUESTS, end.clone()));
    platform.until("the update to be offered", LIMIT, |it| follow::offered(it, &second)).await.unwrap();
    platform.ask_version(&second.version).await.unwrap();
    platform.until_completed(&second, LIMIT).await.unwrap();
    operators::until_offered(&platform.cluster, &second, LIMIT).await.unwrap();
    end.cancel();
    let seen = asking.await.unwrap();
    println!("{} answers while the replicas were replaced", seen.answers);
    assert!(
        seen.failures.is_empty(),
        "{} of {} failed: {:?}",
        seen.failures.len(),
        seen.answers,
        seen.failures.first()
    );

    // The holder of the lease dies without a word.
    let leases: Api<Lease> = Api::namespaced(client.clone(), NAMESPACE);
    let holder = leases.get("olm-operator").await.unwrap().spec.and_then(|spec| spec.holder_identity).unwrap();
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    let replicas = pods.list(&ListParams::default().labels("app=olm-operator")).await.unwrap();
    let holds = |pod: &&Pod| pod.metadata.uid.as_ref() == Some(&holder);
    let pod = replicas.iter().find(holds).and_then(|pod| pod.metadata.name.clone()).unwrap();
    let end = CancellationToken::new();
    let asking = tokio::spawn(ask(client.clone(), 1, end.clone()));
    let killed = Timestamp::now();
    let at_once = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
    pods.delete(&pod, &at_once).await.unwrap();
    tokio::time::sleep(Duration::try_from(WHOLE).unwrap() * 2).await;
    end.cancel();
    let seen = asking.await.unwrap();
    let last = seen.failures.iter().map(|(at, _)| at.duration_since(killed)).max().unwrap_or_default();
    println!("{} answers after the kill, {} failures, the last after {last:#}", seen.answers, seen.failures.len());
    assert!(last <= WHOLE, "{:?}", seen.failures.last());

    assert_has_enough_rights(&platform);
    platform.close().await.unwrap();
}

/// Another catalog, which a pod serves.
async fn serve_by_a_pod(platform: &Platform, client: &Client) {
    let annotations = json!({"olm.operatorframework.io/catalog-serving": "pod"});
    let metadata = json!({"name": "by-pod", "namespace": "default", "annotations": annotations});
    let image = format!("{}/catalogs/sample:v1.0.0", platform.cluster.registry_for_pods());
    let config = json!({"extractContent": {"catalogDir": "/configs"}});
    let spec = json!({"sourceType": "grpc", "image": image, "grpcPodConfig": config});
    olm::create_with(client, metadata, spec).await.unwrap();
    let is_loaded = |source: &CatalogSource| source.says("ContentLoaded=True", &["by-pod.default.svc"]);
    let sources: Api<CatalogSource> = Api::namespaced(client.clone(), "default");
    let wait = platform.cluster.until("the catalog of the pod", &[]).within(LIMIT);
    wait.existing(sources, "by-pod", is_loaded).await.unwrap();
}

/// The component has asked for nothing that it may not do, and has made a pod.
fn assert_has_enough_rights(platform: &Platform) {
    let requests = audit::requests(&platform.cluster.audit_log(), olm::USER).unwrap();
    let forbidden: Vec<_> = requests.iter().filter(|request| request.code == 403).collect();
    assert!(requests.len() > 50 && forbidden.is_empty(), "{} requests, {forbidden:?}", requests.len());
    let is_new = |request: &&audit::Request| request.resource == "pods" && request.verb == "create";
    assert!(requests.iter().filter(is_new).any(audit::Request::wrote), "no pod was made");
}
