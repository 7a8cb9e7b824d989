//! Which image a tag names now, asked again and again.

use super::request::Ask;
use super::{MANIFEST_TYPES, MAX_DOCUMENT, RegistryError, Repository, layer};
use reqwest::header::{ACCEPT, ETAG, HeaderMap, IF_NONE_MATCH};
use reqwest::{Method, Response, StatusCode};

/// The header with the digest of a manifest.
const CONTENT_DIGEST: &str = "docker-content-digest";

/// What a tag names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tagged {
    /// `sha256:…`: of the index, if it names one.
    pub digest: String,
    /// What the registry recognises it by.
    entity_tag: Option<String>,
    /// Which registry, repository and tag that is.
    asked: String,
}

impl Repository {
    /// The digest of what the reference names, by one HEAD request if the registry can do that. A reference with a digest needs
    /// none. `known` is what was found before; it comes back if nothing has changed.
    pub(crate) async fn digest(&self, known: Option<&Tagged>) -> Result<Tagged, RegistryError> {
        if let Some(digest) = self.reference.digest() {
            let asked = format!("{} {}", self.place(), self.name());
            return Ok(Tagged { digest: digest.to_owned(), entity_tag: None, asked });
        }
        self.asked(known).await
    }

    /// The same, but a reference with a digest is asked for as well: it is an error if the registry does not have it.
    pub(super) async fn asked(&self, known: Option<&Tagged>) -> Result<Tagged, RegistryError> {
        let name = self.name();
        let asked = format!("{} {name}", self.place());
        let attempt = format!("ask for the digest of {name}");
        let known = known.filter(|known| known.asked == asked);
        let unless = known.and_then(|known| known.entity_tag.as_deref()).map(|tag| (IF_NONE_MATCH, tag));
        let headers = [(ACCEPT, MANIFEST_TYPES)].into_iter().chain(unless).collect();
        let mut ask = Ask { method: Method::HEAD, path: format!("manifests/{name}"), headers, attempt: &attempt };
        if !self.known.of(&self.key).without_head {
            let response = self.ask(&ask).await?;
            if let Some(same) = known.filter(|_| response.status() == StatusCode::NOT_MODIFIED) {
                return Ok(same.clone());
            }
            match (response.status(), digest_of(response.headers())) {
                (status, Some(digest)) if status.is_success() => {
                    return Ok(Tagged { digest, entity_tag: entity_tag(&response), asked });
                }
                (status, _) if status.is_success() || is_unable(status) => {
                    self.known.remember(&self.key, |known| known.without_head = true);
                }
                // A response to HEAD has no text that says why.
                (StatusCode::NOT_FOUND | StatusCode::BAD_REQUEST, _) => {}
                _ => return Err(self.answered(attempt, response).await),
            }
        }
        ask.method = Method::GET;
        let response = self.ask(&ask).await?;
        if let Some(same) = known.filter(|_| response.status() == StatusCode::NOT_MODIFIED) {
            return Ok(same.clone());
        }
        let entity_tag = entity_tag(&response);
        let bytes = self.document(&attempt, response, MAX_DOCUMENT as usize).await?;
        Ok(Tagged { digest: layer::sha256(&bytes), entity_tag, asked })
    }
}

/// A registry that does not know HEAD requests of manifests.
fn is_unable(status: StatusCode) -> bool {
    matches!(status, StatusCode::METHOD_NOT_ALLOWED | StatusCode::NOT_IMPLEMENTED | StatusCode::NOT_ACCEPTABLE)
}

fn entity_tag(response: &Response) -> Option<String> {
    response.headers().get(ETAG)?.to_str().ok().map(str::to_owned)
}

fn digest_of(headers: &HeaderMap) -> Option<String> {
    let digest = headers.get(CONTENT_DIGEST)?.to_str().ok()?;
    layer::is_digest(digest).then(|| digest.to_owned())
}

#[cfg(test)]
mod tests;
