//! A cluster's place on the machine: its folder, its slot with ports and networks, its processes' files.

use std::{
    fs,
    net::{Ipv4Addr, TcpListener},
    os::unix::fs::{DirBuilderExt, MetadataExt},
    path::{Path, PathBuf},
    time::Duration,
};

use rustix::{
    fs::{Mode, OFlags},
    io::Errno,
    process::geteuid,
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
const PORTS_PER_SLOT: u16 = 32;
/// The first of the slot's ports that the harness does not use itself.
const FIRST_SPARE: u16 = 8;
/// How many follow.
pub(super) const SPARE_PORTS: u16 = PORTS_PER_SLOT - FIRST_SPARE;

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
    #[serde(default)]
    ipv6: bool,
}

/// What `run/<name>.json` says.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Started {
    identity: Identity,
    launch: Launch,
    /// The harness has asked it to end.
    asked: bool,
    /// How many earlier processes of this name ended by themselves.
    ends: usize,
}

impl Started {
    fn ended_by_itself(&self) -> bool {
        !self.asked && !self.identity.alive()
    }

    fn all_ends(&self) -> usize {
        self.ends + usize::from(self.ended_by_itself())
    }
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
    claim_folder(&root)?;
    Ok(root)
}

/// Makes a folder of this user alone when it is missing. Everybody may make one of that name in `/tmp`, and what it contains is
/// believed: which programs to start, which processes to end, which folders to remove, and all of that as root for a node.
fn claim_folder(path: &Path) -> Result<()> {
    let failed = |error| HarnessError::Io(path.to_owned(), error);
    let refused = |why| Err(HarnessError::Foreign(path.to_owned(), why));
    let parent = path.parent().unwrap_or(path);
    files::make_dir(parent)?;
    let above = fs::metadata(parent).map_err(failed)?;
    let (own, sticky) = (geteuid().as_raw(), 0o1000);
    if ![0, own].contains(&above.uid()) || (may_be_written(above.mode()) && above.mode() & sticky == 0) {
        return refused("others may put another one in its place");
    }
    if let Err(error) = fs::DirBuilder::new().mode(0o700).create(path)
        && error.kind() != std::io::ErrorKind::AlreadyExists
    {
        return Err(failed(error));
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folder = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(folder) => folder,
        Err(Errno::LOOP | Errno::NOTDIR) => return refused("it is a link or a file"),
        Err(error) => return Err(failed(error.into())),
    };
    let found = rustix::fs::fstat(&folder).map_err(|error| failed(error.into()))?;
    if found.st_uid != own || may_be_written(found.st_mode) {
        return refused("others own it or may write to it");
    }
    // Earlier versions let everybody read it.
    rustix::fs::fchmod(&folder, Mode::from_raw_mode(0o700)).map_err(|error| failed(error.into()))
}

/// Whether others than the owner may write, by the mode of a folder.
fn may_be_written(mode: u32) -> bool {
    mode & 0o022 != 0
}

impl Site {
    /// A cluster of this process. Nothing is written yet: see `make`.
    pub fn new(id: String, slot: u16, ipv6: bool, tools: Toolbox) -> Result<Self> {
        let owner = Identity::own().map_or(Owner::Nobody, Owner::Process);
        Ok(Self { root: root()?, record: Record { id, slot, owner, ipv6 }, tools })
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

    /// The logs of all processes, and of the containers that kubelet has not removed.
    pub fn logs(&self) -> Vec<PathBuf> {
        let inside = |folder: PathBuf| fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
        let containers = inside(self.dir().join("pods")).flat_map(inside).flat_map(inside);
        inside(self.dir().join("logs")).chain(containers).collect()
    }

    pub fn server(&self) -> String {
        self.server_at(self.ports().apiserver)
    }

    /// The URL of an API server that listens on this port.
    pub fn server_at(&self, port: u16) -> String {
        let host = if self.record.ipv6 { "[::1]" } else { "127.0.0.1" };
        format!("https://{host}:{port}")
    }

    /// Where etcd serves the API server.
    pub fn etcd(&self) -> String {
        format!("https://127.0.0.1:{}", self.ports().etcd)
    }

    /// Where it serves HTTP. With TLS, one port for both has gRPC served by way of the HTTP server, which is slower.
    pub fn etcd_http(&self) -> String {
        format!("https://127.0.0.2:{}", self.ports().etcd)
    }

    /// Where the API server listens, and the address that it advertises, at which nobody listens.
    pub fn server_addresses(&self) -> (&'static str, String) {
        if self.record.ipv6 {
            return ("::1", format!("fd00:214:{:x}::1", self.record.slot));
        }
        ("127.0.0.1", self.node_address().to_string())
    }

    pub fn ports(&self) -> Ports {
        ports(self.record.slot)
    }

    /// One of the ports that the harness does not use itself, of which there are [`SPARE_PORTS`].
    pub fn spare_port(&self, number: u16) -> u16 {
        self.ports().apiserver + FIRST_SPARE + number.min(SPARE_PORTS - 1)
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

    /// Where the names of Services are asked for. The API server gives the first addresses of the network to no Service by itself.
    pub fn dns_address(&self) -> Ipv4Addr {
        Ipv4Addr::new(10, 213, self.slot_octet(), 10)
    }

    pub fn service_network(&self) -> String {
        if self.record.ipv6 {
            return format!("fd00:213:{:x}::/112", self.record.slot);
        }
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
        let ends = self.started(&launch.name).map_or(0, |before| before.all_ends());
        let identity = process::spawn(launch, &self.dir(), &self.log(&launch.name), &self.tools.path(), &mark)?;
        let started = Started { identity: identity.clone(), launch: launch.clone(), asked: false, ends };
        files::write_json(&self.started_file(&launch.name), &started)?;
        Ok(identity)
    }

    /// Ends the process of that name, if it runs, and waits for it.
    pub fn stop(&self, name: &str) -> Result<()> {
        match self.asked(name)? {
            Some(identity) => process::end_all(&[identity]),
            None => Ok(()),
        }
    }

    /// Asks the process of that name to end (SIGTERM) and waits; returns whether it ended within `limit`.
    pub async fn terminate(&self, name: &str, limit: Duration) -> Result<bool> {
        let Some(identity) = self.asked(name)? else { return Ok(true) };
        identity.terminate();
        Ok(tokio::time::timeout(limit, identity.ended()).await.is_ok())
    }

    /// The process of that name, if one was started: from now on it does not end by itself.
    fn asked(&self, name: &str) -> Result<Option<Identity>> {
        let Some(mut started) = self.started(name) else { return Ok(None) };
        if !started.asked {
            started.ends = started.all_ends();
            started.asked = true;
            files::write_json(&self.started_file(name), &started)?;
        }
        Ok(Some(started.identity))
    }

    /// Names of processes that ended without being asked to, and how often.
    pub fn ended_by_themselves(&self) -> Vec<(String, usize)> {
        let entries = fs::read_dir(self.dir().join("run")).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().to_str()?.strip_suffix(".json").map(str::to_owned));
        let mut ended: Vec<_> = names
            .filter_map(|name| self.started(&name).map(|started| (name, started.all_ends())))
            .filter(|(_, ends)| *ends > 0)
            .collect();
        ended.sort();
        ended
    }

    /// Ends the process of that name and starts it again in the same way.
    pub fn respawn(&self, name: &str) -> Result<Identity> {
        let launch = self.launch(name)?;
        self.stop(name)?;
        self.spawn(&launch)
    }

    /// How the process of that name was started.
    pub fn launch(&self, name: &str) -> Result<Launch> {
        let started = self.started(name).ok_or_else(|| HarnessError::Unknown(format!("{}/{name}", self.id())))?;
        Ok(started.launch)
    }

    /// Whether the process of that name was started and still runs.
    pub fn runs(&self, name: &str) -> bool {
        self.process(name).is_some()
    }

    /// The process of that name, if it runs.
    pub fn process(&self, name: &str) -> Option<Identity> {
        self.started(name).map(|started| started.identity).filter(Identity::alive)
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
    let first = ports(slot).apiserver;
    (first..first + PORTS_PER_SLOT).all(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    #[test]
    fn folder_that_others_have_made_is_refused() {
        let base = std::env::temp_dir().join(format!("cvo-site-{}", std::process::id()));
        fs::create_dir(&base).unwrap();
        let set = |path: &Path, mode: u32| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        let place = base.join("lab");
        for again in [false, true] {
            claim_folder(&place).unwrap_or_else(|error| panic!("{again}: {error}"));
        }
        assert_eq!(place.metadata().unwrap().permissions().mode() & 0o777, 0o700);
        let said = |path: &Path| claim_folder(path).unwrap_err().to_string();
        set(&place, 0o777);
        assert!(said(&place).contains("may write to it"), "{}", said(&place));
        set(&place, 0o700);
        let link = base.join("link");
        symlink(&place, &link).unwrap();
        assert!(said(&link).contains("it is a link"), "{}", said(&link));
        if geteuid().is_root() {
            chown(&place, Some(65534), None).unwrap();
            assert!(said(&place).contains("others own it"), "{}", said(&place));
            chown(&place, Some(0), None).unwrap();
        }
        set(&base, 0o777);
        assert!(said(&place).contains("another one in its place"), "{}", said(&place));
        set(&base, 0o1777);
        claim_folder(&place).unwrap();
        fs::remove_dir_all(base).unwrap();
    }
}
