//! A new gpg key, and the store of its signatures.

use anyhow::{Context, ensure};
use serde_json::json;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

const USER: &str = "releases@stage.example.com";

/// A key in a gpg home below a folder.
#[derive(Debug)]
pub struct Signer {
    home: PathBuf,
    signatures: PathBuf,
    cvo: PathBuf,
    public_key: String,
}

impl Signer {
    /// A new key in `dir`. The program `cvo` makes the messages that are signed.
    pub fn new(dir: &Path, cvo: &Path) -> anyhow::Result<Signer> {
        let (home, signatures) = (dir.join("gpg"), dir.join("signatures"));
        for folder in [&home, &signatures] {
            fs::create_dir_all(folder)?;
        }
        fs::set_permissions(&home, Permissions::from_mode(0o700))?;
        let mut signer = Signer { home, signatures, cvo: cvo.to_owned(), public_key: String::new() };
        signer.gpg(&["--passphrase", "", "--quick-generate-key", USER, "ed25519", "sign", "never"])?;
        signer.public_key = signer.gpg(&["--armor", "--export", USER])?;
        Ok(signer)
    }

    fn gpg(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let mut command = Command::new("gpg");
        command.arg("--homedir").arg(&self.home).args(["--batch", "--quiet", "--pinentry-mode", "loopback"]);
        output_of(command.args(arguments))
    }

    /// Adds a signature of the release image to the store.
    pub fn sign(&self, image: &str) -> anyhow::Result<()> {
        let mut command = Command::new(&self.cvo);
        command.args(["release", "sign", image, "--gpg-key", USER, "--to"]).arg(&self.signatures);
        output_of(command.env("GNUPGHOME", &self.home)).map(|_| ())
    }

    /// The ConfigMap with which a release trusts the key and names the signature store.
    pub fn verification_config(&self) -> String {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {
                "name": "release-verification", "namespace": "openshift-config-managed",
                "annotations": {
                    "include.release.openshift.io/self-managed-high-availability": "true",
                    "release.openshift.io/verification-config-map": "",
                },
            },
            "data": {
                "verifier-public-key-stage": self.public_key,
                "store-stage": format!("file://{}", self.signatures.display()),
            },
        })
        .to_string()
    }
}

impl Drop for Signer {
    fn drop(&mut self) {
        // gpg starts an agent for its home directory, which would outlive the test.
        let _ = Command::new("gpgconf").arg("--homedir").arg(&self.home).args(["--kill", "all"]).output();
    }
}

/// Runs a command and returns its standard output.
fn output_of(command: &mut Command) -> anyhow::Result<String> {
    let program = command.get_program().display().to_string();
    let output = command.output().with_context(|| format!("cannot run {program}"))?;
    ensure!(output.status.success(), "{program} failed: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}
