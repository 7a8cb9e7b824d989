//! Which MachineConfigs the configuration of a pool is rendered of.

use super::membership::selects;
use crate::machine_config::api::machine_config::{MachineConfig, MachineConfigPool};

/// The pool that a MachineConfig was rendered for, if it was.
pub(crate) fn rendered_for(config: &MachineConfig) -> Option<&str> {
    let owner = config.metadata.owner_references.iter().flatten().find(|owner| owner.controller == Some(true));
    owner.filter(|owner| owner.kind == "MachineConfigPool").map(|owner| owner.name.as_str())
}

/// Whether the pool selects it. What was rendered is no input of anything, and neither is what is being deleted.
pub(crate) fn is_input(pool: &MachineConfigPool, config: &MachineConfig) -> bool {
    let usable = rendered_for(config).is_none() && config.metadata.deletion_timestamp.is_none();
    let labels = || config.metadata.labels.clone().unwrap_or_default();
    usable && selects(pool.spec.machine_config_selector.as_ref(), &labels())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_was_rendered_or_is_being_deleted_is_no_input() {
        let selector = json!({"matchLabels": {"role": "worker"}});
        let mut pool = MachineConfigPool::new("worker", Default::default());
        pool.spec.machine_config_selector = serde_json::from_value(selector).unwrap();
        let config = |metadata| {
            let mut config = MachineConfig::new("a", Default::default());
            config.metadata = serde_json::from_value(metadata).unwrap();
            config
        };
        let owner =
            |kind: &str| json!([{"apiVersion": "v1", "kind": kind, "name": "worker", "uid": "1", "controller": true}]);
        for (metadata, expected) in [
            (json!({"labels": {"role": "worker"}}), true),
            (json!({"labels": {"role": "worker"}, "ownerReferences": owner("KubeletConfig")}), true),
            (json!({"labels": {"role": "worker"}, "ownerReferences": owner("MachineConfigPool")}), false),
            (json!({"labels": {"role": "worker"}, "deletionTimestamp": "2026-01-01T00:00:00Z"}), false),
            (json!({"labels": {"role": "master"}}), false),
        ] {
            assert_eq!(is_input(&pool, &config(metadata.clone())), expected, "{metadata}");
        }
    }
}
