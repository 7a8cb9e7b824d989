//! The daemon as a process: started with the arguments its Deployment would give it, ended as a node would end it, and
//! measured.

use super::StageHandArgs;
use crate::harness::process;
use anyhow::{Context, bail};
use cvo::work::retrieve;
use jiff::Timestamp;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use serde_json::json;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tokio::task::JoinHandle;

/// The grace that the Deployment gives.
const GRACE: Duration = Duration::from_secs(130);

/// A running daemon.
pub struct Daemon {
    /// Position of its release.
    pub release: usize,
    image: String,
    started: Timestamp,
    pid: Pid,
    /// Resolves to CPU seconds when the process has ended.
    end: JoinHandle<std::io::Result<f64>>,
    ended: Option<f64>,
}

impl Daemon {
    pub fn start(args: &StageHandArgs, release: usize) -> anyhow::Result<Daemon> {
        let image = args.releases.get(release).context("no such release")?.clone();
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&args.daemon_log)
            .with_context(|| format!("cannot write {}", args.daemon_log.display()))?;
        let mut command = Command::new(&args.cvo);
        command
            .args(["start", "--release-image", &image, "--payload-source", "directory", "--listen", ""])
            .args(["--node-name", "stage"])
            .arg("--payload")
            .arg(args.payload_store.join(retrieve::folder(&image)))
            .arg("--payload-store")
            .arg(&args.payload_store)
            .arg("--kubeconfig")
            .arg(&args.daemon_kubeconfig);
        for proxy in ["http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"] {
            command.env_remove(proxy);
        }
        command.envs(deployed_environment()?);
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let started = Timestamp::now();
        let child = command.spawn().with_context(|| format!("cannot start {}", args.cvo.display()))?;
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).context("the daemon has no process id")?;
        println!("daemon of {image} started as process {}", child.id());
        note(&args.report, &json!({ "release": image, "started": started, "pid": child.id() }))?;
        let end = tokio::task::spawn_blocking(move || wait(child, pid));
        Ok(Daemon { release, image, started, pid, end, ended: None })
    }

    /// Resolves when the process has ended by itself. Cancel safe.
    pub async fn ended(&mut self) {
        if self.ended.is_none() {
            let used = (&mut self.end).await;
            self.ended = Some(used.map_or(0.0, |used| used.unwrap_or(0.0)));
        }
    }

    /// Asks it to stop, waits, and appends what it used to the report.
    pub async fn stop(mut self, report: &Path) -> anyhow::Result<()> {
        let by_itself = self.ended.is_some();
        let memory = process::memory(self.pid.as_raw_nonzero().get());
        let asked = Timestamp::now();
        if !by_itself {
            kill_process(self.pid, Signal::TERM).context("cannot signal the daemon")?;
            if tokio::time::timeout(GRACE, self.ended()).await.is_err() {
                kill_process(self.pid, Signal::KILL).context("cannot end the daemon")?;
                bail!("the daemon did not stop within {} s of SIGTERM", GRACE.as_secs());
            }
        }
        let (peak, resident) = memory;
        let line = json!({
            "release": self.image, "started": self.started, "asked": asked, "ended": Timestamp::now(),
            "byItself": by_itself, "cpuSeconds": self.ended, "peakKiB": peak, "residentKiB": resident,
        });
        println!("daemon ended: {line}");
        note(report, &line)
    }
}

/// Appends a line to the report.
fn note(report: &Path, line: &serde_json::Value) -> anyhow::Result<()> {
    let mut file = OpenOptions::new().create(true).append(true).open(report)?;
    writeln!(file, "{line}").with_context(|| format!("cannot write {}", report.display()))
}

/// What the daemon's own Deployment sets, as far as it is plain text: how it uses memory is part of how it is installed.
fn deployed_environment() -> anyhow::Result<Vec<(String, String)>> {
    const DEPLOYMENT: &str =
        include_str!("../../../manifests/cluster-version/0000_00_cluster-version-operator_30_deployment.yaml");
    let document: serde_json::Value = serde_yaml::from_str(DEPLOYMENT)?;
    let list = document.pointer("/spec/template/spec/containers/0/env").and_then(serde_json::Value::as_array);
    let list = list.context("the daemon's Deployment sets no environment")?;
    let plain = list.iter().filter_map(|variable| {
        let text = |key: &str| variable.get(key)?.as_str().map(str::to_owned);
        text("name").zip(text("value")).filter(|(_, value)| !value.contains("{{"))
    });
    Ok(plain.collect())
}

/// Waits for the end of the process and returns its CPU seconds, which its table entry holds until it is reaped.
fn wait(mut child: Child, pid: Pid) -> std::io::Result<f64> {
    waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT)?;
    let used = process::cpu_seconds(pid.as_raw_nonzero().get()).unwrap_or(0.0);
    let status = child.wait()?;
    println!("daemon process {} ended: {status}", pid.as_raw_nonzero());
    Ok(used)
}
