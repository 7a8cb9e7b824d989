//! Signing keys in a gpg home of the cluster's own. gpg-agent, which gpg starts, carries the cluster's mark and ends with it.

use std::{fs, os::unix::fs::PermissionsExt, path::PathBuf};

use tokio::process::Command;

use crate::harness::{Cluster, files, process};

/// Name of the key that signs releases.
pub const TRUSTED: &str = "releases@sample.invalid";

/// The cluster's gpg home.
#[derive(Debug)]
pub struct Keys {
    home: PathBuf,
    mark: String,
    /// The trusted key, armored.
    pub public: String,
}

fn home(cluster: &Cluster) -> PathBuf {
    cluster.dir().join("gnupg")
}

/// Makes gpg, as called by this command, use the cluster's keys.
pub fn with_home(command: &mut Command, cluster: &Cluster) {
    command.env("GNUPGHOME", home(cluster)).env(process::MARK, cluster.dir());
}

impl Keys {
    /// A home with the trusted key in it.
    pub async fn generate(cluster: &Cluster) -> anyhow::Result<Self> {
        let home = home(cluster);
        files::make_dir(&home)?;
        fs::set_permissions(&home, fs::Permissions::from_mode(0o700))?;
        let mut keys = Self { home, mark: cluster.dir().display().to_string(), public: String::new() };
        keys.add(TRUSTED).await?;
        keys.public = keys.gpg(&["--armor", "--export", TRUSTED]).await?;
        Ok(keys)
    }

    /// One more key, without passphrase.
    pub async fn add(&self, name: &str) -> anyhow::Result<()> {
        self.gpg(&["--passphrase", "", "--quick-generate-key", name, "ed25519", "sign", "never"]).await?;
        Ok(())
    }

    async fn gpg(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let mut command = Command::new("gpg");
        command.arg("--batch").args(arguments).env("GNUPGHOME", &self.home).env(process::MARK, &self.mark);
        Ok(process::output("gpg", command).await?)
    }
}
