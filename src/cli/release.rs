//! `cvo release`: tools for those who build releases.

pub mod sign;
