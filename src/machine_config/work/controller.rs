//! The controller of node configuration: looks at the cluster, decides by [`crate::machine_config::decide`], and performs that. The
//! agents of the nodes do the rest; the only way between both is the nodes' annotations.

mod approvals;
mod draining;
mod etcd;
mod figures;
mod live;
mod overrides;
mod perform;
mod views;

use crate::cluster::writer::Writer;
use crate::cluster::{Clients, Objects};
use crate::machine_config::decide::{Key, Remembered, Room, Seen, Settings, decide};
use crate::machine_config::operator;
use crate::process::events::Events;
use crate::process::prometheus::Querier;
use crate::process::turns::{until, wait};
use crate::serve::health::Heartbeat;
use approvals::Approvals;
use draining::Drains;
use etcd::EtcdMembers;
pub(crate) use figures::Figures;
use jiff::Timestamp;
use live::{Live, sources, whole};
use overrides::FollowedOverrides;
use perform::Performer;
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

pub(crate) struct MachineConfigController {
    settings: Settings,
    remembered: Remembered,
    changed: Arc<Notify>,
    live: Live,
    overrides: FollowedOverrides,
    drains: Drains,
    approvals: Approvals,
    etcd: EtcdMembers,
    writer: Arc<Writer<Key>>,
    performer: Performer,
}

impl MachineConfigController {
    pub(crate) fn new(
        settings: Settings,
        querier: Querier,
        clients: &Arc<Clients>,
        (objects, events): (Objects, Events),
        stop: &CancellationToken,
    ) -> Self {
        let changed = Arc::new(Notify::new());
        let live = Live::start(clients, settings.node_objects, &changed, stop);
        let writer = Writer::new(changed.clone());
        MachineConfigController {
            settings,
            remembered: Remembered::default(),
            overrides: FollowedOverrides::new(clients.clone(), changed.clone(), stop.clone()),
            drains: Drains::new(clients.clone(), objects.clone(), changed.clone(), stop.clone()),
            approvals: Approvals::new(querier, changed.clone(), stop.clone()),
            etcd: EtcdMembers::new(clients.clone(), changed.clone(), stop.clone()),
            performer: Performer::new(objects, live.clone(), writer.clone(), events),
            writer,
            live,
            changed,
        }
    }

    /// Runs until `stop`, and answers whoever asks whether it does.
    pub(crate) async fn run(mut self, heartbeat: Arc<Heartbeat>, stop: CancellationToken) {
        while !stop.is_cancelled() {
            let deadline = self.turn(Timestamp::now());
            wait(&self.changed, deadline, &heartbeat, &stop).await;
        }
        self.writer.end().await;
    }

    /// Does what is due, and returns when something is although nothing has changed.
    fn turn(&mut self, now: Timestamp) -> Option<Instant> {
        let at = Instant::now();
        let seen = self.look()?;
        let decision = decide(&self.settings, &mut self.remembered, &seen, now);
        decision.actions.into_iter().for_each(|action| self.performer.begin(action, at));
        self.approvals.ask(decision.queries);
        self.etcd.follow(decision.etcd);
        self.overrides.follow(decision.overrides);
        self.drains.set(&decision.pods, &seen.nodes);
        let next = decision.next.map(|next| until(next, now));
        next.into_iter().chain(self.writer.next()).min()
    }

    /// `None` until all nodes, pools and MachineConfigs are known.
    fn look(&self) -> Option<Seen> {
        let live = &self.live;
        let (under_way, busy) = self.writer.busy();
        let (nodes, pools, configs) = (whole(&live.nodes)?, whole(&live.pools)?, whole(&live.configs)?);
        let answers = pools.iter().map(|(name, pool)| (name.clone(), self.approvals.answer(name, pool.query())));
        let pods = nodes.iter().filter_map(|(name, node)| Some((name.clone(), self.drains.pods(node)?)));
        Some(Seen {
            answers: answers.collect(),
            pods: pods.collect(),
            contents: self.performer.contents(),
            overrides: self.overrides.known(),
            reported: self.performer.reported(),
            room: Room { under_way, busy },
            failures: self.writer.failures(),
            kubelet_configs: sources(&live.kubelet, |view| view.0.clone()),
            runtime_configs: sources(&live.runtime, |view| view.0.clone()),
            etcd: self.etcd.pods(),
            node_objects: live.node_objects.as_ref().and_then(|objects| whole(objects)),
            operator: live.operator.all().map(|all| all.get(operator::NAME).cloned()),
            nodes,
            pools,
            configs,
        })
    }
}
