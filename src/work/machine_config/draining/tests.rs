use super::*;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

fn budget(version: &str, allowed: i32) -> PodDisruptionBudget {
    let metadata = json!({"name": "web", "namespace": "default", "resourceVersion": version});
    let status = json!({"currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 2, "disruptionsAllowed": allowed});
    let spec = json!({"selector": {"matchLabels": {"app": "web"}}});
    serde_json::from_value(json!({"metadata": metadata, "spec": spec, "status": status})).unwrap()
}

/// A drain of a node with one pod, on a server that refuses all evictions and tells of each.
fn run(budgets: Arc<Followed<Budget>>) -> (Run, Arc<Mutex<Vec<String>>>) {
    let (service, mut requests) = tower_test::mock::pair::<http::Request<Body>, http::Response<Body>>();
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let told = seen.clone();
    tokio::spawn(async move {
        while let Some((request, respond)) = requests.next_request().await {
            told.lock().unwrap().push(format!("{} {}", request.method(), request.uri().path()));
            let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 429,
                "reason": "TooManyRequests", "message": "Cannot evict pod as it would violate the pod's disruption budget."});
            let body = Body::from(status.to_string().into_bytes());
            respond.send_response(http::Response::builder().status(429).body(body).unwrap());
        }
    });
    let owner = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "1", "controller": true}]);
    let labels = json!({"app": "web"});
    let metadata: Value =
        json!({"name": "web-1", "namespace": "default", "uid": "u1", "labels": labels, "ownerReferences": owner});
    let pod: Pod = serde_json::from_value(json!({"metadata": metadata, "spec": {"containers": []}})).unwrap();
    let run = Run {
        node: "node-1".to_owned(),
        objects: Objects::new(Client::new(service, "default"), Arc::new(|| true)),
        budgets_changed: budgets.subscribe(),
        budgets,
        changed: Arc::default(),
        state: Arc::default(),
        pods: futures::stream::pending().boxed(),
        present: [(("default".to_owned(), "web-1".to_owned()), pod)].into(),
        daemon_sets: DaemonSets::new(),
        complete: true,
        retry: HashMap::new(),
        refused: BTreeMap::new(),
        begun: watch::channel(None).1,
        drain: None,
        attempt: None,
        told: None,
    };
    (run, seen)
}

#[tokio::test]
async fn a_refused_pod_is_tried_again_when_its_budget_lets_it_go() {
    let budgets = Followed::with([budget("1", 0)]);
    let (mut run, requests) = run(budgets.clone());
    let begun = Drain { started: Timestamp::now(), failed: None };
    let evictions = || requests.lock().unwrap().iter().filter(|it| it.ends_with("/pods/web-1/eviction")).count();
    let deadline = run.step(begun).await.unwrap();
    assert!(deadline > Instant::now(), "it rests");
    assert_eq!(evictions(), 1, "{:?}", requests.lock().unwrap());
    let refusal = run.refused.values().next().unwrap();
    assert_eq!(
        refusal.text,
        "pod default/web-1 is kept by PodDisruptionBudget web (1 of 2 pods are healthy, 1 have to be)"
    );

    for (version, allowed, expected, why) in [
        ("2", 0, 1, "still nothing may leave"),
        ("3", 1, 2, "one may leave"),
        ("3", 1, 2, "nothing has changed since it was refused"),
        ("4", 1, 3, "something has"),
    ] {
        budgets.on_written(budget(version, allowed));
        run.on_budgets();
        run.step(begun).await;
        assert_eq!(evictions(), expected, "{why}");
    }
}

#[tokio::test]
async fn nothing_is_asked_of_a_pod_that_has_been_told_to_end() {
    let (mut run, requests) = run(Followed::with([]));
    let begun = Drain { started: Timestamp::now(), failed: None };
    run.step(begun).await;
    for pod in run.present.values_mut() {
        pod.metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(Timestamp::now()));
    }
    run.retry.clear();
    let deadline = run.step(begun).await.unwrap();
    assert_eq!(requests.lock().unwrap().len(), 1, "{:?}", requests.lock().unwrap());
    assert!(deadline > Instant::now() + Duration::from_secs(5), "only the attempt ends, or somebody is told");
}
