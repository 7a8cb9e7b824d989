//! What administrators have said for all nodes in the MachineConfiguration `cluster`.

use super::disruption::{Policies, PolicyError, UserPolicies};
use super::reconcile::StorageOverride;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeSet;

#[derive(Clone, Debug, Default)]
pub(crate) struct Settings {
    pub policies: Policies,
    pub overrides: BTreeSet<StorageOverride>,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum SettingsError {
    #[error("cannot read spec.nodeDisruptionPolicy of the MachineConfiguration: {0}; correct it")]
    Read(serde_json::Error),
    #[error("spec.nodeDisruptionPolicy of the MachineConfiguration: {0}")]
    Policy(#[from] PolicyError),
}

impl Settings {
    /// Of the MachineConfiguration, if there is one.
    pub(crate) fn of(configuration: Option<&Value>) -> Result<Settings, SettingsError> {
        let policies = match at(configuration, "/spec/nodeDisruptionPolicy") {
            Some(policies) => Policies::new(&UserPolicies::deserialize(policies).map_err(SettingsError::Read)?)?,
            None => Policies::default(),
        };
        Ok(Settings { policies, overrides: overrides(configuration) })
    }
}

fn at<'a>(configuration: Option<&'a Value>, pointer: &str) -> Option<&'a Value> {
    configuration.and_then(|object| object.pointer(pointer)).filter(|value| !value.is_null())
}

/// The changes of storage that the MachineConfiguration allows, if there is one.
pub(crate) fn overrides(configuration: Option<&Value>) -> BTreeSet<StorageOverride> {
    let listed = at(configuration, "/spec/irreconcilableValidationOverrides/storage").and_then(Value::as_array);
    let all = [StorageOverride::Disks, StorageOverride::FileSystems, StorageOverride::Raid];
    let is_listed = |name: &str| listed.into_iter().flatten().any(|value| value.as_str() == Some(name));
    all.into_iter().filter(|override_| is_listed(&override_.to_string())).collect()
}
