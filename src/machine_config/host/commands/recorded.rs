//! A service manager that is a table, and records what it is asked.

use super::{CommandError, Commands, Output, Place, Run};
use futures::future::BoxFuture;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

#[derive(Debug, Default)]
pub(crate) struct Recorded {
    /// Command lines, in order.
    pub calls: Mutex<Vec<String>>,
    /// How commands end; all others are successful and print nothing.
    pub answers: Mutex<BTreeMap<String, Output>>,
    enabled: Mutex<BTreeMap<String, bool>>,
}

impl Recorded {
    pub(crate) fn commands(self: &Arc<Self>) -> Commands {
        Commands { run: self.clone(), service_command: None, reboot_command: None, as_units: true }
    }

    pub(crate) fn answer(&self, command: &str, code: i32, stdout: &str, stderr: &str) {
        let output = Output { code: Some(code), stdout: stdout.to_owned(), stderr: stderr.to_owned() };
        self.answers.lock().unwrap_or_else(PoisonError::into_inner).insert(command.to_owned(), output);
    }

    /// The calls since the last time.
    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.calls.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Those of them that change something.
    pub(crate) fn take_changes(&self) -> Vec<String> {
        let looks = ["rpm-ostree status", "bootc status", "cat ", "rm -rf", "systemctl is-", "systemctl show"];
        let looks = looks.into_iter().chain(["systemctl stop machine-config-daemon-system"]).collect::<Vec<_>>();
        let calls = self.take().into_iter();
        calls.filter(|call| !looks.iter().any(|look| call.starts_with(look))).collect()
    }

    pub(crate) fn set_enabled(&self, unit: &str, enabled: bool) {
        self.enabled.lock().unwrap_or_else(PoisonError::into_inner).insert(unit.to_owned(), enabled);
    }

    fn perform(&self, command: &[String]) -> Output {
        let text = command.join(" ");
        if let Some(output) = self.answers.lock().unwrap_or_else(PoisonError::into_inner).get(&text) {
            return output.clone();
        }
        let mut words = command.iter().map(String::as_str).filter(|word| *word != "--");
        let mut stdout = String::new();
        match (words.next(), words.next()) {
            (Some("systemctl"), Some("enable")) => words.for_each(|unit| self.set_enabled(unit, true)),
            (Some("systemctl"), Some("disable")) => words.for_each(|unit| self.set_enabled(unit, false)),
            (Some("systemctl"), Some("is-enabled")) => {
                let enabled = self.enabled.lock().unwrap_or_else(PoisonError::into_inner);
                let is = words.next().and_then(|unit| enabled.get(unit)).copied().unwrap_or_default();
                stdout = if is { "enabled\n".to_owned() } else { "disabled\n".to_owned() };
            }
            (Some("systemctl"), Some("is-active")) => words.for_each(|_| stdout.push_str("active\n")),
            (Some("systemctl"), Some("is-system-running")) => stdout.push_str("running\n"),
            _ => {}
        }
        Output { code: Some(0), stdout, stderr: String::new() }
    }
}

impl Run for Recorded {
    fn run<'a>(
        &'a self,
        _place: Place,
        command: &'a [String],
        _limit: Duration,
    ) -> BoxFuture<'a, Result<Output, CommandError>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).push(command.join(" "));
        let output = self.perform(command);
        Box::pin(async move { Ok(output) })
    }
}
