//! Which pool a node belongs to.

use crate::api::machine_config::MachineConfigPool;
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
        if labels.get("kubernetes.io/os").is_some_and(|os| os == "windows") {
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

/// Unlike elsewhere in Kubernetes a selector without requirements selects nothing: a pool that was created without one must
/// not take in the whole cluster.
pub fn selects(selector: Option<&LabelSelector>, labels: &Labels) -> bool {
    let Some(selector) = selector else { return false };
    let equal = selector.match_labels.iter().flatten();
    let expressions = selector.match_expressions.iter().flatten();
    if equal.clone().next().is_none() && expressions.clone().next().is_none() {
        return false;
    }
    let holds = |key: &String, operator: &str, values: &[String]| {
        let value = labels.get(key);
        let listed = value.is_some_and(|value| values.contains(value));
        match operator {
            "In" => listed,
            "NotIn" => !listed,
            "Exists" => value.is_some(),
            "DoesNotExist" => value.is_none(),
            // The API server's schema allows any text.
            _ => false,
        }
    };
    equal.into_iter().all(|(key, value)| labels.get(key) == Some(value))
        && expressions.into_iter().all(|it| holds(&it.key, &it.operator, it.values.as_deref().unwrap_or_default()))
}

#[cfg(test)]
mod tests;
