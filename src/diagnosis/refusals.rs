//! Why the API server refuses what the daemon writes, in the words of the API server: found by writes that are tried and not stored.

use super::admission;
use crate::diagnosis::Trouble;
use crate::error::{CAUSE, listed, shortened};
use serde_json::Value;

/// A write that was tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Attempt {
    /// Such as `update lease openshift-cluster-version/version`.
    pub what: String,
    /// Where it writes; empty for what is in no namespace.
    pub namespace: String,
    /// The daemon cannot work without it: it holds its lease, or says what it does.
    pub vital: bool,
    pub answer: Answer,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Accepted,
    /// By the HTTP status, 0 without one, and what the server says.
    Refused {
        code: u16,
        message: String,
    },
    /// It could not be tried, and why.
    Unknown(String),
}

/// One finding for each cause, however many writes it concerns.
pub(crate) fn troubles(attempts: &[Attempt], webhooks: &[Value]) -> Vec<Trouble> {
    let mut causes: Vec<(Cause, Vec<String>, &str)> = Vec::new();
    for attempt in attempts {
        let Answer::Refused { code, message } = &attempt.answer else { continue };
        let cause = cause(*code, message, &attempt.namespace, webhooks);
        match causes.iter_mut().find(|(known, ..)| known.object == cause.object) {
            Some((_, writes, _)) => writes.push(attempt.what.clone()),
            None => causes.push((cause, vec![attempt.what.clone()], message)),
        }
    }
    let told = causes.into_iter().map(|(cause, writes, words)| {
        let writes = listed(&writes, ", ", CAUSE, |n| format!("and {n} more"));
        let message = format!("the API server does not let the daemon {writes}: {}", shortened(words, CAUSE));
        Trouble { object: cause.object, message, next_step: cause.next_step }
    });
    told.collect()
}

/// Why attempts could not be made, a line each.
pub(crate) fn unknown(attempts: &[Attempt]) -> impl Iterator<Item = String> {
    attempts.iter().filter_map(|attempt| match &attempt.answer {
        Answer::Unknown(why) => Some(format!("Whether the daemon can {}: {why}", attempt.what)),
        Answer::Accepted | Answer::Refused { .. } => None,
    })
}

struct Cause {
    object: String,
    next_step: String,
}

fn cause(code: u16, message: &str, namespace: &str, webhooks: &[Value]) -> Cause {
    let of = |object: String, next_step: String| Cause { object, next_step };
    let between = |start: &str, end: &str| {
        let rest = message.split_once(start)?.1;
        Some(rest.split_once(end)?.0.to_owned())
    };
    if let Some(hook) = between("failed calling webhook \"", "\"") {
        let object = admission::configuration_of(webhooks, &hook);
        let step = format!(
            "Bring back what answers for the webhook {hook}, or, if it is gone for good: kubectl delete {object}"
        );
        return of(object, step);
    }
    if let Some(hook) = between("admission webhook \"", "\" denied the request") {
        let object = admission::configuration_of(webhooks, &hook);
        let step = format!(
            "Let the webhook {hook} accept what the daemon writes: whoever runs it knows why it denies; kubectl describe {object}"
        );
        return of(object, step);
    }
    if let Some(policy) = between("ValidatingAdmissionPolicy '", "'") {
        let object = format!("validatingadmissionpolicy {policy}");
        let step = format!("Let the policy accept what the daemon writes: kubectl describe {object}");
        return of(object, step);
    }
    if let Some(quota) = between("exceeded quota: ", ",") {
        let step =
            format!("Raise the quota, or free what it counts: kubectl -n {namespace} describe resourcequota {quota}");
        return of(format!("resourcequota {namespace}/{quota}"), step);
    }
    if let Some(user) = between("is forbidden: User \"", "\"") {
        let step = "Give it the right that the message names: apply the roles of the release again, or those that cvo rbac prints";
        return of(account(&user), step.to_owned());
    }
    if message.contains("database space exceeded") {
        let step = "Free space in etcd: compact and defragment it, then clear its alarm (etcdctl alarm disarm)";
        return of("etcd".to_owned(), step.to_owned());
    }
    let overloaded = code == 0 || code == 429 || code >= 500;
    if overloaded {
        let step = "Look at the API server and its etcd: kubectl get --raw '/readyz?verbose'";
        return of("the API server".to_owned(), step.to_owned());
    }
    let place = if namespace.is_empty() { "the cluster".to_owned() } else { format!("namespace {namespace}") };
    of(place, "Do what the message says: these are the words of the API server".to_owned())
}

/// A user of the API server in words.
fn account(user: &str) -> String {
    match user.strip_prefix("system:serviceaccount:").and_then(|rest| rest.split_once(':')) {
        Some((namespace, name)) => format!("serviceaccount {namespace}/{name}"),
        None => format!("user {user}"),
    }
}

#[cfg(test)]
mod tests;
