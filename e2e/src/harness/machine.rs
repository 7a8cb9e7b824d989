//! Whether this machine can run a cluster with the given options.

use std::net::{IpAddr, UdpSocket};

use super::{
    error::{HarnessError, Result},
    options::Options,
    site, toolbox,
    toolbox::Toolbox,
};

/// With less, a cluster may fill the disk (images, etcd, logs).
const NEEDED_GIB: u64 = 5;

/// Checks operating system, root, disk and programs; the error names the first that is missing.
pub fn check(options: &Options, tools: &Toolbox) -> Result<()> {
    if !cfg!(target_os = "linux") {
        return Err(HarnessError::Machine("it needs Linux".to_owned()));
    }
    if options.node && !is_root() {
        return Err(HarnessError::Machine(
            "a node mounts file systems and makes cgroups and bridges: run as root, or without a node".to_owned(),
        ));
    }
    let root = site::root()?;
    let free = rustix::fs::statvfs(&root).map(|stat| stat.f_bavail * stat.f_frsize / (1 << 30)).unwrap_or(0);
    if free < NEEDED_GIB {
        let what = format!("{} has {free} GiB free of {NEEDED_GIB} needed: free some, or set TMPDIR", root.display());
        return Err(HarnessError::Machine(what));
    }
    if options.node {
        toolbox::require(&tools.node("containerd"))?;
    }
    if options.registry {
        toolbox::require(&tools.node("docker-registry"))?;
    }
    Ok(())
}

/// Whether this process may mount file systems and make network devices.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// An address of this machine that is not a loopback one, which are always reached directly.
pub fn own_address() -> Option<IpAddr> {
    // Nothing is sent: connecting a datagram socket only chooses the address.
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("192.0.2.1:9").ok()?;
    socket.local_addr().ok().map(|address| address.ip()).filter(|ip| !ip.is_loopback() && !ip.is_unspecified())
}
