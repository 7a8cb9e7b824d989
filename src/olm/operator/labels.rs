//! The label by which webhooks select the namespaces of an OperatorGroup.

use super::Group;
use super::group::Namespaces;
use crate::olm::api::keys::label::OPERATOR_GROUP_UID;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// A merge patch for each namespace whose labels are not those of the groups that select it. `are_all`: there are no other groups, so that
/// labels of others are surplus. Groups for all namespaces have none.
pub(crate) fn patches<'a>(
    groups: impl Iterator<Item = &'a Group<'a>>,
    namespaces: &Namespaces,
    are_all: bool,
) -> Vec<(String, Value)> {
    let mut wanted: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    let mut known = BTreeSet::new();
    for group in groups {
        let Some(uid) = &group.object.metadata.uid else { continue };
        let key = format!("{OPERATOR_GROUP_UID}{uid}");
        known.insert(key.clone());
        let is_going = group.object.metadata.deletion_timestamp.is_some();
        for target in group.targets.iter().filter(|_| !is_going && !group.is_global()) {
            wanted.entry(target).or_default().insert(key.clone());
        }
    }
    let of = |(name, labels): (&String, &BTreeMap<String, String>)| {
        let wanted = wanted.get(name.as_str()).cloned().unwrap_or_default();
        let missing = wanted.iter().filter(|key| labels.get(*key).is_none_or(|value| !value.is_empty()));
        let mut patch: Map<String, Value> = missing.map(|key| (key.clone(), json!(""))).collect();
        let ours = labels.range(OPERATOR_GROUP_UID.to_owned()..).map(|(key, _)| key);
        let ours = ours.take_while(|key| key.starts_with(OPERATOR_GROUP_UID));
        let surplus = ours.filter(|key| !wanted.contains(*key) && (are_all || known.contains(*key)));
        patch.extend(surplus.map(|key| (key.clone(), Value::Null)));
        (!patch.is_empty()).then(|| (name.clone(), json!({"metadata": {"labels": patch}})))
    };
    namespaces.iter().filter_map(of).collect()
}
