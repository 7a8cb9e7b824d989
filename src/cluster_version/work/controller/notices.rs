//! What events on the ClusterVersion say: the steps of loading a release, why one failed, where an update begins and ends, and
//! that the daemon was switched off.

use crate::cluster_version::api::{HistoryEntry, HistoryState};
use crate::cluster_version::status::facts::{LoadStatus, LoadStep};
use crate::object::manifest::ObjectId;
use crate::process::events::{Events, Notice};
use crate::release::api::Release;
use jiff::Timestamp;

/// Most notices about one release that are remembered.
const REMEMBERED: usize = 64;

/// The notice of a step. The reasons are those of the upstream operator.
pub(crate) fn notice(status: &LoadStatus) -> Notice {
    let (warning, reason) = match (&status.outcome, status.step) {
        (None, step) => (false, step.reason()),
        (Some(Ok(())), _) => (false, LoadStep::PayloadLoaded.reason()),
        (Some(Err(_)), LoadStep::RetrievePayload) => (true, "RetrievePayloadFailed"),
        (Some(Err(_)), LoadStep::LoadPayload | LoadStep::PayloadLoaded) => (true, "LoadPayloadFailed"),
        (Some(Err(_)), LoadStep::VerifyPayloadVersion) => (true, "VerifyPayloadVersionFailed"),
        (Some(Err(_)), LoadStep::PreconditionChecks) => (true, "PreconditionBlock"),
    };
    Notice::new(warning, reason, &status.text())
}

/// What the history says since its newest entry was `before`.
pub(crate) fn of_history(before: Option<&HistoryEntry>, history: &[HistoryEntry]) -> Option<Notice> {
    let (newest, earlier) = history.split_first()?;
    let last = earlier.iter().find(|entry| entry.state == HistoryState::Completed);
    let name =
        |entry: &HistoryEntry| if entry.version.is_empty() { entry.image.clone() } else { entry.version.clone() };
    let to = name(newest);
    let same = |entry: &&HistoryEntry| (&entry.image, &entry.started_time) == (&newest.image, &newest.started_time);
    let begun = before.filter(same);
    let (reason, note) = match (begun.map(|entry| entry.state), newest.state, last) {
        (None, HistoryState::Partial, None) => ("InstallStarted", format!("Installing {to}")),
        (None, HistoryState::Partial, Some(last)) => match before.filter(|e| e.state == HistoryState::Partial) {
            Some(given_up) => ("UpdateRetargeted", format!("Updating to {to} instead of {}", name(given_up))),
            None => ("UpdateStarted", format!("Updating from {} to {to}", name(last))),
        },
        (None | Some(HistoryState::Partial), HistoryState::Completed, last) => {
            let ended = newest.completion_time.as_ref().map_or(newest.started_time.0, |time| time.0);
            let took = ended.duration_since(newest.started_time.0).as_secs();
            match last {
                None => ("InstallCompleted", format!("Installed {to} in {took} s")),
                Some(last) => ("UpdateCompleted", format!("Updated from {} to {to} in {took} s", name(last))),
            }
        }
        (Some(_), _, _) => return None,
    };
    Some(Notice::new(false, reason, &note))
}

/// The own Deployment carries the release, and this process is about to be replaced.
pub(crate) fn handed_over(release: &Release, deployment: &ObjectId) -> Notice {
    let note = format!("{deployment} is updated to version=\"{}\" image=\"{}\"", release.version, release.image);
    Notice::new(false, "HandOver", &format!("{note}; its process takes over"))
}

/// What spoke against a release that is applied nevertheless, because it was forced or because it only warns.
pub(crate) fn overridden(release: &Release, risks: &str, forced: bool) -> Notice {
    let subject = format!("version=\"{}\" image=\"{}\"", release.version, release.image);
    match forced {
        true => Notice::new(true, "ChecksOverridden", &format!("Forced: {subject}: {risks}")),
        false => Notice::new(true, "PreconditionWarn", &format!("Accepted in spite of warnings: {subject}: {risks}")),
    }
}

/// What was told about loading a release. A release that is tried again and again for the same cause is told of once.
#[derive(Debug, Default)]
pub(crate) struct Told {
    release: Release,
    notices: Vec<Notice>,
}

impl Told {
    /// Whether the notice about a release is new; remembers it.
    pub(crate) fn is_new(&mut self, release: &Release, notice: &Notice) -> bool {
        if self.release.image != release.image || self.notices.len() >= REMEMBERED {
            *self = Told { release: release.clone(), notices: Vec::new() };
        }
        let new = !self.notices.contains(notice);
        if new {
            self.notices.push(notice.clone());
        }
        new
    }
}

/// Another client has scaled the own Deployment to zero.
pub(crate) fn scaled_to_zero(deployment: &ObjectId) -> Notice {
    let note = format!(
        "{deployment} was scaled to 0 by another client: nothing is reconciled or updated until it is scaled to 1 again"
    );
    Notice::new(true, "ScaledToZero", &note)
}

/// The lease could not be renewed for a while, nor would anything else have been written.
pub(crate) fn could_not_write(since: Timestamp, until: Timestamp, why: &str) -> Notice {
    let seconds = until.duration_since(since).as_secs();
    let at = since.strftime("%Y-%m-%dT%H:%M:%SZ");
    Notice::new(true, "CouldNotWrite", &format!("Nothing could be written for {seconds} s, since {at}: {why}"))
}

impl Events {
    /// Publishes a notice about a ClusterVersion. The event is in the daemon's namespace, where tools expect it.
    pub(crate) fn publish(&self, notice: Notice, name: &str, uid: &str) {
        self.publish_of(notice, "config.openshift.io/v1", "ClusterVersion", name, Some(uid.to_owned()));
    }
}

#[cfg(test)]
mod tests;
