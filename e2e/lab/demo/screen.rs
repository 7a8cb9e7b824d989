//! What the demonstration prints: a line for each thing that changed, with the seconds since the start.

use std::{collections::BTreeMap, time::Instant};

use cvo::api::{
    ClusterVersion, ConditionStatus, HistoryEntry, HistoryState,
    progress::{NodeProgress, NodeState, Progress, WaitingFor},
};
use jiff::Timestamp;

use crate::platform::{
    Release,
    follow::{self, Change},
};

/// Remembers what is on the terminal, so that nothing is said twice.
#[derive(Debug)]
pub struct Screen {
    begun: Instant,
    release: Option<Release>,
    /// By subject.
    said: BTreeMap<String, String>,
}

impl Screen {
    pub fn new() -> Self {
        Self { begun: Instant::now(), release: None, said: BTreeMap::new() }
    }

    /// A heading.
    pub fn step(&self, text: &str) {
        println!("\n== {text}");
    }

    /// A line.
    pub fn say(&self, text: &str) {
        println!("{:>6.1} s  {text}", self.begun.elapsed().as_secs_f32());
    }

    /// From now on this release is followed.
    pub fn begin(&mut self, release: &Release) {
        self.release = Some(release.clone());
        self.said.retain(|subject, _| subject.starts_with("pod "));
    }

    /// Prints what is new; whether the followed release is completed.
    pub fn show(&mut self, change: Change) -> bool {
        match change {
            Change::Pod { name, image } => {
                let image = image.rsplit_once('@').map_or(image.as_str(), |(_, digest)| digest);
                self.once(format!("pod {name}"), format!("daemon: pod {name} runs, of release {}", short(image)));
                false
            }
            Change::Progress(progress) => {
                self.components(&progress);
                false
            }
            Change::Version(version) => {
                self.conditions(&version);
                self.release.as_ref().is_some_and(|release| follow::completed(&version, release))
            }
        }
    }

    fn components(&mut self, progress: &Progress) {
        // The record may still be that of the release before.
        if self.release.as_ref().is_none_or(|release| release.image != progress.release.image) {
            return;
        }
        for node in &progress.nodes {
            if node.state == NodeState::Pending {
                continue;
            }
            let text = format!("{:<30} {:<8} {}", node.id, state(node.state), detail(node));
            self.once(node.id.clone(), text.trim_end().to_owned());
        }
    }

    fn conditions(&mut self, version: &ClusterVersion) {
        for (type_, wanted) in [("ReleaseAccepted", ConditionStatus::True), ("Failing", ConditionStatus::False)] {
            let Some(condition) = follow::condition(version, type_) else { continue };
            let fine = condition.status == wanted;
            let known = self.said.contains_key(type_);
            let text = format!("{type_}={:?} {}", condition.status, short(&condition.message));
            // What is as it should be is news only after it was not.
            if fine && !known {
                self.said.insert(type_.to_owned(), text);
            } else {
                self.once(type_.to_owned(), text);
            }
        }
    }

    fn once(&mut self, subject: String, text: String) {
        if self.said.get(&subject) != Some(&text) {
            self.say(&text);
            self.said.insert(subject, text);
        }
    }
}

fn state(state: NodeState) -> &'static str {
    match state {
        NodeState::Pending => "pending",
        NodeState::Running => "applies",
        NodeState::Waiting => "waits",
        NodeState::Failing => "fails",
        NodeState::Done => "done",
    }
}

/// Counts move too often to be lines; what is waited for is worth one.
fn detail(node: &NodeProgress) -> String {
    match (node.state, node.started, node.finished) {
        (NodeState::Done, Some(from), Some(to)) => {
            format!("{} objects in {:.1} s", node.total, to.duration_since(from).as_secs_f64())
        }
        (NodeState::Failing, ..) => node.error.clone(),
        _ => node.waiting.iter().map(waiting).collect::<Vec<_>>().join("; "),
    }
}

fn waiting(what: &WaitingFor) -> String {
    let since = what.since.map(|since| format!(" since {}", clock(since))).unwrap_or_default();
    let place = if what.namespace.is_empty() { String::new() } else { format!("{}/", what.namespace) };
    let message = if what.message.is_empty() { &what.reason } else { &what.message };
    format!("for {} {place}{}: {message}{since}", what.kind, what.name)
}

fn clock(time: Timestamp) -> String {
    time.strftime("%H:%M:%S").to_string()
}

/// Digests are for machines; eight characters are enough to tell one from another.
fn short(text: &str) -> String {
    let mut parts = text.split("sha256:");
    let mut short = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let digits = part.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(part.len());
        let (hex, rest) = part.split_at(digits);
        short.push_str(&format!("sha256:{}{rest}", hex.get(..8).unwrap_or(hex)));
    }
    short
}

/// The history as a table.
pub fn history(entries: &[HistoryEntry]) {
    println!("  {:<8} {:<10} {:<9} {:<21} {:<21} seconds", "version", "state", "verified", "started", "completed");
    for entry in entries {
        let started = entry.started_time.0;
        let state = if entry.state == HistoryState::Completed { "Completed" } else { "Partial" };
        let (completed, seconds) = match &entry.completion_time {
            Some(time) => (time.0.to_string(), time.0.duration_since(started).as_secs().to_string()),
            None => ("-".to_owned(), "-".to_owned()),
        };
        let (version, verified) = (&entry.version, entry.verified);
        println!("  {version:<8} {state:<10} {verified:<9} {:<21} {completed:<21} {seconds}", started.to_string());
    }
}
