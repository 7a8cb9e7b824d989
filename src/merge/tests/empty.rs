//! Empty and zero values that have a meaning, and fields that must be removed together.

use super::*;

fn definition(schema: &Value, subresources: &Value) -> Value {
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "a.b"},
        "spec": {"group": "b", "scope": "Namespaced", "names": {"kind": "A", "plural": "a"}, "versions": [{"name": "v1",
            "served": true, "storage": true, "subresources": subresources,
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {"x": schema}}}}]}})
}

/// In a schema zero may be a bound, and an empty text a default.
#[test]
fn zero_and_empty_values_in_a_schema_are_enforced() {
    for (keyword, value) in [
        ("minimum", json!(0)),
        ("maximum", json!(0.0)),
        ("maxLength", json!(0)),
        ("default", json!("")),
        ("default", json!({})),
        ("default", json!({"a": 0})),
        ("default", json!(false)),
        ("enum", json!(["", 0])),
        ("additionalProperties", json!(false)),
        ("additionalProperties", json!({})),
    ] {
        let mut with = json!({"type": "object"});
        with[keyword] = value.clone();
        let (with, without) = (definition(&with, &json!({})), definition(&json!({"type": "object"}), &json!({})));
        let place = "/spec/versions/0/schema/openAPIV3Schema/properties/x";
        for (live, desired, what) in [(&without, &with, "added"), (&with, &without, "removed")] {
            let (object, fields) = changed(live, desired);
            assert_eq!(object.pointer(place), desired.pointer(place), "{keyword} {value} {what}");
            assert!(fields[0].ends_with(keyword), "{fields:?}");
        }
        assert_eq!(merge(&with, &with), Ok(Outcome::Same));
    }
    let other = definition(&json!({"type": "object", "default": {"a": 0, "b": 1}}), &json!({}));
    let desired = definition(&json!({"type": "object", "default": {"b": 1.0}}), &json!({}));
    let (object, _) = changed(&other, &desired);
    assert_eq!(
        object.pointer("/spec/versions/0/schema/openAPIV3Schema/properties/x/default"),
        Some(&json!({"b": 1.0}))
    );
}

#[test]
fn empty_status_subresource_is_enforced() {
    let scale = json!({"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"});
    let schema = json!({"type": "object"});
    let (both, one) =
        (definition(&schema, &json!({"status": {}, "scale": scale})), definition(&schema, &json!({"scale": scale})));
    for (live, desired) in [(&one, &both), (&both, &one)] {
        let (object, fields) = changed(live, desired);
        assert_eq!(object.pointer("/spec/versions/0/subresources"), desired.pointer("/spec/versions/0/subresources"));
        assert_eq!(fields, ["spec.versions[0].subresources.status"]);
    }
}

/// The API server sets default settings with affinity, and refuses settings without it.
#[test]
fn affinity_settings_of_a_service_are_removed_with_the_affinity() {
    let (mut desired, mut live) = pair("Service", "web");
    set(&mut live, "/spec/sessionAffinity", json!("ClientIP"));
    set(&mut live, "/spec/sessionAffinityConfig", json!({"clientIP": {"timeoutSeconds": 10800}}));
    let (object, fields) = changed(&live, &desired);
    assert_eq!(object.pointer("/spec/sessionAffinityConfig"), None);
    assert_eq!(fields, ["spec.sessionAffinity", "spec.sessionAffinityConfig"]);
    set(&mut desired, "/spec/sessionAffinity", json!("ClientIP"));
    assert_eq!(merge(&live, &desired), Ok(Outcome::Same));
    set(&mut desired, "/spec/sessionAffinity", Value::Null);
    assert_eq!(merge(&live, &desired), Ok(Outcome::Same), "the manifest does not set it");
}

/// A mix of two selectors would select the wrong objects.
#[test]
fn selector_is_replaced_as_a_whole_in_any_kind() {
    let monitor = |selector: Value| {
        json!({"apiVersion": "monitoring.coreos.com/v1", "kind": "ServiceMonitor",
            "metadata": {"name": "a", "namespace": "b"}, "spec": {"endpoints": [{"port": "x"}], "selector": selector}})
    };
    let by = |key: &str| json!({"matchLabels": {key: "x"}});
    let expression = json!({"matchExpressions": [{"key": "a", "operator": "Exists"}]});
    for (live, desired) in [
        (by("app"), by("k8s-app")),
        (by("app"), json!({})),
        (expression.clone(), by("app")),
        (by("app"), expression),
        (json!({"matchLabels": {"app": "x", "more": "y"}}), by("app")),
    ] {
        let (object, _) = changed(&monitor(live), &monitor(desired.clone()));
        assert_eq!(object["spec"]["selector"], desired);
    }
    let mut live = monitor(by("app"));
    set(&mut live, "/spec/jobLabel", json!("foreign"));
    assert_eq!(merge(&live, &monitor(by("app"))), Ok(Outcome::Same));
}

/// With a host port old and new pods could not run on the same node during a rollout.
#[test]
fn host_port_is_removed_with_the_host_network() {
    let workload = |on_host: bool, port: Value| {
        let mut object = json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "a", "namespace": "b"},
            "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}},
                "spec": {"containers": [{"name": "c", "image": "i", "ports": [port]}]}}}});
        if on_host {
            object["spec"]["template"]["spec"]["hostNetwork"] = json!(true);
        }
        object
    };
    let filled = json!({"name": "m", "containerPort": 9104, "hostPort": 9104, "protocol": "TCP"});
    let port = json!({"name": "m", "containerPort": 9104, "protocol": "TCP"});
    let ports = "/spec/template/spec/containers/0/ports";
    for on_host in [true, false] {
        let (object, _) = changed(&workload(on_host, filled.clone()), &workload(false, port.clone()));
        assert_eq!(object.pointer(ports), Some(&json!([port])), "on the host network before: {on_host}");
    }
    assert_eq!(merge(&workload(true, filled.clone()), &workload(true, port)), Ok(Outcome::Same));
    assert_eq!(
        merge(&workload(false, filled.clone()), &workload(false, filled)),
        Ok(Outcome::Same),
        "the manifest sets it"
    );
}

#[test]
fn keys_that_a_manifest_with_whole_data_lacks_are_removed() {
    let map = |whole: &str, data: Value| {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "data": data, "metadata": {"name": "a", "namespace": "b",
            "annotations": {"release.openshift.io/whole-data": whole}}})
    };
    let data = json!({"a": "1", "b": "2"});
    for (desired, expected, paths) in [
        (json!({"a": "1"}), json!({"a": "1"}), &["data.b"][..]),
        (json!({}), json!({}), &["data.a", "data.b"]),
        (Value::Null, json!({}), &["data.a", "data.b"]),
    ] {
        let (object, fields) = changed(&map("true", data.clone()), &map("true", desired.clone()));
        assert_eq!(
            (&object["data"], &*fields),
            (&expected, paths.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>().as_slice())
        );
        // An API server leaves out what is empty.
        let stored = if expected == json!({}) { Value::Null } else { expected };
        assert_eq!(merge(&map("true", stored), &map("true", desired.clone())), Ok(Outcome::Same));
        assert_eq!(merge(&map("false", data.clone()), &map("false", desired)), Ok(Outcome::Same));
    }
}
