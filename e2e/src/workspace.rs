//! Where this repository and its data are.

use std::env;
use std::path::{Path, PathBuf};

/// The folder of the workspace, in which `e2e/` is.
pub fn root() -> &'static Path {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.parent().unwrap_or(own)
}

/// `CVO_SHARED_DATA`, or `shared/data` beside the workspace: real releases and update graphs. It may be missing.
pub fn shared_data() -> PathBuf {
    env::var_os("CVO_SHARED_DATA").map_or_else(|| root().join("../shared/data"), PathBuf::from)
}
