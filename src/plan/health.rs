//! What in a cluster would keep an update from starting or ending, whichever release it is to.

use super::pods;
use super::trouble::Trouble;
use crate::merge::quantity::parts;
use crate::pools::budgets::Budget;
use crate::pools::node::NodeFacts;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use x509_cert::Certificate;
use x509_cert::der::Decode;

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
    /// That of the daemon, if it exists.
    pub deployment: Option<Value>,
    /// What the daemon needs and may not do, such as `patch clusterversions.config.openshift.io`.
    pub denied: Vec<String>,
    pub pods: Vec<PodFacts>,
    /// When the kubelet of each node renewed its lease last, by its own clock.
    pub renewed: Vec<(String, Timestamp)>,
    /// The clock of the API server, and that of this machine at the same moment.
    pub clocks: Option<(Timestamp, Timestamp)>,
}

/// What of a pod is looked at. A cluster has tens of thousands.
#[derive(Clone, Debug, Default)]
pub(crate) struct PodFacts {
    /// Where it runs, or is to run.
    node: Option<String>,
    /// What it keeps from other pods: thousandths of a CPU, and bytes.
    requests: (i128, i128),
    /// It has an image that its node does not get.
    without_image: Option<Trouble>,
}

impl PodFacts {
    pub(crate) fn of(pod: &Pod) -> PodFacts {
        let ended =
            matches!(pod.status.as_ref().and_then(|status| status.phase.as_deref()), Some("Succeeded" | "Failed"));
        let spec = pod.spec.as_ref().filter(|_| !ended);
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

/// A node renews its lease every 10 seconds, and counts as lost after 40.
const RENEWED: SignedDuration = SignedDuration::from_secs(60);
/// Clocks further apart than this make certificates, tokens and times in conditions wrong.
const APART: SignedDuration = SignedDuration::from_secs(10);
/// A certificate that ends sooner may end during an update.
const ENDS_SOON: SignedDuration = SignedDuration::from_hours(7 * 24);
/// What a pod of an update needs at least: in thousandths of a CPU, and in bytes.
const ROOM: (i128, i128) = (100, 128 << 20);

pub(crate) fn troubles(parts: &Parts) -> Vec<Trouble> {
    let mut troubles: Vec<Trouble> = parts.deployment.iter().filter_map(daemon).collect();
    troubles.extend(parts.nodes.iter().filter_map(node));
    troubles.extend(parts.api_services.iter().filter_map(api_service));
    troubles.extend(parts.definitions.iter().filter_map(definition));
    if let Some(answering) = &parts.answering {
        troubles.extend(parts.webhooks.iter().flat_map(|configuration| webhooks(configuration, answering)));
    }
    troubles.extend(parts.budgets.iter().filter_map(budget));
    troubles.extend(rights(&parts.denied));
    troubles.extend(room(&parts.nodes, &parts.pods));
    troubles.extend(parts.pods.iter().filter_map(|pod| pod.without_image.clone()));
    if let Some((server, own)) = parts.clocks {
        troubles.extend(clocks(server, own, parts));
        let bundles = parts.webhooks.iter().chain(&parts.api_services).chain(&parts.definitions);
        troubles.extend(bundles.flat_map(|object| certificates(object, server)));
    }
    troubles
}

fn rights(denied: &[String]) -> Option<Trouble> {
    (!denied.is_empty()).then(|| {
        let message = format!("it may not {}", denied.join(", "));
        trouble(
            "the daemon's service account".to_owned(),
            message,
            "Apply the roles of the release again, or those that cvo rbac prints",
        )
    })
}

/// Whether any node has room for one more pod.
fn room(nodes: &[Node], pods: &[PodFacts]) -> Option<Trouble> {
    let mut taken: BTreeMap<&str, (i128, i128)> = BTreeMap::new();
    for (node, (cpu, memory)) in pods.iter().filter_map(|pod| Some((pod.node.as_deref()?, pod.requests))) {
        let used = taken.entry(node).or_default();
        *used = (used.0 + cpu, used.1 + memory);
    }
    let schedulable =
        nodes.iter().filter(|node| NodeFacts::of(node).problems.is_empty() && !NodeFacts::of(node).unschedulable);
    let mut known = schedulable
        .filter_map(|node| {
            let room = node.status.as_ref()?.allocatable.as_ref()?;
            let used = taken.get(node.metadata.name.as_deref()?).copied().unwrap_or_default();
            Some((quantity(room, "cpu", 1000) - used.0, quantity(room, "memory", 1) - used.1))
        })
        .peekable();
    known.peek()?;
    (!known.any(|(cpu, memory)| cpu >= ROOM.0 && memory >= ROOM.1)).then(|| {
        let message = format!("no node has {}m CPU and {} Mi of memory left for one more pod", ROOM.0, ROOM.1 >> 20);
        trouble(
            "nodes".to_owned(),
            message,
            "Add a node, or lower the requests of pods: a rolling update starts new pods first",
        )
    })
}

fn quantity(of: &BTreeMap<String, Quantity>, name: &str, in_a_unit: i128) -> i128 {
    of.get(name).and_then(|quantity| parts(&quantity.0, in_a_unit)).unwrap_or_default()
}

/// An image that a node does not get: its registry may be unreachable for the images of an update, too.
fn without_image(pod: &Pod) -> Option<Trouble> {
    let trouble = pods::trouble(pod, &[], Timestamp::MIN)?;
    let images = ["ErrImagePull", "ImagePullBackOff", "RegistryUnavailable", "InvalidImageName"];
    images.iter().any(|reason| trouble.message.starts_with(reason)).then_some(trouble)
}

fn clocks(server: Timestamp, own: Timestamp, parts: &Parts) -> Vec<Trouble> {
    let step = "Set the clock by NTP (chronyd, systemd-timesyncd), and let it run";
    let mut troubles = Vec::new();
    let apart = own.duration_since(server);
    if apart.abs() > APART {
        let message = format!("its clock is {} s {} that of the API server", apart.abs().as_secs(), side(apart));
        troubles.push(trouble("this machine".to_owned(), message, step));
    }
    let lost = |name: &str| {
        let mut named = parts.nodes.iter().filter(|node| node.metadata.name.as_deref() == Some(name));
        named.next().is_none_or(|node| !NodeFacts::of(node).problems.is_empty())
    };
    for (node, renewed) in parts.renewed.iter().filter(|(node, _)| !lost(node)) {
        let apart = renewed.duration_since(server);
        if apart > APART || apart < -RENEWED {
            let message = format!(
                "it works, and renewed its lease at a time {} s {} the clock of the API server",
                apart.abs().as_secs(),
                side(apart)
            );
            troubles.push(trouble(format!("node {node}"), message, step));
        }
    }
    troubles
}

fn side(apart: SignedDuration) -> &'static str {
    if apart.is_positive() { "ahead of" } else { "behind" }
}

/// Certificates by which the API server knows webhooks and the servers of kinds.
fn certificates(object: &Value, now: Timestamp) -> Vec<Trouble> {
    let hooks = object.get("webhooks").and_then(Value::as_array).into_iter().flatten();
    let bundles = hooks.filter_map(|hook| hook.pointer("/clientConfig/caBundle"));
    let own = ["/spec/caBundle", "/spec/conversion/webhook/clientConfig/caBundle"];
    let bundles = bundles.chain(own.iter().filter_map(|pointer| object.pointer(pointer)));
    let ends = bundles.filter_map(Value::as_str).filter_map(last_end);
    let kind = text(object, "/kind").to_lowercase();
    let name = text(object, "/metadata/name");
    ends.min()
        .filter(|end| end.duration_since(now) < ENDS_SOON)
        .map(|end| {
            let verb = if end <= now { "ended" } else { "ends" };
            trouble(
                format!("{kind} {name}"),
                format!("the certificate by which the API server trusts it {verb} at {end}"),
                "Let whoever made it renew the certificate and its caBundle: calls fail once it has ended",
            )
        })
        .into_iter()
        .collect()
}

/// When the last certificate of a bundle ends: it is trusted as long as one of them is valid.
fn last_end(bundle: &str) -> Option<Timestamp> {
    let pem = String::from_utf8(BASE64_STANDARD.decode(bundle).ok()?).ok()?;
    let blocks = pem.split("-----BEGIN CERTIFICATE-----").skip(1);
    let certificates = blocks.filter_map(|block| {
        let block = block.split("-----END").next()?;
        let der = BASE64_STANDARD.decode(block.split_whitespace().collect::<String>()).ok()?;
        Certificate::from_der(&der).ok()
    });
    let ends = certificates.map(|it| it.tbs_certificate.validity.not_after.to_unix_duration());
    ends.filter_map(|end| Timestamp::from_second(i64::try_from(end.as_secs()).ok()?).ok()).max()
}

fn trouble(object: String, message: impl Into<String>, next_step: impl Into<String>) -> Trouble {
    Trouble { object, message: message.into(), next_step: next_step.into() }
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Reason and message of a condition that has this status.
fn condition(object: &Value, type_: &str, status: &str) -> Option<String> {
    let conditions = object.pointer("/status/conditions").and_then(Value::as_array);
    let found = conditions?.iter().find(|it| text(it, "/type") == type_ && text(it, "/status") == status)?;
    Some(format!("{} ({})", text(found, "/message"), text(found, "/reason")))
}

fn daemon(deployment: &Value) -> Option<Trouble> {
    let object =
        format!("deployment {}/{}", text(deployment, "/metadata/namespace"), text(deployment, "/metadata/name"));
    let wanted = deployment.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or(1);
    let ready = deployment.pointer("/status/readyReplicas").and_then(Value::as_i64).unwrap_or_default();
    match (wanted, ready) {
        (0, _) => Some(trouble(object, "the daemon is switched off", "Scale its Deployment to 1")),
        (_, 0) => {
            let why = condition(deployment, "Available", "False").map(|why| format!(": {why}")).unwrap_or_default();
            Some(trouble(
                object,
                format!("the daemon does not run{why}"),
                "Look at its pods: kubectl describe, and their logs",
            ))
        }
        _ => None,
    }
}

fn node(node: &Node) -> Option<Trouble> {
    let facts = NodeFacts::of(node);
    let object = format!("node {}", facts.name);
    let problems: Vec<&str> = facts.problems.iter().map(|problem| problem.what.as_str()).collect();
    if !problems.is_empty() {
        let message = format!("it cannot run pods: {}", problems.join(", "));
        return Some(trouble(object, message, "Look at its kubelet and its disk, or remove the node from the cluster"));
    }
    (facts.unschedulable && !facts.cordoned_for_update).then(|| {
        trouble(object, "somebody has cordoned it", "kubectl uncordon, once whatever it was cordoned for is over")
    })
}

fn api_service(service: &Value) -> Option<Trouble> {
    let why = condition(service, "Available", "False")?;
    let object = format!("apiservice {}", text(service, "/metadata/name"));
    let message = format!("its kinds are not served: {why}");
    Some(trouble(object, message, "Look at the pods behind its Service, or delete it if they are gone for good"))
}

fn definition(definition: &Value) -> Option<Trouble> {
    let why =
        condition(definition, "NamesAccepted", "False").or_else(|| condition(definition, "Established", "False"))?;
    let object = format!("customresourcedefinition {}", text(definition, "/metadata/name"));
    let message = format!("its kind is not served: {why}");
    Some(trouble(object, message, "Free the name that is taken by another definition, or delete one of both"))
}

/// Webhooks without which writes fail, and behind which nobody answers.
fn webhooks(configuration: &Value, answering: &BTreeSet<(String, String)>) -> Vec<Trouble> {
    let kind = text(configuration, "/kind").to_lowercase();
    let hooks = configuration.get("webhooks").and_then(Value::as_array).into_iter().flatten();
    let silent = hooks.filter_map(|hook| {
        let service = hook.pointer("/clientConfig/service")?;
        let id = (text(service, "/namespace").to_owned(), text(service, "/name").to_owned());
        let fails = text(hook, "/failurePolicy") != "Ignore";
        (fails && !answering.contains(&id)).then(|| {
            let object = format!("{kind} {}", text(configuration, "/metadata/name"));
            let message = format!(
                "nobody answers behind Service {}/{} of the webhook {}, and writes that it is called for fail",
                id.0,
                id.1,
                text(hook, "/name")
            );
            trouble(object, message, "Bring its pods back, or delete the configuration if they are gone for good")
        })
    });
    silent.collect()
}

fn budget(budget: &Budget) -> Option<Trouble> {
    let (namespace, name) = budget.id();
    budget.never_allows().then(|| {
        let object = format!("poddisruptionbudget {namespace}/{name}");
        let step = "Let it allow one pod to leave (maxUnavailable, or fewer in minAvailable than there are pods), or run more of them";
        trouble(object, format!("no node with one of its pods can be drained: {budget}"), step)
    })
}

#[cfg(test)]
mod tests;
