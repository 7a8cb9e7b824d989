//! Which nodes belong to which pool, and what is known of each pool.

use super::{Seen, Settings};
use crate::machine_config::api::machine_config::MachineConfigPool;
use crate::machine_config::facts::pool_facts;
use crate::machine_config::holds::Answer;
use crate::machine_config::membership::{Membership, without_pool};
use crate::machine_config::node::NodeFacts;
use crate::machine_config::rollout::PoolFacts;
use jiff::Timestamp;
use std::collections::BTreeMap;

pub(super) struct Members {
    /// In the order of their names.
    pub pools: Vec<PoolFacts>,
    /// What is to be said of nodes that two pools of people claim.
    pub overlaps: Vec<String>,
    /// What is to be said of nodes that no pool selects.
    pub without_pool: Vec<String>,
}

impl Members {
    pub(super) fn of(settings: &Settings, seen: &Seen, now: Timestamp) -> Members {
        let objects: Vec<MachineConfigPool> = seen.pools.values().map(|pool| (*pool.0).clone()).collect();
        let mut members: BTreeMap<String, Vec<NodeFacts>> = BTreeMap::new();
        let (mut overlaps, mut left) = (Vec::new(), Vec::new());
        for (name, node) in &seen.nodes {
            match Membership::of(&node.labels, &objects) {
                Membership::Member { pool, .. } => members.entry(pool).or_default().push(node.facts.clone()),
                Membership::Overlapping(pools) => overlaps.push(overlap(name, &pools)),
                Membership::Unmanaged => left.push((name.as_str(), &node.labels)),
            }
        }
        let without_pool = without_pool(left, &objects);
        let last: Vec<String> = settings.node.iter().cloned().collect();
        let pools = seen.pools.iter().map(|(name, pool)| {
            let nodes = members.remove(name).unwrap_or_default();
            let answer = seen.answers.get(name).unwrap_or(&Answer::Unknown);
            pool_facts(&pool.0, nodes, answer, &last, now)
        });
        Members { pools: pools.collect(), overlaps, without_pool }
    }
}

fn overlap(node: &str, pools: &[String]) -> String {
    format!("node {node} is selected by the pools {}: change their nodeSelectors", pools.join(" and "))
}
