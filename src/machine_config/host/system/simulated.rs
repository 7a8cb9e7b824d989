//! A host in memory whose deployments change as rpm-ostree, bootc and ostree change them. Whatever else it is asked is
//! answered by a table.

use crate::machine_config::host::commands::recorded::Recorded;
use crate::machine_config::host::commands::{CommandError, Commands, Output, Place, Run};
use futures::future::BoxFuture;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tempfile::TempDir;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Deployment {
    pub image: String,
    pub arguments: Vec<String>,
    pub packages: Vec<String>,
}

/// How commands begin that need much memory.
const LARGE: [&str; 8] = [
    "podman create",
    "podman cp",
    "podman pull",
    "bootc switch",
    "rpm-ostree rebase",
    "rpm-ostree install",
    "rpm-ostree uninstall",
    "rpm-ostree override",
];

#[derive(Debug, Default)]
pub(crate) struct Deployments {
    pub booted: Deployment,
    /// And whether it is locked.
    pub staged: Option<(Deployment, bool)>,
    pub former: Option<Deployment>,
    /// The next boot is the former one.
    pub rolls_back: bool,
    /// Images in the container storage.
    pub pulled: Vec<String>,
    /// The next restart does not boot what was staged.
    pub refuses: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Host {
    pub recorded: Arc<Recorded>,
    deployments: Mutex<Deployments>,
    /// The beginning of a command that fails.
    pub fails: Mutex<Option<String>>,
    /// The folder of the node that belongs to what is booted, and what it was like when the node left the former one.
    pub etc: Mutex<Option<PathBuf>>,
    former_etc: Mutex<Option<TempDir>>,
    /// What needs much memory and was run by the agent itself.
    pub in_agent: Mutex<Vec<String>>,
    /// While an image is booted, commands with this beginning fail.
    pub mute: Mutex<Option<(String, String)>>,
    /// An image that removes a file whenever it is booted.
    pub removes: Mutex<Option<(String, PathBuf)>>,
}

impl Host {
    pub(crate) fn new(image: &str) -> Arc<Host> {
        let host = Host::default();
        host.deployments().booted = Deployment {
            image: image.to_owned(),
            arguments: vec!["root=/dev/vda".to_owned()],
            ..Deployment::default()
        };
        Arc::new(host)
    }

    pub(crate) fn commands(self: &Arc<Self>) -> Commands {
        Commands { run: self.clone(), service_command: None, reboot_command: None, as_units: true }
    }

    pub(crate) fn deployments(&self) -> MutexGuard<'_, Deployments> {
        self.deployments.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn fail(&self, beginning: &str) {
        *self.fails.lock().unwrap() = Some(beginning.to_owned());
    }

    /// What a restart at this moment boots.
    pub(crate) fn next_boot(&self) -> Deployment {
        let deployments = self.deployments();
        match &deployments.staged {
            _ if deployments.rolls_back => deployments.former.clone().unwrap(),
            Some((staged, false)) => staged.clone(),
            _ => deployments.booted.clone(),
        }
    }

    pub(crate) fn restart(&self) {
        let next = self.next_boot();
        let mut deployments = self.deployments();
        // What is locked is not there any more after a restart, because it is kept below /run.
        deployments.staged = None;
        let rolls_back = std::mem::take(&mut deployments.rolls_back);
        if !std::mem::take(&mut deployments.refuses) && next != deployments.booted {
            let former = std::mem::replace(&mut deployments.booted, next);
            deployments.former = Some(former);
            self.change_etc(rolls_back);
        }
        if let Some((image, path)) = &*self.removes.lock().unwrap()
            && *image == deployments.booted.image
        {
            std::fs::remove_file(path).unwrap();
        }
    }

    /// A new deployment gets it as it is when the node goes down; the former one has it as it was then.
    fn change_etc(&self, rolls_back: bool) {
        let Some(etc) = &*self.etc.lock().unwrap() else { return };
        let left = tempfile::tempdir().unwrap();
        let copied = std::process::Command::new("cp").arg("-a").arg(etc).arg(left.path()).status().unwrap();
        assert!(copied.success());
        let former = self.former_etc.lock().unwrap().replace(left);
        if rolls_back {
            std::fs::remove_dir_all(etc).unwrap();
            let former = former.unwrap();
            let copied = std::process::Command::new("cp").arg("-a").arg(former.path().join("etc")).arg(etc).status();
            assert!(copied.unwrap().success());
        }
    }

    /// The commands since the last time that change something.
    pub(crate) fn take_changes(&self) -> Vec<String> {
        self.recorded.take_changes()
    }

    fn rpm_ostree(&self) -> Value {
        let deployments = self.deployments();
        let one = |deployment: &Deployment, staged: Option<bool>, booted: bool| {
            let mut it = json!({
                "booted": booted, "staged": staged.is_some(), "checksum": "5f2d", "osname": "rhcos",
                "container-image-reference": format!("ostree-unverified-registry:{}", deployment.image),
                "requested-packages": deployment.packages, "packages": deployment.packages, "pinned": false,
            });
            if staged == Some(true) {
                it["finalization-locked"] = true.into();
            }
            it
        };
        let mut list = vec![one(&deployments.booted, None, true)];
        if let Some(former) = &deployments.former {
            list.insert(usize::from(!deployments.rolls_back), one(former, None, false));
        }
        if let Some((staged, locked)) = &deployments.staged {
            list.insert(0, one(staged, Some(*locked), false));
        }
        json!({"deployments": list, "transaction": null})
    }

    fn bootc(&self) -> Value {
        let deployments = self.deployments();
        let one = |deployment: &Deployment| {
            json!({
                "image": {"image": {"image": deployment.image, "transport": "containers-storage"}, "version": null,
                    "timestamp": null, "imageDigest": "sha256:0000"},
                "cachedUpdate": null, "incompatible": false, "pinned": false,
                "ostree": {"checksum": "5f2d", "deploySerial": 0},
            })
        };
        let status = json!({
            "staged": deployments.staged.as_ref().map(|(staged, _)| one(staged)), "booted": one(&deployments.booted),
            "rollback": deployments.former.as_ref().map(one), "rollbackQueued": deployments.rolls_back,
            "type": "bootcHost",
        });
        json!({
            "apiVersion": "org.containers.bootc/v1", "kind": "BootcHost", "metadata": {"name": "host"},
            "spec": {"image": null}, "status": status,
        })
    }

    /// Stages on top of what is staged or booted.
    fn stage(&self, words: &[&str], change: impl FnOnce(&mut Deployment)) -> String {
        let mut deployments = self.deployments();
        let mut next = deployments.staged.take().map_or_else(|| deployments.booted.clone(), |(staged, _)| staged);
        change(&mut next);
        deployments.staged = Some((next, words.contains(&"--lock-finalization")));
        String::new()
    }

    /// `None`: not a command about deployments.
    fn perform(&self, words: &[&str]) -> Option<String> {
        let last = words.last().copied().unwrap_or_default();
        let option = |name: &str| -> Vec<String> {
            words.iter().filter_map(|word| Some(word.strip_prefix(name)?.strip_prefix('=')?.to_owned())).collect()
        };
        let plain = || words.iter().skip(2).filter(|word| !word.starts_with('-')).map(|word| (*word).to_owned());
        let repackage = |added: Vec<String>, removed: Vec<String>| {
            self.stage(words, |next| {
                next.packages.retain(|name| !removed.contains(name));
                next.packages.extend(added);
            })
        };
        Some(match words {
            ["rpm-ostree", "status", "--json"] => self.rpm_ostree().to_string(),
            ["bootc", "status", ..] => self.bootc().to_string(),
            ["cat", "/proc/cmdline"] => self.deployments().booted.arguments.join(" ") + "\n",
            ["rpm-ostree", "cleanup", _] | ["ostree", "admin", "undeploy", "0"] => {
                self.deployments().staged = None;
                String::new()
            }
            ["rpm-ostree", "rebase", ..] => {
                self.stage(words, |next| next.image = last.split_once(':').unwrap().1.to_owned())
            }
            ["rpm-ostree", "kargs", ..] => self.stage(words, |next| {
                next.arguments.retain(|it| !option("--delete-if-present").contains(it));
                next.arguments.extend(option("--append"));
            }),
            ["rpm-ostree", "install", ..] => repackage(plain().collect(), option("--uninstall")),
            ["rpm-ostree", "uninstall", ..] => repackage(Vec::new(), plain().collect()),
            ["rpm-ostree", "override", ..] => repackage(option("--install"), option("--uninstall")),
            ["ostree", "admin", "lock-finalization", "--unlock"] => {
                self.deployments().staged.as_mut().unwrap().1 = false;
                String::new()
            }
            ["rpm-ostree" | "bootc", "rollback"] => {
                let mut deployments = self.deployments();
                deployments.rolls_back = !deployments.rolls_back;
                deployments.staged = None;
                String::new()
            }
            ["podman", "pull", ..] => {
                self.deployments().pulled.push(last.to_owned());
                String::new()
            }
            ["bootc", "switch", ..] => {
                assert!(self.deployments().pulled.iter().any(|image| image == last), "{last} is not in the storage");
                self.stage(words, |next| next.image = last.to_owned())
            }
            _ => return None,
        })
    }
}

impl Run for Host {
    fn run<'a>(
        &'a self,
        place: Place,
        command: &'a [String],
        limit: Duration,
    ) -> BoxFuture<'a, Result<Output, CommandError>> {
        // What the node's systemd is given to run.
        let given =
            command.iter().position(|word| word == "--").filter(|_| command.iter().any(|word| word == "--pipe"));
        let inner = given.and_then(|at| command.get(at + 1..)).unwrap_or(command);
        let text = inner.join(" ");
        if given.is_none() && LARGE.iter().any(|beginning| text.starts_with(beginning)) {
            self.in_agent.lock().unwrap().push(text.clone());
        }
        let booted = self.deployments().booted.image.clone();
        let is_mute = |(image, beginning): &(String, String)| *image == booted && text.starts_with(beginning.as_str());
        let mute = self.mute.lock().unwrap().as_ref().is_some_and(is_mute);
        if mute || self.fails.lock().unwrap().take_if(|beginning| text.starts_with(beginning.as_str())).is_some() {
            self.recorded.calls.lock().unwrap().push(text);
            let output = Output { code: Some(1), stdout: String::new(), stderr: "error: no connection\n".to_owned() };
            return Box::pin(async move { Ok(output) });
        }
        let words = Vec::from_iter(inner.iter().map(String::as_str));
        match self.perform(&words) {
            None => self.recorded.run(place, inner, limit),
            Some(stdout) => {
                self.recorded.calls.lock().unwrap().push(text);
                Box::pin(async move { Ok(Output { code: Some(0), stdout, stderr: String::new() }) })
            }
        }
    }
}
