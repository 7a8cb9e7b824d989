//! The signed content: a JSON object that names the digest of an image.
//!
//! Unknown fields are refused anywhere. A field that this program does not know might restrict the signature.

use super::Digest;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

const TYPE: &str = "atomic container signature";

/// What is wrong with the content of a valid signature.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum MessageError {
    #[error("the signed content is not the JSON of a container signature: {0}")]
    Json(String),
    #[error("critical.type is {0:?}, not {TYPE:?}")]
    Type(String),
    #[error("critical.identity.docker-reference is empty")]
    Identity,
    #[error("the signature is for an image of {signed:?}, but the release demands one of {demanded:?}")]
    OtherIdentity { signed: String, demanded: String },
    #[error("the signature is for {signed:?}, not for {expected}")]
    OtherDigest { signed: String, expected: String },
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Message {
    critical: Critical,
    #[serde(default)]
    optional: Option<Optional>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Critical {
    identity: Identity,
    image: Image,
    #[serde(rename = "type")]
    kind: String,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Identity {
    #[serde(rename = "docker-reference")]
    docker_reference: String,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Image {
    #[serde(rename = "docker-manifest-digest")]
    digest: String,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Optional {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    creator: Option<String>,
    /// Seconds since the epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    timestamp: Option<i64>,
}

/// The content to sign for `digest`. `docker_reference` must not be empty, or verifiers refuse the signature.
pub(crate) fn message(digest: &Digest, docker_reference: &str, now: Timestamp, creator: &str) -> Vec<u8> {
    let message = Message {
        critical: Critical {
            identity: Identity { docker_reference: docker_reference.to_owned() },
            image: Image { digest: digest.to_string() },
            kind: TYPE.to_owned(),
        },
        optional: Some(Optional { creator: Some(creator.to_owned()), timestamp: Some(now.as_second()) }),
    };
    // Strings and an integer can always be serialised. Every verifier would refuse an empty message.
    serde_json::to_vec(&message).unwrap_or_default()
}

/// Checks that the signed content is for exactly this digest, and, if a registry or repository is demanded, for an image of
/// that.
pub(super) fn check(content: &[u8], digest: &Digest, demanded: Option<&str>) -> Result<(), MessageError> {
    let message: Message = serde_json::from_slice(content).map_err(|e| MessageError::Json(e.to_string()))?;
    let Critical { identity, image, kind } = message.critical;
    if kind != TYPE {
        return Err(MessageError::Type(kind));
    }
    if identity.docker_reference.is_empty() {
        return Err(MessageError::Identity);
    }
    if let Some(demanded) = demanded.filter(|demanded| !is_of(&identity.docker_reference, demanded)) {
        return Err(MessageError::OtherIdentity { signed: identity.docker_reference, demanded: demanded.to_owned() });
    }
    if image.digest != digest.to_string() {
        return Err(MessageError::OtherDigest { signed: image.digest, expected: digest.to_string() });
    }
    Ok(())
}

/// Whether the reference is that repository or one below it: `r.example/a` has `r.example/a:1` and `r.example/a/b`, but not
/// `r.example/ab`.
fn is_of(reference: &str, prefix: &str) -> bool {
    let rest = reference.strip_prefix(prefix.trim_end_matches('/'));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', ':', '@']))
}

#[cfg(test)]
mod tests;
