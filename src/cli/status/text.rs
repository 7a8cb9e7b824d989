//! The state of an update as text.

use super::installed;
use super::next_step::of_operators;
use super::pools;
use super::view::{Concern, OperatorConcern, Phase, View, component, level};
use crate::cli::layout::{Cell, Colour, Page, ago, clean, duration, line, next_step, paragraph, table};
use crate::cluster_version::api::{HistoryEntry, HistoryState};
use crate::cluster_version::progress::{NodeProgress, NodeState};
use crate::cluster_version::status::conditions::{RELEASE_ACCEPTED, RETRIEVED_UPDATES, UPGRADEABLE};
use crate::diagnosis::Trouble;
use crate::diagnosis::lease::Silence;
use crate::object::condition::ConditionStatus;
use jiff::Timestamp;

/// With more components than this, those that are done or pending are only counted.
const SHOWN: usize = 24;
/// At most this many history entries are shown; JSON has all.
const HISTORY_SHOWN: usize = 8;

pub(crate) fn text(view: &View, page: &Page) -> String {
    let mut out = String::new();
    head(view, page, &mut out);
    silences(view, page, &mut out);
    components(view, page, &mut out);
    slow(view, page, &mut out);
    details(view, page, &mut out);
    for concern in &view.concerns {
        titled(page, &mut out, condition_line(concern, page.now), colour_of(concern), &concern.message);
        next_step(&concern.next_step, page, &mut out);
        if concern.type_ == RELEASE_ACCEPTED {
            next_try(view, page, &mut out);
        }
    }
    operators(view, page, &mut out);
    if let Some(operators) = &view.installed_operators {
        installed::write(operators, page, &mut out);
    }
    pools::write(&view.pools, page, &mut out);
    for text in &view.nodes_without_pool {
        paragraph(page, &mut out, "  ", &clean(text), Colour::Busy);
    }
    if !view.available_updates.is_empty() {
        line(page, &mut out, &format!("\nUpdates available: {}", view.available_updates.join(", ")), Colour::Plain);
    }
    risky_updates(view, page, &mut out);
    for remark in &view.remarks {
        out.push('\n');
        paragraph(page, &mut out, "", remark, Colour::Faint);
    }
    history(view, page, &mut out);
    out
}

fn head(view: &View, page: &Page, out: &mut String) {
    title(view, page, out);
    if !view.target.image.is_empty() {
        line(page, out, &format!("Image {}", view.target.image), Colour::Faint);
    }
    progress(view, page, out);
}

/// The headline, and since when it is so.
pub(crate) fn title(view: &View, page: &Page, out: &mut String) {
    let since = view.since.map(|since| ago(since, page.now));
    let mut parts = vec![headline(view)];
    if let (Phase::Installing | Phase::Updating | Phase::Running, Some(ago)) = (view.phase, since) {
        parts.push(format!("for {ago}"));
    }
    line(page, out, &parts.join(", "), Colour::Strong);
}

/// How far it is.
pub(crate) fn progress(view: &View, page: &Page, out: &mut String) {
    for rest in pools::rest(&view.pools).into_iter().filter(|_| view.phase == Phase::Running) {
        paragraph(page, out, "", &rest, Colour::Busy);
    }
    match &view.pass {
        Some(pass) if view.phase != Phase::Running || pass.done < pass.total => {
            let percent = pass.done.saturating_mul(100) / pass.total.max(1);
            let bar = bar(pass.done, pass.total);
            let left = match view.remaining_seconds {
                Some(0) => ", should be done soon".to_owned(),
                Some(seconds) => format!(", about {} left", duration(seconds)),
                None => String::new(),
            };
            let text = format!("{bar} {} of {} manifests ({percent}%){left}", pass.done, pass.total);
            paragraph(page, out, "", &text, Colour::Plain);
        }
        Some(pass) => {
            let components = view.components_done();
            line(page, out, &format!("{} manifests of {components} components in place", pass.done), Colour::Plain);
        }
        None if !view.message.is_empty() => paragraph(page, out, "", &view.message, Colour::Plain),
        None => {}
    }
}

/// What is shown is only as good as who has written it: that somebody does not write any more, and then each cause.
pub(crate) fn of_silence(silence: &Silence, now: Timestamp) -> Vec<Trouble> {
    let ago = silence.since.map(|since| format!(" ({} ago)", ago(since, now))).unwrap_or_default();
    // A cause says better what to do.
    let next_step = if silence.causes.is_empty() { silence.next_step.clone() } else { String::new() };
    let told = Trouble { object: format!("Not up to date{ago}"), message: silence.message.clone(), next_step };
    let cause =
        |cause: &Trouble| Trouble { object: format!("Why, as far as is known: {}", cause.object), ..cause.clone() };
    std::iter::once(told).chain(silence.causes.iter().map(cause)).collect()
}

fn silences(view: &View, page: &Page, out: &mut String) {
    for silence in &view.silences {
        out.push('\n');
        for (position, told) in of_silence(silence, page.now).iter().enumerate() {
            let (indent, colour) = if position == 0 { ("", Colour::Bad) } else { ("  ", Colour::Plain) };
            paragraph(page, out, indent, &format!("{}: {}", told.object, told.message), colour);
            next_step(&told.next_step, page, out);
        }
        if silence.causes.len() > 1 {
            line(page, out, "  Each of these may be the reason", Colour::Faint);
        }
    }
}

/// The headline, without times.
pub(crate) fn headline(view: &View) -> String {
    let target = if view.target.version.is_empty() { &view.target.image } else { &view.target.version };
    let target = clean(target);
    match view.phase {
        Phase::Unknown if target.is_empty() => {
            "Nothing is known yet: there is no ClusterVersion, or the daemon has not read it".to_owned()
        }
        Phase::Unknown => format!("Release {target}"),
        Phase::Installing => format!("Installing {target}"),
        Phase::Updating if view.version == view.target.version => format!("Applying {target} again"),
        Phase::Updating => format!("Updating {} → {target}", clean(&view.version)),
        Phase::Running => format!("Running {target}"),
    }
}

fn bar(done: usize, total: usize) -> String {
    const CELLS: usize = 20;
    let full = (done.saturating_mul(CELLS) / total.max(1)).min(CELLS);
    format!("[{}{}]", "#".repeat(full), ".".repeat(CELLS - full))
}

fn components(view: &View, page: &Page, out: &mut String) {
    let steady = view.phase == Phase::Running;
    let many = steady || view.components.len() > SHOWN;
    let folded = |node: &NodeProgress| many && matches!(node.state, NodeState::Done | NodeState::Pending);
    let shown: Vec<&NodeProgress> = view.components.iter().filter(|node| !folded(node)).collect();
    let mut rows: Vec<Vec<Cell>> = shown.iter().map(|node| row(node, page.now)).collect();
    if !rows.is_empty() {
        let titles = ["COMPONENT", "LEVEL", "STATE", "DONE", "TIME", "WAITS FOR"];
        rows.insert(0, titles.map(|title| (title.to_owned(), Colour::Faint)).to_vec());
        out.push('\n');
        table(page, out, &rows);
    }
    if many && !steady {
        let count = |state| view.components.iter().filter(|node| node.state == state).count();
        let text = format!("{} components done, {} pending", count(NodeState::Done), count(NodeState::Pending));
        line(page, out, &text, Colour::Faint);
    }
}

fn row(node: &NodeProgress, now: Timestamp) -> Vec<Cell> {
    let colour = match node.state {
        NodeState::Done => Colour::Good,
        NodeState::Pending => Colour::Faint,
        NodeState::Running => Colour::Plain,
        NodeState::Waiting => Colour::Busy,
        NodeState::Failing => Colour::Bad,
    };
    let took = node.started.map(|started| ago(started, node.finished.unwrap_or(now))).unwrap_or_default();
    vec![
        (clean(component(&node.id)).into_owned(), Colour::Plain),
        (clean(level(&node.id)).into_owned(), Colour::Faint),
        (state_word(node.state).to_owned(), colour),
        (format!("{}/{}", node.done, node.total), Colour::Plain),
        (took, Colour::Plain),
        (reason(node, now), colour),
    ]
}

pub(crate) fn state_word(state: NodeState) -> &'static str {
    match state {
        NodeState::Done => "done",
        NodeState::Pending => "pending",
        NodeState::Running => "applying",
        NodeState::Waiting => "waiting",
        NodeState::Failing => "failing",
    }
}

/// What a node waits for and since when, and its last error.
fn reason(node: &NodeProgress, now: Timestamp) -> String {
    let waits = node.waiting.iter().map(|waiting| {
        let since = waiting.since.map(|since| format!(" (since {})", ago(since, now))).unwrap_or_default();
        format!("{}{since}", awaited(waiting))
    });
    let mut parts: Vec<String> = waits.collect();
    if !node.error.is_empty() && !node.waiting.iter().any(|waiting| waiting.message == node.error) {
        parts.push(clean(&node.error).into_owned());
    }
    parts.join("; ")
}

/// `Kind namespace/name: message`.
pub(crate) fn awaited(waiting: &crate::cluster_version::progress::WaitingFor) -> String {
    let place = if waiting.namespace.is_empty() { String::new() } else { format!("{}/", waiting.namespace) };
    let why = if waiting.message.is_empty() { &waiting.reason } else { &waiting.message };
    clean(&format!("{} {place}{}: {why}", waiting.kind, waiting.name)).into_owned()
}

/// For example `Failing for 3m 2s: ClusterOperatorDegraded`.
pub(crate) fn condition_line(concern: &Concern, now: Timestamp) -> String {
    let reason = clean(&concern.reason);
    format!("{}{} for {}: {reason}", clean(&concern.type_), concern.status_text(), ago(concern.since, now))
}

pub(crate) fn colour_of(concern: &Concern) -> Colour {
    // Unknown means that a release is being retrieved or an operator is slow, which is not a failure; nor is it one that the next
    // minor version has to wait, or that the update service does not answer.
    let harmless = matches!(concern.type_.as_str(), UPGRADEABLE | RETRIEVED_UPDATES);
    let fine = concern.status == crate::object::condition::ConditionStatus::Unknown || harmless;
    if fine { Colour::Busy } else { Colour::Bad }
}

/// Components that take longer than ever in this cluster.
fn slow(view: &View, page: &Page, out: &mut String) {
    for slow in &view.slow {
        let (least, most) =
            slow.before.iter().fold((f64::MAX, 0.0_f64), |(low, high), it| (low.min(*it), high.max(*it)));
        let updates = match slow.before.len() {
            1 => "the update before".to_owned(),
            n => format!("the {n} updates before"),
        };
        let seconds = |time: f64| duration(time.clamp(0.0, 3.2e9).ceil() as u64);
        let range =
            if slow.before.len() == 1 { seconds(most) } else { format!("{} to {}", seconds(least), seconds(most)) };
        let text = format!("{} takes {} by now, and took {range} in {updates}", slow.component, seconds(slow.seconds));
        paragraph(page, out, "", &text, Colour::Busy);
    }
}

/// Pods behind what is waited for.
fn details(view: &View, page: &Page, out: &mut String) {
    for detail in &view.details {
        line(page, out, &format!("\nBehind {}", clean(&detail.object)), Colour::Strong);
        for cause in &detail.causes {
            paragraph(page, out, "  ", &format!("{}: {}", cause.object, cause.message), Colour::Plain);
            next_step(&cause.next_step, page, out);
        }
        if detail.more > 0 {
            // Without --details there is one.
            let hint = if detail.causes.len() > 1 { "" } else { " (cvo status --details shows up to ten)" };
            line(page, out, &format!("  and {} more{hint}", detail.more), Colour::Faint);
        }
    }
}

/// When a release that was refused is tried again.
fn next_try(view: &View, page: &Page, out: &mut String) {
    let Some(again) = view.refused.as_ref().and_then(|refused| refused.again) else { return };
    let text = if again > page.now {
        format!("It is tried again in {}, and at once if the ClusterVersion changes", ago(page.now, again))
    } else {
        "It is being tried again".to_owned()
    };
    paragraph(page, out, "  ", &text, Colour::Plain);
}

fn titled(page: &Page, out: &mut String, title: String, colour: Colour, message: &str) {
    out.push('\n');
    line(page, out, title.trim_end_matches([':', ' ']), colour);
    for part in message.lines().filter(|part| !part.trim().is_empty()) {
        paragraph(page, out, "  ", part, Colour::Plain);
    }
}

fn operators(view: &View, page: &Page, out: &mut String) {
    if view.operators.is_empty() {
        return;
    }
    line(page, out, "\nUnhealthy operators", Colour::Strong);
    for operator in &view.operators {
        paragraph(page, out, "  ", &operator_line(operator, Some(page.now)), Colour::Plain);
    }
    match view.operators.as_slice() {
        [operator] => next_step(&operator.next_step, page, out),
        operators => {
            let names: Vec<&str> = operators.iter().map(|operator| operator.name.as_str()).collect();
            next_step(&of_operators(&names), page, out);
        }
    }
}

fn risky_updates(view: &View, page: &Page, out: &mut String) {
    if !view.risky_updates.is_empty() {
        line(page, out, "\nUpdates with risks", Colour::Strong);
    }
    for update in &view.risky_updates {
        let verdict = match update.recommended {
            ConditionStatus::False => "not recommended",
            ConditionStatus::True | ConditionStatus::Unknown => "not known whether recommended",
        };
        let reason = if update.reason.is_empty() { String::new() } else { format!(", {}", update.reason) };
        line(page, out, &format!("  {} ({verdict}{reason})", update.version), Colour::Plain);
        for part in update.message.lines().filter(|part| !part.trim().is_empty()) {
            paragraph(page, out, "    ", part, Colour::Faint);
        }
    }
    if !view.left_out.is_empty() {
        out.push('\n');
        paragraph(page, out, "", &view.left_out, Colour::Faint);
    }
}

/// For example `network is degraded for 3m 2s: RolloutFailed: message`; the duration is left out without `now`.
pub(crate) fn operator_line(operator: &OperatorConcern, now: Option<Timestamp>) -> String {
    let state = match operator.state {
        "Degraded" => "is degraded",
        "NotAvailable" => "is not available",
        _ => "has not reported",
    };
    let since = operator.since.zip(now).map(|(since, now)| format!(" for {}", ago(since, now))).unwrap_or_default();
    clean(&format!("{} {state}{since}: {}", operator.name, cause(&operator.reason, &operator.message))).into_owned()
}

/// `reason: message`, or the one that is not empty.
pub(crate) fn cause(reason: &str, message: &str) -> String {
    let parts: Vec<&str> = [reason, message].into_iter().filter(|text| !text.is_empty()).collect();
    parts.join(": ")
}

fn history(view: &View, page: &Page, out: &mut String) {
    if view.history.is_empty() {
        return;
    }
    line(page, out, "\nHistory", Colour::Strong);
    let titles = ["  VERSION", "STATE", "STARTED", "TOOK", "VERIFIED"];
    let mut rows = vec![titles.map(|title| (title.to_owned(), Colour::Faint)).to_vec()];
    rows.extend(view.history.iter().take(HISTORY_SHOWN).map(history_row));
    table(page, out, &rows);
    let hidden = view.history.len().saturating_sub(HISTORY_SHOWN);
    if hidden > 0 {
        line(page, out, &format!("  and {hidden} older"), Colour::Faint);
    }
}

fn history_row(entry: &HistoryEntry) -> Vec<Cell> {
    let name = if entry.version.is_empty() { &entry.image } else { &entry.version };
    let (state, colour) = match entry.state {
        HistoryState::Completed => ("Completed", Colour::Good),
        HistoryState::Partial => ("Partial", Colour::Busy),
    };
    let took = entry.completion_time.as_ref().map(|end| ago(entry.started_time.0, end.0));
    vec![
        (format!("  {}", clean(name)), Colour::Plain),
        (state.to_owned(), colour),
        (entry.started_time.0.strftime("%Y-%m-%d %H:%M:%SZ").to_string(), Colour::Plain),
        (took.unwrap_or_else(|| "-".to_owned()), Colour::Plain),
        (if entry.verified { "yes" } else { "no" }.to_owned(), Colour::Plain),
    ]
}
