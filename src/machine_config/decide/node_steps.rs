//! The next step of each node whose agent asks for something: cordoning, draining, uncordoning.

use super::{Action, Pods, Turn};
use crate::machine_config::drain::{Drain, DrainFacts, MANAGER, Request, Step, step};
use crate::machine_config::node::said;
use crate::machine_config::views::NodeView;
use crate::machine_config::writes;
use serde_json::Value;

impl Turn<'_> {
    pub(super) fn step_nodes(&mut self) {
        let seen = self.seen;
        for (name, node) in &seen.nodes {
            let step = match seen.pods.get(name) {
                Some(pods) => step(&DrainFacts { pods: Some(*pods), ..node.drain.clone() }),
                None => step(&node.drain),
            };
            let pods = self.step_node(name, node, step);
            self.decision.pods.extend(pods.map(|pods| (name.clone(), pods)));
        }
    }

    /// Returns what is done about the pods of the node.
    fn step_node(&mut self, name: &str, node: &NodeView, step: Step) -> Option<Pods> {
        let asked = node.drain.asked.as_deref().unwrap_or_default();
        match step {
            Step::Nothing => return node.will_ask().then_some(Pods::Follow),
            Step::ForgetCordon => self.write_node(name, writes::not_cordoned(&node.version)),
            Step::Cordon => {
                let config = asked.split_once('-').map_or("", |(_, config)| config);
                self.begin_drain(name, writes::cordon(&node.version, config, self.now));
            }
            Step::Evict => {
                if node.draining.is_none() {
                    self.begin_drain(name, writes::drain_started(&node.version, self.now));
                }
                return Some(Pods::Evict(node.draining.unwrap_or(Drain { started: self.now, failed: None })));
            }
            Step::Answer { uncordon } => {
                let uncordons = matches!(Request::parse(asked), Ok(Request::Uncordon(_)));
                let (done, id) = (uncordons.then_some(self.now), node.drain.asked_id.as_ref());
                self.write_node(name, writes::answer(&node.version, asked, id, uncordon, done));
                return (!uncordons).then_some(Pods::Keep);
            }
            Step::Refuse(cause) => {
                let cause = said(&cause);
                if node.facts.drain_blocked.as_ref() != Some(&cause) {
                    self.write_node(name, writes::drain_blocked(Some(&cause), None));
                }
            }
        }
        None
    }

    /// As a field manager of its own, so that the API server keeps when that was.
    fn begin_drain(&mut self, name: &str, patch: Value) {
        self.act(Action::WriteNode { name: name.to_owned(), manager: MANAGER, patch });
    }
}
