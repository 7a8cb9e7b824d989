//! Which catalog a client means. Where several are served on one port, it names one by the authority of its request, which is
//! what it has dialled: the host name of the catalog's Service.

use crate::error::shortened;
use crate::olm::catalog::served::{Catalogs, Served};

/// Catalogs that a message names.
const MAX_NAMED: usize = 10;
/// Bytes of an authority in a message.
const MAX_LENGTH: usize = 200;

/// Namespace and name of a catalog, or of its Service.
pub(crate) type Key = (String, String);

/// Why no catalog is meant by an authority. The message says how one is asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "no catalog is served as {authority:?}: dial the Service of a catalog, or name it by the authority \
     <service>.<namespace>.svc:50051, as with grpcurl -authority; {known}"
)]
pub(crate) struct UnknownAuthority {
    authority: String,
    known: String,
}

/// The catalog that an authority names, and its key.
pub(crate) fn named<'a>(catalogs: &'a Catalogs, authority: &str) -> Result<(&'a Key, &'a Served), UnknownAuthority> {
    let found = service(authority).and_then(|key| find(catalogs, &key));
    found.ok_or_else(|| UnknownAuthority {
        authority: shortened(authority, MAX_LENGTH).into_owned(),
        known: known(catalogs),
    })
}

/// A catalog by its own name or that of its Service.
pub(crate) fn find<'a>(catalogs: &'a Catalogs, key: &Key) -> Option<(&'a Key, &'a Served)> {
    let of_service = || {
        let in_namespace = catalogs.iter().filter(|((namespace, _), _)| *namespace == key.0);
        in_namespace.into_iter().find(|((_, name), _)| service_name(name) == key.1)
    };
    catalogs.get_key_value(key).or_else(of_service)
}

/// The name of the Service of a catalog.
fn service_name(catalog: &str) -> String {
    catalog.replace('.', "-")
}

/// Namespace and name of a Service by its host name, with or without the domain of the cluster and a port.
fn service(authority: &str) -> Option<Key> {
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let host = host.split_once(':').map_or(host, |(host, _)| host).to_ascii_lowercase();
    let mut labels = host.split('.');
    let (name, namespace) = (labels.next()?, labels.next()?);
    (labels.next() == Some("svc") && !name.is_empty()).then(|| (namespace.to_owned(), name.to_owned()))
}

fn known(catalogs: &Catalogs) -> String {
    if catalogs.is_empty() {
        return "none is served now".to_owned();
    }
    let host = |(namespace, name): &Key| format!("{}.{namespace}.svc", service_name(name));
    let hosts: Vec<String> = catalogs.keys().take(MAX_NAMED).map(host).collect();
    let more = catalogs.len().saturating_sub(MAX_NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("served are {}{more}", hosts.join(", "))
}
