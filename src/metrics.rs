//! The text format of Prometheus, and the figures of a process.

pub(crate) mod encoder;
pub(crate) mod process;
pub(crate) mod summary;
