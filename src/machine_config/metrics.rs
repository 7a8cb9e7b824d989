//! Pools and nodes. The names that begin with `machine_config_` are ours; all others, with their labels and meanings, are those
//! of the upstream operator.

use crate::machine_config::api::machine_config::{MachineConfigPoolStatus, PoolCondition};
use crate::machine_config::drain::{Delay, Drain};
use crate::machine_config::node::NodeState;
use crate::metrics::encoder::{Text, seconds};
use crate::metrics::process;
use crate::metrics::process::ProcessFigures;
use crate::object::condition::ConditionStatus;
use jiff::Timestamp;
use std::collections::BTreeMap;

/// A pool as its status tells of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct PoolFigures {
    pub name: String,
    pub paused: bool,
    pub status: MachineConfigPoolStatus,
    /// A MachineConfig of an administrator names the image of the operating system.
    pub os_image_overridden: bool,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct NodeFigures {
    pub name: String,
    /// Empty if it belongs to none.
    pub pool: String,
    pub state: NodeState,
    /// Several pools of people claim it.
    pub overlapping: bool,
    /// No pool selects it although one could.
    pub without_pool: bool,
    /// The drain that is under way.
    pub drain: Option<Drain>,
}

/// Everything that one scrape shows.
#[derive(Clone, Debug, Default)]
pub(crate) struct PoolsSnapshot {
    pub pools: Vec<PoolFigures>,
    pub nodes: Vec<NodeFigures>,
    /// Requests to the API server by verb and status code.
    pub requests: BTreeMap<(&'static str, String), u64>,
    pub process: ProcessFigures,
}

/// The samples as text.
pub(crate) fn text(snapshot: &PoolsSnapshot, now: Timestamp) -> String {
    let mut text = Text::default();
    machines(&mut text, snapshot);
    conditions(&mut text, snapshot);
    nodes(&mut text, snapshot, now);
    process::requests(&mut text, "machine_config_api_requests_total", &snapshot.requests);
    process::write(&mut text, &snapshot.process);
    text.finish()
}

/// Name and meaning of each metric.
pub(crate) fn described() -> BTreeMap<String, String> {
    let (mut text, snapshot) = (Text::default(), PoolsSnapshot::default());
    machines(&mut text, &snapshot);
    conditions(&mut text, &snapshot);
    nodes(&mut text, &snapshot, Timestamp::UNIX_EPOCH);
    process::requests(&mut text, "machine_config_api_requests_total", &snapshot.requests);
    process::write(&mut text, &snapshot.process);
    text.described()
}

fn machines(text: &mut Text, snapshot: &PoolsSnapshot) {
    type Count = fn(&MachineConfigPoolStatus) -> i32;
    let counts: [(&str, &str, Count); 5] = [
        ("mco_machine_count", "Nodes of a pool.", |status| status.machine_count),
        ("mco_updated_machine_count", "Nodes that have the pool's configuration.", |status| {
            status.updated_machine_count
        }),
        ("mco_ready_machine_count", "Nodes that have it and can run pods.", |status| status.ready_machine_count),
        ("mco_degraded_machine_count", "Nodes that failed to take it.", |status| status.degraded_machine_count),
        ("mco_unavailable_machine_count", "Nodes that cannot run pods, or are being updated.", |status| {
            status.unavailable_machine_count
        }),
    ];
    for (name, help, count) in counts {
        text.gauge(name, help, |samples| {
            for pool in &snapshot.pools {
                samples.add(&[("pool", &pool.name)], f64::from(count(&pool.status)));
            }
        });
    }
    let help = "Whether a MachineConfig of an administrator names the image of the operating system.";
    text.gauge("os_image_url_override", help, |samples| {
        for pool in &snapshot.pools {
            samples.add(&[("pool", &pool.name)], f64::from(u8::from(pool.os_image_overridden)));
        }
    });
    text.gauge("machine_config_pool_paused", "Whether a pool is paused.", |samples| {
        for pool in &snapshot.pools {
            samples.add(&[("pool", &pool.name)], f64::from(u8::from(pool.paused)));
        }
    });
}

fn conditions(text: &mut Text, snapshot: &PoolsSnapshot) {
    let all = || snapshot.pools.iter().flat_map(|pool| pool.status.conditions.iter().map(move |it| (pool, it)));
    let holds = |condition: &PoolCondition| condition.status == ConditionStatus::True;
    text.gauge("mco_state", "Since when a condition of a pool is True, in seconds since the epoch.", |samples| {
        for (pool, condition) in all().filter(|(_, condition)| holds(condition)) {
            let Some(since) = &condition.last_transition_time else { continue };
            let labels = [
                ("node", ""),
                ("pool", pool.name.as_str()),
                ("state", condition.type_.as_str()),
                ("reason", condition.reason.as_str()),
            ];
            samples.add(&labels, seconds(since.0));
        }
    });
    let help = "Conditions of pools: 1 is True, 0 is not.";
    text.gauge("machine_config_pool_condition", help, |samples| {
        for (pool, condition) in all() {
            let labels = [
                ("pool", pool.name.as_str()),
                ("condition", condition.type_.as_str()),
                ("reason", condition.reason.as_str()),
            ];
            samples.add(&labels, f64::from(u8::from(holds(condition))));
        }
    });
}

fn nodes(text: &mut Text, snapshot: &PoolsSnapshot, now: Timestamp) {
    text.gauge("machine_config_node_state", "The state that the agent of a node tells.", |samples| {
        for node in snapshot.nodes.iter().filter(|node| node.state != NodeState::Unknown) {
            let state = format!("{:?}", node.state);
            samples.add(&[("node", &node.name), ("pool", &node.pool), ("state", &state)], 1.0);
        }
    });
    let help = "Whether a node could not be drained for an hour.";
    text.gauge("mcc_drain_err", help, |samples| {
        for (node, drain) in snapshot.nodes.iter().filter_map(|node| Some((node, node.drain?))) {
            let failed = drain.delay(now) == Delay::Failed;
            samples.add(&[("node", &node.name)], f64::from(u8::from(failed)));
        }
    });
    let help = "For how long a node has been being drained.";
    text.gauge("machine_config_node_drain_seconds", help, |samples| {
        for (node, drain) in snapshot.nodes.iter().filter_map(|node| Some((node, node.drain?))) {
            let waited = (seconds(now) - seconds(drain.started)).max(0.0);
            samples.add(&[("node", &node.name), ("pool", &node.pool)], waited);
        }
    });
    let help = "Nodes that several pools claim, so that none takes them over.";
    text.gauge("mcc_pool_alert", help, |samples| {
        for node in snapshot.nodes.iter().filter(|node| node.overlapping) {
            samples.add(&[("node", &node.name)], 1.0);
        }
    });
    text.gauge(
        "machine_config_nodes_without_pool",
        "Nodes that no pool selects, so that nothing configures them.",
        |samples| {
            if !snapshot.pools.is_empty() {
                let number = snapshot.nodes.iter().filter(|node| node.without_pool).count();
                samples.add(&[], f64::from(u32::try_from(number).unwrap_or(u32::MAX)));
            }
        },
    );
}

#[cfg(test)]
mod tests;
