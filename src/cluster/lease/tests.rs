use super::*;
use kube::client::Body;
use std::sync::atomic::AtomicUsize;

/// A server with a lease held by `me`. It rejects the first writes and answers with these versions in turn, the last of
/// them repeatedly.
fn result() -> LeaderResult {
    LeaderResult { plural: "clusterversions", name: "version".into(), list: "/status/history" }
}

fn election(refusals: usize, writes: Arc<AtomicUsize>, versions: &'static [u64]) -> Election {
    let (service, mut requests) = tower_test::mock::pair::<http::Request<Body>, http::Response<Body>>();
    tokio::spawn(async move {
        let mut versions = versions.iter().copied();
        let mut version = versions.next().unwrap();
        while let Some((request, answer)) = requests.next_request().await {
            let write = request.method() == http::Method::PUT;
            let refused = write && writes.fetch_add(1, Ordering::Relaxed) < refusals;
            let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
                "metadata": {"name": "version", "resourceVersion": version.to_string()}, "spec": {"holderIdentity": "me"}});
            let code = if refused { 500 } else { 200 };
            let body = Body::from(lease.to_string().into_bytes());
            answer.send_response(http::Response::builder().status(code).body(body).unwrap());
            version = versions.next().unwrap_or(version);
        }
    });
    let second = Duration::from_secs(1);
    let times = Times { duration: 3 * second, renew_deadline: 2 * second, retry: second };
    Election::new(Client::new(service, "default"), "tests", ("ns", "version"), result(), "me", times)
}

#[tokio::test]
async fn failed_release_is_retried() {
    let writes = Arc::new(AtomicUsize::new(0));
    election(2, writes.clone(), &[1]).release().await;
    assert_eq!(writes.load(Ordering::Relaxed), 3, "two rejected, one accepted");
}

#[tokio::test(start_paused = true)]
async fn leader_ends_when_the_cluster_was_restored_from_a_backup() {
    let leader = election(0, Arc::default(), &[10, 11, 11, 12, 12, 13, 7, 8]);
    let stop = CancellationToken::new();
    assert!(leader.acquire(&stop).await);
    let why = leader.keep(&stop).await;
    assert!(why.contains("restored from a backup"), "{why}");
    assert!(!leader.claim.holds(), "nothing is written on the basis of lost data");
}

#[tokio::test(start_paused = true)]
async fn leader_keeps_the_lease_while_versions_increase() {
    let leader = election(0, Arc::default(), &[10, 11, 11, 12, 12, 1000]);
    let stop = CancellationToken::new();
    assert!(leader.acquire(&stop).await);
    let keeping = tokio::time::timeout(Duration::from_secs(600), leader.keep(&stop));
    assert!(keeping.await.is_err(), "it keeps renewing");
}

#[tokio::test(start_paused = true)]
async fn lease_released_between_read_and_watch_is_taken_at_once() {
    let (service, mut requests) = tower_test::mock::pair::<http::Request<Body>, http::Response<Body>>();
    tokio::spawn(async move {
        let lease = |version: u64, holder: &str| {
            json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "version",
                "resourceVersion": version.to_string()}, "spec": {"holderIdentity": holder, "leaseDurationSeconds": 600}})
        };
        let released = lease(6, "");
        let answers = [
            lease(5, "another").to_string(),
            format!("{}\n", json!({"type": "ADDED", "object": released})),
            released.to_string(),
            lease(7, "me").to_string(),
        ];
        for body in answers {
            let (_request, answer) = requests.next_request().await.unwrap();
            answer.send_response(http::Response::builder().status(200).body(Body::from(body.into_bytes())).unwrap());
        }
    });
    let second = Duration::from_secs(1);
    let times = Times { duration: 600 * second, renew_deadline: 300 * second, retry: 100 * second };
    let successor = Election::new(Client::new(service, "default"), "tests", ("ns", "version"), result(), "me", times);
    let begun = tokio::time::Instant::now();
    assert!(successor.acquire(&CancellationToken::new()).await);
    assert!(begun.elapsed() < 5 * second, "{:?}", begun.elapsed());
}

/// API servers send a bookmark after the first state of a watch. It is no change of the lease.
#[tokio::test]
async fn candidate_does_not_ask_again_before_the_lease_changes() {
    let (service, mut requests) = tower_test::mock::pair::<http::Request<Body>, http::Response<Body>>();
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    tokio::spawn(async move {
        let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": "version", "resourceVersion": "5"},
            "spec": {"holderIdentity": "another", "leaseDurationSeconds": 600}});
        let bookmark = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {
            "resourceVersion": "9", "annotations": {"k8s.io/initial-events-end": "true"}}, "spec": {}});
        let events = format!(
            "{}\n{}\n",
            json!({"type": "ADDED", "object": lease}),
            json!({"type": "BOOKMARK", "object": bookmark})
        );
        while let Some((request, answer)) = requests.next_request().await {
            count.fetch_add(1, Ordering::Relaxed);
            let watch = request.uri().query().unwrap_or_default().contains("watch");
            let body = Body::from(if watch { events.clone() } else { lease.to_string() }.into_bytes());
            answer.send_response(http::Response::builder().status(200).body(body).unwrap());
        }
    });
    let second = Duration::from_secs(1);
    let times = Times { duration: 600 * second, renew_deadline: 300 * second, retry: 100 * second };
    let candidate = Election::new(Client::new(service, "default"), "tests", ("ns", "version"), result(), "me", times);
    let waited = tokio::time::timeout(second / 2, candidate.acquire(&CancellationToken::new())).await;
    assert!(waited.is_err(), "another process holds the lease");
    assert_eq!(asked.load(Ordering::Relaxed), 2, "one read and one watch");
}

/// Its holder goes on, and creates it again.
#[tokio::test]
async fn candidate_waits_until_the_holder_of_a_deleted_lease_has_given_up() {
    let (service, mut requests) = tower_test::mock::pair::<http::Request<Body>, http::Response<Body>>();
    let stop = CancellationToken::new();
    let (ended, methods) = (stop.clone(), Arc::new(Mutex::new(Vec::new())));
    let seen = methods.clone();
    tokio::spawn(async move {
        let lease = json!({"metadata": {"name": "version", "resourceVersion": "5"},
            "spec": {"holderIdentity": "another", "leaseDurationSeconds": 600}});
        let missing = json!({"kind": "Status", "code": 404, "reason": "NotFound", "message": "no lease"});
        let deleted = json!({"type": "DELETED", "object": lease});
        let mut reads = 0;
        while let Some((request, answer)) = requests.next_request().await {
            seen.lock().unwrap().push(request.method().clone());
            let watch = request.uri().query().unwrap_or_default().contains("watch");
            reads += usize::from(!watch);
            let (code, body) = match (watch, reads) {
                (true, _) => (200, format!("{deleted}\n")),
                (false, 1) => (200, lease.to_string()),
                _ => (404, missing.to_string()),
            };
            if reads > 3 {
                ended.cancel();
            }
            answer.send_response(http::Response::builder().status(code).body(Body::from(body.into_bytes())).unwrap());
        }
    });
    let second = Duration::from_secs(1);
    let times = Times { duration: 600 * second, renew_deadline: 300 * second, retry: 100 * second };
    let candidate = Election::new(Client::new(service, "default"), "tests", ("ns", "version"), result(), "me", times);
    assert!(!candidate.acquire(&stop).await, "the holder may still write");
    assert!(methods.lock().unwrap().iter().all(|method| *method == http::Method::GET), "{methods:?}");
}

#[test]
fn holder_that_did_not_renew_for_the_whole_duration_has_given_up() {
    let second = Duration::from_secs(1);
    let seen = |duration| Seen { record: Default::default(), since: Instant::now() - 10 * second, duration };
    assert!(seen(11 * second).held().is_some() && seen(9 * second).held().is_none());
}

/// A server that has this ClusterVersion and no lease at first. The lease that is created is there from then on, until the
/// watch that is opened then ends it, once. Returns the requests as `METHOD path`.
fn server_without_lease(history: Value) -> (Election, Arc<Mutex<Vec<String>>>) {
    let (service, mut requests) = tower_test::mock::pair::<http::Request<Body>, http::Response<Body>>();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = seen.clone();
    tokio::spawn(async move {
        let missing = json!({"kind": "Status", "code": 404, "reason": "NotFound", "message": "no lease"});
        let lease = json!({"metadata": {"name": "version", "resourceVersion": "5"}, "spec": {"holderIdentity": "me"}});
        let (mut exists, mut deleted) = (false, false);
        while let Some((request, answer)) = requests.next_request().await {
            let (method, uri) = (request.method().clone(), request.uri().clone());
            let watch = uri.query().unwrap_or_default().contains("watch");
            let what = uri.path().rsplit('/').next().unwrap_or_default();
            log.lock().unwrap().push(format!("{} {what}", if watch { "WATCH" } else { method.as_str() }));
            let (code, body) = if uri.path().contains("clusterversions") {
                (200, json!({"status": {"history": history}}).to_string())
            } else if watch && exists && !deleted {
                (exists, deleted) = (false, true);
                (200, format!("{}\n", json!({"type": "DELETED", "object": lease})))
            } else if watch {
                // The end of a watch that saw nothing.
                (200, String::new())
            } else if method == http::Method::POST || exists {
                exists = true;
                (200, lease.to_string())
            } else {
                (404, missing.to_string())
            };
            answer.send_response(http::Response::builder().status(code).body(Body::from(body.into_bytes())).unwrap());
        }
    });
    let candidate = Election::new(
        Client::new(service, "default"),
        "tests",
        ("ns", "version"),
        result(),
        "me",
        Times::seconds(60, 40, 20),
    );
    (candidate, seen)
}

#[tokio::test(start_paused = true)]
async fn lease_that_is_missing_in_a_new_cluster_is_taken_at_once() {
    let (candidate, _requests) = server_without_lease(json!([]));
    let begun = tokio::time::Instant::now();
    assert!(candidate.acquire(&CancellationToken::new()).await);
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
}

/// Somebody has deleted it, and its holder may be frozen or cut off.
#[tokio::test(start_paused = true)]
async fn lease_that_is_missing_in_a_cluster_that_was_led_is_not_taken_at_once() {
    let (candidate, requests) = server_without_lease(json!([{"version": "1.0.0"}]));
    let stop = CancellationToken::new();
    let acquiring = tokio::time::timeout(Duration::from_secs(59), candidate.acquire(&stop));
    // The duration is measured by the clock of the machine, which the test does not advance.
    assert!(acquiring.await.is_err(), "{:?}", requests.lock().unwrap());
    assert!(!requests.lock().unwrap().iter().any(|request| request.starts_with("POST")), "{requests:?}");
}

#[tokio::test(start_paused = true)]
async fn holder_creates_a_deleted_lease_at_once() {
    let (leader, requests) = server_without_lease(json!([]));
    let stop = CancellationToken::new();
    assert!(leader.acquire(&stop).await);
    let keeping = tokio::time::timeout(Duration::from_secs(10), leader.keep(&stop));
    assert!(keeping.await.is_err(), "it leads on");
    let created = requests.lock().unwrap().iter().filter(|request| *request == "POST leases").count();
    assert_eq!(created, 2, "before the lease had to be renewed: {requests:?}");
    assert!(leader.claim.holds());
}

#[test]
fn write_that_begins_at_the_renew_deadline_ends_before_the_lease_is_free() {
    for topology in [None, Some("HighlyAvailable"), Some("SingleReplica")] {
        let times = Times::of_topology(topology).check().unwrap();
        assert!(times.longest_write() >= Duration::from_secs(30), "no write is cut off earlier than usual: {times:?}");
    }
    assert_eq!(Times::of_topology(Some("SingleReplica")), Times::seconds(270, 240, 60));
    assert_eq!(Times::of_topology(None), Times::seconds(137, 107, 26));
    assert_eq!(Times::seconds(15, 10, 2).check().unwrap().longest_write(), Duration::from_secs(5));
    let gap = Times::seconds(14, 10, 2).check().unwrap_err().to_string();
    assert!(gap.contains("(14s) must be at least 5s longer than the renew deadline (10s)"), "{gap}");
    for times in [Times::seconds(10, 10, 2), Times::seconds(20, 2, 2), Times::seconds(20, 10, 0)] {
        assert!(times.check().unwrap_err().to_string().contains("--lease-retry"), "{times:?}");
    }
}

/// A server that stores what is written, refuses it these times, and returns what was written.
fn storing(refusals: usize) -> (Election, Arc<Mutex<Vec<Value>>>) {
    let (service, mut requests) = tower_test::mock::pair::<http::Request<Body>, http::Response<Body>>();
    let stored = Arc::new(Mutex::new(Vec::new()));
    let log = stored.clone();
    tokio::spawn(async move {
        let mut lease =
            json!({"metadata": {"name": "version", "resourceVersion": "5"}, "spec": {"holderIdentity": "me"}});
        let mut left = refusals;
        while let Some((request, answer)) = requests.next_request().await {
            let refused = json!({"kind": "Status", "code": 500, "reason": "InternalError", "message": "failed calling webhook \"x\""});
            let (code, body) = match *request.method() == http::Method::PUT {
                true if left > 0 => {
                    left -= 1;
                    (500, refused)
                }
                true => {
                    lease = serde_json::from_slice(&request.into_body().collect_bytes().await.unwrap()).unwrap();
                    log.lock().unwrap().push(lease.clone());
                    (200, lease.clone())
                }
                false => (200, lease.clone()),
            };
            let body = Body::from(body.to_string().into_bytes());
            answer.send_response(http::Response::builder().status(code).body(body).unwrap());
        }
    });
    let second = Duration::from_secs(1);
    let times = Times { duration: 400 * second, renew_deadline: 300 * second, retry: 26 * second };
    (Election::new(Client::new(service, "default"), "tests", ("ns", "version"), result(), "me", times), stored)
}

#[tokio::test(start_paused = true)]
async fn what_kept_the_leader_from_renewing_is_told_once_it_can_again() {
    let (leader, stored) = storing(0);
    let stop = CancellationToken::new();
    assert!(leader.acquire(&stop).await);
    let every =
        |lease: &Value| lease.pointer("/metadata/annotations/release.openshift.io~1renewed-every-seconds").cloned();
    assert_eq!(every(&stored.lock().unwrap()[0]), Some(json!("26")), "whoever looks knows when a renewal is late");
    assert_eq!(*leader.outages().borrow(), None);

    let (leader, _) = storing(3);
    *leader.claim.valid_until.lock().unwrap() = Some(Instant::now() + Duration::from_secs(300));
    let mut outages = leader.outages();
    tokio::select! {
        why = leader.keep(&stop) => panic!("{why}"),
        told = outages.changed() => told.unwrap(),
    }
    let outage = outages.borrow().clone().unwrap();
    assert!(outage.why.contains("failed calling webhook") && outage.since <= outage.until, "{outage:?}");
}

#[tokio::test]
async fn lease_says_what_its_holder_cannot_write_until_it_can() {
    let (leader, stored) = storing(0);
    let note = |lease: &Value| lease.pointer("/metadata/annotations/release.openshift.io~1not-written").cloned();
    let last = || stored.lock().unwrap().last().cloned().unwrap();
    leader.note.failed("cannot update the status: denied");
    assert!(leader.renew().await.unwrap());
    assert_eq!(note(&last()), None, "it may be over in a moment");
    *leader.note.since.lock().unwrap() = Some(("2026-01-01T00:00:00Z".parse().unwrap(), "denied".into()));
    leader.note.failed("cannot update the status: denied again");
    assert!(leader.renew().await.unwrap());
    assert_eq!(note(&last()), Some(json!("2026-01-01T00:00:00Z cannot update the status: denied again")));
    leader.note.over();
    tokio::time::timeout(Duration::from_secs(5), leader.note.over.notified())
        .await
        .expect("the lease is renewed at once");
    assert!(leader.renew().await.unwrap());
    assert_eq!(note(&last()), None);
}
