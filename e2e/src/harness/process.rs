//! Processes of a cluster: each is started in its own process group, identified by process id and start time, and ended
//! reliably.

use std::{
    collections::BTreeMap,
    fs::{self, OpenOptions},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, WaitOptions, kill_process, kill_process_group, waitpid};
use serde::{Deserialize, Serialize};

use super::error::{HarnessError, Result};

/// Identifies one process. A process id alone does not: ids are reused, also after a reboot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    pub pid: i32,
    /// Start time in clock ticks since boot (field 22 of /proc/<pid>/stat).
    start: u64,
    /// Id of the boot in which it runs.
    boot: String,
}

/// How children of ours have ended, by their process ids.
static EXIT_CODES: Mutex<BTreeMap<i32, Option<i32>>> = Mutex::new(BTreeMap::new());

/// A process to start.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Launch {
    /// Unique in the cluster; also the name of the log and of the pid file.
    pub name: String,
    pub program: PathBuf,
    pub arguments: Vec<String>,
    /// Added to a minimal environment (PATH, HOME, TMPDIR): the caller's proxy settings must not reach a cluster.
    pub environment: BTreeMap<String, String>,
}

impl Launch {
    pub fn new<A: Into<String>>(
        name: &str,
        program: impl Into<PathBuf>,
        arguments: impl IntoIterator<Item = A>,
    ) -> Self {
        Self {
            name: name.to_owned(),
            program: program.into(),
            arguments: arguments.into_iter().map(Into::into).collect(),
            environment: BTreeMap::new(),
        }
    }

    /// The same with one more variable.
    pub fn env(mut self, name: &str, value: impl Into<String>) -> Self {
        self.environment.insert(name.to_owned(), value.into());
        self
    }
}

impl Identity {
    /// The process that has this id now, if any.
    pub fn of(pid: i32) -> Option<Self> {
        let (_, start) = stat(pid)?;
        Some(Self { pid, start, boot: boot_id() })
    }

    /// This process.
    pub fn own() -> Option<Self> {
        i32::try_from(std::process::id()).ok().and_then(Self::of)
    }

    /// Whether it still runs. A zombie counts as ended once all its threads have ended: until then its sockets stay
    /// open.
    pub fn alive(&self) -> bool {
        if let Some(pid) = Pid::from_raw(self.pid) {
            // Locked before, so that whoever sees that it has ended finds its code too.
            let mut codes = EXIT_CODES.lock().unwrap_or_else(PoisonError::into_inner);
            // Reaps it when it is an ended child of ours; an error only means that it is not our child.
            if let Ok(Some((_, status))) = waitpid(Some(pid), WaitOptions::NOHANG) {
                codes.insert(self.pid, status.exit_status());
            }
        }
        let ended = |state| matches!(state, 'Z' | 'X') && threads(self.pid) <= 1;
        stat(self.pid).is_some_and(|(state, start)| start == self.start && !ended(state)) && self.boot == boot_id()
    }

    /// The exit code of a child of ours that `alive` has found to have ended; `None` if a signal has ended it.
    pub fn exit_code(&self) -> Option<i32> {
        EXIT_CODES.lock().unwrap_or_else(PoisonError::into_inner).get(&self.pid).copied().flatten()
    }

    /// Whether its command line is a program of the first word's name, followed by the others.
    pub fn was_started_with(&self, words: &[&str]) -> bool {
        let line = fs::read(format!("/proc/{}/cmdline", self.pid)).unwrap_or_default();
        let mut said = line.split(|byte| *byte == 0);
        words.iter().enumerate().all(|(position, word)| {
            let one = said.next().unwrap_or_default();
            if position == 0 {
                one.rsplit(|byte| *byte == b'/').next() == Some(word.as_bytes())
            } else {
                one == word.as_bytes()
            }
        })
    }

    /// Sends SIGKILL to the process, and to its group when it leads one.
    pub fn kill(&self) {
        if !self.alive() {
            return;
        }
        if let Some(pid) = Pid::from_raw(self.pid) {
            // Errors mean that it has ended meanwhile. kill_process_group also fails when it leads no group.
            let _ = kill_process_group(pid, Signal::KILL);
            let _ = kill_process(pid, Signal::KILL);
        }
    }

    /// Asks it to end (SIGTERM).
    pub fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Stops it where it is (SIGSTOP), until `thaw`.
    pub fn freeze(&self) {
        self.signal(Signal::STOP);
    }

    /// Lets it go on after `freeze` (SIGCONT).
    pub fn thaw(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        if self.alive()
            && let Some(pid) = Pid::from_raw(self.pid)
        {
            // An error means that it has ended meanwhile.
            let _ = kill_process(pid, signal);
        }
    }

    /// Waits until it has ended; returns whether it did within `limit`.
    pub fn gone_within(&self, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        while self.alive() {
            if Instant::now() > deadline {
                return false;
            }
            // The process may not be our child, so there is no event to wait for.
            thread::sleep(Duration::from_millis(5));
        }
        true
    }
}

/// Starts a process in its own process group, appending its output to `log`. `mark` is put into its environment, which
/// children inherit: `marked` finds them all.
pub fn spawn(launch: &Launch, home: &Path, log: &Path, path: &str, mark: &str) -> Result<Identity> {
    let failed = |error| HarnessError::Spawn(launch.program.display().to_string(), error);
    let output = OpenOptions::new()
        .create(true)
        .append(true)
        .open(log)
        .map_err(|error| HarnessError::Io(log.to_owned(), error))?;
    let child = Command::new(&launch.program)
        .args(&launch.arguments)
        .env_clear()
        .env("PATH", path)
        .env("HOME", home)
        .env("TMPDIR", std::env::temp_dir())
        .env(MARK, mark)
        .envs(&launch.environment)
        .current_dir(home)
        .stdin(Stdio::null())
        .stdout(output.try_clone().map_err(failed)?)
        .stderr(output)
        .process_group(0)
        .spawn()
        .map_err(failed)?;
    let pid = i32::try_from(child.id()).unwrap_or_default();
    // It is our child and not yet reaped, so its entry in /proc exists even when it has already ended.
    Identity::of(pid).ok_or_else(|| failed(std::io::Error::other("it ended at once")))
}

/// The variable that says which cluster a process belongs to; its value is the cluster's folder.
pub const MARK: &str = "CVO_LAB_CLUSTER";

/// Every process with this mark in its environment: those that were started, and their children (containerd's shims).
pub fn marked(mark: &str) -> Vec<Identity> {
    let wanted = format!("{MARK}={mark}");
    all().filter(|pid| has_variable(*pid, wanted.as_bytes())).filter_map(Identity::of).collect()
}

/// All process ids.
fn all() -> impl Iterator<Item = i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str().and_then(|name| name.parse().ok()))
}

fn has_variable(pid: i32, wanted: &[u8]) -> bool {
    fs::read(format!("/proc/{pid}/environ")).is_ok_and(|all| all.split(|byte| *byte == 0).any(|one| one == wanted))
}

/// How long a killed process may take to end.
const LIMIT: Duration = Duration::from_secs(20);

/// Kills all of them, then waits until all have ended.
pub fn end_all(processes: &[Identity]) -> Result<()> {
    processes.iter().for_each(Identity::kill);
    let deadline = Instant::now() + LIMIT;
    for process in processes {
        if !process.gone_within(deadline.saturating_duration_since(Instant::now())) {
            return Err(HarnessError::LeftBehind(format!("process {}", process.pid)));
        }
    }
    Ok(())
}

/// Runs a command to its end and returns its standard output.
pub async fn output(name: &str, mut command: tokio::process::Command) -> Result<String> {
    let done =
        command.stdin(Stdio::null()).output().await.map_err(|error| HarnessError::Spawn(name.to_owned(), error))?;
    if done.status.success() {
        return Ok(String::from_utf8_lossy(&done.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&done.stderr).trim().to_owned();
    Err(HarnessError::Command(name.to_owned(), done.status.to_string(), said))
}

/// The unit of times in /proc, the same on every architecture of Linux.
const TICKS_PER_SECOND: f64 = 100.0;

/// CPU seconds, user and system, of all threads so far, in steps of 10 ms. Zombies have them too.
pub fn cpu_seconds(pid: i32) -> Option<f64> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = text.rsplit_once(')')?;
    // Fields 14 and 15; the first behind the name is field 3.
    let ticks: Vec<u64> = rest.split_whitespace().skip(11).take(2).filter_map(|field| field.parse().ok()).collect();
    Some(ticks.iter().sum::<u64>() as f64 / TICKS_PER_SECOND)
}

/// Peak and current resident memory in KiB; a process that has ended has none.
pub fn memory(pid: i32) -> (Option<u64>, Option<u64>) {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().trim_end_matches("kB").trim().parse().ok()
    };
    (field("VmHWM:"), field("VmRSS:"))
}

/// State and start time from /proc/<pid>/stat. The name of the command may contain spaces and parentheses.
fn stat(pid: i32) -> Option<(char, u64)> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = text.rsplit_once(')')?;
    let mut fields = rest.split_whitespace();
    let state = fields.next()?.chars().next()?;
    // The state is field 3, the start time field 22.
    let start = fields.nth(18)?.parse().ok()?;
    Some((state, start))
}

fn threads(pid: i32) -> usize {
    fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count)
}

fn boot_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}
