//! The clock of this machine, set ahead for a while. There is no other way to show it to a single process: programs that are
//! linked statically read it without asking anybody, and the kernel knows no clock of that kind that belongs to some processes.

use anyhow::{Context, ensure};
use std::{
    io::{BufRead, BufReader},
    os::unix::process::CommandExt,
    process::{Child, Command, Stdio},
    time::Duration,
};

/// Sets the clock ahead by the seconds that are given, says so, and sets it back when its input ends. What the time is then is
/// told by the time since the boot, which nobody can set: it does not matter what others have done to the clock meanwhile.
const SCRIPT: &str = r#"
set -eu
at() {
    awk -v begun="$begun" -v booted="$booted" -v ahead="$1" '{ printf "%.3f", begun + $1 - booted + ahead }' /proc/uptime
}
read -r booted _ </proc/uptime
begun=$(date +%s.%N)
date --set="@$(at "$1")" >/dev/null
echo ahead
cat >/dev/null
date --set="@$(at 0)" >/dev/null
"#;

/// Whether this process may set the clock: it takes the right of the machine's administrator, which a container rarely has.
pub fn may_be_set() -> bool {
    let same = Command::new("sh").args(["-c", r#"date --set="@$(date +%s.%N)""#]).stdin(Stdio::null()).output();
    same.is_ok_and(|done| done.status.success())
}

/// As long as the clock is ahead. It is set back when this is dropped, also if this process is killed before. Afterwards it may be
/// wrong by some hundredths of a second.
#[derive(Debug)]
pub struct Ahead {
    /// In a process group of its own: an interrupt does not end it.
    keeper: Child,
}

impl Ahead {
    /// Sets the clock ahead by whole seconds.
    pub fn by(time: Duration) -> anyhow::Result<Self> {
        let mut command = Command::new("sh");
        command.args(["-c", SCRIPT, "clock", &time.as_secs().to_string()]).env("LC_ALL", "C").process_group(0);
        let mut keeper = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let output = keeper.stdout.take().context("the output is a pipe")?;
        // From here on the clock is set back whatever happens.
        let ahead = Self { keeper };
        let mut said = String::new();
        BufReader::new(output).read_line(&mut said)?;
        ensure!(said.trim() == "ahead", "the clock could not be set ahead: {said:?}");
        Ok(ahead)
    }

    /// Sets it back.
    pub fn set_back(mut self) -> anyhow::Result<()> {
        self.end()
    }

    /// May be called again.
    fn end(&mut self) -> anyhow::Result<()> {
        drop(self.keeper.stdin.take());
        let ended = self.keeper.wait()?;
        ensure!(ended.success(), "the clock of this machine was not set back ({ended}): set it");
        Ok(())
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            eprintln!("{error:#}");
        }
    }
}
