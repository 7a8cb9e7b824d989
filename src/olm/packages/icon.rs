//! The picture of a package: that of the version at the head of its default channel, or one of our own.

use super::manifest::PackageManifest;
use super::view::IconSource;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use std::borrow::Cow;

const SVG: &str = "image/svg+xml";
/// A parcel, for packages without a picture.
const DEFAULT: &str = concat!(
    r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 64 64" fill="none" stroke="#6a6e73" stroke-width="3" "##,
    r##"stroke-linejoin="round"><path d="M8 20 32 8l24 12v24L32 56 8 44z"/><path d="M8 20l24 12 24-12M32 32v24M20 14l24 12"/></svg>"##,
);

/// A picture as it is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Icon {
    pub bytes: Cow<'static, [u8]>,
    pub media_type: String,
    /// With its quotes: package, channel and version, as consoles name it in the address.
    pub etag: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Encoded {
    base64data: String,
    mediatype: String,
}

impl Icon {
    /// The first one of the ClusterServiceVersion; that of the package, if the catalog has no ClusterServiceVersion with one. What is no picture,
    /// or says that it is something else, is not sent: the default picture is.
    pub(crate) fn of(manifest: &PackageManifest) -> Self {
        let Some((channel, shown)) = manifest.default_head() else { return Icon::default_with(String::new()) };
        let package = manifest.package();
        // Names come from catalogs, and this goes into a header.
        let name = format!("{}.{channel}.{}", package.name, shown.csv_name);
        let name: String = name.chars().filter(|c| c.is_ascii_graphic() && *c != '"').collect();
        let etag = format!("\"{name}\"");
        let encoded = match shown.icons {
            Some(icons) => serde_json::from_str::<Vec<Encoded>>(icons.get()).unwrap_or_default().into_iter().next(),
            None => package.icon.map(|IconSource { data, media_type }| Encoded {
                base64data: data.to_owned(),
                mediatype: media_type.to_owned(),
            }),
        };
        let Encoded { base64data, mediatype: media_type } = encoded.unwrap_or_default();
        match STANDARD.decode(base64data.replace(['\n', '\r'], "")) {
            Ok(bytes) if !bytes.is_empty() && is_picture(&media_type) => Icon { bytes: bytes.into(), media_type, etag },
            _ => Icon::default_with(etag),
        }
    }

    fn default_with(etag: String) -> Self {
        Icon { bytes: DEFAULT.as_bytes().into(), media_type: SVG.to_owned(), etag }
    }

    /// Whether the client has it already, by the value of its `If-None-Match`.
    pub(crate) fn is_known(&self, if_none_match: &str) -> bool {
        let tags = if_none_match.split(',').map(|tag| tag.trim().trim_start_matches("W/"));
        !self.etag.is_empty() && tags.into_iter().any(|tag| tag == "*" || tag == self.etag)
    }
}

/// Whether a text is a media type of pictures that can stand in a header.
fn is_picture(media_type: &str) -> bool {
    let letter = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
    media_type.strip_prefix("image/").is_some_and(|kind| !kind.is_empty() && kind.bytes().all(letter))
}
