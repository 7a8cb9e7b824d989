//! The update service: what is asked, whether it can be asked at all, and why an answer is of no use
//! (cluster-version §2.6, §4.1, §4.3).

mod advise;

pub use advise::{Advice, MAX_BODY, advise};

use std::fmt;
use url::Url;

/// Where updates come from when neither a flag nor the spec says so.
pub const DEFAULT_SERVICE: &str = "https://api.openshift.com/api/upgrades_info/v1/graph";

/// Reason of `RetrievedUpdates=False` (§2.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    NoUpstream,
    InvalidURI,
    InvalidID,
    NoArchitecture,
    NoCurrentVersion,
    NoChannel,
    InvalidCurrentVersion,
    /// The request could not be built.
    InvalidRequest,
    /// Transport, timeout, TLS.
    RemoteFailed,
    /// Another HTTP status than 200, or the body broke off.
    ResponseFailed,
    /// The answer is no update graph that makes sense.
    ResponseInvalid,
    VersionNotFound,
}

impl Reason {
    /// Whether advice of an earlier, equal question may be kept while this lasts (§4.2).
    pub fn keeps_advice(self) -> bool {
        matches!(self, Reason::RemoteFailed | Reason::ResponseFailed | Reason::ResponseInvalid)
    }
}

/// The word as it stands in the condition.
impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// Why there is no advice.
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

/// As `Facts::retrieval` holds it.
impl From<RetrievalError> for (String, String) {
    fn from(error: RetrievalError) -> Self {
        (error.reason.to_string(), error.message)
    }
}

/// The address that is asked: the flag, else `spec.upstream`, else the default (§4.1). Compare these, not the fields.
pub fn service<'a>(flag: Option<&'a str>, spec_upstream: &'a str) -> &'a str {
    let given = [flag.unwrap_or(""), spec_upstream, DEFAULT_SERVICE];
    given.into_iter().find(|uri| !uri.is_empty()).unwrap_or(DEFAULT_SERVICE)
}

/// Why a text is no URI reference at all, if so. Lenient like the original: `foo` passes, `#%GG` does not (§1.3).
pub fn uri_problem(text: &str) -> Option<String> {
    if let Some(c) = text.chars().find(|c| c.is_control()) {
        return Some(format!("it has the control character {c:?}"));
    }
    let (rest, fragment) = text.split_once('#').unwrap_or((text, ""));
    let (path, _) = rest.split_once('?').unwrap_or((rest, ""));
    if let Some(escape) = [path, fragment].into_iter().find_map(bad_escape) {
        return Some(format!("{escape:?} is no percent escape"));
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

/// Whether the service can be asked: the first obstacle in the order of §2.6.
pub fn precheck(
    upstream: &str,
    arch: &str,
    channel: &str,
    cluster_id: &str,
    version: &str,
) -> Result<(), RetrievalError> {
    let no = |reason, message: String| Err(RetrievalError::new(reason, message));
    if upstream.is_empty() {
        return no(Reason::NoUpstream, "No update service is configured: set spec.upstream".into());
    }
    if let Some(problem) = uri_problem(upstream) {
        return no(Reason::InvalidURI, format!("spec.upstream {upstream:?} is no URL: {problem}"));
    }
    if uuid::Uuid::parse_str(cluster_id).is_err() {
        return no(Reason::InvalidID, format!("spec.clusterID {cluster_id:?} is no UUID"));
    }
    if arch.is_empty() {
        return no(Reason::NoArchitecture, "The architecture of the release is not known".into());
    }
    if version.is_empty() {
        return no(Reason::NoCurrentVersion, "The version of the running release is not known".into());
    }
    if channel.is_empty() {
        return no(Reason::NoChannel, "No update channel is chosen: set spec.channel".into());
    }
    match crate::version::parse(version) {
        Err(problem) => no(Reason::InvalidCurrentVersion, format!("The running release: {problem}")),
        Ok(_) => Ok(()),
    }
}

/// The URL of the question. `arch` is `multi` or a Go architecture name, `version` that of the own release, not of
/// the one being applied. Parameters that the address has already are kept; all are sorted by name (§4.3).
pub fn request_url(
    upstream: &str,
    arch: &str,
    channel: &str,
    cluster_id: &str,
    version: &str,
) -> Result<String, RetrievalError> {
    precheck(upstream, arch, channel, cluster_id, version)?;
    let invalid = |problem: String| {
        let message = format!("The update service {upstream:?} cannot be asked: {problem}");
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
    // Stable: of equal names, those of the address come first.
    pairs.sort_by(|a, b| a.0.cmp(&b.0));
    url.query_pairs_mut().clear().extend_pairs(pairs);
    url.set_fragment(None);
    Ok(url.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "01234567-89AB-4CDE-8F01-23456789ABCD";

    #[test]
    fn the_question_keeps_what_the_address_has_and_is_sorted() {
        let url = |upstream| request_url(upstream, "amd64", "stable-1 &x", ID, "1.0.0+b").unwrap();
        let ours = "arch=amd64&channel=stable-1+%26x&id=01234567-89ab-4cde-8f01-23456789abcd";
        assert_eq!(url("https://u/graph"), format!("https://u/graph?{ours}&version=1.0.0%2Bb"));
        assert_eq!(
            url("http://u:8080/g?z=1&arch=old&channel#frag"),
            format!("http://u:8080/g?arch=old&{}&version=1.0.0%2Bb&z=1", ours.replace("channel=", "channel=&channel="))
        );
    }

    #[test]
    fn obstacles_are_found_in_order() {
        // upstream, arch, channel, id, version
        let mut question = ["", "", "", "", ""];
        let steps = [
            (Reason::NoUpstream, 0, "#%GG"),
            (Reason::InvalidURI, 0, "foo"),
            (Reason::InvalidID, 3, ID),
            (Reason::NoArchitecture, 1, "amd64"),
            (Reason::NoCurrentVersion, 4, "v1"),
            (Reason::NoChannel, 2, "stable"),
            (Reason::InvalidCurrentVersion, 4, "1.0.0"),
            (Reason::InvalidRequest, 0, "ftp://u/"),
            (Reason::InvalidRequest, 0, "https://u/graph"),
        ];
        for (reason, field, next) in steps {
            let [upstream, arch, channel, id, version] = question;
            let error = request_url(upstream, arch, channel, id, version).unwrap_err();
            assert_eq!(error.reason, reason, "{question:?}: {error}");
            question[field] = next;
        }
        let [upstream, arch, channel, id, version] = question;
        assert!(request_url(upstream, arch, channel, id, version).is_ok());
    }

    #[test]
    fn uris_are_judged_leniently() {
        let table = [
            ("", true),
            ("foo", true),
            ("https://u/%41?%GG", true),
            ("#%GG", false),
            ("a%4", false),
            ("a\nb", false),
            ("https://[", false),
            ("http://h:99999/", false),
            ("%é", false),
        ];
        for (text, want) in table {
            assert_eq!(uri_problem(text).is_none(), want, "{text}");
        }
    }

    #[test]
    fn the_flag_wins_over_the_spec_and_the_spec_over_the_default() {
        assert_eq!(service(Some("a"), "b"), "a");
        assert_eq!(service(Some(""), "b"), "b");
        assert_eq!(service(None, ""), DEFAULT_SERVICE);
    }

    #[test]
    fn reasons_are_written_as_the_contract_has_them() {
        let error: (String, String) = RetrievalError::new(Reason::InvalidURI, "m").into();
        assert_eq!(error, ("InvalidURI".into(), "m".into()));
        assert!(Reason::ResponseFailed.keeps_advice() && !Reason::VersionNotFound.keeps_advice());
    }
}
