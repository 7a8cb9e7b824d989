//! MachineConfigs that the controller makes of KubeletConfigs and ContainerRuntimeConfigs, and the MachineConfigNodes that it
//! keeps.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use cvo::testing::api::{
    machine_config::{GROUP, MachineConfig, MachineConfigPool},
    machine_config_node::MachineConfigNode,
    node_config::{ContainerRuntimeConfig, KubeletConfig, NodeConfigStatus},
};
use e2e::{
    conditions::Conditions,
    harness::{Options, audit},
    nodes::{agents::Times, fleet::Fleet},
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams},
};
use serde_json::{Value, json};

use super::LIMIT;

const MADE: &str = "99-worker-generated-kubelet";

fn sources(pool: &MachineConfigPool) -> Vec<&str> {
    pool.spec.configuration.source.iter().map(|source| source.name.as_str()).collect()
}

async fn apply(fleet: &Fleet, kind: &str, name: &str, spec: &Value) {
    let object = json!({
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": kind, "metadata": {"name": name}, "spec": spec,
    });
    let path = fleet.cluster.dir().join(format!("{name}.json"));
    std::fs::write(&path, object.to_string()).unwrap();
    fleet.cluster.kubectl(["apply", "-f", path.to_str().unwrap()]).await.unwrap();
}

fn kubelet(settings: &Value) -> Value {
    json!({"machineConfigPoolSelector": {"matchLabels": {"kubelet": "many-pods"}}, "kubeletConfig": settings})
}

/// What the agents of both nodes tell of their kubelets.
async fn tell_kubelets(fleet: &Fleet, folder: &str) {
    let patch = Patch::Merge(json!({"metadata": {"annotations": {format!("{GROUP}/kubeletConfigDir"): folder}}}));
    for node in ["fake-0", "fake-1"] {
        fleet.nodes().patch(node, &PatchParams::default(), &patch).await.unwrap();
    }
}

/// The last condition, if it is about what the object says now.
fn said(generation: Option<i64>, status: Option<&NodeConfigStatus>) -> Option<(&str, &str)> {
    let status = status.filter(|status| Some(status.observed_generation) == generation)?;
    status.conditions.last().map(|last| (last.type_.as_str(), last.message.as_str()))
}

/// Until a pool that has another configuration than `before` is rendered of what `of` says.
async fn until_rendered(fleet: &Fleet, before: &str, of: &[&str]) -> String {
    let rendered = |pool: &MachineConfigPool| pool.spec.configuration.name != before && sources(pool) == of;
    let what = format!("a configuration of {of:?}");
    let pool = fleet.until(&what, (fleet.pools(), "worker"), LIMIT, rendered).await.unwrap();
    fleet.until_updated("worker", before, LIMIT).await.unwrap();
    pool.spec.configuration.name
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_of_kubelets_become_a_part_of_the_configuration_of_their_pools() {
    let mut fleet = Fleet::up(Options::default()).await.unwrap();
    fleet.add_nodes(&[("worker", 2)]).await.unwrap();
    fleet.add_pool("worker", IntOrString::Int(1)).await.unwrap();
    let labels = Patch::Merge(json!({"metadata": {"labels": {"kubelet": "many-pods"}}}));
    fleet.pools().patch("worker", &PatchParams::default(), &labels).await.unwrap();
    fleet.configure("worker", "10-file", "/etc/sample", "one").await.unwrap();
    let fast = Times { stage: Duration::ZERO, apply: Duration::ZERO, restart: Duration::ZERO };
    fleet.start_agents(move |_| fast).await.unwrap();
    apply(&fleet, "KubeletConfig", "pods", &kubelet(&json!({"maxPods": 500}))).await;
    fleet.start_controller("controller", &[]).unwrap();
    let first = until_rendered(&fleet, "", &["10-file", MADE]).await;

    let kubelets: Api<KubeletConfig> = Api::all(fleet.client.clone());
    let configs: Api<MachineConfig> = Api::all(fleet.client.clone());
    let success = |it: &KubeletConfig| said(it.metadata.generation, it.status.as_ref()) == Some(("Success", ""));
    fleet.until("success", (kubelets.clone(), "pods"), LIMIT, success).await.unwrap();

    // Somebody changes what was made: it is made anew, and no node changes.
    let tampered = Patch::Merge(json!({"spec": {"kernelArguments": ["quiet"]}}));
    configs.patch(MADE, &PatchParams::default(), &tampered).await.unwrap();
    let restored = |it: &MachineConfig| it.spec.kernel_arguments.is_empty() && it.metadata.generation > Some(2);
    fleet.until("what was made", (configs.clone(), MADE), LIMIT, restored).await.unwrap();
    assert_eq!(fleet.pools().get("worker").await.unwrap().spec.configuration.name, first);

    // What a kubelet would not start with reaches no node.
    apply(&fleet, "KubeletConfig", "pods", &kubelet(&json!({"maxPods": "500"}))).await;
    let message = "kubeletConfig.maxPods is \"500\": set a whole number";
    let failure = |it: &KubeletConfig| said(it.metadata.generation, it.status.as_ref()) == Some(("Failure", message));
    fleet.until("failure", (kubelets.clone(), "pods"), LIMIT, failure).await.unwrap();
    assert_eq!(fleet.pools().get("worker").await.unwrap().spec.configuration.name, first);

    // Nor does what no kubelet reads.
    tell_kubelets(&fleet, "none").await;
    apply(&fleet, "KubeletConfig", "pods", &kubelet(&json!({"maxPods": 600}))).await;
    let unread = |it: &KubeletConfig| {
        let said = said(it.metadata.generation, it.status.as_ref());
        said.is_some_and(|(type_, text)| type_ == "Failure" && text.starts_with("no kubelet of pool worker reads"))
    };
    fleet.until("failure", (kubelets.clone(), "pods"), LIMIT, unread).await.unwrap();
    assert_eq!(fleet.pools().get("worker").await.unwrap().spec.configuration.name, first);
    tell_kubelets(&fleet, "/etc/kubernetes/kubelet.conf.d").await;
    let second = until_rendered(&fleet, &first, &["10-file", MADE]).await;
    let runtime = json!({
        "machineConfigPoolSelector": {"matchLabels": {"kubelet": "many-pods"}},
        "containerRuntimeConfig": {"pidsLimit": 4096, "logSizeMax": "50Mi"},
    });
    apply(&fleet, "ContainerRuntimeConfig", "limits", &runtime).await;
    let third = until_rendered(&fleet, &second, &["10-file", "99-worker-generated-containerruntime", MADE]).await;
    let runtimes: Api<ContainerRuntimeConfig> = Api::all(fleet.client.clone());
    let success =
        |it: &ContainerRuntimeConfig| said(it.metadata.generation, it.status.as_ref()) == Some(("Success", ""));
    fleet.until("success", (runtimes, "limits"), LIMIT, success).await.unwrap();

    kubelets.delete("pods", &DeleteParams::default()).await.unwrap();
    until_rendered(&fleet, &third, &["10-file", "99-worker-generated-containerruntime"]).await;
    assert!(configs.get_opt(MADE).await.unwrap().is_none(), "it goes with what it was made of");
}

/// What lasts is told while it lasts, and in the end each node has its own.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "hack/soak runs it"]
async fn machine_config_nodes_say_how_far_nodes_are() {
    let mut fleet = Fleet::up(Options { audit: true, ..Options::default() }).await.unwrap();
    fleet.add_nodes(&[("worker", 2)]).await.unwrap();
    fleet.add_pool("worker", IntOrString::Int(1)).await.unwrap();
    fleet.configure("worker", "10-file", "/etc/sample", "one").await.unwrap();
    let slow = Duration::from_secs(14);
    // The first configuration is taken at once.
    let updating = Arc::new(AtomicBool::new(false));
    let is_slow = updating.clone();
    let times = move |name: &str| Times {
        stage: Duration::ZERO,
        apply: Duration::ZERO,
        restart: if name == "fake-0" && is_slow.load(Ordering::Relaxed) { slow } else { Duration::ZERO },
    };
    fleet.start_agents(times).await.unwrap();
    fleet.start_controller("controller", &["--machine-config-nodes"]).unwrap();
    let first = fleet.until_updated("worker", "", LIMIT).await.unwrap().spec.configuration.name;
    let objects: Api<MachineConfigNode> = Api::all(fleet.client.clone());
    let has = |config: &str| {
        let config = config.to_owned();
        move |it: &MachineConfigNode| it.has("Updated=True") && it.spec.config_version.desired == config
    };
    for name in ["fake-0", "fake-1"] {
        fleet.until(name, (objects.clone(), name), LIMIT, has(&first)).await.unwrap();
    }
    let begun = Timestamp::now();
    updating.store(true, Ordering::Relaxed);
    fleet.configure("worker", "10-file", "/etc/sample", "two").await.unwrap();
    let restarts = |it: &MachineConfigNode| it.has("RebootedNode=Unknown");
    let object = fleet.until("the restart", (objects.clone(), "fake-0"), LIMIT, restarts).await.unwrap();
    assert!(object.has("Drained=True"), "{:?}", object.status);
    let second = fleet.until_updated("worker", &first, LIMIT).await.unwrap().spec.configuration.name;
    for name in ["fake-0", "fake-1"] {
        let object = fleet.until(name, (objects.clone(), name), LIMIT, has(&second)).await.unwrap();
        assert_eq!(object.status.unwrap().config_version.unwrap().current, second);
        assert_eq!(object.spec.pool.name, "worker");
        assert_eq!(object.metadata.owner_references.unwrap()[0].kind, "Node");
    }
    let requests = audit::everything(&fleet.cluster.audit_log()).unwrap();
    let writes = requests.iter().filter(|it| it.at >= begun && it.is_write() && it.resource == "machineconfignodes");
    let writes = writes.filter(|it| it.name == "fake-1").count();
    assert_eq!(writes, 2, "what passes quickly is told once, in the end");
}
