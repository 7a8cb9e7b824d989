//! Catalogs in memory.

use cvo::testing::catalog::{Blobs, BlobsError, Catalog, CatalogBuilder, Reason};

/// Reads a stream as the one file of a catalog.
pub(super) fn read(input: &[u8]) -> Result<Catalog<Vec<u8>>, String> {
    let (mut builder, mut json) = (CatalogBuilder::new(Vec::new()), Vec::new());
    let file = builder.file("a/b".to_owned()).map_err(|e| e.to_string())?;
    let mut blobs = Blobs::new(input);
    loop {
        match blobs.next_document() {
            Ok(Some(document)) => builder.add(file, document.decode(&mut json)).map_err(|e| e.to_string())?,
            Ok(None) => break,
            Err(BlobsError::TooLarge { line }) => builder.unreadable(file, line, Reason::TooLarge { limit: 0 }),
            Err(BlobsError::Io(error)) => return Err(error.to_string()),
        }
    }
    builder.finish().map_err(|e| e.to_string())
}

/// The index of a catalog as bytes.
pub(super) fn written(input: &[u8]) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    read(input)?.index.write(&mut bytes).map_err(|e| e.to_string())?;
    Ok(bytes)
}
