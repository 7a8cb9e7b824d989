//! A keyring checks whether one of its keys signed a message.
//!
//! It uses the standard policy of the OpenPGP library with two exceptions that real release signatures need: keys may have a
//! SHA-1 self-signature, while signatures of content over SHA-1 are refused, and version 3 signatures are accepted.

use crate::error::chain;
use jiff::Timestamp;
use sequoia_openpgp::anyhow;
use sequoia_openpgp::cert::{Cert, CertParser};
use sequoia_openpgp::packet::Tag;
use sequoia_openpgp::parse::Parse;
use sequoia_openpgp::parse::stream::{
    GoodChecksum, MessageLayer, MessageStructure, VerificationError, VerificationHelper, VerifierBuilder,
};
use sequoia_openpgp::policy::{HashAlgoSecurity, StandardPolicy};
use sequoia_openpgp::types::{HashAlgorithm, RevocationStatus};
use sequoia_openpgp::{KeyHandle, Result as PgpResult};
use std::io::Read;
use std::time::SystemTime;

const ARMOR_HEADER: &[u8] = b"-----BEGIN PGP PUBLIC KEY BLOCK-----";

/// Public keys, each of which may sign for the keyring.
#[derive(Clone, Debug)]
pub(super) struct Keyring {
    certs: Vec<Cert>,
}

impl Keyring {
    /// Reads a binary keyring, or armored blocks with any text between them. The error is the cause.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, String> {
        let mut certs = Vec::new();
        for block in blocks(bytes) {
            let parser = CertParser::from_bytes(block).map_err(|e| chain(e.as_ref()))?;
            for cert in parser {
                certs.push(cert.map_err(|e| chain(e.as_ref()))?);
            }
        }
        if certs.is_empty() {
            return Err("it contains no public key".to_owned());
        }
        Ok(Keyring { certs })
    }

    /// The content of `message` if a key of this keyring signed it; the error is the reason why not. `message` is the result
    /// of [`super::packets::canonical`], which limits the work done here.
    pub(super) fn signed_content(&self, message: &[u8], now: Timestamp) -> Result<Vec<u8>, String> {
        let now = SystemTime::from(now);
        let mut policy = StandardPolicy::at(now);
        policy.reject_hash_property_at(HashAlgorithm::SHA1, HashAlgoSecurity::SecondPreImageResistance, None);
        policy.accept_packet_tag_version(Tag::Signature, 3);

        let helper = SignatureCheck { certs: &self.certs, policy: &policy, now };
        let mut verifier = VerifierBuilder::from_bytes(message)
            .and_then(|builder| builder.with_policy(&policy, now, helper))
            .map_err(|e| chain(e.as_ref()))?;
        let mut content = Vec::new();
        verifier.read_to_end(&mut content).map_err(|e| e.to_string())?;
        // The library returns content before it has checked the signatures after it, unless the message is processed.
        if verifier.message_processed() { Ok(content) } else { Err("the message is incomplete".to_owned()) }
    }
}

fn blocks(bytes: &[u8]) -> Vec<&[u8]> {
    let mut starts: Vec<usize> =
        bytes.windows(ARMOR_HEADER.len()).enumerate().filter(|(_, w)| *w == ARMOR_HEADER).map(|(at, _)| at).collect();
    if starts.is_empty() {
        return vec![bytes];
    }
    starts.push(bytes.len());
    starts.iter().zip(starts.iter().skip(1)).filter_map(|(from, to)| bytes.get(*from..*to)).collect()
}

/// Gives the library the keys and checks the signatures that it found.
struct SignatureCheck<'a> {
    certs: &'a [Cert],
    policy: &'a StandardPolicy<'a>,
    now: SystemTime,
}

impl SignatureCheck<'_> {
    /// Refuses every signature of a key that has a revocation, whatever the times of both: that of the signature does not
    /// prove that it is older, and a clock may be slow.
    fn unrevoked(&self, good: &GoodChecksum<'_>) -> Result<(), String> {
        let key = good.ka.key().fingerprint();
        let revoked = |status: RevocationStatus<'_>| matches!(status, RevocationStatus::Revoked(_));
        let cert = good.ka.cert();
        let mut subkeys = cert.keys().subkeys().filter(|subkey| subkey.key().fingerprint() == key);
        if cert.primary_key().self_revocations().next().is_some()
            || revoked(cert.revocation_status(self.policy, self.now))
            || subkeys.any(|subkey| {
                subkey.self_revocations().next().is_some() || revoked(subkey.revocation_status(self.policy, self.now))
            })
        {
            return Err(format!("key {key} is revoked"));
        }
        Ok(())
    }
}

impl VerificationHelper for SignatureCheck<'_> {
    fn get_certs(&mut self, ids: &[KeyHandle]) -> PgpResult<Vec<Cert>> {
        let has_key = |cert: &&Cert| cert.keys().any(|ka| ids.iter().any(|id| id.aliases(ka.key().key_handle())));
        Ok(self.certs.iter().filter(has_key).cloned().collect())
    }

    /// Accepts a single layer, a group of signatures with a valid one, and none that is wrong though its key is in the
    /// keyring. A message without a signature or in another layer is refused.
    fn check(&mut self, structure: MessageStructure<'_>) -> PgpResult<()> {
        let layers: Vec<_> = structure.into_iter().collect();
        let [MessageLayer::SignatureGroup { results }] = layers.as_slice() else {
            return Err(anyhow::anyhow!("the message is not exactly one signed content"));
        };
        let (mut valid, mut spoiled, mut causes) = (false, false, Vec::new());
        for result in results {
            match result {
                Ok(good) => match self.unrevoked(good) {
                    Ok(()) => valid = true,
                    Err(cause) => causes.push(cause),
                },
                Err(error) => {
                    spoiled |= matches!(error, VerificationError::BadSignature { .. });
                    causes.push(explain(error));
                }
            }
        }
        if valid && !spoiled {
            return Ok(());
        }
        Err(anyhow::anyhow!("{}", if causes.is_empty() { "no signature".to_owned() } else { causes.join(", ") }))
    }
}

fn explain(error: &VerificationError<'_>) -> String {
    if let VerificationError::MissingKey { sig } = error {
        let issuers: Vec<String> = sig.get_issuers().iter().map(ToString::to_string).collect();
        return format!("signed by {}, which is not in the keyring", issuers.join(" and "));
    }
    error.to_string()
}

#[cfg(test)]
mod tests;
