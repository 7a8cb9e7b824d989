use super::*;

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

fn claimed(patch: &Value) -> Value {
    patch.pointer("/metadata/annotations/machineconfiguration.openshift.io~1claimed").cloned().unwrap()
}

#[test]
fn taint_of_waiting_nodes_leaves_foreign_taints_alone() {
    let foreign = Taint { key: "gpu".into(), effect: "NoSchedule".into(), ..Taint::default() };
    let waiting = taint("7", std::slice::from_ref(&foreign), true);
    let expected = json!([{"key": "gpu", "effect": "NoSchedule"}, {"key": WAITING, "effect": "PreferNoSchedule"}]);
    assert_eq!(waiting["spec"]["taints"], expected);
    assert_eq!(waiting["metadata"]["resourceVersion"], "7");
    let taints: Vec<Taint> = serde_json::from_value(expected).unwrap();
    assert_eq!(taint("8", &taints, false)["spec"]["taints"], json!([{"key": "gpu", "effect": "NoSchedule"}]));
    let told = tell("9", (&NodeFacts::default(), &taints), &Target::new("b"), None, None);
    assert_eq!(told["spec"]["taints"], json!([{"key": "gpu", "effect": "NoSchedule"}]));
    let told = tell("9", (&NodeFacts::default(), &[foreign]), &Target::new("b"), None, None);
    assert_eq!(told.get("spec"), None, "nothing to remove");
}

#[test]
fn claims_are_made_over_the_version_that_was_read() {
    let pool =
        PoolFacts { claimed: [("n1".into(), "3".into()), ("n2".into(), "3".into())].into(), ..PoolFacts::default() };
    let round = Round { claim: names(&["n3"]), settled: names(&["n1"]), ..Round::default() };
    let patch = claims("9", &pool, &round, Some("95,70".to_owned())).unwrap();
    assert_eq!(patch["metadata"]["resourceVersion"], "9");
    assert_eq!(patch["metadata"]["annotations"]["machineconfiguration.openshift.io/node-durations"], "95,70");
    assert_eq!(claimed(&patch), json!(r#"{"n2":"3","n3":"9"}"#));
}

#[test]
fn claims_that_are_over_are_removed_with_others_or_at_the_end() {
    let pool =
        PoolFacts { claimed: [("n1".into(), "3".into()), ("n2".into(), "3".into())].into(), ..PoolFacts::default() };
    assert_eq!(claims("9", &pool, &Round { settled: names(&["n1"]), ..Round::default() }, None), None);
    let patch = claims("9", &pool, &Round { settled: names(&["n1", "n2"]), ..Round::default() }, None).unwrap();
    assert_eq!(claimed(&patch), Value::Null);
    assert_eq!(claims("9", &PoolFacts::default(), &Round::default(), None), None);
}

#[test]
fn number_of_open_claims_is_limited() {
    let claim: Vec<String> = (0..2000).map(|number| format!("n{number}")).collect();
    let patch = claims("9", &PoolFacts::default(), &Round { claim, ..Round::default() }, None).unwrap();
    let claims: BTreeMap<String, String> = serde_json::from_str(claimed(&patch).as_str().unwrap()).unwrap();
    assert_eq!(claims.len(), MOST_CLAIMS);
}

#[test]
fn node_that_others_have_cordoned_is_not_uncordoned() {
    let patch = answer("7", "uncordon-a", Some(&"x".to_owned()), false, None);
    assert_eq!(patch.get("spec"), None);
    assert_eq!(patch["metadata"].get("resourceVersion"), None);
    let patch = answer("7", "uncordon-a", None, true, Some(Timestamp::UNIX_EPOCH));
    assert_eq!(patch["spec"], json!({"unschedulable": null}));
    assert_eq!(patch["metadata"]["resourceVersion"], "7");
    let annotations = &patch["metadata"]["annotations"];
    assert_eq!(annotations["machineconfiguration.openshift.io/doneSince"], "1970-01-01T00:00:00Z");
    assert_eq!(annotations["machineconfiguration.openshift.io/cordonedFor"], Value::Null);
}
