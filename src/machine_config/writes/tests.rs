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

#[test]
fn the_mark_of_a_cordon_goes_with_the_end_of_the_drain_whoever_has_uncordoned_the_node() {
    let mark =
        |patch: &Value| patch["metadata"]["annotations"].get("machineconfiguration.openshift.io/cordonedFor").cloned();
    assert_eq!(mark(&answer("7", "uncordon-a", None, false, None)), Some(Value::Null));
    assert_eq!(mark(&answer("7", "drain-a", None, false, None)), None, "it stays while the node is changed");
    let patch = not_cordoned("8");
    assert_eq!((mark(&patch), patch["metadata"]["resourceVersion"].as_str()), (Some(Value::Null), Some("8")));
}

#[test]
fn node_that_is_told_is_not_asked_to_prepare_any_more() {
    let of =
        |patch: &Value| patch["metadata"]["annotations"].get("machineconfiguration.openshift.io/stageAhead").cloned();
    assert_eq!(of(&stage_ahead("7", Some("b"))), Some(json!("b")));
    assert_eq!(of(&stage_ahead("7", None)), Some(Value::Null));
    assert_eq!(of(&tell("9", (&NodeFacts::default(), &[]), &Target::new("b"), None, None)), Some(Value::Null));
}

/// The policies that the API server decides by when a Node is changed.
const GUARDS: &str = include_str!(concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/manifests/machine-config/0000_80_machine-config_03_node-guard.yaml"
));
const CONTROLLER: &str = "system:serviceaccount:openshift-machine-config-operator:machine-config-operator";
const AGENT: &str = "system:serviceaccount:openshift-machine-config-operator:machine-config-daemon";

/// What refuses the change of a Node, which a user makes with its groups; `makes`: it may create MachineConfigs.
fn refusals((user, makes): (&Value, bool), before: &Value, after: &Value) -> Vec<String> {
    let may_make = "authorizer.group('machineconfiguration.openshift.io').resource('machineconfigs').check('create')\
                    .allowed()";
    let mut refusals = Vec::new();
    for text in GUARDS.split("\n---\n") {
        let policy: Value = serde_yaml::from_str(text).unwrap();
        let holds = |rule: &Value| {
            // The CEL of this test has no authorizer.
            let rule = rule["expression"].as_str().unwrap().replace(may_make, "makes");
            let mut context = cel::Context::default();
            let request = json!({"userInfo": user});
            for (name, value) in [("request", &request), ("object", after), ("oldObject", before)] {
                context.add_variable(name, value.clone()).unwrap();
            }
            context.add_variable("makes", makes).unwrap();
            match cel::Program::compile(&rule).unwrap().execute(&context) {
                Ok(cel::Value::Bool(holds)) => holds,
                other => panic!("{rule}: {other:?}"),
            }
        };
        let rules = |place: &str| policy.pointer(place).and_then(Value::as_array).cloned().unwrap_or_default();
        if rules("/spec/matchConditions").iter().all(holds) {
            let broken = rules("/spec/validations").into_iter().filter(|rule| !holds(rule));
            refusals.extend(broken.map(|rule| rule["message"].as_str().unwrap().to_owned()));
        }
    }
    refusals
}

#[test]
fn nodes_are_told_by_whom_the_policies_allow() {
    let user = |name: &str, node: &str| {
        json!({"username": name, "groups": ["system:authenticated"],
        "extra": {"authentication.kubernetes.io/node-name": [node]}})
    };
    let plain = json!({"metadata": {"name": "n"}, "spec": {}});
    let with = |field: &str, value: Value| {
        let mut node = plain.clone();
        node["metadata"][field] = value;
        node
    };
    let told = |key: &str| with("annotations", json!({format!("{GROUP}/{key}"): "other"}));
    let desired = "the configuration that a node is to have is said by the machine-config controller";
    let admin = json!({"username": "kubeadmin", "groups": ["system:masters"]});
    let someone = json!({"username": "labeller"});
    let owner = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "1"}]);
    let own = "the agent of a node changes";
    for (who, before, after, refused) in [
        ((&user(CONTROLLER, "x"), true), &plain, &told("desiredConfig"), None),
        ((&user(AGENT, "n"), false), &plain, &told("desiredConfig"), None),
        ((&user(AGENT, "n"), false), &plain, &told("state"), None),
        ((&user(AGENT, "m"), false), &plain, &told("state"), Some("the agent of a node changes its own node only")),
        ((&user(AGENT, "n"), false), &plain, &with("labels", json!({"a": "b"})), Some(own)),
        ((&user(AGENT, "n"), false), &plain, &with("finalizers", json!(["a/b"])), Some(own)),
        ((&user(AGENT, "n"), false), &with("finalizers", json!(["a/b"])), &plain, Some(own)),
        ((&user(AGENT, "n"), false), &plain, &with("ownerReferences", owner.clone()), Some(own)),
        ((&user(AGENT, "n"), false), &with("ownerReferences", owner.clone()), &told("state"), Some(own)),
        ((&admin, true), &plain, &told("desiredConfig"), None),
        ((&someone, false), &plain, &told("desiredConfig"), Some(desired)),
        ((&someone, false), &plain, &told("desiredImage"), Some(desired)),
        ((&someone, false), &told("desiredConfig"), &plain, Some(desired)),
        ((&someone, false), &told("desiredConfig"), &told("desiredConfig"), None),
        ((&someone, false), &plain, &with("labels", json!({"a": "b"})), None),
        ((&user("system:node:n", "n"), false), &plain, &told("desiredConfig"), Some(desired)),
    ] {
        let found = refusals(who, before, after);
        let is_expected = match refused {
            None => found.is_empty(),
            Some(refused) => found.len() == 1 && found[0].starts_with(refused),
        };
        assert!(is_expected, "{who:?}: {before} -> {after}: {found:?}");
    }
}
