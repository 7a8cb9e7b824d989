//! What the main loop does next, as a pure function of the situation (cluster-version §6; payload-and-apply §4.1, §4.2).

use crate::api::{ClusterVersionSpec, ClusterVersionStatus, ComponentOverride, HistoryState, Release};
use crate::graph::Mode;
use crate::updates::{self, Target};
use jiff::Timestamp;
use serde::Serialize;

/// The pass that is running or has ended well.
#[derive(Clone, Debug)]
pub struct Running<'a> {
    pub image: &'a str,
    pub mode: Mode,
    pub overrides: &'a [ComponentOverride],
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
    /// The overrides changed: begin the pass again with them.
    Restart { mode: Mode },
}

pub fn decide(s: &Situation) -> Vec<Action> {
    let choice = updates::choose(s.spec, s.status, s.own);
    let target = Target { release: choice.target, force: choice.force };
    let Some(running) = &s.running else { return first(s, target) };
    if target.release.image != running.image {
        return towards(s, running, target);
    }
    let mut actions = settle(s);
    if s.spec.overrides != running.overrides {
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
    use crate::api::{HistoryEntry, Update};
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

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
            let own = release("1");
            let image = case.running.map(|(v, _)| release(v).image);
            let loading = case.loading.map(target);
            let refused = case.refused.map(|(v, _)| target(v));
            let at = case.refused.map(|(_, s)| Timestamp::from_second(s).unwrap());
            let running =
                case.running.map(|(_, mode)| Running { image: image.as_deref().unwrap(), mode, overrides: &[] });
            let situation = Situation {
                spec: &case.spec,
                status: &case.status,
                own: &own,
                running,
                loading: loading.as_ref(),
                refused: refused.as_ref().zip(at),
                now: Timestamp::UNIX_EPOCH,
            };
            assert_eq!(decide(&situation), case.expected, "{}", case.name);
        }
    }

    /// §10.15, §10.16: changed overrides begin the pass again, in an install too.
    #[test]
    fn changed_overrides_begin_the_pass_again_but_an_install_stays_one() {
        let hidden = ComponentOverride { kind: "Deployment".into(), unmanaged: true, ..ComponentOverride::default() };
        let spec = ClusterVersionSpec { overrides: vec![hidden], ..ClusterVersionSpec::default() };
        let (status, own) = (history(&[(HistoryState::Completed, "1")]), release("1"));
        for (mode, expected) in [(Mode::Reconcile, Mode::Update), (Mode::Install, Mode::Install)] {
            let situation = Situation {
                spec: &spec,
                status: &status,
                own: &own,
                running: Some(Running { image: &own.image, mode, overrides: &[] }),
                loading: None,
                refused: None,
                now: Timestamp::UNIX_EPOCH,
            };
            assert_eq!(decide(&situation), vec![Action::Restart { mode: expected }]);
        }
    }
}
