//! What it takes to get from the configuration that the node has to another one.

use crate::api::machine_config::MachineConfig;
use crate::host::machine::{Planned, all_changes, bounded, effective};
use crate::host::record::Record;
use crate::host::system::System;
use crate::pools::agent::Plan;
use crate::pools::disruption::disruption;
use crate::pools::node::Target;
use crate::pools::reconcile;
use crate::pools::settings::Settings;

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
