//! What a Subscription changes of Deployments.

use super::*;

const TEMPLATE: &str = "/spec/install/spec/deployments/0/spec/template";

/// The Deployment that is created of a version whose template has this besides, where its Subscription says that.
fn created(template: &Value, config: &Value) -> Value {
    let mut version = version("a", "InstallReady", &[]);
    merge(version.pointer_mut(TEMPLATE).unwrap(), template);
    let mut cluster = Cluster::new([version]).marked();
    let config = (!config.is_null()).then(|| typed(config.clone()));
    let subscriber = Subscriber { name: "s".into(), current_csv: "a".into(), config, ..Subscriber::default() };
    cluster.subscribers = vec![subscriber];
    let [Write::Create { object, .. }] = &cluster.decide("a", 10).deployments[..] else { panic!("it is created") };
    object.clone()
}

/// A list of each container, without what each of them has of its own.
fn of_containers(object: &Value, list: &str) -> Value {
    let containers = object.pointer("/spec/template/spec/containers").unwrap().as_array().unwrap();
    let of = |container: &Value| -> Value {
        let all = container[list].as_array().cloned().unwrap_or_default();
        all.into_iter().filter(|it| it["name"] != "OPERATOR_CONDITION_NAME").collect()
    };
    containers.iter().map(of).collect()
}

/// Rows of the list in each container, what the Subscription adds, and what there is then.
fn check_lists<const N: usize>(list: &str, rows: [(&str, Value, Value, Value); N]) {
    for (name, known, said, expected) in rows {
        let named = |(at, known): (usize, &Value)| json!({"name": at.to_string(), list: known});
        let containers: Vec<Value> = known.as_array().unwrap().iter().enumerate().map(named).collect();
        let found = created(&json!({"spec": {"containers": containers}}), &json!({list: said}));
        assert_eq!(of_containers(&found, list), expected, "{list}: {name}");
    }
}

#[test]
fn mounts_of_containers_are_changed_as_published() {
    let mount = |name: &str, path: &str| json!({"name": name, "mountPath": path});
    let (one, other) = (json!([mount("v", "/v")]), mount("w", "/w"));
    let rows = [
        ("none are there", json!([[]]), one.clone(), json!([one])),
        ("none are said", json!([one]), json!([]), json!([one])),
        ("names are others", json!([[other]]), one.clone(), json!([[other, mount("v", "/v")]])),
        ("names are the same", json!([[mount("v", "/old")]]), one.clone(), json!([one])),
    ];
    check_lists("volumeMounts", rows);
}

#[test]
fn variables_of_containers_are_changed_as_published() {
    let env = |name: &str, value: &str| json!({"name": name, "value": value});
    let (proxy, direct) = (env("HTTP_PROXY", "http://p"), env("NO_PROXY", "none"));
    let both = json!([env("A", "1"), env("B", "2")]);
    let rows = [
        ("none are there", json!([[]]), json!([proxy, direct]), json!([[proxy, direct]])),
        ("names are others", json!([[env("A", "1")]]), json!([proxy]), json!([[env("A", "1"), proxy]])),
        (
            "names are the same",
            json!([both]),
            json!([env("C", "3"), env("A", "4"), env("B", "5")]),
            json!([[env("A", "4"), env("B", "5"), env("C", "3")]]),
        ),
        ("a value is empty", json!([both]), json!([env("B", "")]), json!([[env("A", "1"), env("B", "")]])),
        (
            "there are several containers",
            json!([[], [env("A", "1")], [env("B", "2")]]),
            json!([proxy]),
            json!([[proxy], [env("A", "1"), proxy], [env("B", "2"), proxy]]),
        ),
    ];
    check_lists("env", rows);
}

#[test]
fn sources_of_variables_are_changed_as_published() {
    let (map, secret) = (json!({"configMapRef": {"name": "m"}}), json!({"secretRef": {"name": "s"}}));
    let prefix = |text: &str| json!({"prefix": text});
    let said = || json!([map, secret]);
    let rows = [
        ("none are there", json!([[]]), said(), json!([said()])),
        ("all are there", json!([[prefix("p"), map, secret]]), said(), json!([[prefix("p"), map, secret]])),
        ("others are there", json!([[prefix("p")]]), said(), json!([[prefix("p"), map, secret]])),
        (
            "there are several containers",
            json!([[], [prefix("p")], [prefix("q")]]),
            said(),
            json!([said(), [prefix("p"), map, secret], [prefix("q"), map, secret]]),
        ),
    ];
    check_lists("envFrom", rows);
}

/// Members of the pods, what the Subscription says of them, and what they are then; null for none.
#[test]
fn members_of_pods_are_changed_as_published() {
    let volume = |name: &str, of: &str| json!({"name": name, of: {}});
    let toleration = |key: &str| json!({"key": key, "operator": "Exists"});
    let (one, both) = (json!([toleration("a")]), json!([toleration("b"), toleration("a")]));
    for (member, name, known, said, expected) in [
        ("volumes", "none are there", Value::Null, json!([volume("v", "x")]), json!([volume("v", "x")])),
        ("volumes", "none are said", json!([volume("v", "x")]), json!([]), json!([volume("v", "x")])),
        (
            "volumes",
            "names are others",
            json!([volume("w", "x")]),
            json!([volume("v", "x")]),
            json!([volume("w", "x"), volume("v", "x")]),
        ),
        (
            "volumes",
            "names are the same",
            json!([volume("v", "old")]),
            json!([volume("v", "x")]),
            json!([volume("v", "x")]),
        ),
        ("tolerations", "there are none", Value::Null, json!([]), Value::Null),
        ("tolerations", "none are there", Value::Null, one.clone(), one.clone()),
        ("tolerations", "another one is there", json!([toleration("b")]), one.clone(), both.clone()),
        ("tolerations", "it is there", one.clone(), one.clone(), one),
        ("tolerations", "one of two is there", json!([toleration("b")]), both.clone(), both),
        ("nodeSelector", "none is there", Value::Null, json!({"a": "b"}), json!({"a": "b"})),
        ("nodeSelector", "another one is there", json!({"c": "d"}), json!({"a": "b"}), json!({"a": "b"})),
        ("nodeSelector", "nothing is said", json!({"c": "d"}), Value::Null, json!({"c": "d"})),
        ("nodeSelector", "an empty one is said", json!({"c": "d"}), json!({}), json!({})),
    ] {
        let template = if known.is_null() { json!({}) } else { json!({"spec": {member: known}}) };
        let config = if said.is_null() { json!({}) } else { json!({member: said}) };
        let found = created(&template, &config);
        let found = &found["spec"]["template"]["spec"][member];
        assert_eq!(found, &expected, "{member}: {name}");
    }
}

#[test]
fn resources_of_containers_are_changed_as_published() {
    let given = json!({"requests": {"cpu": "100m", "memory": "128Mi"}});
    for (name, known, said, expected) in [
        ("nothing is said", given.clone(), Value::Null, given.clone()),
        ("there are none", json!({}), given.clone(), given.clone()),
        ("they are replaced", given, json!({}), json!({})),
    ] {
        let template = json!({"spec": {"containers": [{"name": "c", "resources": known}]}});
        let config = if said.is_null() { json!({}) } else { json!({"resources": said}) };
        let found = created(&template, &config);
        assert_eq!(found["spec"]["template"]["spec"]["containers"][0]["resources"], expected, "{name}");
    }
}

/// An affinity without any part is elsewhere none at all, and counts the same.
#[test]
fn affinity_is_changed_as_published() {
    let part = |name: &str| json!({"preferredDuringSchedulingIgnoredDuringExecution": [name]});
    let (old, new) = (part("old"), part("new"));
    let all = json!({"nodeAffinity": old, "podAffinity": old, "podAntiAffinity": old});
    for (name, known, said, expected) in [
        ("there is none", Value::Null, json!({"nodeAffinity": new}), json!({"nodeAffinity": new})),
        (
            "one part is said",
            all.clone(),
            json!({"nodeAffinity": new}),
            json!({"nodeAffinity": new, "podAffinity": old, "podAntiAffinity": old}),
        ),
        (
            "one part is said, and one is empty",
            all.clone(),
            json!({"nodeAffinity": new, "podAffinity": {}}),
            json!({"nodeAffinity": new, "podAntiAffinity": old}),
        ),
        (
            "parts are said that there were not",
            json!({"podAntiAffinity": old}),
            json!({"nodeAffinity": new, "podAffinity": new}),
            json!({"nodeAffinity": new, "podAffinity": new, "podAntiAffinity": old}),
        ),
        (
            "all parts that there are are empty",
            json!({"nodeAffinity": old, "podAffinity": old}),
            json!({"nodeAffinity": {}, "podAffinity": {}}),
            json!({}),
        ),
        ("nothing is said", all.clone(), Value::Null, all.clone()),
    ] {
        let template = if known.is_null() { json!({}) } else { json!({"spec": {"affinity": known}}) };
        let config = if said.is_null() { json!({}) } else { json!({"affinity": said}) };
        let found = created(&template, &config);
        assert_eq!(found["spec"]["template"]["spec"]["affinity"], expected, "{name}");
    }
    // Others take an empty one for the removal of all parts: here what is not said stays.
    let found = created(&json!({"spec": {"affinity": all}}), &json!({"affinity": {}}));
    assert_eq!(found["spec"]["template"]["spec"]["affinity"], all);
}

/// Those of the pods that there are, what the Subscription says, and those of the pods then.
#[test]
fn annotations_are_changed_as_published() {
    for (name, known, said, of_pods, of_deployment) in [
        ("none is there", json!({}), json!({"x": "s"}), json!({"x": "s"}), json!({"x": "s"})),
        (
            "some are there",
            json!({"both": "p", "pod": "p"}),
            json!({"both": "s", "x": "s"}),
            json!({"both": "p", "pod": "p", "x": "s"}),
            json!({"both": "s", "x": "s"}),
        ),
        ("nothing is said", json!({"pod": "p"}), Value::Null, json!({"pod": "p"}), json!({})),
        ("an empty one is said", json!({"pod": "p"}), json!({}), json!({"pod": "p"}), json!({})),
    ] {
        let config = if said.is_null() { json!({}) } else { json!({"annotations": said}) };
        let found = created(&json!({"metadata": {"annotations": known}}), &config);
        let of = |pointer: &str| -> Value {
            let all = found.pointer(pointer).and_then(Value::as_object).cloned().unwrap_or_default();
            let ours = |key: &String| !key.starts_with("olm.") && key != "own";
            Value::Object(all.into_iter().filter(|(key, _)| ours(key)).collect())
        };
        assert_eq!(of("/spec/template/metadata/annotations"), of_pods, "{name}");
        assert_eq!(of("/metadata/annotations"), of_deployment, "{name}");
    }
}
