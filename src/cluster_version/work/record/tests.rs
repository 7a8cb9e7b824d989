use super::*;
use crate::cluster_version::progress::{Advice, NodeProgress, RecordedVerdict, UpdateRecord, WaitingFor};
use jiff::Timestamp;
use kube::Client;
use kube::client::Body;
use std::sync::{Arc, Mutex};

/// Even without another change, because the last record of an update has to be correct.
#[tokio::test]
async fn record_is_written_after_a_failed_write() {
    let (service, mut requests) = tower_test::mock::pair::<http::Request<Body>, http::Response<Body>>();
    let methods = Arc::new(Mutex::new(Vec::new()));
    let seen = methods.clone();
    let (rewritten, mut done) = watch::channel(false);
    tokio::spawn(async move {
        while let Some((request, respond)) = requests.next_request().await {
            let writes = seen.lock().unwrap().iter().filter(|method| **method == http::Method::PUT).count();
            seen.lock().unwrap().push(request.method().clone());
            let write = request.method() == http::Method::PUT;
            let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": CONFIG_MAP}});
            let code = if write && writes == 0 { 500 } else { 200 };
            let body = Body::from(map.to_string().into_bytes());
            respond.send_response(http::Response::builder().status(code).body(body).unwrap());
            rewritten.send_replace(write && writes == 1);
        }
    });
    let objects = Objects::new(Client::new(service, "default"), "tests", Arc::new(|| true));
    let (records, received) = watch::channel(Progress::default());
    let stop = CancellationToken::new();
    let keeping = tokio::spawn(keep(objects, "ns".to_owned(), None, received, stop.clone()));
    records.send_replace(Progress { schema: SCHEMA, nodes: vec![NodeProgress::default()], ..Progress::default() });
    let written = done.wait_for(|rewritten| *rewritten);
    assert!(tokio::time::timeout(Duration::from_secs(60), written).await.is_ok(), "{:?}", methods.lock().unwrap());
    stop.cancel();
    keeping.await.unwrap();
}

#[tokio::test]
async fn first_write_needs_no_read() {
    let (service, mut requests) = tower_test::mock::pair::<http::Request<Body>, http::Response<Body>>();
    let objects = Objects::new(Client::new(service, "default"), "tests", Arc::new(|| true));
    let answering = tokio::spawn(async move {
        let mut methods = Vec::new();
        for version in ["7", "8"] {
            let (request, respond) = requests.next_request().await.unwrap();
            methods.push(request.method().clone());
            let map = json!({"metadata": {"name": CONFIG_MAP, "resourceVersion": version}});
            respond.send_response(http::Response::new(Body::from(map.to_string().into_bytes())));
        }
        methods
    });
    let recorded = read(&objects, "ns").await.unwrap();
    let (records, received) = watch::channel(Progress::default());
    let keeping = tokio::spawn(keep(objects, "ns".to_owned(), recorded.live, received, CancellationToken::new()));
    records.send_replace(Progress { schema: SCHEMA, ..Progress::default() });
    assert_eq!(answering.await.unwrap(), [http::Method::GET, http::Method::PUT]);
    drop(records);
    keeping.await.unwrap();
}

/// Other changes wait for a second after the last write.
#[tokio::test(start_paused = true)]
async fn end_of_an_update_is_written_at_once() {
    let (service, mut requests) = tower_test::mock::pair::<http::Request<Body>, http::Response<Body>>();
    let objects = Objects::new(Client::new(service, "default"), "tests", Arc::new(|| true));
    let map = json!({"metadata": {"name": CONFIG_MAP, "resourceVersion": "7"}});
    let (records, received) = watch::channel(Progress::default());
    let keeping = tokio::spawn(keep(objects, "ns".to_owned(), Some(map.clone()), received, CancellationToken::new()));
    let begun = tokio::time::Instant::now();
    let mut written = async |record: &Progress| {
        records.send_replace(record.clone());
        let (request, respond) = requests.next_request().await.unwrap();
        assert_eq!(request.method(), http::Method::PUT);
        respond.send_response(http::Response::new(Body::from(map.to_string().into_bytes())));
        begun.elapsed()
    };
    let update = UpdateRecord { version: "1.0.1".to_owned(), ..UpdateRecord::default() };
    let mut record = Progress { schema: SCHEMA, updates: vec![update], ..Progress::default() };
    assert_eq!(written(&record).await, Duration::ZERO);
    record.updates[0].rollouts = 1;
    assert_eq!(written(&record).await.as_secs(), 1);
    record.updates[0].finished = Some(Timestamp::UNIX_EPOCH);
    assert_eq!(written(&record).await.as_secs(), 1, "at once");
    record.updates[0].rollouts = 2;
    assert_eq!(written(&record).await.as_secs(), 2, "what was over before is not news");
    drop(records);
    keeping.await.unwrap();
}

/// Answers every write with this code, and counts them.
fn rejecting(code: u16) -> (Objects, Arc<Mutex<usize>>) {
    let (service, mut requests) = tower_test::mock::pair::<http::Request<Body>, http::Response<Body>>();
    let writes = Arc::new(Mutex::new(0));
    let seen = writes.clone();
    tokio::spawn(async move {
        while let Some((request, respond)) = requests.next_request().await {
            let write = request.method() != http::Method::GET;
            *seen.lock().unwrap() += usize::from(write);
            let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": CONFIG_MAP}});
            let rejected = json!({"kind": "Status", "apiVersion": "v1", "code": code, "message": "no"});
            let (code, body) = if write { (code, rejected) } else { (200, map) };
            let body = Body::from(body.to_string().into_bytes());
            respond.send_response(http::Response::builder().status(code).body(body).unwrap());
        }
    });
    (Objects::new(Client::new(service, "default"), "tests", Arc::new(|| true)), writes)
}

#[tokio::test(start_paused = true)]
async fn record_that_the_server_rejects_is_written_less_and_less_often() {
    for code in [403, 413, 422] {
        let (objects, writes) = rejecting(code);
        let (records, received) = watch::channel(Progress::default());
        let stop = CancellationToken::new();
        let keeping = tokio::spawn(keep(objects, "ns".to_owned(), None, received, stop.clone()));
        // It changes every second, as that of an update under way.
        for done in 0..600 {
            let rollout = crate::cluster_version::progress::Rollout { done, ..Default::default() };
            records.send_replace(Progress { schema: SCHEMA, rollout, ..Progress::default() });
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        let writes = *writes.lock().unwrap();
        assert!((5..20).contains(&writes), "{writes} writes in ten minutes, all answered by {code}");
        stop.cancel();
        keeping.await.unwrap();
    }
}

#[test]
fn long_texts_and_many_nodes_fit_into_the_record() {
    let waiting = WaitingFor { message: "it waits ".repeat(500), ..WaitingFor::default() };
    let node = |n: usize, state| NodeProgress {
        id: format!("1/10/component-{n}"),
        state,
        waiting: vec![waiting.clone()],
        error: format!("cannot apply: {}: the end", "no such function; ".repeat(200)),
        ..NodeProgress::default()
    };
    let read = |record: &Progress| {
        let text = bounded(record);
        assert!(text.len() <= LIMIT, "{} bytes", text.len());
        serde_json::from_str::<Progress>(&text).unwrap()
    };
    let few = Progress { schema: SCHEMA, nodes: vec![node(1, NodeState::Failing)], ..Progress::default() };
    let [node_read] = read(&few).nodes.try_into().unwrap();
    assert!(node_read.error.len() <= CAUSE && node_read.error.ends_with(": the end"), "{}", node_read.error);
    let many = |state| (0..5000).map(move |n| node(n, state));
    let nodes = many(NodeState::Done).chain(many(NodeState::Failing)).collect();
    let kept = read(&Progress { nodes, ..few.clone() });
    assert!(!kept.nodes.is_empty() && kept.nodes.iter().all(|node| node.state == NodeState::Failing));
    assert_eq!(kept.nodes.len() + kept.nodes_left_out, 10_000);
    let verdict = RecordedVerdict { matches: true, evaluated: jiff::Timestamp::UNIX_EPOCH };
    let verdicts = (0..9000).map(|n| (format!("{n:032}"), verdict)).collect();
    let advice = Advice { channel: "stable".into(), verdicts, ..Advice::default() };
    let kept = read(&Progress { advice: Some(advice), ..few }).advice.unwrap();
    assert!(kept.channel == "stable" && !kept.verdicts.is_empty(), "{}", kept.verdicts.len());
}

proptest::proptest! {
    #[test]
    fn record_is_bounded_whatever_it_holds(text in ".{0,40}", times in 0usize..2000, count in 0usize..3000) {
        let long = text.repeat(times);
        let map = (0..count).map(|n| (format!("{n}{text}"), 1.0)).collect();
        let node = NodeProgress { id: long.clone(), error: long.clone(), ..NodeProgress::default() };
        let mut record = Progress { schema: SCHEMA, nodes: vec![node; count.min(50)], durations: map, ..Progress::default() };
        record.payloads.insert(long.clone(), long.clone());
        record.release.version = long;
        let text = bounded(&record);
        assert!(text.len() <= LIMIT, "{} bytes", text.len());
        assert_eq!(serde_json::from_str::<Progress>(&text).unwrap().schema, SCHEMA);
    }
}
