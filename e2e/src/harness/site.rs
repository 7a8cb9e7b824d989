//! A cluster's place on the machine: its folder, its slot with ports and networks, its processes' files.

use std::{
    fs::{self, File},
    net::{Ipv4Addr, TcpListener},
    path::{Path, PathBuf},
    time::Duration,
};

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use super::{
    Options,
    error::{HarnessError, Result},
    files,
    process::{self, Identity, Launch},
    teardown,
    toolbox::Toolbox,
};

/// Slots; each has 16 ports below the range that the kernel hands out by itself (32768 and up).
const SLOTS: u16 = 200;
const FIRST_PORT: u16 = 21000;
const PORTS_PER_SLOT: u16 = 16;

/// Whose death means that the cluster is to be removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Owner {
    /// It stays until somebody ends it.
    Nobody,
    Process(Identity),
}

/// What `cluster.json` in the folder says.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Record {
    id: String,
    slot: u16,
    owner: Owner,
    node: bool,
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

/// See the top of the file.
#[derive(Debug, Clone)]
pub struct Site {
    root: PathBuf,
    record: Record,
    tools: Toolbox,
}

/// `${TMPDIR:-/tmp}/cvo-lab`, made when missing.
pub fn root() -> Result<PathBuf> {
    let root = std::env::temp_dir().join("cvo-lab");
    files::make_dir(&root)?;
    Ok(root)
}

impl Site {
    /// Removes what killed predecessors left, then takes a free slot and makes the folder. Blocks.
    pub fn claim(options: &Options, tools: Toolbox) -> Result<Self> {
        let root = root()?;
        let _lock = lock(&root)?;
        let (_, taken) = sweep(&root, &tools)?;
        if let Some(name) = &options.name {
            check_name(name)?;
            if taken.iter().any(|record| record.id == *name) {
                return Err(HarnessError::Name(name.clone(), "there is one of that name; `hack/cluster down` ends it"));
            }
        }
        let free = |slot: &u16| taken.iter().all(|record| record.slot != *slot) && ports_free(*slot);
        let slot = (0..SLOTS).find(free).ok_or(HarnessError::Slots(SLOTS))?;
        let owner = Identity::own().map_or(Owner::Nobody, Owner::Process);
        let id = options.name.clone().unwrap_or_else(|| format!("lab{slot}"));
        let site = Self { root, record: Record { id, slot, owner, node: options.node }, tools };
        // A removal that was killed half-way may have left things under this id after the record was gone.
        teardown::remove(&site)?;
        files::make_dir(&site.dir().join("run"))?;
        files::make_dir(&site.dir().join("logs"))?;
        site.write_record()?;
        Ok(site)
    }

    /// Removes what killed predecessors left, and returns their ids. Blocks.
    pub fn sweep(tools: &Toolbox) -> Result<Vec<String>> {
        let root = root()?;
        let _lock = lock(&root)?;
        sweep(&root, tools).map(|(removed, _)| removed)
    }

    /// An existing cluster.
    pub fn open(id: &str) -> Result<Self> {
        let root = root()?;
        check_name(id)?;
        if !root.join(id).join("cluster.json").exists() {
            return Err(HarnessError::Unknown(id.to_owned()));
        }
        Ok(Self { record: read_record(&root, id)?, root, tools: Toolbox::find()? })
    }

    /// Ids of all folders that hold a cluster, in order.
    pub fn list() -> Result<Vec<String>> {
        let root = root()?;
        let entries = fs::read_dir(&root).map_err(|error| HarnessError::Io(root.clone(), error))?;
        let mut ids: Vec<String> = entries
            .flatten()
            .filter(|entry| entry.path().join("cluster.json").exists())
            .filter_map(|entry| entry.file_name().into_string().ok())
            .collect();
        ids.sort();
        Ok(ids)
    }

    pub fn set_owner(&mut self, owner: Owner) -> Result<()> {
        self.record.owner = owner;
        self.write_record()
    }

    fn write_record(&self) -> Result<()> {
        files::write_json(&self.dir().join("cluster.json"), &self.record)
    }

    pub fn id(&self) -> &str {
        &self.record.id
    }

    pub fn tools(&self) -> &Toolbox {
        &self.tools
    }

    pub fn has_node(&self) -> bool {
        self.record.node
    }

    pub fn dir(&self) -> PathBuf {
        self.root.join(&self.record.id)
    }

    /// Sockets and containerd's state: the path of a socket may have 108 bytes only.
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

    /// The second half of the slot's ports.
    pub fn spare_port(&self, number: u16) -> u16 {
        self.ports().apiserver + PORTS_PER_SLOT / 2 + number.min(PORTS_PER_SLOT / 2 - 1)
    }

    pub fn node_name(&self) -> String {
        format!("node-{}", self.id())
    }

    /// Device name of the pods' bridge (15 bytes at most, so the slot and not the id).
    pub fn bridge(&self) -> String {
        format!("cvolab{}", self.record.slot)
    }

    /// Address of `kubernetes.default`, first of the service network.
    pub fn service_address(&self) -> Ipv4Addr {
        Ipv4Addr::new(10, 213, self.slot_octet(), 1)
    }

    pub fn service_network(&self) -> String {
        format!("10.213.{}.0/24", self.slot_octet())
    }

    /// The node's own address, on the pods' bridge.
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

    /// Starts a process that belongs to the cluster and remembers how.
    pub fn spawn(&self, launch: &Launch) -> Result<Identity> {
        let mark = self.dir().display().to_string();
        let identity = process::spawn(launch, &self.dir(), &self.log(&launch.name), &self.tools.path(), &mark)?;
        let started = Started { identity: identity.clone(), launch: launch.clone() };
        files::write_json(&self.started_file(&launch.name), &started)?;
        Ok(identity)
    }

    /// Ends the process of that name, if it runs, and waits until it is gone.
    pub fn stop(&self, name: &str) -> Result<()> {
        match self.started(name) {
            Some(started) => process::end_all(&[started.identity], teardown::LIMIT),
            None => Ok(()),
        }
    }

    /// Asks the process of that name to end (SIGTERM) and waits; whether it was gone within `limit`.
    pub fn terminate(&self, name: &str, limit: Duration) -> bool {
        self.started(name).is_none_or(|started| {
            started.identity.terminate();
            started.identity.gone_within(limit)
        })
    }

    /// Ends the process of that name and starts it again as it was started.
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

fn read_record(root: &Path, id: &str) -> Result<Record> {
    files::read_json(&root.join(id).join("cluster.json"))
}

/// Removes clusters whose owner was killed; their ids, and the records of all others. The caller holds the lock.
fn sweep(root: &Path, tools: &Toolbox) -> Result<(Vec<String>, Vec<Record>)> {
    let (mut removed, mut taken) = (Vec::new(), Vec::new());
    for id in Site::list()? {
        // One that is being ended right now loses its record at some moment.
        let Ok(record) = read_record(root, &id) else { continue };
        let site = Site { record, root: root.to_owned(), tools: tools.clone() };
        match &site.record.owner {
            Owner::Process(owner) if !owner.alive() => {
                teardown::remove(&site)?;
                removed.push(id);
            }
            _ => taken.push(site.record),
        }
    }
    Ok((removed, taken))
}

/// One claim at a time on this machine; released when the file is closed.
fn lock(root: &Path) -> Result<File> {
    let path = root.join(".lock");
    let failed = |error| HarnessError::Io(path.clone(), error);
    let file = File::create(&path).map_err(failed)?;
    flock(&file, FlockOperation::LockExclusive).map_err(|error| failed(error.into()))?;
    Ok(file)
}

/// Names become parts of device names, cgroups and paths.
fn check_name(name: &str) -> Result<()> {
    let fit = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if name.is_empty() || name.len() > 20 || !name.chars().all(fit) || name.starts_with('-') {
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

/// Whether no other program listens in the slot (other users' clusters, clusters of another TMPDIR).
fn ports_free(slot: u16) -> bool {
    let p = ports(slot);
    [p.apiserver, p.etcd, p.etcd_peer, p.controller_manager, p.scheduler, p.registry, p.kubelet_health, p.kwok]
        .iter()
        .all(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok())
}
