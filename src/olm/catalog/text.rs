//! A catalog that is given as one text, held in memory.

use super::blobs::{Blobs, BlobsError};
use super::builder::{CatalogBuilder, CatalogError};
use super::served::Content;

/// Faults that are told.
const MOST: usize = 5;

/// Why a text is no catalog.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TextError {
    #[error("{0}")]
    Catalog(#[from] CatalogError),
    #[error("{0}")]
    Blobs(#[from] BlobsError),
    #[error("{}", .0.join("; "))]
    Faults(Vec<String>),
}

/// The content of JSON or YAML blobs. One that has faults is none: what is tried is to be as it is meant.
pub(crate) fn content(text: &str) -> Result<Content, TextError> {
    let mut builder = CatalogBuilder::new(Vec::new());
    let file = builder.file("content".to_owned())?;
    let (mut blobs, mut json) = (Blobs::new(text.as_bytes()), Vec::new());
    while let Some(document) = blobs.next_document()? {
        builder.add(file, document.decode(&mut json))?;
    }
    let catalog = builder.finish()?;
    if !catalog.faults.is_empty() {
        let told = catalog.faults.iter().take(MOST).map(|it| format!("{}, line {}: {}", it.file, it.line, it.reason));
        return Err(TextError::Faults(told.collect()));
    }
    Ok(Content::in_memory(catalog.index, catalog.data))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_with_blobs_is_a_catalog_and_one_with_faults_is_none() {
        let package = r#"{"schema": "olm.package", "name": "a", "defaultChannel": "stable"}"#;
        let channel = r#"{"schema": "olm.channel", "package": "a", "name": "stable", "entries": [{"name": "a.v1"}]}"#;
        let bundle = r#"{"schema": "olm.bundle", "package": "a", "name": "a.v1", "image": "x",
            "properties": [{"type": "olm.package", "value": {"packageName": "a", "version": "1.0.0"}}]}"#;
        let whole = content(&[package, channel, bundle].join("\n")).unwrap();
        assert_eq!(whole.index.package("a").unwrap().bundle("a.v1").unwrap().image(), Some("x"));
        for (text, expected) in
            [([package, channel].join("\n"), "a.v1"), ("{\"schema\": \"olm.package\"".to_owned(), "content")]
        {
            let error = content(&text).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
