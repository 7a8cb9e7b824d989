//! The two programs of the workspace that tests run. Cargo tells a test only where the programs of its own package are,
//! so they are looked up beside the running program.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use super::error::{HarnessError, Result};

/// Both programs, built.
#[derive(Debug, Clone)]
pub struct Programs {
    pub cvo: PathBuf,
    pub lab: PathBuf,
}

impl Programs {
    pub fn find() -> Result<Self> {
        Ok(Self { cvo: cvo()?, lab: lab()? })
    }
}

pub fn cvo() -> Result<PathBuf> {
    find("cvo")
}

pub fn lab() -> Result<PathBuf> {
    find("lab")
}

fn find(name: &str) -> Result<PathBuf> {
    let running = env::current_exe().map_err(|error| HarnessError::Io("/proc/self/exe".into(), error))?;
    // Tests are in the folder `deps` below the programs.
    let folder = running.ancestors().skip(1).find(|folder| !folder.ends_with("deps"));
    let program = folder.unwrap_or(Path::new("/")).join(name);
    if !program.exists() {
        return Err(HarnessError::NotBuilt(program, "missing".to_owned()));
    }
    match changed_source(&program, &running) {
        Some(source) => Err(HarnessError::NotBuilt(program, format!("older than {}", source.display()))),
        None => Ok(program),
    }
}

/// A source file that changed after the program was built but before the running test was, so that the two do not
/// belong together. Cargo writes the list of a program's sources beside it.
fn changed_source(program: &Path, running: &Path) -> Option<PathBuf> {
    let modified = |path: &Path| fs::metadata(path).and_then(|metadata| metadata.modified()).ok();
    let (built, running) = (modified(program)?, modified(running)?);
    let list = fs::read_to_string(program.with_extension("d")).ok()?;
    let sources = list.split_once(": ")?.1.split_whitespace().map(PathBuf::from);
    sources.into_iter().find(|source| modified(source).is_some_and(|at| built < at && at < running))
}
