//! A cluster with a real node, where the daemon and the operators of the sample platform are pods.

use super::plan::{Fault, Operation};
use super::{Seen, check_history, check_log};
use crate::harness::{Identity, audit};
use crate::platform::{self, Platform};
use crate::simulator::releases::Release;
use anyhow::{Context, bail, ensure};
use jiff::Timestamp;
use std::time::Duration;

/// For one installation or update, which usually takes ten seconds when nothing disturbs it.
const LIMIT: Duration = Duration::from_secs(300);
/// How long the daemon may not run: kubelet waits before it starts a container again, and the update replaces its pod.
const ABSENCE: Duration = Duration::from_secs(60);

/// The first operation is an installation, the others are updates.
pub(super) async fn run(operations: &[Operation], seen: &mut Seen) -> anyhow::Result<()> {
    let Some(platform) = Platform::on_a_node().await? else { return Ok(()) };
    let samples = platform.samples().await?;
    let mut releases = Vec::new();
    for sample in &samples {
        releases.push(extracted(&platform, sample).await?);
    }
    for (number, steps) in operations.iter().enumerate() {
        let sample = samples.get(number).context("there are fewer sample releases than operations")?;
        let asked = Timestamp::now();
        println!("{} {} on a node", if number == 0 { "installing" } else { "updating to" }, sample.version);
        if number == 0 {
            platform.install(sample).await?;
        } else {
            platform.ask_image(&sample.image, &sample.version).await?;
        }
        for step in steps {
            // The moment of a fault is random: this does not wait for anything.
            tokio::time::sleep(step.after).await;
            println!("{:>7.1} s  {}", Timestamp::now().duration_since(asked).as_secs_f64(), step.fault);
            inject(&platform, step.fault).await.with_context(|| step.fault.to_string())?;
        }
        let version = platform.until_completed(sample, LIMIT).await?;
        println!("completed after {:.0} s", Timestamp::now().duration_since(asked).as_secs_f64());
        check_history(&version, releases.get(..=number).unwrap_or_default())?;
        let newest = version.status.as_ref().and_then(|status| status.history.first());
        ensure!(number == 0 || newest.is_some_and(|entry| entry.verified), "not verified: {newest:?}");
        let log = audit::everything(&platform.cluster.audit_log())?;
        let release = releases.get(number).context("there is no such release")?;
        let leadership = check_log(&log, release, (number > 0).then_some(asked), seen)?;
        if number + 1 == operations.len() {
            seen.writes += leadership.writes;
            seen.changes_of_the_holder += leadership.changes;
        }
    }
    Ok(platform.cluster.down().await?)
}

/// The manifests of a release in the registry.
async fn extracted(platform: &Platform, sample: &platform::Release) -> anyhow::Result<Release> {
    let folder = platform.cluster.dir().join(format!("release-{}", sample.version));
    platform.cvo(["release", "extract", &sample.image, "--to", &folder.display().to_string()]).await?;
    Ok(Release { version: sample.version.clone(), image: sample.image.clone(), folder })
}

async fn inject(platform: &Platform, fault: Fault) -> anyhow::Result<()> {
    match fault {
        Fault::KillLeader => kill(platform).await,
        Fault::RestartKubelet => Ok(platform.cluster.respawn("kubelet")?),
        other => bail!("{other} is not planned on a node"),
    }
}

/// Kills the process of the daemon as soon as there is one.
async fn kill(platform: &Platform) -> anyhow::Result<()> {
    // Nothing tells when kubelet has started it.
    let killed = async || {
        let daemons = platform.cluster.processes_in_pods(&["cvo", "start"]);
        daemons.iter().for_each(Identity::kill);
        !daemons.is_empty()
    };
    Ok(platform.wait("the daemon to run", ABSENCE).holds(killed).await?)
}
