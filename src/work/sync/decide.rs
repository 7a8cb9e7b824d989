//! What the main loop does next, as a pure function of the situation (cluster-version §6; payload-and-apply §4.1, §4.2).

use crate::api::{ClusterVersionSpec, ClusterVersionStatus, HistoryState, Release};
use crate::graph::Mode;
use crate::payload::ApplyFilter;
use crate::updates::{self, Target};
use jiff::Timestamp;
use serde::Serialize;

/// The pass that is running or has ended well.
#[derive(Clone, Debug)]
pub struct Running<'a> {
    pub image: &'a str,
    pub mode: Mode,
    /// What it was begun with.
    pub filter: &'a ApplyFilter,
}

/// All that the decision may depend on.
#[derive(Clone, Debug)]
pub struct Situation<'a> {
    /// The spec with its invalid fields cleared.
    pub spec: &'a ClusterVersionSpec,
    pub status: &'a ClusterVersionStatus,
    /// The release this process was built for.
    pub own: &'a Release,
    pub running: Option<Running<'a>>,
    /// What the release that runs is to be filtered by now.
    pub wanted: &'a ApplyFilter,
    /// The release being loaded.
    pub loading: Option<&'a Target>,
    /// The release whose loading failed, and when to try again.
    pub refused: Option<(&'a Target, Timestamp)>,
    pub now: Timestamp,
}

/// One step of the main loop.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum Action {
    /// Apply the own release.
    StartOwn { mode: Mode },
    /// Retrieve, verify and load another release; what runs goes on meanwhile.
    Load(Target),
    /// The request was withdrawn or replaced.
    StopLoading,
    /// Nothing is asked for beyond what runs: forget about the release that was refused.
    ForgetRefused,
    /// Overrides, capabilities, gates or the feature set changed: begin the pass again with them.
    Restart { mode: Mode },
}

pub fn decide(s: &Situation) -> Vec<Action> {
    let choice = updates::choose(s.spec, s.status, s.own);
    let target = Target { release: choice.target, force: choice.force };
    let Some(running) = &s.running else { return first(s, target) };
    let mut actions = if target.release.image == running.image { settle(s) } else { towards(s, running, target) };
    // What runs follows its filters whatever is asked for next: a release may take long to load, or never be accepted,
    // and an install that ignores another version does not ignore these (payload-and-apply §4.2 steps 5 and 7).
    let replaced = actions.iter().any(|action| matches!(action, Action::StartOwn { .. }));
    if !replaced && !s.wanted.agrees_with(running.filter) {
        let mode = if running.mode == Mode::Install { Mode::Install } else { Mode::Update };
        actions.push(Action::Restart { mode });
    }
    actions
}

/// The first work of a process is its own release, so that the platform is looked after whatever is asked for. The
/// exception is an update that was interrupted before it was handed over: going back to the own release for a moment
/// would be a step the administrator never asked for.
fn first(s: &Situation, target: Target) -> Vec<Action> {
    let start_own = || vec![Action::StartOwn { mode: updates::mode(&s.status.history, s.own) }];
    let newest = s.status.history.first();
    let interrupted = newest
        .is_some_and(|h| h.state == HistoryState::Partial && h.image == target.release.image && h.image != s.own.image)
        && s.status.history.iter().any(|h| h.state == HistoryState::Completed);
    match (s.loading, s.refused) {
        _ if !interrupted => start_own(),
        (Some(loading), _) if loading.is(&target) => vec![],
        (Some(_), _) => vec![Action::StopLoading],
        (None, Some((refused, _))) if refused.is(&target) => start_own(),
        (None, _) => vec![Action::Load(target)],
    }
}

fn towards(s: &Situation, running: &Running, target: Target) -> Vec<Action> {
    // Cancelling an install for another version would break it (payload-and-apply §4.2 step 5).
    if running.mode == Mode::Install {
        return vec![];
    }
    if target.release.image == s.own.image {
        let mut actions = settle(s);
        actions.push(Action::StartOwn { mode: Mode::Update });
        return actions;
    }
    match s.loading {
        Some(loading) if loading.is(&target) => return vec![],
        Some(_) => return vec![Action::StopLoading],
        None => {}
    }
    match s.refused {
        Some((refused, again)) if refused.is(&target) && s.now < again => vec![],
        _ => vec![Action::Load(target)],
    }
}

/// What runs is what is wanted.
fn settle(s: &Situation) -> Vec<Action> {
    let mut actions = Vec::new();
    if s.loading.is_some() {
        actions.push(Action::StopLoading);
    }
    if s.refused.is_some() {
        actions.push(Action::ForgetRefused);
    }
    actions
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{ComponentOverride, HistoryEntry, Update};
    use crate::payload::{Capabilities, Filter};
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use std::collections::BTreeSet;

    fn release(version: &str) -> Release {
        Release { version: version.into(), image: format!("r@sha256:{version}"), ..Release::default() }
    }

    fn history(entries: &[(HistoryState, &str)]) -> ClusterVersionStatus {
        let entry = |(state, version): &(HistoryState, &str)| HistoryEntry {
            state: *state,
            started_time: Time(Timestamp::UNIX_EPOCH),
            completion_time: None,
            version: (*version).into(),
            image: release(version).image,
            verified: false,
            accepted_risks: String::new(),
        };
        ClusterVersionStatus { history: entries.iter().map(entry).collect(), ..ClusterVersionStatus::default() }
    }

    fn asking(version: &str) -> ClusterVersionSpec {
        let update = Update { image: release(version).image, version: version.into(), ..Update::default() };
        ClusterVersionSpec { desired_update: Some(update), ..ClusterVersionSpec::default() }
    }

    fn target(version: &str) -> Target {
        Target { release: release(version), force: false }
    }

    struct Case {
        name: &'static str,
        spec: ClusterVersionSpec,
        status: ClusterVersionStatus,
        running: Option<(&'static str, Mode)>,
        loading: Option<&'static str>,
        /// Version and seconds from now until it is tried again.
        refused: Option<(&'static str, i64)>,
        expected: Vec<Action>,
    }

    /// §10.14, §10.15, §10.16: how a process begins; that a running pass goes on while another release is retrieved or refused; an install stays one.
    #[test]
    fn one_step_for_every_situation() {
        use HistoryState::{Completed, Partial};
        let none = ClusterVersionSpec::default;
        let done = || history(&[(Completed, "1")]);
        let stuck = || history(&[(Partial, "2"), (Completed, "1")]);
        let own = |mode| vec![Action::StartOwn { mode }];
        let load = |version| vec![Action::Load(target(version))];
        let steady = Some(("1", Mode::Reconcile));
        let case = |name, spec, status, running, loading, refused, expected| Case {
            name,
            spec,
            status,
            running,
            loading,
            refused,
            expected,
        };
        let cases = [
            case("fresh cluster", none(), history(&[]), None, None, None, own(Mode::Install)),
            case("restart, completed", none(), done(), None, None, None, own(Mode::Reconcile)),
            case("a request waits for the first work", asking("2"), done(), None, None, None, own(Mode::Reconcile)),
            case(
                "successor",
                asking("1"),
                history(&[(Partial, "1"), (Completed, "0")]),
                None,
                None,
                None,
                own(Mode::Update),
            ),
            case("interrupted before the hand-over", asking("2"), stuck(), None, None, None, load("2")),
            case("the same, loading", asking("2"), stuck(), None, Some("2"), None, vec![]),
            case("the same, refused", asking("2"), stuck(), None, None, Some(("2", 10)), own(Mode::Update)),
            case("nothing asked", none(), done(), steady, None, None, vec![]),
            case("asked", asking("2"), done(), steady, None, None, load("2")),
            case("loading", asking("2"), done(), steady, Some("2"), None, vec![]),
            case(
                "asked for another while loading",
                asking("3"),
                done(),
                steady,
                Some("2"),
                None,
                vec![Action::StopLoading],
            ),
            case("withdrawn while loading", none(), done(), steady, Some("2"), None, vec![Action::StopLoading]),
            case("refused, not yet", asking("2"), done(), steady, None, Some(("2", 10)), vec![]),
            case("refused, due", asking("2"), done(), steady, None, Some(("2", -10)), load("2")),
            case("refused, another asked", asking("3"), done(), steady, None, Some(("2", 10)), load("3")),
            case("refused, withdrawn", none(), done(), steady, None, Some(("2", 10)), vec![Action::ForgetRefused]),
            case(
                "during install",
                asking("2"),
                history(&[(Partial, "1")]),
                Some(("1", Mode::Install)),
                None,
                None,
                vec![],
            ),
            case(
                "withdrawn before the hand-over",
                none(),
                stuck(),
                Some(("2", Mode::Update)),
                None,
                None,
                own(Mode::Update),
            ),
        ];
        for case in cases {
            let (own, filter) = (release("1"), ApplyFilter::default());
            let image = case.running.map(|(v, _)| release(v).image);
            let loading = case.loading.map(target);
            let refused = case.refused.map(|(v, _)| target(v));
            let at = case.refused.map(|(_, s)| Timestamp::from_second(s).unwrap());
            let running =
                case.running.map(|(_, mode)| Running { image: image.as_deref().unwrap(), mode, filter: &filter });
            let situation = Situation {
                spec: &case.spec,
                status: &case.status,
                own: &own,
                running,
                wanted: &filter,
                loading: loading.as_ref(),
                refused: refused.as_ref().zip(at),
                now: Timestamp::UNIX_EPOCH,
            };
            assert_eq!(decide(&situation), case.expected, "{}", case.name);
        }
    }

    fn set(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn enabling(names: &[&str]) -> Option<Capabilities> {
        Some(Capabilities { enabled: set(names), ..Capabilities::default() })
    }

    fn gates(names: &[&str]) -> Filter {
        Filter { feature_gates: Some(set(names)), ..Filter::default() }
    }

    /// What the pass was begun with.
    fn begun() -> ApplyFilter {
        ApplyFilter { load: gates(&["A"]), capabilities: enabling(&["Console"]), overrides: Vec::new() }
    }

    /// §10.15, §10.16: each change of what the cluster filters by begins the pass again, and an install stays one.
    #[test]
    fn a_changed_filter_begins_the_pass_again_but_an_install_stays_one() {
        let hidden = ComponentOverride { kind: "Deployment".into(), unmanaged: true, ..ComponentOverride::default() };
        let told = Capabilities { implicit: set(&["Console"]), ..enabling(&["Console"]).unwrap() };
        let table = [
            ("nothing", begun(), false),
            ("overrides", ApplyFilter { overrides: vec![hidden], ..begun() }, true),
            ("capabilities", ApplyFilter { capabilities: enabling(&["Build", "Console"]), ..begun() }, true),
            ("only who asked for them", ApplyFilter { capabilities: Some(told), ..begun() }, false),
            ("gates", ApplyFilter { load: gates(&["A", "B"]), ..begun() }, true),
            (
                "feature set",
                ApplyFilter { load: Filter { feature_set: Some("OKD".into()), ..gates(&["A"]) }, ..begun() },
                true,
            ),
        ];
        let (spec, own) = (ClusterVersionSpec::default(), release("1"));
        let status = history(&[(HistoryState::Completed, "1")]);
        for (name, wanted, restarts) in table {
            for (mode, next) in
                [(Mode::Reconcile, Mode::Update), (Mode::Update, Mode::Update), (Mode::Install, Mode::Install)]
            {
                let situation = Situation {
                    spec: &spec,
                    status: &status,
                    own: &own,
                    running: Some(Running { image: &own.image, mode, filter: &begun() }),
                    wanted: &wanted,
                    loading: None,
                    refused: None,
                    now: Timestamp::UNIX_EPOCH,
                };
                let expected = if restarts { vec![Action::Restart { mode: next }] } else { vec![] };
                assert_eq!(decide(&situation), expected, "{name} {mode:?}");
            }
        }
    }

    /// §10.16: what runs follows its filters while another release is asked for, loaded, refused or ignored; and its
    /// restart is not asked for twice, nor instead of the return to the own release.
    #[test]
    fn a_changed_filter_counts_whatever_else_is_asked_for() {
        let (own, wanted) = (release("1"), begun());
        let done = history(&[(HistoryState::Completed, "1")]);
        let again = |mode| Action::Restart { mode };
        let load = Action::Load(target("2"));
        let table = [
            ("asked", asking("2"), "1", Mode::Reconcile, None, vec![load, again(Mode::Update)]),
            ("loading", asking("2"), "1", Mode::Reconcile, Some(target("2")), vec![again(Mode::Update)]),
            ("ignored in an install", asking("2"), "1", Mode::Install, None, vec![again(Mode::Install)]),
            (
                "back",
                ClusterVersionSpec::default(),
                "2",
                Mode::Update,
                None,
                vec![Action::StartOwn { mode: Mode::Update }],
            ),
        ];
        for (name, spec, running, mode, loading, expected) in table {
            let image = release(running).image;
            let situation = Situation {
                spec: &spec,
                status: &done,
                own: &own,
                running: Some(Running { image: &image, mode, filter: &ApplyFilter::default() }),
                wanted: &wanted,
                loading: loading.as_ref(),
                refused: None,
                now: Timestamp::UNIX_EPOCH,
            };
            assert_eq!(decide(&situation), expected, "{name}");
        }
    }
}
