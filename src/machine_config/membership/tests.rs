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

#[test]
fn nodes_that_no_pool_selects_are_told_of_with_the_command_that_labels_them() {
    let pool = |name: &str, selector: serde_json::Value| {
        let mut pool = MachineConfigPool::new(name, Default::default());
        pool.spec.node_selector = serde_json::from_value(selector).unwrap();
        pool
    };
    let by_label = |label: &str| serde_json::json!({"matchLabels": {format!("node-role.kubernetes.io/{label}"): ""}});
    let pools = [pool(MASTER, by_label("master")), pool(WORKER, by_label("worker"))];
    let labels = |keys: &[&str]| -> Labels { keys.iter().map(|key| ((*key).to_owned(), String::new())).collect() };
    let mut windows = labels(&[]);
    windows.insert("kubernetes.io/os".to_owned(), "windows".to_owned());
    // As kubeadm makes them.
    let nodes = [
        ("cp", labels(&["node-role.kubernetes.io/control-plane"])),
        ("n1", labels(&[])),
        ("n2", labels(&[])),
        ("in", labels(&["node-role.kubernetes.io/worker"])),
        ("win", windows),
    ];
    let of = |pools: &[MachineConfigPool]| without_pool(nodes.iter().map(|(name, labels)| (*name, labels)), pools);
    let expected = [
        "node cp belongs to no MachineConfigPool, so that nothing configures it; to let pool master configure nodes: kubectl \
         label node cp node-role.kubernetes.io/master=",
        "nodes n1, n2 belong to no MachineConfigPool, so that nothing configures them; to let pool worker configure nodes: \
         kubectl label node n1 n2 node-role.kubernetes.io/worker=",
    ];
    assert_eq!(of(&pools), expected);
    assert!(of(&[]).is_empty(), "nodes are not configured by pools");
    let found = of(&[pool("infra", by_label("infra"))]);
    assert!(found[0].ends_with("give them labels that the nodeSelector of a pool selects"), "{found:?}");
    let many: Vec<(String, Labels)> = (0..8).map(|number| (format!("n{number}"), Labels::new())).collect();
    let found = without_pool(many.iter().map(|(name, labels)| (name.as_str(), labels)), &pools);
    assert!(found[0].starts_with("nodes n0, n1, n2, n3, n4 and 3 more belong"), "{found:?}");
}
