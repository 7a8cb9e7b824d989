//! The images of `cvo` and `lab` in the cluster's registry, built as `hack/image` does.

use std::{
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, ensure};
use tokio::process::Command;

use crate::harness::{Cluster, Cvo, Programs, files, process};
use crate::workspace;

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
    let manifests = own_manifests(cluster, &dir.join("manifests"))?;
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

/// The daemon's manifests, changed for a test cluster: several nodes share this machine, so each needs its own payload
/// folder and its own ports for metrics and health. The daemon applies its own Deployment from its image, so the change is made there.
fn own_manifests(cluster: &Cluster, to: &Path) -> anyhow::Result<PathBuf> {
    let from = workspace::root().join("manifests/cluster-version");
    let payloads = cluster.payload_dir().display().to_string();
    let (port, health) = (cluster.spare_port(1), cluster.spare_port(2));
    let changes = [
        // There is one node. While it is drained, nobody else would follow the update.
        ("      tolerations:\n", "      tolerations:\n      - operator: Exists\n".to_owned()),
        ("          path: /etc/cvo/updatepayloads\n", format!("          path: {payloads}\n")),
        (
            "        env:\n",
            format!("        env:\n        - name: CVO_PAYLOAD_HOST_PATH\n          value: {payloads}\n"),
        ),
        ("--listen=0.0.0.0:9099\n", format!("--listen=0.0.0.0:{port}\n")),
        ("--listen-health=127.0.0.1:9098\n", format!("--listen-health=127.0.0.1:{health}\n")),
        ("path: /healthz\n            port: 9098\n", format!("path: /healthz\n            port: {health}\n")),
        ("path: /readyz\n            port: 9098\n", format!("path: /readyz\n            port: {health}\n")),
        ("containerPort: 9099\n", format!("containerPort: {port}\n")),
        ("containerPort: 9098\n", format!("containerPort: {health}\n")),
    ];
    files::make_dir(to)?;
    for entry in fs::read_dir(&from)?.flatten() {
        let mut text = fs::read_to_string(entry.path())?;
        if entry.file_name().to_string_lossy().ends_with("_deployment.yaml") {
            for (old, new) in &changes {
                ensure!(
                    text.matches(old).count() == 1,
                    "{}: {old:?} is not found exactly once",
                    entry.path().display()
                );
                text = text.replace(old, new);
            }
        }
        fs::write(to.join(entry.file_name()), text)?;
    }
    Ok(to.to_owned())
}
