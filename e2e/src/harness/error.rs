//! Errors of test clusters; each message says where, why, and what to do.

use std::{fmt, io, path::PathBuf};

use crate::until::InVain;

/// Short form for the harness.
pub type Result<T> = std::result::Result<T, HarnessError>;

#[derive(thiserror::Error)]
pub enum HarnessError {
    #[error("this machine cannot run the cluster: {0}")]
    Machine(String),
    #[error("{0} is missing: run `hack/cluster install`, which builds or unpacks what clusters need")]
    Tool(PathBuf),
    #[error("{0} is {1}: run `cargo build --workspace --bins` first, with the profile of this program")]
    NotBuilt(PathBuf, String),
    #[error("cluster name {0:?} cannot be used: {1}")]
    Name(String, &'static str),
    #[error("there is no cluster {0:?} (see `hack/cluster list`)")]
    Unknown(String),
    #[error("no free slot: all {0} are taken by clusters or by programs on their ports; end one: `hack/cluster down`")]
    Slots(u16),
    #[error("{0}: {1}")]
    Io(PathBuf, #[source] io::Error),
    #[error("{0} cannot be trusted: {1}; remove it, or set TMPDIR to a folder of your own")]
    Foreign(PathBuf, &'static str),
    #[error("{0}: {1}")]
    State(PathBuf, serde_json::Error),
    #[error("cannot start {0}: {1}")]
    Spawn(String, #[source] io::Error),
    #[error(transparent)]
    InVain(#[from] InVain),
    #[error("nobody asked for it: {0}. The end of its log:\n{1}")]
    Unasked(String, String),
    #[error("{0} failed ({1}): {2}")]
    Command(String, String, String),
    #[error("certificate for {0}: {1}")]
    Certificate(String, String),
    #[error("{0}: {1}")]
    Kubeconfig(PathBuf, String),
    #[error("API server: {0}")]
    Api(#[from] kube::Error),
    #[error("left over after the cluster was ended: {0}")]
    LeftBehind(String),
    #[error("a thread of the harness failed: {0}")]
    Thread(String),
}

/// The same as the message: `unwrap` in a test prints this, and the logs in it should keep their line breaks.
impl fmt::Debug for HarnessError {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, to)
    }
}
