//! Kubeconfig files with the certificates inside, so that one file can be handed to a container.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use super::certificates::Leaf;

/// A kubeconfig of one context. JSON is YAML, so every reader takes it.
pub fn kubeconfig(server: &str, authority: &str, client: &Leaf) -> Value {
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
