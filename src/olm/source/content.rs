//! Which content of a catalog is meant: all replicas serve the same one, so it is named exactly, in a condition of the CatalogSource.

use crate::olm::api::catalog_source::{CatalogSourceStatus, condition};
use std::fmt;

/// What stands before the name of a ConfigMap. No name of an image has a space.
const CONFIG_MAP: &str = "ConfigMap ";
/// The same for the address of a server.
const SERVER: &str = "server ";
/// What stands before the folder of an image, where the spec names one. The folder is written as in JSON.
const FOLDER: &str = " in ";

/// What a catalog is made from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    Image {
        /// As the spec names it, without a digest.
        image: String,
        /// `sha256:…`, of the index where the image is one for several platforms.
        digest: String,
        /// The folder of the image, where the spec names one. Otherwise the image does.
        directory: String,
    },
    ConfigMap {
        name: String,
        /// `sha256:…` of its data.
        digest: String,
    },
    /// What a server answered.
    Server {
        /// `host:port`.
        address: String,
        /// `sha256:…` of all that it told.
        digest: String,
    },
}

impl Content {
    /// Content of an image. A digest in the name of the image comes before the other one.
    pub(crate) fn of_image(image: &str, digest: &str, directory: &str) -> Content {
        let (name, pinned) = image.split_once('@').unwrap_or((image, digest));
        Content::Image { image: name.to_owned(), digest: pinned.to_owned(), directory: directory.to_owned() }
    }

    pub(crate) fn digest(&self) -> &str {
        match self {
            Content::Image { digest, .. } | Content::ConfigMap { digest, .. } | Content::Server { digest, .. } => {
                digest
            }
        }
    }

    /// Reads the beginning of a text, and returns what is behind it.
    fn parse(text: &str) -> Option<(Content, &str)> {
        let (name, rest) = text.split_once('@')?;
        let (algorithm, rest) = rest.split_once(':')?;
        let is_word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let end = rest.find(|c: char| !matches!(c, '0'..='9' | 'a'..='f')).unwrap_or(rest.len());
        let (hex, behind) = rest.split_at_checked(end)?;
        // It becomes the name of a folder.
        if algorithm.is_empty() || !algorithm.bytes().all(is_word) || !(32..=128).contains(&hex.len()) {
            return None;
        }
        let digest = format!("{algorithm}:{hex}");
        let plain = |name: &str| !name.is_empty() && !name.contains(char::is_whitespace);
        let content = match (name.strip_prefix(CONFIG_MAP), name.strip_prefix(SERVER)) {
            (Some(name), _) if plain(name) => Content::ConfigMap { name: name.to_owned(), digest },
            (_, Some(address)) if plain(address) => Content::Server { address: address.to_owned(), digest },
            (None, None) if plain(name) => {
                let (directory, behind) = folder(behind);
                return Some((Content::Image { image: name.to_owned(), digest, directory }, behind));
            }
            _ => return None,
        };
        Some((content, behind))
    }
}

/// The folder with which a text begins, if it does, and what is behind it.
fn folder(text: &str) -> (String, &str) {
    let read = text.strip_prefix(FOLDER).and_then(|text| {
        let mut texts = serde_json::Deserializer::from_str(text).into_iter::<String>();
        let folder = texts.next()?.ok()?;
        Some((folder, text.get(texts.byte_offset()..)?))
    });
    read.unwrap_or((String::new(), text))
}

/// The pull spec with its digest and perhaps ` in "FOLDER"`, `ConfigMap NAME@sha256:…` or `server ADDRESS@sha256:…`.
impl fmt::Display for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Content::Image { image, digest, directory } if directory.is_empty() => write!(f, "{image}@{digest}"),
            Content::Image { image, digest, directory } => {
                write!(f, "{image}@{digest}{FOLDER}{}", serde_json::Value::from(directory.as_str()))
            }
            Content::ConfigMap { name, digest } => write!(f, "{CONFIG_MAP}{name}@{digest}"),
            Content::Server { address, digest } => write!(f, "{SERVER}{address}@{digest}"),
        }
    }
}

/// What attempts are about: they count together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Subject {
    /// As it is named, perhaps with a digest.
    Image(String),
    /// With the digest: another content has not been tried yet.
    ConfigMap(String, String),
    /// By its address.
    Server(String),
    /// What a server answered once, by its address and the digest of it.
    Kept(String, String),
}

/// What the holder of the lease has said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub content: Content,
    /// Whether it is served. Otherwise it was served once, and nothing has been since.
    pub served: bool,
}

/// What the status says of the content.
pub(crate) fn record(status: &CatalogSourceStatus) -> Option<Record> {
    let condition = status.conditions.iter().find(|known| known.type_ == condition::CONTENT_LOADED)?;
    let (content, behind) = Content::parse(&condition.message)?;
    match (condition.status.as_str(), condition.reason.as_str()) {
        ("True", condition::LOADED) if behind.is_empty() => Some(Record { content, served: true }),
        ("False", condition::FAILED) if behind.starts_with(": ") => Some(Record { content, served: false }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

    fn told(status: &str, reason: &str, message: &str) -> Option<Record> {
        let condition = Condition {
            type_: condition::CONTENT_LOADED.to_owned(),
            status: status.to_owned(),
            reason: reason.to_owned(),
            message: message.to_owned(),
            last_transition_time: Time(jiff::Timestamp::UNIX_EPOCH),
            observed_generation: None,
        };
        record(&CatalogSourceStatus { conditions: vec![condition], ..CatalogSourceStatus::default() })
    }

    #[test]
    fn content_that_is_written_is_read_again() {
        let digest = format!("sha256:{}", "0a".repeat(32));
        for content in [
            Content::of_image("quay.io/a/b:v1", &digest, ""),
            Content::of_image("localhost:5000/a", &digest, "/configs"),
            Content::of_image("localhost:5000/a", &digest, "/a: \"b\"\n c"),
            Content::ConfigMap { name: "catalog".to_owned(), digest: digest.clone() },
            Content::Server { address: "a.b.svc:50051".to_owned(), digest: digest.clone() },
        ] {
            let text = content.to_string();
            assert_eq!(told("True", "Loaded", &text), Some(Record { content: content.clone(), served: true }));
            let failed = told("False", "Failed", &format!("{text}: the registry is away"));
            assert_eq!(failed, Some(Record { content, served: false }));
        }
    }

    #[test]
    fn digest_in_the_name_of_an_image_is_the_one_that_counts() {
        let content = Content::of_image("a.example/b:1@sha512:12", "sha256:34", "");
        assert_eq!(content.to_string(), "a.example/b:1@sha512:12");
        assert_eq!(content, Content::of_image("a.example/b:1", "sha512:12", ""));
    }

    #[test]
    fn what_names_no_content_is_none() {
        let hex = "0a".repeat(32);
        for message in [
            String::new(),
            "quay.io/a:1".to_owned(),
            format!("@sha256:{hex}"),
            format!("a b@sha256:{hex}"),
            format!("ConfigMap @sha256:{hex}"),
            format!("ConfigMap a b@sha256:{hex}"),
            format!("a@../..:{hex}"),
            "a@sha256:../../etc".to_owned(),
            format!("a@sha256:{hex}/.."),
            format!("a@sha256:{hex} in /configs"),
            format!("a@sha256:{hex} in \"/configs\" "),
            format!("a@sha256:{}", "0".repeat(4000)),
        ] {
            assert_eq!(told("True", "Loaded", &message), None, "{message}");
        }
        for (status, reason) in [("False", "Loading"), ("Unknown", "Loaded"), ("False", "Loaded"), ("True", "Failed")] {
            assert_eq!(told(status, reason, &format!("a@sha256:{hex}")), None, "{status} {reason}");
        }
    }
}
