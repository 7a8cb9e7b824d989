//! The cluster's image registry: Debian's docker-registry on loopback, plain http, with its images in the cluster's
//! folder. On a node pods reach the same images by TLS at the address of the node.

use serde_json::{Value, json};

use super::{error::Result, files, process::Launch, ready, site::Site};

/// Starts the registry and waits until it answers.
pub(super) async fn start(site: &Site) -> Result<()> {
    let address = format!("127.0.0.1:{}", site.ports().registry);
    spawn(site, "registry", json!({"addr": address}))?;
    ready::healthy(site, "registry", format!("http://{address}/v2/")).await
}

/// The same for pods, once the node has its address.
pub(super) async fn start_for_pods(site: &Site) -> Result<()> {
    let (name, address) = ("registry-for-pods", for_pods(site));
    let tls = json!({"certificate": site.pki("registry.crt"), "key": site.pki("registry.key")});
    spawn(site, name, json!({"addr": address, "tls": tls}))?;
    ready::healthy(site, name, format!("https://{address}/v2/")).await
}

/// Where pods reach it, `address:port`.
pub(super) fn for_pods(site: &Site) -> String {
    format!("{}:{}", site.node_address(), site.ports().registry)
}

fn spawn(site: &Site, name: &str, http: Value) -> Result<()> {
    let config = site.dir().join(format!("{name}.json"));
    let content = json!({
        "version": 0.1,
        "log": {"level": "warn"},
        "storage": {"filesystem": {"rootdirectory": site.dir().join("registry")}, "delete": {"enabled": true}},
        "http": http,
    });
    files::write_json(&config, &content)?;
    let arguments = ["serve".to_owned(), config.display().to_string()];
    site.spawn(&Launch::new(name, site.tools().node("docker-registry"), arguments)).map(drop)
}
