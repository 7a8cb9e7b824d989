//! The sample operator `library` on a test cluster: from the default catalog of the release, by plans that somebody approves.

use std::time::Duration;

use cvo::testing::api::olm::GLOBAL_CATALOG_NAMESPACE;
use cvo::testing::api::olm::cluster_service_version::{ClusterServiceVersion, Phase};
use cvo::testing::api::olm::install_plan::{InstallPlan, InstallPlanPhase};
use kube::runtime::watcher::Config;
use kube::{Api, ResourceExt};
use serde_json::json;

use super::operators::{CATALOG, apply};
use crate::harness::Cluster;
use crate::until::changes;

/// Where it is installed.
pub const NAMESPACE: &str = "reading";

/// Creates the namespace, with an OperatorGroup for it alone.
pub async fn prepare(cluster: &Cluster) -> anyhow::Result<()> {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    let group = json!({"apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup",
        "metadata": {"name": NAMESPACE, "namespace": NAMESPACE}, "spec": {"targetNamespaces": [NAMESPACE]}});
    apply(cluster, NAMESPACE, &[namespace, group]).await
}

/// The arguments of `cvo` that ask for it.
pub fn subscribe() -> Vec<String> {
    let package = format!("{CATALOG}/library:stable");
    let catalog = ["--catalog-namespace", GLOBAL_CATALOG_NAMESPACE];
    let words = ["olm", "subscribe", &package, "-n", NAMESPACE, "--manual"].into_iter().chain(catalog);
    words.map(str::to_owned).collect()
}

/// The arguments of `cvo` that approve the plan of a version, once it waits for that.
pub async fn approve(cluster: &Cluster, version: &str, limit: Duration) -> anyhow::Result<Vec<String>> {
    let plans: Api<InstallPlan> = Api::namespaced(cluster.client().await?, NAMESPACE);
    let waits = |plan: &InstallPlan| {
        let installs = plan.spec.cluster_service_version_names.iter().any(|name| name == version);
        let asks = plan.status.as_ref().is_some_and(|status| status.phase == InstallPlanPhase::RequiresApproval);
        (installs && asks).then(|| plan.name_any())
    };
    let wait = cluster.until(format!("a plan of {version} to wait for an approval"), &[]).within(limit);
    let plan = wait.event(changes(plans, Config::default()), waits).await?;
    Ok(["olm", "approve", &plan, "-n", NAMESPACE].map(str::to_owned).to_vec())
}

/// Waits until a version runs.
pub async fn until_runs(cluster: &Cluster, version: &str, limit: Duration) -> anyhow::Result<ClusterServiceVersion> {
    let versions: Api<ClusterServiceVersion> = Api::namespaced(cluster.client().await?, NAMESPACE);
    let runs = |it: &ClusterServiceVersion| it.status.as_ref().is_some_and(|status| status.phase == Phase::Succeeded);
    let wait = cluster.until(format!("{version} to run"), &[]).within(limit);
    Ok(wait.existing(versions, version, runs).await?)
}
