//! Causes that are planted on a real control plane, alone and together with ones that look like them: what `cvo status`, the page,
//! `cvo doctor` and `cvo plan` say. Nobody names what was not planted.

use std::collections::BTreeSet;
use std::time::Instant;

use cvo::testing::api::ClusterVersion;
use e2e::conditions::Conditions;
use e2e::simulator::cluster::{LIMIT, LONG_LEASE, SimulatedCluster};
use e2e::simulator::releases::Release;
use e2e::until::{changes, until};
use futures::StreamExt;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Event;
use kube::{Api, runtime::watcher::Config};
use serde_json::{Value, json};

use super::page::Page;

const NAMESPACE: &str = cvo::testing::api::NAMESPACE;
const LEASE: &str = "lease openshift-cluster-version/version";
const ADMIN: &str = "cluster-version-operator-1";
const ACCOUNT: &str = "serviceaccount openshift-cluster-version/cluster-version-operator";

async fn installed() -> (SimulatedCluster, Release) {
    let (mut cluster, mut releases) = SimulatedCluster::with_samples(&["1.0.0"]).await.unwrap();
    cluster.set_arguments(&LONG_LEASE).unwrap();
    let release = releases.remove(0);
    cluster.run_daemon(&release).await.unwrap();
    cluster.completed(&release).await.unwrap();
    // Otherwise the binding is brought back at once.
    let unmanaged = json!([{"group": "rbac.authorization.k8s.io", "kind": "ClusterRoleBinding", "namespace": "", "name": ADMIN, "unmanaged": true}]);
    cluster.patch(json!({"spec": {"overrides": unmanaged}})).await.unwrap();
    let known = |version: &ClusterVersion| version.says("Upgradeable=False", &["override"]);
    cluster.until("the override to be known", known).await.unwrap();
    (cluster, release)
}

/// All that it prints.
async fn cvo(cluster: &SimulatedCluster, arguments: &[&str]) -> String {
    cluster.control_plane.cvo(arguments).run().await.unwrap().all()
}

/// Object and message of what `cvo doctor` finds.
async fn doctor(cluster: &SimulatedCluster) -> Vec<(String, String)> {
    let said = cvo(cluster, &["doctor", "-o", "json"]).await;
    let value = serde_json::Deserializer::from_str(&said).into_iter::<Value>().next();
    let value = value.and_then(Result::ok).unwrap_or_else(|| panic!("{said}"));
    let text = |finding: &Value, key: &str| finding[key].as_str().unwrap().to_owned();
    let findings = value["findings"].as_array().unwrap().iter();
    findings.map(|finding| (text(finding, "object"), text(finding, "message"))).collect()
}

/// Waits until the page is told all of it.
async fn page_says(page: &Page, words: &[&str], absent: &[&str]) -> String {
    let url = page.url.replace("/?", "/events?");
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let chunks = client.get(url).send().await.unwrap().bytes_stream();
    let chunks = chunks.map(|chunk| String::from_utf8_lossy(&chunk.unwrap()).into_owned());
    let mut text = String::new();
    let told = until(format!("the page to be told {words:?}, without {absent:?}"), LIMIT).event(chunks, |chunk| {
        text.push_str(chunk);
        let last = text.rsplit("data: {").find(|event| event.contains("\n\n"));
        let last = last.unwrap_or_default().replace("\\\"", "\"");
        let all = words.iter().all(|word| last.contains(word)) && !absent.iter().any(|word| last.contains(word));
        all.then_some(last)
    });
    told.await.unwrap()
}

fn webhook(name: &str, rule: Value, config: Value) -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration", "metadata": {"name": name},
        "webhooks": [{"name": format!("{name}.example.com"), "sideEffects": "None", "admissionReviewVersions": ["v1"], "failurePolicy": "Fail",
            "clientConfig": config, "rules": [rule]}],
    })
}

async fn kubectl(cluster: &SimulatedCluster, arguments: &[&str]) -> String {
    cluster.control_plane.kubectl(arguments).await.unwrap()
}

/// Applies or deletes objects.
async fn objects(cluster: &SimulatedCluster, verb: &str, objects: &[Value]) {
    let file = cluster.control_plane.dir().join("planted.json");
    std::fs::write(&file, json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string()).unwrap();
    let file = file.display().to_string();
    let mut arguments = vec![verb, "-f", file.as_str()];
    if verb == "delete" {
        arguments.push("--wait=false");
    }
    kubectl(cluster, &arguments).await;
}

/// Nobody writes, and each tool says since when and why.
async fn all_tools_name(cluster: &SimulatedCluster, page: &Page, planted: &str, cause: &[&str]) {
    let since = format!("has not renewed {LEASE} since 20");
    let words: Vec<&str> = [since.as_str()].into_iter().chain(cause.iter().copied()).collect();
    let (status, took) = cluster.status_says(&words, &[]).await.unwrap();
    println!("=== {planted}: status, after {} s\n{status}", took.as_secs());
    let said = cvo(cluster, &["overview"]).await;
    for word in &words[..2] {
        assert!(said.contains(word) && said.contains("Not up to date"), "{word}: {said}");
    }
    let shown = page_says(page, &words, &[]).await;
    println!("=== {planted}: the page\n{}", shown.split("\"silences\"").nth(1).unwrap_or_default());
    let found = doctor(cluster).await;
    println!("=== {planted}: doctor\n{found:#?}");
    for word in &words {
        assert!(
            found.iter().any(|(object, message)| format!("{object}: {message}").contains(word)),
            "{word}: {found:#?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "hack/soak runs it"]
async fn whoever_shows_the_cluster_says_since_when_nobody_writes_and_why() {
    let (cluster, _) = installed().await;
    let kubeconfig = cluster.control_plane.kubeconfig().display().to_string();
    let page = Page::start(&["--kubeconfig", &kubeconfig]).await;
    let (well, _) = cluster.status_says(&["Running 1.0.0"], &["Not up to date"]).await.unwrap();
    println!("=== nothing is planted\n{well}");
    page_says(&page, &["\"silences\":[]"], &[]).await;

    let everything =
        json!({"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"], "scope": "*"});
    let hook = webhook("deny-everything", everything, json!({"url": "https://127.0.0.1:1/x"}));
    objects(&cluster, "create", std::slice::from_ref(&hook)).await;
    let planted = Instant::now();
    let cause = ["validatingwebhookconfiguration deny-everything", "connection refused"];
    all_tools_name(&cluster, &page, "a webhook that nobody answers", &cause).await;
    // The kubelets cannot renew their leases either.
    let late = async || {
        let found = doctor(&cluster).await;
        let late = found.iter().any(|(_, message)| message.contains("nobody has renewed the lease of fake-0 since"));
        if late { Ok(found) } else { Err(format!("{found:?}")) }
    };
    let found = cluster.control_plane.until("the lease of the node to be late", &[]).answer(late).await.unwrap();
    println!("=== after {} s doctor finds\n{found:#?}", planted.elapsed().as_secs());
    assert!(!found.iter().any(|(_, message)| message.contains("clock")), "no clock is wrong: {found:#?}");
    objects(&cluster, "delete", &[hook]).await;
    cluster.status_says(&["Running 1.0.0"], &["Not up to date"]).await.unwrap();
    page_says(&page, &["\"silences\":[]"], &["deny-everything"]).await;
    let events = changes(Api::namespaced(cluster.client.clone(), NAMESPACE), Config::default());
    let told = cluster.wait("the daemon to say what kept it from writing").event(events, |event: &Event| {
        let message = event.message.as_deref().unwrap_or_default();
        let could_not = event.reason.as_deref() == Some("CouldNotWrite");
        (could_not && message.contains("deny-everything.example.com")).then_some(())
    });
    told.await.unwrap();

    let hangs = cluster.node.frozen(async {
        let why = "deployment openshift-cluster-version/cluster-version-operator: its pods are said to run, and the API server would accept what it writes";
        let since = format!("has not renewed {LEASE} since 20");
        let (status, took) = cluster.status_says(&[&since, why], &["webhook"]).await.unwrap();
        println!("=== a daemon that hangs: status, after {} s\n{status}", took.as_secs());
        page_says(&page, &[&since, "which cannot be told apart from here"], &[]).await;
        Ok(doctor(&cluster).await)
    });
    let found = hangs.await.unwrap();
    assert!(found.iter().any(|(object, _)| object == LEASE), "{found:#?}");
    assert!(
        !found.iter().any(|(object, message)| object.contains("webhook") || message.contains("clock")),
        "{found:#?}"
    );
    cluster.status_says(&["Running 1.0.0"], &["Not up to date"]).await.unwrap();

    let binding = kubectl(&cluster, &["get", "clusterrolebinding", ADMIN, "-o", "json"]).await;
    kubectl(&cluster, &["delete", "clusterrolebinding", ADMIN]).await;
    all_tools_name(&cluster, &page, "a binding that is deleted", &[ACCOUNT]).await;
    let found = doctor(&cluster).await;
    assert!(!found.iter().any(|(_, message)| message.contains("clock")), "no clock is wrong: {found:#?}");
    objects(&cluster, "create", &[restorable(&binding)]).await;
    cluster.status_says(&["Running 1.0.0"], &["Not up to date"]).await.unwrap();
    cluster.close().await.unwrap();
}

/// An object without what the API server sets.
fn restorable(object: &str) -> Value {
    let mut object: Value = serde_json::from_str(object).unwrap();
    for field in ["uid", "resourceVersion", "creationTimestamp", "managedFields", "ownerReferences"] {
        object["metadata"].as_object_mut().unwrap().remove(field);
    }
    object
}

/// A cause that can be planted and taken away again.
struct Cause {
    name: &'static str,
    objects: Vec<Value>,
    /// Arguments of kubectl after the objects are there, and to take all of it away.
    plant: Vec<Vec<String>>,
    undo: Vec<Vec<String>>,
    /// What doctor and plan have to name.
    named: &'static str,
    /// What follows from it, and may be named as well.
    follows: &'static [&'static str],
}

/// Whoever refuses writes of leases keeps everybody from renewing them.
const NO_LEASES: &[&str] = &[LEASE, "node fake-0", "nodes"];

fn words(line: &str) -> Vec<String> {
    line.split(' ').map(str::to_owned).collect()
}

fn cause(name: &'static str, objects: Vec<Value>, named: &'static str, follows: &'static [&'static str]) -> Cause {
    Cause { name, objects, plant: Vec::new(), undo: Vec::new(), named, follows }
}

fn patch(kind: &str, name: &str, options: &str, patch: &Value) -> Vec<String> {
    let mut words = words(&format!("patch {kind} {name} {options} --type=merge -p"));
    words.push(patch.to_string());
    words
}

fn node(name: &str, ready: &str) -> (Value, Vec<String>) {
    let object = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name},
        "spec": {"taints": [{"key": "lab", "effect": "NoSchedule"}]}});
    let condition = json!({"type": "Ready", "status": ready, "reason": "Planted", "message": "planted"});
    let status = json!({"status": {"conditions": [condition]}});
    (object, patch("node", name, "--subresource=status", &status))
}

fn definition(plural: &str) -> Value {
    let schema = json!({"openAPIV3Schema": {"type": "object"}});
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": format!("{plural}.a.example")},
        "spec": {"group": "a.example", "scope": "Cluster", "names": {"kind": "Widget", "plural": plural},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}]}})
}

fn causes_of_admission() -> Vec<Cause> {
    let leases = json!({"apiGroups": ["coordination.k8s.io"], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["leases"]});
    let nothings = json!({"apiGroups": ["none.example"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["nothings"]});
    let nobody = json!({"service": {"namespace": "default", "name": "nobody"}});
    let policy = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": "freeze"},
        "spec": {"matchConstraints": {"resourceRules": [leases]}, "validations": [{"expression": "false", "message": "frozen"}]}});
    let bound = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": "freeze"},
        "spec": {"policyName": "freeze", "validationActions": ["Deny"]}});
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few", "namespace": NAMESPACE}, "spec": {"hard": {"pods": "0"}}});
    vec![
        cause(
            "a webhook by url",
            vec![webhook("refusing", leases.clone(), json!({"url": "https://127.0.0.1:1/x"}))],
            "validatingwebhookconfiguration refusing",
            NO_LEASES,
        ),
        cause(
            "a webhook by Service, asked about leases",
            vec![webhook("asked", leases, nobody.clone())],
            "validatingwebhookconfiguration asked",
            NO_LEASES,
        ),
        cause(
            "a webhook by Service, asked about nothing",
            vec![webhook("silent", nothings, nobody)],
            "validatingwebhookconfiguration silent",
            &[],
        ),
        cause("a policy", vec![policy, bound], "validatingadmissionpolicy freeze", NO_LEASES),
        cause("a quota", vec![quota], "resourcequota openshift-cluster-version/few", &[]),
    ]
}

fn causes_of_nodes() -> Vec<Cause> {
    let (lost, not_ready) = node("lost", "False");
    let (drifting, ready) = node("drifting", "True");
    let behind = (Timestamp::now() - SignedDuration::from_secs(300)).strftime("%Y-%m-%dT%H:%M:%S.000000Z").to_string();
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "drifting", "namespace": "kube-node-lease"},
        "spec": {"holderIdentity": "drifting", "leaseDurationSeconds": 40, "renewTime": behind}});
    let budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "never", "namespace": "default"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}});
    let kept = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": "default", "labels": {"app": "web"}},
        "spec": {"schedulerName": "nobody", "containers": [{"name": "web", "image": "registry.invalid/web:1"}]}});
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "lost", "namespace": "default"},
        "spec": {"schedulerName": "nobody", "containers": [{"name": "web", "image": "registry.invalid/web:1"}]}});
    let waiting = json!({"reason": "ImagePullBackOff", "message": "Back-off pulling image registry.invalid/web:1"});
    let status = json!({"status": {"phase": "Pending", "containerStatuses": [{"name": "web", "image": "registry.invalid/web:1", "imageID": "",
        "ready": false, "restartCount": 0, "state": {"waiting": waiting}}]}});
    let with = |it: Cause, plant: Vec<Vec<String>>, undo: Vec<Vec<String>>| Cause { plant, undo, ..it };
    vec![
        with(cause("a node that is not ready", vec![lost], "node lost", &[]), vec![not_ready], vec![]),
        with(cause("a clock", vec![drifting, lease], "node drifting", &[]), vec![ready], vec![]),
        with(
            cause("a node that is cordoned", vec![], "node fake-0", &[]),
            vec![words("cordon fake-0")],
            vec![words("uncordon fake-0")],
        ),
        cause("a budget", vec![budget, kept], "poddisruptionbudget default/never", &[]),
        with(
            cause("an image", vec![pod], "pod default/lost", &[]),
            vec![patch("pod", "lost", "--subresource=status", &status)],
            vec![],
        ),
    ]
}

fn causes_of_the_daemon() -> Vec<Cause> {
    let service = json!({"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": "v1.nothing.example"},
        "spec": {"group": "nothing.example", "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 100, "insecureSkipTLSVerify": true,
            "service": {"namespace": "default", "name": "nobody"}}});
    let conditions = |degraded: &str| {
        let all = [("Available", "True"), ("Progressing", "False"), ("Degraded", degraded)].map(|(type_, status)| {
            json!({"type": type_, "status": status, "reason": "DiskFull", "message": "beta has no room", "lastTransitionTime": "2026-01-01T00:00:00Z"})
        });
        patch("clusteroperator", "beta", "--subresource=status", &json!({"status": {"conditions": all}}))
    };
    let unsigned = json!({"spec": {"desiredUpdate": {"version": "1.0.9", "image": format!("registry.invalid/release@sha256:{}", "0".repeat(64))}}});
    let with = |it: Cause, plant: Vec<Vec<String>>, undo: Vec<Vec<String>>| Cause { plant, undo, ..it };
    vec![
        cause("an aggregated API", vec![service], "apiservice v1.nothing.example", &[]),
        cause(
            "a name that is taken",
            vec![definition("widgets"), definition("gadgets")],
            "customresourcedefinition gadgets.a.example",
            &[],
        ),
        with(
            cause("an operator", vec![], "clusteroperator beta", &["clusterversion: Failing"]),
            vec![conditions("True")],
            vec![conditions("False")],
        ),
        with(
            cause("a release that is not signed", vec![], "clusterversion: ReleaseAccepted=False", &[]),
            vec![patch("clusterversion", "version", "", &unsigned)],
            vec![patch("clusterversion", "version", "", &json!({"spec": {"desiredUpdate": null}}))],
        ),
        with(
            cause("a binding", vec![], ACCOUNT, NO_LEASES),
            vec![words(&format!("delete clusterrolebinding {ADMIN}"))],
            vec![words("create -f BINDING")],
        ),
        with(
            cause(
                "a daemon that is switched off",
                vec![],
                "deployment openshift-cluster-version/cluster-version-operator",
                &[LEASE],
            ),
            vec![words(&format!("-n {NAMESPACE} scale deployment cluster-version-operator --replicas=0"))],
            vec![words(&format!("-n {NAMESPACE} scale deployment cluster-version-operator --replicas=1"))],
        ),
    ]
}

const PAIRS: [(&str, &str); 20] = [
    ("a webhook by url", "a clock"),
    ("a webhook by url", "a webhook by Service, asked about nothing"),
    ("a webhook by url", "a quota"),
    ("a webhook by url", "a node that is not ready"),
    ("a webhook by Service, asked about leases", "a webhook by Service, asked about nothing"),
    ("a webhook by Service, asked about leases", "an aggregated API"),
    ("a policy", "a quota"),
    ("a policy", "a clock"),
    ("a binding", "a clock"),
    ("a binding", "a daemon that is switched off"),
    ("a quota", "a budget"),
    ("a quota", "a daemon that is switched off"),
    ("a node that is not ready", "a clock"),
    ("a node that is not ready", "a node that is cordoned"),
    ("a node that is cordoned", "a budget"),
    ("a webhook by Service, asked about nothing", "an aggregated API"),
    ("an aggregated API", "a name that is taken"),
    ("an operator", "a release that is not signed"),
    ("an image", "an operator"),
    ("an image", "a node that is not ready"),
];

/// Waits until doctor names all of them and nothing else beside what was there before and what may follow.
async fn doctor_names(cluster: &SimulatedCluster, planted: &[&Cause], before: &BTreeSet<String>) -> String {
    let title = planted.iter().map(|cause| cause.name).collect::<Vec<_>>().join(" + ");
    let follows: BTreeSet<&str> = planted.iter().flat_map(|cause| cause.follows.iter().copied()).collect();
    let named = cluster.control_plane.until(&title, &[]).answer(async || {
        let all = doctor(cluster).await;
        let found: BTreeSet<&str> = all.iter().map(|(object, _)| object.as_str()).collect();
        let missing: Vec<&str> =
            planted.iter().map(|cause| cause.named).filter(|object| !found.contains(object)).collect();
        let expected = |object: &str| {
            before.contains(object) || follows.contains(object) || planted.iter().any(|cause| cause.named == object)
        };
        let wrong: Vec<&&str> = found.iter().filter(|object| !expected(object)).collect();
        let right = missing.is_empty() && wrong.is_empty();
        let said = format!("missing {missing:?}, wrong {wrong:?}: {all:#?}");
        if right { Ok(all) } else { Err(said) }
    });
    let all = named.await.unwrap();
    let clock = planted.iter().any(|cause| cause.name == "a clock");
    assert_eq!(all.iter().any(|(_, message)| message.contains("clock")), clock, "{title}: {all:#?}");
    let shown = all.iter().filter(|(object, _)| !before.contains(object));
    let shown: Vec<String> =
        shown.map(|(object, message)| format!("{object}: {}", message.chars().take(90).collect::<String>())).collect();
    format!("| {title} | {} |", shown.join("<br>"))
}

async fn run(cluster: &SimulatedCluster, cause: &Cause, verb: &str) {
    let binding = cluster.control_plane.dir().join("binding.json").display().to_string();
    let commands = if verb == "create" { &cause.plant } else { &cause.undo };
    if !cause.objects.is_empty() {
        objects(cluster, verb, &cause.objects).await;
    }
    for command in commands {
        let command: Vec<&str> = command
            .iter()
            .filter(|word| !word.is_empty())
            .map(|word| if word == "BINDING" { binding.as_str() } else { word.as_str() })
            .collect();
        kubectl(cluster, &command).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "hack/soak runs it"]
async fn causes_on_a_real_control_plane_are_named_alone_and_in_pairs() {
    let (cluster, release) = installed().await;
    // Nobody but this test says how it is.
    cluster.simulation.hold("beta");
    let binding = kubectl(&cluster, &["get", "clusterrolebinding", ADMIN, "-o", "json"]).await;
    std::fs::write(cluster.control_plane.dir().join("binding.json"), restorable(&binding).to_string()).unwrap();
    let causes: Vec<Cause> =
        causes_of_admission().into_iter().chain(causes_of_nodes()).chain(causes_of_the_daemon()).collect();
    let before: BTreeSet<String> = doctor(&cluster).await.into_iter().map(|(object, _)| object).collect();
    println!("before anything is planted doctor finds {before:?}");
    let named =
        |name: &str| causes.iter().find(|cause| cause.name == name).unwrap_or_else(|| panic!("{name} is no cause"));
    let mut rows = Vec::new();
    let alone = causes.iter().map(|cause| vec![cause]);
    let pairs = PAIRS.iter().map(|(one, other)| vec![named(one), named(other)]);
    for planted in alone.chain(pairs) {
        for cause in &planted {
            run(&cluster, cause, "create").await;
        }
        rows.push(doctor_names(&cluster, &planted, &before).await);
        if let [only] = planted.as_slice() {
            let to = release.folder.display().to_string();
            let plan = cvo(&cluster, &["plan", "--from", "cluster", "--to", &to]).await;
            // What plan judges itself it names in its own words.
            let own = only.named.starts_with("clusteroperator") || only.named.starts_with("clusterversion");
            assert!(own || plan.contains(only.named), "plan does not name {}:\n{plan}", only.named);
        }
        for cause in planted.iter().rev() {
            run(&cluster, cause, "delete").await;
        }
        doctor_names(&cluster, &[], &before).await;
    }
    println!("| planted | doctor names |\n|---|---|\n{}", rows.join("\n"));
    cluster.close().await.unwrap();
}
