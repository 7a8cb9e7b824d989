//! `cvo verify`: checks the signatures of a release digest as the daemon does, for people and auditors.

use super::output::{self, print};
use crate::error::shortened;
use crate::net::http::{Egress, client};
use crate::net::signatures::{self, Found};
use crate::verify::{Checked, Config, Digest, Store, Verifier};
use anyhow::Context;
use clap::{Args, ValueEnum};
use futures::StreamExt;
use jiff::Timestamp;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// For each store.
const LIMIT: Duration = Duration::from_secs(60);
/// Most bytes of a keyring that are read.
const MAX_KEYRING: u64 = 1 << 20;
/// Most bytes of one cause that are shown.
const CAUSE: usize = 500;

/// Check the signatures of a release digest
///
/// Runs the same code as the daemon: every keyring needs a good signature by one of its keys, and the signed text must be
/// about this digest. Reads the files and stores that are named, and nothing else: no cluster and no release.
///
/// Exit code 0: every keyring has a signature; 1: it is refused, with the reasons; 2: wrong usage, or a keyring that cannot be
/// read.
#[derive(Args, Debug)]
pub(crate) struct VerifyArgs {
    /// The digest, or a pull spec with one
    #[arg(value_name = "DIGEST", value_parser = Digest::given)]
    digest: Digest,
    /// Armored OpenPGP public keys. Each keyring needs a signature by one of its keys
    #[arg(long, value_name = "FILE", required = true, num_args = 1..)]
    keyring: Vec<PathBuf>,
    /// Signatures: OpenPGP messages, as a store has them
    #[arg(long, value_name = "FILE", num_args = 1.., required_unless_present = "store")]
    signature: Vec<PathBuf>,
    /// Signature stores: folders, or URLs with http or https
    #[arg(long, value_name = "DIR|URL", num_args = 1..)]
    store: Vec<String>,
    /// The registry or repository that the signed image must be of [default: any]
    #[arg(long, value_name = "REPOSITORY")]
    identity_prefix: Option<String>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    /// For people
    Text,
    /// For programs
    Json,
}

/// The result; `-o json` prints it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report {
    digest: String,
    /// Every keyring has a good signature.
    pub verified: bool,
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

pub(crate) async fn run(args: VerifyArgs) -> anyhow::Result<ExitCode> {
    let prepared = keyrings(&args.keyring).and_then(|keyrings| Ok((keyrings, stores(&args.store)?)));
    let (mut keyrings, stores) = match prepared {
        Ok(prepared) => prepared,
        Err(error) => {
            output::remark(&format!("cvo: {}", crate::error::chain(error.as_ref())));
            return Ok(ExitCode::from(2));
        }
    };
    keyrings.identity = args.identity_prefix;
    let mut found = Vec::new();
    for path in &args.signature {
        found.push(signatures::from_file(path).await);
    }
    let web = client(env!("CARGO_PKG_VERSION"), &Egress::default())?;
    let stores = stores.into_iter().map(|store| (store, web.clone())).collect();
    found.extend(signatures::from_stores(stores, &args.digest, LIMIT).collect::<Vec<_>>().await);
    let report = report(&args.digest, &keyrings, found, Timestamp::now());
    match args.output {
        Output::Json => print(&(serde_json::to_string_pretty(&report)? + "\n"))?,
        Output::Text => print(&text(&report))?,
    }
    Ok(if report.verified { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Named by their files.
pub(super) fn keyrings(files: &[PathBuf]) -> anyhow::Result<Config> {
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

pub(super) fn stores(given: &[String]) -> anyhow::Result<Vec<Store>> {
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
pub(super) fn report(digest: &Digest, config: &Config, found: Vec<Found>, now: Timestamp) -> Report {
    let verifier = Verifier::new(config.clone());
    let mut keyrings: BTreeMap<String, Vec<String>> =
        config.keyring_names().map(|name| (name.to_owned(), Vec::new())).collect();
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
    Report { digest: digest.to_string(), verified, keyrings, attempts }
}

pub(super) fn text(report: &Report) -> String {
    let verdict = if report.verified { "is verified" } else { "is NOT verified" };
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
