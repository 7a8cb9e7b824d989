//! A cluster in which operators are installed, updated and deleted in several namespaces at a time, and two processes that look after
//! them, of which one leads. kwok plays their pods.

mod shop;

use super::plan::{Fault, Operation, Step};
use crate::faults::leadership::{self, Leadership};
use crate::harness::{Cluster, Options, audit, files};
use crate::olm::{self, GROUPS, Start, USER, started};
use crate::until::until;
use anyhow::{bail, ensure};
use cvo::testing::api::olm::NAMESPACE;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use shop::{Bundles, Shop, World};
use std::time::Duration;

/// The processes, and where each serves catalogs: all have the same ports.
const PROCESSES: [(&str, &str); 2] = [("olm-a", "127.0.0.1"), ("olm-b", "127.0.0.2")];
/// The lease by which one of them leads.
const LEASE: &str = "olm-operator";
const SHORT_LEASE: [&str; 6] = ["--lease-duration", "15", "--lease-renew-deadline", "10", "--lease-retry", "2"];
/// Namespaces in which something is done at the same time.
const SHOPS: usize = 4;
/// How long everything may take to come to rest. The garbage collector waits for half a minute, and longer where the API server was away.
const REST: Duration = Duration::from_secs(180);
const TAKEN_WITHIN: Duration = Duration::from_secs(60);

/// What came of it.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Installations, updates and deletions of operators.
    pub ended: usize,
    pub leadership: Leadership,
}

pub(super) async fn run(operations: &[Operation]) -> anyhow::Result<Found> {
    let cluster = Cluster::up(Options { registry: true, audit: true, kwok: true, ..Options::default() }).await?;
    cluster.add_fake_nodes(0..1).await?;
    olm::prepare(&cluster).await?;
    olm::grant(&cluster).await?;
    let world = World { client: cluster.client().await?, bundles: Bundles::push(&cluster.registry()).await?, cluster };
    let mut shops = Vec::new();
    for number in 0..SHOPS {
        shops.push(Shop::open(&world, number).await?);
    }
    let pair = Pair { world };
    pair.start()?;
    let mut found = Found::default();
    for (number, steps) in operations.iter().enumerate() {
        let begun = Timestamp::now();
        for shop in &mut shops {
            found.ended += shop.turn(&pair.world, number).await?;
        }
        pair.disturb(steps, begun).await?;
        pair.rest(&shops).await?;
        println!("all is at rest after {:.0} s", since(begun));
    }
    found.leadership = leadership::check(&audit::everything(&pair.world.cluster.audit_log())?, USER, LEASE);
    let violations = &found.leadership.violations;
    ensure!(violations.is_empty(), "written without the lease:\n{}", violations.join("\n"));
    ensure!(found.leadership.writes > found.ended, "too little was written to say anything: {found:?}");
    pair.world.cluster.down().await?;
    Ok(found)
}

fn since(then: Timestamp) -> f64 {
    Timestamp::now().duration_since(then).as_secs_f64()
}

struct Pair {
    world: World,
}

impl Pair {
    /// Starts both processes, with the rights of the release and no others.
    fn start(&self) -> anyhow::Result<()> {
        let cluster = &self.world.cluster;
        let ports = olm::catalog_ports(cluster, u16::try_from(SHOPS)?)?;
        for (name, address) in PROCESSES {
            let pod = audit::pod_group(name);
            let groups: Vec<&str> = GROUPS.into_iter().chain([pod.as_str()]).collect();
            // They are in no pod.
            let pod_ip = "192.0.2.7";
            let start = Start { name, groups: &groups, address, catalog_ports: &ports, pod_ip, metrics: "" };
            let process = started(cluster, start)?.log_level("info,cvo=debug").flag("--secure-port", "0");
            cluster.spawn(process.args(SHORT_LEASE).launch(name)?)?;
        }
        Ok(())
    }

    async fn disturb(&self, steps: &[Step], begun: Timestamp) -> anyhow::Result<()> {
        for step in steps {
            // The moment of a fault is random: this does not wait for anything.
            tokio::time::sleep(step.after).await;
            println!("{:>7.1} s  {}", since(begun), step.fault);
            let [leader, standby] = self.by_rank().await;
            match step.fault {
                Fault::KillLeader => self.world.cluster.respawn(leader)?,
                Fault::KillStandby => self.world.cluster.respawn(standby)?,
                Fault::FreezeLeader => self.freeze().await?,
                Fault::RestartApiServer => self.world.cluster.respawn("kube-apiserver")?,
                other => bail!("{other} is not planned here"),
            }
        }
        Ok(())
    }

    /// Freezes the leader until the other process leads. It must notice that when it goes on.
    async fn freeze(&self) -> anyhow::Result<()> {
        // The API server may have been restarted, or the leader killed: there is no single event to wait for.
        let leader = until("one process to lead", TAKEN_WITHIN).answer(async || self.leader().await).await?;
        let Some(process) = self.world.cluster.process(leader) else { bail!("{leader} does not run") };
        process.freeze();
        let taken = async || match self.leader().await {
            Ok(now) if now != leader => Ok(now),
            Ok(_) => Err("it still holds the lease".to_owned()),
            Err(cause) => Err(cause),
        };
        let next = until("somebody to take the lease of a leader that is frozen", TAKEN_WITHIN).answer(taken).await;
        process.thaw();
        println!("           taken by {}", next?);
        Ok(())
    }

    /// The process that leads, and the other one. While nobody leads, the first is taken for the leader.
    async fn by_rank(&self) -> [&'static str; 2] {
        let [(first, _), (second, _)] = PROCESSES;
        match self.leader().await {
            Ok(leader) if leader == second => [second, first],
            _ => [first, second],
        }
    }

    /// The process that holds the lease; or why it cannot be said.
    async fn leader(&self) -> Result<&'static str, String> {
        let leases: Api<Lease> = Api::namespaced(self.world.client.clone(), NAMESPACE);
        let lease = leases.get(LEASE).await.map_err(|error| error.to_string())?;
        let holder = lease.spec.and_then(|spec| spec.holder_identity).unwrap_or_default();
        let found = PROCESSES.into_iter().find(|(name, _)| *name == holder);
        found.map(|(name, _)| name).ok_or_else(|| format!("the holder is {holder:?}"))
    }

    /// Waits until everything is as users want it.
    async fn rest(&self, shops: &[Shop]) -> anyhow::Result<()> {
        // It is many objects of several kinds: there is no single event to wait for.
        let at_rest = async || {
            let mut wrong = Vec::new();
            for shop in shops {
                wrong.extend(shop.wrong(&self.world).await?);
            }
            ensure!(wrong.is_empty(), "{}", wrong.join("; "));
            anyhow::Ok(())
        };
        Ok(until("all operators to be at rest", REST).look(self.state()).answer(at_rest).await?)
    }

    /// What a person would look at when they do not come to rest.
    async fn state(&self) -> String {
        let cluster = &self.world.cluster;
        let looks = [
            ["get", "lease", "-n", NAMESPACE, "-o", "yaml"],
            ["get", "subscriptions,installplans,csv,deployments", "-A", "-o", "wide", "--ignore-not-found"],
        ];
        let mut text = String::new();
        for look in looks {
            text.push_str(&cluster.kubectl(look).await.unwrap_or_else(|error| error.to_string()));
        }
        for (name, _) in PROCESSES {
            text.push_str(&format!("log of {name}:\n{}\n", files::tail(&cluster.log(name), 60)));
        }
        text
    }
}
