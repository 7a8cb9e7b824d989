use super::*;
use kube::client::Body;
use std::sync::atomic::AtomicUsize;

/// A server with a lease held by `me`. It rejects the first writes and answers with these versions in turn, the last of
/// them repeatedly.
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
    Election::new(Client::new(service, "default"), "ns", "version", "me", times)
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
    let successor = Election::new(Client::new(service, "default"), "ns", "version", "me", times);
    let begun = tokio::time::Instant::now();
    assert!(successor.acquire(&CancellationToken::new()).await);
    assert!(begun.elapsed() < 5 * second, "{:?}", begun.elapsed());
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
    let candidate = Election::new(Client::new(service, "default"), "ns", "version", "me", times);
    assert!(!candidate.acquire(&stop).await, "the holder may still write");
    assert!(methods.lock().unwrap().iter().all(|method| *method == http::Method::GET), "{methods:?}");
}

#[test]
fn holder_that_did_not_renew_for_the_whole_duration_has_given_up() {
    let second = Duration::from_secs(1);
    let seen = |duration| Seen { record: Default::default(), since: Instant::now() - 10 * second, duration };
    assert!(seen(11 * second).held().is_some() && seen(9 * second).held().is_none());
}
