//! What stands in the way of a pass: of each node the error of the manifest it is parked on, and of objects what their
//! health is like although their node went on. One of them going away says nothing of the others.

use crate::payload::ObjectId;
use crate::status::failure::{self, Effect, UpdateError};
use std::collections::BTreeMap;

#[derive(Debug, Default)]
pub struct Troubles {
    nodes: BTreeMap<usize, UpdateError>,
    objects: BTreeMap<ObjectId, UpdateError>,
}

impl Troubles {
    /// What the node's present manifest waits for, if it is to be reported; `None` when it passed.
    pub fn of_node(&mut self, node: usize, error: Option<UpdateError>) {
        match error {
            Some(error) => drop(self.nodes.insert(node, error)),
            None => drop(self.nodes.remove(&node)),
        }
    }

    /// Health of an object whose node does not wait for it; `None` when it is well.
    pub fn of_object(&mut self, id: ObjectId, error: Option<UpdateError>) {
        match error {
            Some(error) => drop(self.objects.insert(id, error)),
            None => drop(self.objects.remove(&id)),
        }
    }

    /// The objects that are not well although their node went on.
    pub fn objects(&self) -> Vec<ObjectId> {
        self.objects.keys().cloned().collect()
    }

    /// What is no failure but something that was waited for does not count any more.
    pub fn forget_waits(&mut self) {
        self.objects.retain(|_, error| error.effect != Effect::Wait);
    }

    /// All of it as one error, nodes in graph order first.
    pub fn failure(&self) -> Option<UpdateError> {
        failure::aggregate(self.nodes.values().chain(self.objects.values()).cloned().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::failure::Reason;

    fn error(text: &str) -> Option<UpdateError> {
        Some(UpdateError::new(Reason::Other(text.into()), text))
    }

    /// §10.17: a failure clears only when its own node passes (§4.6 asked for the same fraction of a new walk; nothing
    /// is walked again here).
    #[test]
    fn a_failure_clears_only_when_its_own_node_passes() {
        let mut troubles = Troubles::default();
        assert_eq!(troubles.failure(), None);
        troubles.of_node(3, error("three"));
        // Others start, wait silently, pass.
        for other in [0, 1, 2, 4] {
            troubles.of_node(other, None);
            assert_eq!(troubles.failure(), error("three"), "node {other}");
        }
        troubles.of_node(1, error("one"));
        let both = troubles.failure().unwrap();
        let reasons: Vec<&str> = both.nested.iter().map(|e| e.reason.as_str()).collect();
        assert_eq!((&both.reason, reasons), (&Reason::MultipleErrors, vec!["one", "three"]));
        // The node waits for something else now.
        troubles.of_node(3, error("more"));
        troubles.of_node(1, None);
        assert_eq!(troubles.failure(), error("more"));
        troubles.of_node(3, None);
        assert_eq!(troubles.failure(), None);
    }

    #[test]
    fn what_was_merely_waited_for_is_forgotten_and_failures_stand() {
        let with = |effect, name: &str| error(name).map(|e| UpdateError { effect, ..e });
        let mut troubles = Troubles::default();
        for (name, effect) in [("wait", Effect::Wait), ("bad", Effect::Fail), ("old", Effect::FailAfterInterval)] {
            troubles.of_object(ObjectId::new("", "A", "", name), with(effect, name));
        }
        troubles.forget_waits();
        let left: Vec<String> = troubles.objects().into_iter().map(|id| id.name).collect();
        assert_eq!(left, ["bad", "old"]);
    }

    /// §10.17: the same for health after a node is done.
    #[test]
    fn health_of_an_object_stands_until_that_object_is_well() {
        let (a, b) = (ObjectId::new("", "A", "", "a"), ObjectId::new("", "B", "", "b"));
        let mut troubles = Troubles::default();
        troubles.of_object(a.clone(), error("a"));
        troubles.of_object(b.clone(), error("b"));
        troubles.of_node(0, None);
        troubles.of_object(b, None);
        assert_eq!(troubles.failure(), error("a"));
        troubles.of_object(a, None);
        assert_eq!(troubles.failure(), None);
    }
}
