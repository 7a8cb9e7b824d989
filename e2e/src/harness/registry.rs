//! The cluster's image registry: Debian's docker-registry on loopback, plain http, with its images in the cluster's
//! folder.

use serde_json::json;

use super::{error::Result, files, process::Launch, ready, site::Site};

/// Starts the registry and waits until it answers.
pub(super) async fn start(site: &Site) -> Result<()> {
    let port = site.ports().registry;
    let config = site.dir().join("registry.json");
    let content = json!({
        "version": 0.1,
        "log": {"level": "warn"},
        "storage": {"filesystem": {"rootdirectory": site.dir().join("registry")}, "delete": {"enabled": true}},
        "http": {"addr": format!("127.0.0.1:{port}")},
    });
    files::write_json(&config, &content)?;
    let arguments = ["serve".to_owned(), config.display().to_string()];
    site.spawn(&Launch::new("registry", site.tools().node("docker-registry"), arguments))?;
    ready::healthy(site, "registry", format!("http://127.0.0.1:{port}/v2/")).await
}
