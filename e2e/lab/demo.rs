//! `lab demo`: a fresh cluster is carried from release to release while one watches (`hack/demo` calls it).

#[path = "demo/screen.rs"]
mod screen;

use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Args;
use futures::StreamExt;
use kube::Api;

use crate::{
    harness::{Cluster, Options},
    platform::{Platform, Programs, Release, follow},
};
use cvo::api::{self, ClusterVersion};
use screen::Screen;

/// An update of the sample platform takes half a minute; a machine with two busy cores may need several times that.
const LIMIT: Duration = Duration::from_secs(600);

/// How the demonstration ends.
#[derive(Debug, Args)]
pub struct Demo {
    /// Leave the cluster running, to look around in it.
    #[arg(long)]
    keep: bool,
    /// Name of the cluster; chosen when absent.
    #[arg(long)]
    name: Option<String>,
}

/// Runs it; an interrupt ends the cluster as well.
pub async fn run(demo: Demo) -> anyhow::Result<()> {
    let programs = Programs::beside_this_one()?;
    let mut screen = Screen::new();
    tokio::select! {
        ended = play(&demo, programs, &mut screen) => ended,
        interrupted = tokio::signal::ctrl_c() => {
            interrupted?;
            anyhow::bail!("interrupted; the cluster is ended")
        }
    }
}

async fn play(demo: &Demo, programs: Programs, screen: &mut Screen) -> anyhow::Result<()> {
    screen.step("Starting a cluster: etcd, API server, controllers, one real node, a registry (half a minute)");
    let options = Options { name: demo.name.clone(), node: true, registry: true, ..Default::default() };
    let cluster = Cluster::up(options).await?;
    screen.say(&format!("cluster {} is up; its files are in {}", cluster.id(), cluster.dir().display()));

    screen.step("Building and signing the releases 1.0.0, 1.0.1 and 1.1.0 of a platform of four components");
    let platform = Platform::prepare(cluster, programs).await?;
    let releases = platform.samples().await?;
    for release in &releases {
        screen.say(&format!("{}  {}", release.version, release.image));
    }
    let [first, updates @ ..] = releases;

    screen.step("Installing 1.0.0: the daemon is installed, and installs everything else");
    println!("   (what is not available yet counts as failing, and is waited for)");
    platform.install(&first).await?;
    watch(&platform, screen, &first).await?;
    for update in updates {
        let what = format!("{} to be offered by the update service", update.version);
        platform.until(&what, LIMIT, |version| follow::offered(version, &update)).await?;
        let version = &update.version;
        screen.step(&format!(
            "Updating to {version}: kubectl patch clusterversion version --type=merge \\\n             -p '{{\"spec\":{{\"desiredUpdate\":{{\"version\":\"{version}\"}}}}}}'"
        ));
        platform.ask_version(version).await?;
        watch(&platform, screen, &update).await?;
    }
    end(demo, platform, screen).await
}

/// Shows what happens until the release is completed.
async fn watch(platform: &Platform, screen: &mut Screen, release: &Release) -> anyhow::Result<()> {
    let begun = Instant::now();
    screen.begin(release);
    let mut changes = follow::changes(platform.cluster.client().await?);
    let completed = async {
        while let Some(change) = changes.next().await {
            if screen.show(change?) {
                return Ok(());
            }
        }
        anyhow::bail!("the watch ended")
    };
    match tokio::time::timeout(LIMIT, completed).await {
        Ok(ended) => ended?,
        Err(_) => anyhow::bail!(
            "{} is not completed after {} s\n{}",
            release.version,
            LIMIT.as_secs(),
            platform.state().await
        ),
    }
    screen.say(&format!("{} completed after {:.1} s", release.version, begun.elapsed().as_secs_f32()));
    Ok(())
}

async fn end(demo: &Demo, platform: Platform, screen: &mut Screen) -> anyhow::Result<()> {
    screen.step("The end: kubectl get clusterversion,clusteroperators");
    print!("{}", platform.cluster.kubectl(["get", "clusterversion,clusteroperators"]).await?);
    let version = Api::<ClusterVersion>::all(platform.cluster.client().await?).get(api::NAME).await?;
    let status = version.status.context("the ClusterVersion has no status")?;
    screen.step("status.history, newest first");
    screen::history(&status.history);
    let cluster = platform.cluster;
    if !demo.keep {
        screen.step("Ending the cluster (--keep would leave it, to look around)");
        return Ok(cluster.down().await?);
    }
    let id = cluster.id().to_owned();
    screen.step("The cluster stays. To look around:");
    println!(
        "  eval \"$(hack/cluster env {id})\"\n  \
         kubectl get clusterversion version -o yaml\n  \
         kubectl get pods -A\n  \
         kubectl logs -n openshift-cluster-version deployment/cluster-version-operator\n  \
         kubectl delete configmap network-settings -n network    # comes back at once\n\
         To end it:\n  hack/cluster down {id}"
    );
    Ok(cluster.detach()?)
}
