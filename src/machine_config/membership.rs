//! Which pool a node belongs to.

use crate::machine_config::api::machine_config::MachineConfigPool;
use crate::object::selector;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use std::collections::BTreeMap;

/// The pool of control-plane nodes.
pub(crate) const MASTER: &str = "master";
/// The pool that all others but those of the control plane inherit from.
pub(crate) const WORKER: &str = "worker";
/// The pool of nodes that only vote in etcd.
pub(crate) const ARBITER: &str = "arbiter";

type Labels = BTreeMap<String, String>;

/// The pool that configures a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Membership {
    /// No pool selects it, or it runs Windows.
    Unmanaged,
    /// Two custom pools select it, so that nobody knows which configuration it should have: by name. It is left alone.
    Overlapping(Vec<String>),
    Member {
        pool: String,
        /// Another pool selects it, but the control plane's counts: its name.
        ignored: Option<String>,
    },
}

impl Membership {
    /// The control plane's pool counts before a custom one, and that before the workers'.
    pub fn of(labels: &Labels, pools: &[MachineConfigPool]) -> Membership {
        if is_windows(labels) {
            return Membership::Unmanaged;
        }
        let selecting = pools.iter().filter(|pool| selects(pool.spec.node_selector.as_ref(), labels));
        let mut names: Vec<&str> = selecting.filter_map(|pool| pool.metadata.name.as_deref()).collect();
        names.sort_unstable();
        let member = |pool: &str, ignored: Option<&str>| Membership::Member {
            pool: pool.to_owned(),
            ignored: ignored.map(str::to_owned),
        };
        let custom: Vec<&str> = names.iter().copied().filter(|name| ![MASTER, WORKER].contains(name)).collect();
        match custom.as_slice() {
            [] if names.contains(&MASTER) => member(MASTER, None),
            [] if names.contains(&WORKER) => member(WORKER, None),
            [] => Membership::Unmanaged,
            [custom] if names.contains(&MASTER) => member(MASTER, Some(custom)),
            [custom] => member(custom, None),
            several => Membership::Overlapping(several.iter().map(|&name| name.to_owned()).collect()),
        }
    }

    /// The name of the pool that configures the node.
    pub fn pool(&self) -> Option<&str> {
        match self {
            Membership::Member { pool, .. } => Some(pool),
            Membership::Unmanaged | Membership::Overlapping(_) => None,
        }
    }
}

/// So many nodes are named.
const NAMED: usize = 5;
/// Labels of nodes of the control plane: kubeadm sets the first one only.
const CONTROL_PLANE: [&str; 2] = ["node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"];

/// What is to be said of nodes that no pool configures although they could, each with the way out. In a cluster without pools
/// nothing is.
pub(crate) fn without_pool<'a>(
    nodes: impl IntoIterator<Item = (&'a str, &'a Labels)>,
    pools: &[MachineConfigPool],
) -> Vec<String> {
    let mut by_pool: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (name, labels) in nodes.into_iter().filter(|_| !pools.is_empty()) {
        if is_windows(labels) || Membership::of(labels, pools) != Membership::Unmanaged {
            continue;
        }
        let of_control_plane = CONTROL_PLANE.iter().any(|label| labels.contains_key(*label));
        by_pool.entry(if of_control_plane { MASTER } else { WORKER }).or_default().push(name);
    }
    by_pool.into_iter().map(|(pool, nodes)| left_alone(pool, &nodes, pools)).collect()
}

/// `pool`: the one that such nodes usually belong to.
fn left_alone(pool: &str, nodes: &[&str], pools: &[MachineConfigPool]) -> String {
    let named = nodes.iter().take(NAMED).copied().collect::<Vec<_>>();
    let more = match nodes.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let subject = match nodes {
        [_] => format!("node {} belongs to no MachineConfigPool, so that nothing configures it", named.join(", ")),
        _ => {
            format!("nodes {}{more} belong to no MachineConfigPool, so that nothing configures them", named.join(", "))
        }
    };
    let found = pools.iter().find(|found| found.metadata.name.as_deref() == Some(pool));
    let selector = found.and_then(|found| found.spec.node_selector.as_ref());
    let labels = selector.filter(|selector| selector.match_expressions.iter().flatten().next().is_none());
    let labels = labels.map(|selector| selector.match_labels.iter().flatten()).into_iter().flatten();
    let labels: Vec<String> = labels.map(|(key, value)| format!("{key}={value}")).collect();
    match labels.is_empty() {
        true => format!("{subject}: give them labels that the nodeSelector of a pool selects"),
        false => {
            let command = format!("kubectl label node {} {}", named.join(" "), labels.join(" "));
            format!("{subject}; to let pool {pool} configure nodes: {command}")
        }
    }
}

/// Nothing configures it, whatever pools there are.
pub(crate) fn is_windows(labels: &Labels) -> bool {
    labels.get("kubernetes.io/os").is_some_and(|os| os == "windows")
}

/// Unlike elsewhere in Kubernetes a selector without requirements selects nothing: a pool that was created without one must
/// not take in the whole cluster.
pub fn selects(selector: Option<&LabelSelector>, labels: &Labels) -> bool {
    selector.is_some_and(|selector| !selector::is_empty(selector) && selector::matches(selector, labels))
}

#[cfg(test)]
mod tests;
