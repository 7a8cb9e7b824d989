//! Kubeconfig files with embedded certificates, so that one file can be mounted into a container.

use std::path::Path;

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use super::{
    certificates::Leaf,
    error::{HarnessError, Result},
    files,
};

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

/// Replaces the value at a JSON pointer in a kubeconfig that the harness has written.
pub fn set_in_kubeconfig(file: &Path, pointer: &str, value: impl Into<Value>) -> Result<()> {
    let mut config: Value = files::read_json(file)?;
    let Some(found) = config.pointer_mut(pointer) else {
        return Err(HarnessError::Kubeconfig(file.to_owned(), format!("it has no {pointer}")));
    };
    *found = value.into();
    files::write_json(file, &config)
}

/// Writes a copy of a kubeconfig whose user acts as another one, with these groups.
pub(super) fn write_acting_as(from: &Path, to: &Path, user: &str, groups: &[&str]) -> Result<()> {
    let mut config: Value = files::read_json(from)?;
    let Some(found) = config.pointer_mut("/users/0/user").and_then(Value::as_object_mut) else {
        return Err(HarnessError::Kubeconfig(from.to_owned(), "it has no user".to_owned()));
    };
    found.insert("as".to_owned(), user.into());
    found.insert("as-groups".to_owned(), groups.into());
    files::write_json(to, &config)
}
