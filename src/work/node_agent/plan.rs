//! What it takes to get from the configuration that the node has to another one.

use crate::api::machine_config::MachineConfig;
use crate::host::machine::{Planned, all_changes, bounded, effective};
use crate::host::record::Record;
use crate::host::system::System;
use crate::pools::agent::Plan;
use crate::pools::disruption::{Policies, PolicyError, UserPolicies, disruption};
use crate::pools::node::Target;
use crate::pools::reconcile::{self, StorageOverride};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeSet;

/// What administrators have said for all nodes in the MachineConfiguration.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    policies: Policies,
    overrides: BTreeSet<StorageOverride>,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum SettingsError {
    #[error("cannot read spec.nodeDisruptionPolicy of the MachineConfiguration: {0}; correct it")]
    Read(serde_json::Error),
    #[error("spec.nodeDisruptionPolicy of the MachineConfiguration: {0}")]
    Policy(#[from] PolicyError),
}

impl Settings {
    /// Of the MachineConfiguration, if there is one.
    pub(super) fn of(configuration: Option<&Value>) -> Result<Settings, SettingsError> {
        let at = |pointer| configuration.and_then(|object| object.pointer(pointer)).filter(|value| !value.is_null());
        let policies = match at("/spec/nodeDisruptionPolicy") {
            Some(policies) => Policies::new(&UserPolicies::deserialize(policies).map_err(SettingsError::Read)?)?,
            None => Policies::default(),
        };
        let listed = at("/spec/irreconcilableValidationOverrides/storage").and_then(Value::as_array);
        let overrides = [StorageOverride::Disks, StorageOverride::FileSystems, StorageOverride::Raid];
        let is_listed = |name: &str| listed.into_iter().flatten().any(|value| value.as_str() == Some(name));
        let overrides = overrides.into_iter().filter(|override_| is_listed(&override_.to_string())).collect();
        Ok(Settings { policies, overrides })
    }
}

/// `Err`: what to tell instead.
pub(super) fn plan(
    record: &Record,
    next: MachineConfig,
    to: &Target,
    settings: &Settings,
    system: System,
    forced: bool,
) -> Result<Planned, Plan> {
    let old = effective(&record.config, record.target.image.as_deref());
    let new = effective(&next, to.image.as_deref());
    let unreconcilable = |cause: String| Plan::Unreconcilable(bounded(&cause));
    let (from, target) = (record.target.config.as_str(), to.config.as_str());
    let inputs = std::slice::from_ref(&next);
    reconcile::check((from, &old), (target, &new), inputs, &settings.overrides)
        .map_err(|error| unreconcilable(error.to_string()))?;
    let changes = all_changes(&old, &new, forced).map_err(|error| unreconcilable(error.to_string()))?;
    if let Some(cause) = system.refusal(&changes, &new) {
        return Err(unreconcilable(cause));
    }
    let disruption = disruption(&changes, &settings.policies, forced);
    Ok(Planned {
        to: to.clone(),
        changes,
        drains: disruption.drains,
        reboots: disruption.reboots,
        actions: disruption.actions,
        forced,
        next,
    })
}

#[cfg(test)]
mod tests;
