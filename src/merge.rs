//! Merges the desired object of a manifest into the live object, and says which fields differ.
//!
//! Works on raw JSON, so that fields newer than this program survive on both sides. A table of rules by kind says which
//! fields the payload owns. For kinds without an entry it owns every field that the manifest sets, and those that the
//! manifest of a former release has set. Defaults that the API server fills in are not a difference, nor are two ways of
//! writing the same value.

mod apply;
mod ca_bundle;
mod crd;
mod desired;
mod equal;
pub(crate) mod initial;
pub(crate) mod inject;
mod job;
pub(crate) mod metadata;
mod openshift;
mod ownership;
mod plain;
pub(crate) mod quantity;
mod rbac;
mod rule;
mod schema;
mod schemas;
mod service;
mod step;
mod volume;
mod walk;
mod webhook;
mod workload;

pub(crate) use apply::{configuration, taken_over};
pub(crate) use desired::{Desired, DesiredError, desired};
pub(crate) use initial::{initial, initial_status};
pub(crate) use metadata::Owner;
pub use ownership::Manager;
pub(crate) use ownership::{OfOthers, ReadSchema};
pub(crate) use schemas::Schemas;
pub(crate) use step::{Applied, Skip, Step, step};

use rule::{Rule, Shape};
use serde_json::Value;
use std::borrow::Cow;
use walk::{At, Merged, Walk};

/// The write that brings the live object to the desired state.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// No write.
    Same,
    /// PUT `object`: the live object, its resourceVersion included, with all fields set that the payload owns. `fields` are
    /// the paths that differ, such as `spec.template.spec.containers[web].image` or `metadata.labels[example.com/tier]`.
    /// They never contain values, which may be secret.
    Changed { object: Value, fields: Vec<String> },
    /// DELETE the live object with its uid as precondition, wait until it is gone, and POST `object`, which keeps labels,
    /// annotations and owners that others added. For an immutable field of an object that can safely be recreated: a binding
    /// with another `roleRef`, or a Job with another template or selector.
    Replace { object: Value, fields: Vec<String> },
}

/// Why a manifest cannot be merged into a live object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MergeError {
    #[error("{side} is not a Kubernetes object: {field} is missing or not text; correct the manifest")]
    NotAnObject { side: &'static str, field: &'static str },
    #[error(
        "cannot merge manifest {desired} into live {live}: these are different objects; read the one of the manifest"
    )]
    OtherObject { live: String, desired: String },
    /// The API server would refuse the change, and only an administrator may decide to delete the object.
    #[error(
        "{object} cannot be updated to the release: {field} differs and is immutable; \
         delete the object, and it will be created as in the release"
    )]
    Immutable { object: String, field: String },
    /// The manifest is invalid.
    #[error("{0}")]
    Manifest(String),
}

/// Adapts the desired object to the live one before they are compared.
type Adapt = for<'a> fn(&Value, &'a Value) -> Cow<'a, Value>;

/// The rules of one kind.
struct Kind {
    group: &'static str,
    kind: &'static str,
    shape: &'static Shape,
    adapt: Adapt,
    immutable: Immutable,
    /// Written by server-side apply: see [`apply`]. Then the elements that other managers have added to lists stay.
    applied: bool,
}

/// Fields that the API server does not let change, and what is done if one differs.
#[derive(Clone, Copy)]
enum Immutable {
    Nothing,
    /// The object is recreated, which does no harm.
    Recreate(&'static [&'static str]),
    /// The merge fails: recreating the object would interrupt its workload, which only an administrator may decide.
    Refuse(&'static [&'static str]),
}

fn unadapted<'a>(_live: &Value, desired: &'a Value) -> Cow<'a, Value> {
    Cow::Borrowed(desired)
}

const fn kind(group: &'static str, kind: &'static str, shape: &'static Shape) -> Kind {
    Kind { group, kind, shape, adapt: unadapted, immutable: Immutable::Nothing, applied: false }
}

const RBAC: &str = "rbac.authorization.k8s.io";
const ADMISSION: &str = "admissionregistration.k8s.io";
const ROLE_REF: Immutable = Immutable::Recreate(&["roleRef"]);
const SELECTOR: Immutable = Immutable::Refuse(&["spec.selector"]);
const KINDS: &[Kind] = &[
    kind("", "Namespace", plain::METADATA_ONLY),
    kind("", "ConfigMap", plain::CONFIG_MAP),
    Kind { adapt: plain::encode_text, ..kind("", "Secret", plain::SECRET) },
    kind("", "ServiceAccount", plain::SERVICE_ACCOUNT),
    kind("", "Service", service::SERVICE),
    kind("", "ResourceQuota", plain::RESOURCE_QUOTA),
    Kind { immutable: SELECTOR, ..kind("apps", "Deployment", workload::DEPLOYMENT) },
    Kind { immutable: SELECTOR, ..kind("apps", "DaemonSet", workload::DAEMON_SET) },
    Kind { immutable: SELECTOR, ..kind("apps", "StatefulSet", workload::STATEFUL_SET) },
    Kind {
        adapt: job::keep_immutable,
        immutable: Immutable::Recreate(job::IMMUTABLE),
        ..kind("batch", "Job", workload::JOB)
    },
    kind("batch", "CronJob", workload::CRON_JOB),
    kind("", "LimitRange", plain::LIMIT_RANGE),
    kind("policy", "PodDisruptionBudget", plain::DISRUPTION_BUDGET),
    kind("autoscaling", "HorizontalPodAutoscaler", plain::AUTOSCALER),
    kind("node.k8s.io", "RuntimeClass", plain::RUNTIME_CLASS),
    kind("networking.k8s.io", "IngressClass", plain::INGRESS_CLASS),
    kind("networking.k8s.io", "NetworkPolicy", plain::NETWORK_POLICY),
    Kind { applied: true, ..kind("flowcontrol.apiserver.k8s.io", "FlowSchema", plain::FLOW_SCHEMA) },
    kind("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration", plain::PRIORITY_LEVEL),
    kind(ADMISSION, "ValidatingAdmissionPolicyBinding", plain::POLICY_BINDING),
    kind(RBAC, "Role", rbac::ROLE),
    kind(RBAC, "ClusterRole", rbac::CLUSTER_ROLE),
    Kind { immutable: ROLE_REF, ..kind(RBAC, "RoleBinding", rbac::BINDING) },
    Kind { immutable: ROLE_REF, ..kind(RBAC, "ClusterRoleBinding", rbac::BINDING) },
    Kind { adapt: crd::keep_conversion_bundle, ..kind("apiextensions.k8s.io", "CustomResourceDefinition", crd::CRD) },
    Kind { adapt: webhook::keep_bundles, ..kind(ADMISSION, "ValidatingWebhookConfiguration", webhook::WEBHOOKS) },
    Kind { adapt: webhook::keep_bundles, ..kind(ADMISSION, "MutatingWebhookConfiguration", webhook::WEBHOOKS) },
    Kind { adapt: webhook::keep_service_bundle, ..kind("apiregistration.k8s.io", "APIService", webhook::API_SERVICE) },
    Kind {
        adapt: openshift::imply_host_path,
        ..kind("security.openshift.io", "SecurityContextConstraints", openshift::CONSTRAINTS)
    },
    kind("image.openshift.io", "ImageStream", openshift::IMAGE_STREAM),
    kind("operators.coreos.com", "OperatorGroup", openshift::OPERATOR_GROUP),
    kind("config.openshift.io", "ClusterOperator", plain::METADATA_ONLY),
];

const GENERIC: Kind = Kind { applied: true, ..kind("", "", plain::GENERIC) };

fn rules(group: &str, kind: &str) -> &'static Kind {
    KINDS.iter().find(|k| k.group == group && k.kind == kind).unwrap_or(&GENERIC)
}

/// Whether an object of this kind is deleted and created again where a field differs that the API server does not let change.
pub(crate) fn may_be_replaced(group: &str, kind: &str) -> bool {
    matches!(rules(group, kind).immutable, Immutable::Recreate(_))
}

/// Whether objects of this kind are written by server-side apply.
pub(crate) fn is_applied(group: &str, kind: &str) -> bool {
    rules(group, kind).applied
}

/// Groups with a dot whose API servers have Go types and therefore drop empty fields. Objects of other such groups are
/// custom resources and are stored as they were written.
const TYPED: &[&str] = &[
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "apiregistration.k8s.io",
    "apps.openshift.io",
    "authorization.openshift.io",
    "build.openshift.io",
    "certificates.k8s.io",
    "coordination.k8s.io",
    "discovery.k8s.io",
    "events.k8s.io",
    "flowcontrol.apiserver.k8s.io",
    "image.openshift.io",
    "networking.k8s.io",
    "node.k8s.io",
    "oauth.openshift.io",
    "project.openshift.io",
    "quota.openshift.io",
    "rbac.authorization.k8s.io",
    "resource.k8s.io",
    "route.openshift.io",
    "scheduling.k8s.io",
    "security.openshift.io",
    "storage.k8s.io",
    "template.openshift.io",
    "user.openshift.io",
];

/// Groups without a dot are built into Kubernetes.
fn is_typed(group: &str) -> bool {
    !group.contains('.') || TYPED.contains(&group)
}

/// Merges a desired object (see [`metadata::prepare`]) into the live object. Merging it into the result again gives `Same`.
///
/// # Errors
/// One of the two is not an object, they are different objects, or a field differs that can neither be changed in place nor
/// by recreating the object.
pub fn merge(live: &Value, desired: &Value, manager: Manager) -> Result<Outcome, MergeError> {
    merge_with(live, desired, manager, &|| None)
}

/// The same for an object whose kind has this schema.
fn merge_with(live: &Value, desired: &Value, manager: Manager, schema: ReadSchema<'_>) -> Result<Outcome, MergeError> {
    let identity = Identity::of(desired)?;
    identity.check(live)?;
    let kind = rules(identity.group, identity.kind);
    let adapted = match kind.applied {
        true => ownership::keep_elements_of_others(live, desired, manager),
        false => (kind.adapt)(live, desired),
    };
    let adapted = metadata::fit_owners(live, adapted);
    let typed = is_typed(identity.group);
    let mut walk = Walk::new(typed);
    let merged = walk.value(Rule::Map(kind.shape), live, &adapted, &At::ROOT);
    let mut fields = walk.differences;
    if kind.applied {
        let dropped = ownership::dropped(live, desired, manager, typed, schema);
        let new: Vec<String> = dropped.into_iter().filter(|path| !fields.contains(path)).collect();
        fields.extend(new);
    }
    let merged = match merged {
        Merged::Set(object) => object,
        Merged::Keep | Merged::Remove if fields.is_empty() => return Ok(Outcome::Same),
        Merged::Keep | Merged::Remove => live.clone(),
    };
    // A PUT without a field that the kind requires would be refused.
    let merged = initial(identity.with_type(merged));
    let differing = |roots: &[&str]| fields.iter().find(|path| roots.iter().any(|root| below(path, root))).cloned();
    match kind.immutable {
        Immutable::Recreate(roots) if differing(roots).is_some() => {
            Ok(Outcome::Replace { object: metadata::replacement(&merged, desired), fields })
        }
        Immutable::Refuse(roots) => match differing(roots) {
            Some(field) => Err(MergeError::Immutable { object: identity.label(), field }),
            None => Ok(Outcome::Changed { object: merged, fields }),
        },
        _ => Ok(Outcome::Changed { object: merged, fields }),
    }
}

/// Whether `path` is the field `root` or below it.
fn below(path: &str, root: &str) -> bool {
    path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

/// The object that a manifest describes.
struct Identity<'a> {
    api_version: &'a str,
    group: &'a str,
    kind: &'a str,
    namespace: &'a str,
    name: &'a str,
}

impl<'a> Identity<'a> {
    fn of(desired: &'a Value) -> Result<Self, MergeError> {
        let text = |pointer: &str, field: &'static str| {
            let value = desired.pointer(pointer).and_then(Value::as_str).filter(|text| !text.is_empty());
            value.ok_or(MergeError::NotAnObject { side: "the manifest", field })
        };
        let api_version = text("/apiVersion", "apiVersion")?;
        Ok(Identity {
            api_version,
            group: metadata::group(api_version),
            kind: text("/kind", "kind")?,
            namespace: desired.pointer("/metadata/namespace").and_then(Value::as_str).unwrap_or_default(),
            name: text("/metadata/name", "metadata.name")?,
        })
    }

    /// Whether the live object is the one of the manifest. An element of a list has neither kind nor version, and a
    /// cluster-scoped object has no namespace even if its manifest sets one.
    fn check(&self, live: &Value) -> Result<(), MergeError> {
        let text = |pointer: &str| live.pointer(pointer).and_then(Value::as_str);
        let Some(name) = text("/metadata/name") else {
            return Err(MergeError::NotAnObject { side: "the live object", field: "metadata.name" });
        };
        let other = name != self.name
            || text("/kind").is_some_and(|kind| kind != self.kind)
            || text("/apiVersion").is_some_and(|version| version != self.api_version)
            || text("/metadata/namespace").is_some_and(|ns| !self.namespace.is_empty() && ns != self.namespace);
        if !other {
            return Ok(());
        }
        let live = Identity {
            api_version: text("/apiVersion").unwrap_or(self.api_version),
            group: self.group,
            kind: text("/kind").unwrap_or(self.kind),
            namespace: text("/metadata/namespace").unwrap_or_default(),
            name,
        };
        Err(MergeError::OtherObject { live: live.label(), desired: self.label() })
    }

    /// The object with kind and version, which elements of a list lack and a write needs.
    fn with_type(&self, mut object: Value) -> Value {
        if let Some(map) = object.as_object_mut() {
            for (key, value) in [("apiVersion", self.api_version), ("kind", self.kind)] {
                map.entry(key).or_insert_with(|| Value::from(value));
            }
        }
        object
    }

    fn label(&self) -> String {
        let place = if self.namespace.is_empty() { String::new() } else { format!("{}/", self.namespace) };
        format!("{} {} \"{place}{}\"", self.api_version, self.kind, self.name)
    }
}

#[cfg(test)]
mod tests;
