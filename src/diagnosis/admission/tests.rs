use super::*;
use serde_json::json;

const LEASE: Write<'_> =
    Write { group: "coordination.k8s.io", version: "v1", resource: "leases", operation: "UPDATE", namespace: "own" };
const STATUS: Write<'_> = Write {
    group: "config.openshift.io",
    version: "v1",
    resource: "clusterversions/status",
    operation: "UPDATE",
    namespace: "",
};

fn hook(resources: &[&str], scope: &str, more: Value) -> Value {
    let rule =
        json!({"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": resources, "scope": scope});
    let mut hook = json!({"name": "h", "rules": [rule]});
    hook.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    hook
}

#[test]
fn rules_say_which_writes_a_webhook_is_asked_about() {
    let none = json!({});
    for (resources, scope, lease, status) in [
        (&["*"] as &[&str], "*", true, false),
        (&["*/*"], "*", true, true),
        (&["*", "*/*"], "*", true, true),
        (&["*/status"], "*", false, true),
        (&["clusterversions/*"], "*", false, true),
        (&["clusterversions"], "*", false, false),
        (&["leases", "clusterversions/status"], "*", true, true),
        (&["leases/*"], "*", true, false),
        (&["*/*"], "Cluster", false, true),
        (&["*/*"], "Namespaced", true, false),
        (&["pods"], "*", false, false),
    ] {
        let hook = hook(resources, scope, none.clone());
        let is = |write| asked(&hook, write) == Asked::Yes;
        assert_eq!((is(&LEASE), is(&STATUS)), (lease, status), "{resources:?} {scope}");
    }
    let other_group =
        json!({"rules": [{"apiGroups": ["apps"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"]}]});
    assert_eq!(asked(&other_group, &LEASE), Asked::No);
    let creates =
        json!({"rules": [{"apiGroups": ["*"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["*/*"]}]});
    assert_eq!(asked(&creates, &LEASE), Asked::No);
}

#[test]
fn what_selectors_and_conditions_decide_is_left_open_where_it_cannot_be_judged() {
    let of = |more: Value| {
        let hook = hook(&["*/*"], "*", more);
        (asked(&hook, &LEASE), asked(&hook, &STATUS))
    };
    let named = |names: &[&str]| json!({"namespaceSelector": {"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": names}]}});
    assert_eq!(of(named(&["other"])), (Asked::Yes, Asked::Yes));
    assert_eq!(of(named(&["own"])), (Asked::No, Asked::Yes), "what is in no namespace is not selected by one");
    let team = json!({"namespaceSelector": {"matchLabels": {"team": "a"}}});
    assert_eq!(of(team), (Asked::Undecided("namespaceSelector"), Asked::Yes));
    let undecided = |field| (Asked::Undecided(field), Asked::Undecided(field));
    assert_eq!(of(json!({"objectSelector": {"matchLabels": {"app": "a"}}})), undecided("objectSelector"));
    assert_eq!(of(json!({"matchConditions": [{"name": "a", "expression": "true"}]})), undecided("matchConditions"));
    assert_eq!(
        of(json!({"namespaceSelector": {}, "objectSelector": {}, "matchConditions": []})),
        (Asked::Yes, Asked::Yes)
    );
}

#[test]
fn configuration_is_found_by_its_webhook() {
    let all = [
        json!({"kind": "MutatingWebhookConfiguration", "metadata": {"name": "m"}, "webhooks": [{"name": "a"}, {"name": "b"}]}),
    ];
    assert_eq!(configuration_of(&all, "b"), "mutatingwebhookconfiguration m");
    assert_eq!(configuration_of(&all, "c"), "webhook c");
    let url = json!({"clientConfig": {"url": "https://127.0.0.1:1/x"}, "failurePolicy": "Fail"});
    assert_eq!((place(&url).as_str(), is_needed(&url)), ("https://127.0.0.1:1/x", true));
    let service = json!({"clientConfig": {"service": {"namespace": "n", "name": "s"}}, "failurePolicy": "Ignore"});
    assert_eq!((place(&service).as_str(), is_needed(&service)), ("Service n/s", false));
}
