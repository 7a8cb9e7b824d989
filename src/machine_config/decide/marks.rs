//! What is written to nodes without anything waiting for it: which of them wait for their turn, since when others are done, and
//! what those that come next may prepare. A thousand of such writes must not keep any node from going on.

use super::Turn;
use crate::machine_config::changes::downloads;
use crate::machine_config::node::NodeFacts;
use crate::machine_config::rollout::{PoolFacts, Round};
use crate::machine_config::writes;
use serde_json::Value;

impl Turn<'_> {
    /// Marks nodes that wait, and remembers when others were done.
    pub(super) fn mark(&mut self, facts: &PoolFacts, round: &Round) {
        if facts.paused || facts.target.config.is_empty() {
            return;
        }
        let has_query = || self.seen.pools.get(&facts.name).is_some_and(|pool| pool.query().is_some());
        let remembers_end = !facts.soak.is_zero() || has_query();
        for node in facts.nodes.iter().filter(|node| node.is_managed()) {
            if !self.room.has_room_for_marks() {
                return;
            }
            if let Some(patch) = self.mark_of(facts, round, node, remembers_end) {
                self.write_node(&node.name, patch);
            }
        }
    }

    /// `remembers_end`: somebody will ask since when the node is done.
    fn mark_of(&self, facts: &PoolFacts, round: &Round, node: &NodeFacts, remembers_end: bool) -> Option<Value> {
        let view = self.seen.nodes.get(&node.name)?;
        // Whoever tells a node removes the taint in the same write.
        let next = [&round.begin, &round.claim].iter().any(|names| names.contains(&node.name))
            || facts.claimed.contains_key(&node.name);
        let waits = node.desired != facts.target && !next;
        if waits != writes::waits(&view.taints) && !next {
            Some(writes::taint(&view.version, &view.taints, waits))
        } else if remembers_end && node.is_at(&facts.target) && node.done_since.is_none() {
            Some(writes::done_since(&view.version, self.now))
        } else {
            let config = self.stage_ahead(facts, round, node).filter(|_| !next)?;
            Some(writes::stage_ahead(&view.version, config.as_deref()))
        }
    }

    /// What the node is to prepare for before its turn comes; `None` if the annotation is as it should be.
    fn stage_ahead(&self, facts: &PoolFacts, round: &Round, node: &NodeFacts) -> Option<Option<String>> {
        let (asked, target) = (node.stage_ahead.as_ref(), &facts.target.config);
        let spec = |name: &str| self.seen.configs.get(name).map(|config| &config.0.spec);
        let downloads = || spec(&node.current.config).zip(spec(target)).is_some_and(|(old, new)| downloads(old, new));
        let waits = node.desired != facts.target;
        match asked {
            Some(asked) if asked == target && waits => None,
            _ if waits && round.next.contains(&node.name) && downloads() => Some(Some(target.clone())),
            Some(_) => Some(None),
            None => None,
        }
    }
}
