//! What pools and the ClusterOperator `machine-config` say.

use super::members::Members;
use super::{Action, Remembered, Settings, Turn, generating};
use crate::machine_config::api::machine_config::{
    MachineConfigPool, MachineConfigPoolStatus, PoolCondition, REQUIRED_FOR_UPGRADE,
};
use crate::machine_config::membership::MASTER;
use crate::machine_config::operator::{OperatorFacts, PoolSummary, invalid};
use crate::machine_config::quorum::at_risk;
use crate::machine_config::rollout::{PoolFacts, Round};
use crate::machine_config::status::{Counts, Subject, is_updated};
use crate::machine_config::views::{ConfigView, PoolView};
use crate::machine_config::{operator, status};
use crate::object::condition::ConditionStatus;
use jiff::{SignedDuration, Timestamp};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The status of a pool is written at most this often: that of a large one changes all the time.
const PERIOD: SignedDuration = SignedDuration::from_secs(1);

impl Turn<'_> {
    pub(super) fn report(&mut self, remembered: &Remembered, members: &Members, rounds: &[Round]) {
        let seen = self.seen;
        let mut summaries = Vec::new();
        let quorum = quorum(&members.pools);
        for ((pool, facts), round) in seen.pools.values().zip(&members.pools).zip(rounds) {
            let error = remembered.renderings.error(&pool.0, &seen.overrides).or_else(|| generating::error(seen));
            let learned = remembered.learned.get(&facts.name);
            let remaining = learned.and_then(|learned| learned.remaining(facts, round, self.now));
            let subject = Subject {
                generation: pool.0.metadata.generation.unwrap_or_default(),
                configuration: pool.0.spec.configuration.clone(),
                render_error: error.as_deref(),
                remaining,
                quorum: quorum.clone().filter(|_| facts.name == MASTER),
            };
            let before = pool.0.status.clone().unwrap_or_default();
            let status = status::status(&before, &subject, facts, round, self.now);
            let rendered = seen.configs.get(&pool.0.spec.configuration.name);
            summaries.push(summary(&pool.0, facts, &status, (rendered, remaining), self.settings));
            if pool.0.status.as_ref() != Some(&status) {
                self.write_status(pool, status);
            }
        }
        self.report_operator(summaries, members);
    }

    /// At once, or as soon as it may be written again.
    fn write_status(&mut self, pool: &PoolView, status: MachineConfigPoolStatus) {
        let name = pool.name().to_owned();
        match self.seen.reported.get(&name).map(|ago| PERIOD.saturating_sub(*ago)) {
            Some(rest) if rest > SignedDuration::ZERO => self.again(self.now.checked_add(rest).ok()),
            _ => self.act(Action::WritePoolStatus { name, version: pool.version().to_owned(), status }),
        }
    }

    fn report_operator(&mut self, pools: Vec<PoolSummary>, members: &Members) {
        let Some(live) = &self.seen.operator else { return };
        let mut errors = BTreeMap::new();
        let mut add = |attempt: &str, texts: Vec<String>| {
            if !texts.is_empty() {
                errors.insert(attempt.to_owned(), texts.join("; "));
            }
        };
        add("NodeMembership", members.overlaps.clone());
        add("Write", self.seen.failures.iter().map(|(what, error)| format!("{what}: {error}")).collect());
        let (version, image) = (self.settings.version.clone(), self.settings.image.clone());
        let facts = OperatorFacts { version, image, pools, errors, without_pool: members.without_pool.clone() };
        let before = live.as_ref().map(|live| live.status.clone()).unwrap_or_default();
        let status = operator::status(&before, &facts, self.now);
        if live.as_ref().is_none_or(|live| live.status != status) {
            self.act(Action::WriteOperatorStatus { version: live.as_ref().map(|live| live.version.clone()), status });
        }
    }
}

/// Why etcd could lose its quorum while the control plane's nodes are updated.
fn quorum(pools: &[PoolFacts]) -> Option<String> {
    let nodes = |name: &str| pools.iter().filter(|pool| pool.name == name).map(|pool| pool.nodes.len()).sum();
    let master = pools.iter().find(|pool| pool.name == MASTER)?;
    at_risk(master.max_unavailable.as_ref(), nodes)
}

/// What the ClusterOperator has to know of a pool.
fn summary(
    pool: &MachineConfigPool,
    facts: &PoolFacts,
    status: &MachineConfigPoolStatus,
    (rendered, remaining): (Option<&Arc<ConfigView>>, Option<SignedDuration>),
    settings: &Settings,
) -> PoolSummary {
    let condition = |type_: &str| {
        let holds = |condition: &&PoolCondition| condition.type_ == type_ && condition.status == ConditionStatus::True;
        status.conditions.iter().find(holds)
    };
    let degraded = condition("Degraded").map(|condition| {
        let since = condition.last_transition_time.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0);
        (condition.message.clone(), since)
    });
    let images = [settings.defaults.os_image.clone()];
    let invalid = match rendered {
        Some(rendered) => invalid(&rendered.0, &settings.defaults.controller_version, &settings.version, &images),
        None => Some("its configuration has not been rendered".to_owned()),
    };
    PoolSummary {
        name: facts.name.clone(),
        required: pool.metadata.labels.as_ref().is_some_and(|labels| labels.contains_key(REQUIRED_FOR_UPGRADE)),
        paused: pool.spec.paused,
        counts: Counts {
            total: status.machine_count,
            updated: status.updated_machine_count,
            ready: status.ready_machine_count,
            unavailable: status.unavailable_machine_count,
            degraded: status.degraded_machine_count,
        },
        updated: is_updated(facts),
        invalid,
        degraded,
        blocked: condition("RolloutBlocked").map(|condition| condition.message.clone()),
        remaining,
    }
}
