//! What made the API server reach a Deployment that no webhook and no API is described for any more, since somebody has edited the version:
//! its Service, its bindings, and the Secret with the certificate.
//!
//! Bundles bring Services and roles of any names, which stay. The Role by which pods read a certificate tells that a Service was made for
//! descriptions: it names that one Secret. So it goes last.

use super::certificate::{Known as Certificate, Step};
use super::endpoint::{endpoints, secret_of, service};
use super::object::{of_service, service_of_role};
use crate::olm::api::cluster_service_version::ClusterServiceVersion;
use crate::olm::certificate::Stored;
use crate::olm::operator::Facts;
use crate::olm::operator::component::{Id, Kind, Known, Owner, Write, delete};
use serde_json::Value;
use std::collections::BTreeSet;

/// A Secret that nobody needs any more.
#[derive(Debug, PartialEq, Eq)]
enum Secret {
    /// It is asked for, or is being deleted.
    Waits,
    /// It does not exist, or belongs to somebody else.
    Gone,
    /// With this uid, at this version.
    Exists(String, String),
}

/// Services that were made for descriptions of the version and are in none of them any more.
fn services<'a>(csv: &ClusterServiceVersion, known: &'a Known) -> Vec<&'a str> {
    let namespace = csv.metadata.namespace.as_deref().unwrap_or_default();
    let owner = Owner::csv(csv);
    let is_ours = |id: &&Id| known.owner(id).as_ref() == Some(&owner);
    let all = known.certificate_roles_in(namespace).filter(is_ours);
    let mut services: Vec<&str> = all.filter_map(|role| service_of_role(role, known)).collect();
    // Most versions have none.
    if !services.is_empty() {
        let described = csv.spec.install.spec.iter().flat_map(|strategy| endpoints(csv, strategy));
        let described: BTreeSet<String> = described.map(|it| service(&it.entry.name)).collect();
        services.retain(|service| !described.contains(*service));
    }
    services
}

/// What is deleted now: objects, and Secrets.
pub(in crate::olm::operator) fn left_over(facts: &Facts<'_>) -> (Vec<Write>, Vec<Step>) {
    let (csv, known) = (facts.csv, facts.components);
    let (mut writes, mut steps) = (Vec::new(), Vec::new());
    let owner = Owner::csv(csv);
    for service in services(csv, known) {
        let secret = secret_of(service);
        let is_ours = |id: &Id| known.owner(id).as_ref() == Some(&owner);
        let others: Vec<Id> = of_service(csv, service).into_iter().filter(is_ours).collect();
        writes.extend(others.iter().filter_map(|id| delete(id, known.get(id)?)));
        match of_secret(csv, facts.certificates.get(&secret)) {
            Secret::Exists(uid, version) => steps.push(Step::Delete { secret, uid, version }),
            Secret::Gone if others.is_empty() => {
                let namespace = csv.metadata.namespace.clone().unwrap_or_default();
                let role = Id { kind: Kind::Role, namespace, name: secret };
                writes.extend(known.get(&role).and_then(|live| delete(&role, live)));
            }
            Secret::Gone | Secret::Waits => {}
        }
    }
    (writes, steps)
}

fn of_secret(csv: &ClusterServiceVersion, known: Option<&Certificate>) -> Secret {
    let Some(Certificate { stored, metadata, .. }) = known else { return Secret::Waits };
    let text = |key: &str| metadata.get(key).and_then(Value::as_str);
    let owners = metadata.get("ownerReferences").and_then(Value::as_array).into_iter().flatten();
    let owners: Vec<Option<&str>> = owners.map(|owner| owner.get("uid")?.as_str()).collect();
    // What somebody else owns as well is needed there.
    let own = csv.metadata.uid.as_deref();
    let is_ours = own.is_some() && !owners.is_empty() && owners.iter().all(|owner| *owner == own);
    let uid = text("uid").filter(|_| is_ours);
    match (stored, uid) {
        (Stored::Unknown, _) => Secret::Waits,
        (Stored::Unusable { .. } | Stored::Usable(_), Some(_)) if text("deletionTimestamp").is_some() => Secret::Waits,
        (Stored::Unusable { .. } | Stored::Usable(_), Some(uid)) => {
            Secret::Exists(uid.to_owned(), text("resourceVersion").unwrap_or_default().to_owned())
        }
        _ => Secret::Gone,
    }
}
