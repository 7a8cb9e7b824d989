//! Desired into live (payload-and-apply §5): what a manifest owns of the object that is there, and which fields differ.
//!
//! Works on raw JSON, so that fields newer than this program survive on both sides (§5.13, §9.3 C7). One table says
//! which rules a kind follows; everything without an entry is enforced field by field as far as the manifest goes.
//! Defaults that the server fills in are no difference, nor are two spellings of one value.

mod crd;
mod equal;
mod initial;
pub mod inject;
mod metadata;
mod openshift;
mod plain;
mod quantity;
mod rbac;
mod rule;
mod service;
mod step;
mod volume;
mod walk;
mod wanted;
mod webhook;
mod workload;

#[cfg(test)]
mod tests;

pub use initial::initial;
pub use metadata::{Owner, prepare};
pub use step::{Left, Step, step};
pub use wanted::{WantedError, wanted};

use rule::{Rule, Shape};
use serde_json::Value;
use std::borrow::Cow;
use walk::{At, Settled, Walk};

/// What has to be done so that the live object is as the payload wants it.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// Nothing.
    Same,
    /// PUT `object`: the live object, its resourceVersion included, with everything set that the payload owns.
    /// `fields` are the paths that differ, as `spec.template.spec.containers[web].image` or
    /// `metadata.labels[example.com/tier]`; they never hold values, which may be secret.
    Changed { object: Value, fields: Vec<String> },
    /// A field differs that cannot change in place and whose object may safely be made anew (§9.3 C6): DELETE the live
    /// object with its uid as precondition, wait until it is gone, POST `object`. It carries the foreign labels,
    /// annotations and owners of the old one. Bindings with another `roleRef` and Jobs with another template or selector.
    Replace { object: Value, fields: Vec<String> },
}

/// Why a manifest cannot be merged into a live object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MergeError {
    #[error("{side} is not a Kubernetes object: {field} is missing or no text; correct the manifest")]
    NotAnObject { side: &'static str, field: &'static str },
    #[error("cannot merge manifest {want} into live {live}: they are two objects; read the one the manifest names")]
    OtherObject { live: String, want: String },
    /// The server would refuse the change, and nobody may delete the object but its administrator.
    #[error(
        "{object} cannot be brought to the release: {field} differs and cannot be changed in place; \
         delete the object and it is created anew as the release wants it"
    )]
    Immutable { object: String, field: String },
    /// The manifest itself is at fault.
    #[error("{0}")]
    Manifest(String),
}

/// Makes the manifest fit the live object before they are compared.
type Adapt = for<'a> fn(&Value, &'a Value) -> Cow<'a, Value>;

/// The rules of one kind.
struct Kind {
    group: &'static str,
    kind: &'static str,
    shape: &'static Shape,
    adapt: Adapt,
    fixed: Fixed,
}

/// Fields that the server does not let change, and what helps.
#[derive(Clone, Copy)]
enum Fixed {
    Nothing,
    /// Deleting and creating the object harms nobody.
    Recreate(&'static [&'static str]),
    /// Deleting the object would take something away that only an administrator may give up.
    Refuse(&'static [&'static str]),
}

fn unadapted<'a>(_live: &Value, want: &'a Value) -> Cow<'a, Value> {
    Cow::Borrowed(want)
}

const fn kind(group: &'static str, kind: &'static str, shape: &'static Shape) -> Kind {
    Kind { group, kind, shape, adapt: unadapted, fixed: Fixed::Nothing }
}

const RBAC: &str = "rbac.authorization.k8s.io";
const ADMISSION: &str = "admissionregistration.k8s.io";
const ROLE_REF: Fixed = Fixed::Recreate(&["roleRef"]);
const SELECTOR: Fixed = Fixed::Refuse(&["spec.selector"]);
const JOB_FIXED: Fixed = Fixed::Recreate(&[
    "spec.template",
    "spec.selector",
    "spec.manualSelector",
    "spec.completions",
    "spec.completionMode",
    "spec.podFailurePolicy",
    "spec.backoffLimitPerIndex",
    "spec.successPolicy",
    "spec.managedBy",
]);

const KINDS: &[Kind] = &[
    kind("", "Namespace", plain::METADATA_ONLY),
    kind("", "ConfigMap", plain::CONFIG_MAP),
    Kind { adapt: plain::encode_text, ..kind("", "Secret", plain::SECRET) },
    kind("", "ServiceAccount", plain::SERVICE_ACCOUNT),
    kind("", "Service", service::SERVICE),
    kind("", "ResourceQuota", plain::RESOURCE_QUOTA),
    Kind { fixed: SELECTOR, ..kind("apps", "Deployment", workload::DEPLOYMENT) },
    Kind { fixed: SELECTOR, ..kind("apps", "DaemonSet", workload::DAEMON_SET) },
    Kind { fixed: SELECTOR, ..kind("apps", "StatefulSet", workload::STATEFUL_SET) },
    Kind { fixed: JOB_FIXED, ..kind("batch", "Job", workload::JOB) },
    kind("batch", "CronJob", workload::CRON_JOB),
    kind("", "LimitRange", plain::LIMIT_RANGE),
    kind("policy", "PodDisruptionBudget", plain::DISRUPTION_BUDGET),
    kind("autoscaling", "HorizontalPodAutoscaler", plain::AUTOSCALER),
    kind("node.k8s.io", "RuntimeClass", plain::RUNTIME_CLASS),
    kind("networking.k8s.io", "IngressClass", plain::INGRESS_CLASS),
    kind("networking.k8s.io", "NetworkPolicy", plain::NETWORK_POLICY),
    kind("flowcontrol.apiserver.k8s.io", "FlowSchema", plain::FLOW_SCHEMA),
    kind("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration", plain::PRIORITY_LEVEL),
    kind(ADMISSION, "ValidatingAdmissionPolicyBinding", plain::POLICY_BINDING),
    kind(RBAC, "Role", rbac::ROLE),
    kind(RBAC, "ClusterRole", rbac::CLUSTER_ROLE),
    Kind { fixed: ROLE_REF, ..kind(RBAC, "RoleBinding", rbac::BINDING) },
    Kind { fixed: ROLE_REF, ..kind(RBAC, "ClusterRoleBinding", rbac::BINDING) },
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

const GENERIC: Kind = kind("", "", plain::GENERIC);

/// Groups whose objects are stored by typed servers, which drop empty fields; others are custom resources and come back
/// as they were written.
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

/// Merges a prepared manifest (see [`prepare`]) into the live object. Merging the result again gives `Same`.
///
/// # Errors
/// One of the two is no object, they are different objects, or a field differs that can neither change in place nor be
/// had by making the object anew.
pub fn merge(live: &Value, want: &Value) -> Result<Outcome, MergeError> {
    let identity = Identity::of(want)?;
    identity.check(live)?;
    let kind = KINDS.iter().find(|k| k.group == identity.group && k.kind == identity.kind).unwrap_or(&GENERIC);
    let adapted = metadata::fit_owners(live, (kind.adapt)(live, want));
    // A group without a dot is Kubernetes' own.
    let typed = !identity.group.contains('.') || TYPED.contains(&identity.group);
    let mut walk = Walk::new(typed);
    let merged = match walk.value(Rule::Map(kind.shape), live, &adapted, &At::ROOT) {
        // What a kind requires is never left out, even where the manifest does.
        Settled::Set(object) => initial(identity.stamped(object)),
        Settled::Keep | Settled::Remove => return Ok(Outcome::Same),
    };
    let fields = walk.differences;
    let touches = |fixed: &[&str]| fields.iter().find(|path| fixed.iter().any(|root| below(path, root))).cloned();
    match kind.fixed {
        Fixed::Recreate(fixed) if touches(fixed).is_some() => {
            Ok(Outcome::Replace { object: metadata::successor(&merged, want), fields })
        }
        Fixed::Refuse(fixed) => match touches(fixed) {
            Some(field) => Err(MergeError::Immutable { object: identity.label(), field }),
            None => Ok(Outcome::Changed { object: merged, fields }),
        },
        _ => Ok(Outcome::Changed { object: merged, fields }),
    }
}

/// Is `path` the field `root` or something in it?
fn below(path: &str, root: &str) -> bool {
    path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

/// Which object a manifest is.
struct Identity<'a> {
    api_version: &'a str,
    group: &'a str,
    kind: &'a str,
    namespace: &'a str,
    name: &'a str,
}

impl<'a> Identity<'a> {
    fn of(want: &'a Value) -> Result<Self, MergeError> {
        let text = |pointer: &str, field: &'static str| {
            let value = want.pointer(pointer).and_then(Value::as_str).filter(|text| !text.is_empty());
            value.ok_or(MergeError::NotAnObject { side: "the manifest", field })
        };
        let api_version = text("/apiVersion", "apiVersion")?;
        Ok(Identity {
            api_version,
            group: group(api_version),
            kind: text("/kind", "kind")?,
            namespace: want.pointer("/metadata/namespace").and_then(Value::as_str).unwrap_or_default(),
            name: text("/metadata/name", "metadata.name")?,
        })
    }

    /// The live object is the one the manifest names. An element of a list carries neither kind nor version, and an
    /// object of the cluster scope has no namespace even if its manifest names one.
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
        Err(MergeError::OtherObject { live: live.label(), want: self.label() })
    }

    /// The object with kind and version, which a list leaves out and a write needs.
    fn stamped(&self, mut object: Value) -> Value {
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

fn group(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}
