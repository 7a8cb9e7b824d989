//! File-based catalogs: which operators there are. A catalog is a folder of files, each a stream of JSON or YAML objects, its
//! *blobs*. They are read once, in any order, into an [`index::Index`] that is small enough to stay in memory; what is large and
//! seldom asked for goes to a data file beside it.
//!
//! `blobs` splits a stream into documents, `decode` and `record` say what each contains, `collected` keeps it, `validate` judges
//! packages, `assemble` makes the index of those without faults. A fault keeps its own package from being served, and no other.
//! `served` is a catalog that can be asked, `stored` what is decoded of the data beside its index.

pub(crate) mod addition;
pub(crate) mod blobs;
pub(crate) mod builder;
pub(crate) mod channel;
pub(crate) mod decode;
pub(crate) mod diff;
pub(crate) mod fault;
pub(crate) mod fields;
pub(crate) mod index;
pub(crate) mod objects;
pub(crate) mod properties;
pub(crate) mod pull_spec;
pub(crate) mod record;
pub(crate) mod served;
pub(crate) mod stored;
pub(crate) mod text;
pub(crate) mod written;

mod assemble;
mod collected;
mod faults;
mod rows;
mod strings;
mod validate;
