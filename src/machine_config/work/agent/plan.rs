//! What it takes to get from the configuration that the node has to another one.

use crate::machine_config::agent::Plan;
use crate::machine_config::api::machine_config::MachineConfig;
use crate::machine_config::disruption::disruption_on;
use crate::machine_config::host::machine::{Planned, all_changes, bounded, effective};
use crate::machine_config::host::record::{Record, Repairs};
use crate::machine_config::host::system::System;
use crate::machine_config::node::Target;
use crate::machine_config::reconcile;
use crate::machine_config::settings::Settings;
use std::collections::BTreeSet;
use std::sync::Arc;

/// What a plan depends on besides the two configurations.
#[derive(Clone, Debug)]
pub(super) struct Given {
    pub settings: Settings,
    pub system: System,
    pub forced: bool,
    pub repairs: Repairs,
    /// Services that the node lacks.
    pub lacking: BTreeSet<String>,
}

/// `Err`: what to tell instead.
pub(super) fn plan(record: &Record, next: MachineConfig, to: &Target, given: &Given) -> Result<Planned, Plan> {
    let Given { settings, system, forced, repairs, lacking } = given;
    let old = effective(&record.config, record.target.image.as_deref());
    let new = effective(&next, to.image.as_deref());
    let unreconcilable = |cause: String| Plan::Unreconcilable(bounded(&cause));
    let (from, target) = (record.target.config.as_str(), to.config.as_str());
    let inputs = std::slice::from_ref(&next);
    reconcile::check((from, &old), (target, &new), inputs, &settings.overrides)
        .map_err(|error| unreconcilable(error.to_string()))?;
    let mut changes = all_changes(&old, &new, *forced).map_err(|error| unreconcilable(error.to_string()))?;
    repairs.add_to(&mut changes, &new);
    if let Some(cause) = system.refusal(&changes, &new) {
        return Err(unreconcilable(cause));
    }
    let disruption = disruption_on(lacking, &changes, &settings.policies, *forced);
    // They have been compared, and may be as large as the new ones.
    changes.files.iter_mut().filter_map(|file| file.old.as_mut()).for_each(|old| old.contents = Arc::default());
    Ok(Planned {
        to: to.clone(),
        changes,
        drains: disruption.drains,
        reboots: disruption.reboots,
        actions: disruption.actions,
        forced: *forced,
        repairs: repairs.clone(),
        assumed: disruption.assumed,
        next,
    })
}

#[cfg(test)]
mod tests;
