//! A plan as text for people: stage after stage what is written and what is waited for; then what stands in the way, and
//! what is not known.

use crate::cli::status::text::{Cell, Colour, Page, line, paragraph, table};
use crate::graph::Mode;
use crate::plan::{Action, By, Field, Forecast, Node, Now, Severity, Stage, Step};
use serde_json::Value;

/// Characters of a value that are shown.
const VALUE: usize = 60;

/// `all`: with what is left alone, and with nodes that write nothing.
pub fn text(forecast: &Forecast, page: &Page, all: bool) -> String {
    let mut out = String::new();
    head(forecast, page, &mut out);
    for stage in &forecast.stages {
        told_stage(stage, page, all, &mut out);
    }
    blockers(forecast, page, &mut out);
    let named = |ids: &[crate::payload::ObjectId]| ids.iter().map(ToString::to_string).collect::<Vec<_>>();
    let by = |wanted: By| forecast.excluded.iter().filter(move |left_out| left_out.by == wanted);
    let incapable = by(By::Capability).map(|left_out| format!("{}: {}", left_out.object, left_out.reason)).collect();
    let lists = [
        ("Capabilities that get enabled implicitly", forecast.implicit_capabilities.clone()),
        ("Left out by capabilities: not touched", incapable),
        ("Left out by overrides: not touched", named(&forecast.overrides_hide)),
        ("No longer part of the release: they stay, and nobody looks after them", named(&forecast.dropped)),
        ("Not known beforehand", forecast.unknowns.clone()),
    ];
    for (title, items) in lists.into_iter().filter(|(_, items)| !items.is_empty()) {
        line(page, &mut out, &format!("\n{title}"), Colour::Strong);
        for item in items {
            entry(page, &mut out, &item, Colour::Plain);
        }
    }
    let others = by(By::Filter).count();
    if others > 0 {
        let text = format!("\n{others} manifests of the release are not for this cluster; `cvo payload list` says why");
        line(page, &mut out, &text, Colour::Faint);
    }
    out
}

fn head(forecast: &Forecast, page: &Page, out: &mut String) {
    let name = |version: &str| if version.is_empty() { "?".to_owned() } else { version.to_owned() };
    let (from, to) = (name(&forecast.from.release.version), name(&forecast.to.release.version));
    let what = match forecast.mode {
        Mode::Install => format!("Install {to}"),
        Mode::Update if forecast.from.release.image == forecast.to.release.image => format!("Apply {to} again"),
        Mode::Update | Mode::Reconcile => format!("Update {from} → {to}"),
    };
    line(page, out, &format!("{what}, seen from {}", forecast.from.source), Colour::Strong);
    let counts = forecast.counts;
    let parts = [
        (counts.create, "to create"),
        (counts.change, "to change"),
        (counts.replace, "to delete and create anew"),
        (counts.delete, "to delete"),
        (counts.leave, "to leave alone"),
        (counts.hidden, "left out"),
        (counts.refused, "that cannot be done"),
        (counts.unknown, "unknown"),
    ];
    let told: Vec<String> = parts.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} {what}")).collect();
    let gates = forecast.steps().filter(|step| step.gate.is_some()).count();
    let stages = forecast.stages.len();
    paragraph(page, out, "", &format!("{}; {stages} stages, {gates} gates", told.join(", ")), Colour::Plain);
}

fn told_stage(stage: &Stage, page: &Page, all: bool, out: &mut String) {
    let nodes: Vec<&Node> = stage.nodes.iter().filter(|node| all || node.steps.iter().any(is_news)).collect();
    let steps = || stage.nodes.iter().flat_map(|node| &node.steps);
    let gates: Vec<&Step> = steps().filter(|step| step.gate.is_some()).collect();
    let writes = steps().filter(|step| step.action.writes()).count();
    let side_by_side = match stage.nodes.len() {
        1 => "1 component".to_owned(),
        n if stage.nodes.iter().all(|node| stage.nodes.first().is_some_and(|first| first.wave == node.wave)) => {
            format!("{n} components side by side")
        }
        n => format!("{n} components one after the other"),
    };
    let written = if writes == 1 { "1 object written".to_owned() } else { format!("{writes} objects written") };
    let title = format!("\nStage {}: {side_by_side}, {written}, {} gates", stage.number, gates.len());
    line(page, out, &title, Colour::Strong);
    for node in nodes {
        line(page, out, &format!("  {} (wave {})", node.id, node.wave), Colour::Faint);
        let rows: Vec<Vec<Cell>> = node.steps.iter().filter(|step| all || is_news(step)).flat_map(rows).collect();
        table(page, out, &rows);
    }
    waits(page, out, &gates, all);
}

/// Whether a step is worth a line.
fn is_news(step: &Step) -> bool {
    !matches!(step.action, Action::Leave { .. })
}

/// One row for the object, and one for each further field.
fn rows(step: &Step) -> Vec<Vec<Cell>> {
    let colour = match step.action {
        Action::Create => Colour::Good,
        Action::Change { .. } => Colour::Busy,
        Action::Replace { .. } | Action::Delete | Action::Refused { .. } => Colour::Bad,
        Action::Leave { .. } => Colour::Faint,
        Action::Unknown { .. } => Colour::Strong,
    };
    let details: Vec<String> = match &step.action {
        Action::Create | Action::Delete => Vec::new(),
        Action::Change { fields } | Action::Replace { fields } => fields.iter().map(told_field).collect(),
        Action::Leave { why } => vec![(*why).to_owned()],
        Action::Refused { why } | Action::Unknown { why } => vec![why.clone()],
    };
    let mut details = details.into_iter();
    let first = vec![
        (format!("    {:7}", step.action.word()), colour),
        (step.object.to_string(), Colour::Plain),
        (details.next().unwrap_or_default(), Colour::Plain),
    ];
    let further = details
        .map(|detail| vec![(String::new(), Colour::Plain), (String::new(), Colour::Plain), (detail, Colour::Plain)]);
    std::iter::once(first).chain(further).collect()
}

fn told_field(field: &Field) -> String {
    let short = |value: &Option<Value>| match value {
        None => "nothing".to_owned(),
        Some(Value::String(text)) => cut(text),
        Some(other) => cut(&other.to_string()),
    };
    if field.from.is_none() && field.to.is_none() {
        return field.path.clone();
    }
    format!("{}: {} → {}", field.path, short(&field.from), short(&field.to))
}

fn cut(text: &str) -> String {
    if text.chars().count() <= VALUE { text.to_owned() } else { text.chars().take(VALUE).chain(['…']).collect() }
}

/// What is waited for at the end of a stage: all of it, or what is going to move or is not as it should be.
fn waits(page: &Page, out: &mut String, gates: &[&Step], all: bool) {
    let mut quiet = 0;
    for step in gates {
        let Some(gate) = &step.gate else { continue };
        // An open gate behind an object that nobody touches stays open, as far as anybody knows; that of an operator
        // waits for the new version all the same.
        let moves = match gate.now {
            Now::Open => step.action.writes(),
            Now::Unknown => step.action.writes() || step.object.kind == "ClusterOperator",
            Now::Closed | Now::Failing => true,
        };
        if !moves && !all {
            quiet += 1;
            continue;
        }
        let state = match gate.now {
            Now::Open | Now::Unknown => String::new(),
            Now::Closed => format!(" (not now: {})", gate.message),
            Now::Failing => format!(" (failing now: {})", gate.message),
        };
        let colour = if gate.now == Now::Failing { Colour::Bad } else { Colour::Plain };
        paragraph(page, out, "  ", &format!("waits for {} {}{state}", step.object, gate.awaits), colour);
    }
    if quiet > 0 {
        line(page, out, &format!("  {quiet} gates more, of objects that are left alone"), Colour::Faint);
    }
}

fn blockers(forecast: &Forecast, page: &Page, out: &mut String) {
    for (severity, title, colour) in [
        (Severity::Blocks, "Will probably stop the update", Colour::Bad),
        (Severity::Warns, "Worth a look before", Colour::Busy),
    ] {
        let these: Vec<_> = forecast.blockers.iter().filter(|blocker| blocker.severity == severity).collect();
        if these.is_empty() {
            continue;
        }
        line(page, out, &format!("\n{title}"), colour);
        for blocker in these {
            let reason = if blocker.reason.is_empty() { String::new() } else { format!(" ({})", blocker.reason) };
            entry(page, out, &format!("{}{reason}: {}", blocker.object, blocker.message), Colour::Plain);
        }
    }
}

fn entry(page: &Page, out: &mut String, text: &str, colour: Colour) {
    let mut told = String::new();
    paragraph(page, &mut told, "    ", text, colour);
    // The first line begins with a dash in the indentation.
    out.push_str("  - ");
    out.push_str(told.strip_prefix("    ").unwrap_or(&told));
}

#[cfg(test)]
mod tests;
