//! Many simulated nodes on a real API server, and the real controller.

use std::{fmt::Debug, sync::Arc, time::Duration};

use anyhow::Context;
use cvo::testing::api::ClusterOperator;
use cvo::testing::api::machine_config::{
    MachineConfig, MachineConfigPool, MachineConfigPoolSpec, MachineConfigSpec, REQUIRED_FOR_UPGRADE, ROLE_LABEL,
};
use futures::StreamExt;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::{
    Api, Client, Resource,
    api::{Patch, PatchParams},
    runtime::watcher,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::agents::{self, Times};
use crate::conditions::Conditions;
use crate::harness::{Cluster, Cvo, Identity, Options, files};
use crate::until::{changes, until};
use crate::workspace;

/// The user that agents act as.
pub const AGENT: &str = "agents";
/// The user that the controller acts as.
pub const CONTROLLER: &str = "machine-config-controller";
const VERSION: &str = "1.0.0";

/// A cluster whose nodes kwok and simulated agents play.
pub struct Fleet {
    pub cluster: Cluster,
    pub client: Client,
    agents: Vec<JoinHandle<()>>,
}

impl Drop for Fleet {
    fn drop(&mut self) {
        self.agents.iter().for_each(JoinHandle::abort);
    }
}

impl Fleet {
    /// The definitions, and nobody who acts on them yet.
    pub async fn up(options: Options) -> anyhow::Result<Self> {
        let cluster = Cluster::up(Options { kwok: true, ..options }).await?;
        let client = cluster.client().await?;
        define(&cluster).await?;
        Ok(Fleet { cluster, client, agents: Vec::new() })
    }

    /// Adds nodes that belong to pools by the label `pool`.
    pub async fn add_nodes(&self, pools: &[(&str, usize)]) -> anyhow::Result<()> {
        let count = pools.iter().map(|(_, count)| count).sum();
        self.cluster.add_fake_nodes(0..count).await?;
        let nodes: Api<Node> = Api::all(self.client.clone());
        let mut number = 0;
        for (pool, count) in pools {
            for _ in 0..*count {
                let patch = json!({"metadata": {"labels": {"pool": pool}}});
                nodes.patch(&format!("fake-{number}"), &PatchParams::default(), &Patch::Merge(patch)).await?;
                number += 1;
            }
        }
        Ok(())
    }

    /// A pool of the nodes with this label, and of the MachineConfigs with its role.
    pub async fn add_pool(&self, name: &str, max_unavailable: IntOrString) -> anyhow::Result<()> {
        let selector = |key: &str| {
            let labels = [(key.to_owned(), name.to_owned())].into();
            Some(LabelSelector { match_labels: Some(labels), ..LabelSelector::default() })
        };
        let spec = MachineConfigPoolSpec {
            machine_config_selector: selector(ROLE_LABEL),
            node_selector: selector("pool"),
            max_unavailable: Some(max_unavailable),
            ..MachineConfigPoolSpec::default()
        };
        self.pools().create(&Default::default(), &MachineConfigPool::new(name, spec)).await?;
        Ok(())
    }

    /// A MachineConfig with one file, in place of what it was.
    pub async fn configure(&self, pool: &str, name: &str, path: &str, content: &str) -> anyhow::Result<()> {
        let source = format!("data:,{content}");
        let config = json!({
            "ignition": {"version": "3.5.0"},
            "storage": {"files": [{"path": path, "mode": 420, "contents": {"source": source}}]},
        });
        let mut object = MachineConfig::new(name, MachineConfigSpec { config, ..MachineConfigSpec::default() });
        object.metadata.labels = Some([(ROLE_LABEL.to_owned(), pool.to_owned())].into());
        let configs: Api<MachineConfig> = Api::all(self.client.clone());
        let params = PatchParams::apply("test").force();
        configs.patch(name, &params, &Patch::Apply(&object)).await?;
        Ok(())
    }

    /// A Deployment with one pod on the node, which must never be away, and the PodDisruptionBudget of the same name that says so.
    pub async fn guarded_pod(&self, name: &str, node: &str) -> anyhow::Result<()> {
        let labels = json!({"app": name});
        let metadata = json!({"name": name, "namespace": "default"});
        let deployment = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata,
            "spec": {
                "replicas": 1, "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {
                        "nodeSelector": {"kubernetes.io/hostname": node},
                        "tolerations": [{"key": "kwok.x-k8s.io/node", "operator": "Exists"}],
                        "containers": [{"name": "web", "image": "registry.invalid/web"}],
                    },
                },
            },
        });
        let budget = json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata,
            "spec": {"minAvailable": 1, "selector": {"matchLabels": labels}},
        });
        let file = self.cluster.dir().join(format!("guarded-{name}.json"));
        let list = json!({"apiVersion": "v1", "kind": "List", "items": [deployment, budget]});
        std::fs::write(&file, list.to_string())?;
        self.cluster.kubectl(["apply", "-f", &file.display().to_string()]).await?;
        let deployment = format!("deployment/{name}");
        self.cluster.kubectl(["rollout", "status", &deployment, "--timeout=60s"]).await?;
        let budget = format!("pdb/{name}");
        self.cluster.kubectl(["wait", &budget, "--for=jsonpath={.status.currentHealthy}=1", "--timeout=60s"]).await?;
        Ok(())
    }

    /// How many nodes of the pool may be unavailable.
    pub async fn limit(&self, pool: &str, max_unavailable: IntOrString) -> anyhow::Result<()> {
        let patch = json!({"spec": {"maxUnavailable": max_unavailable}});
        self.pools().patch(pool, &PatchParams::default(), &Patch::Merge(patch)).await?;
        Ok(())
    }

    /// An update of the cluster waits for the pool.
    pub async fn require(&self, pool: &str) -> anyhow::Result<()> {
        let patch = json!({"metadata": {"labels": {REQUIRED_FOR_UPGRADE: ""}}});
        self.pools().patch(pool, &PatchParams::default(), &Patch::Merge(patch)).await?;
        Ok(())
    }

    pub fn pools(&self) -> Api<MachineConfigPool> {
        Api::all(self.client.clone())
    }

    pub fn nodes(&self) -> Api<Node> {
        Api::all(self.client.clone())
    }

    pub fn operators(&self) -> Api<ClusterOperator> {
        Api::all(self.client.clone())
    }

    /// Starts the controller, in place of one of the same name.
    pub fn start_controller(&self, name: &str, more: &[&str]) -> anyhow::Result<Identity> {
        let kubeconfig = self.cluster.kubeconfig_as(CONTROLLER, CONTROLLER, &["system:masters"])?;
        let silent = if more.contains(&"--listen") { None } else { Some("--listen=") };
        let controller = Cvo::new(["machine-config", "--release-version", VERSION, "--identity", name])
            .args(["--image", "registry.invalid/operator@sha256:1", "--listen-health", ""])
            .args(["--lease-duration", "20", "--lease-renew-deadline", "10", "--lease-retry", "2"])
            .kubeconfig(kubeconfig)
            .args(silent)
            .args(more);
        Ok(self.cluster.spawn(controller.launch(name)?)?)
    }

    /// Starts the agents of all nodes that exist or will.
    pub async fn start_agents(&mut self, times: impl Fn(&str) -> Times + Send + Sync + 'static) -> anyhow::Result<()> {
        let mut config = self.cluster.config().await?;
        config.auth_info.impersonate = Some(AGENT.to_owned());
        config.auth_info.impersonate_groups = Some(vec!["system:masters".to_owned()]);
        let client = Client::try_from(config)?;
        self.agents.push(tokio::spawn(agents::play(client, times)));
        Ok(())
    }

    /// Until the object is so; at most `limit`, then the error says what it was like. It is given up when a process ends by itself.
    pub async fn until<K>(
        &self,
        what: &str,
        (api, name): (Api<K>, &str),
        limit: Duration,
        is_so: impl Fn(&K) -> bool,
    ) -> anyhow::Result<K>
    where
        K: Resource + Clone + DeserializeOwned + Serialize + Send + Debug + 'static,
    {
        let log = async { files::tail(&self.cluster.log("controller"), 30) };
        Ok(until(what, limit).unless(self.ended()).look(log).existing(api, name, is_so).await?)
    }

    /// Returns once a process has ended that nobody asked to.
    async fn ended(&self) -> String {
        loop {
            if let Err(error) = self.cluster.check_ends() {
                return error.to_string();
            }
            // It may be one that is started again by another program, which no process tells.
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }

    /// Until all nodes of the pool have what it had to render after `before`.
    pub async fn until_updated(&self, pool: &str, before: &str, limit: Duration) -> anyhow::Result<MachineConfigPool> {
        let updated = |object: &MachineConfigPool| {
            let target = &object.spec.configuration.name;
            let status = object.status.clone().unwrap_or_default();
            !target.is_empty() && target != before && status.configuration.name == *target && object.has("Updated=True")
        };
        self.until(&format!("pool {pool} to be updated"), (self.pools(), pool), limit, updated).await
    }
}

/// The definitions of both products.
pub async fn define(cluster: &Cluster) -> anyhow::Result<()> {
    let root = workspace::root().join("manifests");
    let mut names = Vec::new();
    for folder in ["cluster-version", "machine-config"] {
        for entry in std::fs::read_dir(root.join(folder))?.flatten() {
            let path = entry.path();
            let wanted = path.to_string_lossy().ends_with("crd.yaml")
                || path.to_string_lossy().ends_with("machine-config_00_namespace.yaml");
            if wanted {
                let path = path.display().to_string();
                let output = cluster.kubectl(["apply", "--server-side", "-o", "name", "-f", &path]).await;
                names.extend(output.with_context(|| path)?.lines().map(str::to_owned));
            }
        }
    }
    let mut wait = vec!["wait".to_owned(), "--for=condition=Established".to_owned(), "--timeout=60s".to_owned()];
    wait.extend(names.into_iter().filter(|name| name.starts_with("customresourcedefinition")));
    cluster.kubectl(wait).await?;
    Ok(())
}

/// Watches that no more nodes are disturbed than a pool allows: cordoned, or between two configurations.
pub struct Watchdog {
    task: JoinHandle<Arc<Seen>>,
}

/// What a watchdog has seen.
#[derive(Debug, Default)]
pub struct Seen {
    /// The most nodes that were disturbed at the same time, by pool.
    pub most: std::collections::BTreeMap<String, usize>,
}

impl Watchdog {
    /// Begins with what exists, and ends when it has seen the annotation `test/end` on any node.
    pub async fn begin(fleet: &Fleet) -> anyhow::Result<Self> {
        let mut changes = changes(fleet.nodes(), watcher::Config::default());
        let task = tokio::spawn(async move {
            let mut disturbed: std::collections::BTreeMap<String, std::collections::BTreeSet<String>> =
                Default::default();
            let mut seen = Seen::default();
            while let Some(node) = changes.next().await {
                let name = node.metadata.name.clone().unwrap_or_default();
                let labels = node.metadata.labels.clone().unwrap_or_default();
                let pool = labels.get("pool").cloned().unwrap_or_default();
                if labels.contains_key("test-end") {
                    break;
                }
                let unschedulable = node.spec.as_ref().and_then(|spec| spec.unschedulable).unwrap_or_default();
                let (current, desired) =
                    (agents::annotation(&node, "currentConfig"), agents::annotation(&node, "desiredConfig"));
                let set = disturbed.entry(pool.clone()).or_default();
                if unschedulable || current != desired {
                    set.insert(name);
                } else {
                    set.remove(&name);
                }
                let most = seen.most.entry(pool).or_default();
                *most = set.len().max(*most);
            }
            Arc::new(seen)
        });
        Ok(Watchdog { task })
    }

    /// What it has seen until now.
    pub async fn end(self, fleet: &Fleet) -> anyhow::Result<Arc<Seen>> {
        let patch: Value = json!({"metadata": {"labels": {"test-end": ""}}});
        fleet.nodes().patch("fake-0", &PatchParams::default(), &Patch::Merge(patch)).await?;
        Ok(self.task.await?)
    }
}
