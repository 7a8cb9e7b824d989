//! What the status of a Subscription says.

use super::*;

#[test]
fn state_follows_from_the_chosen_version_and_the_one_that_exists() {
    let failed = || Plan {
        failure: Some(("InstallComponentFailed".to_owned(), "no".to_owned())),
        ..plan(2, "a.v2", InstallPlanPhase::Failed)
    };
    let installed = || csv("a.v1", Phase::Succeeded);
    let forward = |mut case: Case| {
        case.groups = vec![Arc::new(Group { fail_forward: true, ..Group::default() })];
        case
    };
    let one = || Case::of(&["a"]);
    for (case, state, current, exists) in [
        (one(), State::None, "", ""),
        (one().with_plan(plan(1, "a.v1", InstallPlanPhase::Installing)), State::UpgradePending, "a.v1", ""),
        (
            one().with_plan(plan(1, "a.v1", InstallPlanPhase::Complete)).with_csv(installed()),
            State::AtLatestKnown,
            "a.v1",
            "a.v1",
        ),
        (
            one()
                .with_plan(plan(1, "a.v1", InstallPlanPhase::Complete))
                .with_plan(plan(2, "a.v2", InstallPlanPhase::RequiresApproval))
                .with_csv(installed())
                .change(0, |it| it.status = Some(SubscriptionStatus { installed_csv: "a.v1".to_owned(), ..status() })),
            State::UpgradePending,
            "a.v2",
            "a.v1",
        ),
        (one().with_plan(failed()), State::UpgradePending, "a.v2", ""),
        (forward(one().with_plan(failed())), State::UpgradeFailed, "a.v2", ""),
    ] {
        let found = case.status();
        assert_eq!((found.state, found.current_csv.as_str(), found.installed_csv.as_str()), (state, current, exists));
    }
}

fn status() -> SubscriptionStatus {
    serde_json::from_value(json!({"lastUpdated": "2023-01-01T00:00:00Z"})).unwrap()
}

#[test]
fn plan_is_named_in_both_shapes_with_its_generation_and_phase() {
    let case = Case::of(&["a"]).with_plan(plan(3, "a.v1", InstallPlanPhase::RequiresApproval));
    let found = case.status();
    let reference = found.install_plan_ref.unwrap();
    assert_eq!((reference.name.as_deref(), reference.uid.as_deref()), (Some("install-3"), Some("plan-3")));
    let old = found.installplan.unwrap();
    assert_eq!((old.name.as_str(), old.uuid.as_str(), old.kind.as_str()), ("install-3", "plan-3", "InstallPlan"));
    assert_eq!(found.install_plan_generation, Some(3));
    assert_eq!(case.said(condition::INSTALL_PLAN_PENDING).unwrap().0, "RequiresApproval");
    let begun = Plan { is_empty: true, ..plan(1, "a.v1", InstallPlanPhase::None) };
    let said = Case::of(&["a"]).with_plan(begun).said(condition::INSTALL_PLAN_PENDING);
    assert_eq!(said.unwrap().0, reason::INSTALL_PLAN_NOT_YET_RECONCILED);
    let failure = Some(("InstallComponentFailed".to_owned(), "no".to_owned()));
    let failed = Plan { failure, ..plan(1, "a.v1", InstallPlanPhase::Failed) };
    let said = Case::of(&["a"]).with_plan(failed).said(condition::INSTALL_PLAN_FAILED);
    assert_eq!(said, Some(("InstallComponentFailed".to_owned(), "no".to_owned())));
    let without_cause = Case::of(&["a"]).with_plan(plan(1, "a.v1", InstallPlanPhase::Failed));
    let said = without_cause.said(condition::INSTALL_PLAN_FAILED);
    assert_eq!(said, Some((reason::INSTALL_PLAN_FAILED.to_owned(), String::new())));
    let complete = Case::of(&["a"]).with_plan(plan(1, "a.v1", InstallPlanPhase::Complete));
    assert_eq!(complete.said(condition::INSTALL_PLAN_PENDING), None);
    assert_eq!(complete.said(condition::INSTALL_PLAN_FAILED), None);
}

#[test]
fn plan_is_named_as_soon_as_it_says_which_version_was_chosen() {
    let new = |generation| Plan {
        is_empty: true,
        packages: BTreeMap::new(),
        ..plan(generation, "a.v1", InstallPlanPhase::None)
    };
    let found = Case::of(&["a"]).with_plan(new(1)).status();
    assert_eq!((found.state, found.current_csv.as_str(), found.install_plan_ref), (State::None, "", None));
    let second = Case::of(&["a"]).with_plan(plan(1, "a.v1", InstallPlanPhase::Complete)).with_plan(new(2));
    let found = second.with_csv(csv("a.v1", Phase::Succeeded)).status();
    let reference = found.install_plan_ref.unwrap();
    assert_eq!((found.current_csv.as_str(), reference.name.as_deref()), ("a.v1", Some("install-1")));
    // What was named before and is gone is not called missing while another one is being made.
    let again = naming_a_plan("a.v1").with_csv(csv("a.v1", Phase::Succeeded)).with_plan(new(2));
    assert_eq!(again.said(condition::INSTALL_PLAN_MISSING), None);
}

fn naming_a_plan(installed: &str) -> Case {
    Case::of(&["a"]).change(0, |it| {
        it.status = Some(SubscriptionStatus {
            current_csv: "a.v1".to_owned(),
            installed_csv: installed.to_owned(),
            state: State::UpgradePending,
            install_plan_ref: Some(ObjectReference {
                name: Some("install-gone".to_owned()),
                ..ObjectReference::default()
            }),
            ..status()
        });
    })
}

#[test]
fn plan_that_was_deleted_before_it_was_carried_out_is_forgotten() {
    let found = naming_a_plan("").status();
    assert_eq!((found.state, found.current_csv.as_str(), found.install_plan_ref), (State::None, "", None));
    let kept = naming_a_plan("a.v1").with_csv(csv("a.v1", Phase::Succeeded));
    let found = kept.status();
    assert_eq!((found.state, found.current_csv.as_str()), (State::AtLatestKnown, "a.v1"));
    assert_eq!(kept.said(condition::INSTALL_PLAN_MISSING).unwrap().0, reason::REFERENCED_INSTALL_PLAN_NOT_FOUND);
}

#[test]
fn catalogs_that_are_not_healthy_are_named_with_their_error_and_stop_everything() {
    let said = |case: &Case| case.said(condition::CATALOG_SOURCES_UNHEALTHY);
    let healthy = Case::of(&["a"]);
    assert_eq!(said(&healthy), None);
    let all = healthy.status();
    let condition = all.conditions.iter().find(|it| it.type_ == condition::CATALOG_SOURCES_UNHEALTHY).unwrap();
    assert_eq!(
        (condition.status, condition.reason.as_str()),
        (ConditionStatus::False, reason::ALL_CATALOG_SOURCES_HEALTHY)
    );
    assert_eq!(condition.message, "all available catalogsources are healthy");
    for case in [
        Case::of(&["a"]).catalog("ns", "main", Err("no route")),
        Case::of(&["a"]).catalog("ns", "other", Err("no route")),
        Case::of(&["a"]).catalog("global", "main", Err("no route")),
    ] {
        let (reason, message) = said(&case).unwrap();
        assert_eq!(reason, reason::UNHEALTHY_CATALOG_SOURCE_FOUND);
        assert!(message.contains("unhealthy: no route"), "{message}");
        let (reason, message) = case.said(condition::RESOLUTION_FAILED).unwrap();
        assert_eq!(reason, reason::ERROR_PREVENTED_RESOLUTION);
        assert!(message.starts_with("error using catalogsource ") && message.ends_with("no route"), "{message}");
        assert_eq!(case.planned(), None);
    }
    let elsewhere = Case::of(&["a"]).catalog("other", "main", Err("no route"));
    assert_eq!((said(&elsewhere), elsewhere.planned()), (None, Some(vec!["a.v2".to_owned()])));
    let mut excluded = Case::of(&["a"]).catalog("global", "main", Err("no route"));
    excluded.groups = vec![Arc::new(Group { excludes_global: true, ..Group::default() })];
    assert_eq!((said(&excluded), excluded.planned()), (None, Some(vec!["a.v2".to_owned()])));
}

#[test]
fn two_catalogs_that_are_down_are_both_named_with_their_errors() {
    let case = Case::of(&["a"])
        .catalog("ns", "main", Err("10.0.0.1:50051: connection refused"))
        .catalog("global", "community", Err("its image cannot be pulled: denied"))
        .catalog("global", "certified", Ok(()));
    let (_, unhealthy) = case.said(condition::CATALOG_SOURCES_UNHEALTHY).unwrap();
    let (reason, failed) = case.said(condition::RESOLUTION_FAILED).unwrap();
    insta::assert_snapshot!(format!("{unhealthy}\n{reason}: {failed}"), @r"
    targeted catalogsource ns/main unhealthy: 10.0.0.1:50051: connection refused; catalogsource global/community unhealthy: its image cannot be pulled: denied
    ErrorPreventedResolution: error using catalogsource global/community: its image cannot be pulled: denied; error using catalogsource ns/main: 10.0.0.1:50051: connection refused
    ");
    assert_eq!(case.planned(), None);
}

#[test]
fn catalog_that_is_not_there_is_named() {
    let mut case = Case::of(&["a"]).catalog("ns", "other", Ok(()));
    case.catalogs.remove(&id("ns", "main"));
    let (_, message) = case.said(condition::CATALOG_SOURCES_UNHEALTHY).unwrap();
    assert_eq!(message, "targeted catalogsource ns/main missing");
    let (reason, message) = case.said(condition::RESOLUTION_FAILED).unwrap();
    assert_eq!(reason, reason::CONSTRAINTS_NOT_SATISFIABLE);
    assert!(message.contains("no operators found from catalog main in namespace ns"), "{message}");
    case.catalogs.clear();
    let (reason, _) = case.said(condition::CATALOG_SOURCES_UNHEALTHY).unwrap();
    assert_eq!(reason, reason::NO_CATALOG_SOURCES_FOUND);
}

#[test]
fn health_of_each_visible_catalog_is_kept_with_its_time() {
    let case = Case::of(&["a"]).catalog("global", "main", Err("no")).catalog("other", "main", Ok(())).written();
    let before = case.subscriptions[0].status.clone().unwrap();
    let health = |status: &SubscriptionStatus| -> Vec<(String, bool)> {
        let entry = |it: &crate::olm::api::subscription::CatalogHealth| {
            let [namespace, name] =
                [&it.catalog_source_ref.namespace, &it.catalog_source_ref.name].map(|it| it.clone().unwrap());
            (format!("{namespace}/{name}"), it.healthy)
        };
        status.catalog_health.iter().map(entry).collect()
    };
    assert_eq!(health(&before), [("global/main".to_owned(), false), ("ns/main".to_owned(), true)]);
    assert!(case.decide().statuses.is_empty(), "nothing has changed");
    let healed = case.catalog("global", "main", Ok(()));
    let facts = healed.facts();
    let later = now() + jiff::SignedDuration::from_secs(60);
    let decision = facts.decide(&Gate::Waiting, None, &|_| Unpacked::Pending(String::new()), later);
    let times: Vec<Timestamp> = decision.statuses[0].1.catalog_health.iter().map(|it| it.last_updated.0).collect();
    assert_eq!(times, [later, now()]);
}

#[test]
fn failure_is_told_whole_to_those_who_take_part_in_it() {
    let case = Case::of(&["d", "a"]);
    let (reason, message) = case.said(condition::RESOLUTION_FAILED).unwrap();
    assert_eq!(reason, reason::CONSTRAINTS_NOT_SATISFIABLE);
    assert!(message.starts_with("constraints not satisfiable: "), "{message}");
    assert!(message.contains("\n1. ") && message.contains("What would help"), "{message}");
    let other = case.decide().statuses.into_iter().find(|(at, _)| *at == 1).unwrap().1;
    assert!(other.conditions.iter().all(|it| it.type_ != condition::RESOLUTION_FAILED), "it has nothing to do with it");
    assert_eq!(case.planned(), Some(vec!["a.v2".to_owned()]), "one that fails does not hold the others");
    let repaired = Case { catalogs: BTreeMap::new(), ..case }.written();
    let repaired = Case { catalogs: [(id("ns", "main"), healthy())].into(), ..repaired };
    let other = repaired.decide().statuses.into_iter().find(|(at, _)| *at == 1).unwrap().1;
    assert!(other.conditions.iter().all(|it| it.type_ != condition::RESOLUTION_FAILED), "it goes by itself");
}

#[test]
fn namespace_without_exactly_one_group_says_how_many_there_are() {
    for (groups, expected) in [
        (vec![], "found 0 operatorGroups, expected 1"),
        (vec![Arc::default(), Arc::default()], "found 2 operatorGroups, expected 1"),
    ] {
        let case = Case { groups, ..Case::of(&["a"]) };
        let said = case.said(condition::RESOLUTION_FAILED);
        assert_eq!(said, Some((reason::ERROR_PREVENTED_RESOLUTION.to_owned(), expected.to_owned())));
        assert_eq!(case.planned(), None);
    }
}

#[test]
fn annotation_that_is_no_json_is_named_with_its_object() {
    let case = Case::of(&["a"]).with_csv(Csv { properties: Some("{".to_owned()), ..csv("x.v1", Phase::Succeeded) });
    let (reason, message) = case.said(condition::RESOLUTION_FAILED).unwrap();
    assert_eq!(reason, reason::ERROR_PREVENTED_RESOLUTION);
    assert!(
        message.contains("clusterserviceversion ns/x.v1: its annotation operatorframework.io/properties"),
        "{message}"
    );
    assert!(message.contains("correct it"), "{message}");
}

#[test]
fn constraints_that_are_nested_too_deeply_are_named_with_their_object() {
    let (open, close) = ("{\"all\":{\"constraints\":[".repeat(1_000), "]}}".repeat(1_000));
    let constraint = format!("{{\"type\":\"olm.constraint\",\"value\":{open}{{}}{close}}}");
    let properties = Some(format!("{{\"properties\":[{constraint}]}}"));
    let case = Case::of(&["a"]).with_csv(Csv { properties, ..csv("x.v1", Phase::Succeeded) });
    let (reason, message) = case.said(condition::RESOLUTION_FAILED).unwrap();
    assert_eq!(reason, reason::ERROR_PREVENTED_RESOLUTION);
    for part in ["clusterserviceversion ns/x.v1: its annotation operatorframework.io/properties", "recursion limit"] {
        assert!(message.contains(part), "{part}: {message}");
    }
}

#[test]
fn deprecations_of_package_channel_and_bundle_are_conditions_and_one_of_all() {
    let case = Case::of(&["a"]).with_plan(plan(1, "a.v1", InstallPlanPhase::RequiresApproval));
    let text = |type_: &str| case.said(type_).map(|(_, message)| message);
    assert_eq!(text(condition::PACKAGE_DEPRECATED).as_deref(), Some("olm.package/a: use e"));
    assert_eq!(text(condition::CHANNEL_DEPRECATED).as_deref(), Some("olm.channel/stable: use fast"));
    assert_eq!(text(condition::BUNDLE_DEPRECATED).as_deref(), Some("olm.bundle/a.v1: leaks"), "before it is approved");
    assert_eq!(
        text(condition::DEPRECATED).as_deref(),
        Some("olm.package/a: use e; olm.channel/stable: use fast; olm.bundle/a.v1: leaks")
    );
    let any = Case::of(&["a"]).change(0, |it| it.spec.channel.clear());
    assert_eq!(any.said(condition::CHANNEL_DEPRECATED), None, "no channel is asked for");
    let none = Case::of(&["c"]);
    assert_eq!(none.said(condition::DEPRECATED), None);
    // A content of the catalog that says nothing of the kind takes its place.
    let told = Case::of(&["a"]).with_plan(plan(1, "a.v1", InstallPlanPhase::RequiresApproval)).written();
    let count = |case: &Case| {
        let status = case.subscriptions[0].status.as_ref().unwrap();
        status.conditions.iter().filter(|it| it.type_.ends_with("Deprecated")).count()
    };
    assert_eq!(count(&told), 4);
    let blobs: Vec<Value> = blobs().into_iter().filter(|blob| blob["schema"] != "olm.deprecations").collect();
    let content = Some(Arc::new(content(&blobs).0));
    let catalogs = [(id("ns", "main"), Visible { content, ..healthy() })].into();
    assert_eq!(count(&Case { catalogs, ..told }.written()), 0);
}

#[test]
fn plan_that_the_server_does_not_take_is_told_of() {
    let refused = Some("cannot create InstallPlan ns/install-x: exceeded quota".to_owned());
    let case = Case { refused: refused.clone(), ..Case::of(&["a"]) };
    let said = case.said(condition::BUNDLE_UNPACK_FAILED);
    assert_eq!(said, Some((reason::ENSURE_INSTALL_PLAN_FAILED.to_owned(), refused.clone().unwrap())));
    assert_eq!(case.planned(), Some(vec!["a.v2".to_owned()]), "it is tried again");
    // It was taken after all.
    let taken = Case { refused, ..Case::of(&["a"]).with_plan(plan(1, "a.v2", InstallPlanPhase::Installing)) };
    assert_eq!(taken.said(condition::BUNDLE_UNPACK_FAILED), None);
}

/// Nobody but the controller writes it, and whoever does it all the same is not believed.
#[test]
fn status_that_somebody_else_has_written_is_made_anew() {
    let invented = json!({"lastUpdated": "2023-01-01T00:00:00Z", "state": "Invented", "reason": "Invented", "installedCSV": "z.v9", "currentCSV": "z.v9",
        "conditions": [{"type": "ResolutionFailed", "status": "True", "reason": "Invented", "message": "no"},
            {"type": "Own", "status": "True"}]});
    let case = Case::of(&["a"])
        .with_plan(plan(1, "a.v1", InstallPlanPhase::Complete))
        .with_csv(csv("a.v1", Phase::Succeeded))
        .change(0, |it| it.status = Some(serde_json::from_value(invented).unwrap()));
    let expected = Case::of(&["a"])
        .with_plan(plan(1, "a.v1", InstallPlanPhase::Complete))
        .with_csv(csv("a.v1", Phase::Succeeded))
        .status();
    assert_eq!(case.status(), expected);
}

#[test]
fn second_look_at_the_same_state_writes_nothing() {
    for case in [
        Case::of(&["a", "d"]),
        Case::of(&["a"]).with_plan(plan(1, "a.v1", InstallPlanPhase::Complete)).with_csv(csv("a.v1", Phase::Succeeded)),
        Case::of(&["a"]).with_plan(plan(1, "a.v1", InstallPlanPhase::RequiresApproval)),
        Case::of(&["a"]).catalog("ns", "main", Err("no")),
        Case { unpacked: Unpacked::Pending("x".to_owned()), ..Case::of(&["a"]) },
        Case { groups: Vec::new(), ..Case::of(&["a"]) },
        naming_a_plan(""),
    ] {
        assert!(case.written().decide().statuses.is_empty());
    }
}
