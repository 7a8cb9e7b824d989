//! What keeps a rollout from going on: for each node the error of the manifest it waits for, and for each object that is
//! not well although its node went on, its error. When one of them goes, that says nothing about the others.

use crate::cluster_version::status::drained::{Drained, without_drained};
use crate::cluster_version::status::failure;
use crate::cluster_version::status::failure::UpdateError;
use crate::object::manifest::ObjectId;
use std::collections::BTreeMap;

#[derive(Clone, Debug, Default)]
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

    /// Nodes in graph order first.
    pub(crate) fn all(&self) -> impl Iterator<Item = &UpdateError> {
        self.nodes.values().chain(self.objects.values())
    }

    /// All of it as one error, where nodes of the cluster explain that some operators are not available.
    pub(crate) fn failure_beside(&self, drained: &Drained) -> Option<UpdateError> {
        failure::aggregate(without_drained(self.all().cloned().collect(), drained))
    }
}

#[cfg(test)]
mod tests;
