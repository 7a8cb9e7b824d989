//! The update service's protocol: the request, whether it can be sent at all, and why a response is of no use.

pub(crate) mod response;

pub(crate) use response::{MAX_BODY, Updates, parse_updates};

use std::fmt;
use url::Url;

/// The update service if neither a flag nor the spec names one.
pub(crate) const DEFAULT_SERVICE: &str = "https://api.openshift.com/api/upgrades_info/v1/graph";

crate::error::causes! {
    /// Reason of `RetrievedUpdates=False`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Reason {
        NoUpstream => "Name an update service in spec.upstream",
        InvalidURI => "Correct spec.upstream: it is no address of an update service",
        InvalidID => "Correct spec.clusterID: it has to be a UUID",
        NoArchitecture => "Nothing can be asked without an architecture: see spec.desiredUpdate.architecture, and the release's own",
        NoCurrentVersion => "Wait until the release that runs is known",
        NoChannel => "Choose a channel: cvo channel NAME",
        InvalidCurrentVersion => "The version of the release that runs is no semantic version, so that no update service knows it",
        /// The request could not be built.
        InvalidRequest => "Correct the field that the message names",
        /// The cluster's bundle of trusted CAs cannot be used.
        InvalidTrustBundle => "Correct the ConfigMap of trusted certificate authorities that Proxy cluster names",
        /// Transport, timeout, TLS.
        RemoteFailed => "Check that the update service can be reached from the node of the daemon: address, proxy (Proxy cluster), certificate authorities; it is asked again by itself",
        /// Another HTTP status than 200, or the body broke off.
        ResponseFailed => "Look at the update service: it answers with an error; it is asked again by itself",
        /// The response is not a consistent update graph.
        ResponseInvalid => "Look at what the update service answers: it is no consistent graph",
        VersionNotFound => "Choose a channel that contains the release that runs: cvo channel NAME",
    }
}

impl Reason {
    /// Whether the service, or the way to it, fails rather than the request: the updates of an earlier response to the same
    /// request then stay available for a while.
    pub fn is_transient(self) -> bool {
        use Reason::{InvalidTrustBundle, RemoteFailed, ResponseFailed, ResponseInvalid};
        matches!(self, RemoteFailed | ResponseFailed | ResponseInvalid | InvalidTrustBundle)
    }
}

/// The reason as it is written to the condition.
impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// Why there are no updates.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct RetrievalError {
    pub reason: Reason,
    pub message: String,
}

impl RetrievalError {
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        RetrievalError { reason, message: message.into() }
    }
}

/// Reason and message, as `Facts::retrieval` holds them.
impl From<RetrievalError> for (String, String) {
    fn from(error: RetrievalError) -> Self {
        (error.reason.to_string(), error.message)
    }
}

/// The URL of the update service: the flag, else `spec.upstream`, else the default.
pub(crate) fn service<'a>(flag: Option<&'a str>, spec_upstream: &'a str) -> &'a str {
    let given = [flag.unwrap_or(""), spec_upstream, DEFAULT_SERVICE];
    given.into_iter().find(|uri| !uri.is_empty()).unwrap_or(DEFAULT_SERVICE)
}

/// Why a text is not even a URI reference, if so. As lenient as Go's `url.Parse`, so that a URL which the API has accepted
/// stays valid: `foo` passes, `#%GG` does not.
pub fn uri_problem(text: &str) -> Option<String> {
    if let Some(c) = text.chars().find(|c| c.is_control()) {
        return Some(format!("it has the control character {c:?}"));
    }
    let (rest, fragment) = text.split_once('#').unwrap_or((text, ""));
    let (path, _) = rest.split_once('?').unwrap_or((rest, ""));
    if let Some(escape) = [path, fragment].into_iter().find_map(bad_escape) {
        return Some(format!("{escape:?} is not a percent escape"));
    }
    let base = Url::parse("https://base.invalid/").ok();
    Url::options().base_url(base.as_ref()).parse(text).err().map(|e| e.to_string())
}

/// The first `%` without two hexadecimal digits after it.
fn bad_escape(text: &str) -> Option<String> {
    text.match_indices('%').find_map(|(at, _)| {
        let escape: String = text.get(at..)?.chars().take(3).collect();
        let good = escape.len() == 3 && escape.chars().skip(1).all(|c| c.is_ascii_hexdigit());
        (!good).then_some(escape)
    })
}

/// The URL of a request. `arch` is `multi` or a Go architecture name, `version` that of the running release, not of the
/// one being applied. Parameters that the upstream URL already has are kept; all are sorted by name.
pub(crate) fn request_url(
    upstream: &str,
    arch: &str,
    channel: &str,
    cluster_id: &str,
    version: &str,
) -> Result<String, RetrievalError> {
    check(upstream, arch, channel, cluster_id, version)?;
    let invalid = |problem: String| {
        let message = format!("The update service {upstream:?} cannot be queried: {problem}");
        RetrievalError::new(Reason::InvalidRequest, message)
    };
    let mut url = Url::parse(upstream).map_err(|e| invalid(e.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
        return Err(invalid("it needs http:// or https:// and a host".into()));
    }
    let id = uuid::Uuid::parse_str(cluster_id)
        .map_err(|e| RetrievalError::new(Reason::InvalidID, format!("spec.clusterID: {e}")))?;
    let mut pairs: Vec<(String, String)> = url.query_pairs().into_owned().collect();
    let ours = [("arch", arch), ("channel", channel), ("id", &id.to_string()), ("version", version)];
    pairs.extend(ours.map(|(key, value)| (key.to_owned(), value.to_owned())));
    // Stable: among equal names, those of the upstream URL come first.
    pairs.sort_by(|a, b| a.0.cmp(&b.0));
    url.query_pairs_mut().clear().extend_pairs(pairs);
    url.set_fragment(None);
    Ok(url.into())
}

/// The first field without which there can be no request. The order decides which reason the condition shows when several
/// are missing.
fn check(upstream: &str, arch: &str, channel: &str, cluster_id: &str, version: &str) -> Result<(), RetrievalError> {
    let no = |reason, message: String| Err(RetrievalError::new(reason, message));
    if upstream.is_empty() {
        return no(Reason::NoUpstream, "No update service is configured: set spec.upstream".into());
    }
    if let Some(problem) = uri_problem(upstream) {
        return no(Reason::InvalidURI, format!("spec.upstream {upstream:?} is not a URL: {problem}"));
    }
    if uuid::Uuid::parse_str(cluster_id).is_err() {
        return no(Reason::InvalidID, format!("spec.clusterID {cluster_id:?} is not a UUID"));
    }
    if arch.is_empty() {
        return no(Reason::NoArchitecture, "The architecture of the release is unknown".into());
    }
    if version.is_empty() {
        return no(Reason::NoCurrentVersion, "The version of the running release is unknown".into());
    }
    if channel.is_empty() {
        return no(Reason::NoChannel, "No update channel is chosen: set spec.channel".into());
    }
    match crate::version::parse(version) {
        Err(problem) => no(Reason::InvalidCurrentVersion, format!("The running release: {problem}")),
        Ok(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests;
