//! The address of the API server, which is injected into the own Deployment: the daemon must reach it while the service
//! network and the load balancer are being updated.

use super::{ADDRESSED, environment};
use serde_json::Value;

/// The address of the API server inside the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Address {
    /// Host name or IP address; an IPv6 address has no brackets.
    pub host: String,
    pub port: u16,
}

impl Address {
    /// From `status.apiServerInternalURI` of the Infrastructure object; `None` if that has no host.
    pub(super) fn of(object: &Value) -> Option<Self> {
        let uri = object.pointer("/status/apiServerInternalURI").and_then(Value::as_str)?;
        let (_, rest) = uri.trim().split_once("://")?;
        let authority = rest.split(['/', '?', '#']).next()?;
        let address = authority.rsplit_once('@').map_or(authority, |(_, address)| address);
        let (host, port) = match address.strip_prefix('[').and_then(|address| address.split_once(']')) {
            Some((host, port)) => (host, port.strip_prefix(':').unwrap_or_default()),
            None => address.rsplit_once(':').unwrap_or((address, "")),
        };
        let port = if port.is_empty() { 443 } else { port.parse().ok()? };
        (!host.is_empty()).then(|| Address { host: host.to_owned(), port })
    }
}

/// Sets the variables by which client libraries find the API server.
pub(super) fn inject(object: &mut Value, address: &Address) {
    let port = address.port.to_string();
    let variables = [("KUBERNETES_SERVICE_HOST", address.host.as_str()), ("KUBERNETES_SERVICE_PORT", port.as_str())];
    // If the container is missing there is nothing to set.
    let _found = environment::set(object, ADDRESSED.1, &variables);
}
