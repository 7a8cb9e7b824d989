//! What marks a ClusterServiceVersion as one that is looked after: its labels, annotations and finalizer; and whether it belongs to
//! an OperatorGroup that fits.

use super::apis::{self, Apis};
use super::deployment::config::Subscriber;
use super::{Group, State, mode};
use crate::olm::api::cluster_service_version::{ClusterServiceVersion, reason};
use crate::olm::api::keys::{CLEANUP_FINALIZER, annotation, label};
use crate::olm::components;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// The group that it belongs to, or what keeps it from belonging to one.
pub(super) fn check<'a>(csv: &ClusterServiceVersion, groups: &'a [Group<'a>]) -> Result<&'a Group<'a>, State> {
    let group = match groups {
        [] => return Err(State::failed(reason::NO_OPERATOR_GROUP, "csv in namespace with no operatorgroups")),
        [group] => group,
        _ => {
            let message = "csv created in namespace with multiple operatorgroups, can't pick one automatically";
            return Err(State::failed(reason::TOO_MANY_OPERATOR_GROUPS, message));
        }
    };
    if group.targets.is_empty() {
        let message = "no targetNamespaces are matched operatorgroups namespace selection";
        return Err(State::failed(reason::NO_TARGET_NAMESPACES, message));
    }
    let own = csv.metadata.namespace.as_deref().unwrap_or_default();
    mode::check(&csv.spec.install_modes, own, &group.targets)
        .map_err(|(reason, message)| State::failed(reason, message))?;
    Ok(group)
}

/// A merge patch of what it lacks; `None` if it has everything. Its annotations go to its pods, so that nothing is written that
/// could be taken for all namespaces where none is selected: then the former ones stay.
pub(super) fn patch(csv: &ClusterServiceVersion, groups: &[Group<'_>], subscribers: &[Subscriber]) -> Option<Value> {
    let mut metadata = Map::new();
    let annotations = match groups {
        [group] if !group.targets.is_empty() => annotations(csv, group),
        _ => BTreeMap::new(),
    };
    let known = csv.metadata.annotations.clone().unwrap_or_default();
    let missing: Map<String, Value> = missing(annotations, &known);
    if !missing.is_empty() {
        metadata.insert("annotations".to_owned(), Value::Object(missing));
    }
    let wanted = labels(csv).into_iter().chain(memberships(csv, subscribers)).collect();
    let labels = self::missing(wanted, &csv.metadata.labels.clone().unwrap_or_default());
    if !labels.is_empty() {
        metadata.insert("labels".to_owned(), Value::Object(labels));
    }
    let finalizers = csv.metadata.finalizers.clone().unwrap_or_default();
    if !finalizers.iter().any(|it| it == CLEANUP_FINALIZER) {
        let all: Vec<&str> = finalizers.iter().map(String::as_str).chain([CLEANUP_FINALIZER]).collect();
        metadata.insert("finalizers".to_owned(), json!(all));
    }
    if metadata.is_empty() {
        return None;
    }
    metadata.insert("resourceVersion".to_owned(), json!(csv.metadata.resource_version));
    Some(json!({"metadata": metadata}))
}

fn missing(wanted: BTreeMap<String, String>, known: &BTreeMap<String, String>) -> Map<String, Value> {
    let missing = wanted.into_iter().filter(|(key, value)| known.get(key) != Some(value));
    missing.map(|(key, value)| (key, Value::String(value))).collect()
}

fn annotations(csv: &ClusterServiceVersion, group: &Group<'_>) -> BTreeMap<String, String> {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let all = [
        (annotation::OPERATOR_GROUP, text(&group.object.metadata.name)),
        (annotation::OPERATOR_NAMESPACE, text(&csv.metadata.namespace)),
        (annotation::TARGET_NAMESPACES, group.targets.join(",")),
    ];
    all.map(|(key, value)| (key.to_owned(), value)).into()
}

/// Which APIs it provides and requires, so that others can ask for it by them.
fn labels(csv: &ClusterServiceVersion) -> BTreeMap<String, String> {
    let labelled = |all: Apis, value: &'static str| {
        all.into_iter().map(move |api| (format!("{}{}", label::API, apis::hash(&api)), value.to_owned()))
    };
    labelled(apis::required(csv), "required").chain(labelled(apis::provided(csv), "provided")).collect()
}

/// It is a component of the operators whose Subscriptions have it installed.
fn memberships(csv: &ClusterServiceVersion, subscribers: &[Subscriber]) -> impl Iterator<Item = (String, String)> {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let (namespace, name) = (text(&csv.metadata.namespace), text(&csv.metadata.name));
    let keys = subscribers.iter().filter(move |it| !name.is_empty() && it.installed_csv == name);
    keys.filter_map(move |it| Some((components::key(&it.package, &namespace)?, String::new())))
}
