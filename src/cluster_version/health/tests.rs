use super::*;
use crate::diagnosis::lease::Renewal;
use crate::diagnosis::parts::{Deployment, PodFacts};
use k8s_openapi::api::core::v1::Pod;
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
        deployment: Deployment::Found(
            json!({"metadata": metadata("d"), "spec": {"replicas": 1}, "status": {"readyReplicas": 1}}),
        ),
        ..Parts::default()
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
        one(&Parts { deployment: Deployment::Found(deployment), ..Parts::default() }, "deployment ns/d", words);
    }
    // After a hand-over its pod is not ready for a moment, while it renews its Lease.
    let mut beginning = with("d", "Available", "False");
    beginning["status"]["conditions"][0]["lastTransitionTime"] = json!("2026-01-01T00:00:00Z");
    let at = |second: i64| "2026-01-01T00:00:00Z".parse::<Timestamp>().unwrap() + SignedDuration::from_secs(second);
    for (second, told_of) in [(29, 0), (30, 1)] {
        let clocks = Some((at(second), at(second)));
        let parts = Parts { deployment: Deployment::Found(beginning.clone()), clocks, ..Parts::default() };
        assert_eq!(told(&parts).len(), told_of, "{second}");
    }
    let missing = Deployment::Missing("ns/d".to_owned());
    one(&Parts { deployment: missing, ..Parts::default() }, "deployment ns/d", "does not exist");
    assert_eq!(told(&Parts::default()), [], "what could not be read is told elsewhere");
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

fn node_with(cpu: &str, memory: &str) -> Node {
    let status =
        json!({"conditions": [{"type": "Ready", "status": "True"}], "allocatable": {"cpu": cpu, "memory": memory}});
    serde_json::from_value(json!({"metadata": {"name": "n"}, "status": status})).unwrap()
}

fn pod_with(cpu: &str, memory: &str, phase: &str) -> Pod {
    let container = json!({"name": "c", "resources": {"requests": {"cpu": cpu, "memory": memory}}});
    let pod = json!({"metadata": {"name": "p", "namespace": "ns"}, "spec": {"nodeName": "n", "containers": [container]}, "status": {"phase": phase}});
    serde_json::from_value(pod).unwrap()
}

#[test]
fn full_nodes_are_told_of() {
    let with = |pods: Vec<Pod>| {
        let pods = pods.iter().map(PodFacts::of).collect();
        Parts { nodes: vec![node_with("2", "4Gi")], pods, ..Parts::default() }
    };
    assert_eq!(told(&with(vec![pod_with("1900m", "1Gi", "Running")])), []);
    one(&with(vec![pod_with("1901m", "1Gi", "Running")]), "nodes", "no node has 100m CPU");
    one(&with(vec![pod_with("100m", "4000Mi", "Running")]), "nodes", "128 Mi of memory");
    assert_eq!(told(&with(vec![pod_with("2", "4Gi", "Succeeded")])), [], "it has left");
    let unknown = json!({"metadata": {"name": "n"}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    let parts = Parts { nodes: vec![serde_json::from_value(unknown).unwrap()], ..Parts::default() };
    assert_eq!(told(&parts), [], "what is not known is no trouble");
}

#[test]
fn clocks_that_differ_are_told_of() {
    let at = |seconds: i64| Timestamp::from_second(1_800_000_000 + seconds).unwrap();
    // The clock of this machine, that of the node, and how long ago its lease was stored.
    let with = |own: i64, node: i64, ago: i64| {
        let renewal = Renewal {
            holder: "n".to_owned(),
            renewed: Some(at(node - ago)),
            stored: Some(at(-ago)),
            period: SignedDuration::from_secs(20),
            not_written: None,
        };
        Parts {
            nodes: vec![node_with("2", "4Gi")],
            renewed: vec![("n".to_owned(), renewal)],
            clocks: Some((at(0), at(own))),
            ..Parts::default()
        }
    };
    for (own, node, ago) in [(0, 0, 0), (10, 10, 60), (-10, -10, 5)] {
        assert_eq!(told(&with(own, node, ago)), [], "{own} {node} {ago}");
    }
    one(&with(11, 0, 0), "this machine", "11 s ahead of");
    one(&with(-11, 0, 0), "this machine", "11 s behind");
    one(&with(0, 11, 5), "node n", "its clock is 11 s ahead of");
    one(&with(0, -61, 5), "node n", "its clock is 61 s behind");
    one(&with(0, 0, 66), "node n", "nobody has renewed the lease of n since");
    let gone = Parts { nodes: Vec::new(), ..with(0, -61, 5) };
    assert_eq!(told(&gone), [], "the lease of a node that is gone");
    let mut two = with(0, 0, 66);
    two.nodes.push(serde_json::from_value(json!({"metadata": {"name": "m"}})).unwrap());
    two.renewed.push(("m".to_owned(), two.renewed[0].1.clone()));
    one(&two, "nodes", "nobody has renewed the lease of n, m since");
    let mut unknown = with(0, 0, 66);
    unknown.renewed[0].1.stored = None;
    one(&unknown, "node n", "one look cannot tell");
}

#[test]
fn certificates_that_end_are_told_of() {
    // Of a certificate authority that is valid from 2020-01-01 to 2031-02-03.
    let mut parameters = rcgen::CertificateParams::new(Vec::new()).unwrap();
    parameters.not_before = rcgen::date_time_ymd(2020, 1, 1);
    parameters.not_after = rcgen::date_time_ymd(2031, 2, 3);
    let pem = parameters.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap().pem();
    let bundle = BASE64_STANDARD.encode(pem);
    let hook = json!({"name": "h", "failurePolicy": "Ignore", "clientConfig": {"url": "https://a.example", "caBundle": bundle}});
    let with = |now: &str| Parts {
        webhooks: vec![
            json!({"kind": "ValidatingWebhookConfiguration", "metadata": metadata("w"), "webhooks": [hook]}),
        ],
        clocks: Some((now.parse().unwrap(), now.parse().unwrap())),
        ..Parts::default()
    };
    let object = "validatingwebhookconfiguration w";
    assert_eq!(told(&with("2031-01-27T00:00:00Z")), []);
    one(&with("2031-01-27T00:00:01Z"), object, "ends at 2031-02-03");
    one(&with("2031-02-03T00:00:00Z"), object, "ended at 2031-02-03");
    let garbage =
        json!({"kind": "APIService", "metadata": metadata("v1.a"), "spec": {"caBundle": "bm90IGEgY2VydGlmaWNhdGU="}});
    let parts = Parts { api_services: vec![garbage], ..with("2026-01-01T00:00:00Z") };
    assert_eq!(told(&parts), [], "the API server says itself what it cannot read");
}

#[test]
fn missing_rights_and_images_are_told_of() {
    let denied = vec!["update leases.coordination.k8s.io".to_owned(), "create jobs.batch".to_owned()];
    let message = "may not update leases.coordination.k8s.io, create jobs.batch";
    one(&Parts { denied, ..Parts::default() }, "the daemon's service account", message);
    let status = |reason: &str| {
        let waiting = json!({"waiting": {"reason": reason, "message": "no route to host"}});
        let container =
            json!({"name": "c", "image": "i", "imageID": "", "ready": false, "restartCount": 0, "state": waiting});
        let pod = json!({"metadata": {"name": "p", "namespace": "ns"}, "status": {"containerStatuses": [container]}});
        Parts { pods: vec![PodFacts::of(&serde_json::from_value(pod).unwrap())], ..Parts::default() }
    };
    one(&status("ImagePullBackOff"), "pod ns/p", "no route to host");
    assert_eq!(told(&status("CrashLoopBackOff")), [], "that is the trouble of its owner");
}
