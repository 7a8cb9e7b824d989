//! What the FeatureGate object says: the feature set, and by release version which gates are enabled
//! (payload-and-apply §2.3, §2.4).

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// `featuregates.config.openshift.io/cluster`, as far as it counts here. Without the object: the default set, and
/// nothing decided about gates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// `spec.featureSet`; empty means `Default`.
    pub set: String,
    /// Enabled gates by the version they are decided for (`status.featureGates`).
    pub gates: BTreeMap<String, BTreeSet<String>>,
}

impl Features {
    pub fn of(object: &Value) -> Features {
        let text = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
        let enabled = |entry: &Value| {
            let gates = entry.get("enabled").and_then(Value::as_array).into_iter().flatten();
            gates.filter_map(|gate| text(gate, "name")).collect()
        };
        let entries = object.pointer("/status/featureGates").and_then(Value::as_array).into_iter().flatten();
        let mut gates = BTreeMap::new();
        for entry in entries {
            if let Some(version) = text(entry, "version") {
                // Versions are unique in the schema; where they are not, the first counts.
                gates.entry(version).or_insert_with(|| enabled(entry));
            }
        }
        let set = object.pointer("/spec/featureSet").and_then(Value::as_str).unwrap_or_default().to_owned();
        Features { set, gates }
    }

    /// The gates enabled for the first of these versions that anything is decided for.
    pub fn enabled<'a>(&self, versions: impl IntoIterator<Item = &'a str>) -> Option<&BTreeSet<String>> {
        versions.into_iter().find_map(|version| self.gates.get(version))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_first_version_with_an_entry_decides() {
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
        assert_eq!(enabled(&["5.0.1", "5.0.0"]).as_deref(), Some(""), "an entry without gates is a decision too");
        assert_eq!(enabled(&["5.0.2", "5.0.0"]).as_deref(), Some("A,B"));
        assert_eq!(enabled(&["5.0.2"]), None);
    }

    #[test]
    fn anything_else_is_the_default_set_and_no_decision() {
        for object in [json!(null), json!({}), json!({"spec": {"featureSet": 7}, "status": {"featureGates": "x"}})] {
            assert_eq!(Features::of(&object), Features::default(), "{object}");
        }
    }
}
