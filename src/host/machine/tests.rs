use super::*;
use crate::host::commands::recorded::Recorded;
use crate::host::root::faults::Fault;
use crate::host::system::simulated::Host;
use crate::pools::agent::{Action as Step, AgentFacts, Plan, decide};
use crate::pools::disruption::{Policies, disruption};
use crate::pools::drain::Request;
use crate::pools::node::NodeState;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;

mod full;
mod systems;

/// Every file, link and folder with its mode and content.
type Tree = BTreeMap<String, (u32, Vec<u8>)>;

/// A node: its disk and its service manager outlive the process of the agent.
struct Node {
    dir: TempDir,
    services: Arc<Recorded>,
    /// Instead of a plain operating system.
    host: Option<(Arc<Host>, System)>,
    boot: u32,
    configs: BTreeMap<String, MachineConfig>,
    desired: String,
    current: String,
    reboots: usize,
    /// What the agent asked for last, always granted.
    asked: Option<Request>,
    drains: usize,
    /// The files, and the image that a restart would boot, when the agent asked for the last drain.
    at_drain: Option<(Tree, String)>,
    told: Vec<String>,
}

/// What a process knows and the next one does not.
struct Process {
    check: Check,
    staged: Option<Target>,
    state: NodeState,
}

/// The steps that touch the disk.
async fn change(
    machine: &Machine,
    step: Step,
    facts: &AgentFacts,
    disk: &Disk,
    planned: Option<Planned>,
    Process { check, staged, .. }: &mut Process,
) -> Result<(), MachineError> {
    let give_up = |to: &Target, cause: &str| machine.give_up(to, cause, &facts.boot, Timestamp::UNIX_EPOCH);
    match step {
        Step::RecordFirst => machine.record_first(&record::unconfigured(), None)?,
        Step::Check => *check = machine.check(disk).await,
        Step::Apply => {
            let planned = planned.unwrap();
            *check = Check::Outdated;
            *staged = None;
            if let Err(error) = machine.apply(&planned, &facts.boot).await {
                give_up(&planned.to, &error.to_string())?;
            }
        }
        Step::RunActions => match machine.run_actions(disk).await {
            Ok(()) => *check = machine.check(disk).await,
            Err(error) => give_up(&facts.desired, &error.to_string())?,
        },
        Step::GiveUp(cause) => give_up(&disk.update.as_ref().unwrap().journal.to, &cause)?,
        Step::RollBack => {
            machine.roll_back(disk, &facts.boot).await?;
            *check = Check::Outdated;
        }
        Step::Forget => machine.forget()?,
        Step::Commit => machine.commit(disk)?,
        other => panic!("{other:?}: {facts:?}"),
    }
    Ok(())
}

fn file(path: &str, content: &str, mode: u32) -> Value {
    json!({"path": path, "mode": mode, "overwrite": true, "contents": {"source": format!("data:,{content}")}})
}

fn machine_config(name: &str, files: &[Value], units: &[Value]) -> MachineConfig {
    let config = json!({
        "ignition": {"version": "3.5.0"}, "storage": {"files": files}, "systemd": {"units": units},
    });
    MachineConfig::new(name, MachineConfigSpec { config, ..MachineConfigSpec::default() })
}

/// All of them except for what the agent keeps for itself.
fn tree(root: &Path) -> Tree {
    let mut found = BTreeMap::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(root).unwrap().display().to_string();
            if name == "etc/machine-config-daemon" {
                continue;
            }
            let meta = fs::symlink_metadata(&path).unwrap();
            let content = match () {
                () if meta.is_symlink() => fs::read_link(&path).unwrap().display().to_string().into_bytes(),
                () if meta.is_dir() => Vec::new(),
                () => fs::read(&path).unwrap(),
            };
            if meta.is_dir() {
                folders.push(path);
            }
            found.insert(name, (meta.permissions().mode(), content));
        }
    }
    found
}

impl Node {
    fn new() -> Node {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("etc")).unwrap();
        fs::create_dir_all(dir.path().join("usr/bin")).unwrap();
        for program in ["systemctl", "systemd-run"] {
            fs::write(dir.path().join("usr/bin").join(program), "").unwrap();
        }
        Node {
            dir,
            services: Arc::default(),
            host: None,
            boot: 1,
            configs: BTreeMap::new(),
            desired: String::new(),
            current: String::new(),
            reboots: 0,
            asked: None,
            drains: 0,
            at_drain: None,
            told: Vec::new(),
        }
    }

    /// With deployments, of which the booted one is of this image.
    fn with_system(system: System, image: &str) -> Node {
        let host = Host::new(image);
        let node = Node { services: host.recorded.clone(), host: Some((host, system)), ..Node::new() };
        for program in ["rpm-ostree", "bootc", "ostree", "podman"] {
            node.put(&format!("/usr/bin/{program}"), "", 0o755);
        }
        node
    }

    fn host(&self) -> &Arc<Host> {
        &self.host.as_ref().unwrap().0
    }

    fn add(&mut self, config: MachineConfig) {
        self.configs.insert(record::name(&config).to_owned(), config);
    }

    fn machine(&self) -> Machine {
        let root = Root::open(self.dir.path()).unwrap();
        match &self.host {
            Some((host, system)) => Machine { root, commands: host.commands(), system: *system },
            None => Machine { root, commands: self.services.commands(), system: System::Plain },
        }
    }

    fn put(&self, path: &str, content: &str, mode: u32) {
        let path = self.dir.path().join(path.trim_start_matches('/'));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    }

    fn read(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.dir.path().join(path.trim_start_matches('/'))).ok()
    }

    fn tree(&self) -> Tree {
        tree(self.dir.path())
    }

    fn disk(&self) -> Disk {
        Disk::read(&Root::open(self.dir.path()).unwrap()).unwrap()
    }

    fn planned(&self, machine: &Machine, disk: &Disk) -> Planned {
        let next = self.configs[&self.desired].clone();
        let forced = record::is_forced(&machine.root);
        let changes = all_changes(&disk.record.as_ref().unwrap().config.spec, &next.spec, forced).unwrap();
        let policies = Policies::default();
        let disruption = disruption(&changes, &policies, forced);
        Planned {
            to: Target::new(&self.desired),
            next,
            changes,
            drains: disruption.drains,
            reboots: disruption.reboots,
            actions: disruption.actions,
            forced,
        }
    }

    fn facts(&self, machine: &Machine, disk: &Disk, process: &Process, planned: Option<&Planned>) -> AgentFacts {
        let change = |planned: &Planned| Plan::Change { drains: planned.drains, reboots: planned.reboots };
        AgentFacts {
            desired: Target::new(&self.desired),
            current: Target::new(&self.current),
            state: process.state,
            reason: self.told.last().cloned().unwrap_or_default(),
            asked: self.asked.clone(),
            answered: true,
            unschedulable: matches!(self.asked, Some(Request::Drain(_))),
            pods: Some(0),
            record: disk.record.as_ref().map(|record| record.target.clone()),
            journal: disk.update.as_ref().map(|update| update.journal.clone()),
            boot: self.boot.to_string(),
            plan: planned.map_or(Plan::Unknown, change),
            check: process.check.clone(),
            staged: process.staged.clone(),
            failure: disk.failure.clone(),
            single_node: false,
            forced: record::is_forced(&machine.root),
        }
    }

    /// One life of a process: until nothing is left to do, it dies, or the attempt is put off.
    async fn live(&mut self, machine: &Machine) -> Result<(), MachineError> {
        let mut process = Process { check: Check::Outdated, staged: None, state: NodeState::Working };
        for _ in 0..60 {
            let disk = Disk::read(&machine.root)?;
            let has_plan = disk.record.is_some() && self.configs.contains_key(&self.desired);
            let planned = has_plan.then(|| self.planned(machine, &disk));
            let facts = self.facts(machine, &disk, &process, planned.as_ref());
            match decide(&facts, Timestamp::UNIX_EPOCH) {
                Step::Tell(state, reason) => {
                    process.state = state;
                    self.current = disk.record.unwrap().target.config;
                    self.told.push(reason);
                }
                Step::Stage => match machine.stage(&planned.unwrap()).await {
                    Ok(()) => process.staged = Some(facts.desired),
                    Err(error) => {
                        machine.give_up(&facts.desired, &error.to_string(), &facts.boot, Timestamp::UNIX_EPOCH)?;
                    }
                },
                Step::Ask(request) => {
                    if let (Request::Drain(_), Some((host, _))) = (&request, &self.host) {
                        self.at_drain = Some((self.tree(), host.next_boot().image));
                    }
                    self.drains += usize::from(matches!(request, Request::Drain(_)));
                    self.asked = Some(request);
                }
                // The process ends with the node.
                Step::Reboot => {
                    machine.commands.reboot("an update").await?;
                    if let Some((host, _)) = &self.host {
                        host.restart();
                    }
                    (self.boot, self.reboots) = (self.boot + 1, self.reboots + 1);
                    (process.check, process.staged) = (Check::Outdated, None);
                }
                Step::TellDone => {
                    self.current = disk.record.unwrap().target.config;
                    process.state = NodeState::Done;
                    self.told.push(String::new());
                }
                Step::Rest | Step::Wait { .. } => return Ok(()),
                step => change(machine, step, &facts, &disk, planned, &mut process).await?,
            }
        }
        panic!("the agent does not come to rest: {:?}", self.told)
    }

    /// Gets to a configuration without any fault.
    async fn reach(&mut self, name: &str) {
        self.desired = name.to_owned();
        let machine = self.machine();
        self.live(&machine).await.unwrap();
        assert_eq!((self.disk().record.unwrap().target.config, self.current.as_str()), (name.to_owned(), name));
    }

    /// The next attempt is due.
    fn forget_failure(&self) {
        record::put_failure(&self.machine().root, None).unwrap();
    }
}

const MOTD: &str = "/etc/motd";
const POLICY: &str = "/etc/containers/policy.json";

/// Two configurations that differ in files, modes, units and drop-ins, on a node that has had files before.
fn node() -> Node {
    let mut node = Node::new();
    node.put(MOTD, "of the operating system", 0o640);
    node.put("/etc/systemd/system/old.service.d/keep.conf", "mine", 0o644);
    node.add(machine_config(
        "a",
        &[file("/etc/a/one", "1", 0o644), file("/etc/a/two", "2", 0o600), file("/etc/gone", "x", 0o644)],
        &[json!({"name": "old.service", "enabled": true, "contents": "[Unit]\n", "dropins": [{"name": "d.conf", "contents": "d"}]})],
    ));
    node.add(machine_config(
        "b",
        &[file("/etc/a/one", "changed", 0o600), file("/etc/new/deep/file", "n", 0o755), file(MOTD, "ours", 0o644)],
        &[
            json!({"name": "new.service", "enabled": true, "contents": "[Service]\n"}),
            json!({"name": "masked.service", "mask": true}),
        ],
    ));
    node
}

#[tokio::test]
async fn first_record_says_that_nothing_was_applied() {
    let mut node = node();
    let before = node.tree();
    let machine = node.machine();
    node.live(&machine).await.unwrap();
    assert_eq!(node.current, "unconfigured");
    assert_eq!(node.tree(), before, "nothing is written before anything is desired");
}

#[tokio::test]
async fn update_with_a_restart_writes_files_units_and_links() {
    let mut node = node();
    node.reach("a").await;
    node.services.take();
    node.reach("b").await;
    assert_eq!(node.reboots, 2);
    assert_eq!(node.read("/etc/a/one").as_deref(), Some("changed"));
    assert_eq!(node.read(MOTD).as_deref(), Some("ours"));
    assert_eq!([node.read("/etc/a/two"), node.read("/etc/gone")], [None, None]);
    assert_eq!(node.read("/etc/systemd/system/new.service").as_deref(), Some("[Service]\n"));
    assert_eq!(node.read("/etc/systemd/system/old.service.d/d.conf"), None);
    assert_eq!(node.read("/etc/systemd/system/old.service.d/keep.conf").as_deref(), Some("mine"));
    let masked = fs::read_link(node.dir.path().join("etc/systemd/system/masked.service")).unwrap();
    assert_eq!(masked, Path::new("/dev/null"));
    let mode = fs::metadata(node.dir.path().join("etc/new/deep/file")).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o755);
    let calls = node.services.take();
    assert!(calls.contains(&"systemctl enable new.service".to_owned()), "{calls:?}");
    assert!(calls.contains(&"systemctl disable old.service".to_owned()), "{calls:?}");
}

#[tokio::test]
async fn what_was_there_before_comes_back_when_no_configuration_has_it() {
    let mut node = node();
    node.reach("a").await;
    node.reach("b").await;
    node.reach("a").await;
    assert_eq!(node.read(MOTD).as_deref(), Some("of the operating system"));
    let mode = fs::metadata(node.dir.path().join("etc/motd")).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o640);
    assert_eq!(node.read("/etc/new/deep/file"), None);
    let kept = ["orig/etc/motd.mcdorig", "noorig/etc/new/deep/file.mcdnoorig"];
    let kept = kept.map(|path| node.read(&format!("/etc/machine-config-daemon/{path}")));
    assert_eq!(kept, [None, None]);
}

/// Every write of an update fails in turn, on a node that starts at `a` and is told `b`.
#[tokio::test]
async fn failing_write_restores_the_tree_and_the_next_attempt_needs_no_second_drain() {
    let mut faults = 0;
    for number in 0.. {
        let mut node = node();
        node.reach("a").await;
        let (before, drains) = (node.tree(), node.drains);
        node.desired = "b".to_owned();
        let machine = node.machine();
        machine.root.faults.set(Fault::Once(number));
        // A fault that hits what follows a failure ends the process, which is started again.
        if node.live(&machine).await.is_err() {
            let machine = node.machine();
            node.live(&machine).await.unwrap();
        }
        if machine.root.faults.is_pending() {
            break;
        }
        faults += 1;
        let disk = node.disk();
        assert_eq!(disk.update, None, "write {number}: the journal is gone");
        match disk.record.unwrap().target.config.as_str() {
            "a" => {
                assert_eq!(node.tree(), before, "write {number}");
                assert!(disk.failure.unwrap().cause.contains("No space left"), "write {number}");
                node.forget_failure();
                node.reach("b").await;
                assert_eq!(node.drains, drains + 1, "write {number}: {:?}", node.told);
            }
            // It failed when everything had been written.
            other => assert_eq!(other, "b", "write {number}"),
        }
    }
    assert!(faults > 12, "only {faults} writes");
}

/// The process is killed after each write in turn, and started again.
#[tokio::test]
async fn agent_killed_after_any_write_reaches_the_target() {
    let mut reference = node();
    reference.reach("a").await;
    reference.reach("b").await;
    let mut kills = 0;
    for number in 0.. {
        let mut node = node();
        node.reach("a").await;
        let before = node.tree();
        node.desired = "b".to_owned();
        let machine = node.machine();
        machine.root.faults.set(Fault::Killed(number));
        let ended = node.live(&machine).await;
        if ended.is_ok() {
            break;
        }
        kills += 1;
        let machine = node.machine();
        node.live(&machine).await.unwrap();
        if node.disk().record.unwrap().target.config == "a" {
            assert_eq!(node.tree(), before, "write {number}");
            node.forget_failure();
            node.reach("b").await;
        }
        assert_eq!(node.tree(), reference.tree(), "write {number}");
        assert_eq!(node.disk().update, None, "write {number}");
    }
    assert!(kills > 12, "only {kills} kills");
}

#[tokio::test]
async fn file_with_a_policy_is_followed_by_a_reload_and_neither_drain_nor_restart() {
    let mut node = Node::new();
    node.add(machine_config("a", &[], &[]));
    node.add(machine_config("b", &[file(POLICY, "{}", 0o644)], &[]));
    node.reach("a").await;
    node.services.take();
    node.reach("b").await;
    assert_eq!((node.reboots, node.drains), (0, 0));
    assert_eq!(node.services.take(), ["systemctl reload crio.service"]);
    assert_eq!(node.read(POLICY).as_deref(), Some("{}"));
}

fn registries(mirrors: &str) -> String {
    format!("[[registry]]\nprefix = \"r.example\"\nlocation = \"r.example\"\n{mirrors}")
        .replace('\n', "%0A")
        .replace(' ', "%20")
}

#[tokio::test]
async fn change_of_the_registries_drains_only_if_running_pods_could_pull_other_images() {
    let by_digest = "[[registry.mirror]]\nlocation = \"m.example\"\npull-from-mirror = \"digest-only\"\n";
    let by_tag = "[[registry.mirror]]\nlocation = \"m.example\"\n";
    for (mirrors, drains) in [(by_digest, 0), (by_tag, 1)] {
        let mut node = Node::new();
        let config = |name, mirrors| {
            machine_config(name, &[file("/etc/containers/registries.conf", &registries(mirrors), 0o644)], &[])
        };
        node.add(config("a", ""));
        node.add(config("b", mirrors));
        node.reach("a").await;
        let before = node.drains;
        node.services.take();
        node.reach("b").await;
        assert_eq!((node.drains - before, node.reboots), (drains, 0), "{mirrors}");
        assert_eq!(node.services.take(), ["systemctl reload crio.service"], "{mirrors}");
    }
}

/// Each command of the update fails in turn.
#[tokio::test]
async fn failing_command_restores_the_tree_and_the_next_attempt_needs_no_second_drain() {
    for failing in ["systemctl disable old.service", "systemctl enable new.service"] {
        let mut node = node();
        node.reach("a").await;
        let (before, drains) = (node.tree(), node.drains);
        node.services.answer(failing, 1, "", "Failed to connect to bus\n");
        node.desired = "b".to_owned();
        let machine = node.machine();
        node.live(&machine).await.unwrap();
        assert_eq!((node.tree(), node.disk().update, node.reboots), (before, None, 1), "{failing}");
        let cause = format!("{failing} failed (exit status 1): Failed to connect to bus");
        assert_eq!(node.told.last(), Some(&cause));
        assert_eq!(node.asked, Some(Request::Drain("b".into())), "it stays drained");
        node.services.answers.lock().unwrap().clear();
        node.forget_failure();
        node.reach("b").await;
        assert_eq!(node.drains, drains + 1, "{failing}");
    }
}

#[tokio::test]
async fn service_that_cannot_be_reloaded_brings_the_former_file_back() {
    let mut node = Node::new();
    node.add(machine_config("a", &[file(POLICY, "old", 0o644)], &[]));
    node.add(machine_config("b", &[file(POLICY, "new", 0o644)], &[]));
    node.reach("a").await;
    node.services.answer("systemctl reload crio.service", 1, "", "Job failed.\n");
    node.desired = "b".to_owned();
    let machine = node.machine();
    node.live(&machine).await.unwrap();
    assert_eq!(node.read(POLICY).as_deref(), Some("old"));
    let cause = node.disk().failure.unwrap().cause;
    assert_eq!(cause, "systemctl reload crio.service failed (exit status 1): Job failed.");
    assert_eq!(node.told.last(), Some(&cause));
}

#[tokio::test]
async fn node_that_does_not_become_what_it_was_restarted_for_is_restored_and_not_tried_again() {
    let mut node = node();
    node.reach("a").await;
    let before = node.tree();
    node.desired = "b".to_owned();
    // Somebody else removes it again at each start.
    node.services.answer("systemctl is-enabled new.service", 1, "disabled\n", "");
    let machine = node.machine();
    node.live(&machine).await.unwrap();
    assert_eq!(node.tree(), before);
    let failure = node.disk().failure.unwrap();
    assert!(failure.after_reboot);
    let expected = "the node is not as b: the unit new.service is disabled and should be enabled";
    assert_eq!(failure.cause, expected);
    assert_eq!(node.reboots, 3, "to a, to b, and back");
    assert_eq!(node.disk().record.unwrap().target.config, "a");
}

#[tokio::test]
async fn force_file_writes_everything_anew_with_a_restart_and_is_removed() {
    let mut node = node();
    node.reach("a").await;
    node.put("/etc/a/one", "drifted", 0o644);
    node.put(record::FORCE, "", 0o600);
    node.reach("a").await;
    assert_eq!(node.read("/etc/a/one").as_deref(), Some("1"));
    assert_eq!(node.read(record::FORCE), None);
    assert_eq!(node.reboots, 2);
}

#[tokio::test]
async fn drift_is_told_and_its_repair_found() {
    let mut node = node();
    node.reach("a").await;
    type Damage = fn(&Path);
    let deviations: [(&str, Damage, &str); 6] = [
        ("etc/a/one", |path| fs::write(path, "other").unwrap(), "the content of /etc/a/one differs"),
        ("etc/a/one", |path| fs::remove_file(path).unwrap(), "/etc/a/one is missing"),
        (
            "etc/a/one",
            |path| fs::set_permissions(path, fs::Permissions::from_mode(0o777)).unwrap(),
            "/etc/a/one has the mode 0777 and should have 0644",
        ),
        (
            "etc/a/one",
            |path| {
                fs::remove_file(path).unwrap();
                std::os::unix::fs::symlink("two", path).unwrap();
            },
            "/etc/a/one is a symbolic link",
        ),
        (
            "etc/systemd/system/old.service",
            |path| {
                fs::remove_file(path).unwrap();
                std::os::unix::fs::symlink("/dev/null", path).unwrap();
            },
            "the unit old.service is masked",
        ),
        ("etc/systemd/system/old.service.d/d.conf", |path| fs::write(path, "").unwrap(), "the content of"),
    ];
    for (path, damage, expected) in deviations {
        let (machine, disk) = (node.machine(), node.disk());
        let at = node.dir.path().join(path);
        let (content, before) = (fs::read(&at).unwrap(), machine.fingerprint(&disk));
        damage(&at);
        assert_ne!(machine.fingerprint(&disk), before, "{expected}");
        let Check::Failed(found) = machine.check(&disk).await else { panic!("{expected}") };
        assert!(found.contains(expected) && !found.contains("other"), "{found}");
        let _missing_already = fs::remove_file(&at);
        node.put(path, &String::from_utf8(content).unwrap(), 0o644);
        assert_eq!(machine.check(&disk).await, Check::Passed, "{expected}");
    }
    node.services.set_enabled("old.service", false);
    let Check::Failed(found) = node.machine().check(&node.disk()).await else { panic!("disabled") };
    assert_eq!(found, "the node is not as a: the unit old.service is disabled and should be enabled");
}
