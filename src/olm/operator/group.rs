//! OperatorGroups: which namespaces they select, and what their status says.

use super::mode::ALL;
use crate::object::selector;
use crate::olm::api::operator_group::{OperatorGroup, OperatorGroupSpec, condition};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Labels of namespaces by their names.
pub(crate) type Namespaces = BTreeMap<String, BTreeMap<String, String>>;

/// The targets, sorted: an empty name alone for all namespaces, nothing where nothing is selected. A group that names the empty
/// namespace among its targets selects nothing: it must never be taken for all of them.
pub(crate) fn targets(spec: &OperatorGroupSpec, namespaces: &Namespaces) -> Vec<String> {
    let named: BTreeSet<&String> = spec.target_namespaces.iter().collect();
    if named.iter().any(|name| *name == ALL) {
        return Vec::new();
    }
    if !named.is_empty() {
        return named.into_iter().cloned().collect();
    }
    let Some(given) = spec.selector.as_ref().filter(|it| !it.labels.is_empty() || !selector::is_empty(&it.selector))
    else {
        return vec![ALL.to_owned()];
    };
    // What cannot be the value of a label is none that a namespace has.
    let is_labelled = |labels: &BTreeMap<String, String>| {
        given
            .labels
            .iter()
            .all(|(key, value)| value.as_str().is_some() && labels.get(key).map(String::as_str) == value.as_str())
    };
    let is_selected =
        |labels: &BTreeMap<String, String>| selector::matches(&given.selector, labels) && is_labelled(labels);
    namespaces.iter().filter(|(_, labels)| is_selected(labels)).map(|(name, _)| name.clone()).collect()
}

/// What the status of a group depends on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GroupFacts<'a> {
    pub group: &'a OperatorGroup,
    pub targets: &'a [String],
    /// Whether there are other groups in its namespace.
    pub has_others: bool,
    /// Whether the account exists that it names.
    pub account_exists: bool,
}

/// A merge patch of the status with what differs; `None` if nothing does.
pub(crate) fn status_patch(facts: &GroupFacts<'_>, now: Timestamp) -> Option<Value> {
    let GroupFacts { group, targets, .. } = facts;
    let before = group.status.as_ref();
    let mut patch = Map::new();
    if before.is_none_or(|before| before.namespaces != *targets) {
        patch.insert("namespaces".to_owned(), json!(targets));
        patch.insert("lastUpdated".to_owned(), json!(Time(now)));
    }
    let account = (!group.spec.service_account_name.is_empty() && facts.account_exists).then(|| {
        json!({"kind": "ServiceAccount", "apiVersion": "v1", "name": group.spec.service_account_name,
            "namespace": group.metadata.namespace})
    });
    let known = before.and_then(|before| before.service_account_ref.as_ref());
    let name = |reference: &Value| reference.get("name").and_then(Value::as_str).map(str::to_owned);
    if known.and_then(|known| known.name.clone()) != account.as_ref().and_then(name) {
        patch.insert("serviceAccountRef".to_owned(), json!(account));
    }
    let conditions = before.map(|before| before.conditions.clone()).unwrap_or_default();
    let now = conditions_now(facts, &conditions, now);
    if now != conditions {
        patch.insert("conditions".to_owned(), json!(now));
    }
    (!patch.is_empty()).then_some(Value::Object(patch))
}

/// Those of others stay as they are.
fn conditions_now(facts: &GroupFacts<'_>, before: &[Condition], now: Timestamp) -> Vec<Condition> {
    let account = &facts.group.spec.service_account_name;
    let missing = (!account.is_empty() && !facts.account_exists)
        .then(|| (condition::SERVICE_ACCOUNT_NOT_FOUND, format!("ServiceAccount {account} not found")));
    let several = facts.has_others.then(|| {
        (condition::MULTIPLE_FOUND, "Multiple OperatorGroup found in the same namespace; delete all but one".to_owned())
    });
    let wanted = [(condition::SERVICE_ACCOUNT, missing), (condition::MULTIPLE, several)];
    let others = before.iter().filter(|known| wanted.iter().all(|(type_, _)| known.type_ != *type_));
    let ours = wanted.iter().filter_map(|(type_, wanted)| {
        let (reason, message) = wanted.as_ref()?;
        let known = before.iter().find(|known| known.type_ == *type_ && known.status == "True");
        let since = known.map_or(Time(now), |known| known.last_transition_time.clone());
        Some(Condition {
            type_: (*type_).to_owned(),
            status: "True".to_owned(),
            reason: (*reason).to_owned(),
            message: message.clone(),
            last_transition_time: since,
            observed_generation: None,
        })
    });
    others.cloned().chain(ours).collect()
}
