//! `cvo doctor` on a cluster with trouble, and on the same one without; `cvo` alone where there is nothing yet.

use super::without_access::to_nobody;
use e2e::{
    harness::{Cvo, Options},
    nodes::fleet::Fleet,
    simulator::cluster::SimulatedCluster,
};
use serde_json::{Value, json};
use std::path::Path;

/// Exit code, and object and message of each finding.
async fn doctor(fleet: &Fleet) -> (Option<i32>, Vec<(String, String)>) {
    let done = fleet.cluster.cvo(["doctor", "-o", "json"]).run().await.unwrap();
    let said: Value = done.json().unwrap();
    assert_eq!(said["unknown"], json!([]), "everything can be read");
    let text = |finding: &Value, key: &str| finding[key].as_str().unwrap().to_owned();
    let findings = said["findings"].as_array().unwrap().iter();
    assert!(findings.clone().all(|finding| !text(finding, "nextStep").is_empty()), "{said:#}");
    (done.code, findings.map(|finding| (text(finding, "object"), text(finding, "message"))).collect())
}

/// `cvo` without a command: exit code, standard output, standard error.
async fn overview(kubeconfig: &Path) -> (Option<i32>, String, String) {
    let said = Cvo::default().env("KUBECONFIG", kubeconfig).run().await.unwrap();
    (said.code, said.stdout, said.stderr)
}

/// In a cluster without the daemon, and without a cluster.
async fn overview_says_how_to_begin(fleet: &Fleet) {
    let (code, said, error) = overview(&fleet.cluster.kubeconfig()).await;
    assert_eq!((code, error.as_str()), (Some(0), ""), "{said}");
    for words in ["no ClusterVersion version: the daemon is not installed", "cvo render --help"] {
        assert!(said.contains(words), "{words}:\n{said}");
    }
    let nobody = fleet.cluster.dir().join("nobody.kubeconfig");
    std::fs::copy(fleet.cluster.kubeconfig(), &nobody).unwrap();
    to_nobody(&nobody);
    for (kubeconfig, cause) in [(nobody, "127.0.0.1:1/: is it running?"), ("/nowhere".into(), "--kubeconfig")] {
        let (code, said, error) = overview(&kubeconfig).await;
        assert_eq!(code, Some(1), "{said}{error}");
        assert!(error.starts_with("cvo: ") && error.contains(cause), "{error}");
        assert!(said.contains("No cluster can be read") && said.contains("hack/demo"), "{said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn doctor_names_what_would_keep_an_update_from_ending() {
    let fleet = Fleet::up(Options::default()).await.unwrap();
    overview_says_how_to_begin(&fleet).await;
    fleet.add_nodes(&[("worker", 2)]).await.unwrap();
    let webhook = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "silent"},
        "webhooks": [{
            "name": "silent.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "clientConfig": {"service": {"namespace": "default", "name": "nobody"}},
            "rules": [{"apiGroups": ["none.example"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["nothings"]}],
        }],
    });
    let budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "never", "namespace": "default"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}},
    });
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": "default", "labels": {"app": "web"}},
        "spec": {"schedulerName": "nobody", "containers": [{"name": "web", "image": "registry.invalid/web:1"}]},
    });
    let path = fleet.cluster.dir().join("trouble.json");
    std::fs::write(&path, json!({"apiVersion": "v1", "kind": "List", "items": [webhook, budget, pod]}).to_string())
        .unwrap();
    let path = path.to_str().unwrap();
    fleet.cluster.kubectl(["apply", "-f", path]).await.unwrap();
    fleet.cluster.kubectl(["cordon", "fake-1"]).await.unwrap();
    let (code, found) = doctor(&fleet).await;
    assert_eq!(code, Some(3));
    for (object, words) in [
        ("clusterversion version", "does not exist"),
        ("node fake-1", "cordoned"),
        ("validatingwebhookconfiguration silent", "nobody answers behind Service default/nobody"),
        ("poddisruptionbudget default/never", "no node with one of its pods can be drained"),
    ] {
        let told = found.iter().any(|(told, message)| told == object && message.contains(words));
        assert!(told, "{object}: {found:?}");
    }
    assert_eq!(found.len(), 4, "{found:?}");

    fleet.cluster.kubectl(["delete", "-f", path]).await.unwrap();
    fleet.cluster.kubectl(["uncordon", "fake-1"]).await.unwrap();
    let (_, found) = doctor(&fleet).await;
    assert_eq!(found.iter().map(|(object, _)| object.as_str()).collect::<Vec<_>>(), ["clusterversion version"]);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "hack/soak runs it"]
async fn update_records_what_could_hinder_it() {
    let (cluster, releases) = SimulatedCluster::with_installed(&["1.0.0", "1.0.1"]).await.unwrap();
    let budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "never", "namespace": "default"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}},
    });
    // Nothing schedules it, so that what it reports stays.
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "lost", "namespace": "default", "labels": {"app": "web"}},
        "spec": {"schedulerName": "nobody", "containers": [{"name": "web", "image": "registry.invalid/web:1"}]},
    });
    let waiting = json!({"reason": "ImagePullBackOff", "message": "Back-off pulling image registry.invalid/web:1"});
    let container = json!({"name": "web", "image": "registry.invalid/web:1", "imageID": "", "ready": false, "restartCount": 0,
        "state": {"waiting": waiting}});
    let status = json!({"status": {"phase": "Pending", "containerStatuses": [container]}}).to_string();
    let path = cluster.control_plane.dir().join("trouble.json");
    std::fs::write(&path, json!({"apiVersion": "v1", "kind": "List", "items": [budget, pod]}).to_string()).unwrap();
    let kubectl = &cluster.control_plane;
    kubectl.kubectl(["apply", "-f", path.to_str().unwrap()]).await.unwrap();
    kubectl.kubectl(["patch", "pod", "lost", "--subresource=status", "--type=merge", "-p", &status]).await.unwrap();
    cluster.request(&releases[1]).await.unwrap();
    let updated = cluster.completed(&releases[1]).await.unwrap();
    let [newest, first] = updated.status.unwrap().history.try_into().unwrap();
    println!("{}", newest.accepted_risks);
    for words in [
        "ClusterHealth",
        "poddisruptionbudget default/never",
        "no node with one of its pods can be drained",
        "pod default/lost",
        "registry.invalid/web:1",
    ] {
        assert!(newest.accepted_risks.contains(words), "{words}: {}", newest.accepted_risks);
    }
    assert_eq!(first.accepted_risks, "", "an installation begins where nothing is");
    cluster.close().await.unwrap();
}
