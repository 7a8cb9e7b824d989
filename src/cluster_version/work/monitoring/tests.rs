use super::*;
use serde_json::json;

/// Of a process that is not the leader.
pub(crate) fn monitoring() -> Monitoring {
    let own = Payload {
        release: crate::release::api::Release { version: "1.0.0".into(), ..Default::default() },
        built: None,
        major: 1,
        images: Default::default(),
        versions: Default::default(),
        manifests: Vec::new(),
        excluded: Vec::new(),
        hash: String::new(),
        warnings: Vec::new(),
    };
    Monitoring::new(Arc::new(own), None, RequestCounts::default(), Arc::default())
}

#[test]
fn process_that_is_not_the_leader_shows_itself_alone() {
    let monitoring = monitoring();
    let text = monitoring.text();
    assert!(text.contains("cluster_version{type=\"current\",version=\"1.0.0\",image=\"\",from_version=\"\"} 0\n"));
    assert!(text.contains("\nprocess_open_fds ") && text.contains("\ncluster_version_operator_leader 0\n"));
    assert!(!text.contains("cluster_operator_up"));
    monitoring.observe(Observation::default());
    assert!(monitoring.text().contains("\ncluster_version_operator_leader 1\n"));
}

#[test]
fn retrieval_time_moves_with_success_a_changed_request_and_the_first_attempt() {
    let monitoring = monitoring();
    let at = |second| Timestamp::from_second(second).unwrap();
    let mut times = Vec::new();
    for (second, failure, changed) in
        [(1, Some("RemoteFailed"), false), (2, Some("RemoteFailed"), false), (3, None, false), (4, Some("X"), true)]
    {
        monitoring.on_retrieval(failure, changed, at(second));
        times.push(lock(&monitoring.retrieval).retrieved.unwrap().as_second());
    }
    assert_eq!(times, [1, 1, 3, 4]);
    let failures = lock(&monitoring.retrieval).failures.clone();
    assert_eq!(Vec::from_iter(failures), [("RemoteFailed".to_owned(), 2), ("X".to_owned(), 1)]);
}

#[test]
fn missing_keys_of_the_installer_are_called_so() {
    let found = installer("other", &json!({"data": {"version": "v1", "invoker": 3}}));
    assert_eq!((found.version.as_str(), found.invoker.as_str()), ("v1", MISSING));
}

#[test]
fn retrieval_time_of_the_process_before_counts_until_there_is_another() {
    let monitoring = monitoring();
    let at = |second| Timestamp::from_second(second).unwrap();
    let retrieved = || lock(&monitoring.retrieval).retrieved.unwrap().as_second();
    monitoring.on_recorded_retrieval(at(1));
    monitoring.on_retrieval(Some("RemoteFailed"), false, at(5));
    assert_eq!(retrieved(), 1, "a restart gives no new hour of patience");
    monitoring.on_retrieval(None, false, at(6));
    assert_eq!(retrieved(), 6);
}
