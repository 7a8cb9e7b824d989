//! Chooses the release to work on, and how to roll it out.

use crate::cluster_version::api::{ClusterVersionSpec, ClusterVersionStatus, HistoryEntry, HistoryState, Update};
use crate::cluster_version::graph::Mode;
use crate::release::api::Release;
use serde::Serialize;

/// The release to work on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Target {
    /// Has an image, unless even that of the running release is unknown.
    pub release: Release,
    /// Failed verification and preconditions become accepted risks. Only ever set for a release that was requested.
    pub force: bool,
    /// How the request was understood, if that needs to be said.
    pub note: String,
}

impl Target {
    /// Same image and same force flag. The version is not compared: the image decides what is applied.
    pub(crate) fn is(&self, other: &Target) -> bool {
        self.release.image == other.release.image && self.force == other.force
    }
}

/// Resolves `spec.desiredUpdate`, whose invalid fields are cleared already. A request that is absent or cannot be met
/// yields the running release, `own`.
pub(crate) fn choose(spec: &ClusterVersionSpec, status: &ClusterVersionStatus, own: &Release) -> Target {
    let stay_with = |note: String| Target { release: own.clone(), force: false, note };
    let stay = || stay_with(String::new());
    let Some(update) = &spec.desired_update else { return stay() };
    if !update.mode.is_empty() {
        // Validation refuses it too: two guards against an update that was not requested.
        return stay();
    }
    let go = |release| Target { release, force: update.force, note: String::new() };
    if !update.image.is_empty() {
        return go(as_requested(update));
    }
    let available = |version: &str| {
        let releases = status.available_updates.iter().flatten();
        releases.into_iter().find(|r| r.version == version && !r.image.is_empty()).cloned()
    };
    if update.architecture == MULTI && own.architecture != MULTI {
        // The first update changes the architecture alone: same version, other image.
        let version = &status.desired.version;
        return match available(version) {
            Some(release) if !version.is_empty() => go(release),
            _ => stay_with(format!(
                "an update to architecture Multi is asked for, but the available updates have none of {version}: choose a \
                 channel that has it"
            )),
        };
    }
    if update.version.is_empty() {
        return stay();
    }
    if let Some(release) = available(&update.version) {
        return go(release);
    }
    if update.version == own.version && !own.image.is_empty() {
        // It is running already, so there is nothing to force.
        return stay();
    }
    match from_history(&update.version, &status.history) {
        Some(release) => {
            let note = "the version is not among the available updates, so the image is that of the history".to_owned();
            Target { note, ..go(release) }
        }
        None => stay(),
    }
}

pub(super) const MULTI: &str = "Multi";

/// The request as a release: an image needs no lookup and need not be in the update graph.
fn as_requested(update: &Update) -> Release {
    Release {
        version: update.version.clone(),
        image: update.image.clone(),
        architecture: update.architecture.clone(),
        ..Release::default()
    }
}

/// The image of the newest history entry of that version. An administrator who goes back to a release by its version,
/// or whose update service is down in the middle of an update, means that image; it is verified like any other.
fn from_history(version: &str, history: &[HistoryEntry]) -> Option<Release> {
    let entry = history.iter().find(|entry| entry.version == version && !entry.image.is_empty())?;
    Some(Release { version: entry.version.clone(), image: entry.image.clone(), ..Release::default() })
}

/// How the first rollout of `target` proceeds: as an installation until any release was completed, reconciling when the
/// target is the newest completed entry, otherwise as an update.
pub(crate) fn mode(history: &[HistoryEntry], target: &Release) -> Mode {
    let completed = |entry: &HistoryEntry| entry.state == HistoryState::Completed;
    match history.first() {
        _ if !history.iter().any(completed) => Mode::Install,
        Some(newest) if completed(newest) && newest.image == target.image => Mode::Reconcile,
        _ => Mode::Update,
    }
}

#[cfg(test)]
mod tests;
