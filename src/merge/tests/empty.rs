//! What is empty or zero and means something; what goes with something else, and what must not stay behind.

use super::*;

fn definition(schema: &Value, subresources: &Value) -> Value {
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "a.b"},
        "spec": {"group": "b", "scope": "Namespaced", "names": {"kind": "A", "plural": "a"}, "versions": [{"name": "v1",
            "served": true, "storage": true, "subresources": subresources,
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {"x": schema}}}}]}})
}

/// In a schema zero is a bound, and an empty text is a default.
#[test]
fn a_schema_has_what_the_manifest_has_be_it_zero_or_empty() {
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
        for (live, want, what) in [(&without, &with, "added"), (&with, &without, "removed")] {
            let (object, fields) = changed(live, want);
            assert_eq!(object.pointer(place), want.pointer(place), "{keyword} {value} {what}");
            assert!(fields[0].ends_with(keyword), "{fields:?}");
        }
        assert_eq!(merge(&with, &with), Ok(Outcome::Same));
    }
    let other = definition(&json!({"type": "object", "default": {"a": 0, "b": 1}}), &json!({}));
    let want = definition(&json!({"type": "object", "default": {"b": 1.0}}), &json!({}));
    let (object, _) = changed(&other, &want);
    assert_eq!(
        object.pointer("/spec/versions/0/schema/openAPIV3Schema/properties/x/default"),
        Some(&json!({"b": 1.0}))
    );
}

#[test]
fn an_empty_map_is_the_status_subresource() {
    let scale = json!({"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"});
    let schema = json!({"type": "object"});
    let (both, one) =
        (definition(&schema, &json!({"status": {}, "scale": scale})), definition(&schema, &json!({"scale": scale})));
    for (live, want) in [(&one, &both), (&both, &one)] {
        let (object, fields) = changed(live, want);
        assert_eq!(object.pointer("/spec/versions/0/subresources"), want.pointer("/spec/versions/0/subresources"));
        assert_eq!(fields, ["spec.versions[0].subresources.status"]);
    }
}

/// The server fills in the settings, and takes none without affinity.
#[test]
fn a_service_gives_up_its_affinity_with_its_settings() {
    let (mut want, mut live) = pair("Service", "web");
    set(&mut live, "/spec/sessionAffinity", json!("ClientIP"));
    set(&mut live, "/spec/sessionAffinityConfig", json!({"clientIP": {"timeoutSeconds": 10800}}));
    let (object, fields) = changed(&live, &want);
    assert_eq!(object.pointer("/spec/sessionAffinityConfig"), None);
    assert_eq!(fields, ["spec.sessionAffinity", "spec.sessionAffinityConfig"]);
    set(&mut want, "/spec/sessionAffinity", json!("ClientIP"));
    assert_eq!(merge(&live, &want), Ok(Outcome::Same));
    set(&mut want, "/spec/sessionAffinity", Value::Null);
    assert_eq!(merge(&live, &want), Ok(Outcome::Same), "nothing is said of it");
}

/// A mix of two selectors selects what neither release wanted.
#[test]
fn a_selector_is_whole_whatever_its_kind() {
    let monitor = |selector: Value| {
        json!({"apiVersion": "monitoring.coreos.com/v1", "kind": "ServiceMonitor",
            "metadata": {"name": "a", "namespace": "b"}, "spec": {"endpoints": [{"port": "x"}], "selector": selector}})
    };
    let by = |key: &str| json!({"matchLabels": {key: "x"}});
    let expression = json!({"matchExpressions": [{"key": "a", "operator": "Exists"}]});
    for (live, want) in [
        (by("app"), by("k8s-app")),
        (by("app"), json!({})),
        (expression.clone(), by("app")),
        (by("app"), expression),
        (json!({"matchLabels": {"app": "x", "more": "y"}}), by("app")),
    ] {
        let (object, _) = changed(&monitor(live), &monitor(want.clone()));
        assert_eq!(object["spec"]["selector"], want);
    }
    let mut live = monitor(by("app"));
    set(&mut live, "/spec/jobLabel", json!("foreign"));
    assert_eq!(merge(&live, &monitor(by("app"))), Ok(Outcome::Same));
}

/// Who keeps it cannot be rolled out beside itself on one node.
#[test]
fn the_port_of_the_host_goes_with_its_network() {
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
        assert_eq!(object.pointer(ports), Some(&json!([port])), "on the host before: {on_host}");
    }
    assert_eq!(merge(&workload(true, filled.clone()), &workload(true, port)), Ok(Outcome::Same));
    assert_eq!(merge(&workload(false, filled.clone()), &workload(false, filled)), Ok(Outcome::Same), "it is asked for");
}
