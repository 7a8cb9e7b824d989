//! One step of a plan: the object that it stands for, and what is written of it.

use super::definition;
use super::reference::{Found, Reference, Unpacked};
use crate::merge::{self, Manager, MergeError, Outcome};
use crate::olm::api::MANAGER;
use crate::olm::api::install_plan::{InstallPlan, Step, StepResource};
use crate::olm::api::keys::{annotation, label};
use crate::olm::bundle::CSV;
use crate::olm::components;
use crate::olm::names::label_value;
use crate::olm::steps::{self, BUNDLE_SECRET, SUBSCRIPTION};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// As whom objects are written.
const WRITTEN: Manager = Manager { name: MANAGER, of_others: &[] };
const SECRET: (&str, &str) = ("", "Secret");
const SERVICE_ACCOUNT: (&str, &str) = ("", "ServiceAccount");
/// Lists of a ServiceAccount that grow.
const OF_ACCOUNTS: [&str; 2] = ["secrets", "imagePullSecrets"];

/// Why a step cannot be carried out as it stands.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum StepError {
    #[error("objects of the kind {0} are not part of a plan; remove it from the bundle")]
    Unsupported(String),
    #[error("{said} among those that plans may have, which is of the group {group}; correct the bundle")]
    OtherGroup { said: String, group: &'static str },
    #[error("its manifest is not the JSON of an object: {0}")]
    Json(String),
    #[error("its manifest is in {place}: {cause}")]
    Content { place: String, cause: String },
    #[error("its manifest is a {found}, and the step says {expected}")]
    Other { found: String, expected: String },
    #[error("its manifest has neither name nor generateName")]
    NoName,
    #[error(
        "CustomResourceDefinition {0} is of apiextensions.k8s.io/v1beta1, which no API server has any more; the bundle needs \
         one of v1"
    )]
    OldDefinition(String),
}

/// The text that says that the type of a step is not served. Programs look for how it begins.
pub(crate) fn not_found((api_version, kind): (&str, &str), name: &str) -> String {
    format!(
        "api-server resource not found installing {kind} {name}: GroupVersionKind {api_version}, Kind={kind} not found on the cluster"
    )
}

impl StepError {
    pub(crate) fn is_unsupported(&self) -> bool {
        matches!(self, StepError::Unsupported(_) | StepError::OtherGroup { .. })
    }
}

/// How the object of a step comes to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// It is created, and left alone where it exists.
    Once,
    /// It is created, or changed to what the step says.
    Merge,
    /// The same, for a CustomResourceDefinition.
    Define,
    /// A Secret of the namespace of the process is copied, unless there is one of its name.
    Copy,
}

/// A step as it is carried out.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Item {
    /// Its place in the plan.
    pub place: usize,
    /// The ClusterServiceVersion that it belongs to.
    pub resolving: String,
    pub optional: bool,
    pub action: Action,
    pub api_version: String,
    pub group: String,
    pub kind: String,
    pub name: String,
    pub object: Value,
}

impl Item {
    pub(crate) fn is(&self, of: (&str, &str)) -> bool {
        (self.group.as_str(), self.kind.as_str()) == of
    }

    /// What comes first: ClusterServiceVersions, which own the others, and then definitions of kinds.
    pub(crate) fn stage(&self) -> usize {
        match self.action {
            _ if self.is(CSV) => 0,
            Action::Define => 1,
            _ => 2,
        }
    }
}

/// Whoever writes steps by hand may leave the group out: which kinds plans may have is known.
fn group(resource: &StepResource) -> &str {
    match resource.group.as_str() {
        "" if resource.kind == CSV.1 => CSV.0,
        "" => steps::group_of(&resource.kind).unwrap_or_default(),
        group => group,
    }
}

/// Clients write objects without their type where the step says it.
fn add_type(object: &mut Value, resource: &StepResource, (group, kind): (&str, &str)) {
    let Some(fields) = object.as_object_mut() else { return };
    if fields.contains_key("apiVersion") || fields.contains_key("kind") || resource.version.is_empty() {
        return;
    }
    let version = version(resource);
    let api_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    fields.insert("apiVersion".to_owned(), json!(api_version));
    fields.insert("kind".to_owned(), json!(kind));
}

/// Some give the group there too.
fn version(resource: &StepResource) -> &str {
    resource.version.rsplit('/').next().unwrap_or_default()
}

/// The object of a step. `found`: the content that manifests refer to.
pub(crate) fn read(plan: &InstallPlan, place: usize, step: &Step, found: &Found) -> Result<Item, StepError> {
    let resource = &step.resource;
    let of_kind = (group(resource), resource.kind.as_str());
    let is_bundle_secret = of_kind == ("", BUNDLE_SECRET);
    let object = if is_bundle_secret { SECRET } else { of_kind };
    if object != CSV && !steps::is_supported(object) {
        if let Some(group) = steps::group_of(&resource.kind) {
            let version = format!("{}/{}", of_kind.0, version(resource));
            return Err(StepError::OtherGroup { said: not_found((&version, &resource.kind), &resource.name), group });
        }
        let name = [&resource.kind, &resource.group].map(String::as_str).join(".");
        return Err(StepError::Unsupported(name.trim_end_matches('.').to_owned()));
    }
    let action = match of_kind {
        CSV | SUBSCRIPTION => Action::Once,
        definition::KIND => Action::Define,
        SECRET => Action::Copy,
        _ => Action::Merge,
    };
    let mut item = Item {
        place,
        resolving: step.resolving.clone(),
        optional: step.optional,
        action,
        api_version: "v1".to_owned(),
        group: object.0.to_owned(),
        kind: object.1.to_owned(),
        name: resource.name.clone(),
        object: Value::Null,
    };
    if action == Action::Copy {
        return Ok(item);
    }
    item.object = object_of(resource, found)?;
    add_type(&mut item.object, resource, object);
    let text = |pointer: &str| item.object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (api_version, kind) = (text("/apiVersion"), text("/kind"));
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    if (group, kind.as_str()) != object {
        let shown = |(group, kind): (&str, &str)| format!("{kind}.{group}").trim_end_matches('.').to_owned();
        return Err(StepError::Other { found: shown((group, &kind)), expected: shown(object) });
    }
    let name = match (text("/metadata/name"), text("/metadata/generateName")) {
        (name, _) if !name.is_empty() => name,
        (_, prefix) if prefix.is_empty() => return Err(StepError::NoName),
        // The same at each attempt.
        (_, prefix) => {
            let begin = prefix.get(..prefix.floor_char_boundary(LONGEST - SUFFIX)).unwrap_or_default();
            format!("{begin}{}", suffix(plan, place))
        }
    };
    if action == Action::Define && api_version == "apiextensions.k8s.io/v1beta1" {
        return Err(StepError::OldDefinition(name));
    }
    (item.name, item.api_version) = (name, api_version);
    Ok(item)
}

/// The manifest itself, or what it refers to.
fn object_of(resource: &StepResource, found: &Found) -> Result<Value, StepError> {
    let manifest = resource.manifest.as_str();
    let text = if let Some(reference) = Reference::of(manifest) {
        let bundle = if reference.image.is_empty() { &reference.name } else { &reference.image };
        let place = format!("bundle {bundle}");
        found.manifest(&reference).map_err(|cause| StepError::Content { place, cause })?
    } else if let Some(unpacked) = Unpacked::of(manifest) {
        let place = format!("ConfigMap {}/{}", unpacked.namespace, unpacked.name);
        let read = found.unpacked(&unpacked, &resource.kind, &resource.name);
        read.map_err(|cause| StepError::Content { place, cause })?
    } else {
        manifest
    };
    serde_json::from_str(text).map_err(|error| StepError::Json(error.to_string()))
}

/// So long that no two steps of a namespace have the same: of five digits, one in sixteen namespaces with 360 such steps had two.
const SUFFIX: usize = 10;
/// What a name begins with is cut, as the API server cuts it, so that objects of any kind may have the whole name.
const LONGEST: usize = 63;

fn suffix(plan: &InstallPlan, place: usize) -> String {
    let uid = plan.metadata.uid.as_deref().unwrap_or_default();
    hex::encode(Sha256::digest(format!("{uid}/{place}"))).chars().take(SUFFIX).collect()
}

const ROLE: (&str, &str) = ("rbac.authorization.k8s.io", "Role");

/// What all objects of a plan have in common.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Context<'a> {
    pub namespace: &'a str,
    /// Name of the plan.
    pub plan: &'a str,
    /// uid of the ClusterServiceVersion of the step, where it exists.
    pub owner: Option<&'a str>,
    /// Whether objects of the kind are in a namespace.
    pub namespaced: bool,
    /// It is written with the rights of an account, and not with those of this process.
    pub scoped: bool,
}

/// The object as it is wanted: where it belongs, who owns it, and that this process has made it.
pub(crate) fn desired(item: &Item, context: Context<'_>) -> Value {
    let mut object = item.object.clone();
    let Some(members) = object.as_object_mut() else { return object };
    members.remove("status");
    let mut metadata = match members.remove("metadata") {
        Some(Value::Object(metadata)) => metadata,
        _ => Map::new(),
    };
    for key in ["namespace", "ownerReferences", "generateName", "resourceVersion", "uid", "creationTimestamp"] {
        metadata.remove(key);
    }
    metadata.insert("name".to_owned(), json!(item.name));
    put(&mut metadata, "labels", label::MANAGED, "true");
    let owns = !item.is(CSV) && !item.is(SUBSCRIPTION) && item.action != Action::Define;
    match context.owner.filter(|_| owns) {
        Some(uid) if context.namespaced => {
            let owner = json!({
                "apiVersion": crate::olm::bundle::CSV_API_VERSION, "kind": CSV.1, "name": item.resolving, "uid": uid,
                "blockOwnerDeletion": false, "controller": false,
            });
            metadata.insert("ownerReferences".to_owned(), json!([owner]));
        }
        Some(_) => {
            put(&mut metadata, "labels", label::OWNER, &label_value(&item.resolving));
            put(&mut metadata, "labels", label::OWNER_NAMESPACE, context.namespace);
            put(&mut metadata, "labels", label::OWNER_KIND, CSV.1);
        }
        None => {}
    }
    if context.namespaced {
        metadata.insert("namespace".to_owned(), json!(context.namespace));
    }
    if item.is(ROLE) && !context.scoped {
        put(&mut metadata, "labels", label::FOR_TARGETS, "true");
    }
    if item.is(SUBSCRIPTION) {
        put(&mut metadata, "annotations", annotation::GENERATED_BY, context.plan);
    }
    if item.action == Action::Define {
        let (key, value) = definition::installed_alongside(context.namespace, &item.resolving);
        put(&mut metadata, "annotations", &key, &value);
    }
    members.insert("metadata".to_owned(), Value::Object(metadata));
    object
}

/// The object as a component of the operators with these keys.
pub(crate) fn labelled(mut object: Value, keys: &BTreeSet<String>) -> Value {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        keys.iter().for_each(|key| put(metadata, "labels", key, ""));
    }
    object
}

fn put(metadata: &mut Map<String, Value>, map: &str, key: &str, value: &str) {
    let entries = metadata.entry(map).or_insert_with(|| Value::Object(Map::new()));
    if !entries.is_object() {
        *entries = Value::Object(Map::new());
    }
    if let Some(entries) = entries.as_object_mut() {
        entries.insert(key.to_owned(), json!(value));
    }
}

/// A copy of a Secret of the namespace of the process.
pub(crate) fn copied(secret: &Value) -> Value {
    let part = |key: &str| secret.get(key).cloned().unwrap_or_default();
    let labels = secret.pointer("/metadata/labels").cloned().unwrap_or_else(|| json!({}));
    json!({
        "apiVersion": "v1", "kind": SECRET.1, "metadata": {"labels": labels}, "data": part("data"), "type": part("type"),
    })
}

/// What is written over the live object.
pub(crate) fn merged(item: &Item, live: &Value, desired: &Value) -> Result<Outcome, MergeError> {
    if matches!(item.action, Action::Once | Action::Copy) {
        return Ok(Outcome::Same);
    }
    let outcome = merge::merge(live, desired, WRITTEN)?;
    if !item.is(SERVICE_ACCOUNT) {
        return Ok(outcome);
    }
    let (mut object, mut fields) = match outcome {
        Outcome::Same => (live.clone(), Vec::new()),
        Outcome::Changed { object, fields } => (object, fields),
        replaced @ Outcome::Replace { .. } => return Ok(replaced),
    };
    for list in OF_ACCOUNTS {
        let known = live.get(list).and_then(Value::as_array).cloned().unwrap_or_default();
        let wanted = desired.get(list).and_then(Value::as_array).into_iter().flatten();
        let new: Vec<Value> = wanted.filter(|it| !known.contains(it)).cloned().collect();
        if let (false, Some(members)) = (new.is_empty(), object.as_object_mut()) {
            members.insert(list.to_owned(), known.into_iter().chain(new).collect());
            fields.push(list.to_owned());
        }
    }
    Ok(if fields.is_empty() { Outcome::Same } else { Outcome::Changed { object, fields } })
}

/// A ClusterServiceVersion, as far as plans are concerned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Csv {
    pub namespace: String,
    pub name: String,
    pub uid: String,
    pub replaces: String,
    /// Names of the CustomResourceDefinitions that it owns.
    pub owned: BTreeSet<String>,
    /// Names of those whose objects a webhook of it converts.
    pub converted: BTreeSet<String>,
    /// Keys of the labels by which it is a component of operators.
    pub components: BTreeSet<String>,
    pub is_deleted: bool,
}

impl Csv {
    /// From its JSON, whether it exists or not.
    pub(crate) fn read(object: &Value) -> Csv {
        let text = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let part = |pointer: &str| object.pointer(pointer).cloned().unwrap_or_default();
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let (metadata, owned) = (part("/metadata"), list(&part("/spec/customresourcedefinitions/owned")));
        let webhooks = list(&part("/spec/webhookdefinitions"));
        let converting = webhooks.iter().filter(|it| text(it, "type") == "ConversionWebhook");
        let converted = converting.flat_map(|it| list(it.get("conversionCRDs").unwrap_or(&Value::Null)));
        Csv {
            namespace: text(&metadata, "namespace"),
            name: text(&metadata, "name"),
            uid: text(&metadata, "uid"),
            replaces: text(&part("/spec"), "replaces"),
            owned: owned.iter().map(|it| text(it, "name")).collect(),
            converted: converted.filter_map(|it| it.as_str().map(ToOwned::to_owned)).collect(),
            components: memberships(&metadata),
            is_deleted: metadata.get("deletionTimestamp").is_some(),
        }
    }
}

/// The operators that a ClusterServiceVersion is labelled as a component of, and that of its package.
fn memberships(metadata: &Value) -> BTreeSet<String> {
    let texts = |key: &str| {
        let all = metadata.get(key).and_then(Value::as_object).into_iter().flatten();
        all.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect::<BTreeMap<_, _>>()
    };
    let (labels, annotations) = (texts("labels"), texts("annotations"));
    let properties = annotations.get(annotation::PROPERTIES).and_then(|text| steps::properties(text).ok());
    let namespace = metadata.get("namespace").and_then(Value::as_str).unwrap_or_default();
    let own = properties.and_then(|all| components::key(steps::package(&all), namespace));
    components::keys(Some(&labels)).into_iter().chain(own).collect()
}

/// Why a ClusterServiceVersion is not created: another one of the namespace owns a definition that it owns, and is not what it replaces,
/// directly or through others.
pub(crate) fn owner_conflict(new: &Csv, csvs: &[Arc<Csv>]) -> Option<String> {
    let of_name = |name: &str| csvs.iter().find(|csv| csv.name == name);
    let mut before = BTreeSet::from([new.name.as_str()]);
    let mut replaced = new.replaces.as_str();
    while !replaced.is_empty() && before.insert(replaced) {
        replaced = of_name(replaced).map_or("", |csv| csv.replaces.as_str());
    }
    let others = csvs.iter().filter(|csv| !csv.is_deleted && !before.contains(csv.name.as_str()));
    let mut conflicts =
        others.filter_map(|other| other.owned.intersection(&new.owned).next().map(|name| (other, name)));
    conflicts.next().map(|(other, name)| {
        format!(
            "ClusterServiceVersion {} owns CustomResourceDefinition {name} as well, and {} does not replace it; remove one of the \
             two operators",
            other.name, new.name
        )
    })
}
