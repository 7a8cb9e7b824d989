//! Digests, OpenPGP, who must have signed (cluster-version §7).
//!
//! Pure: bytes of signatures come in from whoever fetched them, the clock is an argument, and the answer is which
//! configured keyrings are satisfied. A release is verified when *every* keyring has one good signature.

mod config;
mod digest;
mod keyring;
mod message;
mod packets;
mod verification;

#[cfg(test)]
mod fixtures;

pub use config::{Config, Store, VERIFICATION_ANNOTATION};
pub use digest::{Digest, digest_of_pull_spec};
pub use message::message;
pub use verification::{Cause, Checked, Verification, Verified, Verifier};

/// Largest signature that is looked at, in bytes (§7.4).
pub const MAX_SIGNATURE_BYTES: usize = 50 * 1024;

/// Label on ConfigMaps that hold signatures; its value means nothing (§7.4).
pub const SIGNATURES_LABEL: &str = "release.openshift.io/verification-signatures";

/// Why a release is not verified, or why verification cannot even be configured.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VerifyError {
    #[error("pull spec {0:?} names no digest, and a tag cannot be verified: use NAME@sha256:HEX")]
    NoDigest(String),
    #[error("{0:?} is not a digest: expected ALGORITHM:HEX such as sha256:0123abcd…")]
    Digest(String),
    #[error(
        "the release carries no ConfigMap annotated {VERIFICATION_ANNOTATION}, so no target can be verified: add one \
         with keyrings and stores to the release, or force the update"
    )]
    NotConfigured,
    #[error("the verification ConfigMap has no key starting with verifier-public-key-: add an OpenPGP public keyring")]
    NoKeyring,
    #[error("the verification ConfigMap has no key starting with store-: add the URL of a signature store")]
    NoStore,
    #[error("the verification ConfigMap has no string members under data")]
    ConfigShape,
    #[error("key {name} of the verification ConfigMap is not a usable OpenPGP keyring: {cause}")]
    Keyring { name: String, cause: String },
    #[error("key {name} of the verification ConfigMap is not a usable store URL ({url:?}): {cause}")]
    StoreUrl { name: String, url: String, cause: String },
    #[error(
        "unable to verify {digest} against keyrings {}{}; publish a signature of this digest by these keys in a store, or \
         ask for a release that has one",
        .unsatisfied.join(", "), list(.causes)
    )]
    Unverified {
        digest: String,
        /// Names of the keyrings without a good signature; never empty.
        unsatisfied: Vec<String>,
        /// What was tried, in order; bounded.
        causes: Vec<Cause>,
    },
}

fn list(causes: &[Cause]) -> String {
    if causes.is_empty() {
        return ": no signature was found".to_owned();
    }
    let lines: Vec<String> = causes.iter().map(ToString::to_string).collect();
    format!(": {}", lines.join("; "))
}
