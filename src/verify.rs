//! Verifies releases: the digest of an image must be signed for every configured keyring.
//!
//! The caller fetches the signatures and passes their bytes and the time. One signature may satisfy several keyrings.

pub(crate) mod config;
pub(crate) mod digest;
mod keyring;
mod message;
mod packets;
pub(crate) mod verification;

#[cfg(test)]
pub(crate) mod fixtures;

pub(crate) use config::{Config, Store, VERIFICATION_ANNOTATION};
pub(crate) use digest::Digest;
pub(crate) use message::message;
pub(crate) use verification::{Cause, Checked, Verification, Verifier};

/// Size of a signature, in bytes. Larger ones are refused, so that a store cannot fill the memory.
pub(crate) const MAX_SIGNATURE_BYTES: usize = 50 * 1024;

/// The same signature uncompressed and without packets that mean nothing, with which a store may inflate it; `None` for what is
/// no signature.
pub(crate) fn canonical(signature: &[u8]) -> Option<Vec<u8>> {
    packets::canonical(signature).ok()
}

/// Label on ConfigMaps that contain signatures. Its value does not matter.
pub(crate) const SIGNATURES_LABEL: &str = "release.openshift.io/verification-signatures";

/// Why a release is not verified, or why verification cannot be configured.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VerifyError {
    #[error("pull spec {0:?} has no digest, and a tag cannot be verified: use NAME@sha256:HEX")]
    NoDigest(String),
    #[error("{0:?} is not a digest: expected ALGORITHM:HEX such as sha256:0123abcd…")]
    Digest(String),
    #[error(
        "the release has no ConfigMap with annotation {VERIFICATION_ANNOTATION}, so no target can be verified: add one \
         with keyrings and stores to the release, or force the update"
    )]
    NotConfigured,
    #[error("the verification ConfigMap has no key starting with verifier-public-key-: add an OpenPGP public keyring")]
    NoKeyring,
    #[error("the verification ConfigMap has no key starting with store-: add the URL of a signature store")]
    NoStore,
    #[error("the verification ConfigMap has no string members under data")]
    ConfigShape,
    #[error("key {name} of the verification ConfigMap is not a valid OpenPGP keyring: {cause}")]
    Keyring { name: String, cause: String },
    #[error("key {name} of the verification ConfigMap is not a valid store URL ({url:?}): {cause}")]
    StoreUrl { name: String, url: String, cause: String },
    #[error(
        "key identity-prefix of the verification ConfigMap is {0:?}: it must be a registry or repository such as \
         registry.example.com/releases, or absent"
    )]
    Identity(String),
    #[error("the check of a signature ended badly: {0}")]
    Ended(String),
    #[error(
        "unable to verify {digest} against keyrings {}{}; publish a signature of this digest by these keys in a store, or \
         request a release that has one",
        .unsatisfied.join(", "), list(.causes)
    )]
    Unverified {
        digest: String,
        /// Names of the keyrings without a valid signature. Never empty.
        unsatisfied: Vec<String>,
        /// The failed attempts in order, up to a limit.
        causes: Vec<Cause>,
        /// Not everything could be read: a signature may be where nobody could look.
        unread: bool,
    },
}

impl VerifyError {
    /// Whether the release may be signed all the same: what was read is not enough, and not everything was.
    pub(crate) fn is_unknown(&self) -> bool {
        matches!(self, VerifyError::Unverified { unread: true, .. } | VerifyError::Ended(_))
    }
}

fn list(causes: &[Cause]) -> String {
    if causes.is_empty() {
        return ": no signature was found".to_owned();
    }
    let lines: Vec<String> = causes.iter().map(ToString::to_string).collect();
    format!(": {}", lines.join("; "))
}
