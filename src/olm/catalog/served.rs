//! Catalogs as they are served: the index in memory, and the data beside it, of which parts are read when somebody asks.

use super::index::{Index, IndexError, Stored};
use jiff::Timestamp;
use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::sync::{Arc, OnceLock};

/// What is said of the CatalogSource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Catalog {
    pub namespace: String,
    pub name: String,
    pub display_name: String,
    pub publisher: String,
    pub labels: BTreeMap<String, String>,
    pub created: Option<Timestamp>,
    /// Higher ones are preferred.
    pub priority: i64,
    /// Since when its content could not be read anew; what was read before is still served.
    pub stale_since: Option<Timestamp>,
}

/// The data file of an index.
pub(crate) trait Data: Send + Sync {
    /// Reads these bytes, all of them.
    fn read(&self, offset: u64, length: usize) -> io::Result<Vec<u8>>;
}

/// What a catalog offers. Catalogs with the same content share it.
pub(crate) struct Content {
    pub index: Index,
    data: Box<dyn Data>,
    beside: OnceLock<Box<dyn Any + Send + Sync>>,
}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Content").field("counts", &self.index.counts()).finish_non_exhaustive()
    }
}

impl Content {
    pub(crate) fn new(index: Index, data: Box<dyn Data>) -> Self {
        Content { index, data, beside: OnceLock::new() }
    }

    /// The same with data that are in memory.
    pub(crate) fn in_memory(index: Index, data: Vec<u8>) -> Self {
        Content::new(index, Box::new(InMemory(data)))
    }

    /// What those who read it keep beside it as long as it is there; they all keep the same kind of thing.
    pub(crate) fn beside<T: Default + Send + Sync + 'static>(&self) -> Option<&T> {
        self.beside.get_or_init(|| Box::new(T::default())).downcast_ref()
    }

    /// The JSON of a part of a blob.
    pub(crate) fn json(&self, stored: Stored<'_>) -> Result<String, IndexError> {
        let bytes = self.data.read(stored.offset(), stored.length()).map_err(IndexError::Read)?;
        stored.json(&bytes)?;
        // It has been checked.
        String::from_utf8(bytes).map_err(|_| IndexError::Data)
    }
}

struct InMemory(Vec<u8>);

impl Data for InMemory {
    fn read(&self, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        let part = usize::try_from(offset).ok().and_then(|at| self.0.get(at..at.checked_add(length)?));
        part.map(<[u8]>::to_vec).ok_or(io::ErrorKind::UnexpectedEof.into())
    }
}

/// A catalog that can be asked for.
#[derive(Clone, Debug)]
pub(crate) struct Served {
    /// What its CatalogSource says of it.
    pub about: Arc<Catalog>,
    pub content: Arc<Content>,
}

/// All that are served, by namespace and name of their CatalogSources. A new one takes the place of the map, so that whoever
/// answers a request has one state of all.
pub(crate) type Catalogs = BTreeMap<(String, String), Served>;

/// The port at which each catalog is asked for besides the one of all, by namespace and name of its CatalogSource. It is the same
/// at each replica.
pub(crate) type Ports = BTreeMap<(String, String), u16>;

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::olm::catalog::builder::tests::read;
    use serde_json::Value;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    /// A data file in memory that counts how often it is read, and may be gone.
    #[derive(Default)]
    struct Counted(Vec<u8>, Arc<AtomicUsize>, Arc<AtomicBool>);

    impl Data for Counted {
        fn read(&self, offset: u64, length: usize) -> io::Result<Vec<u8>> {
            self.1.fetch_add(1, Ordering::SeqCst);
            if self.2.load(Ordering::SeqCst) {
                return Err(io::ErrorKind::NotFound.into());
            }
            let start = usize::try_from(offset).unwrap();
            self.0.get(start..start + length).map(<[u8]>::to_vec).ok_or(io::ErrorKind::UnexpectedEof.into())
        }
    }

    /// A catalog of these blobs, and how often its data file has been read.
    pub(crate) fn content(blobs: &[Value]) -> (Content, Arc<AtomicUsize>) {
        let (index, data) = parts(blobs);
        let count = Arc::new(AtomicUsize::new(0));
        (Content::new(index, Box::new(Counted(data, count.clone(), Arc::default()))), count)
    }

    /// The same, and what makes its data file go away.
    pub(crate) fn flaky(blobs: &[Value]) -> (Arc<Content>, Arc<AtomicBool>) {
        let (index, data) = parts(blobs);
        let gone = Arc::new(AtomicBool::new(false));
        (Arc::new(Content::new(index, Box::new(Counted(data, Arc::default(), gone.clone())))), gone)
    }

    fn parts(blobs: &[Value]) -> (Index, Vec<u8>) {
        let catalog = read(&[("catalog.json", &blobs.iter().map(Value::to_string).collect::<String>())]);
        assert_eq!(catalog.faults, []);
        (catalog.index, catalog.data)
    }

    /// The same with data that nobody can read any more.
    pub(crate) fn broken(blobs: &[Value]) -> Content {
        Content::new(content(blobs).0.index, Box::new(Counted::default()))
    }
}
