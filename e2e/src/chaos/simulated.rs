//! A cluster with simulated workloads and two daemons, of which one leads.

use super::plan::{Fault, Operation};
use super::{Seen, check_history, check_log, retried};
use crate::harness::files;
use crate::simulator::cluster::{LEASE_LOST, SimulatedCluster};
use crate::simulator::daemon::Node;
use crate::simulator::releases::Release;
use crate::simulator::sample::COMPONENTS;
use crate::until::until;
use anyhow::{Context, bail};
use cvo::testing::api::{NAME, NAMESPACE};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::api::DeleteParams;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_util::task::AbortOnDropHandle;

/// The lease expires after 15 s.
const TAKEN_WITHIN: Duration = Duration::from_secs(60);

struct Pair {
    cluster: SimulatedCluster,
    standby: Arc<Node>,
    following: AbortOnDropHandle<()>,
}

/// The first operation is an installation, the others are updates.
pub(super) async fn run(operations: &[Operation], seen: &mut Seen) -> anyhow::Result<()> {
    let versions: Vec<String> = (0..operations.len()).map(|number| format!("1.0.{number}")).collect();
    let versions: Vec<&str> = versions.iter().map(String::as_str).collect();
    let (mut cluster, releases) = SimulatedCluster::with_samples(&versions).await?;
    let first = releases.first().context("there is no operation")?;
    hold(&cluster);
    let begun = Timestamp::now();
    cluster.run_daemon(first).await?;
    let standby = cluster.standby("cvo-b")?;
    standby.start(first).await?;
    for name in [&cluster.node.name, &standby.name] {
        cluster.control_plane.may_end(name, LEASE_LOST);
    }
    let following = AbortOnDropHandle::new(tokio::spawn(standby.clone().follow(cluster.client.clone())));
    let pair = Pair { cluster, standby, following };
    for (number, steps) in operations.iter().enumerate() {
        let (release, asked) = match releases.get(number) {
            Some(release) if number == 0 => (release, begun),
            Some(release) => (release, pair.request(release).await?),
            None => bail!("there is no release for operation {number}"),
        };
        println!("{} {}", if number == 0 { "installing" } else { "updating to" }, release.version);
        pair.disturb(steps, asked).await?;
        let version = match pair.cluster.completed(release).await {
            Ok(version) => version,
            Err(error) => return Err(error.context(pair.state().await)),
        };
        check_history(&version, releases.get(..=number).unwrap_or_default())?;
        let log = pair.cluster.all_requests()?;
        let leadership = check_log(&log, release, (number > 0).then_some(asked), seen)?;
        println!(
            "completed after {:.0} s; the holder of the lease has changed {} times",
            since(asked),
            leadership.changes
        );
        if number + 1 == operations.len() {
            seen.writes += leadership.writes;
            seen.changes_of_the_holder += leadership.changes;
        }
    }
    // The task uses the cluster until it has ended, which it has not when it is only told to.
    pair.following.abort();
    let _ended = pair.following.await;
    drop(pair.standby);
    pair.cluster.close().await
}

/// No operator reports that it is updated.
fn hold(cluster: &SimulatedCluster) {
    COMPONENTS.iter().for_each(|(_, name)| cluster.simulation.hold(name));
}

fn since(then: Timestamp) -> f64 {
    Timestamp::now().duration_since(then).as_secs_f64()
}

impl Pair {
    async fn request(&self, release: &Release) -> anyhow::Result<Timestamp> {
        hold(&self.cluster);
        let asked = Timestamp::now();
        retried("the update to be requested", async || self.cluster.request(release).await).await?;
        Ok(asked)
    }

    /// Makes the faults happen. Meanwhile the operators report one after the other, so that the rollout does not end before
    /// the last fault.
    async fn disturb(&self, steps: &[super::plan::Step], asked: Timestamp) -> anyhow::Result<()> {
        let mut reporting = 0;
        for (number, step) in steps.iter().enumerate() {
            let due = number * (COMPONENTS.len() + 1) / steps.len().max(1);
            self.report(reporting..due);
            reporting = due;
            // The moment of a fault is random: this does not wait for anything.
            tokio::time::sleep(step.after).await;
            println!("{:>7.1} s  {}", since(asked), step.fault);
            self.inject(step.fault).await.with_context(|| step.fault.to_string())?;
        }
        self.report(reporting..COMPONENTS.len());
        Ok(())
    }

    fn report(&self, components: std::ops::Range<usize>) {
        for (_, name) in COMPONENTS.get(components).unwrap_or_default() {
            self.cluster.simulation.release(name);
        }
    }

    async fn inject(&self, fault: Fault) -> anyhow::Result<()> {
        let control_plane = &self.cluster.control_plane;
        match fault {
            Fault::KillLeader => self.leader().await?.0.crash().await.map(drop),
            Fault::KillStandby => self.leader().await?.1.crash().await.map(drop),
            Fault::FreezeLeader => self.freeze().await,
            Fault::DeleteLease => {
                let leases = self.leases();
                retried("the lease to be deleted", async || {
                    Ok(leases.delete(NAME, &DeleteParams::default()).await.map(drop)?)
                })
                .await
            }
            Fault::RestartApiServer => Ok(control_plane.respawn("kube-apiserver")?),
            Fault::RestartEtcd => Ok(control_plane.respawn("etcd")?),
            Fault::RestartKubelet => bail!("this cluster has no kubelet"),
        }
    }

    /// Freezes the leader until the other daemon leads. Its process must notice that when it goes on.
    async fn freeze(&self) -> anyhow::Result<()> {
        let (leader, other) = self.until_led().await?;
        leader
            .frozen(async {
                let begun = Instant::now();
                let taken = async || {
                    let holder = self.holder().await.unwrap_or_default();
                    if other.is(&holder).await { Ok(()) } else { Err(format!("the holder is {holder:?}")) }
                };
                until("somebody to take the lease of a leader that is frozen", TAKEN_WITHIN).answer(taken).await?;
                println!("           taken by {} after {:.1} s", other.name, begun.elapsed().as_secs_f64());
                Ok(())
            })
            .await
    }

    /// The same as `leader`, as soon as one leads.
    async fn until_led(&self) -> anyhow::Result<(&Node, &Node)> {
        // The lease may be deleted, or its holder ended: there is no single event to wait for.
        let leads = async || {
            let holder = self.holder().await.unwrap_or_default();
            let (first, second) = (&*self.cluster.node, &*self.standby);
            match (first.is(&holder).await, second.is(&holder).await) {
                (true, _) => Ok((first, second)),
                (false, true) => Ok((second, first)),
                (false, false) => Err(format!("the holder is {holder:?}")),
            }
        };
        Ok(until("one daemon to lead", TAKEN_WITHIN).answer(leads).await?)
    }

    /// The node of the daemon that leads, and the other one. While nobody leads, the first is taken for the leader.
    async fn leader(&self) -> anyhow::Result<(&Node, &Node)> {
        let holder = self.holder().await.unwrap_or_default();
        let (first, second) = (&*self.cluster.node, &*self.standby);
        Ok(if second.is(&holder).await { (second, first) } else { (first, second) })
    }

    /// What a person would look at beside the state of the cluster when an update hangs.
    async fn state(&self) -> String {
        let control_plane = &self.cluster.control_plane;
        let mut text = String::new();
        for name in ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok"] {
            if !control_plane.runs(name) {
                text.push_str(&format!("{name} has ended:\n{}\n", files::tail(&control_plane.log(name), 20)));
            }
        }
        for node in [&*self.cluster.node, &*self.standby] {
            text.push_str(&format!("{}: {:?}\n", node.name, *node.state.lock().await));
        }
        let looks = [
            ["get", "lease", "-n", NAMESPACE, "-o", "yaml"],
            ["get", "pods,deployments", "-A", "-o", "wide", "--ignore-not-found"],
        ];
        for look in looks {
            text.push_str(&control_plane.kubectl(look).await.unwrap_or_else(|error| error.to_string()));
        }
        let log = files::tail(&control_plane.log(&self.standby.name), 60);
        format!("{text}log of {}:\n{log}", self.standby.name)
    }

    async fn holder(&self) -> Option<String> {
        let lease = self.leases().get(NAME).await.ok()?;
        lease.spec?.holder_identity
    }

    fn leases(&self) -> Api<Lease> {
        Api::namespaced(self.cluster.client.clone(), NAMESPACE)
    }
}
