//! What keeps a cluster from being updated to another minor version: the condition `Upgradeable`, and the precondition of the
//! same name. Updates within a minor version are not affected.

mod admin_gates;

pub(crate) use admin_gates::{Gate, gates};

use crate::cluster_version::status::Risk;
use crate::error::listed;
use crate::object::condition::find;
use crate::object::condition::{Condition, ConditionStatus};
use crate::object::read::Read;
use crate::release::api::ComponentOverride;
use std::collections::BTreeMap;

/// Most bytes of the names of objects in one message.
const NAMES: usize = 1000;

/// A ClusterOperator whose condition `Upgradeable` is `False`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NotUpgradeable {
    pub name: String,
    pub reason: String,
    pub message: String,
}

/// Everything that the risks depend on.
#[derive(Clone, Debug)]
pub(crate) struct Sources<'a> {
    /// Version of the release that is being applied.
    pub version: &'a str,
    /// The rollout of that release has not completed.
    pub updating: bool,
    pub overrides: &'a [ComponentOverride],
    /// Objects that the release deletes and that exist.
    pub deletions: &'a [String],
    /// Of all ClusterOperators of the cluster, in the order of their names.
    pub operators: &'a Read<Vec<NotUpgradeable>>,
    /// Data of the ConfigMap with the gates, which belongs to the release.
    pub gates: &'a Read<BTreeMap<String, String>>,
    /// Data of the ConfigMap with the acknowledgements, which belongs to the administrator.
    pub acks: &'a Read<BTreeMap<String, String>>,
}

/// All of them, in a fixed order. What cannot be read counts as a risk.
pub(crate) fn risks(sources: &Sources<'_>) -> Vec<Risk> {
    let mut risks = Vec::new();
    let url = documentation(sources.version);
    let mut add = |name: &str, message: String| {
        risks.push(Risk { name: name.to_owned(), message, url: url.clone() });
    };
    if sources.updating {
        let message = "An update is in progress: condition Progressing says how far it is".to_owned();
        add("ClusterVersionUpdating", message);
    }
    let unmanaged: Vec<String> = sources.overrides.iter().filter(|o| o.unmanaged).map(name_of).collect();
    if !unmanaged.is_empty() {
        let names = listed(&unmanaged, ", ", NAMES, |n| format!("and {n} more"));
        add("ClusterVersionOverrides", format!("spec.overrides makes objects unmanaged, remove it first: {names}"));
    }
    if !sources.deletions.is_empty() {
        let names = listed(sources.deletions, ", ", NAMES, |n| format!("and {n} more"));
        let message = format!("Objects that the release deletes still exist, look at their finalizers: {names}");
        add("ResourceDeletionInProgress", message);
    }
    risks.extend(admin_gates::risks(sources.version, sources.gates, sources.acks, &url));
    risks.extend(of_operators(sources.operators, &url));
    risks
}

/// Those whose condition `Upgradeable` is `False`, of operators by name and conditions.
pub(crate) fn refusals<'a>(operators: impl IntoIterator<Item = (&'a str, &'a [Condition])>) -> Vec<NotUpgradeable> {
    let refused = operators.into_iter().filter_map(|(name, conditions)| {
        let condition = find(conditions, "Upgradeable").filter(|c| c.status == ConditionStatus::False)?;
        Some(NotUpgradeable {
            name: name.to_owned(),
            reason: condition.reason.clone(),
            message: condition.message.clone(),
        })
    });
    refused.collect()
}

fn of_operators(operators: &Read<Vec<NotUpgradeable>>, url: &str) -> Vec<Risk> {
    let risk = |name: String, message: String| Risk { name, message, url: url.to_owned() };
    match operators {
        Read::Value(operators) => operators
            .iter()
            .map(|operator| {
                let NotUpgradeable { name, reason, message } = operator;
                let cause = [reason.as_str(), message.as_str()].into_iter().filter(|text| !text.is_empty());
                let cause: Vec<&str> = cause.collect();
                let cause = if cause.is_empty() { "it gives no reason".to_owned() } else { cause.join(": ") };
                let message =
                    format!("Cluster operator {name} should not be updated to another minor version: {cause}");
                risk(format!("ClusterOperatorUpgradeable-{name}"), message)
            })
            .collect(),
        // Before the first release has defined the kind.
        Read::Absent => Vec::new(),
        Read::Failed(cause) => {
            let message = format!("Whether the cluster operators may be updated is not known: {cause}");
            vec![risk("ClusterOperatorUpgradeableUnknown".to_owned(), message)]
        }
    }
}

fn name_of(component: &ComponentOverride) -> String {
    let ComponentOverride { kind, namespace, name, .. } = component;
    if namespace.is_empty() { format!("{kind} {name}") } else { format!("{kind} {namespace}/{name}") }
}

/// The documentation of the release that runs.
fn documentation(version: &str) -> String {
    let pages = "https://docs.openshift.com/container-platform";
    match crate::version::minor(version) {
        Some((major, minor)) => format!("{pages}/{major}.{minor}/updating/index.html"),
        None => format!("{pages}/latest/updating/index.html"),
    }
}

#[cfg(test)]
mod tests;
