//! Reads from the cluster what a plan is made of.

use crate::cluster::{ApiError, Clients, Kind, Objects};
use crate::machine_config::api::machine_config::{MachineConfig, MachineConfigPool};
use crate::machine_config::api::node_config::{ContainerRuntimeConfig, KubeletConfig};
use crate::machine_config::derived::Source;
use crate::machine_config::plan::{Cluster, Controller, PodToMove};
use crate::machine_config::settings::{Settings, SettingsError};
use crate::machine_config::work::pods::{DaemonSets, survey};
use crate::object::budgets::Budget;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{Api, ListParams};
use kube::{Client, Resource};
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::fmt::Debug;

/// Objects in one page of a list.
const PAGE: u32 = 500;

#[derive(Debug, thiserror::Error)]
pub(super) enum CollectError {
    #[error(transparent)]
    Api(#[from] ApiError),
    #[error("{0}")]
    Settings(#[from] SettingsError),
    #[error(
        "this cluster has no MachineConfigPools: the component machine-config, which configures nodes, is not installed, \
         or --kubeconfig names another cluster"
    )]
    NoPools,
}

/// The cluster, and what could not be read of it.
pub(super) async fn collect(clients: &Clients) -> Result<(Cluster, Vec<String>), CollectError> {
    let client = &clients.call;
    let pools: Vec<MachineConfigPool> = match all(client, "list the MachineConfigPools").await {
        Ok(pools) => pools,
        Err(error) if error.is_not_found() => return Err(CollectError::NoPools),
        Err(error) => return Err(error.into()),
    };
    let (configs, nodes, budgets, kubelets, runtimes) = tokio::join!(
        all::<MachineConfig>(client, "list the MachineConfigs"),
        all::<Node>(client, "list the nodes"),
        all::<PodDisruptionBudget>(client, "list the PodDisruptionBudgets"),
        all::<KubeletConfig>(client, "list the KubeletConfigs"),
        all::<ContainerRuntimeConfig>(client, "list the ContainerRuntimeConfigs"),
    );
    let mut remarks = Vec::new();
    // A plan never writes.
    let objects = Objects::reader(client.clone());
    let kind = Kind::known("operator.openshift.io", "v1", "MachineConfiguration", "machineconfigurations", false);
    let (settings, settings_unread) = match objects.get(&kind, "", "cluster").await {
        Ok(configuration) => (Settings::of(configuration.as_ref())?, false),
        Err(error) => {
            remarks.push(format!("What a change disrupts is told by the built-in policies: {error}"));
            (Settings::default(), true)
        }
    };
    let (pods, undecided, controller) = match pods(client, &objects).await {
        Ok(Pods { leaving, undecided, controller }) => (Some(leaving), undecided, controller),
        Err(error) => {
            remarks.push(error.to_string());
            (None, Vec::new(), Controller::default())
        }
    };
    let budgets = budgets.map(|budgets| budgets.into_iter().map(Budget::of).collect());
    let budgets = budgets.map_err(|error| remarks.push(error.to_string())).ok();
    let mut sources: Vec<Source> = or_none(kubelets, &mut remarks).iter().map(Source::of_kubelet).collect();
    sources.extend(or_none(runtimes, &mut remarks).iter().map(Source::of_runtime));
    let (configs, nodes) = (configs?, nodes?);
    let cluster =
        Cluster { pools, configs, sources, nodes, settings, settings_unread, controller, pods, undecided, budgets };
    Ok((cluster, remarks))
}

/// None, and a remark, if they cannot be read. A kind that is not served has no objects.
fn or_none<K>(read: Result<Vec<K>, ApiError>, remarks: &mut Vec<String>) -> Vec<K> {
    read.unwrap_or_else(|error| {
        remarks.extend((!error.is_not_found()).then(|| error.to_string()));
        Vec::new()
    })
}

/// All objects of a kind in all namespaces.
async fn all<K>(client: &Client, attempt: &str) -> Result<Vec<K>, ApiError>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    let mut found = Vec::new();
    each(client, attempt, |object| found.push(object)).await?;
    Ok(found)
}

/// In pages: what is not kept of one is not in memory together with the next.
async fn each<K>(client: &Client, attempt: &str, mut see: impl FnMut(K)) -> Result<(), ApiError>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    let api: Api<K> = Api::all(client.clone());
    let mut params = ListParams::default().limit(PAGE);
    loop {
        let list = api.list(&params).await.map_err(|error| ApiError::of(attempt, error))?;
        list.items.into_iter().for_each(&mut see);
        match list.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(()),
        }
    }
}

struct Pods {
    /// Those that leave when their node is drained, by node.
    leaving: BTreeMap<String, Vec<PodToMove>>,
    /// Those of which that is not known, and why.
    undecided: Vec<String>,
    /// What the controller's own pod tells.
    controller: Controller,
}

async fn pods(client: &Client, objects: &Objects) -> Result<Pods, ApiError> {
    let (mut by_node, mut controller): (BTreeMap<String, Vec<Pod>>, _) = (BTreeMap::new(), None);
    let keep = |mut pod: Pod| {
        controller = controller.take().or_else(|| Controller::of(&pod));
        let Some(node) = pod.spec.as_ref().and_then(|spec| spec.node_name.clone()) else { return };
        pod.metadata.managed_fields = None;
        by_node.entry(node).or_default().push(pod);
    };
    each(client, "list the pods", keep).await?;
    let mut known = DaemonSets::new();
    let (mut leaving, mut undecided) = (BTreeMap::new(), Vec::new());
    for (node, pods) in by_node {
        let found = survey(objects, &pods, None, &mut known).await;
        undecided.extend(found.unknown);
        let to_move = found.leaving.into_iter().filter(|pod| !pod.terminating).map(|pod| PodToMove {
            namespace: pod.namespace,
            name: pod.name,
            labels: pod.labels,
            warning: pod.warning,
        });
        leaving.insert(node, to_move.collect());
    }
    Ok(Pods { leaving, undecided, controller: controller.unwrap_or_default() })
}
