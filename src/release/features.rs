//! The FeatureGate object: the feature set, and the gates that are enabled for each release version.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// The part of `featuregates.config.openshift.io/cluster` that is used. Without the object the default set applies and no
/// version has an entry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Features {
    /// `spec.featureSet`; empty means `Default`.
    pub set: String,
    /// Enabled gates by release version, from `status.featureGates`.
    pub gates: BTreeMap<String, BTreeSet<String>>,
}

impl Features {
    pub(crate) fn of(object: &Value) -> Features {
        let text = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
        let enabled = |entry: &Value| {
            let gates = entry.get("enabled").and_then(Value::as_array).into_iter().flatten();
            gates.filter_map(|gate| text(gate, "name")).collect()
        };
        let entries = object.pointer("/status/featureGates").and_then(Value::as_array).into_iter().flatten();
        let mut gates = BTreeMap::new();
        for entry in entries {
            if let Some(version) = text(entry, "version") {
                // The schema makes versions unique; should one come twice, the first entry counts.
                gates.entry(version).or_insert_with(|| enabled(entry));
            }
        }
        let set = object.pointer("/spec/featureSet").and_then(Value::as_str).unwrap_or_default().to_owned();
        Features { set, gates }
    }

    /// The enabled gates of the first of these versions that has an entry.
    pub(crate) fn enabled<'a>(&self, versions: impl IntoIterator<Item = &'a str>) -> Option<&BTreeSet<String>> {
        versions.into_iter().find_map(|version| self.gates.get(version))
    }
}

#[cfg(test)]
mod tests;
