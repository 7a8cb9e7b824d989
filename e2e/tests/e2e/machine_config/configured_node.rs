//! The sample platform with a configuration of its nodes: on a real node, with the component of this project in its pods.

use cvo::testing::api::{ClusterOperator, ClusterVersion, machine_config::MachineConfigPool};
use e2e::{
    administrator::{Administrator, oc},
    conditions::Conditions,
    platform::{
        LIMIT, Platform, Release,
        follow::{Change, changes, offered},
        nodes,
    },
};
use futures::StreamExt;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use super::{is_blocked, why_blocked};

/// Its pods do not tolerate that the node is cordoned, and none of them may be missed.
const GUARDED: &str = r#"
apiVersion: v1
kind: Namespace
metadata: {name: guarded}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: precious, namespace: guarded}
spec:
  selector: {matchLabels: {app: precious}}
  template:
    metadata: {labels: {app: precious}}
    spec:
      hostNetwork: true
      containers: [{name: lab, image: "@IMAGE@", args: [pause]}]
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: never, namespace: guarded}
spec:
  minAvailable: 1
  selector: {matchLabels: {app: precious}}
"#;

#[tokio::test(flavor = "multi_thread")]
async fn real_node_is_carried_over_with_the_releases() {
    let Some(platform) = Platform::on_a_node().await.unwrap() else { return };
    let [first, second, third] = nodes::samples(&platform).await.unwrap();
    let file = |path: &str| nodes::read(&platform.cluster, path).unwrap_or_default();
    let commands = || file("var/log/commands").lines().map(str::to_owned).collect::<Vec<_>>();

    platform.install(&first).await.unwrap();
    platform.until_completed(&first, LIMIT).await.unwrap();
    assert_eq!(file("etc/sample/platform"), "first\n", "the installation waits for the node");
    assert!(file("etc/systemd/system/sample.service").contains("hello"));
    assert_eq!(commands(), ["systemctl enable sample.service", "reboot"]);
    right_to_change_nodes_is_none_to_configure_them(&platform).await;

    // A policy of the release says that the service is restarted, so the node is not.
    let boot = file("run/boot-id");
    update(&platform, &second).await;
    platform.until_completed(&second, LIMIT).await.unwrap();
    assert!(file("run/sample.service").contains("welcome"), "the service that runs is the one of the release");
    assert_eq!(
        commands()[2..],
        ["systemctl enable sample.service", "systemctl daemon-reload", "systemctl restart sample.service"]
    );
    assert_eq!(file("run/boot-id"), boot);

    let guarded = platform.cluster.dir().join("guarded.yaml");
    std::fs::write(&guarded, GUARDED.replace("@IMAGE@", platform.lab_image())).unwrap();
    platform.cluster.kubectl(["apply", "-f", &guarded.display().to_string()]).await.unwrap();
    let rollout = ["rollout", "status", "-n", "guarded", "deployment/precious", "--timeout=60s"];
    platform.cluster.kubectl(rollout).await.unwrap();
    let said = Said::begin(&platform).await;
    update(&platform, &third).await;
    waits_for_the_pod_that_must_not_be_evicted(&platform).await;
    assert_explained(&platform, &said).await;
    operator_that_is_broken_for_another_reason_is_told_at_once(&platform).await;
    let said = Said::begin(&platform).await;
    oc_shows_that_it_is_drained(&platform).await;
    assert_eq!(file("etc/sample/platform"), "first\n", "nothing is changed before the node is drained");
    platform.cluster.kubectl(["delete", "pdb", "-n", "guarded", "never"]).await.unwrap();
    platform.until_completed(&third, LIMIT).await.unwrap();
    assert_explained(&platform, &said).await;
    assert_eq!(file("etc/sample/platform"), "second\n");
    assert_ne!(file("run/boot-id"), boot);
    is_as_before(&platform).await;
    platform.close().await.unwrap();
}

/// Administrators may do it all the same.
async fn right_to_change_nodes_is_none_to_configure_them(platform: &Platform) {
    let kubectl = |arguments: &str| {
        let arguments = arguments.split(' ').map(ToOwned::to_owned).collect::<Vec<_>>();
        async move { platform.cluster.kubectl(arguments).await }
    };
    let node = kubectl("get nodes -o name").await.unwrap().trim().to_owned();
    kubectl("create clusterrole labeller --verb=get,patch --resource=nodes").await.unwrap();
    kubectl("create clusterrolebinding labeller --clusterrole=labeller --user=labeller").await.unwrap();
    let tell =
        format!("annotate {node} --dry-run=server --overwrite machineconfiguration.openshift.io/desiredConfig=other");
    kubectl(&format!("label {node} --dry-run=server --as=labeller e2e.example/labelled=yes")).await.unwrap();
    let refused = kubectl(&format!("{tell} --as=labeller")).await.unwrap_err().to_string();
    assert!(refused.contains("is said by the machine-config controller"), "{refused}");
    kubectl(&tell).await.unwrap();
}

/// What the ClusterVersion has said.
struct Said {
    all: Arc<Mutex<BTreeSet<(String, String)>>>,
    following: tokio::task::JoinHandle<()>,
}

impl Said {
    /// From a moment on at which it is not failing.
    async fn begin(platform: &Platform) -> Said {
        platform.until("nothing to fail", LIMIT, |version| !version.has("Failing=True")).await.unwrap();
        let all = Arc::<Mutex<BTreeSet<(String, String)>>>::default();
        let (client, said) = (platform.cluster.client().await.unwrap(), all.clone());
        let following = tokio::spawn(async move {
            let mut changes = changes(client);
            while let Some(change) = changes.next().await {
                let Change::Version(version) = change else { continue };
                for told in ["Failing=True", "Progressing=True"].iter().filter_map(|it| version.condition(it)) {
                    if said.lock().unwrap().insert((told.type_.clone(), told.message.clone())) {
                        println!("{}: {}", told.type_, told.message);
                    }
                }
            }
        });
        Said { all, following }
    }

    fn failing(&self) -> Vec<String> {
        let all = self.all.lock().unwrap();
        all.iter().filter(|(type_, _)| type_ == "Failing").map(|(_, message)| message.clone()).collect()
    }
}

impl Drop for Said {
    fn drop(&mut self) {
        self.following.abort();
    }
}

/// The node explains that operators are away. Otherwise the daemon's log says why it does not.
async fn assert_explained(platform: &Platform, said: &Said) {
    let failing = said.failing();
    if !failing.is_empty() {
        let log = ["logs", "-n", "openshift-cluster-version", "deployment/cluster-version-operator"];
        let log = platform.cluster.kubectl(log).await.unwrap_or_default();
        log.lines().filter(|line| line.contains("available")).for_each(|line| println!("{line}"));
    }
    assert_eq!(failing, Vec::<String>::new(), "the node explains that operators are away");
}

/// The node is still being drained, and its pod is there; but its image cannot be pulled.
async fn operator_that_is_broken_for_another_reason_is_told_at_once(platform: &Platform) {
    let kubectl = |words: &[&str]| {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        async move { platform.cluster.kubectl(words).await.unwrap() }
    };
    let pod = kubectl(&["get", "pods", "-n", "console", "-l", "app=console", "-o", "name"]).await;
    let pod = pod.lines().next().unwrap();
    kubectl(&["set", "image", "-n", "console", pod, "console=localhost:1/nothing:1"]).await;
    let told = |version: &ClusterVersion| {
        let failing = version.condition("Failing=True");
        failing.is_some_and(|it| it.reason == "ClusterOperatorNotAvailable" && it.message.contains("console"))
    };
    let version = platform.until("the broken operator to be told", LIMIT, told).await.unwrap();
    let told = version.condition("Failing").unwrap();
    let operators: Api<ClusterOperator> = Api::all(platform.cluster.client().await.unwrap());
    let away = operators.get("console").await.unwrap().condition("Available").unwrap();
    let after = told.last_transition_time.unwrap().duration_since(away.last_transition_time.unwrap());
    println!("told {after} after the operator had said so: {}", told.message);
    assert!(after.as_secs() < 5, "{after}");
    kubectl(&["delete", "-n", "console", pod, "--wait=false"]).await;
}

async fn update(platform: &Platform, release: &Release) {
    let what = format!("{} to be offered", release.version);
    platform.until(&what, LIMIT, |it| offered(it, release)).await.unwrap();
    platform.ask_version(&release.version).await.unwrap();
}

/// The pool names the budget, and the update says what it waits for.
async fn waits_for_the_pod_that_must_not_be_evicted(platform: &Platform) {
    let blocked =
        |pool: &MachineConfigPool| is_blocked(pool, "DrainBlocked", &["guarded/precious", "PodDisruptionBudget never"]);
    let pool = nodes::until(&platform.cluster, "the budget to be named", LIMIT, blocked).await.unwrap();
    println!("{}", why_blocked(&pool).1);
    let kubeconfig = platform.cluster.kubeconfig().display().to_string();
    let status = platform.cvo(["status", "--kubeconfig", &kubeconfig]).await.unwrap();
    println!("{status}");
    for words in ["PodDisruptionBudget never", "→ "] {
        assert!(status.contains(words), "{words}:\n{status}");
    }
    let held = |version: &ClusterVersion| version.says("Progressing", &["machine-config"]);
    let version = platform.until("the update to say that it waits", LIMIT, held).await.unwrap();
    println!("{}", version.condition("Progressing").unwrap().message);
    let operators: Api<ClusterOperator> = Api::all(platform.cluster.client().await.unwrap());
    let operator = operators.get("machine-config").await.unwrap().status.unwrap();
    assert!(operator.versions.iter().any(|version| version.name == "operator" && version.version == "1.0.1"));
}

/// Only with a real `oc`, which the environment names.
async fn oc_shows_that_it_is_drained(platform: &Platform) {
    let Some(program) = std::env::var_os("OC").filter(|value| !value.is_empty()) else { return };
    let node = format!("{} Progressing Draining 1.0.1", platform.cluster.node_name());
    let says = ["Control Plane", "machine-config", "Control Plane Nodes", &node];
    let client = Administrator::oc(program.into(), &platform.cluster);
    client.run(oc("adm upgrade status --details=nodes").says(&says)).await;
}

async fn is_as_before(platform: &Platform) {
    let updated = |pool: &MachineConfigPool| pool.has("Updated=True");
    let pool = nodes::until(&platform.cluster, "the pool to be updated", LIMIT, updated).await.unwrap();
    let status = pool.status.unwrap();
    assert_eq!((status.machine_count, status.ready_machine_count, status.degraded_machine_count), (1, 1, 0));
    let nodes: Api<Node> = Api::all(platform.cluster.client().await.unwrap());
    let node = nodes.get(&platform.cluster.node_name()).await.unwrap();
    assert_eq!(node.spec.unwrap().unschedulable, None);
    let columns = platform.cluster.kubectl(["get", "mcp", "master"]).await.unwrap();
    let columns: Vec<&str> = columns.lines().nth(1).unwrap_or_default().split_whitespace().collect();
    assert_eq!(columns[2..9], ["True", "False", "False", "1", "1", "1", "0"]);
}
