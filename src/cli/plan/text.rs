//! A plan as text: what is written and waited for, stage by stage, then what may stop the update and what is not known.

use super::{Catalog, Plan};
use crate::cli::layout::{Cell, Colour, Page, field_text, line, paragraph, table};
use crate::cluster_version::forecast::{Action, ExcludedBy, Forecast, GateState, Node, Severity, Stage, Step};
use crate::cluster_version::graph::Mode;
use crate::olm::fits::PlannedOperator;
use crate::olm::planned::PlannedCatalog;

/// `all`: include objects that are left alone, and nodes that write nothing.
pub(crate) fn text(plan: &Plan, page: &Page, all: bool) -> String {
    let Plan { forecast, catalogs, operators } = plan;
    let mut out = String::new();
    head(forecast, page, &mut out);
    for stage in &forecast.stages {
        stage_text(stage, page, all, &mut out);
    }
    if !catalogs.is_empty() {
        line(page, &mut out, "\nImages of catalogs of operators", Colour::Strong);
        catalogs.iter().for_each(|catalog| catalog_text(catalog, page, &mut out));
    }
    if !operators.is_empty() {
        line(page, &mut out, "\nOperators", Colour::Strong);
        operators.iter().for_each(|operator| operator_text(operator, page, &mut out));
    }
    blockers(forecast, page, &mut out);
    let named = |ids: &[crate::object::manifest::ObjectId]| ids.iter().map(ToString::to_string).collect::<Vec<_>>();
    let by = |cause: ExcludedBy| forecast.excluded.iter().filter(move |excluded| excluded.by == cause);
    let by_capability = by(ExcludedBy::Capability).map(|e| format!("{}: {}", e.object, e.reason)).collect();
    let lists = [
        ("Capabilities that will be enabled implicitly", forecast.implicit_capabilities.clone()),
        ("Excluded by capabilities, not touched", by_capability),
        ("Excluded by overrides, not touched", named(&forecast.overrides_hide)),
        ("No longer part of the release: these objects stay, but are no longer managed", named(&forecast.dropped)),
        ("Not known beforehand", forecast.unknowns.clone()),
    ];
    for (title, items) in lists.into_iter().filter(|(_, items)| !items.is_empty()) {
        line(page, &mut out, &format!("\n{title}"), Colour::Strong);
        for item in items {
            entry(page, &mut out, &item, Colour::Plain);
        }
    }
    let others = by(ExcludedBy::Filter).count();
    if others > 0 {
        let text = format!("\n{others} manifests of the release are excluded by filters; `cvo payload list` says why");
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
    line(page, out, &format!("{what}, starting from {}", forecast.from.source), Colour::Strong);
    let counts = forecast.counts;
    let parts = [
        (counts.create, "to create"),
        (counts.change, "to change"),
        (counts.replace, "to delete and create again"),
        (counts.delete, "to delete"),
        (counts.leave, "to leave alone"),
        (counts.hidden, "excluded"),
        (counts.refused, "that cannot be done"),
        (counts.unknown, "unknown"),
    ];
    let words: Vec<String> = parts.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} {what}")).collect();
    let gates = forecast.steps().filter(|step| step.gate.is_some()).count();
    let stages = forecast.stages.len();
    paragraph(page, out, "", &format!("{}; {stages} stages, {gates} gates", words.join(", ")), Colour::Plain);
    if forecast.verified == Some(true) {
        paragraph(page, out, "", "The release is signed as the running one demands", Colour::Plain);
    }
}

fn stage_text(stage: &Stage, page: &Page, all: bool, out: &mut String) {
    let nodes: Vec<&Node> = stage.nodes.iter().filter(|node| all || node.steps.iter().any(is_shown)).collect();
    let steps = || stage.nodes.iter().flat_map(|node| &node.steps);
    let gates: Vec<&Step> = steps().filter(|step| step.gate.is_some()).collect();
    let writes = steps().filter(|step| step.action.writes()).count();
    let components = match stage.nodes.len() {
        1 => "1 component".to_owned(),
        n if stage.nodes.iter().all(|node| stage.nodes.first().is_some_and(|first| first.wave == node.wave)) => {
            format!("{n} components in parallel")
        }
        n => format!("{n} components one after the other"),
    };
    let written = if writes == 1 { "1 object written".to_owned() } else { format!("{writes} objects written") };
    let title = format!("\nStage {}: {components}, {written}, {} gates", stage.number, gates.len());
    line(page, out, &title, Colour::Strong);
    for node in nodes {
        line(page, out, &format!("  {} (wave {})", node.id, node.wave), Colour::Faint);
        let rows: Vec<Vec<Cell>> = node.steps.iter().filter(|step| all || is_shown(step)).flat_map(rows).collect();
        table(page, out, &rows);
    }
    waits(page, out, &gates, all);
}

/// Whether a step is shown without --all.
fn is_shown(step: &Step) -> bool {
    !matches!(step.action, Action::Leave { .. })
}

/// One row for the object and its first field, and one for each further field.
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
        Action::Change { fields } | Action::Replace { fields } => fields.iter().map(field_text).collect(),
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

/// What the update waits for at the end of a stage: all gates, or those that will close or are not open now.
fn waits(page: &Page, out: &mut String, gates: &[&Step], all: bool) {
    let mut unshown = 0;
    for step in gates {
        let Some(gate) = &step.gate else { continue };
        // An open gate of an object that is not written will probably stay open; that of an operator waits for the new
        // version anyway.
        let moves = match gate.now {
            GateState::Open => step.action.writes(),
            GateState::Unknown => step.action.writes() || step.object.kind == "ClusterOperator",
            GateState::Closed | GateState::Failing => true,
        };
        if !moves && !all {
            unshown += 1;
            continue;
        }
        let state = match gate.now {
            GateState::Open | GateState::Unknown => String::new(),
            GateState::Closed => format!(" (not now: {})", gate.message),
            GateState::Failing => format!(" (failing now: {})", gate.message),
        };
        let colour = if gate.now == GateState::Failing { Colour::Bad } else { Colour::Plain };
        paragraph(page, out, "  ", &format!("waits for {} {}{state}", step.object, gate.awaits), colour);
    }
    if unshown > 0 {
        line(page, out, &format!("  {unshown} more gates, of objects that are left alone"), Colour::Faint);
    }
}

fn catalog_text(catalog: &Catalog, page: &Page, out: &mut String) {
    let PlannedCatalog { namespace, name, from, to, .. } = &catalog.planned;
    let shown = |image: &Option<String>| image.clone().unwrap_or_else(|| "none".to_owned());
    let images = match from == to {
        true => format!("{}, as now", shown(to)),
        false => format!("{} → {}", shown(from), shown(to)),
    };
    let (available, colour) = match (to, catalog.available) {
        (None, _) => ("", Colour::Busy),
        (Some(_), Some(true)) => (" (its registry has it)", if from == to { Colour::Plain } else { Colour::Busy }),
        (Some(_), Some(false)) => (" (its registry does not have it)", Colour::Bad),
        (Some(_), None) => (" (its registry could not be asked)", Colour::Busy),
    };
    entry(page, out, &format!("{namespace}/{name}: {images}{available}"), colour);
}

fn operator_text(operator: &PlannedOperator, page: &Page, out: &mut String) {
    let PlannedOperator { namespace, name, maximum, hindrances, warnings, .. } = operator;
    let (verdict, colour) = match (hindrances.is_empty(), warnings.is_empty()) {
        (false, _) => ("does not fit the release, see below", Colour::Bad),
        (true, false) => ("fits the release, but see below", Colour::Busy),
        (true, true) => ("fits the release", Colour::Plain),
    };
    let maximum = maximum.as_ref().map(|it| format!(" (supports versions up to {it})")).unwrap_or_default();
    entry(page, out, &format!("{namespace}/{name}: {verdict}{maximum}"), colour);
}

fn blockers(forecast: &Forecast, page: &Page, out: &mut String) {
    for (severity, title, colour) in [
        (Severity::Blocks, "Will probably stop the update", Colour::Bad),
        (Severity::Warns, "Worth checking before the update", Colour::Busy),
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
    let mut item = String::new();
    paragraph(page, &mut item, "    ", text, colour);
    // The first line begins with a dash in the indentation.
    out.push_str("  - ");
    out.push_str(item.strip_prefix("    ").unwrap_or(&item));
}

#[cfg(test)]
pub(super) mod tests;
