//! The address of the API server, for our own Deployment: it must reach it while the service network and the load
//! balancer in front of it are being updated (payload-and-apply §5.10).

use super::environment;
use crate::api::OWN_DEPLOYMENT;
use serde_json::Value;

/// Where the API server is reached from inside the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Address {
    /// Name or address; IPv6 without brackets.
    pub host: String,
    pub port: u16,
}

impl Address {
    /// From `status.apiServerInternalURI` of the Infrastructure object; `None` if it names no host.
    pub(super) fn of(object: &Value) -> Option<Self> {
        let uri = object.pointer("/status/apiServerInternalURI").and_then(Value::as_str)?;
        let (_, rest) = uri.trim().split_once("://")?;
        let authority = rest.split(['/', '?', '#']).next()?;
        let place = authority.rsplit_once('@').map_or(authority, |(_, place)| place);
        let (host, port) = match place.strip_prefix('[').and_then(|place| place.split_once(']')) {
            Some((host, port)) => (host, port.strip_prefix(':').unwrap_or_default()),
            None => place.rsplit_once(':').unwrap_or((place, "")),
        };
        let port = if port.is_empty() { 443 } else { port.parse().ok()? };
        (!host.is_empty()).then(|| Address { host: host.to_owned(), port })
    }
}

/// Sets what client libraries read to find the API server.
pub(super) fn inject(object: &mut Value, address: &Address) {
    let port = address.port.to_string();
    let variables = [("KUBERNETES_SERVICE_HOST", address.host.as_str()), ("KUBERNETES_SERVICE_PORT", port.as_str())];
    // A Deployment of ours without our container is not ours.
    let _found = environment::set(object, OWN_DEPLOYMENT, &variables);
}
