//! The Deployments of an operator: what its ClusterServiceVersion wants of them, and what they are.

mod additions;
pub(crate) mod config;

use crate::gate::{self, Observed, Reason, Verdict};
use crate::merge::{Manager, MergeError, Outcome, initial, merge};
use crate::object::writers;
use crate::olm::api::cluster_service_version::{ClusterServiceVersion, StrategyDeployment};
use crate::olm::api::keys::annotation::SUBSCRIPTION_CONFIG;
use crate::olm::api::keys::label;
use crate::olm::api::{GROUP, MANAGER};
use crate::olm::components;
use crate::olm::names::label_value;
use crate::olm::permissions::hash;
use config::Config;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// In each container: the name of the OperatorCondition of the operator.
const CONDITION_NAME: &str = "OPERATOR_CONDITION_NAME";
/// How many ReplicaSets of earlier versions are kept: nothing is ever rolled back.
const HISTORY: i64 = 1;
/// The reason of the event about a Deployment that somebody else keeps changing.
pub(crate) const CONTESTED: &str = "DeploymentContested";
const KIND: &str = "ClusterServiceVersion";
/// Who writes what is made for operators.
pub(super) const WRITER: Manager = Manager { name: MANAGER, of_others: &[] };

/// A Deployment of the cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Live {
    pub object: Arc<Value>,
    /// Its managedFields.
    pub writers: writers::Text,
    /// How many replicas it has says whoever scales it, which is not its ClusterServiceVersion.
    pub scaled: bool,
    /// Fields that the API server keeps different from what was written.
    pub kept: Vec<String>,
}

/// How a Deployment is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Health {
    Ready,
    /// It is not, and may become so.
    Waiting(String),
    /// It has not become ready in the time that it gives itself.
    Failed(String),
    /// It is not there.
    Missing(String),
    /// It cannot be made what its ClusterServiceVersion wants.
    Refused(String),
    /// Somebody has changed what its ClusterServiceVersion names, or that has.
    Drifted(String),
}

/// The hash of the content that a Deployment was written with, which is a label of it.
pub(crate) fn written_hash(object: &Value) -> Option<&str> {
    object.pointer("/metadata/labels")?.get(label::DEPLOYMENT_SPEC_HASH)?.as_str()
}

/// What differs from what its ClusterServiceVersion names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Change {
    /// Their paths.
    pub fields: Vec<String>,
    /// The field managers that have set them, as far as that is known.
    pub by: BTreeSet<String>,
}

impl Change {
    fn of(fields: Vec<String>, live: &Live) -> Change {
        let entries = live.writers.read();
        let by = fields.iter().filter_map(|field| writers::of_field(&entries, MANAGER, field));
        let mut by: BTreeSet<String> = by.map(str::to_owned).collect();
        // Written here, but for another one that names it too.
        if by.is_empty() && fields.iter().any(|field| *field == format!("metadata.labels[{}]", label::OWNER)) {
            let owner = live.object.pointer("/metadata/labels").and_then(|labels| labels.get(label::OWNER)?.as_str());
            by.extend(owner.map(|owner| format!("{KIND} {owner}")));
        }
        Change { by, fields }
    }

    fn who(&self) -> Option<String> {
        let names: Vec<&str> = self.by.iter().map(String::as_str).collect();
        (!names.is_empty()).then(|| names.join(", "))
    }

    /// The fields, and who has set them.
    fn told(&self) -> String {
        let fields = self.fields.join(", ");
        match self.who() {
            None => fields,
            Some(who) => format!("{fields} (by {who})"),
        }
    }

    /// What is said where the same fields are changed again and again.
    pub(crate) fn contest(&self, namespace: &str, name: &str) -> String {
        let who = self.who().unwrap_or_else(|| "somebody whom managedFields do not name".to_owned());
        let fields = self.fields.join(", ");
        format!(
            "Deployment {namespace}/{name}: {fields}: changed again and again by {who}. The ClusterServiceVersion names it, so that it \
             is changed back, each time later: let {who} leave it alone, or change it in the ClusterServiceVersion"
        )
    }
}

/// What is to be written.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Write {
    Create {
        name: String,
        object: Value,
    },
    /// With the resourceVersion that it is based on.
    Replace {
        name: String,
        object: Value,
        change: Change,
    },
    Delete {
        name: String,
        uid: String,
    },
}

impl Write {
    pub(crate) fn name(&self) -> &str {
        match self {
            Write::Create { name, .. } | Write::Replace { name, .. } | Write::Delete { name, .. } => name,
        }
    }

    /// What is there afterwards; `None` for nothing.
    pub(crate) fn object(&self) -> Option<&Value> {
        match self {
            Write::Create { object, .. } | Write::Replace { object, .. } => Some(object),
            Write::Delete { .. } => None,
        }
    }
}

/// Owner labels of what belongs to a ClusterServiceVersion.
pub(crate) fn owner_labels(csv: &ClusterServiceVersion) -> [(&'static str, String); 3] {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let metadata = &csv.metadata;
    [
        (label::OWNER, label_value(metadata.name.as_deref().unwrap_or_default())),
        (label::OWNER_NAMESPACE, text(&metadata.namespace)),
        (label::OWNER_KIND, KIND.to_owned()),
    ]
}

/// Labels of what is made for a ClusterServiceVersion: it is a component of the same operators.
pub(super) fn labels(csv: &ClusterServiceVersion) -> Map<String, Value> {
    let owner = owner_labels(csv).into_iter().map(|(key, value)| (key.to_owned(), value.into()));
    let of = components::keys(csv.metadata.labels.as_ref()).into_iter().map(|key| (key, "".into()));
    owner.chain([(label::MANAGED.to_owned(), "true".into())]).chain(of).collect()
}

/// The reference to the owner, which does not keep it from being deleted.
pub(crate) fn owner_reference(csv: &ClusterServiceVersion) -> Value {
    json!({"apiVersion": format!("{GROUP}/v1alpha1"), "kind": KIND, "name": csv.metadata.name,
        "uid": csv.metadata.uid, "controller": false, "blockOwnerDeletion": false})
}

/// The Deployment as it is created.
pub(crate) fn desired(csv: &ClusterServiceVersion, entry: &StrategyDeployment, config: &Config) -> Value {
    let mut spec = entry.spec.clone();
    put(&mut spec, "revisionHistoryLimit", HISTORY.into());
    let annotations = member(member(member(&mut spec, "template"), "metadata"), "annotations");
    for (key, value) in csv.metadata.annotations.iter().flatten() {
        put(annotations, key, value.as_str().into());
    }
    let annotations = config.apply(&mut spec);
    let containers = member(member(&mut spec, "template"), "spec").get_mut("containers").and_then(Value::as_array_mut);
    let name = csv.metadata.name.as_deref().unwrap_or_default();
    containers.into_iter().flatten().for_each(|container| set_variable(container, CONDITION_NAME, name));
    let mut labels: Map<String, Value> =
        entry.label.iter().map(|(key, it)| (key.clone(), it.as_str().into())).collect();
    labels.extend(self::labels(csv));
    labels.insert(label::DEPLOYMENT_SPEC_HASH.to_owned(), hash(&spec, "").into());
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": entry.name, "namespace": csv.metadata.namespace, "labels": labels,
            "annotations": annotations, "ownerReferences": [owner_reference(csv)]},
        "spec": spec,
    })
}

/// Sets a member. What is no mapping becomes one.
fn put(object: &mut Value, key: &str, value: Value) {
    *member(object, key) = value;
}

/// A member, which is null if there is none. What is no mapping becomes one.
fn member<'a>(object: &'a mut Value, key: &str) -> &'a mut Value {
    if !object.is_object() {
        *object = json!({});
    }
    // A mapping makes what it lacks.
    &mut object[key]
}

fn set_variable(container: &mut Value, name: &str, value: &str) {
    let Some(container) = container.as_object_mut() else { return };
    let variables = container.entry("env").or_insert_with(|| json!([]));
    if !variables.is_array() {
        *variables = json!([]);
    }
    let Some(variables) = variables.as_array_mut() else { return };
    let wanted = json!({"name": name, "value": value});
    match variables.iter_mut().find(|it| it.get("name").and_then(Value::as_str) == Some(name)) {
        Some(known) => *known = wanted,
        None => variables.push(wanted),
    }
}

/// The Deployment as it is, and what has to be written for it.
pub(crate) fn look(
    csv: &ClusterServiceVersion,
    entry: &StrategyDeployment,
    live: Option<&Live>,
    config: &Config,
) -> (Health, Option<Write>) {
    let name = entry.name.clone();
    let desired = desired(csv, entry, &config.clone().remembered(csv, live));
    let Some(live) = live else {
        let message = format!("missing deployment with name={name}");
        return (Health::Missing(message), Some(Write::Create { name, object: initial(desired) }));
    };
    match change(&desired, live) {
        Ok(None) => (health(&name, &desired, &live.object), None),
        Ok(Some((object, fields))) => {
            let change = Change::of(fields, live);
            let message = format!("deployment {name} changed: {}", change.told());
            (Health::Drifted(message), Some(Write::Replace { name, object, change }))
        }
        Err(error) => (Health::Refused(error), None),
    }
}

/// The object to write and the fields that differ; `None` if everything is there that is named.
pub(crate) fn change(desired: &Value, live: &Live) -> Result<Option<(Value, Vec<String>)>, String> {
    let mut desired = desired.clone();
    let replicas = live.object.pointer("/spec/replicas").cloned();
    if let (Some(spec), Some(replicas)) = (desired.get_mut("spec").and_then(Value::as_object_mut), replicas)
        && (live.scaled || spec.get("replicas").is_none_or(Value::is_null))
    {
        spec.insert("replicas".to_owned(), replicas);
    }
    let desired = additions::kept(desired, live);
    let before = additions::without_former(&desired, live);
    let (object, mut fields) = match merge(&before, &desired, WRITER).map_err(|error| told(&error))? {
        Outcome::Same => (before, Vec::new()),
        Outcome::Changed { object, fields } | Outcome::Replace { object, fields } => (object, fields),
    };
    let remembers = format!("metadata.annotations[{SUBSCRIPTION_CONFIG}]");
    // They change nothing that runs.
    fields.retain(|field| !live.kept.contains(field) && *field != remembers && !components::is_label(field));
    let (object, handed_over) = handed_over(object, &desired);
    if handed_over {
        fields.push("metadata.ownerReferences".to_owned());
    }
    Ok((!fields.is_empty()).then_some((object, fields)))
}

fn told(error: &MergeError) -> String {
    match error {
        MergeError::Immutable { object, field } => format!(
            "{object} cannot become what the ClusterServiceVersion wants: {field} differs and is immutable; delete the Deployment, and \
             it is created again"
        ),
        error => error.to_string(),
    }
}

/// Fields that the API server has made different from what was written.
pub(crate) fn kept(written: &Value, answer: &Value) -> Vec<String> {
    match merge(answer, written, WRITER) {
        Ok(Outcome::Changed { fields, .. } | Outcome::Replace { fields, .. }) => fields,
        Ok(Outcome::Same) | Err(_) => Vec::new(),
    }
}

/// The object without other ClusterServiceVersions among its owners: what an operator uses must not go with the version before.
pub(super) fn handed_over(mut object: Value, desired: &Value) -> (Value, bool) {
    let own = desired.pointer("/metadata/ownerReferences/0/uid").cloned();
    let owners = object.pointer_mut("/metadata/ownerReferences").and_then(Value::as_array_mut);
    let Some(owners) = owners else { return (object, false) };
    let before = owners.len();
    let prefix = format!("{GROUP}/");
    owners.retain(|owner| {
        let text = |key: &str| owner.get(key).and_then(Value::as_str).unwrap_or_default();
        let is_csv = text("kind") == KIND && text("apiVersion").starts_with(&prefix);
        !is_csv || owner.get("uid") == own.as_ref()
    });
    let changed = owners.len() != before;
    (object, changed)
}

fn health(name: &str, desired: &Value, live: &Value) -> Health {
    let not_ready = |message: String| format!("waiting for deployment {name} to become ready: {message}");
    match gate::judge_operator(&Observed::of(desired), Some(&Observed::of(live))) {
        Verdict::Ready => Health::Ready,
        Verdict::Failing { reason: Reason::NotProgressing, message, .. } => {
            Health::Failed(format!("deployment {name} not ready before timeout: {message}"))
        }
        Verdict::Waiting { message, .. } | Verdict::Failing { message, .. } => Health::Waiting(not_ready(message)),
    }
}

/// The Deployments that belong to it and that it does not want any more.
pub(crate) fn leftovers<'a>(
    csv: &ClusterServiceVersion,
    wanted: impl Iterator<Item = &'a StrategyDeployment>,
    all: &BTreeMap<&str, &Live>,
) -> Vec<Write> {
    let uid = csv.metadata.uid.as_deref();
    let owns = |live: &Live| {
        let owners = live.object.pointer("/metadata/ownerReferences").and_then(Value::as_array).into_iter().flatten();
        let labels = live.object.pointer("/metadata/labels");
        let is_labelled = |(key, value): (&str, String)| labels.and_then(|it| it.get(key)?.as_str()) == Some(&value);
        owners.clone().any(|it| uid.is_some() && it.get("uid").and_then(Value::as_str) == uid)
            && owner_labels(csv).into_iter().all(is_labelled)
    };
    let wanted: BTreeSet<&str> = wanted.map(|entry| entry.name.as_str()).collect();
    let surplus = all.iter().filter(|(name, live)| !wanted.contains(*name) && owns(live));
    let delete = |(name, live): (&&str, &&Live)| {
        let uid = live.object.pointer("/metadata/uid")?.as_str()?.to_owned();
        let is_going = live.object.pointer("/metadata/deletionTimestamp").is_some();
        (!is_going).then(|| Write::Delete { name: (*name).to_owned(), uid })
    };
    surplus.filter_map(delete).collect()
}
