//! The one way to start `cvo`: as a command that is run to its end, as one whose lines are read while it runs, or as a process
//! of a cluster.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde::de::DeserializeOwned;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

use super::{
    error::{HarnessError, Result},
    process::Launch,
    programs,
};

/// `cvo` with its arguments.
#[derive(Debug, Clone, Default)]
#[must_use = "it is not started yet"]
pub struct Cvo {
    arguments: Vec<String>,
    /// Added to the environment of this process, or of the cluster.
    environment: BTreeMap<String, String>,
    log_level: Option<String>,
    program: Option<PathBuf>,
}

/// What a command has said, and how it has ended.
#[derive(Debug, Clone)]
pub struct Said {
    /// None if a signal has ended it.
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
    /// For errors: the first words of its command line.
    name: String,
}

/// A command that runs, and ends when this is dropped.
#[derive(Debug)]
pub struct Running {
    pub child: Child,
    /// Of its standard output.
    pub lines: Lines<BufReader<ChildStdout>>,
}

impl Cvo {
    pub fn new<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Self {
        Self::default().args(arguments)
    }

    pub fn args<S: AsRef<OsStr>>(mut self, arguments: impl IntoIterator<Item = S>) -> Self {
        self.arguments.extend(arguments.into_iter().map(|it| it.as_ref().to_string_lossy().into_owned()));
        self
    }

    /// A flag and its value.
    pub fn flag(self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.args([name.as_ref(), value.as_ref()])
    }

    /// As whom the file names, on the cluster that it names.
    pub fn kubeconfig(self, file: impl AsRef<Path>) -> Self {
        self.flag("--kubeconfig", file.as_ref())
    }

    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.environment.insert(name.to_owned(), value.as_ref().to_string_lossy().into_owned());
        self
    }

    /// `RUST_LOG` of a process of a cluster, where this process has none.
    pub fn log_level(mut self, level: &str) -> Self {
        self.log_level = Some(level.to_owned());
        self
    }

    /// Another program than the one under test.
    pub fn program(mut self, program: Option<&Path>) -> Self {
        self.program = program.map(Path::to_owned);
        self
    }

    /// Runs it to its end, whatever that is.
    pub async fn run(self) -> Result<Said> {
        let name = self.name();
        let mut command = self.command()?;
        let done = command.output().await.map_err(|error| HarnessError::Spawn(name.clone(), error))?;
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Ok(Said { code: done.status.code(), stdout: text(done.stdout), stderr: text(done.stderr), name })
    }

    /// Runs it; its standard output, or an error with what it says on standard error.
    pub async fn output(self) -> Result<String> {
        self.run().await?.succeeded()
    }

    /// Starts it, to read its lines while it runs.
    pub fn start(self) -> Result<Running> {
        let failed = |error| HarnessError::Spawn(self.name(), error);
        let mut child = self.command()?.stdout(Stdio::piped()).spawn().map_err(failed)?;
        let output = child.stdout.take().ok_or_else(|| failed(std::io::Error::other("it has no output")))?;
        Ok(Running { child, lines: BufReader::new(output).lines() })
    }

    /// As a process of a cluster, to be given to `Cluster::spawn`.
    pub fn launch(self, name: &str) -> Result<Launch> {
        let mut launch = Launch::new(name, self.path()?, self.arguments);
        launch.environment = self.environment;
        let level = std::env::var("RUST_LOG").ok().or(self.log_level);
        Ok(level.into_iter().fold(launch, |launch, level| launch.env("RUST_LOG", level)))
    }

    fn command(&self) -> Result<Command> {
        let mut command = Command::new(self.path()?);
        command.args(&self.arguments).envs(&self.environment).stdin(Stdio::null()).kill_on_drop(true);
        Ok(command)
    }

    fn path(&self) -> Result<PathBuf> {
        self.program.clone().map_or_else(programs::cvo, Ok)
    }

    fn name(&self) -> String {
        let words = self.arguments.iter().take(2).map(String::as_str);
        ["cvo"].into_iter().chain(words).collect::<Vec<_>>().join(" ")
    }
}

impl Said {
    /// What it has said on standard output, and then on standard error.
    pub fn all(&self) -> String {
        format!("{}{}", self.stdout, self.stderr)
    }

    /// The object that it has written to standard output; an error says what it has written instead.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T> {
        serde_json::from_str(&self.stdout).map_err(|error| self.error(&format!("{error}: {}", self.all())))
    }

    /// Its standard output, or an error with what it has said on standard error.
    pub fn succeeded(self) -> Result<String> {
        if self.code == Some(0) { Ok(self.stdout) } else { Err(self.error(self.stderr.trim())) }
    }

    fn error(&self, said: &str) -> HarnessError {
        let code = self.code.map_or("a signal".to_owned(), |code| format!("exit code {code}"));
        HarnessError::Command(self.name.clone(), code, said.to_owned())
    }
}
