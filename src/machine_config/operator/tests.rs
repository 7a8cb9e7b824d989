use super::*;
use serde_json::{Value, json};

fn at(minutes: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_mins(minutes)
}

fn pool(name: &str, updated: i32, total: i32) -> PoolSummary {
    let counts = Counts { updated, total, ..Counts::default() };
    PoolSummary {
        name: name.into(),
        required: name == "master",
        counts,
        updated: updated == total,
        ..PoolSummary::default()
    }
}

fn facts(pools: Vec<PoolSummary>) -> OperatorFacts {
    OperatorFacts { version: "1.1".into(), image: "r/i@1.1".into(), pools, ..OperatorFacts::default() }
}

fn old() -> ClusterOperatorStatus {
    let versions = json!([{"name": "operator", "version": "1.0"}, {"name": "other", "version": "7"}, {"name": "operator-image", "version": "r/i@1.0"}]);
    ClusterOperatorStatus { versions: serde_json::from_value(versions).unwrap(), ..ClusterOperatorStatus::default() }
}

/// Status, reason and message.
fn says<'a>(status: &'a ClusterOperatorStatus, type_: &str) -> (bool, &'a str, &'a str) {
    let found = find(&status.conditions, type_).unwrap();
    (found.status == ConditionStatus::True, &found.reason, &found.message)
}

fn versions(status: &ClusterOperatorStatus) -> Vec<(&str, &str)> {
    status.versions.iter().map(|version| (version.name.as_str(), version.version.as_str())).collect()
}

const OLD: [(&str, &str); 3] = [("operator", "1.0"), ("other", "7"), ("operator-image", "r/i@1.0")];
const NEW: [(&str, &str); 3] = [("operator", "1.1"), ("operator-image", "r/i@1.1"), ("other", "7")];

#[test]
fn nodes_of_a_new_cluster_have_to_be_configured_once_before_it_is_available() {
    let first = status(&ClusterOperatorStatus::default(), &facts(vec![pool("master", 1, 3)]), at(0));
    let text = "Nodes do not have their first configuration yet";
    assert_eq!(says(&first, "Available"), (false, "FirstConfiguration", text));
    let done = status(&first, &facts(vec![pool("master", 3, 3)]), at(1));
    assert!(says(&done, "Available").0);
    let next = OperatorFacts { version: "1.2".into(), ..facts(vec![pool("master", 0, 3)]) };
    assert!(says(&status(&done, &next, at(2)), "Available").0, "the cluster has what it had before");
}

#[test]
fn versions_are_published_when_the_required_pools_are_done_and_the_others_roll_on() {
    let first = status(&old(), &facts(vec![pool("master", 1, 3), pool("worker", 4, 40)]), at(0));
    assert_eq!(says(&first, "Progressing"), (true, "RollingOut", "Working towards 1.1: master 1/3, worker 4/40"));
    assert_eq!((versions(&first), says(&first, "Available").0), (OLD.to_vec(), true));
    let done = facts(vec![pool("master", 3, 3), pool("worker", 5, 40)]);
    let second = status(&first, &done, at(1));
    assert_eq!(versions(&second), NEW);
    assert!(says(&second, "Progressing").0, "until the versions have been written");
    let third = status(&second, &done, at(2));
    assert_eq!(
        says(&third, "Progressing"),
        (false, "AsExpected", "Cluster version is 1.1; still rolling out: worker 5/40")
    );
    let fourth = status(&third, &facts(vec![pool("master", 3, 3), pool("worker", 40, 40)]), at(3));
    assert_eq!(says(&fourth, "Progressing").2, "Cluster version is 1.1");
    assert_eq!(status(&fourth, &facts(vec![pool("master", 3, 3), pool("worker", 40, 40)]), at(9)), fourth);
}

#[test]
fn nothing_is_published_without_a_required_pool_or_for_another_release() {
    assert_eq!(versions(&status(&old(), &facts(vec![pool("worker", 1, 1)]), at(0))), OLD);
    assert_eq!(versions(&status(&old(), &facts(vec![]), at(0))), OLD);
    let outdated = PoolSummary { invalid: Some("rendered for 1.0".into()), ..pool("master", 3, 3) };
    let found = status(&old(), &facts(vec![outdated]), at(0));
    assert_eq!((versions(&found), says(&found, "Progressing").0), (OLD.to_vec(), true));
}

#[test]
fn image_alone_may_differ() {
    let same = OperatorFacts { version: "1.0".into(), image: "r/i@arm".into(), ..facts(vec![pool("master", 0, 1)]) };
    let found = status(&old(), &same, at(0));
    assert_eq!((versions(&found), says(&found, "Progressing").0), (OLD.to_vec(), true));
    let done = OperatorFacts { pools: vec![pool("master", 1, 1)], ..same };
    assert_eq!(versions(&status(&old(), &done, at(0)))[1], ("operator-image", "r/i@arm"));
}

#[test]
fn paused_required_pool_is_told_at_once_and_a_paused_worker_pool_holds_nothing() {
    let paused = |pool: PoolSummary| PoolSummary { paused: true, ..pool };
    let found = status(&old(), &facts(vec![paused(pool("master", 0, 3))]), at(0));
    assert_eq!(says(&found, "Progressing"), (true, "PausedPool", "Working towards 1.1: master 0/3 (paused)"));
    assert!(!says(&found, "Degraded").0);
    let found = status(&old(), &facts(vec![pool("master", 3, 3), paused(pool("worker", 0, 3))]), at(0));
    assert_eq!(versions(&found), NEW);
}

#[test]
fn degraded_worker_pool_warns_and_holds_nothing() {
    let degraded =
        |pool: PoolSummary, minute| PoolSummary { degraded: Some(("node a: no room".into(), at(minute))), ..pool };
    let found = status(&old(), &facts(vec![pool("master", 3, 3), degraded(pool("worker", 0, 3), 0)]), at(60));
    assert_eq!(
        says(&found, "Upgradeable"),
        (false, "DegradedPool", "One or more pools are degraded: worker: node a: no room")
    );
    assert_eq!((versions(&found), says(&found, "Degraded").0), (NEW.to_vec(), false));
    // One that the update waits for may recover for ten minutes.
    let waits = facts(vec![degraded(pool("master", 1, 3), 0)]);
    assert!(!says(&status(&old(), &waits, at(9)), "Degraded").0);
    let found = status(&old(), &waits, at(10));
    assert_eq!(says(&found, "Degraded"), (true, "RequiredPoolsFailed", "master: node a: no room"));
    // It is not published while it is degraded, whatever the counts say.
    let counted = facts(vec![degraded(pool("master", 3, 3), 0)]);
    assert_eq!(versions(&status(&old(), &counted, at(10))), OLD);
}

#[test]
fn error_stays_until_what_failed_succeeds() {
    let mut broken = facts(vec![pool("master", 3, 3)]);
    broken.errors = [("RenderConfig".into(), "no room".into()), ("Drain".into(), "forbidden".into())].into();
    let found = status(&old(), &broken, at(0));
    assert_eq!(says(&found, "Degraded"), (true, "DrainFailed", "Drain: forbidden; RenderConfig: no room"));
    assert_eq!(versions(&found), OLD);
    broken.errors.remove("Drain");
    assert_eq!(says(&status(&found, &broken, at(1)), "Degraded").1, "RenderConfigFailed");
    broken.errors.clear();
    let found = status(&found, &broken, at(2));
    assert_eq!((says(&found, "Degraded").0, versions(&found)), (false, NEW.to_vec()));
}

#[test]
fn pools_that_roll_do_not_keep_the_next_update_away_and_say_how_long_they_take() {
    let rolls = PoolSummary {
        remaining: Some(SignedDuration::from_secs(130)),
        blocked: Some("2 nodes wait".into()),
        ..pool("worker", 1, 3)
    };
    let found = status(&old(), &facts(vec![pool("master", 0, 1), rolls]), at(0));
    assert!(says(&found, "Upgradeable").0);
    assert_eq!(
        says(&found, "Progressing").2,
        "Working towards 1.1: master 0/1, worker 1/3 (about 2 minutes left; 2 nodes wait)"
    );
}

#[test]
fn rendered_configuration_is_one_of_the_release_that_made_it() {
    let rendered = |by: &str, of: &str, image: &str, overridden: &str| {
        let annotations: Value = [(GENERATED_BY, by), (RELEASE_VERSION, of), (OS_IMAGE_OVERRIDDEN, overridden)]
            .into_iter()
            .map(|(key, value)| (key.to_owned(), json!(value)))
            .collect();
        let object = json!({"apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig",
            "metadata": {"name": "rendered-master-1", "annotations": annotations}, "spec": {"osImageURL": image}});
        serde_json::from_value::<MachineConfig>(object).unwrap()
    };
    for (object, expected) in [
        (rendered("c2", "1.1", "os", ""), None),
        (rendered("c2", "1.1", "mine", "true"), None),
        (rendered("c1", "1.1", "os", ""), Some("was rendered by version \"c1\"")),
        (rendered("c2", "1.0", "os", ""), Some("was rendered for release \"1.0\"")),
        (rendered("c2", "1.1", "mine", "false"), Some("has the operating system \"mine\"")),
    ] {
        let found = invalid(&object, "c2", "1.1", &["os".to_owned()]);
        assert!(found.as_deref().unwrap_or_default().contains(expected.unwrap_or_default()), "{found:?}");
        assert_eq!(found.is_some(), expected.is_some());
    }
}

#[test]
fn nodes_that_no_pool_selects_are_told_of_as_long_as_there_are_any() {
    let said =
        |status: &ClusterOperatorStatus| find(&status.conditions, NODES_WITHOUT_POOL).map(|it| it.message.clone());
    let facts =
        OperatorFacts { without_pool: vec!["node a".to_owned(), "node b".to_owned()], ..OperatorFacts::default() };
    let told = status(&ClusterOperatorStatus::default(), &facts, Timestamp::UNIX_EPOCH);
    assert_eq!(said(&told).as_deref(), Some("node a; node b"));
    assert_eq!(find(&told.conditions, "Degraded").unwrap().status, ConditionStatus::False, "it is no fault");
    let none = status(&told, &OperatorFacts::default(), Timestamp::UNIX_EPOCH);
    assert_eq!(said(&none), None);
}

#[test]
fn operator_names_each_pool_however_much_another_one_says() {
    let troubled = |name: &str, text: &str| PoolSummary {
        degraded: Some((text.repeat(8 << 10), at(0))),
        blocked: Some(text.repeat(8 << 10)),
        ..pool(name, 1, 3)
    };
    let found = status(&old(), &facts(vec![troubled("infra", "x"), troubled("master", "y")]), at(60));
    for type_ in ["Degraded", "Progressing", "Upgradeable"] {
        let (_, _, message) = says(&found, type_);
        assert!(message.contains("master") && message.len() < 3000, "{type_}: {message}");
    }
}
