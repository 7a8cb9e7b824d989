//! What in a cluster would keep an update from starting or ending, whichever release it is to.

pub(crate) mod daemon;

use crate::diagnosis::admission;
use crate::diagnosis::lease;
use crate::diagnosis::lease::NodeLease;
use crate::diagnosis::parts::{Parts, PodFacts, condition, quantity, text};
use crate::diagnosis::refusals;
use crate::diagnosis::{Trouble, trouble};
use crate::error::{CAUSE, listed};
use crate::machine_config::summary::NodeSummary;
use crate::object::budgets::Budget;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Node;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use x509_cert::Certificate;
use x509_cert::der::Decode;

/// A node renews its lease every 10 seconds, and counts as lost after 40.
const RENEWED: SignedDuration = SignedDuration::from_secs(60);
/// Clocks further apart than this make certificates, tokens and times in conditions wrong.
const APART: SignedDuration = SignedDuration::from_secs(10);
/// A certificate that ends sooner may end during an update.
const ENDS_SOON: SignedDuration = SignedDuration::from_hours(7 * 24);
/// What a pod of an update needs at least: in thousandths of a CPU, and in bytes.
const ROOM: (i128, i128) = (100, 128 << 20);

const SET_CLOCK: &str = "Set the clock by NTP (chronyd, systemd-timesyncd), and let it run";

pub(crate) fn troubles(parts: &Parts) -> Vec<Trouble> {
    let refused = refusals::troubles(&parts.attempts, &parts.webhooks);
    let mut troubles = daemon::troubles(parts, &refused);
    troubles.extend(parts.nodes.iter().filter_map(node));
    troubles.extend(parts.api_services.iter().filter_map(api_service));
    troubles.extend(parts.definitions.iter().filter_map(definition));
    if let Some(answering) = &parts.answering {
        let silent = parts.webhooks.iter().flat_map(|configuration| webhooks(configuration, answering));
        // What the API server says of one is closer to the cause.
        troubles.extend(silent.filter(|it| !refused.iter().any(|refused| refused.object == it.object)));
    }
    troubles.extend(parts.budgets.iter().filter_map(budget));
    troubles.extend(room(&parts.nodes, &parts.pods));
    troubles.extend(parts.pods.iter().filter_map(|pod| pod.without_image.clone()));
    if let Some((server, own)) = parts.clocks {
        troubles.extend(clocks(server, own, parts));
        let bundles = parts.webhooks.iter().chain(&parts.api_services).chain(&parts.definitions);
        troubles.extend(bundles.flat_map(|object| certificates(object, server)));
    }
    troubles
}

/// Whether any node has room for one more pod.
fn room(nodes: &[Node], pods: &[PodFacts]) -> Option<Trouble> {
    let mut taken: BTreeMap<&str, (i128, i128)> = BTreeMap::new();
    for (node, (cpu, memory)) in pods.iter().filter_map(|pod| Some((pod.node.as_deref()?, pod.requests))) {
        let used = taken.entry(node).or_default();
        *used = (used.0 + cpu, used.1 + memory);
    }
    let is_schedulable = |node: &&Node| {
        let summary = NodeSummary::of(node);
        summary.problems.is_empty() && !summary.unschedulable
    };
    let mut known = nodes
        .iter()
        .filter(is_schedulable)
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

fn clocks(server: Timestamp, own: Timestamp, parts: &Parts) -> Vec<Trouble> {
    let mut troubles = Vec::new();
    let apart = own.duration_since(server);
    if apart.abs() > APART {
        let message = format!("its clock is {} s {} that of the API server", apart.abs().as_secs(), side(apart));
        troubles.push(trouble("this machine".to_owned(), message, SET_CLOCK));
    }
    troubles.extend(node_leases(server, parts));
    troubles
}

/// What the leases of nodes that work show of their clocks and kubelets.
fn node_leases(server: Timestamp, parts: &Parts) -> Vec<Trouble> {
    let lost = |name: &str| {
        let mut named = parts.nodes.iter().filter(|node| node.metadata.name.as_deref() == Some(name));
        named.next().is_none_or(|node| !NodeSummary::of(node).problems.is_empty())
    };
    let (mut troubles, mut not_renewed) = (Vec::new(), Vec::new());
    for (node, renewal) in parts.renewed.iter().filter(|(node, _)| !lost(node)) {
        match lease::node_lease(renewal, server, APART, RENEWED) {
            NodeLease::Well => {}
            NodeLease::Clock(apart) => {
                let message =
                    format!("its clock is {} s {} that of the API server", apart.abs().as_secs(), side(apart));
                troubles.push(trouble(format!("node {node}"), message, SET_CLOCK));
            }
            NodeLease::NotRenewed(since) => not_renewed.push((node, since)),
            NodeLease::Either(seconds) => {
                let message = format!(
                    "its lease was renewed {} s ago by its own clock: either its kubelet does not renew it, or its clock is behind; one look cannot tell",
                    seconds.as_secs()
                );
                let step = format!(
                    "Look twice: kubectl -n kube-node-lease get lease {node} -o jsonpath={{.spec.renewTime}}; a time that stays is the kubelet's fault, one that moves the clock's"
                );
                troubles.push(trouble(format!("node {node}"), message, step));
            }
        }
    }
    troubles.extend(kubelets(&not_renewed));
    troubles
}

/// Nodes whose kubelets do not renew their leases: one finding, because there often is one reason.
fn kubelets(nodes: &[(&String, Timestamp)]) -> Option<Trouble> {
    let since = nodes.iter().map(|(_, since)| *since).min()?;
    let names: Vec<&str> = nodes.iter().map(|(node, _)| node.as_str()).collect();
    let object = if let [node] = names.as_slice() { format!("node {node}") } else { "nodes".to_owned() };
    let names = listed(&names, ", ", CAUSE, |n| format!("and {n} more"));
    let message = format!("nobody has renewed the lease of {names} since {}", since.strftime("%Y-%m-%dT%H:%M:%SZ"));
    let step = "Unless something else that is named here refuses writes: look at the kubelet on the node (journalctl -u kubelet) and at its way to the API server";
    Some(trouble(object, message, step))
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

fn node(node: &Node) -> Option<Trouble> {
    let NodeSummary { name, problems, unschedulable, cordoned_for_update, .. } = NodeSummary::of(node);
    let object = format!("node {name}");
    if !problems.is_empty() {
        let message = format!("it cannot run pods: {}", problems.join(", "));
        let step =
            format!("Look at its kubelet and its disk, or remove the node from the cluster: kubectl describe {object}");
        return Some(trouble(object, message, step));
    }
    (unschedulable && !cordoned_for_update).then(|| {
        let step = format!("kubectl uncordon {name}, once whatever it was cordoned for is over");
        trouble(object, "somebody has cordoned it", step)
    })
}

fn api_service(service: &Value) -> Option<Trouble> {
    let why = condition(service, "Available", "False")?;
    let object = format!("apiservice {}", text(service, "/metadata/name"));
    let message = format!("its kinds are not served: {why}");
    let step = format!("Look at the pods behind its Service, or, if they are gone for good: kubectl delete {object}");
    Some(trouble(object, message, step))
}

fn definition(definition: &Value) -> Option<Trouble> {
    let why =
        condition(definition, "NamesAccepted", "False").or_else(|| condition(definition, "Established", "False"))?;
    let object = format!("customresourcedefinition {}", text(definition, "/metadata/name"));
    let message = format!("its kind is not served: {why}");
    let step = format!(
        "Do what the message says; a name that is taken by another definition has to be freed: kubectl describe {object}"
    );
    Some(trouble(object, message, step))
}

/// Webhooks without which writes fail, and behind which nobody answers.
fn webhooks(configuration: &Value, answering: &BTreeSet<(String, String)>) -> Vec<Trouble> {
    let silent = admission::hooks(configuration).filter_map(|hook| {
        let service = hook.pointer("/clientConfig/service")?;
        let id = (text(service, "/namespace").to_owned(), text(service, "/name").to_owned());
        (admission::is_needed(hook) && !answering.contains(&id)).then(|| {
            let object = admission::named(configuration);
            let message = format!(
                "nobody answers behind Service {}/{} of the webhook {}, and writes that it is called for fail",
                id.0,
                id.1,
                text(hook, "/name")
            );
            let step = format!("Bring its pods back (kubectl -n {} describe service {}), or, if they are gone for good: kubectl delete {object}", id.0, id.1);
            trouble(object, message, step)
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
