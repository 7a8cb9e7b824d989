//! What the steps of a plan know of each other and of what is installed, and by that the objects that they want.

use super::definition::{self, Risk};
use super::step::{self, Action, Context, Csv, Item};
use crate::error::listed;
use crate::merge::Outcome;
use crate::olm::bundle::CSV;
use crate::olm::components;
use crate::olm::steps::SUBSCRIPTION;
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Bytes of the names of owners that are told.
const OWNERS: usize = 1 << 10;

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Together {
    /// Group and kind of what it defines.
    pub defined: BTreeSet<(String, String)>,
    /// Names of its roles.
    roles: BTreeSet<String>,
    /// ClusterServiceVersions that it creates.
    pub csvs: Vec<Arc<Csv>>,
    /// Those of the cluster.
    pub known: Vec<Arc<Csv>>,
}

impl Together {
    pub(crate) fn of(items: &[Item], known: Vec<Arc<Csv>>) -> Together {
        let mut together = Together { known, ..Together::default() };
        for item in items {
            let text = |pointer: &str| item.object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
            if item.action == Action::Define {
                together.defined.insert((text("/spec/group").to_owned(), text("/spec/names/kind").to_owned()));
            } else if item.is(CSV) {
                together.csvs.push(Arc::new(Csv::read(&item.object)));
            } else if item.kind.ends_with("Role") {
                together.roles.insert(item.name.clone());
            }
        }
        together
    }

    /// Whether the plan itself brings the kind of this step.
    pub(crate) fn defines(&self, item: &Item) -> bool {
        self.defined.contains(&(item.group.clone(), item.kind.clone()))
    }

    /// Whether this is the binding of a role that the plan itself brings.
    pub(crate) fn brings_role(&self, object: &Value) -> bool {
        object.pointer("/roleRef/name").and_then(Value::as_str).is_some_and(|role| self.roles.contains(role))
    }

    /// Whether the installation of a ClusterServiceVersion says how objects of this definition are converted.
    fn is_converted(&self, definition: &str) -> bool {
        self.csvs.iter().chain(&self.known).any(|csv| csv.converted.contains(definition))
    }

    /// Keys of the labels by which the object of a step is a component of operators: a Subscription that of its package, and everything
    /// else those of its ClusterServiceVersion.
    fn components(&self, item: &Item, namespace: &str) -> BTreeSet<String> {
        if item.is(SUBSCRIPTION) {
            let package = item.object.pointer("/spec/name").and_then(Value::as_str).unwrap_or_default();
            return components::key(package, namespace).into_iter().collect();
        }
        let name = if item.is(CSV) { &item.name } else { &item.resolving };
        // A ClusterServiceVersion of the plan is that of its namespace, whether it says so or not.
        let known = self.known.iter().filter(|csv| csv.namespace == namespace);
        let found = self.csvs.iter().chain(known).find(|csv| csv.name == *name);
        found.map(|csv| csv.components.clone()).unwrap_or_default()
    }

    /// The object of a step as it is wanted.
    pub(crate) fn wanted(&self, item: &Item, live: Option<&Value>, context: Context<'_>) -> Value {
        let desired = step::labelled(step::desired(item, context), &self.components(item, context.namespace));
        match live {
            Some(live) if item.action == Action::Define && self.is_converted(&item.name) => {
                definition::with_live_conversion(live, desired)
            }
            _ => desired,
        }
    }

    /// Why the ClusterServiceVersion of this step is not created in the namespace.
    pub(crate) fn owner_conflict(&self, item: &Item, namespace: &str) -> Option<String> {
        let own = Csv::read(&item.object);
        let others = || self.csvs.iter().filter(|csv| csv.name != own.name);
        // Operators may hand a kind on: what another step replaces goes, and what comes in its place counts.
        let stays = |csv: &&Arc<Csv>| csv.namespace == namespace && others().all(|new| new.replaces != csv.name);
        let all: Vec<Arc<Csv>> = self.known.iter().filter(stays).chain(others()).cloned().collect();
        step::owner_conflict(&own, &all)
    }

    /// What is to be known of the change of a definition that operators of other namespaces own as well: kinds are of the whole cluster.
    pub(crate) fn shared(&self, item: &Item, (live, desired): (&Value, &Value), namespace: &str) -> Option<String> {
        let name = &item.name;
        let of_others = |csv: &&Arc<Csv>| csv.namespace != namespace && !csv.is_deleted && csv.owned.contains(name);
        let owners = self.known.iter().filter(of_others).map(|csv| format!("{}/{}", csv.namespace, csv.name));
        let owners: Vec<String> = owners.collect::<BTreeSet<String>>().into_iter().collect();
        if owners.is_empty() {
            return None;
        }
        let spec = |object: &Value| object.get("spec").cloned();
        // With which operators it came is no change.
        let changes = match step::merged(item, live, desired) {
            Ok(Outcome::Changed { object, .. }) => spec(&object) != spec(live),
            Ok(Outcome::Replace { .. }) => true,
            Ok(Outcome::Same) | Err(_) => false,
        };
        changes.then(|| {
            let all = listed(&owners, ", ", OWNERS, |rest| format!("and {rest} more"));
            format!("{name} changes for operators of other namespaces too, which own it as it was: {all}")
        })
    }

    /// Which risks of the change of a definition are taken, and which are not. Versions that replace each other are one operator: a
    /// second attempt finds the new one beside the old one.
    pub(crate) fn judged(&self, name: &str, live: &Value, risks: Vec<Risk>) -> (Vec<Risk>, Vec<Risk>) {
        let owners = || self.known.iter().filter(|csv| !csv.is_deleted && csv.owned.contains(name));
        let replaces = |other: &Csv, csv: &Csv| {
            (&other.namespace, &other.replaces) == (&csv.namespace, &csv.name) && other.name != csv.name
        };
        let operators = owners().filter(|csv| !owners().any(|other| replaces(other, csv))).count();
        let are_taken = definition::is_lenient(live) && operators <= 1;
        risks.into_iter().partition(|risk| are_taken && risk.may_be_taken)
    }
}
