//! The verdict on one digest: which keyrings are satisfied by the signatures seen so far (§7.2).

use super::keyring::Keyring;
use super::{Config, Digest, VerifyError, message, packets};
use jiff::Timestamp;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// How many causes one verification keeps; what comes later is counted only.
const MAX_CAUSES: usize = 64;

/// Judges signatures against the keyrings of one configuration. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Verifier {
    keyrings: Arc<BTreeMap<String, Keyring>>,
}

/// What one signature is worth.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// Names of the keyrings it satisfies.
    pub satisfied: Vec<String>,
    /// Why it satisfies no (other) keyring.
    pub refused: Vec<String>,
}

impl Verifier {
    pub fn new(config: Config) -> Self {
        Verifier { keyrings: Arc::new(config.keyrings) }
    }

    /// Names of the keyrings that `signature` satisfies for `digest` at `now`, and the reasons why it does not
    /// satisfy the others. Any bytes may be given.
    pub fn check(&self, digest: &Digest, signature: &[u8], now: Timestamp) -> Checked {
        check(self.keyrings.iter(), digest, signature, now)
    }

    /// Starts collecting signatures for `digest`.
    pub fn begin(&self, digest: &Digest) -> Verification {
        Verification {
            verifier: self.clone(),
            digest: digest.clone(),
            satisfied: BTreeMap::new(),
            causes: Vec::new(),
            dropped: 0,
            signatures: Vec::new(),
        }
    }
}

fn check<'a>(
    keyrings: impl Iterator<Item = (&'a String, &'a Keyring)>,
    digest: &Digest,
    signature: &[u8],
    now: Timestamp,
) -> Checked {
    let mut checked = Checked::default();
    let plain = match packets::canonical(signature) {
        Ok(plain) => plain,
        Err(error) => {
            checked.refused.push(error.to_string());
            return checked;
        }
    };
    for (name, keyring) in keyrings {
        let verdict = keyring
            .signed_content(&plain, now)
            .and_then(|content| message::check(&content, digest).map_err(|e| e.to_string()));
        match verdict {
            Ok(()) => checked.satisfied.push(name.clone()),
            Err(cause) => checked.refused.push(format!("{name}: {cause}")),
        }
    }
    checked
}

/// One attempt that did not help, and when it was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    pub at: Timestamp,
    /// Where the signature came from, or should have come from.
    pub source: String,
    pub text: String,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Second precision, as all times of the API have.
        let at = Timestamp::from_second(self.at.as_second()).unwrap_or(self.at);
        write!(f, "{at}: {}: {}", self.source, self.text)
    }
}

/// Collects signatures and failures for one digest until every keyring is satisfied.
#[derive(Clone, Debug)]
pub struct Verification {
    verifier: Verifier,
    digest: Digest,
    /// Keyring to the source of the signature that satisfied it.
    satisfied: BTreeMap<String, String>,
    causes: Vec<Cause>,
    dropped: usize,
    signatures: Vec<Vec<u8>>,
}

/// A digest that every keyring vouches for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    pub digest: Digest,
    /// The signatures that were needed, for keeping them in the cluster (§7.5).
    pub signatures: Vec<Vec<u8>>,
    /// Keyring name to the source of its signature.
    pub keyrings: BTreeMap<String, String>,
}

impl Verification {
    pub fn digest(&self) -> &Digest {
        &self.digest
    }

    /// True once every keyring has a good signature.
    pub fn is_satisfied(&self) -> bool {
        !self.verifier.keyrings.is_empty() && self.unsatisfied().next().is_none()
    }

    /// Names of the keyrings that still lack a good signature.
    pub fn unsatisfied(&self) -> impl Iterator<Item = &str> {
        self.verifier.keyrings.keys().filter(|name| !self.satisfied.contains_key(*name)).map(String::as_str)
    }

    /// Judges a signature found at `source`; true once every keyring is satisfied.
    pub fn offer(&mut self, source: &str, signature: &[u8], now: Timestamp) -> bool {
        let keyrings = self.verifier.keyrings.clone();
        let open = keyrings.iter().filter(|(name, _)| !self.satisfied.contains_key(*name));
        let Checked { satisfied, refused } = check(open, &self.digest, signature, now);
        if !satisfied.is_empty() {
            self.signatures.push(signature.to_vec());
        }
        self.satisfied.extend(satisfied.into_iter().map(|name| (name, source.to_owned())));
        for cause in refused {
            self.record(source, cause, now);
        }
        self.is_satisfied()
    }

    /// Remembers an attempt that yielded no signature.
    pub fn record(&mut self, source: &str, cause: impl Into<String>, now: Timestamp) {
        if self.causes.len() < MAX_CAUSES {
            self.causes.push(Cause { at: now, source: source.to_owned(), text: cause.into() });
        } else {
            self.dropped += 1;
        }
    }

    /// The verdict. The error names the digest, the keyrings without a signature, and what was tried.
    pub fn finish(mut self, now: Timestamp) -> Result<Verified, VerifyError> {
        if self.is_satisfied() {
            return Ok(Verified { digest: self.digest, signatures: self.signatures, keyrings: self.satisfied });
        }
        if self.dropped > 0 {
            let text = format!("{} more attempts did not help either", self.dropped);
            self.causes.push(Cause { at: now, source: "all stores".to_owned(), text });
        }
        let unsatisfied = self.unsatisfied().map(str::to_owned).collect();
        Err(VerifyError::Unverified { digest: self.digest.to_string(), unsatisfied, causes: self.causes })
    }
}

#[cfg(test)]
mod tests;
