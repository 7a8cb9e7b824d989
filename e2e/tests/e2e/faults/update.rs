//! Install, update with self-replacement, and the order in which an update writes.

use cvo::api::{ClusterVersion, HistoryState};
use jiff::Timestamp;

use e2e::{
    harness::audit,
    theatre::{Theatre, release::COMPONENTS},
};

/// Version, state, verified; newest first.
pub fn rows(object: &ClusterVersion) -> Vec<(String, HistoryState, bool)> {
    let history = &object.status.as_ref().unwrap().history;
    history.iter().map(|entry| (entry.version.clone(), entry.state, entry.verified)).collect()
}

/// Entries are newest first, and each that is over has ended after it began.
pub fn assert_times_in_order(object: &ClusterVersion) {
    let history = &object.status.as_ref().unwrap().history;
    let starts: Vec<Timestamp> = history.iter().map(|entry| entry.started_time.0).collect();
    assert!(starts.is_sorted_by(|newer, older| newer >= older), "{history:?}");
    for entry in history {
        let ended = entry.completion_time.as_ref().map(|time| time.0);
        assert!(ended.is_some_and(|ended| ended >= entry.started_time.0), "{entry:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_update_is_handed_over_and_completed() {
    let (mut theatre, releases) = Theatre::open(&["1.0.0", "1.0.1"]).await;
    theatre.run_daemon();
    let installed = theatre.completed(&releases[0]).await;
    assert_eq!(rows(&installed), [("1.0.0".to_owned(), HistoryState::Completed, false)]);

    theatre.ask_for(&releases[1]).await;
    let updated = theatre.completed(&releases[1]).await;

    let expected =
        [("1.0.1".to_owned(), HistoryState::Completed, true), ("1.0.0".to_owned(), HistoryState::Completed, false)];
    assert_eq!(rows(&updated), expected);
    assert_times_in_order(&updated);
    let images: Vec<&str> = releases.iter().map(|release| release.image.as_str()).collect();
    assert_eq!(theatre.past_pods().await, images, "one pod a release");
    theatre.close().await;
}

/// §10.11: the others of a stage end, later stages do not begin.
#[tokio::test(flavor = "multi_thread")]
async fn no_stage_is_begun_before_the_gates_of_the_last_one_are_open() {
    let (mut theatre, releases) = Theatre::open(&["1.0.0", "1.0.1"]).await;
    theatre.run_daemon();
    theatre.completed(&releases[0]).await;
    let begun = Timestamp::now();
    theatre.crew.hold("beta");
    theatre.ask_for(&releases[1]).await;
    theatre
        .until_progress("gamma done and beta waited for", |progress| {
            let node = |name: &str| progress.nodes.iter().find(|node| node.id.ends_with(name));
            let waiting = node("/beta").is_some_and(|node| node.waiting.iter().any(|w| w.kind == "ClusterOperator"));
            progress.release.version == "1.0.1" && waiting && node("/gamma").is_some_and(|node| node.done == node.total)
        })
        .await;
    let held = theatre.writes();
    assert_eq!(
        held.iter().filter(|write| write.at > begun && of(write, "delta")).collect::<Vec<_>>(),
        Vec::<&audit::Request>::new()
    );
    theatre.crew.release("beta");
    theatre.completed(&releases[1]).await;

    let opened = theatre.crew.opened();
    let writes = theatre.writes();
    for (level, component) in COMPONENTS {
        let first = writes.iter().find(|write| write.at > begun && of(write, component));
        let first = first.unwrap_or_else(|| panic!("nothing of {component} was written in the update"));
        for (_, earlier) in COMPONENTS.iter().filter(|(other, _)| *other < level) {
            let gate = opened.iter().find(|gate| gate.component == *earlier && gate.version == "1.0.1").unwrap();
            assert!(first.at > gate.at, "{first:?} came before the gate of {earlier} opened at {}", gate.at);
        }
    }
    theatre.close().await;
}

/// Whether a write was to an object of the component.
fn of(write: &audit::Request, component: &str) -> bool {
    write.namespace == component || write.name == component || write.name.starts_with(&format!("{component}-"))
}
