//! Rights with which one can become `cluster-admin`.

use super::{ALL, RBAC, Right, Rights};
use serde::Serialize;
use std::collections::BTreeSet;

/// A right that is as good as `cluster-admin`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Powerful {
    pub right: Right,
    /// How one becomes `cluster-admin` with it.
    pub why: &'static str,
    /// The manifests that need it.
    pub causes: BTreeSet<String>,
}

/// Roles of Kubernetes that may be bound without becoming `cluster-admin`.
const HARMLESS: [&str; 6] = [
    "view",
    "extension-apiserver-authentication-reader",
    "system:auth-delegator",
    "system:basic-user",
    "system:discovery",
    "system:public-info-viewer",
];

/// Group, resources, verbs, and why they are powerful when they count for the whole cluster.
const TABLE: [(&str, &[&str], &[&str], &str); 8] = [
    ("", &["secrets"], &["get", "list", "watch"], "reads every secret, also the tokens of other accounts"),
    ("", &["serviceaccounts/token"], &["create"], "makes tokens of every service account"),
    ("", &["pods/exec", "pods/attach"], &["create", "get"], "runs commands in every pod"),
    ("", &["nodes/proxy"], &["create", "get"], "runs commands in every pod by way of the kubelets"),
    ("", &["users", "groups", "serviceaccounts"], &["impersonate"], "acts as somebody else"),
    (RBAC, &["roles", "clusterroles"], &["escalate"], "writes a role that grants more than the writer has"),
    (RBAC, &["roles", "clusterroles"], &["bind"], "gives itself a role that grants more than it has"),
    (
        "certificates.k8s.io",
        &["certificatesigningrequests/approval"],
        &["update", "patch"],
        "approves certificates, where it may also approve their signer",
    ),
];

impl Rights {
    /// Those that are as good as `cluster-admin`, with what needs them.
    pub(crate) fn powerful(&self) -> Vec<Powerful> {
        let of = |(right, causes): (&Right, &BTreeSet<String>)| {
            Some(Powerful { right: right.clone(), why: why(right)?, causes: causes.clone() })
        };
        self.minimal().filter_map(of).collect()
    }
}

fn why(right: &Right) -> Option<&'static str> {
    let matches = |pattern: &str, part: &str| pattern == part || part == ALL;
    if right.verb == ALL && right.resource == ALL && right.name.is_empty() {
        return Some(if right.namespace.is_empty() { "does everything" } else { "does everything in its namespace" });
    }
    let named_harmless = right.verb == "bind" && HARMLESS.contains(&right.name.as_str());
    let found = TABLE.iter().find(|(group, resources, verbs, _)| {
        matches(group, &right.group)
            && resources.iter().any(|resource| matches(resource, &right.resource))
            && verbs.iter().any(|verb| matches(verb, &right.verb))
    });
    let (group, _, _, why) = found.filter(|_| !named_harmless)?;
    // Rules about roles count in one namespace too: accounts in it may have more rights than the daemon.
    let everywhere = right.namespace.is_empty() && right.name.is_empty();
    (*group == RBAC || everywhere).then_some(*why)
}
