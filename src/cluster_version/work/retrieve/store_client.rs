//! The client for one signature store, with the CA that the spec names for it.

use crate::cluster::{Kind, Objects};
use crate::cluster_version::api::ConfigMapName;
use crate::net::http::{self, Bundle, Egress, Purpose};

/// Where the CA of a signature store in the spec is.
const NAMESPACE: &str = "openshift-config";
const KEY: &str = "ca.crt";

/// A client that trusts the CA beside those of the cluster's bundle. The error says why the store cannot be asked: one whose
/// CA is missing is not trusted with any other.
pub(crate) async fn build(
    objects: &Objects,
    version: &str,
    egress: &Egress,
    ca: Option<&ConfigMapName>,
) -> Result<reqwest::Client, String> {
    let more_roots = match ca.map(|ca| ca.name.as_str()).filter(|name| !name.is_empty()) {
        None => None,
        Some(name) => {
            let origin = format!("ConfigMap {NAMESPACE}/{name}, key {KEY}");
            let kind = Kind::config_map();
            let map = objects.get(&kind, NAMESPACE, name).await.map_err(|e| e.to_string())?;
            let pem = map.as_ref().and_then(|map| map.get("data")?.get(KEY)?.as_str());
            let pem = pem.ok_or_else(|| format!("its CA is missing: {origin}"))?.to_owned();
            Some(Bundle { pem, origin })
        }
    };
    let purpose = Purpose { version, egress, more_roots: more_roots.as_ref(), address: None, timeout: http::TIMEOUT };
    http::build(&purpose).map_err(|e| e.to_string())
}

#[cfg(test)]
mod tests;
