//! Which proxy a request goes through, by the rules that Go programs follow for `NO_PROXY`: the other components of a
//! cluster read the same setting.

use std::net::IpAddr;
use url::{Host, Url};

/// The cluster's proxy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ProxySettings {
    /// For `http://` and `https://` URLs; empty for none.
    pub http: String,
    pub https: String,
    /// Hosts and networks that are reached directly, separated by commas.
    pub none: String,
}

/// The settings, parsed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Proxies {
    http: Option<Url>,
    https: Option<Url>,
    direct: Vec<Direct>,
}

/// One item of the list of hosts that are reached directly.
#[derive(Clone, Debug, PartialEq)]
enum Direct {
    All,
    Network(IpAddr, u8),
    Address(IpAddr, Option<u16>),
    /// With a leading dot. `itself`: not only names below it.
    Domain {
        suffix: String,
        itself: bool,
        port: Option<u16>,
    },
}

impl Proxies {
    /// # Errors
    /// A proxy is not the URL of an HTTP proxy. It is not left out, because then requests would go out directly.
    pub(crate) fn new(settings: &ProxySettings) -> Result<Self, String> {
        Ok(Proxies {
            http: proxy_url("httpProxy of Proxy \"cluster\"", &settings.http)?,
            https: proxy_url("httpsProxy of Proxy \"cluster\"", &settings.https)?,
            direct: settings.none.split(',').filter_map(direct).collect(),
        })
    }

    /// Those of the variables `GRPC_PROXY` and `NO_PROXY`: for connections in plain text, and by such connections.
    ///
    /// # Errors
    /// The first is not the URL of such a proxy.
    pub(crate) fn for_grpc(proxy: &str, none: &str) -> Result<Self, String> {
        let http = proxy_url("GRPC_PROXY", proxy)?;
        if http.as_ref().is_some_and(|url| url.scheme() != "http") {
            return Err(
                "GRPC_PROXY is an https:// URL, but that proxy is reached in plain text: use http://".to_owned()
            );
        }
        Ok(Proxies { http, https: None, direct: none.split(',').filter_map(direct).collect() })
    }

    /// The proxy for this URL; `None` if it is reached directly.
    pub(crate) fn of(&self, url: &Url) -> Option<Url> {
        let proxy = if url.scheme() == "https" { &self.https } else { &self.http };
        let port = url.port_or_known_default()?;
        let is_direct = match url.host()? {
            Host::Domain(name) => self.is_direct_name(name, port),
            Host::Ipv4(address) => self.is_direct_address(IpAddr::V4(address), port),
            Host::Ipv6(address) => self.is_direct_address(IpAddr::V6(address), port),
        };
        proxy.clone().filter(|_| !is_direct)
    }

    fn is_direct_name(&self, name: &str, port: u16) -> bool {
        let name = name.trim_end_matches('.').to_ascii_lowercase();
        name == "localhost"
            || self.direct.iter().any(|direct| match direct {
                Direct::All => true,
                Direct::Domain { suffix, itself, port: only } => {
                    let named = name.ends_with(suffix.as_str()) || *itself && suffix.strip_prefix('.') == Some(&name);
                    named && only.is_none_or(|only| only == port)
                }
                Direct::Network(..) | Direct::Address(..) => false,
            })
    }

    fn is_direct_address(&self, address: IpAddr, port: u16) -> bool {
        let address = address.to_canonical();
        address.is_loopback()
            || self.direct.iter().any(|direct| match direct {
                Direct::All => true,
                Direct::Network(network, bits) => contains(*network, *bits, address),
                Direct::Address(other, only) => *other == address && only.is_none_or(|only| only == port),
                Direct::Domain { .. } => false,
            })
    }
}

/// `place`: where it stands, for errors.
fn proxy_url(place: &str, text: &str) -> Result<Option<Url>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    let with_scheme = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
    // The URL may have a password, so it is not repeated.
    match Url::parse(&with_scheme) {
        Ok(url) if matches!(url.scheme(), "http" | "https") && url.has_host() => Ok(Some(url)),
        Ok(_) => Err(format!("{place} is not an http:// or https:// URL")),
        Err(error) => Err(format!("{place} is not a URL: {error}")),
    }
}

fn direct(item: &str) -> Option<Direct> {
    let item = item.trim().to_ascii_lowercase();
    if item == "*" {
        return Some(Direct::All);
    }
    if let Some((address, bits)) = item.split_once('/') {
        let (address, bits): (IpAddr, u8) = (address.parse().ok()?, bits.parse().ok()?);
        let most = if address.is_ipv4() { 32 } else { 128 };
        return (bits <= most).then_some(Direct::Network(address, bits));
    }
    if let Ok(address) = item.parse::<IpAddr>() {
        return Some(Direct::Address(address.to_canonical(), None));
    }
    let (host, port) = match item.rsplit_once(':') {
        Some((host, port)) => (host, Some(port.parse().ok()?)),
        None => (item.as_str(), None),
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    if let Ok(address) = host.parse::<IpAddr>() {
        return Some(Direct::Address(address.to_canonical(), port));
    }
    let host = host.strip_prefix('*').filter(|rest| rest.starts_with('.')).unwrap_or(host);
    match host.strip_prefix('.') {
        _ if host.is_empty() || host == "." => None,
        Some(_) => Some(Direct::Domain { suffix: host.to_owned(), itself: false, port }),
        None => Some(Direct::Domain { suffix: format!(".{host}"), itself: true, port }),
    }
}

fn contains(network: IpAddr, bits: u8, address: IpAddr) -> bool {
    let same = |a: u128, b: u128, width: u8| {
        let shift = u32::from(width - bits.min(width));
        a.checked_shr(shift).unwrap_or(0) == b.checked_shr(shift).unwrap_or(0)
    };
    match (network, address) {
        (IpAddr::V4(network), IpAddr::V4(address)) => same(network.to_bits().into(), address.to_bits().into(), 32),
        (IpAddr::V6(network), IpAddr::V6(address)) => same(network.to_bits(), address.to_bits(), 128),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
