//! A node's network: a bridge for the pods, which has the node's address, and the addresses of Services, which are those of this
//! machine: a process listens there (`lab services`), because there is no kube-proxy.

use std::{fs, path::Path, process::Command};

use serde_json::{Value, json};

use super::{
    error::{HarnessError, Result},
    site::Site,
};

/// Makes the bridge and the addresses.
pub(super) fn make(site: &Site) -> Result<()> {
    let bridge = site.bridge();
    let node = format!("{}/24", site.node_address());
    // A bridge without a hardware address of its own has the lowest one of its ports. That changes when pods come and go, and what the
    // other pods send to the address that they know is lost for up to a minute.
    let [a, b, c, d] = site.node_address().octets();
    let address = format!("02:00:{a:02x}:{b:02x}:{c:02x}:{d:02x}");
    ip(&["link", "add", &bridge, "address", &address, "type", "bridge"])?;
    ip(&["addr", "add", &node, "dev", &bridge])?;
    ip(&["link", "set", &bridge, "up"])?;
    // On the loopback device all addresses of a network are those of the machine.
    ip(&["addr", "add", &services(site), "dev", "lo"])
}

/// Removes them, and the devices of pods that are still connected to the bridge.
pub(super) fn remove(site: &Site) -> Result<()> {
    let bridge = site.bridge();
    let device = Path::new("/sys/class/net").join(&bridge);
    if device.exists() {
        for port in fs::read_dir(device.join("brif")).into_iter().flatten().flatten() {
            // It may disappear meanwhile, together with its pod's network namespace.
            let _ = ip(&["link", "del", &port.file_name().to_string_lossy()]);
        }
        ip(&["link", "del", &bridge])?;
    }
    let services = services(site);
    if read_ip(&["-4", "-o", "addr", "show", "dev", "lo"])?.split_whitespace().any(|word| word == services) {
        ip(&["addr", "del", &services, "dev", "lo"])?;
    }
    Ok(())
}

fn services(site: &Site) -> String {
    format!("{}/24", site.service_address())
}

/// The CNI configuration of the pods' network. Without masquerading no iptables are needed: pods reach only each other
/// and this machine.
pub(super) fn cni(site: &Site) -> Value {
    json!({
        "cniVersion": "1.0.0",
        "name": site.bridge(),
        "plugins": [{
            "type": "bridge",
            "bridge": site.bridge(),
            "isGateway": true,
            "ipMasq": false,
            "hairpinMode": true,
            "ipam": {
                "type": "host-local",
                "dataDir": site.run_dir().join("addresses"),
                "ranges": [[{"subnet": site.pod_network()}]],
                "routes": [{"dst": "0.0.0.0/0"}],
            },
        }],
    })
}

fn ip(arguments: &[&str]) -> Result<()> {
    read_ip(arguments).map(|_| ())
}

fn read_ip(arguments: &[&str]) -> Result<String> {
    let name = || format!("ip {}", arguments.join(" "));
    let done = Command::new("ip").args(arguments).output().map_err(|error| HarnessError::Spawn(name(), error))?;
    if done.status.success() {
        return Ok(String::from_utf8_lossy(&done.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&done.stderr).trim().to_owned();
    Err(HarnessError::Command(name(), done.status.to_string(), said))
}
