//! Processes of a cluster: each is started in its own process group, identified by process id and start time, and ended
//! reliably.

use std::{
    collections::BTreeMap,
    fs::{self, OpenOptions},
    os::{fd::OwnedFd, unix::process::CommandExt},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions, kill_process, kill_process_group, pidfd_open, waitpid};
use serde::{Deserialize, Serialize};
use tokio::io::{Interest, unix::AsyncFd};

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

    /// The same in a loop that starts it again whenever it ends, as kubelet does: the id of its process stands in one file, and in
    /// the other one the statuses with which it has ended.
    pub fn again(mut self, pid: &Path, ends: &Path) -> Self {
        let script = "pid=$1 ends=$2; shift 2; \
                      while :; do \"$@\" & echo $! >\"$pid\"; wait $!; echo $? >>\"$ends\"; done";
        let program = std::mem::replace(&mut self.program, "/bin/sh".into());
        let text = |path: &Path| path.display().to_string();
        let words = ["-c".to_owned(), script.to_owned(), "sh".to_owned(), text(pid), text(ends), text(&program)];
        self.arguments.splice(0..0, words);
        self
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

    /// Returns once it has ended.
    pub async fn ended(&self) {
        while self.alive() {
            // The kernel tells it of any process. Where it does not, it is looked for.
            match self.told_by_the_kernel() {
                Ok(told) => drop(told.readable().await),
                Err(_) => tokio::time::sleep(LOOK).await,
            }
        }
    }

    /// A file that becomes readable when the process and all its threads have ended.
    #[allow(deprecated, reason = "an OwnedFd stays open; its successor is unsafe, for other types")]
    fn told_by_the_kernel(&self) -> std::io::Result<AsyncFd<OwnedFd>> {
        let pid = Pid::from_raw(self.pid).ok_or(Errno::SRCH)?;
        AsyncFd::with_interest(pidfd_open(pid, PidfdFlags::empty())?, Interest::READABLE)
    }

    /// Waits until it has ended, and blocks meanwhile; returns whether it did within `limit`.
    pub fn gone_within(&self, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        while self.alive() {
            if Instant::now() > deadline {
                return false;
            }
            thread::sleep(LOOK);
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

/// How often it is looked whether a process has ended, where nothing tells.
const LOOK: Duration = Duration::from_millis(5);
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
    let [peak, resident, _] = status(pid);
    (peak, resident)
}

/// What the program itself takes of a release, in KiB. That of a debug build is several times larger.
const PROGRAM: u64 = 15 << 10;

/// Peak memory in KiB as it would be if the program were that of a release.
pub fn peak_of_a_release(pid: i32) -> Option<u64> {
    let [peak, _, program] = status(pid);
    Some((peak?).saturating_sub(program?.saturating_sub(PROGRAM)))
}

/// Peak, resident memory, and what of that are parts of files such as the program, in KiB.
fn status(pid: i32) -> [Option<u64>; 3] {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().trim_end_matches("kB").trim().parse().ok()
    };
    ["VmHWM:", "VmRSS:", "RssFile:"].map(field)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn end_of_a_process_is_told_however_it_ends() {
        let folder = std::env::temp_dir().join(format!("cvo-process-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let begin = |script: &str| {
            let launch = Launch::new("test", "/bin/sh", ["-c", script]);
            spawn(&launch, &folder, &folder.join("log"), "/usr/bin:/bin", "none").unwrap()
        };
        let limit = Duration::from_secs(20);
        let by_itself = begin("exit 3");
        tokio::time::timeout(limit, by_itself.ended()).await.unwrap();
        assert_eq!((by_itself.alive(), by_itself.exit_code()), (false, Some(3)));
        let killed = begin("sleep 1000");
        assert!(tokio::time::timeout(Duration::from_millis(50), killed.ended()).await.is_err(), "it still runs");
        let (ended, ()) = tokio::join!(tokio::time::timeout(limit, killed.ended()), async { killed.kill() });
        ended.unwrap();
        assert_eq!((killed.alive(), killed.exit_code()), (false, None));
        fs::remove_dir_all(folder).unwrap();
    }

    #[tokio::test]
    async fn process_is_started_again_and_again_with_the_same_words() {
        let folder = std::env::temp_dir().join(format!("cvo-again-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let (pid, ends) = (folder.join("pid"), folder.join("ends"));
        let said = folder.join("said").display().to_string();
        let launch = Launch::new("test", "/bin/sh", ["-c", "echo \"$1\" >>\"$0\"; exit 3", &said, "two words"]);
        let looping = spawn(&launch.again(&pid, &ends), &folder, &folder.join("log"), "/usr/bin:/bin", "none").unwrap();
        let read = |path: &Path| fs::read_to_string(path).unwrap_or_default();
        // The file of its id is empty for a moment whenever it is written.
        let is_number = || read(&pid).trim().parse::<i32>().is_ok();
        let twice = async || read(&ends).lines().count() >= 2 && is_number();
        crate::until::until("two ends", Duration::from_secs(20)).holds(twice).await.unwrap();
        end_all(&[looping]).unwrap();
        assert!(read(&ends).starts_with("3\n3\n") && read(Path::new(&said)).starts_with("two words\ntwo words\n"));
        fs::remove_dir_all(folder).unwrap();
    }
}
