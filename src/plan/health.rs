//! What in a cluster would keep an update from starting or ending, whichever release it is to.

use crate::pools::budgets::Budget;
use crate::pools::node::NodeFacts;
use k8s_openapi::api::core::v1::Node;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeSet;

/// A cause of trouble, with the way out.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Trouble {
    /// Such as `node n1`.
    pub object: String,
    pub message: String,
    pub next_step: String,
}

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
}

pub(crate) fn troubles(parts: &Parts) -> Vec<Trouble> {
    let mut troubles: Vec<Trouble> = parts.deployment.iter().filter_map(daemon).collect();
    troubles.extend(parts.nodes.iter().filter_map(node));
    troubles.extend(parts.api_services.iter().filter_map(api_service));
    troubles.extend(parts.definitions.iter().filter_map(definition));
    if let Some(answering) = &parts.answering {
        troubles.extend(parts.webhooks.iter().flat_map(|configuration| webhooks(configuration, answering)));
    }
    troubles.extend(parts.budgets.iter().filter_map(budget));
    troubles
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
