//! What following an image costs, and what clients see while it moves.

use std::time::Duration;

use cvo::testing::api::ClusterOperator;
use cvo::testing::api::olm::NAMESPACE;
use cvo::testing::api::olm::catalog_source::CatalogSource;
use e2e::conditions::Conditions;
use e2e::harness::audit;
use e2e::until::changes;
use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::Api;
use kube::runtime::watcher;
use serde_json::{Value, json};

use super::{LIMIT, PROCESS, World, catalog, push};

/// How many polls are watched.
const POLLS: usize = 10;

/// How many requests of this method the registry has answered for manifests and blobs of a repository.
fn asked(world: &World, method: &str, repository: &str) -> usize {
    let log = std::fs::read_to_string(world.cluster.log("registry")).unwrap();
    log.matches(&format!("\"{method} /v2/{repository}/")).count()
}

fn polled(source: &CatalogSource) -> Option<Timestamp> {
    source.status.as_ref()?.latest_image_registry_poll.clone().map(|time| time.0)
}

/// Each poll of an image that has not moved is one HEAD and one write of the status, and nothing else happens.
#[tokio::test(flavor = "multi_thread")]
async fn poll_of_an_unchanged_image_is_one_head_and_one_write() {
    let world = World::up().await;
    world.push("catalogs/one:v1", "one", &[]).await;
    world.start();
    let spec = json!({"sourceType": "grpc", "image": world.image("catalogs/one:v1"),
        "updateStrategy": {"registryPoll": {"interval": "1s"}}});
    world.create("shop", "one", spec).await;
    world.until("the catalog to be ready", ("shop", "one"), |it| it.has("ContentLoaded=True")).await;
    let mut seen = changes(world.sources("shop"), watcher::Config::default());
    let mut next = async |after: Option<Timestamp>| loop {
        let now = polled(&seen.next().await.unwrap());
        if now != after {
            return now;
        }
    };
    // What comes with a new catalog is over.
    let operators: Api<ClusterOperator> = Api::all(world.client.clone());
    let wait = world.cluster.until("the ClusterOperator to be at rest", &[PROCESS]).within(LIMIT);
    wait.existing(operators, "operator-lifecycle-manager-catalog", |it| it.has("Progressing=False")).await.unwrap();
    let mut last = None;
    for _ in 0..3 {
        last = next(last).await;
    }
    let (since, heads, gets) =
        (Timestamp::now(), asked(&world, "HEAD", "catalogs/one"), asked(&world, "GET", "catalogs/one"));
    for _ in 0..POLLS {
        last = next(last).await;
    }
    let until = Timestamp::now();
    let heads = asked(&world, "HEAD", "catalogs/one") - heads;
    assert_eq!(asked(&world, "GET", "catalogs/one"), gets);
    // The next one may be on its way.
    assert!((POLLS..=POLLS + 1).contains(&heads), "{heads}");
    let user = format!("system:serviceaccount:{NAMESPACE}:olm-operator-serviceaccount");
    let requests = audit::requests(&world.cluster.audit_log(), &user).unwrap();
    let requests = audit::within(&requests, since..until);
    let (polls, others): (Vec<_>, Vec<_>) = requests
        .iter()
        .filter(|it| it.resource != "leases")
        .partition(|it| it.resource == "catalogsources" && it.is_write());
    assert!((POLLS..=POLLS + 1).contains(&polls.len()) && others.is_empty(), "{} {others:?}", polls.len());
    world.cluster.down().await.unwrap();
}

/// Who asks all the time sees the old content or the new one, and no error.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "hack/soak runs it"]
async fn clients_see_no_error_and_no_mixture_while_a_tag_moves() {
    let world = World::up().await;
    let content = |version: &str| format!("{}\n{}", catalog("a", version), catalog("b", version));
    let put = async |version: &str| {
        let text = content(version);
        push(&world.cluster.registry(), "catalogs/ab:v1", &[("configs/c.json", text.as_bytes())], &[]).await
    };
    put("1.0.0").await;
    let port = world.cluster.port("packages");
    let process = world.process(PROCESS).flag("--secure-port", port.to_string());
    world.cluster.spawn(process.launch(PROCESS).unwrap()).unwrap();
    let spec = json!({"sourceType": "grpc", "image": world.image("catalogs/ab:v1"),
        "updateStrategy": {"registryPoll": {"interval": "1s"}}});
    world.create("shop", "ab", spec).await;
    world.register(port).await;
    let services: Api<APIService> = Api::all(world.client.clone());
    let wait = world.cluster.until("the API of packages", &[PROCESS]).within(LIMIT);
    wait.existing(services, "v1.packages.operators.coreos.com", |it| it.has("Available=True")).await.unwrap();
    world.until("the catalog to be ready", ("shop", "ab"), |it| it.has("ContentLoaded=True")).await;

    let client = world.client.clone();
    let versions = async move || {
        let path = "/apis/packages.operators.coreos.com/v1/namespaces/shop/packagemanifests";
        let list: Value = client.request(http::Request::get(path).body(Vec::new()).unwrap()).await.unwrap();
        let version =
            |item: &Value| item["status"]["channels"][0]["currentCSVDesc"]["version"].as_str().unwrap().to_owned();
        list["items"].as_array().unwrap().iter().map(version).collect::<Vec<_>>()
    };
    let mut number = 0;
    for version in ["1.1.0", "1.2.0", "1.3.0"] {
        let before = versions().await;
        put(version).await;
        let pushed = Timestamp::now();
        loop {
            let said = versions().await;
            number += 1;
            assert_eq!(said.len(), 2);
            assert_eq!(said[0], said[1]);
            if said[0] == version {
                break;
            }
            assert_eq!(said, before);
            tokio::time::sleep(Duration::from_millis(50)).await;
            assert!(Timestamp::now().duration_since(pushed) < LIMIT.try_into().unwrap(), "{version} is not served");
        }
    }
    println!("{number} answers");
    world.cluster.down().await.unwrap();
}
