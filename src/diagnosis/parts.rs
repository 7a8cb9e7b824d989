//! What was read of a cluster to find what would hinder an update.

use super::lease::{Renewal, Silence};
use super::pods;
use super::refusals::Attempt;
use crate::diagnosis::Trouble;
use crate::merge::quantity::parts;
use crate::object::budgets::Budget;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// What was read from the cluster. What could not be read is empty, and told elsewhere.
#[derive(Clone, Debug, Default)]
pub(crate) struct Parts {
    pub nodes: Vec<Node>,
    pub budgets: Vec<Budget>,
    pub api_services: Vec<Value>,
    pub definitions: Vec<Value>,
    /// Validating and mutating ones.
    pub webhooks: Vec<Value>,
    /// Namespace and name of Services that have an endpoint that is ready; `None` if that is not known.
    pub answering: Option<BTreeSet<(String, String)>>,
    /// That of the daemon, as far as it was looked for.
    pub deployment: Deployment,
    /// What the daemon needs and may not do, such as `patch clusterversions.config.openshift.io`.
    pub denied: Vec<String>,
    pub pods: Vec<PodFacts>,
    /// When the kubelet of each node renewed its lease last.
    pub renewed: Vec<(String, Renewal)>,
    /// The clock of the API server, and that of this machine at the same moment.
    pub clocks: Option<(Timestamp, Timestamp)>,
    /// Processes of ours that should renew their leases, and do not.
    pub silences: Vec<Silence>,
    /// What the daemon writes, tried.
    pub attempts: Vec<Attempt>,
}

/// What of a pod is looked at. A cluster has tens of thousands.
#[derive(Clone, Debug, Default)]
pub(crate) struct PodFacts {
    /// Where it runs, or is to run.
    pub(crate) node: Option<String>,
    /// What it keeps from other pods: thousandths of a CPU, and bytes.
    pub(crate) requests: (i128, i128),
    /// It has an image that its node does not get.
    pub(crate) without_image: Option<Trouble>,
}

impl PodFacts {
    pub(crate) fn of(pod: &Pod) -> PodFacts {
        let spec = pod.spec.as_ref().filter(|_| !pods::has_ended(pod));
        let containers = spec.into_iter().flat_map(|spec| &spec.containers);
        let requests = containers.filter_map(|container| container.resources.as_ref()?.requests.as_ref());
        let sum = |sum: (i128, i128), of| (sum.0 + quantity(of, "cpu", 1000), sum.1 + quantity(of, "memory", 1));
        PodFacts {
            node: spec.and_then(|spec| spec.node_name.clone()),
            requests: requests.fold((0, 0), sum),
            without_image: without_image(pod),
        }
    }
}

/// The daemon's own Deployment.
#[derive(Clone, Debug, Default)]
pub(crate) enum Deployment {
    /// Nobody has looked, or it could not be read.
    #[default]
    Unknown,
    /// `namespace/name`.
    Missing(String),
    Found(Value),
}

impl Deployment {
    pub(crate) fn found(&self) -> Option<&Value> {
        if let Deployment::Found(deployment) = self { Some(deployment) } else { None }
    }
}

pub(crate) fn quantity(of: &BTreeMap<String, Quantity>, name: &str, in_a_unit: i128) -> i128 {
    of.get(name).and_then(|quantity| parts(&quantity.0, in_a_unit)).unwrap_or_default()
}

/// An image that a node does not get: its registry may be unreachable for the images of an update, too.
fn without_image(pod: &Pod) -> Option<Trouble> {
    let trouble = pods::trouble(pod, &[], Timestamp::MIN)?;
    let images = ["ErrImagePull", "ImagePullBackOff", "RegistryUnavailable", "InvalidImageName"];
    images.iter().any(|reason| trouble.message.starts_with(reason)).then_some(trouble)
}

pub(crate) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Reason and message of a condition that has this status.
pub(crate) fn condition(object: &Value, type_: &str, status: &str) -> Option<String> {
    let conditions = object.pointer("/status/conditions").and_then(Value::as_array);
    let found = conditions?.iter().find(|it| text(it, "/type") == type_ && text(it, "/status") == status)?;
    Some(format!("{} ({})", text(found, "/message"), text(found, "/reason")))
}
