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
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn first_version_with_an_entry_decides() {
        let object = json!({"spec": {"featureSet": "TechPreviewNoUpgrade"}, "status": {"featureGates": [
            {"version": "5.0.0", "enabled": [{"name": "A"}, {"name": "B"}], "disabled": [{"name": "C"}]},
            {"version": "5.0.1"},
            {"version": "5.0.0", "enabled": [{"name": "Late"}]},
            {"enabled": [{"name": "Nobody"}]},
        ]}});
        let features = Features::of(&object);
        let enabled = |versions: &[&str]| {
            let gates = features.enabled(versions.iter().copied());
            gates.map(|gates| gates.iter().map(String::as_str).collect::<Vec<_>>().join(","))
        };
        assert_eq!(features.set, "TechPreviewNoUpgrade");
        assert_eq!(enabled(&["5.0.0"]).as_deref(), Some("A,B"));
        assert_eq!(enabled(&["5.0.1", "5.0.0"]).as_deref(), Some(""), "an entry without gates counts as well");
        assert_eq!(enabled(&["5.0.2", "5.0.0"]).as_deref(), Some("A,B"));
        assert_eq!(enabled(&["5.0.2"]), None);
    }

    #[test]
    fn other_content_gives_the_default_set_without_entries() {
        for object in [json!(null), json!({}), json!({"spec": {"featureSet": 7}, "status": {"featureGates": "x"}})] {
            assert_eq!(Features::of(&object), Features::default(), "{object}");
        }
    }
}
