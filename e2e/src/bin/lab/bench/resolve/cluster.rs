//! What follows for Subscriptions on a cluster.

use super::floor;
use super::worlds::text;
use crate::bench::figures::Measured;
use crate::bench::machine;
use crate::bench::world::{LIMIT, World, median};
use crate::catalog::hostile;
use anyhow::ensure;
use cvo::testing::api::ConditionStatus;
use cvo::testing::api::olm::cluster_service_version::{ClusterServiceVersion, Phase};
use cvo::testing::api::olm::install_plan::{InstallPlan, InstallPlanPhase};
use cvo::testing::api::olm::subscription::Subscription;
use e2e::olm::PROCESS;
use e2e::operators::{Version, catalog};
use kube::Api;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Instant;

pub(super) const TIMES_FLOOR: &str = "Subscription to Complete / floor";
pub(super) const VERSION: &str = "to the head, seconds / version";
pub(super) const BESIDE: &str = "beside hostile ones, seconds";

/// How often a plan is measured; the median counts.
const TIMES: usize = 5;
/// Bytes of the image of a bundle, besides its manifests.
const PADDING: usize = 1_000_000;
/// Versions of a channel.
const VERSIONS: [&str; 5] = ["steps.v1", "steps.v2", "steps.v3", "steps.v4", "steps.v5"];
/// Namespaces in which it is hard to find what is to be installed.
const HOSTILE: usize = 4;

impl World {
    pub(super) async fn subscribe(&self, namespace: &str, package: &str, more: &[(&str, &str)]) -> anyhow::Result<()> {
        let all = [("name", package), ("source", "main"), ("sourceNamespace", namespace)];
        let spec: BTreeMap<&str, &str> = all.iter().chain(more).copied().collect();
        let object = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription",
            "metadata": {"name": package}, "spec": spec});
        self.create(namespace, object).await
    }

    pub(super) async fn subscription(
        &self,
        what: &str,
        (namespace, name): (&str, &str),
        ok: impl FnMut(&Subscription) -> bool,
    ) -> anyhow::Result<Subscription> {
        let api: Api<Subscription> = Api::namespaced(self.client.clone(), namespace);
        Ok(self.cluster.until(what, &[PROCESS]).within(LIMIT).existing(api, name, ok).await?)
    }

    /// From the Subscription to the plan that is complete, against a loop that does just that.
    pub(super) async fn plans(&self, measured: &mut Measured) -> anyhow::Result<()> {
        let registry = self.cluster.registry();
        let padding = padding();
        let version = |package: &'static str| Version { kind: "Widget", ..Version::new(package) };
        let [ours, bare] = [
            ["ours-a.v1", "ours-b.v1", "ours-c.v1", "ours-d.v1", "ours-e.v1"],
            ["bare-a.v1", "bare-b.v1", "bare-c.v1", "bare-d.v1", "bare-e.v1"],
        ]
        .map(|names| names.map(version));
        let mut offered = Vec::new();
        for version in ours.iter().chain(&bare) {
            offered.push((version.clone(), version.push_with(&registry, &[("tests/data", &padding)]).await?));
        }
        let text = catalog(&offered);
        let (mut with, mut without) = (Vec::new(), Vec::new());
        for (ours, bare) in ours.iter().zip(&bare) {
            let name = ours.package();
            self.namespace(name).await?;
            self.namespace(bare.package()).await?;
            self.serve(name, "main", &[("configs/catalog.json", text.as_bytes())]).await?;
            machine::quiet().await;
            without.push(floor::measure(&self.client, &registry, bare, bare.package()).await?);
            // The process looks after what the loop has created.
            machine::quiet().await;
            with.push(self.plan(name).await?);
        }
        let (with, without) = (median(with), median(without));
        measured.add("Subscription to Complete, seconds", with);
        measured.add("floor of it, seconds", without);
        measured.add(TIMES_FLOOR, with / without);
        ensure!(TIMES == ours.len(), "it is measured so often");
        Ok(())
    }

    async fn plan(&self, name: &str) -> anyhow::Result<f64> {
        let plans: Api<InstallPlan> = Api::namespaced(self.client.clone(), name);
        let changes = e2e::until::changes(plans, kube::runtime::watcher::Config::default());
        let complete = |plan: &InstallPlan| {
            let phase = plan.status.as_ref().map(|status| &status.phase);
            (phase == Some(&InstallPlanPhase::Complete)).then_some(())
        };
        let wait = self.cluster.until("the plan to be complete", &[PROCESS]).within(LIMIT);
        let begun = Instant::now();
        let (created, done) = tokio::join!(self.subscribe(name, name, &[]), wait.event(changes, complete));
        created?;
        done?;
        Ok(begun.elapsed().as_secs_f64())
    }

    /// From the Subscription to the head, by way of each version.
    pub(super) async fn versions(&self, measured: &mut Measured) -> anyhow::Result<()> {
        let (registry, namespace) = (self.cluster.registry(), "steps");
        let mut offered = Vec::new();
        let mut before = "";
        for name in VERSIONS {
            let version = Version { kind: "Step", replaces: before, ..Version::new(name) };
            offered.push((version.clone(), version.push(&registry).await?));
            before = name;
        }
        self.namespace(namespace).await?;
        self.serve(namespace, "main", &[("configs/catalog.json", catalog(&offered).as_bytes())]).await?;
        machine::quiet().await;
        let csvs: Api<ClusterServiceVersion> = Api::namespaced(self.client.clone(), namespace);
        let wait = self.cluster.until("the head to run", &[PROCESS]).within(LIMIT);
        let begun = Instant::now();
        self.subscribe(namespace, namespace, &[("startingCSV", "steps.v1")]).await?;
        let runs = |it: &ClusterServiceVersion| it.status.as_ref().is_some_and(|it| it.phase == Phase::Succeeded);
        wait.existing(csvs, before, runs).await?;
        measured.add(VERSION, begun.elapsed().as_secs_f64() / VERSIONS.len() as f64);
        let plans: Api<InstallPlan> = Api::namespaced(self.client.clone(), namespace);
        let plans = plans.list(&Default::default()).await?.items.len();
        ensure!(plans == VERSIONS.len(), "{plans} plans for {} versions", VERSIONS.len());
        Ok(())
    }

    /// How long another namespace waits for its answer while it is hard to find some.
    pub(super) async fn beside(&self, measured: &mut Measured) -> anyhow::Result<()> {
        let worlds = [hostile::pigeonhole(12), hostile::rivals(300), hostile::rules(500), hostile::pigeonhole(12)];
        for (number, blobs) in worlds.iter().enumerate().take(HOSTILE) {
            let namespace = format!("hostile-{number}");
            self.namespace(&namespace).await?;
            self.serve(&namespace, "main", &[("configs/catalog.json", text(blobs).as_bytes())]).await?;
        }
        let other = "beside";
        self.namespace(other).await?;
        self.serve(other, "main", &[("configs/catalog.json", text(&hostile::rivals(1)).as_bytes())]).await?;
        machine::quiet().await;
        for (number, blobs) in worlds.iter().enumerate() {
            let text = |blob: &Value, key: &str| blob.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
            let packages = blobs.iter().filter(|blob| text(blob, "schema") == "olm.package");
            let wanted = |name: &String| name == hostile::WANTED || name.starts_with(hostile::PIGEON);
            for package in packages.map(|blob| text(blob, "name")).filter(wanted) {
                self.subscribe(&format!("hostile-{number}"), &package, &[]).await?;
            }
        }
        let begun = Instant::now();
        self.subscribe(other, hostile::WANTED, &[]).await?;
        let failed = |it: &Subscription| has(it, "ResolutionFailed");
        self.subscription("the answer of another namespace", (other, hostile::WANTED), failed).await?;
        measured.add(BESIDE, begun.elapsed().as_secs_f64());
        for (number, package) in [(0, format!("{}-0", hostile::PIGEON)), (1, hostile::WANTED.to_owned())] {
            self.subscription("a hostile answer", (&format!("hostile-{number}"), &package), failed).await?;
        }
        measured.add("hostile ones answered, seconds", begun.elapsed().as_secs_f64());
        Ok(())
    }
}

/// Whether it says that this is so.
pub(super) fn has(subscription: &Subscription, condition: &str) -> bool {
    let all = subscription.status.iter().flat_map(|status| &status.conditions);
    all.filter(|it| it.type_ == condition).any(|it| it.status == ConditionStatus::True)
}

/// Bytes that do not become fewer when they are compressed.
fn padding() -> Vec<u8> {
    let random = e2e::random::SeededRandom::new(1, 2, 3);
    (0..PADDING / 8).flat_map(|_| random.next().to_le_bytes()).collect()
}
