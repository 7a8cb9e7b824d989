//! Operators in sentences, and what has changed between two looks at them.

use super::view::{Plan, Row, Unmet, Version, View, Workload};
use crate::cli::layout::{Colour, Page, ago, clean, dated, paragraph};
use crate::olm::api::cluster_service_version::Phase;
use crate::olm::api::subscription::condition;
use crate::olm::cli::cluster_output::word;
use jiff::Timestamp;

/// So many steps of a plan, and parts of a requirement, are named.
const NAMED: usize = 5;
const NOTHING: &str = "there are no Subscriptions and no ClusterServiceVersions";

struct Sentence {
    /// How far it is indented.
    depth: usize,
    text: String,
    colour: Colour,
}

pub(super) fn text(view: &View, page: &Page) -> String {
    let mut out = String::new();
    if is_empty(view) {
        paragraph(page, &mut out, "", NOTHING, Colour::Plain);
    }
    for (at, row) in view.rows.iter().enumerate() {
        if at > 0 {
            out.push('\n');
        }
        for Sentence { depth, text, colour } in sentences(row, Some(page.now)) {
            paragraph(page, &mut out, &"  ".repeat(depth), &text, colour);
        }
    }
    for (remarks, colour) in [(&view.undecodable, Colour::Bad), (&view.remarks, Colour::Faint)] {
        for remark in remarks {
            out.push('\n');
            paragraph(page, &mut out, "", remark, colour);
        }
    }
    out
}

/// Whether nothing is there. What cannot be read may be.
fn is_empty(view: &View) -> bool {
    view.rows.is_empty() && view.undecodable.is_empty() && view.remarks.is_empty()
}

/// One line for each change, with the time of day (UTC) in front. `before`: nothing at the first look.
pub(super) fn changes(before: Option<&View>, after: &View, now: Timestamp) -> Vec<String> {
    let id = |row: &Row| format!("{}/{}", row.namespace, row.name);
    let known = before.map(|view| view.rows.as_slice()).unwrap_or_default();
    let mut lines = Vec::new();
    for row in &after.rows {
        let old = known.iter().find(|old| id(old) == id(row)).map(|old| sentences(old, None)).unwrap_or_default();
        let new = sentences(row, None).into_iter().filter(|new| old.iter().all(|old| old.text != new.text));
        // The first sentence begins with the name itself.
        lines.extend(new.map(|it| if it.depth == 0 { it.text } else { format!("{}: {}", id(row), it.text) }));
    }
    let gone = known.iter().filter(|old| after.rows.iter().all(|row| id(row) != id(old)));
    lines.extend(gone.map(|old| format!("{}: is gone", id(old))));
    if is_empty(after) && before.is_none_or(|view| !is_empty(view)) {
        lines.push(NOTHING.to_owned());
    }
    for (told, old) in
        [(&after.undecodable, before.map(|view| &view.undecodable)), (&after.remarks, before.map(|view| &view.remarks))]
    {
        lines.extend(told.iter().filter(|it| old.is_none_or(|old| !old.contains(it))).cloned());
    }
    lines.iter().map(|line| dated(now, &clean(line))).collect()
}

/// `now`: without it no sentence says since when, so that only what has changed differs.
fn sentences(row: &Row, now: Option<Timestamp>) -> Vec<Sentence> {
    let mut all = Vec::new();
    let mut say = |depth: usize, text: String, colour: Colour| all.push(Sentence { depth, text, colour });
    say(0, head(row), Colour::Strong);
    match &row.installed {
        None => say(1, "Nothing is installed.".to_owned(), Colour::Plain),
        Some(installed) => version("Installed", installed, now, &mut say),
    }
    for catalog in &row.unhealthy_catalogs {
        say(1, format!("Catalog {} is unhealthy{}.", catalog.name, since(catalog.since, now)), Colour::Bad);
    }
    for it in &row.conditions {
        let progress = it.type_ == condition::BUNDLE_UNPACKING;
        let colour = if progress || it.type_.ends_with(condition::DEPRECATED) { Colour::Busy } else { Colour::Bad };
        say(1, format!("{}{}{}.", it.type_, because(&it.reason), since(it.since, now)), colour);
        it.message.lines().for_each(|line| say(2, line.to_owned(), Colour::Plain));
    }
    if let Some(next) = &row.next {
        version("To come", next, now, &mut say);
    }
    if let Some(hold) = &row.hold {
        say(2, format!("OperatorCondition {} holds it: {}", hold.name, hold.message), Colour::Busy);
    }
    if let Some(it) = row.plan.as_ref().filter(|plan| !plan.is_complete()) {
        plan(it, now, &mut say);
    }
    let colour = match (row.needs_somebody, row.what_to_do.as_str()) {
        (true, _) => Colour::Bad,
        (false, "nothing") => Colour::Good,
        (false, _) => Colour::Busy,
    };
    say(1, format!("What to do: {}", row.what_to_do), colour);
    all
}

fn head(row: &Row) -> String {
    let (namespace, name) = (&row.namespace, &row.name);
    match &row.subscription {
        None => format!("{namespace}/{name}: applied without a Subscription"),
        Some(it) if it.channel.is_empty() => {
            format!("{namespace}/{name}: package {}, any channel of {}", it.package, it.catalog)
        }
        Some(it) => format!("{namespace}/{name}: package {}, channel {} of {}", it.package, it.channel, it.catalog),
    }
}

fn since(since: Option<Timestamp>, now: Option<Timestamp>) -> String {
    since.zip(now).map(|(since, now)| format!(" since {}", ago(since, now))).unwrap_or_default()
}

fn because(reason: &str) -> String {
    if reason.is_empty() { String::new() } else { format!(" ({reason})") }
}

fn version(lead: &str, it: &Version, now: Option<Timestamp>, say: &mut impl FnMut(usize, String, Colour)) {
    let name = &it.name;
    let since = since(it.since, now);
    let colour = match it.phase {
        Phase::Succeeded => Colour::Good,
        Phase::Failed => Colour::Bad,
        _ => Colour::Busy,
    };
    match (&it.phase, it.exists) {
        (_, false) => say(1, format!("{lead}: {name}."), Colour::Busy),
        (Phase::None, true) => say(1, format!("{lead}: {name}, without a phase yet."), Colour::Busy),
        (Phase::Succeeded, true) => say(1, format!("{lead}: {name}, Succeeded{since}."), colour),
        (phase, true) => {
            let message = if it.message.is_empty() { ".".to_owned() } else { format!(": {}", it.message) };
            say(1, format!("{lead}: {name}, {}{}{since}{message}", word(phase), because(&it.reason)), colour);
        }
    }
    if it.is_being_deleted {
        say(2, format!("{name} is being deleted."), Colour::Busy);
    }
    for unmet in &it.requirements {
        let Unmet { kind, name, message, .. } = unmet;
        let message = if message.is_empty() { String::new() } else { format!(": {message}") };
        say(2, format!("Needs {kind} {name}: {}{message}", word(&unmet.status)), Colour::Bad);
        some(3, &unmet.parts, say);
    }
    for Workload { name, exists, ready, wanted, in_the_way, fails } in &it.deployments {
        let count = if *exists { format!("{ready} of {wanted} replicas ready") } else { "missing".to_owned() };
        let (way, colour) = match (in_the_way.as_str(), fails) {
            ("", _) => (".".to_owned(), Colour::Plain),
            (way, false) => (format!("; {way}"), Colour::Busy),
            (way, true) => (format!("; {way}"), Colour::Bad),
        };
        say(2, format!("Deployment {name}: {count}{way}"), colour);
    }
}

fn plan(it: &Plan, now: Option<Timestamp>, say: &mut impl FnMut(usize, String, Colour)) {
    let phase = word(&it.phase);
    let phase = if phase.is_empty() { "no phase yet" } else { &phase };
    let what = match (it.waits_for_approval(), it.open.len()) {
        (true, _) => format!("; it waits for an approval of its {} steps", it.steps),
        (false, 0) => String::new(),
        (false, open) => format!("; {open} of {} steps are not done", it.steps),
    };
    say(1, format!("InstallPlan {}: {phase}{}{what}.", it.name, since(it.since, now)), Colour::Busy);
    some(2, &it.waits_for, say);
    match it.waits_for_approval() {
        true => it.changes.iter().for_each(|line| say(2, line.clone(), Colour::Plain)),
        false => some(2, &it.open, say),
    }
    it.message.lines().for_each(|line| say(2, line.to_owned(), Colour::Bad));
}

fn some(depth: usize, texts: &[String], say: &mut impl FnMut(usize, String, Colour)) {
    texts.iter().take(NAMED).for_each(|text| say(depth, text.clone(), Colour::Plain));
    if texts.len() > NAMED {
        say(depth, format!("and {} more", texts.len() - NAMED), Colour::Plain);
    }
}
