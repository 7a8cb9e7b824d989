use super::*;
use serde_json::json;

fn metadata(name: &str) -> Value {
    json!({"name": name, "namespace": "ns"})
}

fn with(name: &str, type_: &str, status: &str) -> Value {
    let condition = json!({"type": type_, "status": status, "reason": "Because", "message": "why"});
    json!({"metadata": metadata(name), "status": {"conditions": [condition]}})
}

fn told(parts: &Parts) -> Vec<(String, String)> {
    let troubles = troubles(parts);
    assert!(troubles.iter().all(|trouble| trouble.next_step.len() > 10), "{troubles:?}");
    troubles.into_iter().map(|trouble| (trouble.object, trouble.message)).collect()
}

fn one(parts: &Parts, object: &str, words: &str) {
    let told = told(parts);
    let [(found, message)] = told.as_slice() else { panic!("{told:?}") };
    assert!(found == object && message.contains(words), "{found}: {message}");
}

#[test]
fn nothing_is_told_of_what_is_well() {
    let node = json!({"metadata": {"name": "n"}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    let hook = json!({"name": "h", "clientConfig": {"service": {"namespace": "ns", "name": "s"}}});
    let parts = Parts {
        nodes: vec![serde_json::from_value(node).unwrap()],
        budgets: vec![budget_of(1)],
        api_services: vec![with("v1.a.example", "Available", "True")],
        definitions: vec![with("a.example", "Established", "True")],
        webhooks: vec![
            json!({"kind": "ValidatingWebhookConfiguration", "metadata": metadata("w"), "webhooks": [hook]}),
        ],
        answering: Some([("ns".to_owned(), "s".to_owned())].into()),
        deployment: Some(json!({"metadata": metadata("d"), "spec": {"replicas": 1}, "status": {"readyReplicas": 1}})),
    };
    assert_eq!(told(&parts), []);
}

fn budget_of(desired: i32) -> Budget {
    let status =
        json!({"currentHealthy": 2, "desiredHealthy": desired, "expectedPods": 2, "disruptionsAllowed": 2 - desired});
    let budget = json!({"metadata": metadata("b"), "spec": {"minAvailable": desired}, "status": status});
    Budget::of(serde_json::from_value(budget).unwrap())
}

#[test]
fn each_cause_is_named() {
    let node = |spec: Value, ready: &str| -> Node {
        let conditions = json!([{"type": "Ready", "status": ready, "reason": "KubeletNotReady"}]);
        let node = json!({"metadata": {"name": "n"}, "spec": spec, "status": {"conditions": conditions}});
        serde_json::from_value(node).unwrap()
    };
    let of_node = |node| Parts { nodes: vec![node], ..Parts::default() };
    one(&of_node(node(json!({}), "False")), "node n", "Ready=False (KubeletNotReady)");
    one(&of_node(node(json!({"unschedulable": true}), "True")), "node n", "cordoned");
    let parts = Parts { api_services: vec![with("v1.a", "Available", "False")], ..Parts::default() };
    one(&parts, "apiservice v1.a", "why (Because)");
    for type_ in ["Established", "NamesAccepted"] {
        let parts = Parts { definitions: vec![with("a", type_, "False")], ..Parts::default() };
        one(&parts, "customresourcedefinition a", "why (Because)");
    }
    let parts = Parts { budgets: vec![budget_of(2)], ..Parts::default() };
    one(&parts, "poddisruptionbudget ns/b", "2 of 2 pods are healthy, 2 have to be");
    for (replicas, words) in [(0, "switched off"), (1, "does not run: why (Because)")] {
        let mut deployment = with("d", "Available", "False");
        deployment["spec"] = json!({"replicas": replicas});
        one(&Parts { deployment: Some(deployment), ..Parts::default() }, "deployment ns/d", words);
    }
}

#[test]
fn webhook_behind_which_nobody_answers_is_told_unless_it_may_fail() {
    let of = |policy: Option<&str>, answering: Option<BTreeSet<(String, String)>>| {
        let mut hook = json!({"name": "h", "clientConfig": {"service": {"namespace": "ns", "name": "s"}}});
        if let Some(policy) = policy {
            hook["failurePolicy"] = json!(policy);
        }
        let elsewhere = json!({"name": "e", "clientConfig": {"url": "https://example.com"}});
        let kind = "MutatingWebhookConfiguration";
        let webhooks = vec![json!({"kind": kind, "metadata": metadata("w"), "webhooks": [hook, elsewhere]})];
        Parts { webhooks, answering, ..Parts::default() }
    };
    let none = || Some(BTreeSet::new());
    one(&of(None, none()), "mutatingwebhookconfiguration w", "nobody answers behind Service ns/s of the webhook h");
    one(&of(Some("Fail"), none()), "mutatingwebhookconfiguration w", "nobody answers");
    assert_eq!(told(&of(Some("Ignore"), none())), []);
    assert_eq!(told(&of(None, None)), [], "not known");
}
