use super::*;
use crate::olm::operator::component::{Id, Kind, Write};
use crate::olm::operator::{is_new, is_under_way};

/// In the phase and for the reason.
fn one(phase: &str, reason: &str) -> Cluster {
    Cluster::new([csv("a", phase, reason)]).marked()
}

const TOLD_READY: &str = "waiting for deployment server to become ready: ";

#[test]
fn new_version_is_looked_at_and_then_installed_where_nothing_is_missing() {
    assert_eq!(one("", "").step("a", 10), "Pending/RequirementsUnknown: requirements not yet checked");
    for unknown in ["Unknown", "Later"] {
        assert_eq!(one(unknown, "").step("a", 10), "Pending/RequirementsUnknown: requirements not yet checked");
    }
    let pending = one("Pending", "RequirementsUnknown");
    assert_eq!(pending.step("a", 10), "InstallReady/AllRequirementsMet: all requirements found, attempting install");
}

fn told(decision: &Decision) -> Vec<String> {
    let states = decision.status.iter().flat_map(|(states, _)| states);
    states.map(|state| format!("{:?}/{}", state.phase, state.reason)).collect()
}

#[test]
fn steps_between_which_nothing_is_written_are_told_by_one_write() {
    let decision = one("", "").steps_at("a", at(10));
    assert_eq!(told(&decision), ["Pending/RequirementsUnknown", "InstallReady/AllRequirementsMet"]);
    let (_, status) = decision.status.clone().unwrap();
    let remembered = status.conditions.iter().skip(1).map(|it| format!("{:?}/{}", it.phase, it.reason));
    assert_eq!(remembered.collect::<Vec<_>>(), told(&decision), "each of them is remembered");
    assert_eq!((status.phase, status.requirement_status.is_empty()), (Phase::InstallReady, true));
    assert_eq!(decision.deployments, [], "they are written once it is said that they are");
    let there = one("", "").deployed("a", ready()).steps_at("a", at(10));
    assert_eq!(
        told(&there).last().unwrap(),
        "Installing/InstallSucceeded",
        "others may wait to see that it is installed"
    );
    // What somebody may want to hear of is not passed over.
    assert_eq!(told(&one("Succeeded", "InstallSucceeded").steps_at("a", at(60))), ["Failed/ComponentUnhealthy"]);
}

#[test]
fn what_a_new_version_lacks_is_told_once_it_was_waited_for() {
    let mut cluster = one("", "");
    cluster.csv_mut("a")["metadata"]["creationTimestamp"] = json!(at(10).to_string());
    cluster.csv_mut("a")["spec"]["minKubeVersion"] = json!("1.99.0");
    let seconds = |seconds: i64| Timestamp::from_second(600 + seconds).unwrap();
    let waits = Decision { next: Some(seconds(2)), ..Decision::default() };
    assert_eq!(cluster.steps_at("a", seconds(1)), waits);
    let lacks = ["Pending/RequirementsUnknown", "Pending/RequirementsNotMet"];
    assert_eq!(told(&cluster.steps_at("a", seconds(2))), lacks);
    assert_eq!(told(&cluster.steps_at("a", seconds(-60))), lacks, "the clock of the server is ahead");
    cluster.csv_mut("a")["status"]["phase"] = json!("Pending");
    assert_eq!(told(&cluster.steps_at("a", seconds(1))), ["Pending/RequirementsNotMet"], "it is not new");
}

#[test]
fn that_deployments_are_not_ready_is_told_once_they_were_waited_for() {
    let seconds = |seconds: i64| Timestamp::from_second(600 + seconds).unwrap();
    let cluster = one("Installing", "InstallSucceeded").deployed("a", waiting());
    assert_eq!(cluster.steps_at("a", seconds(29)), Decision { next: Some(seconds(30)), ..Decision::default() });
    assert_eq!(told(&cluster.steps_at("a", seconds(30))), ["Installing/InstallWaiting"]);
    let cluster = one("Installing", "InstallWaiting").deployed("a", waiting());
    assert_eq!(told(&cluster.steps_at("a", seconds(1))), ["Installing/InstallWaiting"], "with what is waited for now");
}

#[test]
fn version_is_being_installed_for_a_while() {
    let until = |phase: &str, minute: i64| is_under_way(&typed(csv("a", phase, "")), at(minute));
    let ten = Timestamp::from_second(610).unwrap();
    assert_eq!([until("InstallReady", 10), until("Installing", 10)], [Some(ten); 2]);
    assert_eq!([until("Installing", 11), until("Pending", 10), until("Succeeded", 10), until("", 10)], [None; 4]);
    assert!(is_new(&typed(csv("a", "", ""))) && !is_new(&typed(csv("a", "Pending", ""))));
}

#[test]
fn installing_waits_for_the_deployments_and_succeeds_with_them() {
    let ready_to_install = one("InstallReady", "AllRequirementsMet");
    let decision = ready_to_install.decide("a", 10);
    assert_eq!((decision.status, decision.deployments.len()), (None, 1));
    let waits = "Installing/InstallSucceeded: waiting for install components to report healthy";
    assert_eq!(one("InstallReady", "AllRequirementsMet").deployed("a", json!({})).step("a", 10), waits);

    let installing = || one("Installing", "InstallSucceeded");
    let step = installing().deployed("a", waiting()).step("a", 14);
    assert!(step.starts_with(&format!("Installing/InstallWaiting: installing: {TOLD_READY}")), "{step}");
    assert_eq!(installing().deployed("a", waiting()).decide("a", 14).next, Some(at(15)), "that is the limit");
    let timeout = installing().deployed("a", waiting()).step("a", 15);
    assert_eq!(timeout, "Failed/InstallCheckFailed: install timeout");
    let step = installing().deployed("a", late()).step("a", 11);
    assert!(step.starts_with("Failed/InstallCheckFailed: install failed: deployment server not ready before timeout"));
    assert_eq!(
        installing().deployed("a", ready()).step("a", 11),
        "Succeeded/InstallSucceeded: install strategy completed with no errors"
    );
}

#[test]
fn what_somebody_changes_is_installed_again() {
    for (phase, reason) in
        [("Installing", "InstallWaiting"), ("Succeeded", "InstallWaiting"), ("Failed", "NeedsReinstall")]
    {
        let mut cluster = one(phase, "x").deployed("a", ready());
        let live = cluster.deployments.get_mut("server").unwrap();
        Arc::make_mut(&mut live.object)["spec"]["template"]["spec"]["containers"][0]["image"] = json!("other");
        let expected = format!(
            "InstallReady/{reason}: installing: deployment server changed: spec.template.spec.containers[c].image"
        );
        assert_eq!(cluster.step("a", 10), expected);
        cluster.csv_mut("a")["status"]["phase"] = json!("InstallReady");
        let [super::super::deployment::Write::Replace { object, .. }] = &cluster.decide("a", 10).deployments[..] else {
            panic!("it is replaced")
        };
        assert_eq!(object["metadata"]["resourceVersion"], "9");
    }
}

#[test]
fn deployment_of_an_operator_that_runs_is_mended_while_that_is_told() {
    let mut cluster = one("Succeeded", "InstallSucceeded").deployed("a", ready());
    let live = cluster.deployments.get_mut("server").unwrap();
    Arc::make_mut(&mut live.object)["spec"]["template"]["spec"]["containers"][0]["image"] = json!("other");
    let changed = cluster.steps_at("a", at(60));
    assert_eq!((told(&changed), changed.deployments.len()), (vec!["InstallReady/InstallWaiting".to_owned()], 1));
    let missing = one("Succeeded", "InstallSucceeded").steps_at("a", at(60));
    assert_eq!((told(&missing), missing.deployments.len()), (vec!["Failed/ComponentUnhealthy".to_owned()], 1));
    // Also before it runs: nobody else would bring it back.
    let deleted = one("Installing", "InstallSucceeded").steps_at("a", at(11));
    assert_eq!((told(&deleted), deleted.deployments.len()), (vec!["InstallReady/InstallWaiting".to_owned()], 1));
    // What is not ready is as it has to be.
    let waits = one("Succeeded", "InstallSucceeded").deployed("a", waiting()).steps_at("a", at(60));
    assert_eq!((told(&waits), waits.deployments.len()), (vec!["Failed/ComponentUnhealthy".to_owned()], 0));
}

#[test]
fn operator_that_runs_is_told_when_it_does_not_any_more() {
    let succeeded = || one("Succeeded", "InstallSucceeded");
    assert_eq!(succeeded().deployed("a", ready()).step("a", 60), "");
    let step = succeeded().deployed("a", waiting()).step("a", 60);
    assert!(step.starts_with(&format!("Failed/ComponentUnhealthy: installing: {TOLD_READY}")), "{step}");
    let gone = "Failed/ComponentUnhealthy: installing: missing deployment with name=server";
    assert_eq!(succeeded().step("a", 60), gone);
    let mut lost = succeeded().deployed("a", ready());
    lost.csv_mut("a")["spec"]["minKubeVersion"] = json!("1.99.0");
    assert_eq!(lost.step("a", 60), "Failed/RequirementsNotMet: requirements no longer met");

    let unhealthy = one("Failed", "ComponentUnhealthy");
    assert_eq!(unhealthy.step("a", 60), "Pending/NeedsReinstall: installing: missing deployment with name=server");
    let back = one("Failed", "ComponentUnhealthy").deployed("a", ready()).step("a", 60);
    assert_eq!(back, "Succeeded/InstallSucceeded: install strategy completed with no errors");
    lost.csv_mut("a")["status"]["phase"] = json!("Failed");
    assert_eq!(lost.step("a", 60), "Pending/RequirementsNotMet: requirements not met");
}

/// It would be tried again and again.
#[test]
fn deployment_that_has_given_up_stays_failed_until_it_is_ready() {
    let mut cluster = one("Failed", "InstallCheckFailed").deployed("a", late());
    let step = cluster.step("a", 60);
    assert!(step.starts_with("Failed/InstallCheckFailed: install failed: "), "{step}");
    let (_, message) = step.split_once(": ").unwrap();
    cluster.csv_mut("a")["status"]["message"] = json!(message);
    assert_eq!(cluster.step("a", 60), "");
    let cluster = cluster.deployed("a", ready());
    assert!(cluster.step("a", 60).starts_with("Succeeded/"));
}

#[test]
fn deployment_that_cannot_be_written_fails_and_is_tried_on() {
    let mut cluster = one("InstallReady", "AllRequirementsMet");
    cluster.failing.insert("server".into(), "it is invalid".into());
    let failed = "Failed/InstallComponentFailed: install strategy failed: it is invalid";
    assert_eq!(cluster.step("a", 10), failed);
    assert_eq!(cluster.decide("a", 10).deployments.len(), 1);
    // It is tried in that phase: from the beginning, each attempt would be many changes.
    let status = &mut cluster.csv_mut("a")["status"];
    status["phase"] = json!("Failed");
    status["reason"] = json!("InstallComponentFailed");
    status["message"] = json!("install strategy failed: it is invalid");
    let decision = cluster.decide("a", 10);
    assert_eq!((decision.status, decision.deployments.len()), (None, 1));
    cluster.failing.clear();
    let decision = cluster.decide("a", 10);
    assert_eq!((decision.status, decision.deployments.len()), (None, 1), "it is not said before it is known");
    assert!(cluster.deployed("a", ready()).step("a", 10).starts_with("Succeeded/"));
}

#[test]
fn deployment_with_another_selector_is_refused_with_the_way_out() {
    let mut cluster = one("InstallReady", "AllRequirementsMet").deployed("a", ready());
    let live = cluster.deployments.get_mut("server").unwrap();
    Arc::make_mut(&mut live.object)["spec"]["selector"] = json!({"matchLabels": {"app": "old"}});
    let step = cluster.step("a", 10);
    assert!(step.starts_with("Failed/InstallComponentFailed: install strategy failed: "), "{step}");
    let way_out = "spec.selector.matchLabels.app differs and is immutable; delete the Deployment";
    assert!(step.contains(way_out), "{step}");
    // Who has replaced it while it was installed, or after that.
    for phase in ["Installing", "Succeeded"] {
        cluster.csv_mut("a")["status"]["phase"] = json!(phase);
        let step = cluster.step("a", 10);
        assert!(step.starts_with("Failed/InstallCheckFailed: install failed: ") && step.contains(way_out), "{step}");
        assert_eq!(cluster.decide("a", 10).deployments, [], "{phase}");
    }
}

#[test]
fn strategy_that_cannot_be_read_is_told() {
    for phase in ["Pending", "InstallReady", "Installing", "Succeeded", "Failed"] {
        let mut cluster = one(phase, "x");
        cluster.csv_mut("a")["spec"]["install"] = json!({"strategy": "helm"});
        let expected = "Failed/InvalidInstallStrategy: install strategy invalid: spec.install.strategy is \"helm\", and only deployment is one";
        assert_eq!(cluster.step("a", 10), expected, "{phase}");
    }
}

/// `a` is replaced by `b`, which is replaced by `c`.
fn chain(phases: &[(&str, &str)]) -> Cluster {
    let names = ["a", "b", "c"];
    let csvs = phases.iter().enumerate().map(|(at, (phase, reason))| {
        let mut csv = csv(names[at], phase, reason);
        if at > 0 {
            csv["spec"]["replaces"] = json!(names[at - 1]);
        }
        csv
    });
    Cluster::new(csvs).marked()
}

#[test]
fn version_is_replaced_by_the_one_that_names_it() {
    let two = chain(&[("Succeeded", "InstallSucceeded"), ("Pending", "RequirementsUnknown")]).deployed("a", ready());
    assert_eq!(two.step("a", 10), "Replacing/BeingReplaced: being replaced by csv: b");
    assert!(two.decide("a", 10).is_replaced);
    assert_eq!(two.step("b", 10), "", "it waits for the other one");
    let two = chain(&[("Replacing", "BeingReplaced"), ("Pending", "RequirementsUnknown")]);
    assert!(two.step("b", 10).starts_with("InstallReady/"));
    assert_eq!(two.step("a", 10), "");
    let two = chain(&[("Replacing", "BeingReplaced"), ("Succeeded", "InstallSucceeded")]);
    let replaced =
        "Deleting/Replaced: has been replaced by a newer ClusterServiceVersion that has successfully installed.";
    assert_eq!(two.step("a", 10), replaced);
    let two = chain(&[("Deleting", "Replaced"), ("Succeeded", "InstallSucceeded")]);
    assert!(two.decide("a", 10).delete);
    // Neither of two that replace each other goes on, which is told with the way out.
    let mut circle = chain(&[("Succeeded", "InstallSucceeded"), ("Succeeded", "InstallSucceeded")]);
    circle.csv_mut("a")["spec"]["replaces"] = json!("b");
    for (name, other) in [("a", "b"), ("b", "a")] {
        let told = format!("Replacing/BeingReplaced: being replaced by csv: {other}, which it replaces itself: ");
        let step = circle.step(name, 10);
        assert!(step.starts_with(&told) && step.contains("delete one of them"), "{step}");
    }
    // Naming itself means nothing.
    let mut own = one("Succeeded", "InstallSucceeded").deployed("a", ready());
    own.csv_mut("a")["spec"]["replaces"] = json!("a");
    assert_eq!(own.step("a", 10), "");
}

#[test]
fn chain_ends_with_the_oldest_first() {
    let three = chain(&[("Replacing", "x"), ("Replacing", "x"), ("Succeeded", "x")]);
    assert_eq!(three.step("b", 10), "", "there is an older one");
    assert!(three.step("a", 10).starts_with("Deleting/Replaced"), "one that comes after it runs");
    let three = chain(&[("Replacing", "x"), ("Replacing", "x"), ("Installing", "x")]);
    assert_eq!([three.step("a", 10), three.step("b", 10)], ["", ""], "none of those after it runs");
    let mut forward = chain(&[("Replacing", "x"), ("Replacing", "x"), ("Succeeded", "x")]);
    forward.groups[0]["spec"]["upgradeStrategy"] = json!("TechPreviewUnsafeFailForward");
    assert!(forward.step("a", 10).starts_with("Deleting/Replaced"), "the last one of the chain counts");
    let mut failed = chain(&[("Failed", "ComponentUnhealthy"), ("Pending", "x")]);
    assert!(failed.step("a", 10).starts_with("Pending/NeedsReinstall"));
    failed.groups[0]["spec"]["upgradeStrategy"] = json!("TechPreviewUnsafeFailForward");
    let expected = "Replacing/BeingReplaced: Fail Forward is enabled, allowing Failed csv to be replaced by csv: b";
    assert_eq!(failed.step("a", 10), expected);
    // A circle is none's successor for ever.
    let mut circle = chain(&[("Replacing", "x"), ("Replacing", "x")]);
    circle.csv_mut("a")["spec"]["replaces"] = json!("b");
    assert_eq!((circle.step("a", 10), circle.step("b", 10)), (String::new(), String::new()));
}

#[test]
fn version_is_kept_until_the_last_one_runs_where_its_group_goes_forward() {
    let mut three = chain(&[("Replacing", "x"), ("Succeeded", "x"), ("Pending", "x")]);
    assert!(three.step("a", 10).starts_with("Deleting/Replaced"), "the next one runs");
    three.groups[0]["spec"]["upgradeStrategy"] = json!("TechPreviewUnsafeFailForward");
    assert_eq!(three.step("a", 10), "", "the last one does not");
    three.csv_mut("c")["status"]["phase"] = json!("Succeeded");
    assert!(three.step("a", 10).starts_with("Deleting/Replaced"));
}

/// Its group has sent it away for a while, or somebody has made it once more: the version that runs in its place is left alone.
#[test]
fn version_whose_place_is_taken_does_not_come_back() {
    let back = |phase: &str, reason: &str, taker: (&str, &str)| {
        let mut three = chain(&[(phase, reason), ("Failed", "UnsupportedOperatorGroup"), taker]).deployed("a", ready());
        three.csv_mut("c")["spec"]["install"] = three.csv_mut("a")["spec"]["install"].clone();
        three
    };
    let left = "Replacing/BeingReplaced: its Deployments are those of a version that replaces it: c";
    let of_it = [
        ("Pending", "RequirementsUnknown"),
        ("Failed", "InstallCheckFailed"),
        ("Failed", "NoOperatorGroup"),
        ("InstallReady", "NeedsReinstall"),
        ("Installing", "InstallWaiting"),
    ];
    let takers = [
        ("InstallReady", "AllRequirementsMet"),
        ("Installing", "InstallWaiting"),
        ("Succeeded", "InstallSucceeded"),
        ("Replacing", "BeingReplaced"),
        ("Failed", "InstallCheckFailed"),
        ("Failed", "InstallComponentFailed"),
    ];
    for ((phase, reason), taker) in of_it.into_iter().flat_map(|of_it| takers.map(|taker| (of_it, taker))) {
        let three = back(phase, reason, taker);
        assert_eq!(three.step("a", 10), left, "{phase} {reason} {taker:?}");
        assert_eq!(three.decide("a", 10).deployments, [], "{phase} {reason} {taker:?}");
    }
    // These have written nothing yet.
    for waits in
        [("Pending", "RequirementsUnknown"), ("Failed", "OwnerConflict"), ("Failed", "UnsupportedOperatorGroup")]
    {
        let three = back("Pending", "RequirementsUnknown", waits);
        assert!(three.step("a", 10).starts_with("InstallReady/"), "{waits:?}");
    }
    // One that goes makes room.
    let mut three = back("Pending", "RequirementsUnknown", ("Succeeded", "InstallSucceeded"));
    three.csv_mut("c")["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    assert!(three.step("a", 10).starts_with("InstallReady/"));
    // Of a circle, one goes on.
    let mut circle = chain(&[("Pending", "RequirementsUnknown"), ("Replacing", "BeingReplaced")]);
    circle.csv_mut("a")["spec"]["replaces"] = json!("b");
    assert!(circle.step("a", 10).starts_with("InstallReady/"));
}

#[test]
fn version_whose_successor_was_deleted_is_installed_again() {
    let step = one("Replacing", "BeingReplaced").step("a", 10);
    assert!(step.starts_with("Pending/NeedsReinstall: marked as replacement, but no replacement CSV found"), "{step}");
}

#[test]
fn condition_of_the_operator_before_holds_the_next_one() {
    let condition = |generation: i64, status: Value, overrides: Value| {
        json!({"metadata": {"name": "a", "namespace": "shop", "generation": 2}, "spec": {"overrides": overrides},
            "status": {"conditions": [{"type": "Upgradeable", "status": status, "reason": "R", "message": "busy",
                "lastTransitionTime": "2026-01-02T03:04:05Z", "observedGeneration": generation}]}})
    };
    let said = |status: &str| json!([{"type": "Upgradeable", "status": status, "reason": "R", "message": "by hand"}]);
    let stops = |why: &str| format!("Pending/OperatorConditionNotUpgradeable: operator is not upgradeable: {why}");
    let outdated = stops("the operatorcondition status \"Upgradeable\"=\"True\" is outdated");
    let mut other = condition(1, json!("False"), said("False"));
    for type_ in ["/spec/overrides/0/type", "/status/conditions/0/type"] {
        *other.pointer_mut(type_).unwrap() = json!("Healthy");
    }
    for (condition, expected) in [
        (condition(2, json!("True"), json!([])), String::new()),
        (condition(2, json!("Unknown"), json!([])), String::new()),
        (condition(2, json!("False"), json!([])), stops("the operator is not upgradeable: busy")),
        (condition(1, json!("True"), json!([])), outdated),
        (condition(1, json!("False"), said("True")), String::new()),
        (condition(2, json!("True"), said("False")), stops("the operator is not upgradeable: by hand")),
        (condition(2, json!("True"), said("Unknown")), stops("the operator is not upgradeable: by hand")),
        (json!({"metadata": {"name": "a", "namespace": "shop", "generation": 2}, "spec": {}}), String::new()),
        // No other type has a meaning.
        (other, String::new()),
        // That of the new one means nothing here.
        (json!({"metadata": {"name": "b", "namespace": "shop"}, "spec": {"overrides": said("False")}}), String::new()),
    ] {
        let mut two = chain(&[("Replacing", "x"), ("Pending", "RequirementsUnknown")]);
        two.conditions.push(condition.clone());
        let step = two.step("b", 10);
        match expected.is_empty() {
            true => assert!(step.starts_with("InstallReady/"), "{condition}: {step}"),
            false => assert_eq!(step, expected, "{condition}"),
        }
    }
}

#[test]
fn definition_has_one_owner_outside_of_the_chain() {
    let owned = json!({"owned": [{"name": "k.example.com", "version": "v1", "kind": "K"}]});
    let known = |cluster: &mut Cluster| {
        let definition = Definition { served: ["v1".to_owned()].into(), is_available: true, ..Definition::default() };
        cluster.definitions.insert("k.example.com".into(), definition);
    };
    let mut two = Cluster::new([csv("a", "Succeeded", "x"), csv("b", "Pending", "x")]);
    two.csvs.iter_mut().for_each(|csv| csv["spec"]["customresourcedefinitions"] = owned.clone());
    known(&mut two);
    let mut two = two.marked();
    let step = two.step("b", 10);
    assert!(step.starts_with("Failed/OwnerConflict: conflicting CRD owner in namespace: k.example.com is owned by"));
    // Of two of which none runs the older one goes on, and of two that run.
    for phase in ["Pending", "Succeeded"] {
        for (name, created) in [("a", 5), ("b", 4)] {
            two.csv_mut(name)["status"] = json!({"phase": phase});
            two.csv_mut(name)["metadata"]["creationTimestamp"] = json!(at(created));
        }
        assert!(two.step("a", 10).contains("OwnerConflict"), "{phase}");
        assert!(!two.step("b", 10).contains("OwnerConflict"), "{phase}");
    }
    // It comes after one that runs, or has run, and after what replaces that.
    two.csv_mut("b")["status"]["phase"] = json!("Pending");
    assert!(two.step("b", 10).contains("OwnerConflict"));
    two.csv_mut("b")["spec"]["replaces"] = json!("a");
    two.csv_mut("a")["status"]["phase"] = json!("Replacing");
    assert!(two.step("b", 10).starts_with("InstallReady/"));
    // Nor is the next one a rival of the one before.
    two.csv_mut("a")["status"]["phase"] = json!("Pending");
    assert!(two.step("a", 10).starts_with("InstallReady/"));
}

/// One that has run keeps what it owns while it is repaired or replaced, whoever is older.
#[test]
fn definition_stays_with_what_has_run_and_with_what_replaces_that() {
    let version = |name: &str, status: Value, created: i64| {
        let mut csv = csv(name, "", "");
        let owned = json!([{"name": "k.example.com", "version": "v1", "kind": "K"}]);
        csv["spec"]["customresourcedefinitions"] = json!({"owned": owned});
        csv["metadata"]["creationTimestamp"] = json!(at(created));
        csv["status"] = status;
        csv
    };
    let has_run =
        |phase: &str| json!({"phase": phase, "reason": "x", "conditions": [{"phase": "Succeeded", "reason": "x"}]});
    let waits = || version("b", json!({"phase": "Pending", "reason": "x"}), 4);
    let with = |csvs: Vec<Value>| {
        let mut cluster = Cluster::new(csvs);
        let definition = Definition { served: ["v1".to_owned()].into(), is_available: true, ..Definition::default() };
        cluster.definitions.insert("k.example.com".into(), definition);
        cluster.marked()
    };
    for phase in ["Failed", "Pending", "Installing"] {
        let two = with(vec![version("a", has_run(phase), 5), waits()]);
        assert!(two.step("b", 10).contains("OwnerConflict"), "{phase}");
        assert!(!two.step("a", 10).contains("OwnerConflict"), "{phase}");
    }
    let mut next = version("c", json!({"phase": "Pending", "reason": "x"}), 6);
    next["spec"]["replaces"] = json!("a");
    let three = with(vec![version("a", json!({"phase": "Replacing", "reason": "x"}), 5), waits(), next]);
    assert!(three.step("b", 10).contains("OwnerConflict"));
    assert!(three.step("c", 10).starts_with("InstallReady/"), "{}", three.step("c", 10));
}

#[test]
fn history_has_the_last_twenty_phases_and_reasons() {
    let mut cluster = one("Pending", "RequirementsUnknown");
    let entry = |number: usize| json!({"phase": "Pending", "reason": format!("r{number}")});
    cluster.csv_mut("a")["status"]["conditions"] = (0..20).map(entry).collect();
    let (_, status) = cluster.decide("a", 30).status.unwrap();
    assert_eq!(status.conditions.len(), 20);
    assert_eq!(status.conditions[0].reason, "r1");
    let last = status.conditions.last().unwrap();
    assert_eq!((last.phase.clone(), last.reason.as_str()), (Phase::InstallReady, "AllRequirementsMet"));
    assert_eq!(last.last_transition_time.as_ref().unwrap().0, at(30));
    assert_eq!(last.last_update_time.as_ref().unwrap().0, at(30));
    assert_eq!(status.last_update_time.as_ref().unwrap().0, at(30));
    // Another message alone is no other phase.
    let mut cluster = one("Installing", "InstallWaiting").deployed("a", waiting());
    cluster.csv_mut("a")["status"]["message"] = json!("something else");
    let (_, status) = cluster.decide("a", 11).status.unwrap();
    assert_eq!(status.conditions.len(), 1);
    assert_eq!(status.last_update_time.as_ref().unwrap().0, at(11));
    assert_eq!(status.last_transition_time.as_ref().unwrap().0, at(10));
}

/// What installing with the rights of the account takes.
fn installer() -> PolicyRule {
    typed(json!({"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["create", "update", "delete"]}))
}

#[test]
fn operator_of_a_group_with_an_account_waits_for_the_rights_of_that_and_goes_on_by_itself() {
    let mut cluster = one("InstallReady", "x");
    cluster.groups[0]["spec"]["serviceAccountName"] = json!("server");
    let said = "Failed/InstallComponentFailedNoRetry: install strategy failed: OperatorGroup g names ServiceAccount server in \
                spec.serviceAccountName, which ";
    let step = |cluster: &Cluster| cluster.step("a", 10);
    assert!(step(&cluster).starts_with(&format!("{said}does not exist")), "{}", step(&cluster));
    cluster.accounts.insert(("shop".into(), "server".into()), Account::default());
    assert!(step(&cluster).starts_with(&format!("{said}may not do all")), "{}", step(&cluster));
    assert!(step(&cluster).contains("create") && cluster.decide("a", 10).deployments.is_empty());
    // Elsewhere they do not count.
    cluster.rules = vec![("mall", installer())];
    assert!(step(&cluster).starts_with(said));
    cluster.rules = vec![("shop", installer())];
    assert_eq!(step(&cluster), "");
    assert_eq!(cluster.decide("a", 10).deployments.len(), 1);
}

#[test]
fn failure_that_only_other_rights_help_with_ends_when_they_are_there_or_nobody_asks_for_them() {
    let mut cluster = one("Failed", "InstallComponentFailedNoRetry");
    cluster.groups[0]["spec"]["serviceAccountName"] = json!("server");
    cluster.csv_mut("a")["metadata"].as_object_mut().unwrap().remove("annotations");
    assert_eq!(cluster.decide("a", 10), Decision::default());
    let revived = "Pending/DetectedClusterChange: Cluster resources changed state";
    let mut free = one("Failed", "InstallComponentFailedNoRetry");
    assert_eq!(free.step("a", 10), revived);
    free.groups[0]["spec"]["serviceAccountName"] = json!("server");
    assert_eq!(free.step("a", 10), "");
    free.accounts.insert(("shop".into(), "server".into()), Account::default());
    free.rules = vec![("", installer())];
    assert_eq!(free.step("a", 10), revived);
}

#[test]
fn what_is_deleted_waits_for_what_has_no_namespace() {
    let mut cluster = one("Succeeded", "x").deployed("a", ready());
    cluster.csv_mut("a")["metadata"]["deletionTimestamp"] = json!("2026-01-02T03:04:05Z");
    cluster.csv_mut("a")["metadata"]["finalizers"] = json!(["x/y", "operators.coreos.com/csv-cleanup"]);
    let role = |kind: &str| {
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind,
            "metadata": {"name": "r", "namespace": if kind == "Role" { "shop" } else { "" }, "uid": "u",
                "labels": {"olm.owner": "a", "olm.owner.namespace": "shop", "olm.owner.kind": "ClusterServiceVersion"}}})
    };
    cluster.components = vec![role("ClusterRole"), role("Role")];
    let id = Id { kind: Kind::ClusterRole, namespace: String::new(), name: "r".to_owned() };
    let components = vec![Write::Delete { id, uid: "u".to_owned() }];
    assert_eq!(cluster.decide("a", 10), Decision { components, ..Decision::default() });
    cluster.components[0]["metadata"]["deletionTimestamp"] = json!("2026-01-02T03:04:06Z");
    assert_eq!(cluster.decide("a", 10), Decision::default(), "it is waited for what is going");
    // What has a namespace goes with it.
    cluster.components.remove(0);
    let patch = json!({"metadata": {"resourceVersion": "1", "finalizers": ["x/y"]}});
    assert_eq!(cluster.decide("a", 10), Decision { patch: Some(patch), ..Decision::default() });
    cluster.csv_mut("a")["metadata"]["finalizers"] = json!(["x/y"]);
    assert_eq!(cluster.decide("a", 10), Decision::default());
}
