//! What the metrics show of pools and nodes. Everything is known already, so a scrape costs no request to the API server.

use super::MachineConfigController;
use super::live::Live;
use crate::cluster::requests::RequestCounts;
use crate::machine_config::api::machine_config::{MachineConfigPool, OS_IMAGE_OVERRIDDEN};
use crate::machine_config::drain::{Step, step};
use crate::machine_config::membership::{Membership, is_windows};
use crate::machine_config::metrics::{NodeFigures, PoolFigures, PoolsSnapshot, text};
use crate::machine_config::views::NodeView;
use crate::serve::process;
use jiff::Timestamp;
use std::sync::OnceLock;

/// Is asked at each scrape.
pub(crate) struct Figures {
    requests: RequestCounts,
    /// Nothing while another process holds the lease.
    live: OnceLock<Live>,
}

impl Figures {
    pub(crate) fn new(requests: RequestCounts) -> Figures {
        Figures { requests, live: OnceLock::new() }
    }

    /// From here on this process does the leader's work.
    pub(crate) fn show(&self, controller: &MachineConfigController) {
        let _first = self.live.set(controller.live.clone());
    }

    /// The metrics as text.
    pub(crate) fn text(&self) -> String {
        let mut snapshot =
            PoolsSnapshot { requests: self.requests.current(), process: process::read(), ..PoolsSnapshot::default() };
        if let Some(live) = self.live.get() {
            add(live, &mut snapshot);
        }
        text(&snapshot, Timestamp::now())
    }
}

/// Adds nothing before everything that exists is known: a pool of no nodes is not what anybody should see.
fn add(live: &Live, snapshot: &mut PoolsSnapshot) {
    let (Some(nodes), Some(pools), Some(configs)) = (live.nodes.all(), live.pools.all(), live.configs.all()) else {
        return;
    };
    let objects: Vec<MachineConfigPool> = pools.values().map(|pool| (*pool.0).clone()).collect();
    snapshot.nodes = nodes.values().map(|node| figures(node, &objects)).collect();
    snapshot.pools = objects
        .into_iter()
        .map(|pool| {
            let rendered = configs.get(&pool.spec.configuration.name);
            let annotations = rendered.and_then(|config| config.0.metadata.annotations.as_ref());
            PoolFigures {
                name: pool.metadata.name.unwrap_or_default(),
                paused: pool.spec.paused,
                status: pool.status.unwrap_or_default(),
                os_image_overridden: annotations
                    .and_then(|it| it.get(OS_IMAGE_OVERRIDDEN))
                    .is_some_and(|value| value == "true"),
            }
        })
        .collect();
}

fn figures(node: &NodeView, pools: &[MachineConfigPool]) -> NodeFigures {
    let membership = Membership::of(&node.labels, pools);
    let is_draining = matches!(step(&node.drain), Step::Cordon | Step::Evict);
    NodeFigures {
        name: node.facts.name.clone(),
        overlapping: matches!(membership, Membership::Overlapping(_)),
        without_pool: membership == Membership::Unmanaged && !is_windows(&node.labels),
        pool: match membership {
            Membership::Member { pool, .. } => pool,
            Membership::Overlapping(_) | Membership::Unmanaged => String::new(),
        },
        state: node.facts.state,
        drain: node.draining.filter(|_| is_draining),
    }
}
