//! What installing operators means for others: which APIs their OperatorGroup names, and the ClusterRoles by which users get rights to
//! these.

use super::known::{Key, Known};
use super::{Change, Forecast, Premise, Verb};
use crate::diff::field::fields;
use crate::object::read::Read;
use crate::olm::api::GROUP;
use crate::olm::api::cluster_service_version::{ClusterServiceVersion, Phase};
use crate::olm::api::keys::annotation::PROVIDED_APIS;
use crate::olm::api::operator_group::OperatorGroup;
use crate::olm::bundle::{CSV, definition};
use crate::olm::operator::apis::Apis;
use crate::olm::operator::component::{self, Owner, Write};
use crate::olm::operator::tenancy::{Tenancy, Tenant, Verdict};
use crate::olm::operator::{self, Group, group, roles};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const ROLE: (&str, &str) = ("rbac.authorization.k8s.io", "ClusterRole");
const SERVICE: (&str, &str) = ("apiregistration.k8s.io", "APIService");
const VERSION: &str = "rbac.authorization.k8s.io/v1";

/// The roles of the APIs of a ClusterServiceVersion, each with its apiVersion, and what provides them.
pub(super) fn looked_at(csv: &ClusterServiceVersion) -> Vec<(String, Key)> {
    // Which roles there are does not depend on whose they are.
    let any = |_: &str| Some(String::new());
    let all = roles::provided(csv, any, any);
    let services = csv.spec.api_service_definitions.owned.iter().map(|it| {
        let name = format!("{}.{}", it.version, it.group);
        (format!("{}/v1", SERVICE.0), Key::new(SERVICE, "", &name))
    });
    all.iter().flat_map(|api| keys(roles::of_api(api, ""))).chain(services).collect()
}

/// The roles of an OperatorGroup, each with its apiVersion.
pub(crate) fn of_group(group: &OperatorGroup) -> Vec<(String, Key)> {
    let group = Group { object: group, targets: Vec::new() };
    keys(roles::of_group(&group, &Apis::new(), |_| true)).collect()
}

fn keys(roles: Vec<Value>) -> impl Iterator<Item = (String, Key)> {
    roles.into_iter().map(|role| (VERSION.to_owned(), Key::of(&role)))
}

/// Why the operator may not run beside those of other groups.
pub(super) fn conflict(csv: &ClusterServiceVersion, premise: &Premise<'_>, known: &Known) -> Option<String> {
    with_tenancy(premise, known, |tenancy, group| match tenancy.verdict(group, csv) {
        Verdict::Refused(state) => Some(state.message),
        Verdict::Free | Verdict::Waits => None,
    })
    .flatten()
}

/// `installed`: names of the ClusterServiceVersions of the namespace that run from now on.
pub(super) fn foretell(
    installed: &BTreeSet<String>,
    premise: &Premise<'_>,
    known: &mut Known,
    forecast: &mut Forecast,
) {
    for name in installed {
        let key = Key::new(CSV, premise.namespace, name);
        let Some(object) = known.object(&key) else { continue };
        let mut object = Value::clone(&object);
        if let Some(object) = object.as_object_mut() {
            object.insert("status".to_owned(), json!({"phase": Phase::Succeeded}));
        }
        known.add(key, Read::Value(object));
    }
    let found = with_tenancy(premise, known, |tenancy, group| {
        let mut writes: Vec<(Change, Value)> = named(tenancy, group).into_iter().collect();
        match role_writes(installed, premise, known, (tenancy, group)) {
            Ok(roles) => writes.extend(roles),
            Err(why) => forecast.unknown.push(format!("What becomes of the ClusterRoles for users: {why}")),
        }
        writes
    });
    for (change, object) in found.into_iter().flatten() {
        known.write(&change, object);
        forecast.changes.push(change);
    }
}

/// The group with the APIs that it names afterwards.
fn named(tenancy: &Tenancy<'_>, group: &Group<'_>) -> Option<(Change, Value)> {
    let patch = tenancy.patch(group)?;
    let before = serde_json::to_value(group.object).ok()?;
    let mut after = before.clone();
    let annotations = after.get_mut("metadata")?.as_object_mut()?.entry("annotations").or_insert_with(|| json!({}));
    match patch.pointer("/metadata/annotations")?.get(PROVIDED_APIS)? {
        Value::Null => drop(annotations.as_object_mut()?.remove(PROVIDED_APIS)),
        text => drop(annotations.as_object_mut()?.insert(PROVIDED_APIS.to_owned(), text.clone())),
    }
    let fields = fields(vec![format!("metadata.annotations[{PROVIDED_APIS}]")], Some(&before), Some(&after));
    Some((Change { verb: Verb::Update, key: Key::of(&after), of: String::new(), fields }, after))
}

fn role_writes(
    installed: &BTreeSet<String>,
    premise: &Premise<'_>,
    known: &Known,
    (tenancy, group): (&Tenancy<'_>, &Group<'_>),
) -> Result<Vec<(Change, Value)>, String> {
    let uid = |key: &Key| Some(known.object(key)?.pointer("/metadata/uid")?.as_str()?.to_owned());
    let defined = |name: &str| uid(&Key::new(definition::KIND, "", name));
    let served = |name: &str| {
        let key = Key::new(SERVICE, "", name);
        let has_service = known.object(&key)?.pointer("/spec/service").is_some_and(Value::is_object);
        uid(&key).filter(|_| has_service)
    };
    let csvs = installed.iter().filter_map(|name| {
        let object = known.object(&Key::new(CSV, premise.namespace, name))?;
        serde_json::from_value::<ClusterServiceVersion>(Value::clone(&object)).ok()
    });
    let mut wanted: BTreeMap<String, (String, Value)> = BTreeMap::new();
    for csv in csvs {
        let of = csv.metadata.name.clone().unwrap_or_default();
        let apis: BTreeSet<roles::Api> = roles::provided(&csv, defined, served).into_iter().collect();
        for role in apis.iter().flat_map(|api| roles::of_api(api, group.id().1)) {
            wanted.insert(Key::of(&role).name, (of.clone(), role));
        }
    }
    // Those of the group are there with the group, whatever is installed.
    let is_there = |name: &str| {
        let live = known.object(&Key::new(ROLE, "", name));
        live.is_some_and(|live| Owner::of(&live).is_some_and(|owner| owner.kind == roles::GROUP_KIND))
    };
    let of_group = roles::of_group(group, &tenancy.apis(group), is_there);
    for role in of_group.into_iter().filter(|role| is_there(&Key::of(role).name)) {
        wanted.insert(Key::of(&role).name, (String::new(), role));
    }
    for name in wanted.keys() {
        if let Read::Failed(cause) = known.get(&Key::new(ROLE, "", name)) {
            return Err(format!("ClusterRole {name} could not be read: {cause}"));
        }
    }
    let of: BTreeMap<String, String> = wanted.iter().map(|(name, (of, _))| (name.clone(), of.clone())).collect();
    let live = known.all(ROLE).filter(|(_, role)| is_made(role)).map(|(_, role)| Arc::new(role.clone()));
    let wanted = wanted.into_values().map(|(_, role)| role).collect();
    let writes = component::writes(wanted, [], &component::Known::new(live))?;
    let change = |write: Write| {
        let (key, of) = (Key::new(ROLE, "", &write.id().name), of.get(&write.id().name).cloned().unwrap_or_default());
        let before = known.object(&key);
        Some(match write {
            Write::Create { object, .. } => (Change { verb: Verb::Create, key, of, fields: Vec::new() }, object),
            Write::Replace { object, fields: paths, .. } => {
                let fields = fields(paths, before.as_deref(), Some(&object));
                (Change { verb: Verb::Update, key, of, fields }, object)
            }
            Write::Delete { .. } => return None,
        })
    };
    Ok(writes.into_iter().filter_map(change).collect())
}

/// As the group says them, or its status where only labels of namespaces do.
pub(super) fn targets(group: &OperatorGroup) -> Vec<String> {
    match &group.status {
        Some(status) if !status.namespaces.is_empty() => status.namespaces.clone(),
        _ => group::targets(&group.spec, &group::Namespaces::new()),
    }
}

fn is_made(role: &Value) -> bool {
    component::is_made(|key| role.pointer("/metadata/labels")?.get(key)?.as_str())
}

/// What the groups of the cluster name, and the group of the namespace; `None` where there is not just one that stays.
fn with_tenancy<T>(
    premise: &Premise<'_>,
    known: &Known,
    found: impl FnOnce(&Tenancy<'_>, &Group<'_>) -> T,
) -> Option<T> {
    let [own] = premise.groups else { return None };
    let key = Key::new((GROUP, "OperatorGroup"), premise.namespace, own.metadata.name.as_deref()?);
    // What a plan before this one has made of it.
    let own = known.object(&key).and_then(|it| serde_json::from_value(Value::clone(&it)).ok()).unwrap_or(own.clone());
    if own.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let objects: Vec<&OperatorGroup> = premise.others.iter().chain([&own]).collect();
    let mut groups: BTreeMap<&str, Vec<Group<'_>>> = BTreeMap::new();
    for object in objects {
        let group = Group { object, targets: targets(object) };
        groups.entry(group.id().0).or_default().push(group);
    }
    let csvs: Vec<ClusterServiceVersion> =
        known.all(CSV).filter_map(|(_, object)| serde_json::from_value(object.clone()).ok()).collect();
    let mut tenants = Vec::new();
    for (namespace, groups) in &groups {
        let is_alone = groups.len() == 1;
        let here = csvs.iter().filter(|csv| csv.metadata.namespace.as_deref() == Some(namespace));
        let members: Vec<&ClusterServiceVersion> =
            here.filter(|csv| is_alone && operator::is_member(csv, groups)).collect();
        tenants.extend(groups.iter().map(|group| Tenant { group, members: members.clone(), is_whole: is_alone }));
    }
    let group = groups.get(premise.namespace)?.first()?;
    Some(found(&Tenancy::new(&tenants), group))
}
