//! The node of a test cluster as the sample releases configure it. The node is this machine, so its agent works on a folder
//! in place of the root of the file system, in which `lab` is what manages services and restarts the node.

use anyhow::{Context, ensure};
use cvo::testing::api::machine_config::MachineConfigPool;
use kube::Api;
use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use crate::harness::Cluster;
use crate::workspace;

/// The folder of e2e/releases that configures nodes: the project's own component is added to it.
pub const NODE: &str = "node";
/// The pool of the control plane, which an update waits for.
const POOL: &str = "master";
/// Names of `lab` in that folder.
pub const SYSTEMCTL: &str = "systemctl";
pub const REBOOT: &str = "reboot";
/// Holds the id of the present boot.
const BOOT_ID: &str = "run/boot-id";

/// Stands for the root of the node's file system.
pub fn root(cluster: &Cluster) -> PathBuf {
    cluster.dir().join("node-root")
}

/// Makes the folder, and the node one of the control plane.
pub(super) async fn prepare(cluster: &Cluster, lab: &Path) -> anyhow::Result<()> {
    make_root(cluster, lab)?;
    let node = cluster.node_name();
    cluster.kubectl(["label", "node", &node, "node-role.kubernetes.io/master="]).await?;
    Ok(())
}

/// Makes the folder.
pub(super) fn make_root(cluster: &Cluster, lab: &Path) -> anyhow::Result<()> {
    let root = root(cluster);
    for folder in ["etc/systemd/system", "usr/bin", "run", "var/log"] {
        fs::create_dir_all(root.join(folder))
            .with_context(|| format!("cannot create {folder} in {}", root.display()))?;
    }
    for name in [SYSTEMCTL, REBOOT] {
        fs::copy(lab, root.join("usr/bin").join(name)).with_context(|| format!("cannot copy {}", lab.display()))?;
    }
    fs::write(root.join(BOOT_ID), "first\n")?;
    Ok(())
}

/// The project's component that configures nodes, changed for a test cluster: several of them share this machine.
pub(super) fn add_component(cluster: &Cluster, release: &Path) -> anyhow::Result<()> {
    let root = root(cluster).display().to_string();
    let (health, metrics) = (cluster.spare_port(3), cluster.spare_port(4));
    let agent = [
        // No file system is mounted below that folder later, and the root of this machine may not be a shared mount.
        ("          mountPropagation: HostToContainer\n", String::new()),
        ("          path: /\n", format!("          path: {root}\n")),
        (
            "        - --root=/rootfs\n",
            format!(
                "        - --root=/rootfs\n        - --boot-id-file=/rootfs/{BOOT_ID}\n        \
                 - --reboot-command=/rootfs/usr/bin/{REBOOT}\n"
            ),
        ),
    ];
    let controller = [
        ("--listen-health=127.0.0.1:9097\n", format!("--listen-health=127.0.0.1:{health}\n")),
        ("--listen=0.0.0.0:9001\n", format!("--listen=127.0.0.1:{metrics}\n")),
        ("          containerPort: 9001\n", format!("          containerPort: {metrics}\n")),
        ("path: /healthz\n            port: 9097\n", format!("path: /healthz\n            port: {health}\n")),
        ("path: /readyz\n            port: 9097\n", format!("path: /readyz\n            port: {health}\n")),
    ];
    let to = release.join("machine-config");
    fs::create_dir_all(&to)?;
    let from = workspace::root().join("manifests/machine-config");
    for entry in fs::read_dir(&from).with_context(|| format!("cannot read {}", from.display()))? {
        let from = entry?.path();
        let name = from.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut text = fs::read_to_string(&from)?;
        let changes = match () {
            () if name.ends_with("_agent.yaml") => agent.as_slice(),
            () if name.ends_with("_deployment.yaml") => controller.as_slice(),
            () => &[],
        };
        for (old, new) in changes {
            ensure!(text.matches(old).count() == 1, "{}: {old:?} is not found exactly once", from.display());
            text = text.replace(old, new);
        }
        fs::write(to.join(name), text)?;
    }
    Ok(())
}

/// A file of the node.
pub fn read(cluster: &Cluster, path: &str) -> anyhow::Result<String> {
    let path = root(cluster).join(path);
    fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
}

/// Waits for the pool of the control plane.
pub async fn until(
    cluster: &Cluster,
    what: &str,
    limit: Duration,
    condition: impl Fn(&MachineConfigPool) -> bool,
) -> anyhow::Result<MachineConfigPool> {
    let pools: Api<MachineConfigPool> = Api::all(cluster.client().await?);
    Ok(cluster.until(what, &[]).within(limit).existing(pools, POOL, condition).await?)
}
