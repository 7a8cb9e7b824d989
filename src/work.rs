//! The work loops.

pub mod payload_dir;
