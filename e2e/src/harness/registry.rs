//! The cluster's image registry: Debian's docker-registry on loopback, plain http, with its images in the cluster's
//! folder. On a node pods read the same images by TLS at the address of the node, those below `private/` with a password; those below
//! `node/` are for the node alone.

use serde_json::json;

use super::{error::Result, files, process::Launch, programs, ready, site::Site};

/// User and password for repositories below `private/`.
pub(super) const LOGIN: (&str, &str) = ("puller", "lab secret");

/// The header that opens repositories below `node/`, which the container runtime of the node sends and nobody else.
pub(super) const OF_NODE: (&str, &str) = ("x-node-credential", "lab-node");

/// Starts the registry and waits until it answers.
pub(super) async fn start(site: &Site) -> Result<()> {
    let address = format!("127.0.0.1:{}", site.ports().registry);
    let config = site.dir().join("registry.json");
    let content = json!({
        "version": 0.1,
        "log": {"level": "warn"},
        "storage": {"filesystem": {"rootdirectory": site.dir().join("registry")}, "delete": {"enabled": true}},
        "http": {"addr": address},
    });
    files::write_json(&config, &content)?;
    let arguments = ["serve".to_owned(), config.display().to_string()];
    site.spawn(&Launch::new("registry", site.tools().node("docker-registry"), arguments))?;
    ready::healthy(site, "registry", format!("http://{address}/v2/")).await
}

/// Starts what lets pods read it, and waits until it answers. The registry has to run, and the node to have its address.
pub(super) async fn start_for_pods(site: &Site) -> Result<()> {
    let (name, address) = ("registry-for-pods", for_pods(site));
    let arguments = [
        "registry-front".to_owned(),
        format!("--listen={address}"),
        format!("--to=127.0.0.1:{}", site.ports().registry),
        format!("--certificate={}", site.pki("registry.crt").display()),
        format!("--key={}", site.pki("registry.key").display()),
        format!("--login={}:{}", LOGIN.0, LOGIN.1),
        format!("--of-node={}:{}", OF_NODE.0, OF_NODE.1),
    ];
    site.spawn(&Launch::new(name, programs::lab()?, arguments))?;
    ready::healthy(site, name, format!("https://{address}/v2/")).await
}

/// Where pods reach it, `address:port`.
pub(super) fn for_pods(site: &Site) -> String {
    format!("{}:{}", site.node_address(), site.ports().registry)
}
