//! `cvo bundle print`, which a container with the image of a bundle runs.

use crate::cli::exit::Exit;
use crate::cli::output;
use crate::olm::bundle::printed;
use crate::olm::net::bundle::of_root;
use std::path::Path;

/// Says what the bundle in this root of an image is made of, for the process that reads the log of the container.
pub(super) fn run(root: &Path) -> anyhow::Result<Exit> {
    output::print(&printed::print(&of_root(root)?)?)?;
    Ok(Exit::Success)
}
