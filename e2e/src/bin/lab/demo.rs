//! `lab demo`: a new cluster is updated from release to release while you watch (`hack/demo` calls it).

use std::{
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use clap::Args;
use futures::StreamExt;

use super::interrupt::interrupted;
use cvo::testing::api::machine_config::MachineConfigPool;
use cvo::testing::api::olm::GLOBAL_CATALOG_NAMESPACE;
use e2e::{
    conditions::Conditions,
    harness::{Cluster, Options, Programs, Running},
    platform::{
        Platform, Release,
        follow::{self, Change},
        library, nodes, operators,
    },
};

/// An update of the sample platform takes about 15 s; a machine with two busy cores may need much longer.
const LIMIT: Duration = Duration::from_secs(600);

/// What happens to the cluster.
#[derive(Debug, Args)]
pub(crate) struct Demo {
    /// Keep the cluster running to look around in it, also when something fails.
    #[arg(long)]
    keep: bool,
    /// Name of the cluster; derived from its slot when absent.
    #[arg(long)]
    name: Option<String>,
}

/// Runs the demo; an interrupt removes the cluster as well.
pub(crate) async fn run(demo: Demo) -> anyhow::Result<()> {
    tokio::select! {
        ended = start(&demo) => ended,
        signal = interrupted() => {
            signal?;
            bail!("interrupted; the cluster is removed")
        }
    }
}

async fn start(demo: &Demo) -> anyhow::Result<()> {
    let programs = Programs::find()?;
    let begun = Instant::now();
    step("Starting a cluster: etcd, API server, controllers, one real node, a registry (ten seconds to half a minute)");
    let options = Options { name: demo.name.clone(), node: true, registry: true, ..Default::default() };
    let cluster = Cluster::up(options).await?;
    println!("  cluster {} is up after {:.1} s", cluster.id(), begun.elapsed().as_secs_f32());
    let platform = Platform::prepare(cluster, programs).await?;
    let outcome = updates(&platform).await;
    if outcome.is_ok() {
        println!("\nEverything together took {:.0} s.", begun.elapsed().as_secs_f32());
    }
    if demo.keep {
        look_around(&platform.cluster, platform.cvo_program());
        platform.cluster.detach()?;
    } else {
        step("Removing the cluster (--keep would keep it)");
        platform.cluster.down().await?;
    }
    outcome
}

async fn updates(platform: &Platform) -> anyhow::Result<()> {
    step(
        "Building three releases of a platform of four components, a configuration of nodes and a catalog of operators; \
         1.0.1, 1.1.0 are signed",
    );
    let releases = nodes::samples(platform).await?;
    for release in &releases {
        println!("  {}  {}", release.version, release.image);
    }
    let [first, patch, minor] = releases;

    step(
        "Installing 1.0.0: kubectl installs the daemon, the daemon everything else. What follows is `cvo status --watch`",
    );
    platform.install(&first).await?;
    let mut follower = Follower::start(platform)?;
    follower.watch(platform, &first).await?;
    operators(platform, &first).await?;
    subscribe(platform).await?;

    plan(platform, &patch).await?;
    request(platform, &patch).await?;
    follower.watch(platform, &patch).await?;
    operators(platform, &patch).await?;

    plan(platform, &minor).await?;
    request(platform, &minor).await?;
    held(platform, &mut follower, &minor).await?;
    follower.watch(platform, &minor).await?;
    operators(platform, &minor).await?;
    followed(platform).await?;

    let what = "the nodes to have the configuration of the last release";
    let updated = |pool: &MachineConfigPool| pool.has("Updated=True");
    nodes::until(&platform.cluster, what, LIMIT, updated).await?;
    step("kubectl get clusterversion,clusteroperators");
    print!("{}", platform.cluster.kubectl(["get", "clusterversion,clusteroperators"]).await?);
    step(
        "kubectl get machineconfigpools: the configuration of nodes that came with the releases. On the node it is this:",
    );
    print!("{}", platform.cluster.kubectl(["get", "machineconfigpools"]).await?);
    for path in ["etc/sample/platform", "var/log/commands"] {
        println!("  /{path}: {}", nodes::read(&platform.cluster, path)?.trim_end().replace('\n', "; "));
    }
    step("cvo history --all: where the time went");
    print!("{}", platform.cluster.cvo(["history", "--all"]).output().await?);
    Ok(())
}

/// Shows what the default catalog of the release offers.
async fn operators(platform: &Platform, release: &Release) -> anyhow::Result<()> {
    operators::until_offered(&platform.cluster, release, LIMIT).await?;
    step(&format!("kubectl get catalogsources,packagemanifests: the operators that {} offers", release.version));
    let namespace = GLOBAL_CATALOG_NAMESPACE;
    let columns =
        "-o=custom-columns=CATALOG:.metadata.name,IMAGE:.spec.image,STATE:.status.connectionState.lastObservedState";
    print!("{}", platform.cluster.kubectl(["get", "catalogsources", "-n", namespace, columns]).await?);
    let columns = "-o=custom-columns=PACKAGE:.metadata.name,CHANNEL:.status.channels[*].name,OFFERS:.status.channels[*].currentCSV";
    print!("{}", platform.cluster.kubectl(["get", "packagemanifests", "-n", namespace, columns]).await?);
    Ok(())
}

/// Says what an update will do.
async fn plan(platform: &Platform, update: &Release) -> anyhow::Result<()> {
    let what = format!("{} to be offered by the update service", update.version);
    platform.until(&what, LIMIT, |it| follow::offered(it, update)).await?;
    let arguments = ["plan", "--from", "cluster", "--to", &update.image];
    step(&format!("cvo {}: what the update will do, also to catalogs and operators", arguments.join(" ")));
    print!("{}", platform.cluster.cvo(arguments).run().await?.stdout);
    Ok(())
}

async fn request(platform: &Platform, update: &Release) -> anyhow::Result<()> {
    let version = &update.version;
    step(&format!(
        "Updating to {version}:\n   kubectl patch clusterversion version --type=merge -p \
         '{{\"spec\":{{\"desiredUpdate\":{{\"version\":\"{version}\"}}}}}}'"
    ));
    platform.ask_version(version).await
}

/// Runs a command for its output.
async fn show(platform: &Platform, arguments: &[String], why: &str) -> anyhow::Result<()> {
    step(&format!("cvo {}{why}", arguments.join(" ")));
    print!("{}", platform.cluster.cvo(arguments).run().await?.stdout);
    Ok(())
}

/// Installs an operator of the default catalog.
async fn subscribe(platform: &Platform) -> anyhow::Result<()> {
    library::prepare(&platform.cluster).await?;
    show(platform, &library::subscribe(), ": an operator of that catalog, each plan of which somebody approves")
        .await?;
    approve(platform, "library.v1.0.0", "").await?;
    list(platform).await
}

/// Approves the plan that installs a version, and waits until that runs.
async fn approve(platform: &Platform, version: &str, why: &str) -> anyhow::Result<()> {
    let arguments = library::approve(&platform.cluster, version, LIMIT).await?;
    show(platform, &arguments, why).await?;
    library::until_runs(&platform.cluster, version, LIMIT).await.map(drop)
}

/// The update waits for an operator that does not support it, until that is updated.
async fn held(platform: &Platform, follower: &mut Follower, update: &Release) -> anyhow::Result<()> {
    let is_refused = |line: &str| line.contains("ReleaseAccepted") && line.contains("library.v1.0.0");
    let wait = platform.wait(format!("{} to be refused", update.version), LIMIT);
    wait.end_of(follower.show(platform, is_refused)).await??;
    let why = format!(": it supports {}, which goes on as soon as this version runs", update.version);
    approve(platform, "library.v1.1.0", &why).await
}

/// The release has moved the catalog, and the operator follows it.
async fn followed(platform: &Platform) -> anyhow::Result<()> {
    approve(platform, "library.v2.0.0", ": the catalog of 1.1.0 has a newer version, which needs another operator")
        .await?;
    step("The operator has followed its cluster from 1.0.0 to 1.1.0, one version at a time");
    let columns = "-o=custom-columns=PLAN:.metadata.name,GENERATION:.spec.generation,PHASE:.status.phase,INSTALLS:.spec.clusterServiceVersionNames[*]";
    let plans = ["get", "installplans", "-n", library::NAMESPACE, "--sort-by=.spec.generation", columns];
    print!("{}", platform.cluster.kubectl(plans).await?);
    list(platform).await
}

async fn list(platform: &Platform) -> anyhow::Result<()> {
    show(platform, &["olm", "list", "-n", library::NAMESPACE].map(str::to_owned), "").await
}

/// The output of `cvo status --watch`, and the daemon's pods.
struct Follower {
    status: Running,
    /// The newest pod of the daemon.
    daemon: String,
}

impl Follower {
    fn start(platform: &Platform) -> anyhow::Result<Self> {
        // Without a terminal it writes one line for each event.
        let status = platform.cluster.cvo(["status", "--watch"]).start()?;
        Ok(Self { status, daemon: String::new() })
    }

    /// Shows what happens until the release is completed.
    async fn watch(&mut self, platform: &Platform, release: &Release) -> anyhow::Result<()> {
        let last = format!("  {} completed after ", release.version);
        let wait = platform.wait(format!("{} to be completed", release.version), LIMIT);
        wait.end_of(self.show(platform, |line| line.contains(&last))).await??;
        platform.until_completed(release, LIMIT).await.map(|_| ())
    }

    /// Shows what happens until there is such a line.
    async fn show(&mut self, platform: &Platform, is_last: impl Fn(&str) -> bool) -> anyhow::Result<()> {
        let mut changes = follow::changes(platform.cluster.client().await?);
        loop {
            tokio::select! {
                line = self.status.lines.next_line() => {
                    let line = line?.context("`cvo status --watch` ended")?;
                    println!("  {}", shortened(&line));
                    if is_last(&line) {
                        return Ok(());
                    }
                }
                Some(change) = changes.next() => {
                    if let Change::Pod { name, image } = change && name != self.daemon {
                        println!("             the daemon: pod {name} runs, image {}", shortened(&image));
                        self.daemon = name;
                    }
                }
            }
        }
    }
}

fn step(text: &str) {
    println!("\n== {text}");
}

/// Shortens digests to eight characters, which are enough to tell them apart.
fn shortened(text: &str) -> String {
    let mut parts = text.split("sha256:");
    let mut short = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let digits = part.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(part.len());
        let (hex, rest) = part.split_at(digits);
        short.push_str(&format!("sha256:{}{rest}", hex.get(..8).unwrap_or(hex)));
    }
    short
}

fn look_around(cluster: &Cluster, cvo: &Path) {
    let id = cluster.id();
    step("The cluster keeps running. To look around:");
    println!(
        "  eval \"$(hack/cluster env {id})\"\n  \
         {} status\n  \
         {} page                                             # in a browser\n  \
         kubectl get clusterversion version -o yaml\n  \
         kubectl get pods -A\n  \
         kubectl logs -n openshift-cluster-version deployment/cluster-version-operator\n  \
         kubectl delete configmap network-settings -n network    # the daemon restores it\n\
         To remove it:\n  hack/cluster down {id}",
        cvo.display(),
        cvo.display()
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_digests_are_shortened() {
        let digest = "0123456789abcdef".repeat(4);
        let text = format!("image r/x@sha256:{digest}: no; sha256:{digest}");
        assert_eq!(shortened(&text), "image r/x@sha256:01234567: no; sha256:01234567");
        assert_eq!(shortened("plain ü"), "plain ü");
    }
}
