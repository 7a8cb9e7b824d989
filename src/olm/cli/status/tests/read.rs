//! What is read of objects, and what is said without reading all of them.

use super::*;
use crate::olm::cli::status::shown;

/// States in which each part of an object is shown.
fn shops() -> Vec<Shop> {
    let mut held = installed();
    held.subscriptions = vec![subscription("widgets.v2", "widgets.v2", &json!([]))];
    held.versions = vec![
        version("widgets.v1", "", "Replacing", "BeingReplaced"),
        version("widgets.v2", "widgets.v1", "Pending", "OperatorConditionNotUpgradeable"),
    ];
    let overrides = json!([{"type": "Upgradeable", "status": "False", "reason": "", "message": "not now"}]);
    held.conditions =
        vec![json!({"kind": "OperatorCondition", "metadata": {"namespace": "shop", "name": "widgets.v1"},
        "spec": {"overrides": overrides}})];
    let mut unmet = installed();
    unmet.versions = vec![version("widgets.v1", "", "Pending", "RequirementsNotMet")];
    unmet.versions[0]["status"]["requirementStatus"] = json!([{"group": "", "version": "v1", "kind": "ServiceAccount",
        "name": "widgets", "status": "PresentNotSatisfied", "message": "m", "dependents": [
            {"group": "", "version": "v1", "kind": "PolicyRule", "status": "NotSatisfied", "message": "get pods"}]}]);
    let mut failing = installed();
    failing.versions = vec![version("widgets.v1", "", "Installing", "InstallWaiting")];
    failing.deployments = vec![deployment("widgets.v1", 0, &unavailable())];
    failing.deployments[0]["metadata"]["generation"] = json!(3);
    failing.deployments[0]["status"]["observedGeneration"] = json!(2);
    let mut planned = installed();
    planned.subscriptions = vec![subscription("widgets.v1", "widgets.v2", &json!([]))];
    planned.plans = vec![plan("Installing", true, &[("a", "Created"), ("b", "Unknown")], "retrying")];
    let pending = json!([condition("BundleLookupPending", "JobIncomplete", "it is read")]);
    planned.plans[0]["status"]["bundleLookups"] = json!([{"path": "p", "identifier": "widgets.v2", "replaces": "",
        "catalogSourceRef": {}, "conditions": pending}]);
    vec![installed(), held, unmet, failing, planned]
}

#[test]
fn what_is_kept_of_objects_says_the_same_as_all_of_them() {
    for shop in shops() {
        let kept = |(what, list): (What, Result<Vec<Value>, String>)| {
            let list = list.unwrap();
            (what, Ok(list.iter().map(|object| what.kept(object).unwrap()).collect()))
        };
        let lists: Lists = shop.lists().into_iter().map(kept).collect();
        let of_kept = View::of(&Objects::of(lists), None);
        assert_eq!(of_kept, shop.view());
        assert!(of_kept.undecodable.is_empty() && of_kept.rows.len() == 1, "{of_kept:?}");
    }
}

#[test]
fn plan_to_approve_is_known_without_reading_plans() {
    let mut shop = installed();
    let waits = json!([condition("InstallPlanPending", "RequiresApproval", "")]);
    shop.subscriptions = vec![subscription("widgets.v1", "widgets.v2", &waits)];
    let mut lists = shop.lists();
    lists.retain(|what, _| What::FEW.contains(what));
    let view = View::of(&Objects::of(lists.clone()), None);
    assert!(view.rows[0].waits_for_approval() && view.rows[0].is_well() && view.remarks.is_empty(), "{view:?}");
    assert_eq!(view.rows[0].what_to_do, "approve the InstallPlan: cvo olm approve install-abcde -n shop");
    let text = text::text(&view, &Page { width: usize::MAX, colours: false, now: now() });
    assert!(text.contains("\n  InstallPlan install-abcde: RequiresApproval; it waits for an approval.\n"), "{text}");
    // Where they are read, one that is not there waits for nobody.
    lists.insert(What::Plans, Ok(Vec::new()));
    assert!(!View::of(&Objects::of(lists), None).rows[0].waits_for_approval());
}

#[test]
fn page_gets_the_sentences_with_their_times_and_what_needs_somebody_first() {
    let mut shop = installed();
    let waits = json!([condition("InstallPlanPending", "RequiresApproval", "")]);
    shop.subscriptions = vec![subscription("widgets.v1", "widgets.v2", &waits)];
    shop.plans = vec![plan("RequiresApproval", false, &[("a", "Unknown")], "")];
    shop.versions
        .extend([version("hands.v1", "", "Failed", "NoOperatorGroup"), version("arms.v1", "", "Succeeded", "")]);
    let mut lists = shop.lists();
    let catalog = json!({"metadata": {"namespace": "market", "name": "main"}, "spec": {"sourceType": "grpc", "image": "r.io/c:1"},
        "status": {"connectionState": {"lastObservedState": "READY"}}});
    lists.insert(What::Catalogs, Ok(vec![catalog]));
    let shown = shown(&Objects::of(lists));
    let operators = shown["operators"].as_array().unwrap();
    let said = |at: usize, key: &str| operators[at][key].as_str().unwrap_or_default().to_owned();
    let keys: Vec<_> = (0..operators.len()).map(|at| (said(at, "key"), said(at, "tone"))).collect();
    let expected = [("shop/hands.v1", "bad"), ("shop/widgets", "busy"), ("shop/arms.v1", "good")];
    assert_eq!(keys, expected.map(|(key, tone)| (key.to_owned(), tone.to_owned())));
    assert_eq!(said(1, "whatToDo"), "approve the InstallPlan: cvo olm approve install-abcde -n shop");
    assert_eq!(said(2, "whatToDo"), "");
    let sentences = operators[1]["sentences"].as_array().unwrap();
    let is_plan = |it: &&Value| it["text"].as_str().unwrap().starts_with("InstallPlan ");
    let expected = json!({"depth": 1, "text": "InstallPlan install-abcde: RequiresApproval", "since": BEGIN,
        "rest": "; it waits for an approval of its 1 steps.", "tone": "busy"});
    assert_eq!(sentences.iter().find(is_plan), Some(&expected));
    assert!(sentences.iter().all(|it| !it["text"].as_str().unwrap().starts_with("What to do")), "it is said apart");
    assert_eq!(shown["catalogs"][0]["state"], "READY");
}

#[test]
fn deployments_that_cannot_be_read_are_not_missing() {
    let shop = installed();
    let mut lists = shop.lists();
    lists.insert(What::Deployments, Err("forbidden".to_owned()));
    let view = View::of(&Objects::of(lists), None);
    assert!(view.rows[0].installed.as_ref().unwrap().deployments.is_empty() && !view.needs_somebody());
    assert_eq!(view.remarks, ["Deployments are not shown: forbidden"]);
    let unknown = Objects::of([(What::Subscriptions, Err("forbidden".to_owned()))].into());
    let text = text::text(&View::of(&unknown, None), &Page { width: usize::MAX, colours: false, now: now() });
    assert_eq!(text, "\nSubscriptions are not shown: forbidden\n", "it is not known that there is none");
}
