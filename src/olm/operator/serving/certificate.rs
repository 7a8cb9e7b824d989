//! The certificate that the pods of a Deployment serve with. It is in a Secret, and whatever leads the API server to the Deployment has
//! the authority that has signed it. Of the authority nobody keeps the key, so that with each certificate there is another one.
//!
//! A new authority stands beside the one before wherever the API server looks, before any pod has a certificate of it. So none of
//! its requests is refused while pods with the old certificate and pods with the new one answer.

use super::object::owned;
use crate::merge::{Outcome, merge};
use crate::olm::api::cluster_service_version::ClusterServiceVersion;
use crate::olm::api::keys::annotation;
use crate::olm::certificate::{Stored, Usable, first};
use crate::olm::components;
use crate::olm::operator::deployment::{WRITER, handed_over};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::sync::Arc;

/// How long a certificate and its authority are valid, in days.
pub(crate) const DAYS: i64 = 730;
/// The key of the Secret with the authorities.
pub(crate) const AUTHORITIES: &str = "olmCAKey";
/// A new certificate is made when the last one is valid for no more than this.
const RENEW_BEFORE: SignedDuration = SignedDuration::from_hours(24);
/// How long API servers need to learn of another authority.
const TOLD_WITHIN: SignedDuration = SignedDuration::from_secs(10);
/// So many authorities of a bundle stay beside a new one, where the Secret does not say which one is in use.
const KEPT: usize = 2;

/// A Secret of the namespace, as far as it is known.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Known {
    pub stored: Stored,
    /// Its metadata; null if there is none.
    pub metadata: Arc<Value>,
    /// A certificate that has been made for it, and is not in it yet.
    pub next: Option<Next>,
}

/// A certificate that nobody serves with yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Next {
    /// Its authority, PEM.
    pub authority: String,
    /// Since when everything that leads to the Deployment has that.
    pub told: Option<Timestamp>,
}

/// What is done with a Secret.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Step {
    /// A certificate for these hosts is made, and kept back.
    Make { secret: String, hosts: Vec<String>, organization: String },
    /// Everything that leads to the Deployment has the new authority now.
    Told { secret: String },
    /// The certificate that is kept back is written, with the authorities `before` beside its own. The Secret is made if it has no
    /// version.
    Store { secret: String, metadata: Value, before: String, version: Option<String> },
    /// A merge patch.
    Patch { secret: String, patch: Value },
    /// Nobody serves with it any more. Exactly this version of it is deleted.
    Delete { secret: String, uid: String, version: String },
}

impl Step {
    /// The name of the Secret.
    pub(crate) fn secret(&self) -> &str {
        match self {
            Step::Make { secret, .. }
            | Step::Told { secret }
            | Step::Store { secret, .. }
            | Step::Patch { secret, .. }
            | Step::Delete { secret, .. } => secret,
        }
    }
}

/// How far a certificate is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// It cannot be said.
    Unknown,
    /// There is none that can be used: why.
    Wanted(String),
    /// There is one that is used, and it ends soon: the authorities, and why.
    Due { bundle: String, why: String },
    /// The API server is told of these authorities.
    Telling { bundle: String, before: String, told: Option<Timestamp> },
    /// It is used: the authorities.
    Ready { bundle: String, until: Timestamp },
}

impl Stage {
    /// The authorities that everything has to have that leads to the Deployment.
    pub(super) fn bundle(&self) -> Option<&str> {
        match self {
            Stage::Unknown | Stage::Wanted(_) => None,
            Stage::Due { bundle, .. } | Stage::Telling { bundle, .. } | Stage::Ready { bundle, .. } => Some(bundle),
        }
    }

    /// When the certificate has to be made anew.
    pub(super) fn rotation(&self) -> Option<Timestamp> {
        let Stage::Ready { until, .. } = self else { return None };
        until.checked_sub(RENEW_BEFORE).ok()
    }
}

/// `registered`: the bundles of what leads to the Deployment now.
pub(super) fn stage(known: Option<&Known>, registered: &[String], now: Timestamp) -> Stage {
    let Some(known) = known else { return Stage::Unknown };
    if let Some(next) = &known.next {
        let before = before(&known.stored, registered, &next.authority);
        let bundle = format!("{}{before}", next.authority);
        return Stage::Telling { bundle, before, told: next.told };
    }
    match &known.stored {
        Stored::Unknown => Stage::Unknown,
        Stored::Absent => Stage::Wanted("the Secret is missing".to_owned()),
        Stored::Unusable { cause, .. } => Stage::Wanted(cause.clone()),
        Stored::Usable(usable) => {
            let until = until(usable);
            let bundle = usable.authorities.clone();
            match until.duration_since(now) <= RENEW_BEFORE {
                true => Stage::Due { bundle, why: format!("the certificate ends at {until}") },
                false => Stage::Ready { bundle, until },
            }
        }
    }
}

fn until(usable: &Usable) -> Timestamp {
    usable.certificate_until.min(usable.authority_until)
}

/// Authorities by which pods may be known that serve now, beside this one.
fn before(stored: &Stored, registered: &[String], next: &str) -> String {
    if let Stored::Usable(usable) = stored {
        return first(&usable.authorities).unwrap_or_default().to_owned();
    }
    let mut rest = registered.iter().find(|it| !it.is_empty()).map_or("", String::as_str);
    let all = std::iter::from_fn(|| {
        let authority = first(rest)?;
        rest = rest.get(authority.len()..).unwrap_or_default();
        Some(authority)
    });
    all.filter(|authority| *authority != next).take(KEPT).collect()
}

/// What is done while the version is installed; and when to look again. `is_told`: everything that leads to the Deployment has the
/// bundle of the stage; `None` where nothing does.
pub(super) fn step(
    csv: &ClusterServiceVersion,
    secret: &str,
    (stage, known): (&Stage, Option<&Known>),
    is_told: Option<bool>,
    now: Timestamp,
) -> (Option<Step>, Option<Timestamp>) {
    let secret = secret.to_owned();
    match stage {
        Stage::Telling { before, told, bundle } => {
            let Some(known) = known else { return (None, None) };
            // After a clock has gone back, it counts from now on.
            let told = told.filter(|at| at.duration_since(now) <= TOLD_WITHIN);
            let until = told.and_then(|at| at.checked_add(TOLD_WITHIN).ok());
            match (is_told, until) {
                (Some(false), _) => (None, None),
                (Some(true), None) => (Some(Step::Told { secret }), None),
                (Some(true), Some(until)) if now < until => (None, Some(until)),
                _ => {
                    let metadata = metadata(csv, &secret, bundle);
                    let version = match &known.stored {
                        Stored::Unusable { version, .. } => Some(version.clone()),
                        Stored::Usable(usable) => Some(usable.version.clone()),
                        Stored::Unknown | Stored::Absent => None,
                    };
                    (Some(Step::Store { secret, metadata, before: before.clone(), version }), None)
                }
            }
        }
        Stage::Ready { bundle, .. } => {
            let patch = known.and_then(|known| taken_over(csv, &secret, known, bundle));
            (patch.map(|patch| Step::Patch { secret, patch }), None)
        }
        Stage::Unknown | Stage::Wanted(_) | Stage::Due { .. } => (None, None),
    }
}

/// Once all pods serve with the present certificate, the authority before goes.
pub(super) fn forgotten(secret: &str, known: Option<&Known>) -> Option<Step> {
    let Stored::Usable(usable) = &known?.stored else { return None };
    let present = first(&usable.authorities).filter(|present| present.len() < usable.authorities.len())?;
    let data = json!({AUTHORITIES: STANDARD.encode(present)});
    let patch = json!({"metadata": {"resourceVersion": usable.version}, "data": data});
    Some(Step::Patch { secret: secret.to_owned(), patch })
}

/// Metadata of the Secret of a version.
fn metadata(csv: &ClusterServiceVersion, secret: &str, bundle: &str) -> Value {
    let mut metadata = owned(csv, secret);
    if let Some(metadata) = metadata.as_object_mut() {
        metadata.insert("annotations".to_owned(), json!({annotation::CA_HASH: hash(bundle)}));
    }
    metadata
}

/// A merge patch after which the Secret belongs to the version, and to none before.
fn taken_over(csv: &ClusterServiceVersion, secret: &str, known: &Known, bundle: &str) -> Option<Value> {
    let object = |metadata: Value| json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata});
    let (live, wanted) = (object((*known.metadata).clone()), object(metadata(csv, secret, bundle)));
    let (object, differs) = match merge(&live, &wanted, WRITER).ok()? {
        Outcome::Same => (live, false),
        Outcome::Changed { object, fields } | Outcome::Replace { object, fields } => {
            let differs = fields.iter().any(|field| !components::is_label(field));
            (object, differs)
        }
    };
    let (object, handed_over) = handed_over(object, &wanted);
    let part = |key: &str| object.pointer(&format!("/metadata/{key}")).cloned().unwrap_or_default();
    (differs || handed_over).then(|| {
        json!({"metadata": {"resourceVersion": part("resourceVersion"), "labels": part("labels"),
            "annotations": part("annotations"), "ownerReferences": part("ownerReferences")}})
    })
}

/// Of the present authority of a bundle: an annotation of the Secret and of pods.
pub(crate) fn hash(bundle: &str) -> String {
    hex::encode(Sha256::digest(first(bundle).unwrap_or(bundle)))
}
