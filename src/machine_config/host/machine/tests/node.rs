//! A node that outlives the processes of its agent, whose commands and faults a test gives.

use super::*;

/// Every file, link and folder with its mode and content.
pub(super) use crate::machine_config::host::tree::Tree;

/// A node: its disk and its service manager outlive the process of the agent.
pub(super) struct Node {
    pub(super) dir: TempDir,
    pub(super) services: Arc<Recorded>,
    /// Instead of a plain operating system.
    pub(super) host: Option<(Arc<Host>, System)>,
    pub(super) boot: u32,
    pub(super) configs: BTreeMap<String, MachineConfig>,
    pub(super) policies: Policies,
    /// A process ends before it changes anything.
    pub(super) withdraws: bool,
    pub(super) desired: String,
    pub(super) current: String,
    pub(super) reboots: usize,
    /// What the agent asked for last, always granted.
    pub(super) asked: Option<Request>,
    pub(super) drains: usize,
    /// The files, and the image that a restart would boot, when the agent asked for the last drain.
    pub(super) at_drain: Option<(Tree, String)>,
    pub(super) told: Vec<String>,
    /// The image that was booted when each of them was told.
    pub(super) told_by: Vec<String>,
    pub(super) now: Timestamp,
    /// What the last checks could not read.
    pub(super) unread: Option<Unread>,
}

/// What a process knows and the next one does not.
pub(super) struct Process {
    pub(super) check: Check,
    pub(super) staged: Option<Target>,
    pub(super) state: NodeState,
}

/// The steps that touch the disk.
pub(super) async fn change(
    machine: &Machine,
    step: Step,
    facts: &AgentFacts,
    disk: &Disk,
    planned: Option<Planned>,
    (Process { check, staged, .. }, unread, now): (&mut Process, &mut Option<Unread>, Timestamp),
) -> Result<(), MachineError> {
    let give_up = |to: &Target, cause: &str| machine.give_up(to, cause, &facts.boot, now);
    let mut looked = |found: Result<Check, String>| match found {
        Ok(check) => check,
        Err(cause) => {
            let again = Unread::again(unread.as_ref(), cause, now);
            *unread = Some(again.clone());
            Check::Unread(again)
        }
    };
    match step {
        Step::RecordFirst => machine.record_first(&record::unconfigured(), None)?,
        Step::DropStaged => {
            *staged = None;
            machine.drop_staged().await?;
        }
        Step::Check => *check = looked(machine.check(disk).await),
        Step::Apply => {
            let planned = planned.unwrap();
            *check = Check::Outdated;
            *staged = None;
            if let Err(error) = machine.apply(&planned, &facts.boot).await {
                give_up(&planned.to, &error.to_string())?;
            }
        }
        Step::RunActions => match machine.run_actions(disk).await {
            Ok(()) => *check = looked(machine.check(disk).await),
            Err(error) => give_up(&facts.desired, &error.to_string())?,
        },
        Step::GiveUp(cause) => give_up(&disk.update.as_ref().unwrap().journal.to, &cause)?,
        Step::RollBack => {
            machine.roll_back(disk, &facts.boot).await?;
            *check = Check::Outdated;
        }
        Step::Forget => machine.forget()?,
        Step::ForgetFailure => machine.forget_failure()?,
        Step::Commit => machine.commit(disk)?,
        other => panic!("{other:?}: {facts:?}"),
    }
    Ok(())
}

pub(super) fn file(path: &str, content: &str, mode: u32) -> Value {
    json!({"path": path, "mode": mode, "overwrite": true, "contents": {"source": format!("data:,{content}")}})
}

pub(super) fn machine_config(name: &str, files: &[Value], units: &[Value]) -> MachineConfig {
    let config = json!({
        "ignition": {"version": "3.5.0"}, "storage": {"files": files}, "systemd": {"units": units},
    });
    MachineConfig::new(name, MachineConfigSpec { config, ..MachineConfigSpec::default() })
}

/// All of them except for what the agent keeps for itself.
pub(super) fn tree(root: &Path) -> Tree {
    crate::machine_config::host::tree::tree(root, |name| name.ends_with("/machine-config-daemon"))
}

impl Node {
    pub(super) fn new() -> Node {
        let dir = tempfile::tempdir().unwrap();
        for folder in ["etc", "usr/bin", "var/lib"] {
            fs::create_dir_all(dir.path().join(folder)).unwrap();
        }
        for program in ["systemctl", "systemd-run"] {
            fs::write(dir.path().join("usr/bin").join(program), "").unwrap();
        }
        Node {
            dir,
            services: Arc::default(),
            host: None,
            boot: 1,
            configs: BTreeMap::new(),
            policies: Policies::default(),
            withdraws: false,
            desired: String::new(),
            current: String::new(),
            reboots: 0,
            asked: None,
            drains: 0,
            at_drain: None,
            told: Vec::new(),
            told_by: Vec::new(),
            now: Timestamp::UNIX_EPOCH,
            unread: None,
        }
    }

    /// With deployments, of which the booted one is of this image.
    pub(super) fn with_system(system: System, image: &str) -> Node {
        let host = Host::new(image);
        let node = Node::new();
        *host.etc.lock().unwrap() = Some(node.dir.path().join("etc"));
        let node = Node { services: host.recorded.clone(), host: Some((host, system)), ..node };
        for program in ["rpm-ostree", "bootc", "ostree", "podman"] {
            node.put(&format!("/usr/bin/{program}"), "", 0o755);
        }
        node
    }

    pub(super) fn host(&self) -> &Arc<Host> {
        &self.host.as_ref().unwrap().0
    }

    pub(super) fn add(&mut self, config: MachineConfig) {
        self.configs.insert(record::name(&config).to_owned(), config);
    }

    pub(super) fn machine(&self) -> Machine {
        let root = Root::open(self.dir.path()).unwrap();
        match &self.host {
            Some((host, system)) => Machine { root, commands: host.commands(), system: *system },
            None => Machine { root, commands: self.services.commands(), system: System::Plain },
        }
    }

    pub(super) fn put(&self, path: &str, content: &str, mode: u32) {
        let path = self.dir.path().join(path.trim_start_matches('/'));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    }

    pub(super) fn read(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.dir.path().join(path.trim_start_matches('/'))).ok()
    }

    pub(super) fn tree(&self) -> Tree {
        tree(self.dir.path())
    }

    pub(super) fn disk(&self) -> Disk {
        Disk::read(&Root::open(self.dir.path()).unwrap()).unwrap()
    }

    pub(super) async fn planned(&self, machine: &Machine, disk: &Disk) -> Planned {
        let next = self.configs[&self.desired].clone();
        let forced = record::is_forced(&machine.root);
        let mut changes = all_changes(&disk.record.as_ref().unwrap().config.spec, &next.spec, forced).unwrap();
        let repairs = match forced {
            true => machine.repairs(&next, &Target::new(&self.desired)).await.unwrap(),
            false => Repairs::default(),
        };
        repairs.add_to(&mut changes, &next.spec);
        let of = |lacking: &BTreeSet<String>| disruption_on(lacking, &changes, &self.policies, forced);
        let planned = |found: Disruption| Planned {
            to: Target::new(&self.desired),
            next: next.clone(),
            changes: changes.clone(),
            drains: found.drains,
            reboots: found.reboots,
            actions: found.actions,
            forced,
            repairs: repairs.clone(),
            assumed: found.assumed,
        };
        let first = planned(of(&BTreeSet::new()));
        let lacking = machine.lacking(&first).await.unwrap();
        if lacking.is_empty() { first } else { planned(of(&lacking)) }
    }

    pub(super) fn facts(
        &self,
        machine: &Machine,
        disk: &Disk,
        process: &Process,
        planned: Option<&Planned>,
    ) -> AgentFacts {
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
            ahead: None,
            tried_ahead: None,
            staging: disk.staging.clone(),
            failure: disk.failure.clone(),
            single_node: false,
            forced: record::is_forced(&machine.root),
        }
    }

    /// One life of a process: until nothing is left to do, it dies, or the attempt is put off.
    pub(super) async fn live(&mut self, machine: &Machine) -> Result<(), MachineError> {
        let mut process = Process { check: Check::Outdated, staged: None, state: NodeState::Working };
        for _ in 0..60 {
            let disk = Disk::read(&machine.root)?;
            let has_plan = disk.record.is_some() && self.configs.contains_key(&self.desired);
            let planned = if has_plan { Some(self.planned(machine, &disk).await) } else { None };
            let facts = self.facts(machine, &disk, &process, planned.as_ref());
            match decide(&facts, self.now) {
                Step::Tell(state, reason) => {
                    process.state = state;
                    self.current = disk.record.unwrap().target.config;
                    self.told.push(reason);
                    self.told_by.extend(self.host.as_ref().map(|(host, _)| host.deployments().booted.image.clone()));
                }
                Step::Stage => match machine.stage(&planned.unwrap()).await {
                    Ok(()) => process.staged = Some(facts.desired),
                    Err(error) => {
                        machine.give_up(&facts.desired, &error.to_string(), &facts.boot, self.now)?;
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
                    self.told_by.extend(self.host.as_ref().map(|(host, _)| host.deployments().booted.image.clone()));
                }
                Step::Rest | Step::Wait { .. } => return Ok(()),
                Step::Apply if self.withdraws => return Ok(()),
                step => {
                    let known = (&mut process, &mut self.unread, self.now);
                    change(machine, step, &facts, &disk, planned, known).await?;
                }
            }
        }
        panic!("the agent does not come to rest: {:?}", self.told)
    }

    /// Gets to a configuration without any fault.
    pub(super) async fn reach(&mut self, name: &str) {
        self.desired = name.to_owned();
        let machine = self.machine();
        self.live(&machine).await.unwrap();
        assert_eq!((self.disk().record.unwrap().target.config, self.current.as_str()), (name.to_owned(), name));
    }

    /// The next attempt is due.
    pub(super) fn pause(&mut self) {
        self.now += jiff::SignedDuration::from_mins(1);
    }
}
