//! Which release to work on, and how (cluster-version §6.1, §6.2).

use crate::api::cluster_version::{
    ClusterVersionSpec, ClusterVersionStatus, HistoryEntry, HistoryState, Release, Update,
};
use crate::graph::Mode;
use serde::Serialize;

/// The release that the spec asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// With an image, unless not even the own one is known.
    pub target: Release,
    /// Failed verification and preconditions become accepted risks. Never set for a release that was not asked for.
    pub force: bool,
    /// The spec asked for this release; otherwise it is the own one for want of a request that can be met.
    pub requested: bool,
    /// What an administrator should know about how the request was understood.
    pub note: Option<String>,
}

/// A release that is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Target {
    pub release: Release,
    pub force: bool,
}

impl Target {
    /// Same image and same force flag: the version takes no part (cluster-version §6.3).
    pub fn is(&self, other: &Target) -> bool {
        self.release.image == other.release.image && self.force == other.force
    }
}

/// Resolves `spec.desiredUpdate`, cleared of what is invalid. A caller whose worker has no work yet starts with `own`
/// whatever this says, and asks again (§6.1).
pub fn choose(spec: &ClusterVersionSpec, status: &ClusterVersionStatus, own: &Release) -> Choice {
    let stay = |note| Choice { target: own.clone(), force: false, requested: false, note };
    let Some(update) = &spec.desired_update else { return stay(None) };
    if !update.mode.is_empty() {
        // Validation refuses it too; an update that nobody asked for is worth two guards.
        return stay(Some(format!("desiredUpdate.mode {:?} is not supported, so nothing is updated", update.mode)));
    }
    let go = |target, note| Choice { target, force: update.force, requested: true, note };
    if !update.image.is_empty() {
        return go(as_asked(update), None);
    }
    let offered = |version: &str| {
        let offers = status.available_updates.iter().flatten();
        offers.into_iter().find(|r| r.version == version && !r.image.is_empty()).cloned()
    };
    if update.architecture == MULTI && own.architecture != MULTI {
        // The first hop changes the architecture alone: same version, other image.
        return match offered(&status.desired.version) {
            Some(release) if !status.desired.version.is_empty() => go(release, None),
            _ => stay(Some(format!(
                "no multi-architecture image of {:?} is among the available updates",
                status.desired.version
            ))),
        };
    }
    if update.version.is_empty() {
        return stay(None);
    }
    if let Some(release) = offered(&update.version) {
        return go(release, None);
    }
    if update.version == own.version && !own.image.is_empty() {
        // There already: nothing is left to be forced.
        return Choice { target: own.clone(), force: false, requested: true, note: None };
    }
    match remembered(&update.version, &status.history) {
        Some(release) => {
            let note =
                format!("version {} is no available update; its image is taken from the history", release.version);
            go(release, Some(note))
        }
        None => stay(Some(format!(
            "version {} is neither an available update nor in the history; give its image as well",
            update.version
        ))),
    }
}

const MULTI: &str = "Multi";

/// Exactly what the request says: an image needs no lookup and need not be in the graph.
fn as_asked(update: &Update) -> Release {
    Release {
        version: update.version.clone(),
        image: update.image.clone(),
        architecture: update.architecture.clone(),
        ..Release::default()
    }
}

/// The newest entry of that version. Validation has always accepted a version that is only in the history, but the
/// original then looked for it among the available updates alone, found nothing and silently stayed. An administrator
/// who goes back to a release by its version, or whose update service is down in the middle of an update, means the
/// image that the history names (§14 no. 7); it is verified like any other.
fn remembered(version: &str, history: &[HistoryEntry]) -> Option<Release> {
    let entry = history.iter().find(|entry| entry.version == version && !entry.image.is_empty())?;
    Some(Release { version: entry.version.clone(), image: entry.image.clone(), ..Release::default() })
}

/// How the first pass over `target` is walked: an installation until any release was completed, reconciling when the
/// target is the newest completed entry, otherwise an update (payload-and-apply §4.1 no. 5).
pub fn mode(history: &[HistoryEntry], target: &Release) -> Mode {
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
    fn a_request_resolves_as_the_table_says() {
        let version = |v: &str| Update { version: v.into(), force: true, ..Update::default() };
        // what, update, image, force, requested, part of the note
        let table = [
            ("unset", None, "img-own", false, false, ""),
            ("risks only", Some(Update { force: true, ..Update::default() }), "img-own", false, false, ""),
            ("image", Some(Update { image: "x".into(), ..version("2.0.0") }), "x", true, true, ""),
            ("offered", Some(version("2.0.0")), "img-2", true, true, ""),
            ("own version", Some(version("1.4.0")), "img-own", false, true, ""),
            ("history", Some(version("1.5.0")), "img-15", true, true, "taken from the history"),
            ("newest of the history", Some(version("0.9.0")), "img-09b", true, true, "taken from the history"),
            ("no image anywhere", Some(version("0.8.0")), "img-own", false, false, "give its image"),
            ("unknown", Some(version("9.9.9")), "img-own", false, false, "give its image"),
            (
                "to multi",
                Some(Update { architecture: "Multi".into(), ..version("2.0.0") }),
                "img-1-multi",
                true,
                true,
                "",
            ),
            (
                "preflight",
                Some(Update { mode: "Preflight".into(), ..version("2.0.0") }),
                "img-own",
                false,
                false,
                "mode",
            ),
            (
                "preflight by image",
                Some(Update { mode: "Preflight".into(), image: "x".into(), ..version("2.0.0") }),
                "img-own",
                false,
                false,
                "mode",
            ),
        ];
        for (what, desired_update, image, force, requested, note) in table {
            let spec = ClusterVersionSpec { desired_update, ..Default::default() };
            let choice = choose(&spec, &status(), &release("1.4.0", "img-own"));
            assert_eq!(
                (choice.target.image.as_str(), choice.force, choice.requested),
                (image, force, requested),
                "{what}"
            );
            match note {
                "" => assert_eq!(choice.note, None, "{what}"),
                part => assert!(choice.note.as_ref().is_some_and(|n| n.contains(part)), "{what}: {:?}", choice.note),
            }
        }
    }

    #[test]
    fn an_offered_release_keeps_its_metadata_and_multi_needs_an_offer() {
        let spec = |architecture: &str| ClusterVersionSpec {
            desired_update: Some(Update {
                version: "2.0.0".into(),
                architecture: architecture.into(),
                ..Default::default()
            }),
            ..Default::default()
        };
        let own = release("1.0.0", "img-1");
        assert_eq!(choose(&spec(""), &status(), &own).target.url, "https://u");
        let multi = Release { architecture: "Multi".into(), ..own.clone() };
        assert_eq!(
            choose(&spec("Multi"), &status(), &multi).target.image,
            "img-2",
            "already multi: an update like any"
        );
        let none = ClusterVersionStatus { available_updates: None, ..status() };
        let choice = choose(&spec("Multi"), &none, &own);
        assert_eq!((choice.target, choice.requested), (own, false));
        assert!(choice.note.is_some());
    }

    #[test]
    fn the_mode_follows_from_history_and_target() {
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
        for (history, image, want) in table {
            assert_eq!(mode(&history, &release("", image)), want, "{history:?} {image}");
        }
    }
}
