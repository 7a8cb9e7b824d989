//! What keeps the daemon from working: its Deployment, its rights, and who refuses what it writes.

use crate::cluster_version::api::OWN_DEPLOYMENT;
use crate::diagnosis::admission;
use crate::diagnosis::admission::{Asked, Write};
use crate::diagnosis::lease::Silence;
use crate::diagnosis::parts::{Deployment, Parts, condition, text};
use crate::diagnosis::refusals;
use crate::diagnosis::refusals::{Answer, Attempt};
use crate::diagnosis::{Trouble, trouble};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

/// All of it, for whoever looks at a whole cluster. `refused`: what was tried and refused.
pub(crate) fn troubles(parts: &Parts, refused: &[Trouble]) -> Vec<Trouble> {
    let mut troubles: Vec<Trouble> = parts.silences.iter().map(silent).collect();
    troubles.extend(deployment(&parts.deployment).filter(|_| !is_beginning(parts)));
    let denied: Vec<Trouble> = rights(&parts.denied, parts.deployment.found()).into_iter().collect();
    // Both say which rights are missing.
    troubles.extend(refused.iter().filter(|it| !denied.iter().any(|denied| denied.object == it.object)).cloned());
    troubles.extend(denied);
    troubles.extend(untried(parts));
    troubles
}

/// Why the daemon does not renew its lease, as far as these parts show. Several may be the reason.
pub(crate) fn reasons(parts: &Parts) -> Vec<Trouble> {
    let mut reasons: Vec<Trouble> = deployment(&parts.deployment).into_iter().collect();
    reasons.extend(refusals::troubles(&parts.attempts, &parts.webhooks));
    reasons.extend(untried(parts));
    let renews = parts.silences.iter().all(|silence| silence.renewed);
    if reasons.is_empty()
        && !renews
        && let Some(deployment) = parts.deployment.found()
    {
        let tried = parts.attempts.iter().any(|it| it.vital && it.answer == Answer::Accepted);
        let tried = if tried { ", and the API server would accept what it writes" } else { "" };
        let (namespace, name) = (text(deployment, "/metadata/namespace"), text(deployment, "/metadata/name"));
        let message = format!(
            "its pods are said to run{tried}: it hangs, does not reach the API server, or etcd stores nothing, which cannot be told apart from here"
        );
        let step = format!(
            "Read its log: kubectl -n {namespace} logs deployment/{name}; then kubectl get --raw '/readyz?verbose'"
        );
        reasons.push(trouble(format!("deployment {namespace}/{name}"), message, step));
    }
    reasons
}

/// A pod counts as ready some seconds after it has begun to work.
const BEGINNING: SignedDuration = SignedDuration::from_secs(30);

/// Its Lease is renewed, and its Deployment has not been available only since a moment ago, as after each hand-over.
fn is_beginning(parts: &Parts) -> bool {
    let conditions = parts.deployment.found().and_then(|it| it.pointer("/status/conditions")?.as_array());
    let unavailable = conditions.into_iter().flatten().find(|it| text(it, "/type") == "Available");
    let since = unavailable.and_then(|it| text(it, "/lastTransitionTime").parse::<Timestamp>().ok());
    let recently = |(now, since): (Timestamp, Timestamp)| now.duration_since(since) < BEGINNING;
    parts.silences.is_empty() && parts.clocks.map(|(server, _)| server).zip(since).is_some_and(recently)
}

/// Whether its Deployment lets it run.
fn deployment(found: &Deployment) -> Option<Trouble> {
    let deployment = match found {
        Deployment::Unknown => return None,
        Deployment::Missing(place) => {
            let step = "Install the daemon again: cvo render writes what has to be applied; --namespace names another place to look";
            return Some(trouble(
                format!("deployment {place}"),
                "it does not exist: nobody would carry out an update",
                step,
            ));
        }
        Deployment::Found(deployment) => deployment,
    };
    let (namespace, name) = (text(deployment, "/metadata/namespace"), text(deployment, "/metadata/name"));
    let object = format!("deployment {namespace}/{name}");
    let wanted = deployment.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or(1);
    let ready = deployment.pointer("/status/readyReplicas").and_then(Value::as_i64).unwrap_or_default();
    match (wanted, ready) {
        (0, _) => {
            let step = format!("kubectl -n {namespace} scale deployment {name} --replicas=1");
            Some(trouble(object, "the daemon is switched off", step))
        }
        (_, 0) => {
            let why = condition(deployment, "Available", "False").map(|why| format!(": {why}")).unwrap_or_default();
            let message = format!("the daemon does not run{why}");
            let step = format!(
                "kubectl -n {namespace} describe deployment {name}; kubectl -n {namespace} get pods; kubectl -n {namespace} logs deployment/{name}"
            );
            Some(trouble(object, message, step))
        }
        _ => None,
    }
}

fn silent(silence: &Silence) -> Trouble {
    trouble(silence.lease.clone(), silence.message.clone(), silence.next_step.clone())
}

/// What it needs and may not do.
fn rights(denied: &[String], deployment: Option<&Value>) -> Option<Trouble> {
    (!denied.is_empty()).then(|| {
        let message = format!("it is the daemon's, and may not {}", denied.join(", "));
        let step = "Apply the roles of the release again, or those that cvo rbac prints";
        let named = |found| format!("serviceaccount {}/{}", text(found, "/metadata/namespace"), account(Some(found)));
        trouble(deployment.map_or("the daemon's service account".to_owned(), named), message, step)
    })
}

/// The service account of the daemon's pods. Without its Deployment: the one that the Deployment of each release names.
fn account(deployment: Option<&Value>) -> &str {
    let Some(deployment) = deployment else { return OWN_DEPLOYMENT };
    match text(deployment, "/spec/template/spec/serviceAccountName") {
        "" => "default",
        name => name,
    }
}

/// The daemon as a user of the API server. `deployment`: its Deployment, if that could be read.
pub(crate) fn user(namespace: &str, deployment: Option<&Value>) -> String {
    format!("system:serviceaccount:{namespace}:{}", account(deployment))
}

/// Webhooks that are asked about the daemon's lease or status, as long as nobody could try whether they answer.
fn untried(parts: &Parts) -> Vec<Trouble> {
    let unknown = |it: &Attempt| it.vital && matches!(it.answer, Answer::Unknown(_));
    if parts.silences.is_empty() || !parts.attempts.iter().any(unknown) {
        return Vec::new();
    }
    let namespace = parts.attempts.iter().map(|it| it.namespace.as_str()).find(|it| !it.is_empty()).unwrap_or_default();
    let lease =
        Write { group: "coordination.k8s.io", version: "v1", resource: "leases", operation: "UPDATE", namespace };
    let told = parts.webhooks.iter().flat_map(|configuration| {
        admission::hooks(configuration).filter(|hook| admission::is_needed(hook)).filter_map(move |hook| {
            let how = match admission::asked(hook, &lease) {
                Asked::No => return None,
                Asked::Yes => "it is asked".to_owned(),
                Asked::Undecided(field) => format!("it may be asked (its {field} cannot be judged from here)"),
            };
            let message = format!(
                "{how} about each renewal of the lease, which fails unless {} answers for the webhook {}; whether it does cannot be told from here",
                admission::place(hook),
                text(hook, "/name"),
            );
            let step = format!("Look whether it answers, or let somebody try who may write leases: cvo doctor; kubectl describe {}", admission::named(configuration));
            Some(trouble(admission::named(configuration), message, step))
        })
    });
    told.collect()
}

#[cfg(test)]
mod tests;
