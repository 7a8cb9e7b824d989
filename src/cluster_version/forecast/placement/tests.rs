use super::*;
use serde_json::json;

fn demand(pod: Value) -> Demand {
    let mut pod = pod;
    pod["containers"] = json!([]);
    Demand::of(&json!({"spec": {"template": {"spec": pod}}})).unwrap()
}

fn node(labels: &Value, taints: &Value) -> Node {
    let object = json!({"metadata": {"name": "n1", "labels": labels}, "spec": {"taints": taints}});
    serde_json::from_value(object).unwrap()
}

fn required(terms: &Value) -> Value {
    json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}})
}

fn meets(pod: Value, labels: &Value) -> bool {
    demand(pod).is_met_by(&node(labels, &json!([])))
}

#[test]
fn node_meets_what_one_of_the_terms_requires() {
    let is = |key: &str, operator: &str, values: &[&str]| json!({"key": key, "operator": operator, "values": values});
    let one = |it: Value| required(&json!([{"matchExpressions": [it]}]));
    for (pod, labels, expected) in [
        (json!({}), json!({}), true),
        (json!({"nodeSelector": {"role": "a"}}), json!({"role": "a"}), true),
        (json!({"nodeSelector": {"role": "a"}}), json!({"role": "b"}), false),
        (one(is("role", "Exists", &[])), json!({"role": ""}), true),
        (one(is("role", "Exists", &[])), json!({}), false),
        (one(is("role", "DoesNotExist", &[])), json!({}), true),
        (one(is("role", "DoesNotExist", &[])), json!({"role": ""}), false),
        (one(is("role", "In", &["a", "b"])), json!({"role": "b"}), true),
        (one(is("role", "In", &["a", "b"])), json!({"role": "c"}), false),
        (one(is("role", "NotIn", &["a"])), json!({}), true),
        (one(is("role", "NotIn", &["a"])), json!({"role": "a"}), false),
        (one(is("cores", "Gt", &["3"])), json!({"cores": "4"}), true),
        (one(is("cores", "Gt", &["3"])), json!({"cores": "3"}), false),
        (one(is("cores", "Lt", &["3"])), json!({"cores": "2"}), true),
        (one(is("cores", "Lt", &["3"])), json!({"cores": "many"}), false),
        (one(is("role", "Unheard", &[])), json!({"role": ""}), false),
        (required(&json!([{"matchFields": [is("metadata.name", "In", &["n1"])]}])), json!({}), true),
        (required(&json!([{"matchFields": [is("metadata.name", "In", &["n2"])]}])), json!({}), false),
        (required(&json!([])), json!({}), false),
        (required(&json!([{}])), json!({}), false),
    ] {
        assert_eq!(meets(pod.clone(), &labels), expected, "{pod} {labels}");
    }
    let either = required(&json!([
        {"matchExpressions": [is("control-plane", "Exists", &[])]},
        {"matchExpressions": [is("master", "Exists", &[]), is("zone", "In", &["a"])]},
    ]));
    assert!(meets(either.clone(), &json!({"control-plane": ""})));
    assert!(meets(either.clone(), &json!({"master": "", "zone": "a"})));
    assert!(!meets(either, &json!({"master": ""})), "all of one term");
}

#[test]
fn taints_that_stay_have_to_be_tolerated() {
    let taint = |key: &str, effect: &str| json!([{"key": key, "value": "v", "effect": effect}]);
    for (tolerations, taints, expected) in [
        (json!([]), taint("mine", "NoSchedule"), false),
        (json!([]), taint("mine", "NoExecute"), false),
        (json!([]), taint("mine", "PreferNoSchedule"), true),
        (json!([]), taint("node.kubernetes.io/not-ready", "NoExecute"), true),
        (json!([{"operator": "Exists"}]), taint("mine", "NoSchedule"), true),
        (json!([{"operator": "Exists", "key": "mine"}]), taint("mine", "NoSchedule"), true),
        (json!([{"operator": "Exists", "key": "other"}]), taint("mine", "NoSchedule"), false),
        (json!([{"operator": "Exists", "effect": "NoExecute"}]), taint("mine", "NoSchedule"), false),
        (json!([{"key": "mine", "value": "v"}]), taint("mine", "NoSchedule"), true),
        (json!([{"key": "mine", "operator": "Equal", "value": "w"}]), taint("mine", "NoSchedule"), false),
    ] {
        let demand = demand(json!({"tolerations": tolerations}));
        assert_eq!(demand.is_met_by(&node(&json!({}), &taints)), expected, "{tolerations} {taints}");
    }
}

#[test]
fn what_is_demanded_is_said_with_the_way_out() {
    let has = |key: &str| json!({"matchExpressions": [{"key": key, "operator": "Exists"}]});
    let text = demand(required(&json!([has("control-plane"), has("master")]))).unmet(3);
    assert!(
        text.starts_with("none of the 3 nodes can run its pod, which demands a node with control-plane or master,"),
        "{text}"
    );
    assert!(text.ends_with("label the node that is to run it (kubectl label node NAME KEY=VALUE)"), "{text}");
    let text = demand(json!({})).unmet(1);
    assert!(text.starts_with("the only node cannot run its pod, because of taints"), "{text}");
}
