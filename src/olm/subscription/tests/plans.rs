//! Which plans are made, and which are given up.

use super::*;
use crate::olm::api::install_plan::Step;
use crate::olm::steps::StepError;

fn complete(csv: &str) -> Plan {
    plan(1, csv, InstallPlanPhase::Complete)
}

#[test]
fn head_of_the_channel_is_planned_once() {
    assert_eq!(Case::of(&["a"]).planned(), Some(vec!["a.v2".to_owned()]));
    for phase in [InstallPlanPhase::RequiresApproval, InstallPlanPhase::Installing, InstallPlanPhase::Failed] {
        let case = Case::of(&["a"]).with_plan(plan(1, "a.v2", phase.clone()));
        assert_eq!(case.planned(), None, "{phase:?}");
        assert!(case.decide().superseded.is_empty(), "{phase:?}");
    }
    let installed = Case::of(&["a"]).with_plan(complete("a.v2")).with_csv(csv("a.v2", Phase::Succeeded));
    assert_eq!(installed.planned(), None);
}

#[test]
fn update_is_planned_once_what_is_installed_is_ready() {
    let case = |phase| Case::of(&["a"]).with_plan(complete("a.v1")).with_csv(csv("a.v1", phase));
    assert_eq!(case(Phase::Succeeded).planned(), Some(vec!["a.v2".to_owned()]));
    for phase in [Phase::None, Phase::Pending, Phase::InstallReady, Phase::Installing] {
        assert_eq!(case(phase.clone()).planned(), None, "{phase:?}");
    }
    let replaced = |phase| {
        case(Phase::Replacing)
            .with_plan(plan(2, "a.v2", InstallPlanPhase::Complete))
            .with_csv(replacing("a.v2", phase, "a.v1"))
    };
    for phase in [Phase::Pending, Phase::Installing, Phase::Succeeded] {
        let case = replaced(phase.clone());
        assert_eq!((case.planned(), case.said(condition::RESOLUTION_FAILED)), (None, None), "{phase:?}");
    }
}

#[test]
fn version_that_failed_holds_its_successors_unless_failing_forward_is_asked_for() {
    let case = || {
        Case::of(&["a"])
            .with_plan(plan(2, "a.v1", InstallPlanPhase::Complete))
            .with_csv(csv("a.v0", Phase::Replacing))
            .with_csv(replacing("a.v1", Phase::Failed, "a.v0"))
    };
    let (_, message) = case().said(condition::RESOLUTION_FAILED).unwrap();
    assert!(message.contains("clusterserviceversion a.v0 exists and is not referenced by a subscription"), "{message}");
    assert!(message.contains("sub-a"), "{message}");
    let forward = |mut case: Case| {
        case.groups = vec![Arc::new(Group { fail_forward: true, ..Group::default() })];
        case
    };
    assert_eq!(forward(case()).planned(), Some(vec!["a.v2".to_owned()]));
    let mut wrong = forward(case());
    wrong.csvs[0] = Arc::new(csv("a.v0", Phase::Succeeded));
    let said = wrong.said(condition::RESOLUTION_FAILED).unwrap();
    assert_eq!(
        said,
        (
            reason::ERROR_PREVENTED_RESOLUTION.to_owned(),
            "csv ns/a.v0 in phase Succeeded instead of Replacing".to_owned()
        )
    );
}

#[test]
fn version_that_was_deleted_comes_back() {
    let case = Case::of(&["a"]).with_plan(complete("a.v2"));
    assert_eq!(case.planned(), Some(vec!["a.v2".to_owned()]));
    let going = case.with_csv(Csv { is_deleted: true, ..csv("a.v2", Phase::Succeeded) });
    assert_eq!(going.planned(), None, "it has to be gone first");
}

/// One that says of which package it is holds a Subscription that does not know it. One that says nothing becomes its own.
#[test]
fn version_that_somebody_has_made_becomes_that_of_the_subscription() {
    let case = |made: Csv| Case::of(&["a"]).with_csv(made);
    let told = case(csv("a.v2", Phase::Succeeded)).said(condition::RESOLUTION_FAILED).unwrap().1;
    assert!(told.contains("clusterserviceversion a.v2 exists and is not referenced by a subscription"), "{told}");
    let made = Csv { properties: None, ..csv("a.v2", Phase::Succeeded) };
    let new = case(made.clone()).decide().create.remove(0);
    let existing: Vec<&str> = new.existing.iter().map(String::as_str).collect();
    assert_eq!((new.csvs().collect::<Vec<_>>(), existing), (vec!["a.v2"], vec!["a.v2"]));
    let taken = case(made).with_plan(complete("a.v2"));
    assert_eq!((taken.planned(), taken.status().installed_csv.as_str()), (None, "a.v2"));
    assert!(Case::of(&["a"]).decide().create.remove(0).existing.is_empty());
}

#[test]
fn newer_answer_takes_the_place_of_a_plan_that_nobody_has_approved() {
    let superseded =
        |case: &Case| -> Vec<String> { case.decide().superseded.iter().map(|plan| plan.name.clone()).collect() };
    let open = Case::of(&["a"]).with_plan(plan(1, "a.v1", InstallPlanPhase::RequiresApproval));
    assert_eq!(
        (superseded(&open), open.planned()),
        (vec!["install-1".to_owned()], None),
        "one can be approved at any time"
    );
    let waits = Case { unpacked: Unpacked::Pending(String::new()), ..open };
    assert_eq!(superseded(&waits), [""; 0], "the new one cannot be made yet");
    // Somebody has approved it, and nobody has begun yet.
    let approved = Plan { approved: true, ..plan(1, "a.v1", InstallPlanPhase::RequiresApproval) };
    let approved = Case::of(&["a"]).with_plan(approved);
    assert_eq!((superseded(&approved), approved.planned()), (vec![], None));
    let running = Case::of(&["a"]).with_plan(plan(1, "a.v1", InstallPlanPhase::Installing));
    assert_eq!((superseded(&running), running.planned()), (vec![], None));
    let failed = Case::of(&["a"]).with_plan(plan(1, "a.v1", InstallPlanPhase::Failed));
    assert_eq!((superseded(&failed), failed.planned()), (vec![], Some(vec!["a.v2".to_owned()])));
    let foreign = Plan { owners: BTreeSet::new(), ..plan(1, "a.v1", InstallPlanPhase::RequiresApproval) };
    let foreign = Case::of(&["a"]).with_plan(foreign);
    assert_eq!(
        (superseded(&foreign), foreign.planned()),
        (vec![], Some(vec!["a.v2".to_owned()])),
        "it is of somebody else"
    );
}

#[test]
fn version_that_was_asked_for_by_name_is_not_superseded() {
    let pinned = |csv: &str| {
        let case = Case::of(&["a"]).with_plan(plan(1, csv, InstallPlanPhase::RequiresApproval));
        case.change(0, |it| it.spec.starting_csv = "a.v1".to_owned())
    };
    let case = pinned("a.v1");
    assert_eq!((case.planned(), case.decide().superseded.len()), (None, 0));
    assert_eq!(pinned("a.v2").decide().superseded.len(), 1, "it is another one");
    // Whatever would come with it now.
    let more = Plan {
        csvs: ["a.v1", "x.v1"].map(ToOwned::to_owned).into(),
        ..plan(1, "a.v1", InstallPlanPhase::RequiresApproval)
    };
    let case = Case { plans: vec![Arc::new(more)], ..pinned("a.v1") };
    assert_eq!((case.planned(), case.decide().superseded.len()), (None, 0));
}

#[test]
fn plan_has_generation_approval_and_owners_of_the_namespace() {
    let case = Case::of(&["a", "b"]).with_plan(plan(7, "x.v1", InstallPlanPhase::Complete));
    let case = case.change(1, |it| it.spec.install_plan_approval = Some(Approval::Manual));
    let new = case.decide().create.remove(0);
    let (plan, status) = new.object(&BTreeMap::new()).unwrap();
    assert_eq!((plan.spec.generation, plan.spec.approved, &plan.spec.approval), (Some(8), false, &Approval::Manual));
    assert_eq!(plan.spec.cluster_service_version_names, ["a.v2", "b.v1", "c.v1"]);
    assert_eq!(status.phase, InstallPlanPhase::RequiresApproval);
    let owners: Vec<String> = plan.metadata.owner_references.iter().flatten().map(|it| it.uid.clone()).collect();
    assert_eq!(owners, ["uid-a", "uid-b"]);
    assert!(plan.metadata.name.as_deref().unwrap().starts_with("install-"));
    assert_eq!(case.decide().create.remove(0).name(), new.name(), "whoever tries again makes the same one");
    let automatic = Case::of(&["a"]).decide().create.remove(0).object(&BTreeMap::new()).unwrap();
    assert_eq!((automatic.0.spec.approved, automatic.1.phase), (true, InstallPlanPhase::Installing));
}

#[test]
fn plan_that_takes_the_place_of_a_deleted_one_has_another_name() {
    let first = Case::of(&["a"]).decide().create.remove(0);
    let made = plan(first.generation, "a.v2", InstallPlanPhase::RequiresApproval);
    let status = Case::of(&["a"]).with_plan(made).status();
    // It is gone, and after that the Subscription says so.
    let deleted = Case::of(&["a"]).change(0, |it| it.status = Some(status.clone()));
    let said = deleted.status();
    assert_eq!((&said.install_plan_ref, said.install_plan_generation), (&None, Some(1)));
    let told = Case::of(&["a"]).change(0, |it| it.status = Some(said.clone()));
    let names: Vec<String> = [deleted, told].iter().map(|case| case.decide().create.remove(0).name()).collect();
    assert_eq!(names[0], names[1], "whoever tries again makes the same one");
    assert_ne!(names[0], first.name());
}

#[test]
fn bundle_that_only_others_depend_on_gets_a_subscription() {
    let (_, status) = Case::of(&["b"]).decide().create.remove(0).object(&BTreeMap::new()).unwrap();
    let kinds: Vec<(&str, &str)> =
        status.plan.iter().map(|step: &Step| (step.resource.kind.as_str(), step.resource.name.as_str())).collect();
    assert!(kinds.contains(&("Subscription", "c-stable-main-ns")), "{kinds:?}");
    assert_eq!(kinds.iter().filter(|(kind, _)| *kind == "Subscription").count(), 1);
    let lookups: Vec<&str> = status.bundle_lookups.iter().map(|it| it.identifier.as_str()).collect();
    assert_eq!(lookups, ["b.v1", "c.v1"]);
}

/// With it the manifests of a bundle are found again, and whoever reads the plan sees where they come from.
#[test]
fn plan_says_of_each_bundle_where_it_comes_from() {
    let case = Case::of(&["a"]).with_plan(complete("a.v1")).with_csv(csv("a.v1", Phase::Succeeded));
    let (_, status) = case.decide().create.remove(0).object(&BTreeMap::new()).unwrap();
    assert_eq!(status.catalog_sources, ["main"]);
    let [lookup] = &status.bundle_lookups[..] else { panic!("{status:?}") };
    assert_eq!((lookup.identifier.as_str(), lookup.replaces.as_str()), ("a.v2", "a.v1"));
    assert_eq!(lookup.path, format!("quay.io/test/a@sha256:{}", "2".repeat(64)));
    let catalog = &lookup.catalog_source_ref;
    assert_eq!((catalog.namespace.as_deref(), catalog.name.as_deref()), (Some("ns"), Some("main")));
    let properties: Value = serde_json::from_str(&lookup.properties).unwrap();
    let package = json!({"type": "olm.package", "value": {"packageName": "a", "version": "2.0.0"}});
    assert_eq!(properties, json!({"properties": [package]}));
}

#[test]
fn no_plan_is_made_while_one_bundle_is_missing() {
    let pending = Case { unpacked: Unpacked::Pending("it is fetched".to_owned()), ..Case::of(&["a"]) };
    let said = pending.said(condition::BUNDLE_UNPACKING);
    assert_eq!(said, Some((reason::UNPACKING_IN_PROGRESS.to_owned(), "it is fetched".to_owned())));
    assert_eq!(pending.planned(), None);
    for (of_content, expected, text) in [
        (false, reason::BUNDLE_UNPACK_FAILED, "Bundle unpacking failed: no"),
        (true, reason::ERROR_PREVENTED_UNPACKING, "no"),
    ] {
        let failed = Case { unpacked: Unpacked::Failed { cause: "no".to_owned(), of_content }, ..Case::of(&["a"]) };
        assert_eq!(failed.said(condition::BUNDLE_UNPACK_FAILED), Some((expected.to_owned(), text.to_owned())));
        assert_eq!((failed.said(condition::BUNDLE_UNPACKING), failed.planned()), (None, None));
    }
}

#[test]
fn plan_whose_steps_were_not_written_is_completed() {
    let begun = Plan { is_empty: true, phase: InstallPlanPhase::None, ..plan(4, "a.v2", InstallPlanPhase::None) };
    let new = Case::of(&["a"]).with_plan(begun).decide().create.remove(0);
    assert_eq!((new.name().as_str(), new.generation), ("install-4", 4));
}

#[test]
fn group_says_how_long_fetching_may_take_and_when_it_is_tried_again() {
    let group = |timeout: &str, retry: &str| {
        let object = json!({"metadata": {"name": "g", "annotations": {
            "operatorframework.io/bundle-unpack-timeout": timeout,
            "operatorframework.io/bundle-unpack-min-retry-interval": retry}}, "spec": {}});
        Group::of(&serde_json::from_value(object).unwrap())
    };
    let seconds = |it: Option<SignedDuration>| it.map(|time| time.as_secs());
    for (timeout, retry, expected) in [
        ("5m", "30s", (Some(300), Some(30))),
        ("0", "0", (Some(0), None)),
        ("-1m", "-1m", (None, None)),
        ("soon", "later", (None, None)),
    ] {
        let group = group(timeout, retry);
        assert_eq!((seconds(group.unpack_timeout), seconds(group.unpack_retry)), expected, "{timeout} {retry}");
        let case = Case { groups: vec![Arc::new(group)], ..Case::of(&["a"]) };
        let wanted = case.decide().wanted;
        assert_eq!((seconds(wanted[0].timeout), seconds(wanted[0].retry)), expected, "{timeout} {retry}");
    }
}

/// A bundle of this name with a definition of so many bytes.
fn large(name: &str, size: usize) -> Arc<Bundle> {
    let csv = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion", "metadata": {"name": name},
        "spec": {"install": {"strategy": "deployment", "spec": {"deployments": []}}}});
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{name}.g"), "annotations": {"text": "x".repeat(size)}},
        "spec": {"group": "g", "names": {"kind": "K", "plural": "ks"}, "versions": []}});
    Arc::new(read::manifests(name, &[csv.to_string(), definition.to_string()]).unwrap())
}

#[test]
fn plan_with_megabytes_of_manifests_fits_into_an_object_and_says_where_they_are() {
    let mut new = Case::of(&["b"]).decide().create.remove(0);
    let first = new.bundles[0].0.clone();
    let named = |at: usize| New { name: format!("b{at}.v1"), ..first.clone() };
    new.bundles = (0..20).map(|at| (named(at), large(&named(at).name, 600_000))).collect();
    let (_, status) = new.object(&BTreeMap::new()).unwrap();
    let size = serde_json::to_string(&status).unwrap().len();
    assert!(size < 1 << 20, "{size}");
    let definitions: Vec<&Step> =
        status.plan.iter().filter(|step| step.resource.kind == "CustomResourceDefinition").collect();
    assert_eq!(definitions.len(), 20);
    for step in definitions {
        let manifest: Value = serde_json::from_str(&step.resource.manifest).unwrap();
        let expected = (&json!("Bundle"), &json!(step.resolving), &json!(first.image), &json!("main"));
        let said = (&manifest["kind"], &manifest["name"], &manifest["image"], &manifest["catalogSourceName"]);
        assert_eq!(said, expected);
    }
    // The rest stands there.
    let csv: Value = serde_json::from_str(&status.plan[0].resource.manifest).unwrap();
    assert_eq!(csv["kind"], "ClusterServiceVersion");
    // Of manifests that its catalog has, there is a record as well, which says what they need to be found.
    let inline = |size: usize| {
        let mut new = new.clone();
        new.bundles = vec![(New { image: String::new(), ..first.clone() }, large(&first.name, size))];
        new.object(&BTreeMap::new()).unwrap().1.bundle_lookups.len()
    };
    assert_eq!((inline(600_000), inline(1_000)), (1, 0));
}

/// Even where the plan says only where the manifests are, each step takes some room.
#[test]
fn bundle_with_thousands_of_objects_is_refused_before_anything_is_written() {
    let map = |at: usize| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("m{at}")}});
    let csv = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion", "metadata": {"name": "a.v2"},
        "spec": {"install": {"strategy": "deployment", "spec": {"deployments": []}}}});
    let with = |count: usize| {
        let texts: Vec<String> = (0..count).map(|at| map(at).to_string()).chain([csv.to_string()]).collect();
        let mut new = Case::of(&["a"]).decide().create.remove(0);
        new.bundles[0].1 = Arc::new(read::manifests("a.v2", &texts).unwrap());
        new
    };
    let (plan, status) = with(1_500).object(&BTreeMap::new()).unwrap();
    let size = json!(plan).to_string().len() + json!(status).to_string().len();
    assert_eq!(status.plan.len(), 1_501);
    assert!(size < 1_500_000, "{size}");
    let error = with(9_999).object(&BTreeMap::new()).unwrap_err();
    let StepError::Large { steps, bytes, .. } = &error else { panic!("{error}") };
    assert_eq!(*steps, 10_000);
    assert!(*bytes > 1_400_000);
    let text = error.to_string();
    for expected in
        ["10000 steps", &bytes.to_string(), "at most 1400000", "bundle CSV a.v2", "fewer objects", "per-operator"]
    {
        assert!(text.contains(expected), "{expected}: {text}");
    }
}
