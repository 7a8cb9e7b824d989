//! A host in memory whose deployments change as rpm-ostree, bootc and ostree change them. Whatever else it is asked is
//! answered by a table.

use crate::host::commands::recorded::Recorded;
use crate::host::commands::{CommandError, Commands, Output, Place, Run};
use futures::future::BoxFuture;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Deployment {
    pub image: String,
    pub arguments: Vec<String>,
    pub packages: Vec<String>,
}

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
        Commands { run: self.clone(), service_command: None, reboot_command: None }
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
        deployments.rolls_back = false;
        if !std::mem::take(&mut deployments.refuses) && next != deployments.booted {
            let former = std::mem::replace(&mut deployments.booted, next);
            deployments.former = Some(former);
        }
        if let Some((image, path)) = &*self.removes.lock().unwrap()
            && *image == deployments.booted.image
        {
            std::fs::remove_file(path).unwrap();
        }
    }

    /// The commands since the last time that change something.
    pub(crate) fn take_changes(&self) -> Vec<String> {
        let looks = ["rpm-ostree status", "bootc status", "cat ", "systemctl is-enabled", "rm -rf"];
        let calls = self.recorded.take().into_iter();
        calls.filter(|call| !looks.iter().any(|look| call.starts_with(look))).collect()
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
        let text = command.join(" ");
        if self.fails.lock().unwrap().take_if(|beginning| text.starts_with(beginning.as_str())).is_some() {
            self.recorded.calls.lock().unwrap().push(text);
            let output = Output { code: Some(1), stdout: String::new(), stderr: "error: no connection\n".to_owned() };
            return Box::pin(async move { Ok(output) });
        }
        let words = Vec::from_iter(command.iter().map(String::as_str));
        match self.perform(&words) {
            None => self.recorded.run(place, command, limit),
            Some(stdout) => {
                self.recorded.calls.lock().unwrap().push(text);
                Box::pin(async move { Ok(Output { code: Some(0), stdout, stderr: String::new() }) })
            }
        }
    }
}
