//! Commands that run on the node: its service manager, its restart, its operating system.

use futures::future::BoxFuture;
use rustix::process::{Pid, Signal};
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncReadExt;

/// What a service manager may take, such as a service that ends slowly.
const SERVICE: Duration = Duration::from_secs(120);
/// Bytes that are read of what a command prints.
const OUTPUT: u64 = 256 << 10;
/// Lines of standard error in a message.
const LINES: usize = 4;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CommandError {
    #[error("cannot run {command}: {error}")]
    Start { command: String, error: String },
    #[error("{command} did not end within {seconds} s")]
    Timeout { command: String, seconds: u64 },
    #[error("cannot read what {command} prints")]
    Output { command: String },
    #[error("{command} failed ({status}){}{stderr}", if .stderr.is_empty() { "" } else { ": " })]
    Failed { command: String, status: String, stderr: String },
}

/// How a command ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Output {
    /// 0 is success; `None` where a signal has ended it.
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

/// Runs a program with arguments: of the node, or, by its absolute path outside of the root, of the agent's own file system.
pub(crate) trait Run: fmt::Debug + Send + Sync {
    fn run<'a>(
        &'a self,
        place: Place,
        command: &'a [String],
        limit: Duration,
    ) -> BoxFuture<'a, Result<Output, CommandError>>;
}

/// Whose file system a command sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Node,
    Agent,
}

/// Runs processes.
#[derive(Debug)]
pub(crate) struct Processes {
    pub root: PathBuf,
}

impl Processes {
    fn command(&self, place: Place, command: &[String]) -> Option<tokio::process::Command> {
        let (program, arguments) = command.split_first()?;
        let mut process = match place {
            Place::Node if self.root != Path::new("/") => {
                // The image of the agent has no other program that could change the root.
                let mut process = tokio::process::Command::new("/proc/self/exe");
                process.arg("in-root").arg(&self.root).arg("--").arg(program);
                process
            }
            _ => tokio::process::Command::new(program),
        };
        process.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        // A group of its own, so that what it has started can be ended with it.
        process.process_group(0);
        Some(process)
    }
}

impl Run for Processes {
    fn run<'a>(
        &'a self,
        place: Place,
        command: &'a [String],
        limit: Duration,
    ) -> BoxFuture<'a, Result<Output, CommandError>> {
        Box::pin(async move {
            let text = command.join(" ");
            let start = |error: String| CommandError::Start { command: text.clone(), error };
            let mut process = self.command(place, command).ok_or_else(|| start("it is empty".to_owned()))?;
            let mut child = process.spawn().map_err(|error| start(error.to_string()))?;
            let mut group = Group(child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?)));
            let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
            let ended = async { tokio::join!(read(stdout), read(stderr), child.wait()) };
            let Ok((stdout, stderr, status)) = tokio::time::timeout(limit, ended).await else {
                return Err(CommandError::Timeout { command: text, seconds: limit.as_secs() });
            };
            let status = status.map_err(|error| start(error.to_string()))?;
            // What it leaves running on purpose, after it has closed its output, is not the agent's to end.
            group.0 = None;
            Ok(Output { code: status.code(), stdout, stderr })
        })
    }
}

/// A command with all that it has started: killed when it is dropped, because its limit was reached or nobody waits any more.
struct Group(Option<Pid>);

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(leader) = self.0 {
            // It may have ended meanwhile.
            let _ignored = rustix::process::kill_process_group(leader, Signal::KILL);
        }
    }
}

/// All that is printed, of which the beginning is kept.
async fn read(from: Option<impl tokio::io::AsyncRead + Unpin>) -> String {
    let Some(mut from) = from else { return String::new() };
    let mut kept = Vec::new();
    let read = (&mut from).take(OUTPUT).read_to_end(&mut kept).await;
    // A command that cannot go on printing would never end.
    let rest = tokio::io::copy(&mut from, &mut tokio::io::sink()).await;
    if let Err(error) = read.and(rest.map(|_| 0)) {
        tracing::debug!(%error, "output of a command not read");
    }
    String::from_utf8_lossy(&kept).into_owned()
}

/// Fails unless the command was successful.
fn checked(command: &[String], output: Output) -> Result<Output, CommandError> {
    if output.code == Some(0) {
        return Ok(output);
    }
    let lines = Vec::from_iter(output.stderr.lines().map(str::trim).filter(|line| !line.is_empty()));
    let last = lines.get(lines.len().saturating_sub(LINES)..).unwrap_or_default();
    let status = output.code.map_or_else(|| "ended by a signal".to_owned(), |code| format!("exit status {code}"));
    let stderr = crate::error::shortened(&last.join("; "), crate::error::CAUSE).into_owned();
    Err(CommandError::Failed { command: command.join(" "), status, stderr })
}

/// What the agent asks of the node.
#[derive(Clone, Debug)]
pub(crate) struct Commands {
    pub run: Arc<dyn Run>,
    /// Instead of systemctl: called with the verb and the unit.
    pub service_command: Option<String>,
    /// Instead of a restart by systemd.
    pub reboot_command: Option<String>,
    /// What needs much memory is run by the node's systemd, as a unit: in the agent's container it would count against its
    /// limit.
    pub as_units: bool,
}

/// The unit that something large is run as. One at a time: what one that was left alone still does is in the way.
const UNIT: &str = "machine-config-daemon-system";
/// How much longer the unit may run than the agent waits for it. It is for one that the agent does not see the end of.
const GRACE: Duration = Duration::from_mins(1);

impl Commands {
    /// Runs a command of the node, which has to be successful.
    pub(crate) async fn on_node(&self, command: &[String], limit: Duration) -> Result<Output, CommandError> {
        checked(command, self.run.run(Place::Node, command, limit).await?)
    }

    /// The same for a command that may need much memory, such as one that pulls an image.
    pub(crate) async fn large(&self, command: &[String], limit: Duration) -> Result<Output, CommandError> {
        if !self.as_units {
            return self.on_node(command, limit).await;
        }
        self.stop_left().await;
        let longest = format!("--property=RuntimeMaxSec={}", limit.saturating_add(GRACE).as_secs());
        let unit = format!("--unit={UNIT}");
        let run = ["systemd-run", "--quiet", "--wait", "--pipe", "--collect", unit.as_str(), longest.as_str(), "--"];
        let whole = words(run.into_iter().chain(command.iter().map(String::as_str)));
        match self.run.run(Place::Node, &whole, limit).await {
            Ok(output) => checked(command, output),
            Err(CommandError::Timeout { seconds, .. }) => {
                self.stop_left().await;
                Err(CommandError::Timeout { command: command.join(" "), seconds })
            }
            Err(error) => Err(error),
        }
    }

    /// Ends what an agent has begun that did not see the end of it.
    pub(crate) async fn stop_left(&self) {
        if !self.as_units {
            return;
        }
        let command = words(["systemctl", "stop", &format!("{UNIT}.service")]);
        if let Err(error) = self.run.run(Place::Node, &command, SERVICE).await {
            tracing::warn!(%error, "going on");
        }
    }

    /// A verb of systemctl, such as `restart`, for these units.
    pub(crate) async fn service(&self, verb: &str, units: &[&str]) -> Result<(), CommandError> {
        let Some(own) = &self.service_command else {
            let command = words(["systemctl", verb].into_iter().chain(operands(units)));
            return self.on_node(&command, SERVICE).await.map(drop);
        };
        // One call a unit, and one where there is none.
        let calls = if units.is_empty() { vec![None] } else { units.iter().copied().map(Some).collect() };
        for unit in calls {
            let command = words([own.as_str(), verb].into_iter().chain(unit));
            checked(&command, self.run.run(Place::Agent, &command, SERVICE).await?)?;
        }
        Ok(())
    }

    /// What systemctl says about the enablement of a unit, such as `enabled`, `disabled`, `static`.
    pub(crate) async fn is_enabled(&self, unit: &str) -> Result<String, CommandError> {
        let (place, command) = match &self.service_command {
            Some(own) => (Place::Agent, words([own.as_str(), "is-enabled", unit])),
            None => (Place::Node, words(["systemctl", "is-enabled"].into_iter().chain(operands(&[unit])))),
        };
        let output = self.run.run(place, &command, SERVICE).await?;
        match output.stdout.lines().next().map(str::trim) {
            Some(state) if !state.is_empty() => Ok(state.to_owned()),
            // Declared commands may say it by their exit status alone.
            _ if output.code == Some(0) => Ok("enabled".to_owned()),
            _ if self.service_command.is_some() && output.code == Some(1) => Ok("disabled".to_owned()),
            _ => checked(&command, output).map(|_| String::new()),
        }
    }

    /// What systemctl says about each of these units, such as `active`, `inactive`, `failed`, `activating`. Nothing where a
    /// command is declared instead of it, which need not know.
    pub(crate) async fn states(&self, units: &[&str]) -> Result<Vec<String>, CommandError> {
        if self.service_command.is_some() || units.is_empty() {
            return Ok(Vec::new());
        }
        let command = words(["systemctl", "is-active"].into_iter().chain(operands(units)));
        let output = self.run.run(Place::Node, &command, SERVICE).await?;
        let states = output.stdout.lines().map(|line| line.trim().to_owned()).collect::<Vec<_>>();
        match states.len() == units.len() {
            true => Ok(states),
            // It tells one that does not run by its exit status as well.
            false => {
                checked(&command, output)?;
                Err(CommandError::Output { command: command.join(" ") })
            }
        }
    }

    /// Whether units are still being started since the node was.
    pub(crate) async fn is_starting(&self) -> Result<bool, CommandError> {
        if self.service_command.is_some() {
            return Ok(false);
        }
        let command = words(["systemctl", "is-system-running"]);
        let output = self.run.run(Place::Node, &command, SERVICE).await?;
        match output.stdout.trim() {
            "" => {
                checked(&command, output)?;
                Err(CommandError::Output { command: command.join(" ") })
            }
            state => Ok(matches!(state, "initializing" | "starting")),
        }
    }

    /// Whether the node has a unit that can be started, wherever it comes from. Whoever declares a command instead of systemctl has all of them.
    pub(crate) async fn has_unit(&self, unit: &str) -> Result<bool, CommandError> {
        if self.service_command.is_some() {
            return Ok(true);
        }
        let command = words(["systemctl", "show", "--property=LoadState", "--value", "--", unit]);
        let found = self.on_node(&command, SERVICE).await?.stdout;
        Ok(!matches!(found.trim(), "not-found" | "masked"))
    }

    /// Asks for a restart of the node; it follows soon after.
    pub(crate) async fn reboot(&self, why: &str) -> Result<(), CommandError> {
        if let Some(own) = &self.reboot_command {
            let command = words([own.as_str()]);
            return checked(&command, self.run.run(Place::Agent, &command, SERVICE).await?).map(drop);
        }
        // A unit of its own, so that it does not end with the agent's container, and of a new name, because that of an
        // agent that has ended since may still be there. What an update of the operating system has staged becomes the
        // next boot by a service that has to end first.
        let unit = format!("--unit=machine-config-daemon-reboot-{}", uuid::Uuid::new_v4().simple());
        let command = words([
            "systemd-run",
            "--collect",
            &unit,
            "--description",
            why,
            "--property=Wants=ostree-finalize-staged.service",
            "--property=After=ostree-finalize-staged.service",
            "systemctl",
            "reboot",
        ]);
        self.on_node(&command, SERVICE).await.map(drop)
    }
}

/// Units as the last words of a command: never options of it, whatever they are called.
fn operands<'a>(units: &'a [&'a str]) -> impl Iterator<Item = &'a str> {
    (!units.is_empty()).then_some("--").into_iter().chain(units.iter().copied())
}

pub(crate) fn words<'a>(words: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    words.into_iter().map(ToOwned::to_owned).collect()
}

#[cfg(test)]
pub(crate) mod recorded;
#[cfg(test)]
mod tests;
