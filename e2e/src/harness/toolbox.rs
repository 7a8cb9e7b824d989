//! Where the programs of a cluster are: the folders that hack/lib/prerequisites.sh fills. Their names contain a hash of
//! what they were made from.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use sha2::{Digest, Sha256};

use super::error::{HarnessError, Result};
use crate::workspace;

/// Set to `oldest`, clusters have the oldest Kubernetes that cvo supports instead of the newest; etcd and kwok are the same.
const KUBERNETES: &str = "CVO_TEST_KUBERNETES";

/// The folders of tools. The one for nodes may be missing where no node is used.
#[derive(Debug, Clone)]
pub struct Toolbox {
    go: PathBuf,
    /// What takes precedence over `go`.
    oldest: Option<PathBuf>,
    node: PathBuf,
    services: PathBuf,
}

impl Toolbox {
    /// Looks in the cache folder; the Go tools must be installed.
    pub fn find() -> Result<Self> {
        let root = workspace::root();
        let cache = cache_dir();
        let go_key = content_key(&[root.join("e2e/tools/go.mod"), root.join("e2e/tools/go.sum")])?;
        let node_key = content_key(&[root.join("hack/lib/node-packages.txt")])?;
        let services_key = content_key(&[root.join("hack/lib/service-packages.txt")])?;
        let oldest = is_oldest_kubernetes().then(|| module(&cache, "oldest")).transpose()?;
        let go = cache.join(format!("tools-{go_key}"));
        let (node, services) = (format!("node-{node_key}"), format!("services-{services_key}"));
        let found = Self { go, oldest, node: cache.join(node), services: cache.join(services) };
        require(&found.go("etcd"))?;
        require(&found.oldest.as_ref().unwrap_or(&found.go).join("kube-apiserver"))?;
        Ok(found)
    }

    /// A program built from e2e/tools.
    pub fn go(&self, name: &str) -> PathBuf {
        let oldest = self.oldest.as_ref().map(|folder| folder.join(name)).filter(|program| program.exists());
        oldest.unwrap_or_else(|| self.go.join(name))
    }

    /// A client that tests use, built from a module of its own.
    pub fn client(&self, name: &str) -> Result<PathBuf> {
        let program = module(&cache_dir(), name)?.join(name);
        require(&program).map(|()| program)
    }

    /// A program from Debian's packages (containerd, ctr, runc, docker-registry).
    pub fn node(&self, name: &str) -> PathBuf {
        self.node.join("bin").join(name)
    }

    /// A server that a cluster uses, from Debian's packages (prometheus, tinyproxy).
    pub fn service(&self, name: &str) -> Result<PathBuf> {
        let program = self.services.join("bin").join(name);
        require(&program).map(|()| program)
    }

    /// The CNI plugins.
    pub fn cni(&self) -> PathBuf {
        self.node.join("cni")
    }

    /// PATH for a cluster's processes: containerd looks up its shim and runc there.
    pub fn path(&self) -> String {
        format!("{}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", self.node.join("bin").display())
    }
}

/// Whether clusters have the oldest Kubernetes that cvo supports.
pub fn is_oldest_kubernetes() -> bool {
    env::var_os(KUBERNETES).is_some_and(|value| value == "oldest")
}

/// An error that says how to install the program when it is missing.
pub(super) fn require(program: &Path) -> Result<()> {
    if program.exists() { Ok(()) } else { Err(HarnessError::Tool(program.to_owned())) }
}

/// `${CVO_CACHE:-${XDG_CACHE_HOME:-~/.cache}/cvo}`, as in hack/lib/prerequisites.sh.
fn cache_dir() -> PathBuf {
    let given = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    given("CVO_CACHE").unwrap_or_else(|| {
        let home = given("HOME").unwrap_or_else(|| PathBuf::from("/root"));
        given("XDG_CACHE_HOME").unwrap_or_else(|| home.join(".cache")).join("cvo")
    })
}

/// Where the tools of another module than e2e/tools are.
fn module(cache: &Path, name: &str) -> Result<PathBuf> {
    let module = workspace::root().join("e2e/tools").join(name);
    let key = content_key(&[module.join("go.mod"), module.join("go.sum")])?;
    Ok(cache.join(format!("tools-{key}")))
}

/// The first 12 hex digits of the SHA-256 of the files' concatenated contents.
fn content_key(files: &[PathBuf]) -> Result<String> {
    let mut hash = Sha256::new();
    for file in files {
        hash.update(fs::read(file).map_err(|error| HarnessError::Io(file.clone(), error))?);
    }
    Ok(hex::encode(hash.finalize()).chars().take(12).collect())
}
