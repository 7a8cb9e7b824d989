//! A bundle as the steps of an InstallPlan: its ClusterServiceVersion, the definitions of its kinds, its other objects, and the
//! roles that it asks for, each as JSON.

use crate::olm::api::cluster_service_version::InstallStrategy;
use crate::olm::api::install_plan::{Step, StepResource, StepStatus};
use crate::olm::api::keys::annotation;
use crate::olm::api::keys::annotation::PLANS;
use crate::olm::bundle::{Bundle, CSV, Object, definition};
use crate::olm::{names, permissions};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

/// The longest name of a Subscription.
const MAX_NAME: usize = 253;
/// Characters of a hash at the end of a name.
const HASH: usize = 10;
/// What a Secret of a bundle is called, which others tell from a pull secret by that.
pub(crate) const BUNDLE_SECRET: &str = "BundleSecret";
pub(crate) const SUBSCRIPTION: (&str, &str) = ("operators.coreos.com", "Subscription");
/// Group and kind of what a bundle may bring beside its ClusterServiceVersion.
const SUPPORTED: [(&str, &str); 21] = [
    definition::KIND,
    ("", "Secret"),
    ("", "ServiceAccount"),
    ("", "Service"),
    ("", "ConfigMap"),
    (RBAC, "Role"),
    (RBAC, "RoleBinding"),
    (RBAC, "ClusterRole"),
    (RBAC, "ClusterRoleBinding"),
    ("monitoring.coreos.com", "PrometheusRule"),
    ("monitoring.coreos.com", "ServiceMonitor"),
    ("policy", "PodDisruptionBudget"),
    ("scheduling.k8s.io", "PriorityClass"),
    ("autoscaling.k8s.io", "VerticalPodAutoscaler"),
    (CONSOLE, "ConsoleYAMLSample"),
    (CONSOLE, "ConsoleQuickStart"),
    (CONSOLE, "ConsoleCLIDownload"),
    (CONSOLE, "ConsoleLink"),
    (CONSOLE, "ConsolePlugin"),
    ("networking.k8s.io", "NetworkPolicy"),
    SUBSCRIPTION,
];
const RBAC: &str = "rbac.authorization.k8s.io";
const CONSOLE: &str = "console.openshift.io";

/// Whether plans may have objects of this group and kind beside ClusterServiceVersions.
pub(crate) fn is_supported(kind: (&str, &str)) -> bool {
    SUPPORTED.contains(&kind)
}

/// The group of such a kind: each is in the list once.
pub(crate) fn group_of(kind: &str) -> Option<&'static str> {
    SUPPORTED.iter().find(|(_, supported)| *supported == kind).map(|(group, _)| *group)
}

/// A bundle that is to be installed.
#[derive(Clone, Debug)]
pub(crate) struct Chosen<'a> {
    pub bundle: &'a Bundle,
    pub namespace: &'a str,
    /// The ClusterServiceVersion that it takes the place of; empty if there is none.
    pub replaces: &'a str,
    /// Namespace and name.
    pub catalog: (&'a str, &'a str),
    /// Type and value of each property that the catalog says of it.
    pub properties: &'a [(String, Value)],
}

/// Why a bundle has no steps.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum StepError {
    #[error("{file}, line {line}: {cause}; correct the bundle")]
    Object { file: String, line: usize, cause: String },
    #[error("bundle CSV {name} has no install strategy that can be read: {cause}; correct spec.install")]
    Strategy { name: String, cause: String },
    #[error(
        "it would have {steps} steps and {bytes} bytes, and an API server takes at most {limit} (most steps are of bundle CSV {largest}): let \
         the bundle bring fewer objects, such as one ConfigMap in the place of many; where the plan has several operators, the annotation \
         {PLANS}: per-operator on the OperatorGroup gives each a plan of its own"
    )]
    Large { steps: usize, bytes: usize, limit: usize, largest: String },
}

/// The annotation by which an installed operator is known to a resolver.
pub(crate) fn properties_annotation(properties: &[(String, Value)]) -> String {
    let each: Vec<Value> = properties.iter().map(|(kind, value)| json!({"type": kind, "value": value})).collect();
    json!({"properties": each}).to_string()
}

#[derive(Deserialize)]
struct Written {
    properties: Option<Vec<Property>>,
}

#[derive(Deserialize)]
struct Property {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    value: Value,
}

/// Type and value of each property that such an annotation holds.
pub(crate) fn properties(annotation: &str) -> Result<Vec<(String, Value)>, serde_json::Error> {
    let written: Written = serde_json::from_str(annotation)?;
    Ok(written.properties.into_iter().flatten().map(|it| (it.kind, it.value)).collect())
}

/// The package that properties name; empty if there is none.
pub(crate) fn package(properties: &[(String, Value)]) -> &str {
    let found = properties.iter().find(|(kind, _)| kind == names::property::PACKAGE);
    found.and_then(|(_, value)| value.get("packageName")?.as_str()).unwrap_or_default()
}

/// The steps of all bundles of a plan: ClusterServiceVersions first, then definitions, then the rest. What is to be approved first
/// has to be seen first.
pub(crate) fn ordered(bundles: Vec<Vec<Step>>) -> Vec<Step> {
    let mut steps: Vec<Step> = bundles.into_iter().flatten().collect();
    steps.sort_by_key(|step| match (step.resource.group.as_str(), step.resource.kind.as_str()) {
        CSV => 0,
        definition::KIND => 1,
        _ => 2,
    });
    steps
}

pub(crate) fn of_bundle(chosen: &Chosen<'_>) -> Result<Vec<Step>, StepError> {
    let Chosen { bundle, namespace, .. } = chosen;
    let csv_object = bundle.csv_object();
    let csv = value(csv_object)?;
    let mut steps = vec![step(chosen, &with_identity(csv.clone(), chosen))];
    for object in bundle.objects.iter().filter(|object| !object.is(CSV)) {
        let mut step = step(chosen, &value(object)?);
        if object.is(("", "Secret")) {
            BUNDLE_SECRET.clone_into(&mut step.resource.kind);
        }
        if !SUPPORTED.iter().any(|kind| object.is(*kind)) {
            step.status = StepStatus::UnsupportedResource;
        }
        steps.push(step);
    }
    let name = &bundle.csv.metadata.name;
    let strategy =
        strategy(&csv).map_err(|error| StepError::Strategy { name: name.clone(), cause: error.to_string() })?;
    let roles = permissions::objects(name, namespace, &strategy.spec.unwrap_or_default());
    steps.extend(roles.iter().map(|object| step(chosen, object)));
    Ok(steps)
}

/// What a ClusterServiceVersion installs.
pub(crate) fn strategy(csv: &Value) -> Result<InstallStrategy, serde_json::Error> {
    let strategy = csv.get("spec").and_then(|spec| spec.get("install")).cloned().unwrap_or_default();
    serde_json::from_value(without_null(strategy))
}

/// The Subscription of a bundle that only others depend on, so that it is kept up to date too.
pub(crate) fn subscription(chosen: &Chosen<'_>, package: &str, channel: &str) -> Step {
    let (namespace, catalog) = chosen.catalog;
    let name = subscription_name([package, channel, catalog, namespace]);
    let object = json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": SUBSCRIPTION.1,
        "metadata": {"name": name, "namespace": chosen.namespace},
        "spec": {
            "name": package, "channel": channel, "source": catalog, "sourceNamespace": namespace,
            "startingCSV": chosen.bundle.csv.metadata.name, "installPlanApproval": "Automatic",
        },
    });
    step(chosen, &object)
}

/// The parts with hyphens between them; with a hash if that would not be the name of an object.
pub(crate) fn subscription_name(parts: [&str; 4]) -> String {
    let name = parts.join("-");
    if names::is_object_name(&name) {
        return name;
    }
    let hash: String = hex::encode(Sha256::digest(&name)).chars().take(HASH).collect();
    let usable = |c: char| if c.is_ascii_lowercase() || c.is_ascii_digit() || c == '.' { c } else { '-' };
    let plain: String = name.to_lowercase().chars().map(usable).take(MAX_NAME - HASH - 1).collect();
    let labels = plain.split('.').map(|label| label.trim_matches('-')).filter(|label| !label.is_empty());
    let plain = labels.collect::<Vec<_>>().join(".");
    if plain.is_empty() { format!("s-{hash}") } else { format!("{plain}-{hash}") }
}

fn value(object: &Object) -> Result<Value, StepError> {
    serde_json::from_slice(&object.raw.bytes()).map_err(|error| StepError::Object {
        file: object.file.to_string(),
        line: object.line,
        cause: error.to_string(),
    })
}

/// The ClusterServiceVersion as it is created: where it belongs, what it really replaces, and its properties.
fn with_identity(mut csv: Value, chosen: &Chosen<'_>) -> Value {
    let Some(object) = csv.as_object_mut() else { return csv };
    change(object, "metadata", |metadata| {
        metadata.insert("namespace".to_owned(), json!(chosen.namespace));
        change(metadata, "annotations", |annotations| {
            let properties = properties_annotation(chosen.properties);
            annotations.insert(annotation::PROPERTIES.to_owned(), json!(properties));
        });
    });
    change(object, "spec", |spec| {
        spec.remove("replaces");
        if !chosen.replaces.is_empty() {
            spec.insert("replaces".to_owned(), json!(chosen.replaces));
        }
    });
    csv
}

/// Changes a member that is a mapping; one that is none is made.
fn change(object: &mut Map<String, Value>, key: &str, how: impl FnOnce(&mut Map<String, Value>)) {
    let mut member = match object.remove(key) {
        Some(Value::Object(member)) => member,
        _ => Map::new(),
    };
    how(&mut member);
    object.insert(key.to_owned(), Value::Object(member));
}

/// Authors write `null` for what is not there.
fn without_null(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            members.into_iter().filter(|(_, it)| !it.is_null()).map(|(key, it)| (key, without_null(it))).collect()
        }
        Value::Array(values) => values.into_iter().map(without_null).collect(),
        other => other,
    }
}

fn step(chosen: &Chosen<'_>, object: &Value) -> Step {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let api_version = text(&object["apiVersion"]);
    let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
    let metadata = &object["metadata"];
    let name = [&metadata["name"], &metadata["generateName"]].map(text).into_iter().find(|name| !name.is_empty());
    let (namespace, catalog) = chosen.catalog;
    Step {
        resolving: chosen.bundle.csv.metadata.name.clone(),
        resource: StepResource {
            source_name: catalog.to_owned(),
            source_namespace: namespace.to_owned(),
            group: group.to_owned(),
            version: version.to_owned(),
            kind: text(&object["kind"]),
            name: name.unwrap_or_default(),
            manifest: object.to_string(),
        },
        ..Step::default()
    }
}

#[cfg(test)]
mod tests;
