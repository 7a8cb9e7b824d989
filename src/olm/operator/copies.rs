//! Copies of a ClusterServiceVersion in the namespaces that its operator works for, by which users find it there. They are never taken
//! for operators: their label tells them apart. Those of earlier programs that lack it get it first.

pub(crate) mod book;
pub(crate) mod shown;

use super::mode::ALL;
use crate::olm::api::GROUP;
use crate::olm::api::cluster_service_version::{ClusterServiceVersion, ClusterServiceVersionStatus, Phase, reason};
use crate::olm::api::keys::{CLEANUP_FINALIZER, annotation, label};
use crate::olm::api::olm_config::DISABLED_COPIED_CSVS;
use crate::olm::permissions::hash;
use book::Outstanding;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// What is required is waited for so long before copies say that it is not there.
const SETTLES: SignedDuration = SignedDuration::from_secs(30);
/// What kubectl remembers of an object, which may be as large as the object.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// Reasons of what is not copied. What was copied before stays as it is.
const UNCOPIABLE: [&str; 8] = [
    reason::COPIED,
    reason::INVALID_INSTALL_MODES,
    reason::NO_TARGET_NAMESPACES,
    reason::UNSUPPORTED_OPERATOR_GROUP,
    reason::NO_OPERATOR_GROUP,
    reason::TOO_MANY_OPERATOR_GROUPS,
    reason::INTER_OPERATOR_GROUP_OWNER_CONFLICT,
    reason::CANNOT_MODIFY_STATIC_OPERATOR_GROUP,
];

/// What is done about the copies of a ClusterServiceVersion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Course {
    /// They are made, and follow it.
    Copied,
    /// Those that there are stay as they are.
    Kept,
    /// They are deleted.
    Removed,
}

/// Namespaces that an operator works for beside its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Targets {
    All,
    Some(BTreeSet<String>),
}

/// The original as far as its copies are concerned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Source {
    pub namespace: String,
    pub name: String,
    pub uid: String,
    /// The resourceVersion that is copied.
    pub version: String,
    pub course: Course,
    pub targets: Targets,
    /// It is in the middle of something, and will be something else soon.
    pub is_passing: bool,
    /// It lasts from then on, if nothing changes.
    pub lasts_from: Option<Timestamp>,
}

/// What is decided for all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rules {
    /// Operators that work for all namespaces are not copied.
    pub disabled: bool,
    /// Copies of operators that work for all namespaces are not written: whoever asks for them is answered without.
    pub is_virtual: bool,
    /// Namespaces in which they are all the same.
    pub protected: BTreeSet<String>,
}

impl Source {
    /// `None` for one that never had copies: its operator works for no other namespace.
    pub(crate) fn of(csv: &ClusterServiceVersion, now: Timestamp) -> Option<Source> {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let metadata = &csv.metadata;
        let namespace = text(&metadata.namespace);
        let annotations = metadata.annotations.as_ref()?;
        // It stays as it is where its group selects nothing, and so do the copies.
        let targets = match annotations.get(annotation::TARGET_NAMESPACES)?.as_str() {
            ALL => Targets::All,
            all => Targets::Some(all.split(',').filter(|target| *target != namespace).map(str::to_owned).collect()),
        };
        if targets == Targets::Some(BTreeSet::new()) {
            return None;
        }
        let status = csv.status.clone().unwrap_or_default();
        // Many copies of what passes in a moment would be written for nobody. What it requires may come in a moment, too.
        let since = status.last_transition_time.as_ref().map(|time| time.0);
        let settles = since.and_then(|since| since.checked_add(SETTLES).ok()).filter(|settles| *settles > now);
        let lasts_from = settles.filter(|_| targets == Targets::All && status.reason == reason::REQUIREMENTS_NOT_MET);
        let is_passing = match status.phase {
            Phase::InstallReady | Phase::Installing => true,
            Phase::Pending => status.reason != reason::REQUIREMENTS_NOT_MET || lasts_from.is_some(),
            _ => false,
        };
        Some(Source {
            uid: text(&metadata.uid),
            name: text(&metadata.name),
            version: text(&metadata.resource_version),
            course: course(csv, &status),
            is_passing: is_passing && targets == Targets::All,
            lasts_from: lasts_from.filter(|_| is_passing),
            namespace,
            targets,
        })
    }

    /// What is done in a namespace.
    pub(crate) fn course_in(&self, namespace: &str, rules: &Rules) -> Course {
        let is_target = match &self.targets {
            Targets::All => namespace != self.namespace,
            Targets::Some(targets) => targets.contains(namespace),
        };
        let is_unwritten = (rules.disabled || rules.is_virtual) && self.targets == Targets::All;
        if is_target && (!is_unwritten || rules.protected.contains(namespace)) { self.course } else { Course::Removed }
    }
}

fn course(csv: &ClusterServiceVersion, status: &ClusterServiceVersionStatus) -> Course {
    if csv.metadata.deletion_timestamp.is_some() || status.reason == reason::INTER_OPERATOR_GROUP_OWNER_CONFLICT {
        return Course::Removed;
    }
    let is_uncopiable = status.phase == Phase::None || UNCOPIABLE.contains(&status.reason.as_str());
    if is_uncopiable { Course::Kept } else { Course::Copied }
}

/// What copies of an original are.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Content {
    /// Without namespace and status; in an annotation it has the hash of both.
    pub object: Value,
    pub status: Value,
    pub hash: String,
}

impl Content {
    /// Whether another one is the same object, and whether it has the same status.
    pub(crate) fn same(&self, other: &Content) -> (bool, bool) {
        (compare(&self.object, other).0, self.status == other.status)
    }
}

/// The content of the copies of an object as the API server has it.
pub(crate) fn content(original: &Value) -> Content {
    let text = |pointer: &str| original.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let namespace = text("/metadata/namespace");
    let texts = |key: &str| -> BTreeMap<String, String> {
        let texts = original.pointer(&format!("/metadata/{key}")).and_then(Value::as_object);
        let texts = texts.into_iter().flatten();
        texts.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
    };
    let (labels, annotations) = (labels(texts("labels"), namespace), annotations(texts("annotations")));
    let mut status = original.get("status").cloned().unwrap_or_else(|| json!({}));
    if let Some(status) = status.as_object_mut() {
        status.insert("reason".to_owned(), reason::COPIED.into());
        let message = format!("The operator is running in {namespace} but is managing this namespace");
        status.insert("message".to_owned(), message.into());
    }
    let mut object = json!({"apiVersion": format!("{GROUP}/v1alpha1"), "kind": "ClusterServiceVersion",
        "metadata": {"name": text("/metadata/name"), "labels": labels, "annotations": annotations},
        "spec": original.get("spec")});
    let hash = hash(&json!([object, status]), "");
    if let Some(Value::Object(annotations)) = object.pointer_mut("/metadata/annotations") {
        annotations.insert(annotation::COPIED_CONTENT.to_owned(), hash.as_str().into());
    }
    Content { object, status, hash }
}

/// A merge patch by which a copy that lacks its label gets it; `None` for everything else. The finalizer of an original goes, because
/// nobody would ever remove it from a copy.
pub(crate) fn labelled(csv: &ClusterServiceVersion) -> Option<Value> {
    let of = csv.unlabelled_copy_of()?;
    let mut metadata = json!({"resourceVersion": csv.metadata.resource_version,
        "labels": {label::COPIED_FROM: of, label::MANAGED: "true"}});
    let finalizers = csv.metadata.finalizers.as_deref().unwrap_or_default();
    let others: Vec<&String> = finalizers.iter().filter(|it| *it != CLEANUP_FINALIZER).collect();
    if let Some(metadata) = metadata.as_object_mut().filter(|_| others.len() < finalizers.len()) {
        metadata.insert("finalizers".to_owned(), json!(others));
    }
    Some(json!({"metadata": metadata}))
}

/// Labels of the copies of an object of this namespace with these.
fn labels(mut labels: BTreeMap<String, String>, namespace: &str) -> BTreeMap<String, String> {
    labels.retain(|key, _| !key.starts_with(label::COMPONENT_OF));
    labels.insert(label::COPIED_FROM.to_owned(), namespace.to_owned());
    // Whoever has applied the original has not marked it.
    labels.insert(label::MANAGED.to_owned(), "true".to_owned());
    labels
}

/// Annotations of the copies of an object with these, but for the hash.
fn annotations(mut annotations: BTreeMap<String, String>) -> BTreeMap<String, String> {
    annotations.retain(|key, _| {
        ![annotation::TARGET_NAMESPACES, annotation::COPIED_CONTENT, LAST_APPLIED].contains(&key.as_str())
    });
    annotations
}

/// Whether a copy has all of it, whoever has made it and marked it; and whether its status is that.
pub(crate) fn compare(live: &Value, content: &Content) -> (bool, bool) {
    let texts = |object: &Value, key: &str| -> Map<String, Value> {
        let texts = object.pointer(&format!("/metadata/{key}")).and_then(Value::as_object);
        texts.cloned().unwrap_or_default()
    };
    let has = |key: &str| {
        let (wanted, known) = (texts(&content.object, key), texts(live, key));
        wanted
            .iter()
            .filter(|(key, _)| ![annotation::COPIED_CONTENT, label::MANAGED].contains(&key.as_str()))
            .all(|(key, value)| known.get(key) == Some(value))
    };
    let is_for_pods = texts(live, "annotations").contains_key(annotation::TARGET_NAMESPACES);
    let object = live.get("spec") == content.object.get("spec") && has("labels") && has("annotations") && !is_for_pods;
    (object, live.get("status") == Some(&content.status))
}

/// Reasons of the condition.
const DISABLED: &str = "CopiedCSVsDisabled";
const ENABLED: &str = "CopiedCSVsEnabled";

/// The conditions of OLMConfig, where they have to be written: whether what it says of copies is so. Those of others stay.
pub(crate) fn conditions(
    before: &[Condition],
    (disabled, outstanding): (bool, Outstanding),
    now: Timestamp,
) -> Option<Vec<Condition>> {
    let (status, reason, message) = match (disabled, outstanding) {
        (true, Outstanding { unexpected: true, .. }) => (
            "False",
            DISABLED,
            "Copied CSVs are disabled and at least one unexpected copied CSV was found for an operator installed in AllNamespace mode",
        ),
        (true, _) => (
            "True",
            DISABLED,
            "Copied CSVs are disabled and no unexpected copied CSVs were found for operators installed in AllNamespace mode",
        ),
        (false, Outstanding { missing: true, .. }) => {
            ("False", ENABLED, "Copied CSVs are enabled and at least one copied CSVs is missing")
        }
        (false, _) => ("False", ENABLED, "Copied CSVs are enabled and present across the cluster"),
    };
    let known = before.iter().find(|it| it.type_ == DISABLED_COPIED_CSVS);
    let is_told = known
        .is_some_and(|it| (it.status.as_str(), it.reason.as_str(), it.message.as_str()) == (status, reason, message));
    if is_told {
        return None;
    }
    let since = known.filter(|it| it.status == status).map_or(Time(now), |it| it.last_transition_time.clone());
    let others = before.iter().filter(|it| it.type_ != DISABLED_COPIED_CSVS).cloned();
    let own = Condition {
        type_: DISABLED_COPIED_CSVS.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        last_transition_time: since,
        observed_generation: None,
    };
    Some(others.chain([own]).collect())
}
