//! A cluster's place on the machine: its folder, its slot with ports and networks, its processes' files.

use std::{
    fs,
    net::{Ipv4Addr, TcpListener},
    path::{Path, PathBuf},
    time::Duration,
};

use serde::{Deserialize, Serialize};

use super::{
    error::{HarnessError, Result},
    files,
    process::{self, Identity, Launch},
    toolbox::Toolbox,
};

/// Number of slots. Their ports are below the range from which the kernel assigns ports (32768 and up).
pub(super) const SLOTS: u16 = 200;
const FIRST_PORT: u16 = 21000;
const PORTS_PER_SLOT: u16 = 16;

/// The file in the folder that says what the cluster is.
const RECORD: &str = "cluster.json";

/// Whose end means that the cluster is to be removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Owner {
    /// It runs until `hack/cluster down`.
    Nobody,
    Process(Identity),
}

/// What [`RECORD`] says.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Record {
    id: String,
    slot: u16,
    owner: Owner,
}

/// What `run/<name>.json` says.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Started {
    identity: Identity,
    launch: Launch,
}

/// Ports on loopback.
#[derive(Debug, Clone, Copy)]
pub struct Ports {
    pub apiserver: u16,
    pub etcd: u16,
    pub etcd_peer: u16,
    pub controller_manager: u16,
    pub scheduler: u16,
    pub registry: u16,
    pub kubelet_health: u16,
    pub kwok: u16,
}

/// A cluster's place.
#[derive(Debug, Clone)]
pub struct Site {
    root: PathBuf,
    record: Record,
    tools: Toolbox,
}

/// `${TMPDIR:-/tmp}/cvo-lab`, made when missing.
pub(super) fn root() -> Result<PathBuf> {
    let root = std::env::temp_dir().join("cvo-lab");
    files::make_dir(&root)?;
    Ok(root)
}

impl Site {
    /// A cluster of this process. Nothing is written yet: see `make`.
    pub fn new(id: String, slot: u16, tools: Toolbox) -> Result<Self> {
        let owner = Identity::own().map_or(Owner::Nobody, Owner::Process);
        Ok(Self { root: root()?, record: Record { id, slot, owner }, tools })
    }

    /// Makes the folder, by which others see that the slot and the name are taken.
    pub fn make(&self) -> Result<()> {
        files::make_dir(&self.dir().join("run"))?;
        files::make_dir(&self.dir().join("logs"))?;
        self.write_record()
    }

    /// An existing cluster.
    pub fn open(id: &str) -> Result<Self> {
        check_name(id)?;
        if !root()?.join(id).join(RECORD).exists() {
            return Err(HarnessError::Unknown(id.to_owned()));
        }
        Self::read(id, Toolbox::find()?)
    }

    /// What the folder of that name says.
    pub fn read(id: &str, tools: Toolbox) -> Result<Self> {
        let root = root()?;
        Ok(Self { record: files::read_json(&root.join(id).join(RECORD))?, root, tools })
    }

    /// Ids of all folders that hold a cluster, in order.
    pub fn list() -> Result<Vec<String>> {
        let root = root()?;
        let entries = fs::read_dir(&root).map_err(|error| HarnessError::Io(root.clone(), error))?;
        let mut ids: Vec<String> = entries
            .flatten()
            .filter(|entry| entry.path().join(RECORD).exists())
            .filter_map(|entry| entry.file_name().into_string().ok())
            .collect();
        ids.sort();
        Ok(ids)
    }

    pub fn set_owner(&mut self, owner: Owner) -> Result<()> {
        self.record.owner = owner;
        self.write_record()
    }

    pub fn owner(&self) -> &Owner {
        &self.record.owner
    }

    pub fn slot(&self) -> u16 {
        self.record.slot
    }

    fn write_record(&self) -> Result<()> {
        files::write_json(&self.dir().join(RECORD), &self.record)
    }

    pub fn id(&self) -> &str {
        &self.record.id
    }

    pub fn tools(&self) -> &Toolbox {
        &self.tools
    }

    pub fn dir(&self) -> PathBuf {
        self.root.join(&self.record.id)
    }

    /// Sockets and containerd's state: the path of a socket may have at most 108 bytes.
    pub fn run_dir(&self) -> PathBuf {
        Path::new("/run/cvo-lab").join(self.id())
    }

    pub fn pki(&self, name: &str) -> PathBuf {
        self.dir().join("pki").join(name)
    }

    pub fn admin_kubeconfig(&self) -> PathBuf {
        self.dir().join("kubeconfig")
    }

    pub fn audit_log(&self) -> PathBuf {
        self.dir().join("audit.log")
    }

    pub fn log(&self, process: &str) -> PathBuf {
        self.dir().join("logs").join(format!("{process}.log"))
    }

    pub fn server(&self) -> String {
        format!("https://127.0.0.1:{}", self.ports().apiserver)
    }

    pub fn ports(&self) -> Ports {
        ports(self.record.slot)
    }

    /// One of the second half of the slot's ports.
    pub fn spare_port(&self, number: u16) -> u16 {
        self.ports().apiserver + PORTS_PER_SLOT / 2 + number.min(PORTS_PER_SLOT / 2 - 1)
    }

    pub fn node_name(&self) -> String {
        format!("node-{}", self.id())
    }

    /// Device name of the pods' bridge. It may have at most 15 bytes, so it contains the slot and not the id.
    pub fn bridge(&self) -> String {
        format!("cvolab{}", self.record.slot)
    }

    /// Address of the service `kubernetes.default`, the first of the service network.
    pub fn service_address(&self) -> Ipv4Addr {
        Ipv4Addr::new(10, 213, self.slot_octet(), 1)
    }

    pub fn service_network(&self) -> String {
        format!("10.213.{}.0/24", self.slot_octet())
    }

    /// The node's address, on the pods' bridge.
    pub fn node_address(&self) -> Ipv4Addr {
        Ipv4Addr::new(10, 214, self.slot_octet(), 1)
    }

    pub fn pod_network(&self) -> String {
        format!("10.214.{}.0/24", self.slot_octet())
    }

    fn slot_octet(&self) -> u8 {
        u8::try_from(self.record.slot).unwrap_or(u8::MAX)
    }

    /// The cgroup below which all pods of the node are.
    pub fn cgroup(&self) -> String {
        format!("cvo-lab-{}", self.id())
    }

    /// Starts a process that belongs to the cluster, and records how it was started.
    pub fn spawn(&self, launch: &Launch) -> Result<Identity> {
        let mark = self.dir().display().to_string();
        let identity = process::spawn(launch, &self.dir(), &self.log(&launch.name), &self.tools.path(), &mark)?;
        let started = Started { identity: identity.clone(), launch: launch.clone() };
        files::write_json(&self.started_file(&launch.name), &started)?;
        Ok(identity)
    }

    /// Ends the process of that name, if it runs, and waits for it.
    pub fn stop(&self, name: &str) -> Result<()> {
        match self.started(name) {
            Some(started) => process::end_all(&[started.identity]),
            None => Ok(()),
        }
    }

    /// Asks the process of that name to end (SIGTERM) and waits; returns whether it ended within `limit`.
    pub fn terminate(&self, name: &str, limit: Duration) -> bool {
        self.started(name).is_none_or(|started| {
            started.identity.terminate();
            started.identity.gone_within(limit)
        })
    }

    /// Ends the process of that name and starts it again in the same way.
    pub fn respawn(&self, name: &str) -> Result<Identity> {
        let started = self.started(name).ok_or_else(|| HarnessError::Unknown(format!("{}/{name}", self.id())))?;
        self.stop(name)?;
        self.spawn(&started.launch)
    }

    /// Whether the process of that name was started and still runs.
    pub fn runs(&self, name: &str) -> bool {
        self.started(name).is_some_and(|started| started.identity.alive())
    }

    fn started(&self, name: &str) -> Option<Started> {
        files::read_json(&self.started_file(name)).ok()
    }

    fn started_file(&self, name: &str) -> PathBuf {
        self.dir().join("run").join(format!("{name}.json"))
    }
}

/// A name becomes part of device names, cgroups and paths.
pub(super) fn check_name(name: &str) -> Result<()> {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if name.is_empty() || name.len() > 20 || !name.chars().all(allowed) || name.starts_with('-') {
        return Err(HarnessError::Name(name.to_owned(), "use 1 to 20 lower-case letters, digits and dashes"));
    }
    Ok(())
}

fn ports(slot: u16) -> Ports {
    let base = FIRST_PORT + slot * PORTS_PER_SLOT;
    Ports {
        apiserver: base,
        etcd: base + 1,
        etcd_peer: base + 2,
        controller_manager: base + 3,
        scheduler: base + 4,
        registry: base + 5,
        kubelet_health: base + 6,
        kwok: base + 7,
    }
}

/// Whether no other program listens on the slot's ports (other users' clusters, clusters of another TMPDIR).
pub(super) fn ports_free(slot: u16) -> bool {
    let p = ports(slot);
    [p.apiserver, p.etcd, p.etcd_peer, p.controller_manager, p.scheduler, p.registry, p.kubelet_health, p.kwok]
        .iter()
        .all(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok())
}
