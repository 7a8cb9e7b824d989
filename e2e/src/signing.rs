//! Signing keys in a gpg home below the folder of a test cluster, and the signatures of releases.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};
use tokio::process::Command;

use crate::harness::{Cvo, files, process};

/// Name of the key that all releases are verified with.
pub const TRUSTED: &str = "releases@sample.invalid";

/// The gpg home of one cluster.
#[derive(Debug)]
pub struct Keys {
    /// The cluster's folder.
    cluster: PathBuf,
    /// The trusted key, armored.
    pub public: String,
}

impl Keys {
    /// A home with the trusted key in it, in the folder of a cluster.
    pub async fn generate(cluster: &Path) -> anyhow::Result<Self> {
        let mut keys = Self { cluster: cluster.to_owned(), public: String::new() };
        files::make_dir(&keys.home())?;
        fs::set_permissions(keys.home(), fs::Permissions::from_mode(0o700))?;
        keys.add(TRUSTED).await?;
        keys.public = keys.gpg(&["--armor", "--export", TRUSTED]).await?;
        Ok(keys)
    }

    /// Adds a key without passphrase.
    pub async fn add(&self, name: &str) -> anyhow::Result<()> {
        self.gpg(&["--passphrase", "", "--quick-generate-key", name, "ed25519", "sign", "never"]).await?;
        Ok(())
    }

    /// Signs a release image with one of the keys and puts the signature into the folder of a signature store.
    pub async fn sign(&self, image: &str, key: &str, store: &Path) -> anyhow::Result<()> {
        let sign = Cvo::new(["release", "sign", image, "--gpg-key", key]).flag("--to", store);
        sign.env("GNUPGHOME", self.home()).env(process::MARK, &self.cluster).output().await?;
        Ok(())
    }

    /// The ConfigMap in which a release says that it trusts the key, and where signatures are.
    pub fn verification_config(&self, store: &Path) -> Value {
        json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": "release-verification",
                "namespace": "openshift-config-managed",
                "annotations": {
                    "include.release.openshift.io/self-managed-high-availability": "true",
                    "release.openshift.io/verification-config-map": "",
                },
            },
            "data": {
                "verifier-public-key-sample": self.public,
                "store-sample": format!("file://{}", store.display()),
            },
        })
    }

    fn home(&self) -> PathBuf {
        self.cluster.join("gnupg")
    }

    async fn gpg(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let mut command = Command::new("gpg");
        command.arg("--batch").args(arguments).kill_on_drop(true);
        // gpg starts an agent, which carries the cluster's mark like everything else of the cluster, and so ends with it.
        command.env("GNUPGHOME", self.home()).env(process::MARK, &self.cluster);
        Ok(process::output("gpg", command).await?)
    }
}
