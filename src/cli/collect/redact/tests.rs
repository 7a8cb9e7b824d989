use super::*;

#[test]
fn passwords_tokens_and_keys_are_replaced_and_nothing_else_is() {
    let cases = [
        ("GET https://user:p4ss@registry.example/v2/ failed", "GET https://[removed]@registry.example/v2/ failed"),
        ("Authorization: Bearer abcdefgh12345678", "Authorization: Bearer [removed]"),
        ("sent eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJ4eHh4In0.c2ln to it", "sent [removed] to it"),
        ("key -----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY----- end", "key [removed] end"),
        ("cut off -----BEGIN PRIVATE KEY-----\nMIIE", "cut off [removed]"),
        (r#"{"token":"s3cret","url":"https://a.example/b"}"#, r#"{"token":"[removed]","url":"https://a.example/b"}"#),
        ("password = hunter2, user = me", "password = [removed], user = me"),
        (
            "image registry.example/a@sha256:0123 of secret store",
            "image registry.example/a@sha256:0123 of secret store",
        ),
    ];
    for (given, expected) in cases {
        assert_eq!(text(given), expected);
    }
    let mut value = json!({"a": ["basic Zm9vOmJhcg=="], "token": 7, "secretName": "pull"});
    texts(&mut value);
    assert_eq!(value, json!({"a": ["basic [removed]"], "token": 7, "secretName": "pull"}));
}

#[test]
fn json_in_a_text_is_json_afterwards() {
    let record =
        json!({"durations": {"cluster-secret": 3.2}, "nodes": [{"error": "invalid token: \"abc\", asked again"}]});
    let mut value = json!({"data": {"progress.json": record.to_string()}});
    texts(&mut value);
    let inner = value.pointer("/data/progress.json").and_then(Value::as_str).unwrap();
    let inner: Value = serde_json::from_str(inner).unwrap();
    assert_eq!(inner.pointer("/durations/cluster-secret"), Some(&json!(3.2)));
    assert_eq!(inner.pointer("/nodes/0/error"), Some(&json!("invalid token: \"[removed]\", asked again")));
}

#[test]
fn fields_of_json_in_a_text_that_are_named_like_secrets_are_replaced() {
    let mut value =
        json!({"message": r#"answer {"a"}"#, "body": r#"{"token":"s3cret","api-key":"k","tokens":3,"url":"u"}"#});
    texts(&mut value);
    assert_eq!(value["message"], r#"answer {"a"}"#);
    let body: Value = serde_json::from_str(value["body"].as_str().unwrap()).unwrap();
    assert_eq!(body, json!({"token": REPLACED, "api-key": REPLACED, "tokens": 3, "url": "u"}));
}

#[test]
fn of_a_pod_leave_neither_environment_nor_arguments_nor_annotations() {
    let given = json!({
        "metadata": {"name": "p", "namespace": "n", "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "PLANTED"},
            "managedFields": [{"manager": "PLANTED"}]},
        "spec": {"nodeName": "node1", "containers": [{"name": "c", "image": "i", "args": ["PLANTED"], "command": ["PLANTED"],
            "env": [{"name": "X", "value": "PLANTED"}]}], "initContainers": [{"name": "first", "env": [{"name": "Y", "value": "PLANTED"}]}],
            "volumes": [{"name": "v", "secret": {"secretName": "PLANTED"}}]},
        "status": {"phase": "Pending", "message": "waits"},
    });
    let kept = pod(&serde_json::from_value(given).unwrap());
    assert!(!kept.to_string().contains("PLANTED"), "{kept}");
    assert_eq!(kept.pointer("/status/message"), Some(&json!("waits")));
    assert_eq!(kept.pointer("/spec/containers/1/image"), Some(&json!("i")));
}

#[test]
fn of_a_node_the_annotations_of_its_configuration_stay() {
    let given = json!({"metadata": {"name": "n1", "annotations": {"machineconfiguration.openshift.io/state": "Done", "other": "PLANTED"}},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    let kept = node(&serde_json::from_value(given).unwrap());
    assert_eq!(
        kept.pointer("/metadata/annotations"),
        Some(&json!({"machineconfiguration.openshift.io/state": "Done"}))
    );
    assert_eq!(kept.pointer("/status/conditions/0/type"), Some(&json!("Ready")));
}
