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

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Sentence {
    /// How far it is indented.
    pub depth: usize,
    pub text: String,
    /// Since when it is so, which is said between the text and the rest.
    pub since: Option<Timestamp>,
    pub rest: String,
    pub colour: Colour,
}

impl Sentence {
    fn new(depth: usize, text: String, colour: Colour) -> Sentence {
        Sentence { depth, text, since: None, rest: String::new(), colour }
    }

    fn since(self, since: Option<Timestamp>, rest: &str) -> Sentence {
        Sentence { since, rest: rest.to_owned(), ..self }
    }

    /// `now`: without it nothing is said of since when, so that only what has changed differs.
    fn said(&self, now: Option<Timestamp>) -> String {
        let Sentence { text, since, rest, .. } = self;
        let since = since.zip(now).map(|(since, now)| format!(" since {}", ago(since, now))).unwrap_or_default();
        format!("{text}{since}{rest}")
    }
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
        for sentence in sentences(row) {
            paragraph(page, &mut out, &"  ".repeat(sentence.depth), &sentence.said(Some(page.now)), sentence.colour);
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
        let old = known.iter().find(|old| id(old) == id(row)).map(sentences).unwrap_or_default();
        let old: Vec<String> = old.iter().map(|old| old.said(None)).collect();
        let new = sentences(row).into_iter().map(|new| (new.depth, new.said(None)));
        let new = new.filter(|(_, text)| !old.contains(text));
        // The first sentence begins with the name itself.
        lines.extend(new.map(|(depth, text)| if depth == 0 { text } else { format!("{}: {text}", id(row)) }));
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

/// The last one is what is to be done.
pub(super) fn sentences(row: &Row) -> Vec<Sentence> {
    let mut all = vec![Sentence::new(0, head(row), Colour::Strong)];
    match &row.installed {
        None => all.push(Sentence::new(1, "Nothing is installed.".to_owned(), Colour::Plain)),
        Some(installed) => version("Installed", installed, &mut all),
    }
    for catalog in &row.unhealthy_catalogs {
        let text = format!("Catalog {} is unhealthy", catalog.name);
        all.push(Sentence::new(1, text, Colour::Bad).since(catalog.since, "."));
    }
    for it in &row.conditions {
        let progress = it.type_ == condition::BUNDLE_UNPACKING;
        let colour = if progress || it.type_.ends_with(condition::DEPRECATED) { Colour::Busy } else { Colour::Bad };
        let text = format!("{}{}", it.type_, because(&it.reason));
        all.push(Sentence::new(1, text, colour).since(it.since, "."));
        all.extend(it.message.lines().map(|line| Sentence::new(2, line.to_owned(), Colour::Plain)));
    }
    if let Some(next) = &row.next {
        version("To come", next, &mut all);
    }
    if let Some(hold) = &row.hold {
        let text = format!("OperatorCondition {} holds it: {}", hold.name, hold.message);
        all.push(Sentence::new(2, text, Colour::Busy));
    }
    if let Some(it) = row.plan.as_ref().filter(|plan| !plan.is_complete()) {
        plan(it, &mut all);
    }
    all.push(Sentence::new(1, format!("What to do: {}", row.what_to_do), colour(row)));
    all
}

/// Of an operator as a whole.
pub(super) fn colour(row: &Row) -> Colour {
    match (row.needs_somebody, row.what_to_do.as_str()) {
        (true, _) => Colour::Bad,
        (false, "nothing") => Colour::Good,
        (false, _) => Colour::Busy,
    }
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

fn because(reason: &str) -> String {
    if reason.is_empty() { String::new() } else { format!(" ({reason})") }
}

fn version(lead: &str, it: &Version, all: &mut Vec<Sentence>) {
    let name = &it.name;
    let colour = match it.phase {
        Phase::Succeeded => Colour::Good,
        Phase::Failed => Colour::Bad,
        _ => Colour::Busy,
    };
    all.push(match (&it.phase, it.exists) {
        (_, false) => Sentence::new(1, format!("{lead}: {name}."), Colour::Busy),
        (Phase::None, true) => Sentence::new(1, format!("{lead}: {name}, without a phase yet."), Colour::Busy),
        (Phase::Succeeded, true) => Sentence::new(1, format!("{lead}: {name}, Succeeded"), colour).since(it.since, "."),
        (phase, true) => {
            let message = if it.message.is_empty() { ".".to_owned() } else { format!(": {}", it.message) };
            let text = format!("{lead}: {name}, {}{}", word(phase), because(&it.reason));
            Sentence::new(1, text, colour).since(it.since, &message)
        }
    });
    if it.is_being_deleted {
        all.push(Sentence::new(2, format!("{name} is being deleted."), Colour::Busy));
    }
    for unmet in &it.requirements {
        let Unmet { kind, name, message, .. } = unmet;
        let message = if message.is_empty() { String::new() } else { format!(": {message}") };
        let text = format!("Needs {kind} {name}: {}{message}", word(&unmet.status));
        all.push(Sentence::new(2, text, Colour::Bad));
        some(3, &unmet.parts, all);
    }
    for Workload { name, exists, ready, wanted, in_the_way, fails } in &it.deployments {
        let count = if *exists { format!("{ready} of {wanted} replicas ready") } else { "missing".to_owned() };
        let (way, colour) = match (in_the_way.as_str(), fails) {
            ("", _) => (".".to_owned(), Colour::Plain),
            (way, false) => (format!("; {way}"), Colour::Busy),
            (way, true) => (format!("; {way}"), Colour::Bad),
        };
        all.push(Sentence::new(2, format!("Deployment {name}: {count}{way}"), colour));
    }
}

fn plan(it: &Plan, all: &mut Vec<Sentence>) {
    let phase = word(&it.phase);
    let phase = if phase.is_empty() { "no phase yet" } else { &phase };
    let what = match (it.waits_for_approval(), it.open.len()) {
        // Its steps were not read.
        (true, _) if it.steps == 0 => "; it waits for an approval".to_owned(),
        (true, _) => format!("; it waits for an approval of its {} steps", it.steps),
        (false, 0) => String::new(),
        (false, open) => format!("; {open} of {} steps are not done", it.steps),
    };
    let text = format!("InstallPlan {}: {phase}", it.name);
    all.push(Sentence::new(1, text, Colour::Busy).since(it.since, &format!("{what}.")));
    some(2, &it.waits_for, all);
    match it.waits_for_approval() {
        true => all.extend(it.changes.iter().map(|line| Sentence::new(2, line.clone(), Colour::Plain))),
        false => some(2, &it.open, all),
    }
    all.extend(it.message.lines().map(|line| Sentence::new(2, line.to_owned(), Colour::Bad)));
}

fn some(depth: usize, texts: &[String], all: &mut Vec<Sentence>) {
    all.extend(texts.iter().take(NAMED).map(|text| Sentence::new(depth, text.clone(), Colour::Plain)));
    if texts.len() > NAMED {
        all.push(Sentence::new(depth, format!("and {} more", texts.len() - NAMED), Colour::Plain));
    }
}
