use super::*;
use crate::olm::operator::group::{GroupFacts, status_patch};
use crate::olm::operator::mode::check;

fn failed(reason: &str, message: &str) -> String {
    format!("Failed/{reason}: {message}")
}

#[test]
fn only_one_group_makes_a_member_and_a_failure_ends_with_it() {
    let mut cluster = Cluster::new([csv("a", "Succeeded", "InstallSucceeded")]).marked().deployed("a", ready());
    let group = cluster.groups.remove(0);
    assert_eq!(cluster.step("a", 10), failed("NoOperatorGroup", "csv in namespace with no operatorgroups"));
    // What runs is left as it is, whatever else would be changed back.
    Arc::make_mut(&mut cluster.deployments.get_mut("server").unwrap().object)["spec"]["replicas"] = json!(7);
    assert_eq!(cluster.decide("a", 10).deployments, []);
    cluster.groups = vec![group.clone(), group.clone()];
    let several = "csv created in namespace with multiple operatorgroups, can't pick one automatically";
    assert_eq!(cluster.step("a", 10), failed("TooManyOperatorGroups", several));
    cluster.groups = vec![group];
    let reasons = [
        "NoTargetNamespaces",
        "NoOperatorGroup",
        "TooManyOperatorGroups",
        "UnsupportedOperatorGroup",
        "InvalidInstallModes",
    ];
    for reason in reasons {
        let status = json!({"phase": "Failed", "reason": reason});
        merge(&mut cluster.csv_mut("a")["status"], &status);
        let expected = "Pending/RequirementsUnknown: InstallModes now support target namespaces";
        assert_eq!(cluster.step("a", 10), expected, "{reason}");
    }
}

#[test]
fn member_is_marked_before_anything_else_is_done() {
    let mut cluster = Cluster::new([csv("a", "", "")]);
    let definitions = json!({"owned": [{"name": "k.example.com", "version": "v1", "kind": "K"}],
        "required": [{"name": "other.example.com", "version": "v2", "kind": "Other"}]});
    cluster.csv_mut("a")["spec"]["customresourcedefinitions"] = definitions;
    let decision = cluster.decide("a", 10);
    let metadata = &decision.patch.as_ref().unwrap()["metadata"];
    let annotations =
        json!({"olm.operatorGroup": "g", "olm.operatorNamespace": "shop", "olm.targetNamespaces": "shop"});
    assert_eq!(metadata["annotations"], annotations);
    assert_eq!(metadata["finalizers"], json!(["operators.coreos.com/csv-cleanup"]));
    assert_eq!(metadata["resourceVersion"], "1");
    let labels = metadata["labels"].as_object().unwrap();
    let mut values: Vec<&str> = labels.values().map(|value| value.as_str().unwrap()).collect();
    values.sort_unstable();
    assert_eq!(values, ["provided", "required"]);
    assert!(labels.keys().all(|key| key.starts_with("olm.api.")), "{labels:?}");
    assert_eq!((decision.status, decision.deployments.len()), (None, 0));
    // All namespaces are an empty text, and nothing selected is none at all.
    cluster.groups[0]["spec"] = json!({});
    assert_eq!(cluster.decide("a", 10).patch.unwrap()["metadata"]["annotations"]["olm.targetNamespaces"], "");
    cluster.groups[0]["spec"] = json!({"selector": {"matchLabels": {"x": "y"}}});
    let patch = cluster.decide("a", 10).patch.unwrap();
    assert_eq!(patch["metadata"].get("annotations"), None);
    let step = cluster.marked().step("a", 10);
    let expected = "no targetNamespaces are matched operatorgroups namespace selection";
    assert_eq!(step, failed("NoTargetNamespaces", expected));
}

#[test]
fn targets_are_those_that_are_named_then_those_that_are_selected_then_all() {
    let namespaces: BTreeMap<String, BTreeMap<String, String>> = [("b", "y"), ("a", "y"), ("c", "n")]
        .map(|(name, value)| (name.to_owned(), BTreeMap::from([("x".to_owned(), value.to_owned())])))
        .into();
    let selector = json!({"matchLabels": {"x": "y"}});
    for (spec, expected) in [
        (json!({}), vec![""]),
        (json!({"selector": {}}), vec![""]),
        (json!({"selector": {"matchLabels": {}}}), vec![""]),
        (json!({"selector": selector}), vec!["a", "b"]),
        (json!({"selector": {"matchLabels": {"x": "z"}}}), vec![]),
        // As documentation shows it: a key that is none of a selector is a label, whatever stands beside it.
        (json!({"selector": {"x": "y"}}), vec!["a", "b"]),
        (json!({"selector": {"x": "z"}}), vec![]),
        (json!({"selector": {"x": 1}}), vec![]),
        (json!({"selector": {"x": "n", "matchExpressions": [{"key": "x", "operator": "Exists"}]}}), vec!["c"]),
        (json!({"selector": {"x": "n", "matchLabels": {"x": "y"}}}), vec![]),
        (json!({"targetNamespaces": ["z", "d", "z"], "selector": selector}), vec!["d", "z"]),
        (json!({"targetNamespaces": ["d", ""]}), vec![]),
        (json!({"targetNamespaces": [""]}), vec![]),
    ] {
        assert_eq!(targets(&typed(spec.clone()), &namespaces), expected, "{spec}");
    }
}

#[test]
fn modes_decide_which_targets_are_supported() {
    let all = ["OwnNamespace", "SingleNamespace", "MultiNamespace", "AllNamespaces"];
    let with = |modes: &[&str]| -> Vec<_> {
        modes.iter().map(|mode| typed(json!({"type": mode, "supported": true}))).collect()
    };
    let verdict = |modes: &[&str], targets: &[&str]| {
        let targets: Vec<String> = targets.iter().map(|it| (*it).to_owned()).collect();
        check(&with(modes), "own", &targets).map_err(|(_, message)| message)
    };
    let lacking = |without: &str| -> Vec<&str> { all.into_iter().filter(|mode| *mode != without).collect() };
    for (needed, targets, what) in [
        ("OwnNamespace", vec!["own"], "own namespace"),
        ("AllNamespaces", vec![""], "all namespaces"),
        ("SingleNamespace", vec!["x"], "one namespace"),
        ("MultiNamespace", vec!["x", "y"], "2 namespaces"),
        ("OwnNamespace", vec!["own", "x"], "own namespace"),
    ] {
        assert_eq!(verdict(&all, &targets), Ok(()), "{targets:?}");
        let message = format!("{needed} InstallModeType not supported, cannot configure to watch {what}");
        assert_eq!(verdict(&lacking(needed), &targets), Err(message), "{targets:?}");
    }
    let zero = "operatorgroup has invalid selected namespaces, cannot configure to watch zero namespaces";
    assert_eq!(verdict(&all, &[]), Err(zero.to_owned()));
    let mixed = "operatorgroup has invalid selected namespaces, NamespaceAll found when |selected namespaces| > 1";
    assert_eq!(verdict(&all, &["", "x"]), Err(mixed.to_owned()));
    let unsupported = [typed(json!({"type": "OwnNamespace", "supported": false}))];
    assert!(check(&unsupported, "own", &["own".to_owned()]).is_err());
    let (reason, message) = check(&with(&["OwnNamespace", "OwnNamespace"]), "own", &["own".to_owned()]).unwrap_err();
    assert_eq!((reason, message.contains("OwnNamespace twice")), ("InvalidInstallModes", true));
}

#[test]
fn mode_that_is_named_twice_is_a_failure_until_it_is_mended() {
    let mut cluster = Cluster::new([csv("a", "Succeeded", "InstallSucceeded")]).marked().deployed("a", ready());
    let modes = cluster.csvs[0]["spec"]["installModes"].clone();
    let twice = json!({"type": "OwnNamespace", "supported": true});
    cluster.csv_mut("a")["spec"]["installModes"].as_array_mut().unwrap().push(twice);
    let message = "spec.installModes names OwnNamespace twice; name each install mode once";
    assert_eq!(cluster.step("a", 10), failed("InvalidInstallModes", message));
    let decision = cluster.decide("a", 10);
    assert_eq!(decision.deployments, [], "what runs is left as it is");
    let (_, status) = decision.status.unwrap();
    cluster.csv_mut("a")["status"] = json!(*status);
    assert_eq!(cluster.step("a", 11), "", "it stays so");
    cluster.csv_mut("a")["spec"]["installModes"] = modes;
    assert_eq!(cluster.step("a", 12), "Pending/RequirementsUnknown: InstallModes now support target namespaces");
}

#[test]
fn status_of_a_group_changes_only_where_it_differs() {
    let group = |status: Value| -> OperatorGroup {
        let mut object = json!({"metadata": {"name": "g", "namespace": "shop"}, "spec": {"serviceAccountName": "s"}});
        if !status.is_null() {
            object["status"] = status;
        }
        typed(object)
    };
    let targets = ["a".to_owned()];
    let patch = |group: &OperatorGroup, has_others: bool, account_exists: bool| {
        status_patch(&GroupFacts { group, targets: &targets, has_others, account_exists }, at(5))
    };
    let first = patch(&group(Value::Null), false, true).unwrap();
    assert_eq!(first["namespaces"], json!(["a"]));
    assert_eq!(first["serviceAccountRef"]["name"], "s");
    assert!(first["lastUpdated"].is_string() && first.get("conditions").is_none());
    assert_eq!(patch(&group(first.clone()), false, true), None, "all is said");
    // The account is gone, and there is another group: what is known of namespaces stays.
    let told = patch(&group(first.clone()), true, false).unwrap();
    assert_eq!((told.get("namespaces"), told["serviceAccountRef"].clone()), (None, Value::Null));
    let all: Vec<String> = told["conditions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| {
            format!(
                "{}={} {}",
                it["type"].as_str().unwrap(),
                it["status"].as_str().unwrap(),
                it["reason"].as_str().unwrap()
            )
        })
        .collect();
    let expected = [
        "OperatorGroupServiceAccount=True ServiceAccountNotFound",
        "MultipleOperatorGroup=True MultipleOperatorGroupsFound",
    ];
    assert_eq!(all, expected);
    assert_eq!(told["conditions"][0]["message"], "ServiceAccount s not found");
    // They end, and those of others stay.
    let mut status = first;
    status["conditions"] = told["conditions"].clone();
    let other = json!({"type": "Other", "status": "True", "reason": "R", "message": "", "lastTransitionTime": "2026-01-02T03:04:05Z"});
    status["conditions"].as_array_mut().unwrap().push(other.clone());
    let ended = patch(&group(status), false, true).unwrap();
    assert_eq!(ended, json!({"conditions": [other]}));
}
