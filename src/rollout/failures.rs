//! What keeps a rollout from going on: for each node the error of the manifest it waits for, and for each object that is
//! not well although its node went on, its error. When one of them goes, that says nothing about the others.

use crate::payload::ObjectId;
use crate::status::failure::{self, Effect, UpdateError};
use std::collections::BTreeMap;

#[derive(Debug, Default)]
pub(crate) struct Failures {
    nodes: BTreeMap<usize, UpdateError>,
    objects: BTreeMap<ObjectId, UpdateError>,
}

impl Failures {
    /// The error of the manifest that the node waits for, if it is to be reported; `None` once that passed.
    pub(crate) fn of_node(&mut self, node: usize, error: Option<UpdateError>) {
        match error {
            Some(error) => drop(self.nodes.insert(node, error)),
            None => drop(self.nodes.remove(&node)),
        }
    }

    /// The health of an object that no node waits for; `None` when it is well.
    pub(crate) fn of_object(&mut self, id: ObjectId, error: Option<UpdateError>) {
        match error {
            Some(error) => drop(self.objects.insert(id, error)),
            None => drop(self.objects.remove(&id)),
        }
    }

    /// The objects that are not well although their node went on.
    pub(crate) fn objects(&self) -> Vec<ObjectId> {
        self.objects.keys().cloned().collect()
    }

    /// Forgets what is no failure but was merely waited for.
    pub(crate) fn forget_waits(&mut self) {
        self.objects.retain(|_, error| error.effect != Effect::Wait);
    }

    /// All of it as one error, nodes in graph order first.
    pub(crate) fn failure(&self) -> Option<UpdateError> {
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

    #[test]
    fn failure_clears_only_when_its_own_node_passes() {
        let mut failures = Failures::default();
        assert_eq!(failures.failure(), None);
        failures.of_node(3, error("three"));
        // Others start, wait silently, pass.
        for other in [0, 1, 2, 4] {
            failures.of_node(other, None);
            assert_eq!(failures.failure(), error("three"), "node {other}");
        }
        failures.of_node(1, error("one"));
        let both = failures.failure().unwrap();
        let reasons: Vec<&str> = both.nested.iter().map(|e| e.reason.as_str()).collect();
        assert_eq!((&both.reason, reasons), (&Reason::MultipleErrors, vec!["one", "three"]));
        // The node waits for something else now.
        failures.of_node(3, error("more"));
        failures.of_node(1, None);
        assert_eq!(failures.failure(), error("more"));
        failures.of_node(3, None);
        assert_eq!(failures.failure(), None);
    }

    #[test]
    fn waits_are_forgotten_and_failures_stand() {
        let with = |effect, name: &str| error(name).map(|e| UpdateError { effect, ..e });
        let mut failures = Failures::default();
        for (name, effect) in [("wait", Effect::Wait), ("bad", Effect::Fail), ("old", Effect::FailAfterInterval)] {
            failures.of_object(ObjectId::new("", "A", "", name), with(effect, name));
        }
        failures.forget_waits();
        let left: Vec<String> = failures.objects().into_iter().map(|id| id.name).collect();
        assert_eq!(left, ["bad", "old"]);
    }

    #[test]
    fn failure_of_an_object_stands_until_that_object_is_well() {
        let (a, b) = (ObjectId::new("", "A", "", "a"), ObjectId::new("", "B", "", "b"));
        let mut failures = Failures::default();
        failures.of_object(a.clone(), error("a"));
        failures.of_object(b.clone(), error("b"));
        failures.of_node(0, None);
        failures.of_object(b, None);
        assert_eq!(failures.failure(), error("a"));
        failures.of_object(a, None);
        assert_eq!(failures.failure(), None);
    }
}
