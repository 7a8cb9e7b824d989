//! Signatures of a digest: which keyrings and stores the flags name, and what each place has.

use crate::error::shortened;
use crate::net::signatures::Found;
use crate::verify::{Checked, Config, Digest, Store, Verifier};
use anyhow::Context;
use jiff::Timestamp;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Most bytes of a keyring that are read.
const MAX_KEYRING: u64 = 1 << 20;
/// Most bytes of one cause that are shown.
const CAUSE: usize = 500;

/// The result; `-o json` prints it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Report {
    digest: String,
    /// Every keyring has a good signature.
    pub verified: bool,
    /// It is not verified, and not everything could be read: what is missing may be there.
    pub unknown: bool,
    /// Where each keyring has good signatures.
    keyrings: BTreeMap<String, Vec<String>>,
    /// What was read, in order.
    attempts: Vec<Attempt>,
}

/// A place where a signature was looked for.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Attempt {
    source: String,
    /// The keyrings with a key that has signed this digest here.
    satisfies: Vec<String>,
    /// Why it does not satisfy the others, or was not found.
    refused: Vec<String>,
}

/// Named by their files.
pub(crate) fn keyrings(files: &[PathBuf]) -> anyhow::Result<Config> {
    let mut config = Config::default();
    for path in files {
        let name = path.display().to_string();
        let mut bytes = Vec::new();
        let file = File::open(path).with_context(|| format!("cannot read keyring {name}"))?;
        file.take(MAX_KEYRING + 1).read_to_end(&mut bytes).with_context(|| format!("cannot read keyring {name}"))?;
        anyhow::ensure!(bytes.len() as u64 <= MAX_KEYRING, "keyring {name} is larger than {MAX_KEYRING} bytes");
        let added = config.add_keyring(&name, &bytes);
        added.map_err(|cause| anyhow::anyhow!("{name} is not a keyring of armored OpenPGP public keys: {cause}"))?;
    }
    Ok(config)
}

pub(crate) fn stores(given: &[String]) -> anyhow::Result<Vec<Store>> {
    let each = given.iter().map(|text| {
        if text.contains("://") {
            return Store::parse(text).map_err(|cause| anyhow::anyhow!("--store {text:?}: {cause}"));
        }
        let folder = Path::new(text).canonicalize().with_context(|| format!("--store {text:?} is not a folder"))?;
        anyhow::ensure!(folder.is_dir(), "--store {text:?} is not a folder");
        Ok(Store::File(folder.display().to_string()))
    });
    each.collect()
}

/// All signatures are checked, also when the first ones are enough: an auditor wants to know of each.
pub(crate) fn report(digest: &Digest, config: &Config, found: Vec<Found>, now: Timestamp) -> Report {
    let verifier = Verifier::new(config.clone());
    let mut keyrings: BTreeMap<String, Vec<String>> =
        config.keyring_names().map(|name| (name.to_owned(), Vec::new())).collect();
    let unread = found.iter().any(|found| matches!(found, Found::Failure { .. }));
    let attempt = |found: Found| match found {
        Found::Candidate { source, signature } => {
            let Checked { satisfied, refused } = verifier.check(digest, &signature, now);
            Attempt { source, satisfies: satisfied, refused }
        }
        Found::Failure { source, cause } => Attempt { source, satisfies: Vec::new(), refused: vec![cause] },
        Found::Nothing { source } => {
            Attempt { source, satisfies: Vec::new(), refused: vec!["no signature of this digest".to_owned()] }
        }
    };
    let attempts: Vec<Attempt> = found.into_iter().map(attempt).collect();
    for attempt in &attempts {
        for name in &attempt.satisfies {
            keyrings.entry(name.clone()).or_default().push(attempt.source.clone());
        }
    }
    let verified = !keyrings.is_empty() && keyrings.values().all(|sources| !sources.is_empty());
    Report { digest: digest.to_string(), verified, unknown: !verified && unread, keyrings, attempts }
}

pub(crate) fn text(report: &Report) -> String {
    let verdict = match report {
        Report { verified: true, .. } => "is verified",
        Report { unknown: true, .. } => "could NOT be verified: not everything could be read",
        _ => "is NOT verified",
    };
    let mut out = format!("{} {verdict}\n", report.digest);
    for (name, sources) in &report.keyrings {
        let signed = if sources.is_empty() { "no good signature".to_owned() } else { sources.join(", ") };
        out.push_str(&format!("  keyring {name}: {signed}\n"));
    }
    let refused: Vec<&Attempt> = report.attempts.iter().filter(|attempt| !attempt.refused.is_empty()).collect();
    if !refused.is_empty() {
        out.push_str("Refused\n");
    }
    for attempt in refused {
        for cause in &attempt.refused {
            out.push_str(&format!("  {}: {}\n", attempt.source, shortened(cause, CAUSE)));
        }
    }
    out
}

#[cfg(test)]
mod tests;
