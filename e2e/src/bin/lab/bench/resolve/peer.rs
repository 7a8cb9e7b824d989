//! From a Subscription to its plan, with bundles that the catalog itself holds, so that nothing is fetched; beside it, where
//! `OLM_PEER` names the folder of its programs, the controller of catalogs of Operator Lifecycle Manager with the same objects.

use crate::bench::figures::Measured;
use crate::bench::machine;
use crate::bench::world::{World, create, median};
use anyhow::Context;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cvo::testing::api::olm::NAMESPACE;
use cvo::testing::api::olm::catalog_source::{CatalogSource, Connection};
use cvo::testing::api::olm::install_plan::{InstallPlan, InstallPlanPhase};
use e2e::harness::{Cluster, Cvo, Launch, Options, files};
use e2e::olm::{self, PROCESS};
use e2e::operators::{Version, catalog};
use kube::runtime::watcher::Config;
use kube::{Api, Client};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

pub(super) const TIMES_PEER: &str = "Subscription to plan, inline / peer";

const VARIABLE: &str = "OLM_PEER";
const LIMIT: Duration = Duration::from_secs(300);
/// What serves the catalog, for both.
const SERVER: &str = "catalog-server";
const PEER: &str = "peer";
/// Each has its own namespace; the median counts.
const PACKAGES: [&str; 5] = ["inline-a.v1", "inline-b.v1", "inline-c.v1", "inline-d.v1", "inline-e.v1"];

/// Where plans are made.
struct Side<'a> {
    cluster: &'a Cluster,
    client: Client,
    /// What makes plans there.
    process: &'a str,
}

pub(super) async fn measure(world: &World, measured: &mut Measured) -> anyhow::Result<()> {
    let ours = Side { cluster: &world.cluster, client: world.client.clone(), process: PROCESS };
    let seconds = ours.measure().await?;
    measured.add("Subscription to plan, inline, seconds", seconds);
    let Some(programs) = std::env::var_os(VARIABLE).map(PathBuf::from) else {
        println!("skipped: no peer ({VARIABLE} names none)");
        measured.skip([TIMES_PEER]);
        return Ok(());
    };
    let cluster = Cluster::up(Options::default()).await?;
    let peer = of_peer(&cluster, &programs.join("catalog")).await;
    if peer.is_err() {
        eprintln!("The end of the peer's log:\n{}", files::tail(&cluster.log(PEER), 20));
    }
    let ended = cluster.down().await;
    let peer = peer?;
    ended?;
    measured.add("Subscription to plan, inline, seconds of the peer", peer);
    measured.add(TIMES_PEER, seconds / peer);
    Ok(())
}

async fn of_peer(cluster: &Cluster, program: &Path) -> anyhow::Result<f64> {
    olm::prepare(cluster).await?;
    let user = cluster.kubeconfig_as(PEER, PEER, &["system:masters"])?;
    let arguments = [format!("--kubeconfig={}", user.display()), format!("--namespace={NAMESPACE}")];
    cluster.spawn(Launch::new(PEER, program, arguments))?;
    Side { cluster, client: cluster.client().await?, process: PEER }.measure().await
}

impl Side<'_> {
    /// Seconds from a Subscription that waits for an approval to its plan, with steps.
    async fn measure(&self) -> anyhow::Result<f64> {
        let versions = PACKAGES.map(|name| Version { kind: "Inline", ..Version::new(name) });
        let folder = self.cluster.dir().join("inline");
        fs::create_dir_all(&folder)?;
        fs::write(folder.join("catalog.json"), inline(&versions)?)?;
        let address = format!("127.0.0.1:{}", self.cluster.port("inline catalog"));
        let server = Cvo::new(["catalog", "serve"]).args([&folder]).flag("--listen", &address);
        self.cluster.spawn(server.launch(SERVER)?)?;
        let mut seconds = Vec::new();
        for version in &versions {
            let name = version.package();
            self.cluster.kubectl(["create", "namespace", name]).await?;
            let group = json!({"apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup",
                "metadata": {"name": "one"}, "spec": {"targetNamespaces": [name]}});
            create(&self.client, name, group).await?;
            olm::create(&self.client, name, "main", json!({"sourceType": "grpc", "address": address})).await?;
            self.ready(name).await?;
            machine::quiet().await;
            seconds.push(self.plan(name).await?);
        }
        Ok(median(seconds))
    }

    async fn ready(&self, namespace: &str) -> anyhow::Result<()> {
        let sources: Api<CatalogSource> = Api::namespaced(self.client.clone(), namespace);
        let is_ready = |source: &CatalogSource| {
            let connection = source.status.as_ref().and_then(|status| status.connection_state.as_ref());
            connection.is_some_and(|connection| connection.last_observed_state == Connection::Ready)
        };
        let processes = [self.process, SERVER];
        let wait = self.cluster.until("the catalog to be READY", &processes).within(LIMIT);
        wait.existing(sources, "main", is_ready).await?;
        Ok(())
    }

    async fn plan(&self, name: &str) -> anyhow::Result<f64> {
        let plans: Api<InstallPlan> = Api::namespaced(self.client.clone(), name);
        let changes = e2e::until::changes(plans, Config::default());
        let waits = |plan: &InstallPlan| {
            let status = plan.status.as_ref().filter(|status| status.phase == InstallPlanPhase::RequiresApproval)?;
            Some(status.plan.len())
        };
        let processes = [self.process];
        let wait = self.cluster.until("the plan to wait for an approval", &processes).within(LIMIT);
        let subscription = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription",
            "metadata": {"name": name}, "spec": {"name": name, "channel": "stable", "source": "main",
                "sourceNamespace": name, "installPlanApproval": "Manual"}});
        let begun = Instant::now();
        let created = create(&self.client, name, subscription);
        let (created, steps) = tokio::join!(created, wait.event(changes, waits));
        created?;
        let seconds = begun.elapsed().as_secs_f64();
        // The version, its kind, and its account with a role and a binding.
        anyhow::ensure!(steps? == 5, "a plan with other steps in {name}");
        Ok(seconds)
    }
}

/// A catalog whose bundles are in it.
fn inline(versions: &[Version]) -> anyhow::Result<String> {
    let mut blobs = Vec::new();
    for version in versions {
        let one = catalog(&[(version.clone(), String::new())]);
        for line in one.lines() {
            let mut blob: Value = serde_json::from_str(line)?;
            if let Some(properties) = blob.pointer_mut("/properties") {
                let properties = properties.as_array_mut().context("properties that are no list")?;
                for object in [version.csv(), version.definition()] {
                    let data = STANDARD.encode(object.to_string());
                    properties.push(json!({"type": "olm.bundle.object", "value": {"data": data}}));
                }
            }
            blobs.push(blob.to_string());
        }
    }
    Ok(blobs.join("\n"))
}
