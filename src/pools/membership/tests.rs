use super::*;
use serde_json::{Value, json};

fn pool(name: &str, selector: &Value) -> MachineConfigPool {
    let object = json!({"apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfigPool",
        "metadata": {"name": name}, "spec": {"nodeSelector": selector}});
    serde_json::from_value(object).unwrap()
}

fn role(role: &str) -> String {
    format!("node-role.kubernetes.io/{role}")
}

fn labels(names: &[&str]) -> Labels {
    names.iter().map(|name| (role(name), String::new())).collect()
}

fn pools() -> Vec<MachineConfigPool> {
    let of = |name: &str| pool(name, &json!({"matchLabels": {role(name): ""}}));
    ["worker", "master", "arbiter", "gpu", "edge"].map(of).to_vec()
}

#[test]
fn master_counts_before_custom_and_custom_before_worker() {
    let member = |pool: &str, ignored: Option<&str>| Membership::Member {
        pool: pool.to_owned(),
        ignored: ignored.map(str::to_owned),
    };
    for (roles, expected) in [
        (&[][..], Membership::Unmanaged),
        (&["infra"], Membership::Unmanaged),
        (&["worker"], member("worker", None)),
        (&["master"], member("master", None)),
        (&["master", "worker"], member("master", None)),
        (&["gpu"], member("gpu", None)),
        (&["gpu", "worker"], member("gpu", None)),
        (&["arbiter"], member("arbiter", None)),
        (&["gpu", "master"], member("master", Some("gpu"))),
        (&["gpu", "master", "worker"], member("master", Some("gpu"))),
        (&["gpu", "edge"], Membership::Overlapping(vec!["edge".into(), "gpu".into()])),
        (&["gpu", "edge", "master"], Membership::Overlapping(vec!["edge".into(), "gpu".into()])),
    ] {
        assert_eq!(Membership::of(&labels(roles), &pools()), expected, "{roles:?}");
    }
}

#[test]
fn windows_is_not_managed() {
    let mut labels = labels(&["worker"]);
    labels.insert("kubernetes.io/os".into(), "windows".into());
    assert_eq!(Membership::of(&labels, &pools()), Membership::Unmanaged);
    labels.insert("kubernetes.io/os".into(), "linux".into());
    assert_eq!(Membership::of(&labels, &pools()).pool(), Some("worker"));
}

#[test]
fn selector_without_requirements_selects_nothing() {
    let labels = Labels::from([("a".into(), "1".into())]);
    let expression = |operator: &str, values: &[&str]| json!({"matchExpressions": [{"key": "a", "operator": operator, "values": values}]});
    for (selector, expected) in [
        (json!(null), false),
        (json!({}), false),
        (json!({"matchLabels": {}, "matchExpressions": []}), false),
        (json!({"matchLabels": {"a": "1"}}), true),
        (json!({"matchLabels": {"a": "2"}}), false),
        (json!({"matchLabels": {"a": "1", "b": ""}}), false),
        (expression("In", &["1", "2"]), true),
        (expression("In", &["2"]), false),
        (expression("NotIn", &["2"]), true),
        (expression("Exists", &[]), true),
        (expression("DoesNotExist", &[]), false),
        (expression("Like", &["1"]), false),
    ] {
        let pool = pool("p", &selector);
        assert_eq!(selects(pool.spec.node_selector.as_ref(), &labels), expected, "{selector}");
    }
}
