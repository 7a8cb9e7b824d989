use super::*;
use crate::cluster_version::api::HistoryState;
use crate::cluster_version::progress::{ComponentRecord, LongestWait, Progress, UpdateRecord};
use serde_json::Value;

fn state(spec: Value) -> State {
    let progress: Progress = serde_json::from_value(spec).unwrap();
    let history: Vec<Value> = progress.updates.iter().map(|update| json!({
        "state": if update.finished.is_some() { "Completed" } else { "Partial" }, "version": update.version, "image": update.image,
        "startedTime": update.started.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(), "verified": true,
        "completionTime": update.finished.map(|end| end.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()),
        "acceptedRisks": if update.version == "1.0.1" { "Forced through blocking failures: signature" } else { "" },
    })).collect();
    let version = json!({"apiVersion": "config.openshift.io/v1", "kind": "ClusterVersion", "metadata": {"name": "version"},
        "spec": {"clusterID": ""}, "status": {"desired": {"version": "1.0.1", "image": "b"}, "history": history, "observedGeneration": 1,
            "versionHash": ""}});
    State {
        cluster_version: Some(serde_json::from_value(version).unwrap()),
        progress: Some(progress),
        ..State::default()
    }
}

fn record() -> State {
    let component = |id: &str, begin: u64, end: u64, retries: u32| ComponentRecord {
        id: id.into(),
        begin,
        end: Some(end),
        retries,
        longest: (retries > 0).then(|| LongestWait {
            object: "ClusterOperator network".into(),
            reason: "ClusterOperatorNotAvailable".into(),
            millis: 6500,
        }),
    };
    let update = |version: &str, image: &str, started: &str, slow: u64| {
        let started: Timestamp = started.parse().unwrap();
        UpdateRecord {
            mode: "update".into(),
            from: "1.0.0".into(),
            version: version.into(),
            image: image.into(),
            started,
            finished: Some(started + jiff::SignedDuration::from_millis(8100 + slow as i64)),
            components: vec![
                component("1/10/api", 0, 1000, 0),
                component("2/20/network", 1000, 8000 + slow, 2),
                component("2/20/dns", 1000, 1500, 0),
            ],
            rollouts: 2,
            ..UpdateRecord::default()
        }
    };
    let updates =
        [update("1.0.1", "b", "2026-01-02T00:00:00Z", 65_000), update("1.0.0-rc", "a", "2026-01-01T00:00:00Z", 0)];
    state(json!({"schema": 1, "release": {"version": "1.0.1", "image": "b"}, "updates": updates}))
}

/// The daemon writes the end into the history and into its record one after the other.
#[test]
fn update_whose_end_is_not_yet_recorded_is_what_the_history_says() {
    let mut state = record();
    let newest = state.progress.as_mut().and_then(|progress| progress.updates.first_mut()).unwrap();
    (newest.finished, newest.components[1].end) = (None, None);
    let view = View::of(&state, "2026-01-02T01:00:00Z".parse().unwrap());
    assert_eq!(title(&view.updates[0]), "Update 1.0.0 → 1.0.1: 1m 13s");
    let history = state.cluster_version.as_mut().and_then(|version| version.status.as_mut()).unwrap();
    history.history[0].state = HistoryState::Partial;
    history.history[0].completion_time = None;
    let view = View::of(&state, "2026-01-02T01:00:00Z".parse().unwrap());
    assert_eq!(title(&view.updates[0]), "Update 1.0.0 → 1.0.1: under way, its last step at 1.5s");
}

#[test]
fn course_of_an_update_as_text() {
    let now = "2026-01-02T01:00:00Z".parse().unwrap();
    let view = View::of(&record(), now);
    let chosen = choose(&view, None, false, false).unwrap();
    let page = Page { width: 100, colours: false, now };
    insta::assert_snapshot!(text(&view, &chosen, 10, false, &page), @r"
    VERSION   STATE      STARTED               TOOK    VERIFIED  RISKS
    1.0.1     Completed  2026-01-02 00:00:00Z  1m 13s  yes       accepted
    1.0.0-rc  Completed  2026-01-01 00:00:00Z  8.0s    yes       -

    Update 1.0.0 → 1.0.1: 1m 13s
      2 attempts failed and were repeated; begun 2 times: another process of the daemon took over, or
      the configuration changed
      Accepted: Forced through blocking failures: signature

      STAGE         TOOK    COMPONENTS  SLOWEST
      1             1.0s    1           api 1.0s
      2             1m 12s  2           network 1m 12s, dns 0.5s
      all in place  0.1s

      Everything else waited for
      api 1.0s → network 1m 12s

      Waited for longest
      6.5s for ClusterOperator network (ClusterOperatorNotAvailable), in network

      Against 1.0.0-rc
      1m 13s now, 8.1s then
      network: 1m 12s now, 7.0s then
    ");
}

#[test]
fn entry_is_chosen_by_version_or_image() {
    let view = View::of(&record(), Timestamp::UNIX_EPOCH);
    assert_eq!(choose(&view, Some("1.0.0-rc"), false, false).unwrap()[0].image, "a");
    assert_eq!(choose(&view, Some("b"), false, false).unwrap()[0].version, "1.0.1");
    assert_eq!(choose(&view, None, true, false).unwrap().len(), 2);
    let unknown = choose(&view, Some("2.0.0"), false, false).unwrap_err().to_string();
    assert_eq!(unknown, "2.0.0 is not in the history of this cluster, which has 1.0.1, 1.0.0-rc");
    let forgotten = View { updates: Vec::new(), ..view };
    let error = choose(&forgotten, Some("1.0.1"), false, false).unwrap_err().to_string();
    assert!(error.contains("kept for the last ten updates"), "{error}");
    let unread = View { remarks: vec!["The progress record cannot be read: forbidden".into()], ..forgotten };
    let error = choose(&unread, Some("1.0.1"), false, true).unwrap_err().to_string();
    assert!(error.contains("cannot be shown. The progress record cannot be read: forbidden"), "{error}");
    let page = Page { width: 100, colours: false, now: Timestamp::UNIX_EPOCH };
    assert!(text(&unread, &[], 10, true, &page).contains("its record cannot be read"), "not: none was made");
}
