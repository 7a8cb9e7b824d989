//! What the controller does next, as a pure function of the situation.

use super::loading::Stage;
use crate::cluster_version::api::{ClusterVersionStatus, HistoryState};
use crate::cluster_version::graph::Mode;
use crate::cluster_version::updates;
use crate::cluster_version::updates::Target;
use crate::release::ApplyFilter;
use crate::release::api::Release;
use jiff::Timestamp;
use serde::Serialize;

/// The rollout that is running or has completed.
#[derive(Clone, Debug)]
pub(crate) struct Running<'a> {
    pub image: &'a str,
    pub mode: Mode,
    /// What it was begun with.
    pub filter: &'a ApplyFilter,
}

/// A release that is being loaded, or is loaded and not yet started.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Loading<'a> {
    pub target: &'a Target,
    pub stage: Stage,
}

/// All that the decision may depend on.
#[derive(Clone, Debug)]
pub(crate) struct Situation<'a> {
    /// The release that is asked for.
    pub target: &'a Target,
    pub status: &'a ClusterVersionStatus,
    /// The release this process was built for.
    pub own: &'a Release,
    pub running: Option<Running<'a>>,
    /// What the release that runs is to be filtered by now.
    pub filter: &'a ApplyFilter,
    pub loading: Option<Loading<'a>>,
    /// The release whose loading failed, and when to try again.
    pub refused: Option<(&'a Target, Timestamp)>,
    pub now: Timestamp,
}

/// One step of the controller.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) enum Action {
    /// Apply the own release.
    StartOwn { mode: Mode },
    /// Retrieve, verify and load another release. What runs goes on meanwhile.
    Load(Target),
    /// Let the loaded release try itself, since no precondition speaks against it.
    Preflight,
    /// Apply the release that was loaded.
    StartLoaded,
    /// The request was withdrawn or replaced.
    StopLoading,
    /// Nothing is asked for beyond what runs: forget about the release that was refused.
    ForgetRefused,
    /// Overrides, capabilities, gates or the feature set changed: begin the rollout again with them.
    Restart { mode: Mode },
}

pub(crate) fn decide(s: &Situation) -> Vec<Action> {
    let Some(running) = &s.running else { return first(s) };
    let mut actions =
        if s.target.release.image == running.image { keep_running(s) } else { change_release(s, running) };
    // What runs follows its filters whatever is asked for next: a release may take long to load, or never be accepted,
    // and an install that ignores another version does not ignore these.
    let replaced = actions.iter().any(|action| matches!(action, Action::StartOwn { .. } | Action::StartLoaded));
    if !replaced && !s.filter.agrees_with(running.filter) {
        let mode = if running.mode == Mode::Install { Mode::Install } else { Mode::Update };
        actions.push(Action::Restart { mode });
    }
    actions
}

/// The first work of a process is its own release, so that the platform is reconciled whatever is asked for. The
/// exception is an update that was interrupted before the hand-over: going back to the own release for a moment would be
/// a step the administrator never asked for.
fn first(s: &Situation) -> Vec<Action> {
    let start_own = || vec![Action::StartOwn { mode: updates::mode(&s.status.history, s.own) }];
    let newest = s.status.history.first();
    let interrupted = newest.is_some_and(|h| {
        h.state == HistoryState::Partial && h.image == s.target.release.image && h.image != s.own.image
    }) && s.status.history.iter().any(|h| h.state == HistoryState::Completed);
    if !interrupted {
        return start_own();
    }
    match s.refused {
        Some((refused, _)) if s.loading.is_none() && refused.is(s.target) => start_own(),
        _ if s.loading.is_some_and(|l| l.stage == Stage::Blocked && l.target.is(s.target)) => start_own(),
        _ => load(s),
    }
}

fn change_release(s: &Situation, running: &Running) -> Vec<Action> {
    // Cancelling an install for another version would break it.
    if running.mode == Mode::Install {
        return vec![];
    }
    if s.target.release.image == s.own.image {
        let mut actions = keep_running(s);
        actions.push(Action::StartOwn { mode: Mode::Update });
        return actions;
    }
    match s.refused {
        Some((refused, again)) if s.loading.is_none() && refused.is(s.target) && s.now < again => vec![],
        _ => load(s),
    }
}

/// On the way to the target.
fn load(s: &Situation) -> Vec<Action> {
    match s.loading {
        Some(loading) if !loading.target.is(s.target) => vec![Action::StopLoading],
        Some(Loading { stage: Stage::Admitted, .. }) => vec![Action::Preflight],
        Some(Loading { stage: Stage::Ready, .. }) => vec![Action::StartLoaded],
        Some(_) => vec![],
        None => vec![Action::Load(s.target.clone())],
    }
}

/// What runs is what is asked for.
fn keep_running(s: &Situation) -> Vec<Action> {
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
mod tests;
