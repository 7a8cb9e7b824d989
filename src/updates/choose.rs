//! Chooses the release to work on, and how to roll it out.

use crate::api::cluster_version::{
    ClusterVersionSpec, ClusterVersionStatus, HistoryEntry, HistoryState, Release, Update,
};
use crate::graph::Mode;
use serde::Serialize;

/// The release to work on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Target {
    /// Has an image, unless even that of the running release is unknown.
    pub release: Release,
    /// Failed verification and preconditions become accepted risks. Only ever set for a release that was requested.
    pub force: bool,
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
    let stay = || Target { release: own.clone(), force: false };
    let Some(update) = &spec.desired_update else { return stay() };
    if !update.mode.is_empty() {
        // Validation refuses it too: two guards against an update that was not requested.
        return stay();
    }
    let go = |release| Target { release, force: update.force };
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
            _ => stay(),
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
    from_history(&update.version, &status.history).map_or_else(stay, go)
}

const MULTI: &str = "Multi";

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
mod tests {
    use super::*;
    use crate::status::tests::{at, release};

    fn entry(state: HistoryState, version: &str, image: &str) -> HistoryEntry {
        HistoryEntry {
            state,
            started_time: at(0),
            completion_time: None,
            version: version.into(),
            image: image.into(),
            verified: false,
            accepted_risks: String::new(),
        }
    }

    fn status() -> ClusterVersionStatus {
        let rich = Release { url: "https://u".into(), channels: vec!["c".into()], ..release("2.0.0", "img-2") };
        ClusterVersionStatus {
            desired: release("1.0.0", "img-1"),
            available_updates: Some(vec![release("2.0.0", ""), rich, release("1.0.0", "img-1-multi")]),
            history: vec![
                entry(HistoryState::Partial, "1.5.0", "img-15"),
                entry(HistoryState::Completed, "0.9.0", "img-09b"),
                entry(HistoryState::Completed, "0.9.0", "img-09a"),
                entry(HistoryState::Completed, "0.8.0", ""),
            ],
            ..Default::default()
        }
    }

    #[test]
    fn requested_update_resolves_to_a_release() {
        let version = |v: &str| Update { version: v.into(), force: true, ..Update::default() };
        // case, update, image, force
        let table = [
            ("unset", None, "img-own", false),
            ("force without a release", Some(Update { force: true, ..Update::default() }), "img-own", false),
            ("image", Some(Update { image: "x".into(), ..version("2.0.0") }), "x", true),
            ("available", Some(version("2.0.0")), "img-2", true),
            ("own version", Some(version("1.4.0")), "img-own", false),
            ("history", Some(version("1.5.0")), "img-15", true),
            ("newest of two in the history", Some(version("0.9.0")), "img-09b", true),
            ("no image anywhere", Some(version("0.8.0")), "img-own", false),
            ("unknown", Some(version("9.9.9")), "img-own", false),
            ("to multi", Some(Update { architecture: "Multi".into(), ..version("2.0.0") }), "img-1-multi", true),
            ("preflight", Some(Update { mode: "Preflight".into(), ..version("2.0.0") }), "img-own", false),
            (
                "preflight by image",
                Some(Update { mode: "Preflight".into(), image: "x".into(), ..version("2.0.0") }),
                "img-own",
                false,
            ),
        ];
        for (case, desired_update, image, force) in table {
            let spec = ClusterVersionSpec { desired_update, ..Default::default() };
            let target = choose(&spec, &status(), &release("1.4.0", "img-own"));
            assert_eq!((target.release.image.as_str(), target.force), (image, force), "{case}");
        }
    }

    #[test]
    fn available_update_keeps_its_metadata_and_multi_must_be_available() {
        let spec = |architecture: &str| ClusterVersionSpec {
            desired_update: Some(Update {
                version: "2.0.0".into(),
                architecture: architecture.into(),
                ..Default::default()
            }),
            ..Default::default()
        };
        let own = release("1.0.0", "img-1");
        assert_eq!(choose(&spec(""), &status(), &own).release.url, "https://u");
        let multi = Release { architecture: "Multi".into(), ..own.clone() };
        assert_eq!(
            choose(&spec("Multi"), &status(), &multi).release.image,
            "img-2",
            "already multi: an ordinary update"
        );
        let none = ClusterVersionStatus { available_updates: None, ..status() };
        assert_eq!(choose(&spec("Multi"), &none, &own), Target { release: own, force: false });
    }

    #[test]
    fn mode_follows_from_history_and_target() {
        use HistoryState::{Completed, Partial};
        // history, image of the target, mode
        let table = [
            (vec![], "a", Mode::Install),
            (vec![entry(Partial, "1.0.0", "a")], "a", Mode::Install),
            (vec![entry(Completed, "1.0.0", "a")], "a", Mode::Reconcile),
            (vec![entry(Completed, "1.0.0", "a")], "b", Mode::Update),
            (vec![entry(Partial, "1.0.1", "b"), entry(Completed, "1.0.0", "a")], "b", Mode::Update),
            (vec![entry(Partial, "1.0.1", "b"), entry(Completed, "1.0.0", "a")], "a", Mode::Update),
        ];
        for (history, image, expected) in table {
            assert_eq!(mode(&history, &release("", image)), expected, "{history:?} {image}");
        }
    }
}
