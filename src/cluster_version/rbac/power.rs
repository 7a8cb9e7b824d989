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

const ADMISSION: &str = "admissionregistration.k8s.io";
const WRITE: [&str; 3] = ["create", "update", "patch"];
/// Why creating secrets is powerful in a namespace in which all of them may be read.
const OF_NAMESPACE: &str = "makes tokens of every service account of its namespace, which it reads there";

/// Group, resources, verbs, and why they are powerful when they count for the whole cluster.
const TABLE: [(&str, &[&str], &[&str], &str); 14] = [
    ("", &["secrets"], &["get", "list", "watch"], "reads every secret, also the tokens of other accounts"),
    ("", &["serviceaccounts/token"], &["create"], "makes tokens of every service account"),
    ("", &["pods/exec", "pods/attach"], &["create", "get"], "runs commands in every pod"),
    ("", &["nodes/proxy"], &["create", "get"], "runs commands in every pod by way of the kubelets"),
    ("", &["users", "groups", "serviceaccounts"], &["impersonate"], "acts as somebody else"),
    ("", &["persistentvolumes"], &["create"], "gives pods any folder of their node"),
    (
        ADMISSION,
        &["mutatingwebhookconfigurations", "mutatingadmissionpolicies"],
        &WRITE,
        "changes every object that others write",
    ),
    (ADMISSION, &["validatingwebhookconfigurations"], &WRITE, "reads every secret that is written"),
    ("apiregistration.k8s.io", &["apiservices"], &WRITE, "answers requests in the place of the API server"),
    (
        "apiextensions.k8s.io",
        &["customresourcedefinitions"],
        &["update", "patch"],
        "changes the objects of every definition while they are converted",
    ),
    (
        "security.openshift.io",
        &["securitycontextconstraints"],
        &["create", "update", "patch", "use"],
        "lets pods do everything on their nodes",
    ),
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
            let why = why(right).or_else(|| self.makes_tokens(right).then_some(OF_NAMESPACE))?;
            Some(Powerful { right: right.clone(), why, causes: causes.clone() })
        };
        self.minimal().filter_map(of).collect()
    }

    /// Whether it creates secrets in a namespace in which all of them may be read: one that is annotated with a service account
    /// gets a token of it.
    fn makes_tokens(&self, right: &Right) -> bool {
        let secrets = |verb: &str| Right {
            namespace: right.namespace.clone(),
            group: String::new(),
            resource: "secrets".to_owned(),
            name: String::new(),
            verb: verb.to_owned(),
        };
        let read = ["get", "list", "watch"].map(secrets);
        let reads = |other: &Right| other.namespace == right.namespace && read.iter().any(|one| other.covers(one));
        right.covers(&secrets("create")) && self.0.keys().any(reads)
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
