//! Namespaces that do not exist when something is to be created in them: the rollout would wait until somebody creates them.

use super::{Blocker, Cause, LiveState, PlanInput};
use crate::cluster_version::graph::{Graph, Mode};
use crate::cluster_version::status::failure::Reason;
use crate::object::built_in::is_cluster_scoped;
use crate::object::definition::definitions;
use crate::object::manifest::{Manifest, ObjectId};
use std::collections::{BTreeMap, HashMap, HashSet};

/// Blockers for objects that are to be created; `created` has the position of the manifest and the identity of each.
pub(super) fn missing(input: &PlanInput<'_>, graph: &Graph, created: &[(usize, ObjectId)]) -> Vec<Blocker> {
    let makes = |m: &Manifest| m.id.group.is_empty() && m.id.kind == "Namespace" && m.delete() == Ok(false);
    let mut makers: HashMap<&str, Vec<usize>> = HashMap::new();
    for (at, maker) in input.manifests.iter().enumerate().filter(|(_, m)| makes(m)) {
        makers.entry(maker.id.name.as_str()).or_default().push(at);
    }
    // Manifests of cluster-scoped objects may name a namespace all the same.
    let cluster_scoped: HashSet<(String, String)> = definitions(input.manifests)
        .filter(|definition| !definition.namespaced)
        .map(|definition| (definition.group, definition.kind))
        .collect();
    let mut lacking: BTreeMap<&str, Vec<(&ObjectId, bool)>> = BTreeMap::new();
    let inside = |id: &ObjectId| {
        !id.namespace.is_empty()
            && !is_cluster_scoped(&id.group, &id.kind)
            && !cluster_scoped.contains(&(id.group.clone(), id.kind.clone()))
    };
    for (position, id) in created.iter().filter(|(_, id)| inside(id)) {
        let namespace = id.namespace.as_str();
        let late = match makers.get(namespace) {
            // An install creates namespaces first.
            Some(_) if input.mode == Mode::Install => false,
            Some(makers) => makers.iter().all(|maker| is_before(graph, *position, *maker)),
            None => false,
        };
        let never = !makers.contains_key(namespace) && input.namespaces.is_some();
        if (late || never) && !exists(input, namespace) {
            lacking.entry(namespace).or_default().push((id, late));
        }
    }
    lacking.into_iter().filter_map(|(namespace, objects)| blocker(namespace, &objects)).collect()
}

/// Whether the namespace exists or its state is unknown. `default` always exists.
fn exists(input: &PlanInput<'_>, name: &str) -> bool {
    if name == "default" {
        return true;
    }
    let live = input.live.get(&ObjectId::new("", "Namespace", "", name));
    live.is_some_and(|live| matches!(live.state, LiveState::Exists(_) | LiveState::Unreadable(_)))
        || input.namespaces.as_ref().is_some_and(|namespaces| namespaces.contains(name))
}

fn blocker(namespace: &str, objects: &[(&ObjectId, bool)]) -> Option<Blocker> {
    let (first, late) = objects.first()?;
    let others = if objects.len() > 1 { format!(" and {} more", objects.len() - 1) } else { String::new() };
    let why = if *late {
        "but comes later in the release: create it before the update"
    } else {
        "and the release does not contain it: create it before the update"
    };
    let message = format!("it does not exist when {first}{others} are to be created in it, {why}");
    let id = ObjectId::new("", "Namespace", "", namespace);
    Some(Blocker::new(Cause::Refused, id, Reason::ResourceNotFound.as_str(), message))
}

/// Whether the rollout finishes the first manifest before it starts the second.
fn is_before(graph: &Graph, first: usize, second: usize) -> bool {
    let (Some(from), Some(to)) = (graph.node_of(first), graph.node_of(second)) else { return false };
    if from == to {
        let order = graph.node(from).map(|node| node.manifests.as_slice()).unwrap_or_default();
        let place = |manifest: usize| order.iter().position(|m| *m == manifest);
        return place(first) < place(second);
    }
    graph.is_before(from, to)
}
