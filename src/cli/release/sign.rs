//! `cvo release sign`: signs a release and writes the signature in the layout of a signature store.
//!
//! The message is built here and signed by gpg; this program never reads a secret key.

use crate::cli::output;
use crate::verify::{Digest, MAX_SIGNATURE_BYTES, SIGNATURES_LABEL, message};
use anyhow::{Context, Result, bail, ensure};
use jiff::Timestamp;
use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Highest number of a signature that verifiers look for.
const MAX_SIGNATURES: u32 = 9;

/// Sign a release image, so that clusters which trust the key accept it as an update
///
/// gpg signs with a key of yours. The signature is written to DIR/sha256=HEX/signature-N, the layout of HTTP and file
/// signature stores. Existing signatures are kept.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct SignArgs {
    /// Digest of the release image (sha256:HEX), or a pull spec with a digest (REGISTRY/NAME@sha256:HEX)
    #[arg(value_name = "DIGEST")]
    pub digest: String,
    /// Folder of the signature store
    #[arg(long, value_name = "DIR")]
    pub to: PathBuf,
    /// Key to sign with: fingerprint, key id or mail address [default: the default key of gpg]
    #[arg(long, value_name = "ID")]
    pub gpg_key: Option<String>,
    /// Image name to record in the signature; verifiers compare only the digest [default: the name in the pull spec, else
    /// "release"]
    #[arg(long, value_name = "NAME")]
    pub docker_reference: Option<String>,
    /// The gpg program
    #[arg(long, value_name = "PROGRAM", default_value = "gpg")]
    pub gpg: OsString,
}

/// Signs, writes, and prints what was written and how to publish it.
pub(crate) fn run(args: SignArgs) -> Result<()> {
    let path = sign(&args, Command::new(&args.gpg), Timestamp::now())?;
    let digest = Digest::given(&args.digest)?;
    let (folder, prefix) = (digest.store_folder(), digest.config_map_prefix());
    output::line(&instructions(&path, &args.to, &folder, &prefix))
}

/// How to publish the signature at `path`, which is in `folder` of the store at `root`. Each signature of a digest gets a ConfigMap of its
/// own: there may be one of an earlier signature.
fn instructions(path: &Path, root: &Path, folder: &str, prefix: &str) -> String {
    let (shown, root, namespace) = (path.display(), root.display(), crate::object::MANAGED_NAMESPACE);
    let file = path.file_name().unwrap_or_default().to_string_lossy();
    let number = file.strip_prefix("signature-").unwrap_or("1");
    let name = if number == "1" { prefix.to_owned() } else { format!("{prefix}-{number}") };
    // kubectl accepts no path with a "=" in it, so it has to run in the folder.
    format!(
        "Wrote {shown}

Publish it in one of two ways:
  - HTTP store: upload {root}/{folder} below the URL of a store-… entry of the running release's verification
    ConfigMap (or set up that URL to serve {root}).
  - One cluster: (cd {root}/{folder} && kubectl -n {namespace} create configmap {name} --from-file={prefix}-{number}={file})
                 kubectl -n {namespace} label configmap {name} {SIGNATURES_LABEL}="
    )
}

/// Signs with `gpg` and writes the signature to the first free path, which is returned.
fn sign(args: &SignArgs, gpg: Command, now: Timestamp) -> Result<PathBuf> {
    let digest = Digest::given(&args.digest)?;
    let named = args.digest.rsplit_once('@').map(|(name, _)| name).filter(|name| !name.is_empty());
    let reference = args.docker_reference.as_deref().or(named).unwrap_or("release");
    ensure!(
        !reference.is_empty(),
        "--docker-reference is empty, and no verifier accepts such a signature: give the name of the image"
    );
    let creator = concat!("cvo ", env!("CARGO_PKG_VERSION"));
    let signature = call_gpg(args, gpg, &message(&digest, reference, now, creator))?;
    ensure!(
        signature.len() <= MAX_SIGNATURE_BYTES,
        "the signature has {} bytes, but verifiers read at most {MAX_SIGNATURE_BYTES}: does the gpg configuration add notations?",
        signature.len()
    );
    let folder = args.to.join(digest.store_folder());
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    write_free(&folder, &signature)
}

/// An OpenPGP signed message: binary, opaque and uncompressed, which any verifier can read.
fn call_gpg(args: &SignArgs, mut command: Command, message: &[u8]) -> Result<Vec<u8>> {
    let program = args.gpg.display();
    command.args(["--batch", "--yes", "--no-armor", "--compress-algo", "none"]);
    if let Some(key) = &args.gpg_key {
        command.args(["--local-user", key]);
    }
    command.args(["--output", "-", "--sign"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command
        .spawn()
        .with_context(|| format!("cannot run {program}: install GnuPG, or name the program with --gpg"))?;
    // Closing the pipe ends the message. It is far smaller than the buffer of a pipe, so this cannot block on the output of
    // gpg. If gpg fails early it breaks the pipe, but its own message below says more than that error.
    let written = child.stdin.take().map(|mut pipe| pipe.write_all(message));
    let output = child.wait_with_output().with_context(|| format!("waiting for {program}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{program} did not sign ({}): {}", output.status, said.trim());
    }
    ensure!(!output.stdout.is_empty(), "{program} succeeded but wrote no signature");
    written.transpose().with_context(|| format!("cannot hand the message to {program}"))?;
    Ok(output.stdout)
}

/// Writes to the first `signature-N` that does not exist: verifiers stop at the first gap.
fn write_free(folder: &Path, signature: &[u8]) -> Result<PathBuf> {
    for n in 1..=MAX_SIGNATURES {
        let path = folder.join(format!("signature-{n}"));
        match OpenOptions::new().write(true).create_new(true).open(&path) {
            Ok(mut file) => {
                let written = file.write_all(signature).and_then(|()| file.sync_all());
                return match written {
                    Ok(()) => Ok(path),
                    Err(error) => {
                        // A partial signature would be in the place of a complete one.
                        let _ = fs::remove_file(&path);
                        Err(error).with_context(|| format!("cannot write {}", path.display()))
                    }
                };
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                if fs::read(&path).is_ok_and(|present| present == signature) {
                    return Ok(path);
                }
            }
            Err(error) => return Err(error).with_context(|| format!("cannot create {}", path.display())),
        }
    }
    bail!("{} already has {MAX_SIGNATURES} signatures, and verifiers read no more: remove one", folder.display())
}

#[cfg(test)]
mod tests;
