//! The agent of a node as a process on a root of its own, against a real API server. The test is the controller, the
//! service manager and the power switch of the node.

use super::{agent, script};
use e2e::harness::{Cluster, Options, named};
use e2e::nodes::agents::annotation;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

const GROUP: &str = "machineconfiguration.openshift.io";
const NODE: &str = "worker-0";
const AGENT: &str = "node-agent";

struct Lab {
    cluster: Cluster,
    nodes: Api<Node>,
    root: PathBuf,
    boot: PathBuf,
}

/// MachineConfig, with any content.
fn definition() -> CustomResourceDefinition {
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    serde_json::from_value(json!({
        "metadata": {"name": format!("machineconfigs.{GROUP}")},
        "spec": {
            "group": GROUP, "scope": "Cluster",
            "names": {"kind": "MachineConfig", "plural": "machineconfigs", "singular": "machineconfig"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}],
        },
    }))
    .unwrap()
}

impl Lab {
    async fn start() -> Lab {
        let cluster = Cluster::up(Options { audit: true, ..Options::default() }).await.unwrap();
        let client = cluster.client().await.unwrap();
        let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
        definitions.create(&PostParams::default(), &definition()).await.unwrap();
        let nodes: Api<Node> = Api::all(client);
        nodes.create(&PostParams::default(), &Node { metadata: named(NODE), ..Node::default() }).await.unwrap();
        let (root, boot) = (cluster.dir().join("node-root"), cluster.dir().join("boot-id"));
        fs::create_dir_all(root.join("etc")).unwrap();
        fs::write(&boot, "boot-1\n").unwrap();
        let lab = Lab { cluster, nodes, root, boot };
        lab.start_agent();
        lab
    }

    fn start_agent(&self) {
        let dir = self.cluster.dir();
        let calls = dir.join("services.log").display().to_string();
        // While there is a gate, each call waits until somebody writes to it.
        let gate = self.gate().display().to_string();
        let text = format!("echo \"$@\" >> {calls}\nif [ -p {gate} ]; then read line < {gate}; fi");
        let services = script(dir.join("services"), &text);
        // The node ends, and the agent with it. Until the test switches it on again nothing runs.
        let reboot = script(dir.join("reboot"), &format!("touch {}", dir.join("rebooting").display()));
        let agent = agent(&self.cluster, NODE, &self.root, &services, &reboot, &self.boot);
        self.cluster.spawn(agent.launch(AGENT).unwrap()).unwrap();
    }

    fn gate(&self) -> PathBuf {
        self.cluster.dir().join("gate")
    }

    async fn annotations(&self) -> BTreeMap<String, String> {
        let node = self.nodes.get(NODE).await.unwrap();
        let all = node.metadata.annotations.unwrap_or_default();
        all.into_iter().filter_map(|(key, value)| Some((key.strip_prefix(GROUP)?[1..].to_owned(), value))).collect()
    }

    async fn patch(&self, patch: Value) {
        self.nodes.patch(NODE, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    async fn annotate(&self, key: &str, value: &str) {
        let key = format!("{GROUP}/{key}");
        self.patch(json!({"metadata": {"annotations": {key: value}}})).await;
    }

    /// Waits until an annotation has a value.
    async fn until(&self, key: &str, value: &str) {
        let is = |node: &Node| annotation(node, key) == value;
        let wait = self.cluster.until(format!("{key} to be {value}"), &[AGENT]);
        wait.existing(self.nodes.clone(), NODE, is).await.unwrap();
    }

    async fn add(&self, name: &str, path: &str, content: &str) {
        let kind = GroupVersionKind::gvk(GROUP, "v1", "MachineConfig");
        let resource = ApiResource::from_gvk_with_plural(&kind, "machineconfigs");
        let configs: Api<DynamicObject> = Api::all_with(self.cluster.client().await.unwrap(), &resource);
        let file = json!({"path": path, "mode": 0o640, "contents": {"source": format!("data:,{content}")}});
        let config = json!({"ignition": {"version": "3.5.0"}, "storage": {"files": [file]}});
        let object = DynamicObject::new(name, &resource).data(json!({"spec": {"config": config}}));
        // The definition was created a moment ago.
        let created = async || configs.create(&PostParams::default(), &object).await;
        self.cluster.until("the MachineConfig to be created", &[]).answer(created).await.unwrap();
    }

    /// As the controller does when the node is drained, or schedulable again.
    async fn answer(&self, request: &str) {
        self.until("desiredDrain", request).await;
        let id = self.annotations().await["desiredDrainId"].clone();
        let key = |key: &str| format!("{GROUP}/{key}");
        self.patch(json!({
            "metadata": {"annotations": {key("lastAppliedDrain"): request, key("lastAppliedDrainId"): id}},
            "spec": {"unschedulable": request.starts_with("drain-")},
        }))
        .await;
    }

    /// Switches the node off and on again once the agent asks for it.
    async fn restart_node(&self, boot: &str) {
        let asked = self.cluster.dir().join("rebooting");
        let wait = self.cluster.until("the agent to restart the node", &[AGENT]);
        wait.holds(async || asked.exists()).await.unwrap();
        assert_eq!(self.annotations().await["post-config-action"], "Rebooting");
        self.cluster.kill(AGENT).unwrap();
        fs::remove_file(asked).unwrap();
        fs::write(&self.boot, boot).unwrap();
        self.start_agent();
    }

    /// Writes of the agent so far.
    fn writes(&self) -> usize {
        let log = fs::read_to_string(self.cluster.audit_log()).unwrap();
        let is_write = |event: &Value| {
            let uri = event["requestURI"].as_str().unwrap_or_default();
            event["stage"] == "ResponseComplete"
                && event["verb"] == "patch"
                && uri.starts_with(&format!("/api/v1/nodes/{NODE}?"))
                && uri.contains("fieldManager=")
        };
        log.lines().filter_map(|line| serde_json::from_str(line).ok()).filter(is_write).count()
    }

    fn read(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.root.join(path.trim_start_matches('/'))).ok()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn node_agent_takes_its_node_through_a_restart_and_tells_of_drift() {
    let lab = Lab::start().await;
    lab.until("state", "Done").await;
    assert_eq!(lab.annotations().await["currentConfig"], "unconfigured");

    lab.add("rendered-a", "/etc/app.conf", "one").await;
    let before = lab.writes();
    lab.annotate("desiredConfig", "rendered-a").await;
    lab.answer("drain-rendered-a").await;
    lab.restart_node("boot-2").await;
    assert_eq!(lab.read("/etc/app.conf").as_deref(), Some("one"), "written before the restart");
    lab.answer("uncordon-rendered-a").await;
    lab.until("currentConfig", "rendered-a").await;
    lab.until("state", "Done").await;
    let annotations = lab.annotations().await;
    assert_eq!((annotations["reason"].as_str(), annotations["post-config-action"].as_str()), ("", ""));
    let writes = lab.writes() - before;
    println!("{writes} writes for an update with a restart");
    assert!(writes <= 6, "{writes} writes");

    lab.add("rendered-b", "/etc/containers/policy.json", "{}").await;
    let before = lab.writes();
    lab.annotate("desiredConfig", "rendered-b").await;
    // The other file is not in it any more, which nothing allows without a restart.
    lab.answer("drain-rendered-b").await;
    lab.restart_node("boot-3").await;
    lab.answer("uncordon-rendered-b").await;
    lab.until("currentConfig", "rendered-b").await;
    assert_eq!([lab.read("/etc/app.conf"), lab.read("/etc/containers/policy.json")], [None, Some("{}".into())]);
    assert!(lab.writes() - before <= 6);

    lab.add("rendered-c", "/etc/containers/policy.json", "[]").await;
    lab.annotate("desiredConfig", "rendered-c").await;
    lab.until("currentConfig", "rendered-c").await;
    let calls = fs::read_to_string(lab.cluster.dir().join("services.log")).unwrap();
    assert_eq!(calls, "reload crio.service\n", "neither drain nor restart");

    told_to_stop_in_the_middle(&lab).await;
    lab.annotate("desiredConfig", "rendered-missing").await;
    lab.until("reason", "the MachineConfig rendered-missing does not exist").await;
    lab.until("state", "Degraded").await;
    lab.annotate("desiredConfig", "rendered-c").await;
    lab.until("currentConfig", "rendered-c").await;
    lab.until("state", "Done").await;

    lab.cluster.kill(AGENT).unwrap();
    fs::write(lab.root.join("etc/containers/policy.json"), "drifted").unwrap();
    lab.start_agent();
    let deviation =
        "the node is not as rendered-c: the content of /etc/containers/policy.json differs from the configuration";
    lab.until("reason", deviation).await;
    fs::write(lab.root.join("etc/containers/policy.json"), "[]").unwrap();
    lab.until("state", "Done").await;
    assert!(lab.cluster.terminate(AGENT, Duration::from_secs(10)).await.unwrap(), "ends when told to");
    installed_with_a_configuration(&lab).await;
    lab.cluster.down().await.unwrap();
}

/// The agent is told to stop while a service is being reloaded: it ends that, and the next one goes on from there.
async fn told_to_stop_in_the_middle(lab: &Lab) {
    rustix::fs::mkfifoat(rustix::fs::CWD, lab.gate(), rustix::fs::Mode::RWXU).unwrap();
    lab.add("rendered-d", "/etc/containers/policy.json", "4").await;
    lab.annotate("desiredConfig", "rendered-d").await;
    let reloads = || fs::read_to_string(lab.cluster.dir().join("services.log")).unwrap().lines().count();
    lab.cluster.until("the second reload to begin", &[AGENT]).holds(async || reloads() == 2).await.unwrap();
    assert!(!lab.cluster.terminate(AGENT, Duration::from_secs(1)).await.unwrap(), "it ends what it has begun");
    let (gate, open) = (lab.gate(), lab.gate().with_extension("opened"));
    // Whoever waits at it keeps it open.
    fs::rename(&gate, &open).unwrap();
    fs::write(&open, "go on\n").unwrap();
    lab.cluster.until("the agent to end", &[]).holds(async || !lab.cluster.runs(AGENT)).await.unwrap();
    assert_eq!(lab.annotations().await["currentConfig"], "rendered-c", "a step, and not the update, was ended");
    let journal = lab.read("/etc/machine-config-daemon/journal.json").unwrap();
    assert!(journal.contains("\"Applied\""), "{journal}");
    lab.start_agent();
    lab.until("currentConfig", "rendered-d").await;
    lab.until("state", "Done").await;
    assert_eq!(lab.read("/etc/containers/policy.json").as_deref(), Some("4"));
}

/// What whoever installed a node says of it is taken over once, and nothing is changed for it.
async fn installed_with_a_configuration(lab: &Lab) {
    fs::remove_dir_all(&lab.root).unwrap();
    let own = lab.root.join("etc/machine-config-daemon");
    fs::create_dir_all(&own).unwrap();
    fs::create_dir_all(lab.root.join("etc/containers")).unwrap();
    fs::write(lab.root.join("etc/containers/policy.json"), "4").unwrap();
    fs::set_permissions(lab.root.join("etc/containers/policy.json"), fs::Permissions::from_mode(0o640)).unwrap();
    let annotations =
        json!({format!("{GROUP}/currentConfig"): "rendered-d", format!("{GROUP}/desiredConfig"): "rendered-d"});
    fs::write(own.join("node-annotations.json"), annotations.to_string()).unwrap();
    lab.annotate("desiredConfig", "rendered-d").await;
    lab.start_agent();
    lab.until("currentConfig", "rendered-d").await;
    lab.until("state", "Done").await;
    assert!(!own.join("node-annotations.json").exists() && own.join("node-annotation.json.bak").exists());
    assert!(lab.read("/etc/machine-config-daemon/currentconfig").unwrap().contains("rendered-d"));
    assert_eq!(lab.read("/etc/containers/policy.json").as_deref(), Some("4"));
    assert!(lab.cluster.terminate(AGENT, Duration::from_secs(10)).await.unwrap(), "ends when told to");
}
