//! Everything that talks to the API server: clients, the kinds it serves, reads and writes, the object index, applying
//! objects, the lease.

pub(crate) mod access;
pub(crate) mod apply;
pub(crate) mod backoff;
pub(crate) mod client;
pub(crate) mod dated;
pub(crate) mod each;
pub(crate) mod error;
pub(crate) mod feed;
pub(crate) mod feeds;
pub(crate) mod followed;
pub(crate) mod index;
pub(crate) mod kinds;
pub(crate) mod lease;
pub(crate) mod list;
pub(crate) mod named;
pub(crate) mod objects;
pub(crate) mod partial_object;
pub(crate) mod requests;
pub(crate) mod revision;
pub(crate) mod task;
pub(crate) mod watcher;
pub(crate) mod writer;

pub(crate) use backoff::{WatchBackoff, jittered, scattered, with_jitter};
pub(crate) use client::{ClientError, Clients};
pub(crate) use dated::dated;
pub(crate) use error::{ApiError, Cause};
pub(crate) use index::{CachedState, Index};
pub(crate) use kinds::{Kind, Kinds};
pub(crate) use objects::{Objects, Warnings};
