//! The node of a test cluster as the sample releases configure it. The node is this machine, so its agent works on a folder
//! in place of the root of the file system, in which `lab` is what manages services and restarts the node.

use anyhow::Context;
use cvo::testing::api::machine_config::MachineConfigPool;
use kube::Api;
use std::{fs, path::PathBuf, time::Duration};

use super::{
    Platform, Release,
    component::{Component, change, health_port},
    operators,
    releases::Contents,
};
use crate::harness::Cluster;

/// The folder of e2e/releases that configures nodes.
const NODE: &str = "node";
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

/// Makes the folder.
pub fn make_root(platform: &Platform) -> anyhow::Result<()> {
    let (root, lab) = (root(&platform.cluster), &platform.programs.lab);
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

/// The component that configures nodes: several of them share this machine.
pub const COMPONENT: Component = Component {
    folder: "machine-config",
    image: Some("machine-config-operator"),
    changes: |cluster| {
        const AGENT: &str = "_agent.yaml";
        const CONTROLLER: &str = "_deployment.yaml";
        let root = root(cluster).display().to_string();
        let (health, metrics) = (cluster.port("machine-config health"), cluster.port("machine-config metrics"));
        let flags = format!(
            "        - --root=/rootfs\n        - --boot-id-file=/rootfs/{BOOT_ID}\n        \
             - --reboot-command=/rootfs/usr/bin/{REBOOT}\n"
        );
        let mut changes = vec![
            // No file system is mounted below that folder later, and the root of this machine may not be a shared mount.
            change(AGENT, "          mountPropagation: HostToContainer\n", ""),
            change(AGENT, "          path: /\n", format!("          path: {root}\n")),
            change(AGENT, "        - --root=/rootfs\n", flags),
            change(CONTROLLER, "--listen=0.0.0.0:9001\n", format!("--listen=127.0.0.1:{metrics}\n")),
            change(CONTROLLER, "          containerPort: 9001\n", format!("          containerPort: {metrics}\n")),
        ];
        changes.extend(health_port(CONTROLLER, 9097, health));
        changes
    },
};

/// The samples with a configuration of the nodes of the control plane in each, and a catalog of operators.
const SAMPLES: [Contents<'static>; 3] = [
    Contents {
        version: "1.0.0",
        folders: &["base", NODE],
        previous: &[],
        components: &[COMPONENT, operators::COMPONENT],
    },
    Contents {
        version: "1.0.1",
        folders: &["base", "1.0.1", NODE, "node-1.0.1"],
        previous: &["1.0.0"],
        components: &[COMPONENT, operators::COMPONENT],
    },
    Contents {
        version: "1.1.0",
        folders: &["base", "1.1.0", NODE, "node-1.1.0"],
        previous: &["1.0.1"],
        components: &[COMPONENT, operators::COMPONENT],
    },
];

/// The three samples that configure nodes and bring operators, and the cluster ready for them: the node is one of the control
/// plane.
pub async fn samples(platform: &Platform) -> anyhow::Result<[Release; 3]> {
    make_root(platform)?;
    let node = platform.cluster.node_name();
    platform.cluster.kubectl(["label", "node", &node, "node-role.kubernetes.io/master="]).await?;
    operators::prepare(platform).await?;
    platform.chain(SAMPLES).await
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
