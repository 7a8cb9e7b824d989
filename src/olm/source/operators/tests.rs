use super::*;
use crate::object::cluster_operator::ClusterOperator;
use crate::object::yaml;
use crate::olm::api::{GLOBAL_CATALOG_NAMESPACE, NAMESPACE, cluster_operator};

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_000_000 + seconds).unwrap()
}

fn subject(version: &str) -> Subject<'_> {
    Subject { version, namespace: NAMESPACE }
}

/// Type, status as a letter, and message.
fn said(status: &ClusterOperatorStatus) -> Vec<String> {
    let said = |condition: &Condition| {
        let status = if condition.status == ConditionStatus::True { "+" } else { "-" };
        format!("{status}{} {}: {}", condition.type_, condition.reason, condition.message)
    };
    status.conditions.iter().map(said).collect()
}

fn versions_of(status: &ClusterOperatorStatus) -> Vec<(&str, &str)> {
    status.versions.iter().map(|version| (version.name.as_str(), version.version.as_str())).collect()
}

fn progress(done: bool, errors: &[&str]) -> Progress {
    Progress { done, errors: errors.iter().map(|error| error.to_string()).collect() }
}

#[test]
fn catalog_loop_is_available_once_it_has_seen_and_written_everything() {
    let new = ClusterOperatorStatus::default();
    let first = catalog(&new, subject("1.0.0"), &progress(false, &[]), at(1));
    assert_eq!(
        said(&first),
        [
            "-Available Starting: ",
            "+Progressing Starting: Waiting to see update 1.0.0 succeed",
            "-Upgradeable Starting: ",
            "-Degraded AsExpected: ",
        ]
    );
    assert_eq!(versions_of(&first), []);
    let done = catalog(&first, subject("1.0.0"), &progress(true, &[]), at(2));
    assert_eq!(
        said(&done),
        [
            "+Available AsExpected: ",
            "-Progressing AsExpected: Deployed 1.0.0",
            "+Upgradeable AsExpected: ",
            "-Degraded AsExpected: ",
        ]
    );
    assert_eq!(versions_of(&done), [("operator", "1.0.0"), ("operator-lifecycle-manager", "1.0.0")]);
    assert_eq!(done.conditions[0].last_transition_time, Time(at(2)));
    assert_eq!(done.conditions[3].last_transition_time, Time(at(1)));
}

#[test]
fn process_that_begins_anew_changes_nothing_and_one_of_another_version_is_available_all_the_while() {
    for report in [catalog, marketplace] {
        let done = report(&ClusterOperatorStatus::default(), subject("1.0.0"), &progress(true, &[]), at(1));
        assert_eq!(report(&done, subject("1.0.0"), &progress(false, &[]), at(2)), done);
        let next = report(&done, subject("1.1.0"), &progress(false, &[]), at(3));
        assert_eq!(
            said(&next)[..2],
            ["+Available AsExpected: ", "+Progressing Starting: Waiting to see update 1.1.0 succeed"]
        );
        assert!(versions_of(&next).iter().all(|(_, version)| *version == "1.0.0"), "{next:?}");
        let next = report(&next, subject("1.1.0"), &progress(true, &[]), at(4));
        assert!(versions_of(&next).iter().all(|(_, version)| *version == "1.1.0"), "{next:?}");
    }
}

#[test]
fn what_keeps_failing_degrades() {
    for report in [catalog, marketplace] {
        let progress = progress(true, &["catalog one: forbidden", "catalog two: forbidden"]);
        let status = report(&ClusterOperatorStatus::default(), subject("1.0.0"), &progress, at(1));
        assert_eq!(said(&status)[3], "+Degraded WorkFails: catalog one: forbidden; catalog two: forbidden");
        assert_eq!(said(&status)[0], "+Available AsExpected: ");
    }
}

#[test]
fn api_of_packages_reports_what_scripts_know_from_its_service_version() {
    let new = ClusterOperatorStatus::default();
    let starting = package_server(&new, subject("1.0.0"), &Packages::Starting, at(1));
    assert_eq!(
        said(&starting),
        [
            "-Available ClusterServiceVersionNotSucceeded: Working toward 1.0.0",
            "+Progressing Starting: Working toward 1.0.0",
            "-Degraded AsExpected: ",
            "+Upgradeable AsExpected: Safe to upgrade",
        ]
    );
    let served = package_server(&starting, subject("1.0.0"), &Packages::Served, at(2));
    assert_eq!(
        said(&served)[..3],
        [
            "+Available ClusterServiceVersionSucceeded: Packages can be asked for",
            "-Progressing AsExpected: Deployed version 1.0.0",
            "-Degraded AsExpected: ",
        ]
    );
    assert_eq!(versions_of(&served), [("operator", "1.0.0"), ("packageserver", "1.0.0")]);
    assert_eq!(package_server(&served, subject("1.0.0"), &Packages::Starting, at(3)), served);
    let next = package_server(&served, subject("1.1.0"), &Packages::Starting, at(3));
    assert_eq!(said(&next)[..2], [&said(&served)[0], "+Progressing Starting: Working toward 1.1.0"]);
    let failed = package_server(&next, subject("1.1.0"), &Packages::Failed("no route".into()), at(4));
    assert_eq!(
        said(&failed)[..3],
        [
            "-Available ClusterServiceVersionNotSucceeded: no route",
            "-Progressing ClusterServiceVersionNotSucceeded: Failed to deploy 1.1.0",
            "+Degraded ClusterServiceVersionNotSucceeded: no route",
        ]
    );
    assert_eq!(versions_of(&failed), versions_of(&served));
}

#[test]
fn conditions_and_extension_of_others_stay() {
    let condition = Condition {
        type_: "Other".into(),
        status: ConditionStatus::Unknown,
        last_transition_time: Time(at(0)),
        reason: "Theirs".into(),
        message: String::new(),
    };
    let extension = Some(serde_json::json!({"a": 1}));
    let before = ClusterOperatorStatus { conditions: vec![condition.clone()], extension, ..Default::default() };
    let status = catalog(&before, subject("1.0.0"), &progress(true, &[]), at(1));
    assert_eq!((&status.conditions[0], &status.extension), (&condition, &before.extension));
}

/// So that nothing is written when the process takes over what the release has made.
#[test]
fn related_objects_are_those_of_the_release() {
    let text = include_bytes!("../../../../manifests/olm/0000_50_olm_90_clusteroperators.yaml");
    let documents = yaml::documents(text).unwrap();
    let manifest = |name: &str| {
        let mut all =
            documents.iter().map(|document| serde_json::from_value::<ClusterOperator>(document.value.clone()).unwrap());
        let found = all.find(|operator| operator.metadata.name.as_deref() == Some(name)).unwrap();
        found.status.unwrap().related_objects
    };
    let new = ClusterOperatorStatus::default();
    let (own, global) = (subject("1.0.0"), Subject { version: "1.0.0", namespace: GLOBAL_CATALOG_NAMESPACE });
    for (name, status) in [
        (cluster_operator::CATALOG, catalog(&new, own, &Progress::default(), at(1))),
        (cluster_operator::LIFECYCLE, lifecycle(&new, own, (&Progress::default(), &Fit::Unknown), at(1))),
        (cluster_operator::MARKETPLACE, marketplace(&new, global, &Progress::default(), at(1))),
        (cluster_operator::PACKAGE_SERVER, package_server(&new, own, &Packages::Starting, at(1))),
    ] {
        assert_eq!(status.related_objects, manifest(name), "{name}");
    }
}

#[test]
fn operators_that_do_not_fit_hold_the_next_minor_version_and_a_restart_lets_nothing_pass() {
    let upgradeable = |status: &ClusterOperatorStatus| {
        said(status).into_iter().find(|it| it.contains("Upgradeable")).unwrap_or_default()
    };
    let report = |before: &ClusterOperatorStatus, done: bool, fit: &Fit, seconds: i64| {
        lifecycle(before, subject("1.0.0"), (&progress(done, &[]), fit), at(seconds))
    };
    let first = report(&ClusterOperatorStatus::default(), false, &Fit::Unknown, 1);
    assert_eq!(upgradeable(&first), "-Upgradeable Starting: ");
    // Work is done, and what is installed has not been looked at.
    let done = report(&first, true, &Fit::Unknown, 2);
    assert_eq!(upgradeable(&done), "-Upgradeable Starting: ");
    let fits = report(&done, true, &Fit::All, 3);
    assert_eq!(upgradeable(&fits), "+Upgradeable AsExpected: ");
    let held = report(&fits, true, &Fit::Hindered("R", "m".to_owned()), 4);
    assert_eq!(upgradeable(&held), "-Upgradeable R: m");
    let again = report(&held, false, &Fit::Unknown, 5);
    assert_eq!(again, held, "the next process says the same until it knows better");
    assert_eq!(upgradeable(&report(&again, true, &Fit::All, 6)), "+Upgradeable AsExpected: ");
}
