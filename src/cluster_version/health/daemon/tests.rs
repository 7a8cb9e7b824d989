use super::*;
use crate::diagnosis::lease::{Holder, silence};
use jiff::Timestamp;
use serde_json::json;

fn hook(name: &str, more: Value) -> Value {
    let rule = json!({"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"]});
    let mut hook = json!({"name": format!("{name}.example.com"), "rules": [rule], "clientConfig": {"url": "https://127.0.0.1:1/x"}});
    hook.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({"kind": "ValidatingWebhookConfiguration", "metadata": {"name": name}, "webhooks": [hook]})
}

/// The daemon is silent, and whoever looks may try nothing.
fn parts(answer: Answer) -> Parts {
    let holder = Holder { process: "the daemon", namespace: "ns", name: "version", deployment: "d", required: true };
    let attempt = Attempt { what: "update lease ns/version".into(), namespace: "ns".into(), vital: true, answer };
    Parts {
        silences: silence(holder, None, Timestamp::UNIX_EPOCH).into_iter().collect(),
        attempts: vec![attempt],
        webhooks: vec![
            hook("asked", json!({})),
            hook("harmless", json!({"failurePolicy": "Ignore"})),
            hook("conditional", json!({"matchConditions": [{"name": "a", "expression": "true"}]})),
            hook(
                "other",
                json!({"rules": [{"apiGroups": ["apps"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]}]}),
            ),
        ],
        ..Parts::default()
    }
}

#[test]
fn webhooks_that_are_asked_are_named_where_nobody_may_try_them() {
    let told = reasons(&parts(Answer::Unknown("you may not".into())));
    let objects: Vec<&str> = told.iter().map(|it| it.object.as_str()).collect();
    assert_eq!(objects, ["validatingwebhookconfiguration asked", "validatingwebhookconfiguration conditional"]);
    assert!(
        told[0].message.contains("https://127.0.0.1:1/x") && told[0].message.contains("cannot be told from here"),
        "{told:?}"
    );
    assert!(told[1].message.contains("its matchConditions cannot be judged"), "{told:?}");
    assert_eq!(reasons(&parts(Answer::Accepted)), [], "the API server has asked them all");
    let well = Parts { silences: Vec::new(), ..parts(Answer::Unknown("you may not".into())) };
    assert_eq!(troubles(&well, &[]), [], "the daemon writes, so they answer");
}

/// What is tried, asked and planned as the daemon concerns its own account, and not that of whoever looks, or another one.
#[test]
fn the_account_is_that_of_the_daemons_pods() {
    let daemon = json!({"spec": {"template": {"spec": {"serviceAccountName": "x"}}}});
    assert_eq!(user("ns", Some(&daemon)), "system:serviceaccount:ns:x");
    assert_eq!(user("ns", None), "system:serviceaccount:ns:cluster-version-operator", "it could not be read");
    assert_eq!(user("ns", Some(&json!({"spec": {"template": {"spec": {}}}}))), "system:serviceaccount:ns:default");
}
