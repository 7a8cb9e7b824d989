//! Which faults happen in which installation, update or deletion, and when. The same seed gives the same plan.

use crate::random::SeededRandom;
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// The longest time between two faults.
const LONGEST_PAUSE: Duration = Duration::from_millis(1500);
/// Of the kills on simulated clusters, as many of a hundred hit the daemon that stands by.
const STANDBY: usize = 15;
/// So many operations are operators installed, updated twice, and deleted.
const LEAST_OF_OPERATORS: usize = 4;
/// One installation and the updates after it share a cluster.
const OPERATIONS_ON_A_CLUSTER: usize = 5;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// SIGKILL to the process that leads.
    KillLeader,
    /// SIGKILL to the process that waits for the lease.
    KillStandby,
    /// SIGSTOP to the leader until the other process leads.
    FreezeLeader,
    DeleteLease,
    RestartApiServer,
    RestartEtcd,
    RestartKubelet,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Fault::KillLeader => "kill -9 of the leader",
            Fault::KillStandby => "kill -9 of the process that stands by",
            Fault::FreezeLeader => "the leader frozen past its lease",
            Fault::DeleteLease => "the lease deleted",
            Fault::RestartApiServer => "API server restarted",
            Fault::RestartEtcd => "etcd restarted",
            Fault::RestartKubelet => "kubelet restarted",
        })
    }
}

/// A fault, and how long after the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    pub after: Duration,
    pub fault: Fault,
}

/// The faults during one installation or update, or during what is done to operators at one time.
pub type Operation = Vec<Step>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// For each cluster with simulated workloads and two daemons: the installation, then updates.
    pub simulated: Vec<Vec<Operation>>,
    /// For the cluster with a real node, where the daemon is a pod: the same.
    pub node: Vec<Operation>,
    /// For the cluster in which operators are installed, updated and deleted.
    pub operators: Vec<Operation>,
}

impl Plan {
    /// `runs` times the daemon is killed, and each fifth time etcd, API server and kubelet are restarted.
    pub fn new(seed: u64, runs: usize) -> Plan {
        let random = SeededRandom::new(seed, 0, 0);
        let restarts = (runs / 5).max(1);
        let kills_on_node = runs / 6;
        let on_node = if runs < 50 { 2 } else { 3 };
        let mut faults = vec![Fault::RestartKubelet; restarts];
        faults.extend(vec![Fault::KillLeader; kills_on_node]);
        let node = deal(&random, faults, on_node);

        let operations = (runs / 10).max(2);
        let mut faults = [Fault::RestartApiServer, Fault::RestartEtcd].repeat(restarts);
        faults.extend([Fault::FreezeLeader, Fault::DeleteLease, Fault::DeleteLease].repeat(operations.div_ceil(2)));
        let kills =
            (kills_on_node..runs).map(|_| if random.chance(STANDBY) { Fault::KillStandby } else { Fault::KillLeader });
        faults.extend(kills);
        let dealt = deal(&random, faults, operations);
        let simulated = dealt.chunks(OPERATIONS_ON_A_CLUSTER).map(<[_]>::to_vec).collect();
        Plan { simulated, node, operators: of_operators(seed, runs) }
    }

    /// How often each fault happens to the daemon.
    pub fn count(&self) -> BTreeMap<Fault, usize> {
        count(self.simulated.iter().flatten().chain(&self.node))
    }

    /// How often each fault happens to the processes that look after operators.
    pub fn count_of_operators(&self) -> BTreeMap<Fault, usize> {
        count(&self.operators)
    }

    /// Installations and updates.
    pub fn operations(&self) -> usize {
        self.simulated.iter().map(Vec::len).sum::<usize>() + self.node.len()
    }
}

/// Half as many times as the daemon a process that looks after operators is killed, and each fifth time the API server is restarted.
fn of_operators(seed: u64, runs: usize) -> Vec<Operation> {
    let random = SeededRandom::new(seed, 1, 0);
    let kills = (runs / 2).max(1);
    let mut faults = vec![Fault::RestartApiServer; (kills / 5).max(1)];
    faults.extend(vec![Fault::FreezeLeader; (kills / 25).max(1)]);
    faults.extend((0..kills).map(|_| if random.chance(STANDBY) { Fault::KillStandby } else { Fault::KillLeader }));
    deal(&random, faults, (kills / 4).max(LEAST_OF_OPERATORS))
}

fn count<'a>(operations: impl IntoIterator<Item = &'a Operation>) -> BTreeMap<Fault, usize> {
    let mut count = BTreeMap::new();
    for step in operations.into_iter().flatten() {
        *count.entry(step.fault).or_default() += 1;
    }
    count
}

/// Shuffles the faults and gives each operation as many.
fn deal(random: &SeededRandom, mut faults: Vec<Fault>, operations: usize) -> Vec<Operation> {
    let mut dealt = vec![Vec::new(); operations];
    for position in (0..faults.len()).cycle().take(faults.len()) {
        let fault = faults.swap_remove(random.below(faults.len()));
        let after = random.duration(LONGEST_PAUSE);
        if let Some(operation) = dealt.get_mut(position % operations.max(1)) {
            operation.push(Step { after, fault });
        }
    }
    dealt
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plan_follows_from_its_seed_and_has_every_fault() {
        let plan = Plan::new(7, 100);
        assert_eq!(plan, Plan::new(7, 100));
        assert_ne!(plan, Plan::new(8, 100));
        let count = plan.count();
        assert_eq!(count[&Fault::KillLeader] + count[&Fault::KillStandby], 100);
        for restart in [Fault::RestartApiServer, Fault::RestartEtcd, Fault::RestartKubelet] {
            assert_eq!(count[&restart], 20);
        }
        assert_eq!((count[&Fault::FreezeLeader], count[&Fault::DeleteLease]), (5, 10));
        assert_eq!((plan.operations(), plan.simulated.len()), (13, 2));
        let count = plan.count_of_operators();
        assert_eq!(count[&Fault::KillLeader] + count[&Fault::KillStandby], 50);
        assert_eq!((count[&Fault::RestartApiServer], count[&Fault::FreezeLeader]), (10, 2));
        assert_eq!(plan.operators.len(), 12);
        let short = Plan::new(7, 1);
        assert_eq!((short.operators.len(), short.count_of_operators().values().sum::<usize>()), (4, 3));
        assert_eq!(short.operations(), 4);
        assert!(short.count().contains_key(&Fault::RestartKubelet), "{short:?}");
    }
}
