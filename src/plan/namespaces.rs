//! Namespaces that are not there when something is to be created in them: the pass would wait for somebody to make them.

use super::found::definitions;
use super::{Blocker, Cause, Question, Sight};
use crate::graph::{Graph, Mode};
use crate::payload::{Manifest, ObjectId};
use crate::status::failure::Reason;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

/// Kinds of Kubernetes' own that are not in a namespace.
const BUILT_IN: [(&str, &[&str]); 8] = [
    ("", &["Namespace", "Node", "PersistentVolume"]),
    (
        "admissionregistration.k8s.io",
        &[
            "MutatingAdmissionPolicy",
            "MutatingAdmissionPolicyBinding",
            "MutatingWebhookConfiguration",
            "ValidatingAdmissionPolicy",
            "ValidatingAdmissionPolicyBinding",
            "ValidatingWebhookConfiguration",
        ],
    ),
    ("apiextensions.k8s.io", &["CustomResourceDefinition"]),
    ("apiregistration.k8s.io", &["APIService"]),
    ("flowcontrol.apiserver.k8s.io", &["FlowSchema", "PriorityLevelConfiguration"]),
    ("rbac.authorization.k8s.io", &["ClusterRole", "ClusterRoleBinding"]),
    ("scheduling.k8s.io", &["PriorityClass"]),
    ("storage.k8s.io", &["CSIDriver", "StorageClass", "VolumeAttachment"]),
];

/// What stands in the way of these, which are to be created: position of the manifest and identity.
pub(super) fn missing(question: &Question<'_>, graph: &Graph, created: &[(usize, ObjectId)]) -> Vec<Blocker> {
    let makes = |m: &Manifest| m.id.group.is_empty() && m.id.kind == "Namespace" && m.delete() == Ok(false);
    let mut made: HashMap<&str, Vec<usize>> = HashMap::new();
    for (at, maker) in question.manifests.iter().enumerate().filter(|(_, m)| makes(m)) {
        made.entry(maker.id.name.as_str()).or_default().push(at);
    }
    let no_namespace = of_the_cluster(question.manifests);
    let mut lacking: BTreeMap<&str, Vec<(&ObjectId, bool)>> = BTreeMap::new();
    let inside =
        |id: &ObjectId| !id.namespace.is_empty() && !no_namespace.contains(&(id.group.clone(), id.kind.clone()));
    for (position, id) in created.iter().filter(|(_, id)| inside(id)) {
        let namespace = id.namespace.as_str();
        let late = match made.get(namespace) {
            // An install lays them first.
            Some(_) if question.mode == Mode::Install => false,
            Some(makers) => makers.iter().all(|maker| is_before(graph, *position, *maker)),
            None => false,
        };
        let nobody = !made.contains_key(namespace) && question.namespaces.is_some();
        if (late || nobody) && !is_there(question, namespace) {
            lacking.entry(namespace).or_default().push((id, late));
        }
    }
    lacking.into_iter().filter_map(|(namespace, objects)| told(namespace, &objects)).collect()
}

/// Group and kind of what has no namespace even if its manifest names one, as far as that is known without a cluster.
fn of_the_cluster(manifests: &[Arc<Manifest>]) -> HashSet<(String, String)> {
    let known = BUILT_IN.iter().flat_map(|(group, kinds)| kinds.iter().map(|kind| (*group, *kind)));
    let known = known.map(|(group, kind)| (group.to_owned(), kind.to_owned()));
    let brought = definitions(manifests).filter(|definition| !definition.namespaced);
    let brought = brought.map(|definition| (definition.group, definition.kind));
    known.chain(brought).collect()
}

/// Known to be there, or not known not to be. The one called `default` always is.
fn is_there(question: &Question<'_>, name: &str) -> bool {
    if name == "default" {
        return true;
    }
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
    Some(Blocker::of(Cause::Refused, id, Reason::ResourceNotFound.as_str(), message))
}

/// Whether the pass must be done with the first manifest before it comes to the second.
fn is_before(graph: &Graph, first: usize, second: usize) -> bool {
    let (Some(from), Some(to)) = (graph.node_of(first), graph.node_of(second)) else { return false };
    if from == to {
        let order = graph.node(from).map(|node| node.manifests.as_slice()).unwrap_or_default();
        let place = |manifest: usize| order.iter().position(|m| *m == manifest);
        return place(first) < place(second);
    }
    graph.is_before(from, to)
}
