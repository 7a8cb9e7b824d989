//! Which rights a plan would give that nobody has today by the version before.

use super::Forecast;
use super::known::{Key, Known};
use crate::olm::api::cluster_service_version::{ClusterServiceVersion, StrategyDetails, StrategyPermissions};
use crate::olm::bundle::CSV;
use crate::olm::operator::rights::lacking;
use crate::olm::plan::step::Item;
use k8s_openapi::api::rbac::v1::PolicyRule;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;

const RBAC: &str = "rbac.authorization.k8s.io";

/// What somebody may do after a plan and not before it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NewRights {
    /// The ClusterServiceVersion or the role of a bundle that asks for them.
    pub of: String,
    /// The ServiceAccount that gets them; empty for a role that says nothing of it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub account: String,
    /// Whether they count in all namespaces, or only in that of the operator.
    pub everywhere: bool,
    /// Such as `get, list configmaps`.
    pub rules: Vec<String>,
}

/// Adds the rights that the steps give. `known` is what there is before.
pub(super) fn add(items: &[Item], known: &Known, forecast: &mut Forecast) {
    for item in items {
        if item.is(CSV) {
            forecast.rights.extend(of_csv(item, known));
        } else if item.group == RBAC && item.object.pointer("/metadata/labels").is_none_or(is_of_bundle) {
            forecast.rights.extend(of_role(item, known));
        }
    }
}

/// Whether it is none of the roles that are made of what a ClusterServiceVersion asks for.
fn is_of_bundle(labels: &Value) -> bool {
    labels.get(crate::olm::api::keys::label::PERMISSIONS_HASH).is_none()
}

fn strategy(csv: &Value) -> Option<(String, StrategyDetails)> {
    let csv: ClusterServiceVersion = serde_json::from_value(csv.clone()).ok()?;
    Some((csv.spec.replaces, csv.spec.install.spec?))
}

type Given = BTreeMap<(String, bool), Vec<PolicyRule>>;

/// By account, and whether they count everywhere.
fn given(strategy: &StrategyDetails) -> Given {
    let mut all = Given::new();
    let scoped = |of: &[StrategyPermissions], everywhere: bool| -> Vec<((String, bool), Vec<PolicyRule>)> {
        of.iter().map(|it| ((it.service_account_name.clone(), everywhere), it.rules.clone())).collect()
    };
    let both = [scoped(&strategy.permissions, false), scoped(&strategy.cluster_permissions, true)];
    for (key, rules) in both.into_iter().flatten() {
        all.entry(key).or_default().extend(rules);
    }
    all
}

fn of_csv(item: &Item, known: &Known) -> Vec<NewRights> {
    let Some((replaces, wanted)) = strategy(&item.object) else { return Vec::new() };
    let namespace = item.object.pointer("/metadata/namespace").and_then(Value::as_str).unwrap_or_default();
    let before = [replaces.as_str(), item.name.as_str()].map(|name| known.object(&Key::new(CSV, namespace, name)));
    let before: Vec<Given> =
        before.iter().flatten().filter_map(|csv| strategy(csv)).map(|(_, strategy)| given(&strategy)).collect();
    let mut found = Vec::new();
    for ((account, everywhere), rules) in given(&wanted) {
        // Who may do something everywhere may do it in one namespace too.
        let scopes = if everywhere { vec![true] } else { vec![false, true] };
        let keys = scopes.into_iter().map(|scope| (account.clone(), scope));
        let today: Vec<PolicyRule> =
            keys.flat_map(|key| before.iter().filter_map(move |given| given.get(&key).cloned())).flatten().collect();
        let rules = lacking(&today, &rules);
        if !rules.is_empty() {
            found.push(NewRights { of: item.name.clone(), account, everywhere, rules });
        }
    }
    found
}

/// A role that is part of the bundle. Who gets it says its binding.
fn of_role(item: &Item, known: &Known) -> Option<NewRights> {
    let everywhere = match item.kind.as_str() {
        "ClusterRole" => true,
        "Role" => false,
        _ => return None,
    };
    let rules = |object: &Value| -> Vec<PolicyRule> {
        object.get("rules").and_then(|rules| serde_json::from_value(rules.clone()).ok()).unwrap_or_default()
    };
    let of_kind = known.all((RBAC, &item.kind)).find(|(key, _)| key.name == item.name);
    let today = of_kind.map(|(_, object)| rules(object)).unwrap_or_default();
    let rules = lacking(&today, &rules(&item.object));
    let of = format!("{} {}", item.kind, item.name);
    (!rules.is_empty()).then(|| NewRights { of, account: String::new(), everywhere, rules })
}
