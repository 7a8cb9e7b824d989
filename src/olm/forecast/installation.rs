//! What installing an operator would write once its ClusterServiceVersion is there: its Deployments, its OperatorCondition, and what
//! goes of the version whose place it takes.

use super::known::{Key, Known};
use super::{Change, Forecast, Premise, Verb, required, trial, users};
use crate::diff::field::fields;
use crate::object::writers;
use crate::olm::api::GROUP;
use crate::olm::api::cluster_service_version::ClusterServiceVersion;
use crate::olm::api::keys::annotation::CA_HASH;
use crate::olm::api::keys::label;
use crate::olm::api::operator_condition::OperatorCondition;
use crate::olm::bundle::CSV;
use crate::olm::operator::deployment::config::{Config, Proxy};
use crate::olm::operator::deployment::{self, Live};
use crate::olm::operator::{self, Group, condition, serving};
use crate::olm::plan::step::Item;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;

const DEPLOYMENT: (&str, &str) = ("apps", "Deployment");
const CONDITION: (&str, &str) = (GROUP, "OperatorCondition");
const PROXY: (&str, &str) = ("config.openshift.io", "Proxy");
const RBAC: &str = "rbac.authorization.k8s.io";

/// The objects that are looked at, beside those of the plan, each with its apiVersion.
pub(super) fn looked_at(item: &Item, namespace: &str) -> Vec<(String, Key)> {
    let Some(csv) = typed(item) else { return Vec::new() };
    let name = csv.metadata.name.clone().unwrap_or_default();
    let key = |version: &str, (group, kind): (&str, &str), name: &str| {
        (format!("{group}/{version}"), Key::new((group, kind), namespace, name))
    };
    let deployments = csv.spec.install.spec.iter().flat_map(|strategy| &strategy.deployments);
    let mut keys: Vec<(String, Key)> = deployments.map(|it| key("v1", DEPLOYMENT, &it.name)).collect();
    keys.push(key("v2", CONDITION, &name));
    keys.extend(["Role", "RoleBinding"].map(|kind| key("v1", (RBAC, kind), &name)));
    keys.push((format!("{}/v1", PROXY.0), proxy()));
    if !csv.spec.replaces.is_empty() {
        keys.push(key("v1alpha1", CSV, &csv.spec.replaces));
        keys.push(key("v2", CONDITION, &csv.spec.replaces));
    }
    keys.extend(required::looked_at(&csv));
    keys.extend(users::looked_at(&csv));
    keys
}

fn proxy() -> Key {
    Key::new(PROXY, "", "cluster")
}

/// The ClusterServiceVersion of a step.
pub(super) fn typed(item: &Item) -> Option<ClusterServiceVersion> {
    serde_json::from_value(item.object.clone()).ok()
}

/// `name`: of the ClusterServiceVersion, which is known as it would be. Returns whether nothing keeps it from running.
pub(super) fn foretell(name: &str, premise: &Premise<'_>, known: &mut Known, forecast: &mut Forecast) -> bool {
    let namespace = premise.namespace;
    let typed = |name: &str, known: &Known| -> Option<ClusterServiceVersion> {
        let object = known.object(&Key::new(CSV, namespace, name))?;
        serde_json::from_value((*object).clone()).ok()
    };
    let Some(csv) = typed(name, known) else { return false };
    let targets = |object| Group { object, targets: users::targets(object) };
    let groups: Vec<Group<'_>> = premise.groups.iter().map(targets).collect();
    let csv = operator::identified(&csv, &groups);
    let mut writes = Vec::new();
    writes.extend(condition_changes(&csv, namespace, known));
    let predecessor = typed(&csv.spec.replaces, known).filter(|_| csv.spec.replaces != name);
    let obstacle = operator::obstacle(&csv, &groups).or_else(|| users::conflict(&csv, premise, known));
    let hindrance = obstacle.or_else(|| {
        let name = predecessor.as_ref()?.metadata.name.as_deref()?;
        let condition = known.object(&Key::new(CONDITION, namespace, name))?;
        let condition: OperatorCondition = serde_json::from_value((*condition).clone()).ok()?;
        operator::hindrance(&condition).map(|why| format!("it does not take the place of {name}: {why}"))
    });
    let runs = match hindrance {
        Some(why) => {
            forecast.held.push(format!("ClusterServiceVersion {name}: {why}"));
            false
        }
        // Until then it waits.
        None if !required::check(&csv, premise, known, forecast) => false,
        None => {
            writes.extend(deployments(&csv, premise, known, forecast));
            writes.extend(predecessor.iter().flat_map(|before| end(before, namespace, known)));
            true
        }
    };
    for (change, object) in writes {
        // The Role of a binding is made in the same turn.
        let refers = object.get("roleRef").is_some();
        forecast.trials.extend(trial(&change, &object, refers));
        known.write(&change, object);
        forecast.changes.push(change);
    }
    runs
}

fn change(verb: Verb, key: Key, of: &str) -> Change {
    Change { verb, key, of: of.to_owned(), fields: Vec::new() }
}

fn deployments(
    csv: &ClusterServiceVersion,
    premise: &Premise<'_>,
    known: &Known,
    forecast: &mut Forecast,
) -> Vec<(Change, Value)> {
    let name = csv.metadata.name.as_deref().unwrap_or_default();
    let mut writes = Vec::new();
    let proxy = known.object(&proxy()).map(|it| Proxy::of(&it)).unwrap_or_default();
    let config = Config::of(name, premise.subscribers, &proxy);
    // With which authority pods will serve is not known before.
    let hash = |name: &str| {
        let live = known.object(&Key::new(DEPLOYMENT, premise.namespace, name))?;
        Some(live.pointer("/spec/template/metadata/annotations")?.get(CA_HASH)?.as_str()?.to_owned())
    };
    for entry in csv.spec.install.spec.iter().flat_map(|strategy| serving::foretold(csv, strategy, hash)) {
        let key = Key::new(DEPLOYMENT, premise.namespace, &entry.name);
        let Some(object) = known.object(&key) else {
            writes.push((change(Verb::Create, key, name), deployment::desired(csv, &entry, &config)));
            continue;
        };
        let writers = writers::Text::of(&writers::entries(&object));
        let live = Live { object: Arc::clone(&object), writers, ..Live::default() };
        let desired = deployment::desired(csv, &entry, &config.clone().remembered(csv, Some(&live)));
        match deployment::change(&desired, &live) {
            Ok(None) => forecast.unchanged += 1,
            Ok(Some((after, paths))) => {
                let shown = premise.values.then_some((&*object, &after));
                let fields = fields(paths, shown.map(|it| it.0), shown.map(|it| it.1));
                writes.push((Change { fields, ..change(Verb::Update, key, name) }, after));
            }
            Err(error) => forecast.held.push(format!("ClusterServiceVersion {name}: {error}")),
        }
    }
    writes
}

/// The object with the ClusterServiceVersion as its only owner.
fn owned_by(object: &Value, csv: &ClusterServiceVersion) -> Value {
    let mut object = object.clone();
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.insert("ownerReferences".to_owned(), json!([deployment::owner_reference(csv)]));
    }
    object
}

/// The OperatorCondition, and the Role and RoleBinding by which the operator writes it.
fn condition_changes(csv: &ClusterServiceVersion, namespace: &str, known: &Known) -> Vec<(Change, Value)> {
    let name = csv.metadata.name.as_deref().unwrap_or_default();
    let key = |kind| Key::new(kind, namespace, name);
    let mut writes = Vec::new();
    if let Some(live) = known.object(&key(CONDITION)) {
        // What it is called after was there before, under the same name.
        let typed = serde_json::from_value::<OperatorCondition>((*live).clone());
        let is_changed = typed.is_ok_and(|typed| condition::object(csv, Some(&typed)).is_some());
        writes.extend(is_changed.then(|| (change(Verb::Update, key(CONDITION), name), owned_by(&live, csv))));
        return writes;
    }
    let Some(object) = condition::object(csv, None) else { return writes };
    if let Ok(typed) = serde_json::from_value::<OperatorCondition>(object.clone()) {
        writes.push((change(Verb::Create, key(CONDITION), name), object));
        for (kind, object) in ["Role", "RoleBinding"].into_iter().zip(condition::components(&typed)) {
            let verb = if known.object(&key((RBAC, kind))).is_some() { Verb::Update } else { Verb::Create };
            writes.push((change(verb, key((RBAC, kind)), name), object));
        }
    }
    writes
}

/// What goes once another one has taken the place of this one: itself, those before it, and what they have without a namespace.
pub(super) fn end(csv: &ClusterServiceVersion, namespace: &str, known: &Known) -> Vec<(Change, Value)> {
    let mut gone = BTreeSet::new();
    let mut at = csv.metadata.name.clone().unwrap_or_default();
    while !at.is_empty() && gone.insert(at.clone()) {
        let before = known.object(&Key::new(CSV, namespace, &at));
        let replaces = before.as_ref().and_then(|csv| csv.pointer("/spec/replaces")?.as_str());
        let next = replaces.unwrap_or_default().to_owned();
        at = if known.object(&Key::new(CSV, namespace, &next)).is_some() { next } else { String::new() };
    }
    let mut writes = Vec::new();
    for name in gone {
        let labels = json!({label::OWNER: name, label::OWNER_NAMESPACE: namespace, label::OWNER_KIND: CSV.1});
        let belongs = |object: &Value| {
            let known = object.pointer("/metadata/labels");
            labels.as_object().into_iter().flatten().all(|(key, value)| known.and_then(|it| it.get(key)) == Some(value))
        };
        for kind in ["ClusterRoleBinding", "ClusterRole"] {
            let of_kind = known.all((RBAC, kind)).filter(|(_, object)| belongs(object));
            writes.extend(of_kind.map(|(key, _)| (change(Verb::Delete, key.clone(), &name), Value::Null)));
        }
        let key = Key::new(CSV, namespace, &name);
        writes.push((change(Verb::Delete, key, &name), Value::Null));
    }
    writes
}
