//! Verifies one digest: collects signatures until every keyring has a valid one.

use super::keyring::Keyring;
use super::{Config, Digest, VerifyError, message, packets};
use jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

/// Number of causes that a verification keeps. Further ones are only counted.
const MAX_CAUSES: usize = 64;

/// Checks signatures against the keyrings of one configuration. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Verifier {
    keyrings: Arc<BTreeMap<String, Keyring>>,
    /// The registry or repository that signed images must be of.
    identity: Option<Arc<str>>,
}

/// The result of checking one signature.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// Names of the keyrings that it satisfies.
    pub satisfied: Vec<String>,
    /// Why it does not satisfy the other keyrings.
    pub refused: Vec<String>,
}

impl Verifier {
    pub fn new(config: Config) -> Self {
        Verifier { keyrings: Arc::new(config.keyrings), identity: config.identity.map(Arc::from) }
    }

    /// Checks `signature`, which may be any bytes, for `digest` at `now`.
    pub fn check(&self, digest: &Digest, signature: &[u8], now: Timestamp) -> Checked {
        self.check_with(self.keyrings.iter(), digest, signature, now)
    }

    fn check_with<'a>(
        &self,
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
            let verdict = keyring.signed_content(&plain, now).and_then(|content| {
                message::check(&content, digest, self.identity.as_deref()).map_err(|e| e.to_string())
            });
            match verdict {
                Ok(()) => checked.satisfied.push(name.clone()),
                Err(cause) => checked.refused.push(format!("{name}: {cause}")),
            }
        }
        checked
    }

    /// Starts collecting signatures for `digest`.
    pub fn begin(&self, digest: &Digest) -> Verification {
        Verification {
            verifier: self.clone(),
            digest: digest.clone(),
            satisfied: BTreeSet::new(),
            causes: Vec::new(),
            dropped: 0,
            unread: false,
        }
    }
}

/// A failed attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    pub at: Timestamp,
    /// The location of the signature.
    pub source: String,
    pub text: String,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Whole seconds, like all times of the API.
        let at = Timestamp::from_second(self.at.as_second()).unwrap_or(self.at);
        write!(f, "{at}: {}: {}", self.source, self.text)
    }
}

/// Collects signatures and failures for one digest.
#[derive(Clone, Debug)]
pub struct Verification {
    verifier: Verifier,
    digest: Digest,
    /// Names of the keyrings with a valid signature.
    satisfied: BTreeSet<String>,
    causes: Vec<Cause>,
    dropped: usize,
    /// A place could not be read that may have a signature.
    unread: bool,
}

impl Verification {
    pub fn digest(&self) -> &Digest {
        &self.digest
    }

    /// Whether every keyring has a valid signature. Without any keyring nothing is verified.
    pub fn is_satisfied(&self) -> bool {
        !self.verifier.keyrings.is_empty() && self.unsatisfied().next().is_none()
    }

    /// How many keyrings have a valid signature.
    pub(crate) fn satisfied(&self) -> usize {
        self.satisfied.len()
    }

    /// Names of the keyrings without a valid signature.
    fn unsatisfied(&self) -> impl Iterator<Item = &str> {
        self.verifier.keyrings.keys().filter(|name| !self.satisfied.contains(*name)).map(String::as_str)
    }

    /// Checks a signature found at `source`. Returns whether every keyring has a valid one now.
    pub fn offer(&mut self, source: &str, signature: &[u8], now: Timestamp) -> bool {
        let keyrings = self.verifier.keyrings.clone();
        let open = keyrings.iter().filter(|(name, _)| !self.satisfied.contains(*name));
        let Checked { satisfied, refused } = self.verifier.check_with(open, &self.digest, signature, now);
        self.satisfied.extend(satisfied);
        for cause in refused {
            self.record(source, cause, now);
        }
        self.is_satisfied()
    }

    /// Records a failed attempt. A store that fails again and again does not push out what others have said.
    pub fn record(&mut self, source: &str, cause: impl Into<String>, now: Timestamp) {
        if self.causes.len() >= MAX_CAUSES {
            self.dropped += 1;
            let of = |store: &str| self.causes.iter().filter(|cause| folder(&cause.source) == store).count();
            let most = self.causes.iter().map(|cause| (of(folder(&cause.source)), folder(&cause.source))).max();
            let Some((_, most)) = most.filter(|(count, _)| *count > of(folder(source)) + 1) else { return };
            let last = self.causes.iter().rposition(|cause| folder(&cause.source) == most);
            last.map(|at| self.causes.remove(at));
        }
        self.causes.push(Cause { at: now, source: source.to_owned(), text: cause.into() });
    }

    /// Records a place that could not be read, or not wholly: a signature that is missing may be there.
    pub(crate) fn record_unread(&mut self, source: &str, cause: impl Into<String>, now: Timestamp) {
        self.unread = true;
        self.record(source, cause, now);
    }

    /// The result. The error names the digest, the keyrings without a valid signature, and the failed attempts.
    pub(crate) fn finish(mut self, now: Timestamp) -> Result<(), VerifyError> {
        if self.is_satisfied() {
            return Ok(());
        }
        if self.dropped > 0 {
            let text = format!("{} more attempts failed", self.dropped);
            self.causes.push(Cause { at: now, source: "all stores".to_owned(), text });
        }
        let unsatisfied = self.unsatisfied().map(str::to_owned).collect();
        let (digest, unread) = (self.digest.to_string(), self.unread);
        Err(VerifyError::Unverified { digest, unsatisfied, causes: self.causes, unread })
    }
}

/// Where several signatures lie side by side.
fn folder(source: &str) -> &str {
    source.rsplit_once('/').map_or(source, |(folder, _)| folder)
}

#[cfg(test)]
mod tests;
