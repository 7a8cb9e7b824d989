//! Commands that run on the node: its service manager, its restart, its operating system.

use futures::future::BoxFuture;
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
            let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
            let ended = async { tokio::join!(read(stdout), read(stderr), child.wait()) };
            let Ok((stdout, stderr, status)) = tokio::time::timeout(limit, ended).await else {
                return Err(CommandError::Timeout { command: text, seconds: limit.as_secs() });
            };
            let status = status.map_err(|error| start(error.to_string()))?;
            Ok(Output { code: status.code(), stdout, stderr })
        })
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
}

impl Commands {
    /// Runs a command of the node, which has to be successful.
    pub(crate) async fn on_node(&self, command: &[String], limit: Duration) -> Result<Output, CommandError> {
        checked(command, self.run.run(Place::Node, command, limit).await?)
    }

    /// A verb of systemctl, such as `restart`, for these units.
    pub(crate) async fn service(&self, verb: &str, units: &[&str]) -> Result<(), CommandError> {
        let Some(own) = &self.service_command else {
            let command = words(["systemctl", verb].into_iter().chain(units.iter().copied()));
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
            None => (Place::Node, words(["systemctl", "is-enabled", unit])),
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

    /// Asks for a restart of the node; it follows soon after.
    pub(crate) async fn reboot(&self, why: &str) -> Result<(), CommandError> {
        if let Some(own) = &self.reboot_command {
            let command = words([own.as_str()]);
            return checked(&command, self.run.run(Place::Agent, &command, SERVICE).await?).map(drop);
        }
        // A unit of its own, so that it does not end with the agent's container. What an update of the operating system
        // has staged becomes the next boot by a service that has to end first.
        let command = words([
            "systemd-run",
            "--collect",
            "--unit=machine-config-daemon-reboot",
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

pub(crate) fn words<'a>(words: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    words.into_iter().map(ToOwned::to_owned).collect()
}

#[cfg(test)]
pub(crate) mod recorded;
#[cfg(test)]
mod tests;
