//! Namespaces that are not there when something is to be created in them: the pass would wait for somebody to make them.

use super::{Blocker, Cause, Question, Sight};
use crate::graph::{Graph, Mode};
use crate::payload::{Manifest, ObjectId};
use std::collections::{BTreeMap, HashMap};

/// What stands in the way of these, which are to be created: position of the manifest and identity.
pub(super) fn missing(question: &Question<'_>, graph: &Graph, created: &[(usize, ObjectId)]) -> Vec<Blocker> {
    let makes = |m: &Manifest| m.id.group.is_empty() && m.id.kind == "Namespace" && m.delete() == Ok(false);
    let made: HashMap<&str, usize> = question
        .manifests
        .iter()
        .enumerate()
        .filter(|(_, m)| makes(m))
        .map(|(at, m)| (m.id.name.as_str(), at))
        .collect();
    let mut lacking: BTreeMap<&str, Vec<(&ObjectId, bool)>> = BTreeMap::new();
    for (position, id) in created.iter().filter(|(_, id)| !id.namespace.is_empty()) {
        let namespace = id.namespace.as_str();
        let late = match made.get(namespace) {
            // An install lays them first.
            Some(_) if question.mode == Mode::Install => false,
            Some(maker) => is_before(graph, *position, *maker),
            None => false,
        };
        let nobody = !made.contains_key(namespace) && question.namespaces.is_some();
        if (late || nobody) && !is_there(question, namespace) {
            lacking.entry(namespace).or_default().push((id, late));
        }
    }
    lacking.into_iter().filter_map(|(namespace, objects)| told(namespace, &objects)).collect()
}

/// Known to be there, or not known not to be.
fn is_there(question: &Question<'_>, name: &str) -> bool {
    let found = question.found.get(&ObjectId::new("", "Namespace", "", name));
    let seen = found.is_some_and(|found| matches!(found.sight, Sight::There(_) | Sight::Unread(_)));
    seen || question.namespaces.as_ref().is_some_and(|namespaces| namespaces.contains(name))
}

fn told(namespace: &str, objects: &[(&ObjectId, bool)]) -> Option<Blocker> {
    let (first, late) = objects.first()?;
    let others = if objects.len() > 1 { format!(" and {} more", objects.len() - 1) } else { String::new() };
    let why = if *late {
        "but comes later in the release: create it before the update"
    } else {
        "and the release does not bring it: create it before the update"
    };
    let message = format!("it is not there when {first}{others} are to be created in it, {why}");
    let id = ObjectId::new("", "Namespace", "", namespace);
    Some(Blocker::of(Cause::Refused, id, "UpdatePayloadResourceNotFound", message))
}

/// Whether the pass must be done with the first manifest before it comes to the second.
fn is_before(graph: &Graph, first: usize, second: usize) -> bool {
    let (Some(from), Some(to)) = (graph.node_of(first), graph.node_of(second)) else { return false };
    if from == to {
        let order = graph.node(from).map(|node| node.manifests.as_slice()).unwrap_or_default();
        let place = |manifest: usize| order.iter().position(|m| *m == manifest);
        return place(first) < place(second);
    }
    let mut reached = vec![from];
    let mut seen = vec![false; graph.len()];
    while let Some(node) = reached.pop() {
        for next in graph.successors(node) {
            if next == to {
                return true;
            }
            if let Some(seen) = seen.get_mut(next)
                && !std::mem::replace(seen, true)
            {
                reached.push(next);
            }
        }
    }
    false
}
