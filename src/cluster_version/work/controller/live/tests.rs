use super::*;
use serde_json::json;

fn object(name: &str, rv: u64, spec: Value) -> Change {
    Change::Applied(Box::new(json!({"metadata": {"name": name, "resourceVersion": rv.to_string(), "generation": rv,
        "uid": "u"}, "spec": spec})))
}

#[test]
fn second_cluster_version_is_named_until_it_is_deleted() {
    let mut latest = Latest::new("version", Vec::new());
    latest.on_change(object("version", 1, json!({"clusterID": "a"})));
    latest.on_change(object("other", 2, json!({})));
    assert!(latest.problems().first().unwrap().contains("\"other\""));
    assert_eq!(latest.live().unwrap().spec.cluster_id, "a");
    latest.on_change(Change::Deleted("other".into()));
    assert!(latest.problems().is_empty());
}

#[test]
fn cluster_version_that_is_being_deleted_counts_as_deleted() {
    let mut latest = Latest::new("version", Vec::new());
    latest.on_change(object("version", 1, json!({"clusterID": "a"})));
    let terminating = json!({"metadata": {"name": "version", "resourceVersion": "2", "uid": "u",
        "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["orphan"]}, "spec": {}});
    latest.on_change(Change::Applied(Box::new(terminating)));
    assert!(latest.live().is_none());
    // A new one may have any resource version.
    latest.on_change(object("version", 1, json!({"clusterID": "b"})));
    assert_eq!(latest.live().unwrap().spec.cluster_id, "b");
}

#[test]
fn older_event_and_unreadable_spec_change_nothing() {
    let mut latest = Latest::new("version", Vec::new());
    latest.on_change(object("version", 5, json!({"channel": "new"})));
    latest.on_change(object("version", 4, json!({"channel": "old"})));
    assert_eq!(latest.live().unwrap().spec.channel, "new");
    latest.on_change(object("version", 6, json!({"channel": 7})));
    assert_eq!(latest.live().unwrap().spec.channel, "new");
    assert!(latest.problems().first().unwrap().contains("cannot be read"));
    latest.on_change(object("version", 7, json!({"channel": "x"})));
    assert!(latest.problems().is_empty());
}

#[test]
fn cluster_version_that_is_made_anew_goes_on_with_the_history() {
    let entry = |version: &str| -> HistoryEntry {
        let entry = json!({"state": "Completed", "startedTime": "2026-01-01T00:00:00Z", "completionTime": null,
            "version": version, "image": "i", "verified": false});
        serde_json::from_value(entry).unwrap()
    };
    let with = |rv: u64, versions: &[&str]| {
        let history: Vec<HistoryEntry> = versions.iter().map(|version| entry(version)).collect();
        Change::Applied(Box::new(
            json!({"metadata": {"name": "version", "resourceVersion": rv.to_string(), "uid": "u"},
            "spec": {}, "status": {"history": history}}),
        ))
    };
    let told = |latest: &Latest| {
        let live = latest.live().unwrap();
        let versions: Vec<String> = live.status.history.iter().map(|entry| entry.version.clone()).collect();
        (versions.join(" "), live.restored)
    };
    // As a process before has recorded it.
    let mut latest = Latest::new("version", vec![entry("1.0.0")]);
    latest.on_change(object("version", 1, json!({})));
    assert_eq!(told(&latest), ("1.0.0".to_owned(), true));
    latest.on_change(with(2, &["1.0.1", "1.0.0"]));
    assert_eq!(told(&latest), ("1.0.1 1.0.0".to_owned(), false));
    // As this process knows it.
    latest.on_change(Change::Deleted("version".into()));
    assert_eq!(latest.history().len(), 2);
    latest.on_change(object("version", 1, json!({})));
    assert_eq!(told(&latest), ("1.0.1 1.0.0".to_owned(), true));
    // A new cluster has none.
    let mut latest = Latest::new("version", Vec::new());
    latest.on_change(object("version", 1, json!({})));
    assert_eq!(told(&latest), (String::new(), false));
}

/// The list breaks off after it has told of the object, and the next one does not have it.
#[tokio::test]
async fn cluster_version_that_goes_while_it_is_listed_is_told_as_deleted() {
    let version = json!({"metadata": {"name": "version"}});
    let broken = ApiError { attempt: "watch".into(), cause: crate::cluster::Cause::Timeout };
    let events =
        vec![Ok(Event::Init), Ok(Event::InitApply(version)), Err(broken), Ok(Event::Init), Ok(Event::InitDone)];
    let (sender, mut receiver) = mpsc::channel(16);
    forward(futures::stream::iter(events).boxed(), sender).await;
    assert!(matches!(receiver.recv().await, Some(Change::Applied(_))));
    assert!(matches!(receiver.recv().await, Some(Change::Deleted(name)) if name == "version"));
    assert!(receiver.recv().await.is_none());
}

/// Collects what is logged.
#[derive(Clone, Default)]
struct Log(std::sync::Arc<std::sync::Mutex<Vec<u8>>>);

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn each_cause_that_keeps_it_from_being_read_is_warned_of_once() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_ansi(false)
        .with_max_level(tracing::Level::WARN)
        .with_writer(move || writer.clone());
    let _logging = tracing::subscriber::set_default(subscriber.finish());
    let failed = |message: &str| {
        let cause = crate::cluster::Cause::Server { code: 403, reason: "Forbidden".into(), message: message.into() };
        Err(ApiError { attempt: "watch clusterversions".to_owned(), cause })
    };
    let events = [failed("no right"), failed("no right"), failed("other"), Ok(Event::InitDone), failed("other")];
    let (sender, _receiver) = mpsc::channel(1);
    forward(futures::stream::iter(events).boxed(), sender).await;
    let text = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    let count = |cause: &str| text.lines().filter(|line| line.contains("WARN") && line.contains(cause)).count();
    assert_eq!((count("no right"), count("other")), (1, 2), "{text}");
}

#[test]
fn process_stops_when_nothing_tells_of_the_cluster_version_any_more() {
    let (mut latest, stop) = (Latest::new("version", Vec::new()), CancellationToken::new());
    assert!(latest.on_told(Some(object("version", 1, json!({}))), &stop) && latest.live().is_some());
    assert!(!stop.is_cancelled());
    assert!(!latest.on_told(None, &stop) && stop.is_cancelled());
}
