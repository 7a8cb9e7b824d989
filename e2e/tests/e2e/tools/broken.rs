//! A platform that is broken in one way after another, on a real node: `cvo status` names the cause and what to do, `cvo history` says
//! afterwards where the time went, and `cvo collect` takes all of it elsewhere.

use std::path::Path;

use anyhow::Context;
use cvo::testing::api::{ClusterVersion, HistoryState, NAMESPACE};
use e2e::conditions::Conditions;
use e2e::harness::audit::{self, Request};
use e2e::platform::releases::{Contents, SAMPLES};
use e2e::platform::{LIMIT, Platform, Release};
use e2e::simulator::requests::DAEMON;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{ObjectMeta, PostParams};
use serde_json::{Value, json};

const NETWORK: &str = "network/0000_20_network_40_operator.yaml";
const ADMIN: &str = "clusterrolebinding/cluster-version-operator-1";
/// Planted where nobody should look for it.
const PLANTED: &str = "planted-and-never-to-be-seen";

/// What `cvo status` shows at once.
async fn status(platform: &Platform) -> String {
    platform.cvo(["status", "--kubeconfig", &kubeconfig(platform)]).await.unwrap_or_else(|error| error.to_string())
}

fn kubeconfig(platform: &Platform) -> String {
    platform.cluster.kubeconfig().display().to_string()
}

/// Waits until `cvo status` names all of it, and prints it.
async fn names(platform: &Platform, situation: &str, words: &[&str]) {
    let told = platform.cluster.until(situation, &[]).answer(async || {
        let said = status(platform).await;
        let missing: Vec<&&str> = words.iter().filter(|word| !said.contains(**word)).collect();
        if missing.is_empty() { Ok(said) } else { Err(format!("{missing:?} is missing in\n{said}")) }
    });
    println!("=== {situation}\n{}", told.await.unwrap());
}

/// A release in which a file of the sample is changed; it is signed and asked for.
async fn ask_changed(platform: &Platform, version: &str, file: &str, from: &str, to: &str) -> Release {
    let contents = Contents { version, ..SAMPLES[1] };
    let change = |folder: &Path| {
        let path = folder.join(file);
        let text = std::fs::read_to_string(&path)?;
        anyhow::ensure!(text.contains(from), "{from:?} is not in {file}");
        std::fs::write(&path, text.replace(from, to)).context("cannot change it")
    };
    let release = platform.changed_release(contents, change).await.unwrap();
    platform.sign(&release).await.unwrap();
    platform.ask_image(&release.image, version).await.unwrap();
    release
}

async fn apply(platform: &Platform, objects: &[Value]) {
    let file = platform.cluster.dir().join("situation.json");
    std::fs::write(&file, json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string()).unwrap();
    let file = file.display().to_string();
    platform.cluster.kubectl(["apply", "--server-side", "--force-conflicts", "-f", &file]).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "hack/soak runs it"]
async fn each_broken_situation_is_named_with_its_way_out() {
    let Some(platform) = Platform::on_a_node().await.unwrap() else { return };
    let [first, ..] = platform.samples().await.unwrap();
    define_proxies(&platform).await;
    platform.install(&first).await.unwrap();
    platform.until_completed(&first, LIMIT).await.unwrap();
    let healthy = status(&platform).await;
    assert!(!healthy.contains('→'), "nothing has to be done about a cluster that is well:\n{healthy}");

    pods_that_do_not_work(&platform).await;
    an_operator_that_fails_and_one_that_says_nothing(&platform).await;
    collects_what_is_known(&platform).await;
    a_webhook_that_denies(&platform).await;
    a_right_that_is_missing(&platform).await;
    a_target_that_is_not_signed(&platform).await;

    let asked = Timestamp::now();
    let last = platform.release(Contents { version: "1.0.19", ..SAMPLES[1] }).await.unwrap();
    platform.sign(&last).await.unwrap();
    platform.ask_image(&last.image, "1.0.19").await.unwrap();
    platform.until_completed(&last, LIMIT).await.unwrap();
    a_proxy_that_leads_nowhere(&platform).await;
    history_adds_up(&platform, &last, asked).await;
    platform.close().await.unwrap();
}

async fn pods_that_do_not_work(platform: &Platform) {
    let image = "image: sample.invalid/lab\n        args";
    let absent = format!("{}/sample/absent@sha256:{}", platform.cluster.registry(), "0".repeat(64));
    ask_changed(platform, "1.0.11", NETWORK, image, &format!("image: {absent}\n        args")).await;
    let words = ["Behind Deployment network/network-operator", "ImagePull", &absent, "→ Make the image pullable"];
    names(platform, "an image that cannot be pulled", &words).await;

    ask_changed(platform, "1.0.12", NETWORK, "--component=network", "--no-such-flag").await;
    let words = [
        "container operator has ended",
        "no-such-flag",
        "→ Read why it ends",
        "kubectl -n network logs network-operator-",
        "-c operator --previous",
    ];
    names(platform, "a crash loop", &words).await;

    ask_changed(platform, "1.0.13", NETWORK, "cpu: 10m", "cpu: 900").await;
    let words = ["Unschedulable: 0/1 nodes are available: 1 Insufficient cpu", "→ Make room"];
    names(platform, "no room", &words).await;
}

async fn an_operator_that_fails_and_one_that_says_nothing(platform: &Platform) {
    let arguments = "- operator\n        - --component=network\n        - --version=0.0.1-snapshot\n        - --operand=DaemonSet/network-agent\n        - --needs-config";
    ask_changed(platform, "1.0.14", NETWORK, arguments, "- pause").await;
    let words = [
        "ClusterOperator network",
        "Behind ClusterOperator network",
        "the operator has not reported",
        "→ Read the log of the operator: kubectl -n network logs deployment/network-operator",
    ];
    names(platform, "an operator that is silent", &words).await;

    let folders = &["base", "1.0.1", "failing-network"];
    let failing =
        platform.release(Contents { version: "1.0.15", folders, previous: &["1.0.0"], components: &[] }).await.unwrap();
    platform.sign(&failing).await.unwrap();
    platform.ask_image(&failing.image, "1.0.15").await.unwrap();
    let words = [
        "Failing for",
        "Unhealthy operators",
        "network is not available",
        "→ kubectl describe clusteroperator network",
    ];
    names(platform, "an operator that is degraded", &words).await;
}

/// While the operator is degraded: a Secret, and things like secrets elsewhere, stay where they are.
async fn collects_what_is_known(platform: &Platform) {
    let client = platform.cluster.client().await.unwrap();
    let secret = Secret {
        metadata: ObjectMeta { name: Some("planted".into()), ..ObjectMeta::default() },
        string_data: Some([("password".to_owned(), PLANTED.to_owned())].into()),
        ..Secret::default()
    };
    let secrets: Api<Secret> = Api::namespaced(client.clone(), NAMESPACE);
    secrets.create(&PostParams::default(), &secret).await.unwrap();
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "planted", "namespace": "network",
        "annotations": {"planted": PLANTED}}, "spec": {"hostNetwork": true, "containers": [{"name": "c", "image": platform.lab_image(),
            "args": ["pause", PLANTED], "env": [{"name": "PASSWORD", "value": PLANTED}]}]}});
    let event = json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "planted", "namespace": "network"}, "type": "Warning",
        "reason": "Planted", "message": format!("GET https://user:{PLANTED}@registry.invalid/ failed, token={PLANTED}"),
        "involvedObject": {"kind": "Pod", "namespace": "network", "name": "planted"}});
    apply(platform, &[pod, event]).await;
    let file = platform.cluster.dir().join("record.tar.zst").display().to_string();
    platform.cvo(["collect", "--to", &file, "--kubeconfig", &kubeconfig(platform)]).await.unwrap();
    let again = platform.cvo(["collect", "--to", &file, "--kubeconfig", &kubeconfig(platform)]).await.unwrap_err();
    assert!(again.to_string().contains("exists"), "{again}");

    let unpacked = platform.cluster.dir().join("record");
    std::fs::create_dir(&unpacked).unwrap();
    let mut tar = tokio::process::Command::new("tar");
    let unpacking = tar.args(["--zstd", "-xf", &file, "--strip-components=1", "-C"]).arg(&unpacked).status().await;
    assert!(unpacking.unwrap().success(), "others can unpack it, too");
    let found = tokio::process::Command::new("grep").args(["-rc", PLANTED]).arg(&unpacked).output().await.unwrap();
    let found = String::from_utf8_lossy(&found.stdout).into_owned();
    assert!(found.lines().count() > 5 && found.lines().all(|line| line.ends_with(":0")), "{found}");
    let events = std::fs::read_to_string(unpacked.join("namespaces/network/events.json")).unwrap();
    assert!(events.contains("https://[removed]@registry.invalid/"), "the event itself is there");
    let logs: Vec<_> = std::fs::read_dir(unpacked.join("logs")).unwrap().collect();
    assert!(!logs.is_empty(), "the daemon's log");
    let metrics: Vec<_> =
        std::fs::read_dir(unpacked.join("metrics")).unwrap().map(|file| file.unwrap().path()).collect();
    let metrics = metrics.iter().map(|file| std::fs::read_to_string(file).unwrap()).collect::<String>();
    assert!(metrics.contains("cluster_operator_conditions{"), "the daemon's metrics: {metrics}");

    // On another machine: without the cluster.
    let recorded = platform.cvo(["status", "--from", &file]).await.unwrap();
    for word in ["Updating 1.0.0 → 1.0.15", "network is not available", "→ kubectl describe clusteroperator network"]
    {
        assert!(recorded.contains(word), "{word}:\n{recorded}");
    }
    let history = platform.cvo(["history", "--from", &file]).await.unwrap();
    assert!(history.contains("Update 1.0.0 → 1.0.15: under way"), "{history}");
    println!("=== collected\n{found}\n{history}");
}

async fn a_webhook_that_denies(platform: &Platform) {
    let hook = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration", "metadata": {"name": "denies"},
        "webhooks": [{
            "name": "denies.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "clientConfig": {"service": {"namespace": "default", "name": "nobody"}},
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "network"}},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["configmaps"]}],
        }],
    });
    apply(platform, &[hook]).await;
    let settings = "network/0000_20_network_10_settings.yaml";
    ask_changed(platform, "1.0.16", settings, "1450", "1460").await;
    let words = ["Failing for", "denies.example.com", "network-settings", "→ Bring the pods behind the webhook back"];
    names(platform, "a webhook that denies", &words).await;
    platform.cluster.kubectl(["delete", "validatingwebhookconfiguration", "denies"]).await.unwrap();
}

/// The daemon may do everything but write Services.
async fn a_right_that_is_missing(platform: &Platform) {
    let before = platform.cluster.kubectl(["get", ADMIN, "-o", "json"]).await.unwrap();
    let mut binding: Value = serde_json::from_str(&before).unwrap();
    let groups = platform.cluster.kubectl(["api-versions"]).await.unwrap();
    let groups: Vec<&str> = groups.lines().filter_map(|line| line.split_once('/')).map(|(group, _)| group).collect();
    let core = [
        "bindings",
        "configmaps",
        "endpoints",
        "events",
        "limitranges",
        "namespaces",
        "nodes",
        "persistentvolumeclaims",
        "persistentvolumes",
        "pods",
        "pods/log",
        "podtemplates",
        "replicationcontrollers",
        "resourcequotas",
        "secrets",
        "serviceaccounts",
    ];
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "almost-everything"},
        "rules": [
            {"apiGroups": groups, "resources": ["*"], "verbs": ["*"]},
            {"apiGroups": [""], "resources": core, "verbs": ["*"]},
            {"apiGroups": [""], "resources": ["*"], "verbs": ["get", "list", "watch"]},
            {"nonResourceURLs": ["*"], "verbs": ["*"]},
        ],
    });
    for field in ["uid", "resourceVersion", "creationTimestamp", "managedFields"] {
        binding["metadata"].as_object_mut().unwrap().remove(field);
    }
    let whole = binding.clone();
    binding["metadata"] = json!({"name": "almost-everything"});
    binding["roleRef"]["name"] = json!("almost-everything");
    apply(platform, &[role, binding]).await;
    // Otherwise it is brought back.
    let unmanaged = json!({"spec": {"overrides": [{"group": "rbac.authorization.k8s.io", "kind": "ClusterRoleBinding", "namespace": "",
        "name": "cluster-version-operator-1", "unmanaged": true}]}});
    let patch = ["patch", "clusterversion", "version", "--type=merge", "-p", &unmanaged.to_string()];
    platform.cluster.kubectl(patch).await.unwrap();
    let overridden =
        |version: &ClusterVersion| version.condition("Upgradeable").is_some_and(|it| it.message.contains("override"));
    platform.until("the override to be known", LIMIT, overridden).await.unwrap();
    platform.cluster.kubectl(["delete", ADMIN]).await.unwrap();
    let service = "console/0000_50_console_20_service.yaml";
    ask_changed(platform, "1.0.17", service, "port: 80", "port: 81").await;
    names(
        platform,
        "a right that is missing",
        &["Failing for", "services", "is forbidden", "→ Give the daemon the right"],
    )
    .await;
    apply(platform, &[whole]).await;
    platform.cluster.kubectl(["delete", "clusterrolebinding/almost-everything"]).await.unwrap();
    let managed = json!({"spec": {"overrides": null}}).to_string();
    platform.cluster.kubectl(["patch", "clusterversion", "version", "--type=merge", "-p", &managed]).await.unwrap();
}

async fn a_target_that_is_not_signed(platform: &Platform) {
    let unsigned = platform.release(Contents { version: "1.0.18", ..SAMPLES[1] }).await.unwrap();
    platform.ask_image(&unsigned.image, "1.0.18").await.unwrap();
    let words = [
        "ReleaseAccepted=False",
        "the update cannot be verified",
        "→ Check the registry and the signature",
        "It is tried again in",
    ];
    names(platform, "a target that is not signed", &words).await;
}

/// The kind by which a cluster names its proxy; it is there before the daemon is.
async fn define_proxies(platform: &Platform) {
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "proxies.config.openshift.io",
            "annotations": {"api-approved.kubernetes.io": "unapproved, a sample"}},
        "spec": {"group": "config.openshift.io", "scope": "Cluster", "names": {"kind": "Proxy", "plural": "proxies", "singular": "proxy", "listKind": "ProxyList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}]},
    });
    apply(platform, &[definition]).await;
    platform.cluster.kubectl(["wait", "--for=condition=Established", "crd/proxies.config.openshift.io"]).await.unwrap();
}

async fn a_proxy_that_leads_nowhere(platform: &Platform) {
    let nowhere = "http://127.0.0.1:1";
    let proxy = json!({"apiVersion": "config.openshift.io/v1", "kind": "Proxy", "metadata": {"name": "cluster"},
        "status": {"httpProxy": nowhere, "httpsProxy": nowhere}});
    apply(platform, &[proxy]).await;
    let upstream = json!({"spec": {"channel": "stable", "upstream": "http://updates.example.com/graph"}}).to_string();
    platform.cluster.kubectl(["patch", "clusterversion", "version", "--type=merge", "-p", &upstream]).await.unwrap();
    let words =
        ["RetrievedUpdates=False", "through the proxy 127.0.0.1", "→ Check that the update service can be reached"];
    names(platform, "a proxy that is wrong", &words).await;
}

/// The times of the course add up to the wall clock of the history, and the components wrote in the order of the critical path.
async fn history_adds_up(platform: &Platform, release: &Release, asked: Timestamp) {
    let kubeconfig = kubeconfig(platform);
    println!("=== history\n{}", platform.cvo(["history", "--kubeconfig", &kubeconfig]).await.unwrap());
    let json = platform.cvo(["history", "-o", "json", "--kubeconfig", &kubeconfig]).await.unwrap();
    let told: Value = serde_json::from_str(&json).unwrap();
    let update = &told["updates"][0];
    assert_eq!((&update["version"], &update["state"]), (&json!("1.0.19"), &json!("Completed")));
    let number = |value: &Value| value.as_f64().unwrap();
    let sum = |list: &Value| list.as_array().unwrap().iter().map(|it| number(&it["seconds"])).sum::<f64>();
    let (whole, check) = (number(&update["seconds"]), number(&update["lastCheck"]));
    assert!((sum(&update["stages"]) + check - whole).abs() < 0.01, "{update:#}");
    assert!((sum(&update["criticalPath"]) + check - whole).abs() < 0.01, "{update:#}");

    let version = platform.until("any state", LIMIT, |_| true).await.unwrap();
    let entry = newest(&version);
    assert_eq!((entry.image.as_str(), entry.state), (release.image.as_str(), HistoryState::Completed));
    let wall = entry.completion_time.as_ref().unwrap().0.duration_since(entry.started_time.0).as_secs_f64();
    assert!((wall - whole).abs() < 2.5, "whole seconds of the history: {wall}, the course: {whole}");
    assert!(!version.has("Failing=True") && version.has("Failing"));

    let writes = audit::requests(&platform.cluster.audit_log(), DAEMON).unwrap();
    let last_write = |component: &str| {
        let of = |write: &&Request| write.wrote() && write.at > asked && write.namespace == component;
        writes.iter().filter(of).map(|write| write.at).max()
    };
    let path = update["criticalPath"].as_array().unwrap().iter();
    let path: Vec<&str> = path.map(|step| step["id"].as_str().unwrap().rsplit('/').next().unwrap()).collect();
    assert_eq!(path.last(), Some(&"console"), "{path:?}");
    let times: Vec<(&str, Timestamp)> = path.iter().filter_map(|it| Some((*it, last_write(it)?))).collect();
    println!("critical path {path:?}, last writes {times:?}");
    assert!(times.len() >= 2 && times.is_sorted_by_key(|it| it.1), "{times:?}");
    let started: Timestamp = update["started"].as_str().unwrap().parse().unwrap();
    let mut at = started;
    for step in update["criticalPath"].as_array().unwrap() {
        let end = at + SignedDuration::from_secs_f64(number(&step["seconds"]));
        let name = step["id"].as_str().unwrap().rsplit('/').next().unwrap();
        if let Some((_, wrote)) = times.iter().find(|it| it.0 == name) {
            // The audit log is written when the request is answered.
            let slack = SignedDuration::from_millis(500);
            assert!(
                *wrote >= at - slack && *wrote <= end + slack,
                "{name} wrote at {wrote}, and took from {at} to {end}"
            );
        }
        at = end;
    }
}

fn newest(version: &ClusterVersion) -> cvo::testing::api::HistoryEntry {
    version.status.as_ref().unwrap().history[0].clone()
}
