//! Kubeconfig files with embedded certificates, so that one file can be mounted into a container.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use super::certificates::Leaf;

/// A kubeconfig with one context. JSON is YAML, so every client can read it.
pub(super) fn kubeconfig(server: &str, authority: &str, client: &Leaf) -> Value {
    let cluster = json!({"server": server, "certificate-authority-data": STANDARD.encode(authority)});
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "lab",
        "clusters": [{"name": "lab", "cluster": cluster}],
        "users": [{"name": "lab", "user": {
            "client-certificate-data": STANDARD.encode(&client.certificate),
            "client-key-data": STANDARD.encode(&client.key),
        }}],
        "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": "lab"}}],
    })
}
