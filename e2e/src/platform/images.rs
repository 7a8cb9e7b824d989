//! The images of `cvo` and `lab` in the cluster's registry, built as `hack/image` does.

use std::{
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, ensure};
use tokio::process::Command;

use super::component::{Component, change, health_port};
use crate::harness::{Cluster, Cvo, Programs, files, process};

/// Pull specs by digest.
#[derive(Debug, Clone)]
pub struct Images {
    /// The base of all releases.
    pub cvo: String,
    pub lab: String,
}

/// Builds and pushes both images.
pub async fn build(cluster: &Cluster, programs: &Programs) -> anyhow::Result<Images> {
    let dir = cluster.dir().join("images");
    files::make_dir(&dir)?;
    let manifests = dir.join("manifests");
    DAEMON.write(cluster, &manifests)?;
    let (daemon, lab) =
        tokio::try_join!(stripped(&programs.cvo, dir.join("cvo")), stripped(&programs.lab, dir.join("lab")))?;
    let more = ["--user", "65534", "--manifests"].map(OsStr::new).into_iter().chain([manifests.as_os_str()]);
    let more: Vec<&OsStr> = more.collect();
    let (cvo, lab) = tokio::try_join!(push(cluster, &daemon, "cvo", &more), push(cluster, &lab, "lab", &[]))?;
    Ok(Images { cvo, lab })
}

async fn push(cluster: &Cluster, program: &Path, name: &str, more: &[&OsStr]) -> anyhow::Result<String> {
    let place = format!("{}/sample/{name}", cluster.registry());
    let (to, inside) = (format!("{place}:latest"), format!("/usr/bin/{name}"));
    let build = Cvo::new(["image-build", "--uncompressed", "--binary-path", &inside, "--to-image", &to]);
    let output = build.flag("--binary", program).args(more).output().await?;
    Ok(format!("{place}@{}", digest(&output)?))
}

/// The digest, which is the first word that commands print which build an image.
pub fn digest(output: &str) -> anyhow::Result<&str> {
    let first = output.split_whitespace().next().unwrap_or_default();
    ensure!(first.starts_with("sha256:"), "no digest in {output:?}");
    Ok(first)
}

/// Without debug information, which is two thirds of a program.
async fn stripped(program: &Path, to: PathBuf) -> anyhow::Result<PathBuf> {
    let mut command = Command::new("strip");
    command.arg("-o").arg(&to).arg(program);
    if process::output("strip", command).await.is_err() {
        // There are no binutils: the image is larger.
        fs::copy(program, &to).with_context(|| format!("cannot copy {}", program.display()))?;
    }
    Ok(to)
}

/// The component of the daemon. It applies its own Deployment from its image, so that the changes are made there: several nodes share
/// this machine, and each needs its own payload folder and its own ports.
const DAEMON: Component = Component {
    folder: "cluster-version",
    image: None,
    changes: |cluster| {
        const FILE: &str = "_deployment.yaml";
        let payloads = cluster.payload_dir().display().to_string();
        let (port, health) = (cluster.port("daemon metrics"), cluster.port("daemon health"));
        let environment = format!("        env:\n        - name: CVO_PAYLOAD_HOST_PATH\n          value: {payloads}\n");
        let mut changes = vec![
            // There is one node. While it is drained, nobody else would follow the update.
            change(FILE, "      tolerations:\n", "      tolerations:\n      - operator: Exists\n"),
            change(FILE, "          path: /etc/cvo/updatepayloads\n", format!("          path: {payloads}\n")),
            change(FILE, "        env:\n", environment),
            change(FILE, "--listen=0.0.0.0:9099\n", format!("--listen=0.0.0.0:{port}\n")),
            change(FILE, "containerPort: 9099\n", format!("containerPort: {port}\n")),
            change(FILE, "containerPort: 9098\n", format!("containerPort: {health}\n")),
        ];
        changes.extend(health_port(FILE, 9098, health));
        changes
    },
};
