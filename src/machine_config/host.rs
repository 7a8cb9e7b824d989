//! The files of a node. Everything happens below a folder that is the root of the node's file system, wherever that is
//! mounted; symbolic links on the way are followed as a process of the node would follow them.

pub(crate) mod check;
pub(crate) mod commands;
pub(crate) mod files;
pub(crate) mod kubelet;
pub(crate) mod machine;
pub(crate) mod preflight;
pub(crate) mod record;
pub(crate) mod root;
pub(crate) mod system;
#[cfg(test)]
pub(crate) mod tree;
pub(crate) mod undo;
