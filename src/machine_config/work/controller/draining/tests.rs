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

/// A drain of a node with one pod, on a server that refuses all requests and tells of each.
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
        objects: Objects::new(Client::new(service, "default"), "tests", Arc::new(|| true)),
        budgets_changed: budgets.subscribe(),
        budgets,
        changed: Arc::default(),
        state: Arc::default(),
        pods: futures::stream::pending().boxed(),
        present: [(("default".to_owned(), "web-1".to_owned()), pod)].into(),
        daemon_sets: DaemonSets::new(),
        complete: true,
        unread: None,
        retry: HashMap::new(),
        refused: BTreeMap::new(),
        begun: watch::channel(None).1,
        drain: None,
        since: None,
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

/// The first attempt ends in vain: what to wait for then.
async fn pause(run: &mut Run) -> Duration {
    let begun = Drain { started: Timestamp::now(), failed: None };
    run.step(begun).await;
    run.attempt = run.attempt.map(|begun| begun - Duration::try_from(ATTEMPT).unwrap());
    run.step(begun).await;
    let failed = run.drain.unwrap();
    assert!(failed.failed.is_some());
    run.step(failed).await.unwrap().duration_since(Instant::now())
}

#[tokio::test]
async fn a_budget_that_changes_ends_the_pause_of_a_drain() {
    let budgets = Followed::with([budget("1", 0)]);
    let (mut run, requests) = run(budgets.clone());
    let evictions = || requests.lock().unwrap().iter().filter(|it| it.ends_with("/pods/web-1/eviction")).count();
    assert!(pause(&mut run).await > Duration::from_secs(55));
    assert_eq!(evictions(), 1);
    let drain = run.drain.unwrap();
    for (version, allowed, expected) in [("2", 0, 1), ("3", 1, 2)] {
        budgets.on_written(budget(version, allowed));
        run.on_budgets();
        let deadline = run.step(drain).await.unwrap().duration_since(Instant::now());
        assert_eq!(evictions(), expected, "version {version}");
        assert_eq!(deadline < Duration::from_secs(10), expected == 2, "{deadline:?}");
    }
}

#[tokio::test]
async fn a_pod_that_goes_ends_the_pause_of_a_drain() {
    let (mut run, _) = run(Followed::with([budget("1", 0)]));
    assert!(pause(&mut run).await > Duration::from_secs(55));
    let (_, pod) = run.present.first_key_value().map(|(key, pod)| (key.clone(), pod.clone())).unwrap();
    run.on_event(Ok(Event::Delete(pod)));
    let drain = run.drain.unwrap();
    assert_eq!(run.step(drain).await, None);
    assert_eq!(*run.state.lock().unwrap(), Some(0));
}

/// It does not know what has changed before it looked.
#[tokio::test]
async fn a_new_process_tries_each_pod_once_although_the_drain_pauses() {
    let (mut run, requests) = run(Followed::with([budget("1", 0)]));
    let now = Timestamp::now();
    run.step(Drain { started: now, failed: Some(now) }).await;
    let asked = requests.lock().unwrap().clone();
    assert_eq!(asked.len(), 1, "{asked:?}");
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
    let asked = requests.lock().unwrap().clone();
    assert_eq!(asked.len(), 1, "{asked:?}");
    assert!(deadline > Instant::now() + Duration::from_secs(5), "only the attempt ends, or somebody is told");
}

#[tokio::test]
async fn a_daemon_set_that_could_not_be_looked_up_is_looked_up_again_soon() {
    let (mut run, requests) = run(Followed::with([]));
    for pod in run.present.values_mut() {
        let owner = pod.metadata.owner_references.as_mut().unwrap().first_mut().unwrap();
        (owner.kind, owner.name) = ("DaemonSet".to_owned(), "log".to_owned());
    }
    let begun = Drain { started: Timestamp::now(), failed: None };
    let deadline = run.step(begun).await.unwrap();
    let looked_up = |line: &&String| line.ends_with("/daemonsets/log");
    assert_eq!(requests.lock().unwrap().iter().filter(looked_up).count(), 1, "{:?}", requests.lock().unwrap());
    let retry = Duration::try_from(EVICTION_RETRY).unwrap();
    assert!(deadline <= Instant::now() + retry, "not only when the attempt ends");
    assert!(deadline > Instant::now(), "and not without a pause");
    run.step(begun).await;
    assert_eq!(requests.lock().unwrap().iter().filter(looked_up).count(), 2);
}

#[tokio::test]
async fn pods_that_cannot_be_read_are_told_of_as_the_cause_once_that_has_lasted() {
    let (mut run, requests) = run(Followed::with([]));
    let failed = || Err(ApiError { attempt: "watch pods".to_owned(), cause: crate::cluster::Cause::Timeout });
    assert_eq!(run.tell_unread().await, None, "they are about to be read for the first time");
    run.on_event(Ok(Event::Init));
    run.on_event(failed());
    let due = run.tell_unread().await.unwrap();
    assert!(due > Instant::now() && requests.lock().unwrap().is_empty(), "it may be over in a moment");
    run.unread.as_mut().unwrap().0 -= TOLD_AFTER;
    run.on_event(failed());
    assert_eq!(run.tell_unread().await, None);
    assert_eq!(*requests.lock().unwrap(), ["PATCH /api/v1/nodes/node-1"], "and it lasts since the first failure");
    let (_, text) = run.unread.clone().unwrap();
    assert_eq!(text, "the pods of the node are not known: cannot watch pods: the API server did not answer in time");
    run.on_event(Ok(Event::InitDone));
    assert_eq!((run.unread.clone(), run.tell_unread().await), (None, None));
}
