//! What must hold whatever happens, found again from the objects alone: nothing here asks the rules that processes decide by.

use super::rest;
use super::store::{Store, annotation, is_going, label, owners, text};
use super::tally::Tally;
use super::world::World;
use anyhow::ensure;
use cvo::testing::api::olm::cluster_service_version::ClusterServiceVersion;
use cvo::testing::api::olm::operator_group::OperatorGroup;
use cvo::testing::operator_process::{OperatorProcess, Write};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const CSV: &str = "ClusterServiceVersion";
const TARGETS: &str = "olm.targetNamespaces";
const APIS: &str = "olm.providedAPIs";

/// Labels of namespaces by their names.
pub(super) type Namespaces = BTreeMap<String, BTreeMap<String, String>>;

/// A group as it is written.
#[derive(Clone, Debug)]
pub(super) struct Group {
    namespace: String,
    name: String,
    /// `None` for all.
    pub targets: Option<BTreeSet<String>>,
    is_static: bool,
    apis: BTreeSet<String>,
}

impl Group {
    /// Only a group that selects in no way at all is for all namespaces.
    pub(super) fn of(group: &Value, namespaces: &Namespaces) -> Group {
        let spec = &group["spec"];
        let texts = |value: &Value| {
            let texts = value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned);
            texts.collect::<BTreeSet<String>>()
        };
        let named = texts(&spec["targetNamespaces"]);
        let selector = spec["selector"].as_object().filter(|it| !it.is_empty());
        let targets = match (named.is_empty(), selector) {
            (false, _) if named.contains("") => Some(BTreeSet::new()),
            (false, _) => Some(named),
            (true, None) => None,
            (true, Some(selector)) => {
                let is = |labels: &BTreeMap<String, String>| selector.iter().all(|(key, it)| selects(key, it, labels));
                Some(namespaces.iter().filter(|(_, labels)| is(labels)).map(|(name, _)| name.clone()).collect())
            }
        };
        let apis = annotation(group, APIS).unwrap_or_default();
        Group {
            namespace: text(group, "/metadata/namespace").to_owned(),
            name: text(group, "/metadata/name").to_owned(),
            targets,
            is_static: spec["staticProvidedAPIs"] == true,
            apis: apis.split(',').map(str::trim).filter(|it| !it.is_empty()).map(str::to_owned).collect(),
        }
    }

    /// Its own namespace counts, unless it is for all of them.
    fn everywhere(&self) -> Option<BTreeSet<&str>> {
        let targets = self.targets.as_ref()?;
        Some(targets.iter().map(String::as_str).chain([self.namespace.as_str()]).collect())
    }

    fn meets(&self, other: &Group) -> bool {
        match (self.everywhere(), other.everywhere()) {
            (Some(one), Some(other)) => !one.is_disjoint(&other),
            _ => true,
        }
    }

    fn is_same(&self, other: &Group) -> bool {
        (&self.namespace, &self.name) == (&other.namespace, &other.name)
    }
}

fn selects(key: &str, wanted: &Value, labels: &BTreeMap<String, String>) -> bool {
    let has =
        |key: &str, value: &Value| value.as_str().is_some() && labels.get(key).map(String::as_str) == value.as_str();
    match key {
        "matchLabels" => wanted.as_object().into_iter().flatten().all(|(key, value)| has(key, value)),
        "matchExpressions" => wanted.as_array().into_iter().flatten().all(|it| {
            let (key, values) = (text(it, "/key"), it["values"].as_array().into_iter().flatten());
            let is_there = labels.contains_key(key);
            match text(it, "/operator") {
                "Exists" => is_there,
                "DoesNotExist" => !is_there,
                "In" => { values }.any(|value| has(key, value)),
                "NotIn" => !{ values }.any(|value| has(key, value)),
                _ => false,
            }
        }),
        key => has(key, wanted),
    }
}

/// The APIs that a version provides.
pub(super) fn provided(csv: &Value) -> BTreeSet<String> {
    let of = |list: &str| csv.pointer(list).and_then(Value::as_array).into_iter().flatten();
    let definitions = of("/spec/customresourcedefinitions/owned").map(|it| {
        let group = text(it, "/name").split_once('.').map_or("", |(_, group)| group);
        format!("{}.{}.{group}", text(it, "/kind"), text(it, "/version"))
    });
    let services = of("/spec/apiservicedefinitions/owned")
        .map(|it| format!("{}.{}.{}", text(it, "/kind"), text(it, "/version"), text(it, "/group")));
    definitions.chain(services).collect()
}

/// What a process knows when it decides.
pub(super) struct Seen {
    pub csvs: Vec<Value>,
    pub groups: Vec<Group>,
}

impl Seen {
    fn of(process: &OperatorProcess) -> Seen {
        let namespaces = process.namespaces();
        let group = |it: &OperatorGroup| Group::of(&json!(it), &namespaces);
        Seen {
            csvs: process.csvs().iter().map(|it: &ClusterServiceVersion| json!(it)).collect(),
            groups: process.groups().iter().map(group).collect(),
        }
    }

    pub(super) fn groups_in(&self, namespace: &str) -> Vec<&Group> {
        self.groups.iter().filter(|group| group.namespace == namespace).collect()
    }

    /// What is written names the targets of the one group of its namespace, which selects something. Whether these are all namespaces.
    fn names_targets(&self, write: &Write, targets: Option<&str>) -> anyhow::Result<bool> {
        let groups = self.groups_in(&write.namespace);
        let [group] = groups.as_slice() else { anyhow::bail!("{} is written with {} groups", write.key, groups.len()) };
        let wanted = group.targets.as_ref().map(|all| all.iter().cloned().collect::<Vec<_>>().join(","));
        ensure!(
            group.targets.as_ref().is_none_or(|targets| !targets.is_empty()),
            "{} is given {targets:?} as targets where its group selects nothing",
            write.key
        );
        ensure!(
            targets == Some(wanted.as_deref().unwrap_or_default()),
            "{} has {targets:?} as targets, not {wanted:?}",
            write.key
        );
        Ok(wanted.is_none())
    }

    fn csv(&self, is: impl Fn(&Value) -> bool) -> Option<&Value> {
        self.csvs.iter().find(|csv| is(csv))
    }

    /// Whether a version must not run because of the APIs of groups.
    pub(super) fn is_expelled(&self, csv: &Value) -> bool {
        let of = self.groups_in(text(csv, "/metadata/namespace"));
        let ([group], provided) = (of.as_slice(), provided(csv)) else { return false };
        let near = self.groups.iter().filter(|other| !group.is_same(other) && group.meets(other));
        let claimed = |other: &Group| {
            let members = self.csvs.iter().filter(|csv| text(csv, "/metadata/namespace") == other.namespace);
            let theirs: BTreeSet<String> = members.flat_map(self::provided).chain(other.apis.iter().cloned()).collect();
            !theirs.is_disjoint(&provided)
        };
        group.is_static && !provided.is_subset(&group.apis) || { near }.any(claimed)
    }
}

/// A process has decided to write something.
pub(super) fn decided(process: &OperatorProcess, write: &Write, tally: &mut Tally) -> anyhow::Result<()> {
    match (write.kind, write.content()) {
        (CSV, Some(patch)) => of_csv(process, write, patch, tally),
        ("Deployment", Some(object)) => of_deployment(process, write, object),
        ("Deployment", None) => deleted(process, write, tally),
        _ => Ok(()),
    }
}

/// All namespaces are named where a group is for all of them, and nowhere else.
fn of_csv(process: &OperatorProcess, write: &Write, patch: &Value, tally: &mut Tally) -> anyhow::Result<()> {
    let is_copy = process.csvs().iter().any(|csv| {
        let labels = csv.metadata.labels.as_ref();
        let is_it = csv.metadata.name.as_ref() == Some(&write.name)
            && csv.metadata.namespace.as_ref() == Some(&write.namespace);
        is_it && labels.is_some_and(|labels| labels.contains_key("olm.copiedFrom"))
    });
    ensure!(!is_copy, "{} is a copy, and is taken for an operator", write.key);
    let Some(targets) = annotation(patch, TARGETS) else { return Ok(()) };
    let seen = Seen::of(process);
    let is_everywhere = seen.names_targets(write, Some(targets))?;
    tally.everywhere += usize::from(is_everywhere);
    tally.somewhere += usize::from(!is_everywhere);
    Ok(())
}

/// Pods work for the namespaces that the group of the operator selects, whose version is no copy.
fn of_deployment(process: &OperatorProcess, write: &Write, object: &Value) -> anyhow::Result<()> {
    let seen = Seen::of(process);
    let of = |csv: &Value| owners(object).any(|uid| uid == text(csv, "/metadata/uid"));
    let Some(csv) = seen.csv(of) else { anyhow::bail!("{} belongs to no operator", write.key) };
    ensure!(label(csv, "olm.copiedFrom").is_none(), "{} belongs to a copy", write.key);
    let pods =
        object.pointer("/spec/template/metadata").map(|metadata| json!({"metadata": metadata})).unwrap_or_default();
    seen.names_targets(write, annotation(&pods, TARGETS)).map(drop)
}

/// A Deployment goes where its version does not name it any more, and where that must not run because of the APIs of groups.
fn deleted(process: &OperatorProcess, write: &Write, tally: &mut Tally) -> anyhow::Result<()> {
    let seen = Seen::of(process);
    let Some(object) = process.deployment(&write.namespace, &write.name) else {
        anyhow::bail!("{} is deleted, and is not known", write.key)
    };
    let of = |csv: &Value| owners(&object).any(|uid| uid == text(csv, "/metadata/uid"));
    let owned: Vec<&Value> = seen.csvs.iter().filter(|csv| of(csv)).collect();
    ensure!(!owned.is_empty(), "{} is deleted, and belongs to nobody", write.key);
    let is_left_over = |csv: &&&Value| !names(csv, &write.name) && !is_going(csv);
    let is_expelled = |csv: &&&Value| seen.is_expelled(csv) && !is_going(csv);
    let (left_over, expelled) = (owned.iter().any(|csv| is_left_over(&csv)), owned.iter().any(|csv| is_expelled(&csv)));
    tally.left_over += usize::from(left_over);
    tally.expelled += usize::from(expelled);
    ensure!(left_over || expelled, "{} is deleted without a reason", write.key);
    Ok(())
}

/// Whether a version has a Deployment of this name.
pub(super) fn names(csv: &Value, deployment: &str) -> bool {
    let all = csv.pointer("/spec/install/spec/deployments").and_then(Value::as_array).into_iter().flatten();
    all.into_iter().any(|it| text(it, "/name") == deployment)
}

/// What is to be collected belongs to no version that runs and names it. `touched`: versions that somebody has changed by hand.
pub(super) fn collected(
    store: &Store,
    (namespace, name): (&str, &str),
    touched: &BTreeSet<String>,
) -> anyhow::Result<()> {
    let runs = |csv: &&Arc<Value>| {
        text(csv, "/status/phase") == "Succeeded"
            && !is_going(csv)
            && label(csv, "olm.copiedFrom").is_none()
            && names(csv, name)
            && !touched.contains(text(csv, "/metadata/uid"))
    };
    let by = store.of_namespace(CSV, namespace).into_iter().find(runs).map(|it| text(it, "/metadata/name"));
    ensure!(by.is_none(), "Deployment {namespace}/{name} goes with a former version, and {by:?} runs by it");
    Ok(())
}

/// What there is once everybody is at rest.
pub(super) fn at_rest(world: &World, tally: &mut Tally) -> anyhow::Result<()> {
    let store = &world.store;
    let labels = |it: &Value| {
        let labels = it.pointer("/metadata/labels").and_then(Value::as_object).into_iter().flatten();
        labels.filter_map(|(key, it)| Some((key.clone(), it.as_str()?.to_owned()))).collect::<BTreeMap<_, _>>()
    };
    let namespaces: Namespaces = store
        .all("Namespace")
        .filter(|(_, _, it)| !is_going(it))
        .map(|(_, name, it)| (name.to_owned(), labels(it)))
        .collect();
    let groups: Vec<Group> = store.all("OperatorGroup").map(|(_, _, it)| Group::of(it, &namespaces)).collect();
    let csvs = store.all(CSV).filter(|(_, _, it)| label(it, "olm.copiedFrom").is_none());
    let seen = Seen { csvs: csvs.map(|(_, _, it)| (**it).clone()).collect(), groups };
    tally.copies += store.all(CSV).count() - seen.csvs.len();
    rest::groups(&seen)?;
    rest::operators(world, &seen, tally)?;
    rest::copies(world, &seen, &namespaces)
}

impl Group {
    pub(super) fn namespace(&self) -> &str {
        &self.namespace
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn near<'a>(&'a self, groups: &'a [Group]) -> impl Iterator<Item = &'a Group> {
        groups.iter().filter(|other| !self.is_same(other) && self.meets(other))
    }

    pub(super) fn apis(&self) -> &BTreeSet<String> {
        &self.apis
    }

    pub(super) fn is_static(&self) -> bool {
        self.is_static
    }
}
