//! Whether a cluster as it would be has what a ClusterServiceVersion requires, by the function of the controller.

use super::known::{Key, Known};
use super::{Forecast, Premise};
use crate::object::read::Read;
use crate::olm::api::cluster_service_version::{ClusterServiceVersion, RequirementStatus};
use crate::olm::bundle::{CSV, definition};
use crate::olm::operator::definition::Definition;
use crate::olm::operator::requirements::{self, ApiService, World};
use crate::olm::operator::rights::Rights;
use serde_json::Value;
use std::collections::BTreeMap;

const SERVICE: (&str, &str) = ("apiregistration.k8s.io", "APIService");

/// The objects that requirements are about, each with its apiVersion.
pub(super) fn looked_at(csv: &ClusterServiceVersion) -> Vec<(String, Key)> {
    let definitions = &csv.spec.custom_resource_definitions;
    let definitions = definitions.required.iter().chain(&definitions.owned);
    let definitions =
        definitions.map(|it| (definition::API_VERSION.to_owned(), Key::new(definition::KIND, "", &it.name)));
    let services = csv.spec.api_service_definitions.required.iter().map(|it| {
        let name = format!("{}.{}", it.version, it.group);
        ("apiregistration.k8s.io/v1".to_owned(), Key::new(SERVICE, "", &name))
    });
    definitions.chain(services).collect()
}

/// apiVersion and kind of what has to be served.
pub(super) fn kinds(csv: &ClusterServiceVersion) -> impl Iterator<Item = (String, String)> {
    let natives = csv.spec.native_apis.iter().map(|it| (&it.group, &it.version, &it.kind));
    let services = csv.spec.api_service_definitions.required.iter().map(|it| (&it.group, &it.version, &it.kind));
    natives.chain(services).map(|(group, version, kind)| {
        let api_version = if group.is_empty() { version.clone() } else { format!("{group}/{version}") };
        (api_version, kind.clone())
    })
}

/// Adds what keeps the operator waiting, and what could not be found out about that. Whether there is nothing to wait for.
pub(super) fn check(
    csv: &ClusterServiceVersion,
    premise: &Premise<'_>,
    known: &Known,
    forecast: &mut Forecast,
) -> bool {
    let Some(strategy) = &csv.spec.install.spec else { return true };
    let name = csv.metadata.name.as_deref().unwrap_or_default();
    let here = known.all(CSV).filter(|(key, _)| key.namespace == premise.namespace);
    let here: Vec<ClusterServiceVersion> =
        here.filter_map(|(_, object)| serde_json::from_value(object.clone()).ok()).collect();
    let siblings = here.iter().filter_map(|it| Some((it.metadata.name.as_deref()?, it))).collect();
    let definitions =
        known.all(definition::KIND).filter_map(|(key, it)| Some((key.name.clone(), defined(it)?))).collect();
    let services = known.all(SERVICE).map(|(key, it)| (key.name.clone(), service(it))).collect();
    let world = World {
        kubernetes: premise.kubernetes,
        definitions: &definitions,
        services: &services,
        served: &known.served(),
        accounts: &BTreeMap::new(),
        rights: &Rights::default(),
    };
    let lines = requirements::of_cluster(csv, strategy, &siblings, &world);
    let mut is_met = true;
    for line in lines.into_iter().filter(|line| !line.is_met()) {
        let text = told(name, &line);
        match unread(&line, premise, known) {
            Some(cause) => forecast.unknown.push(format!("Whether this holds it: {text}: {cause}")),
            None => {
                is_met = false;
                forecast.held.push(text);
            }
        }
    }
    is_met
}

fn told(name: &str, line: &RequirementStatus) -> String {
    let RequirementStatus { kind, name: required, message, .. } = line;
    let message = if message.is_empty() { "it is not there" } else { message };
    match kind.as_str() {
        kind if kind == CSV.1 => format!("ClusterServiceVersion {name}: {message}"),
        _ => format!("ClusterServiceVersion {name} requires {kind} {required}: {message}"),
    }
}

/// Why it is not known whether it is there.
fn unread(line: &RequirementStatus, premise: &Premise<'_>, known: &Known) -> Option<String> {
    if line.kind == CSV.1 {
        return premise.kubernetes.err().map(ToOwned::to_owned);
    }
    match known.get(&Key::new((&line.group, &line.kind), "", &line.name)) {
        Read::Failed(cause) => Some(format!("it could not be read: {cause}")),
        Read::Value(_) | Read::Absent => None,
    }
}

/// One that is new to the server is established in a moment.
fn defined(object: &Value) -> Option<requirements::Definition> {
    let typed: Definition = serde_json::from_value(object.clone()).ok()?;
    let required = typed.required();
    Some(requirements::Definition { is_available: required.is_available || !typed.is_judged(), ..required })
}

fn service(object: &Value) -> ApiService {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    let conditions = object.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten();
    let mut available = conditions.filter(|it| it.get("type").is_some_and(|it| it == "Available"));
    let is_available = available.any(|it| it.get("status").is_some_and(|it| it == "True"));
    let has_service = object.pointer("/spec/service").is_some_and(Value::is_object);
    ApiService { uid: text("/metadata/uid"), is_available, has_service, ..ApiService::default() }
}
