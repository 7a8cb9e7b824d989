//! Plans as text: which versions, why, what that writes, and what is in its way.

use super::{Foretold, Plan, Restored, parts};
use crate::cli::layout::{self, Colour, Page, clean};
use crate::olm::forecast::{Change, DefinitionVerdict, Forecast, Verb};
use crate::olm::resolve::answer::{New, Outcome};
use crate::olm::subscription::forecast::{GAVE_UP, Round};
use crate::olm::subscription::why_not::WhyNot;

pub(super) fn text(plan: &Plan, page: &Page) -> String {
    let mut out = String::new();
    for (number, Foretold { round, forecast }) in plan.rounds.iter().enumerate() {
        if plan.rounds.len() > 1 {
            layout::line(page, &mut out, &format!("round {}", number + 1), Colour::Strong);
        }
        answer(round, None, page, &mut out);
        foretold(forecast, page, &mut out);
    }
    unknown(&plan.unknown, page, &mut out);
    out
}

fn unknown(all: &[String], page: &Page, out: &mut String) {
    if !all.is_empty() {
        layout::line(page, out, "Not known beforehand", Colour::Strong);
        all.iter().for_each(|text| layout::paragraph(page, out, "  ", text, Colour::Plain));
    }
}

pub(super) fn restored(found: &Restored, page: &Page) -> String {
    let mut out = String::new();
    for (csv, since) in found.versions() {
        let before =
            if since.is_empty() { "it is not there any more".to_owned() } else { format!("in the place of {since}") };
        layout::line(page, &mut out, &clean(&format!("back to {csv}: {before}")), Colour::Good);
    }
    foretold(&found.forecast, page, &mut out);
    if !found.steps.is_empty() {
        layout::line(page, &mut out, "How to go back", Colour::Strong);
        for (number, step) in found.steps.iter().enumerate() {
            layout::paragraph(page, &mut out, &format!("  {}. ", number + 1), step, Colour::Plain);
        }
    }
    unknown(&found.unknown, page, &mut out);
    out
}

/// Only what is found. `only`: the parts that have this Subscription.
pub(super) fn answers(rounds: &[Round], only: Option<&str>, page: &Page) -> String {
    let mut out = String::new();
    rounds.iter().for_each(|round| answer(round, only, page, &mut out));
    out
}

pub(super) fn why_not(found: &WhyNot, page: &Page) -> String {
    let mut out = String::new();
    let colour = if found.is_coming { Colour::Good } else { Colour::Plain };
    found.lines.iter().for_each(|line| layout::paragraph(page, &mut out, "", line, colour));
    if !found.ways.is_empty() {
        layout::line(page, &mut out, "What would help, one of:", Colour::Plain);
        found.ways.iter().for_each(|way| layout::paragraph(page, &mut out, "- ", way, Colour::Plain));
    }
    out
}

fn answer(round: &Round, only: Option<&str>, page: &Page, out: &mut String) {
    if let Some(cause) = &round.held {
        layout::paragraph(page, out, "", &format!("nothing is looked for: {cause}"), Colour::Bad);
    }
    let mut is_empty = true;
    for part in parts(round, only) {
        match &part.outcome {
            Outcome::Install(new) => {
                is_empty &= new.is_empty();
                new.iter().for_each(|new| told(new, out, page));
            }
            Outcome::GaveUp => layout::paragraph(page, out, "", GAVE_UP, Colour::Bad),
            Outcome::Impossible(failure) => {
                is_empty = false;
                layout::paragraph(page, out, "", &failure.message, Colour::Bad);
                for line in failure.explanation.lines() {
                    layout::paragraph(page, out, "  ", line, Colour::Plain);
                }
            }
        }
    }
    if is_empty && round.held.is_none() {
        out.push_str("nothing is to be installed\n");
    } else if !round.manual.is_empty() && !round.installs().is_empty() {
        let names = round.manual.join(", ");
        let text = format!("somebody has to approve it, because of the Subscriptions {names}");
        layout::paragraph(page, out, "", &text, Colour::Busy);
    }
}

fn told(new: &New, out: &mut String, page: &Page) {
    let replaces = if new.replaces.is_empty() { String::new() } else { format!(", in the place of {}", new.replaces) };
    let (namespace, catalog) = &new.catalog;
    let line = format!("{}{replaces}: channel {} of catalog {namespace}/{catalog}", new.name, new.channel);
    layout::line(page, out, &clean(&line), Colour::Good);
    for reason in &new.reasons {
        layout::paragraph(page, out, "  ", reason, Colour::Plain);
    }
}

fn foretold(forecast: &Forecast, page: &Page, out: &mut String) {
    for text in &forecast.held {
        layout::paragraph(page, out, "", &format!("will hold it: {text}"), Colour::Bad);
    }
    if !forecast.changes.is_empty() {
        let rest = match forecast.unchanged {
            0 => String::new(),
            count => format!(", {count} objects are as they should be"),
        };
        layout::line(page, out, &format!("{} objects are written{rest}", forecast.changes.len()), Colour::Strong);
        forecast.changes.iter().for_each(|it| change(it, page, out));
    }
    if !forecast.rights.is_empty() {
        layout::line(page, out, "New rights", Colour::Strong);
        for it in &forecast.rights {
            let account =
                if it.account.is_empty() { String::new() } else { format!(", ServiceAccount {}", it.account) };
            let scope = if it.everywhere { "in all namespaces" } else { "in the namespace" };
            let line = format!("{}{account}, {scope}: {}", it.of, it.rules.join("; "));
            layout::paragraph(page, out, "  ", &line, Colour::Busy);
        }
    }
    if !forecast.definitions.is_empty() {
        layout::line(page, out, "Definitions", Colour::Strong);
        forecast.definitions.iter().for_each(|it| definition(it, page, out));
    }
}

fn change(change: &Change, page: &Page, out: &mut String) {
    let (word, colour) = match change.verb {
        Verb::Create => ("create", Colour::Good),
        Verb::Update => ("change", Colour::Busy),
        Verb::Replace => ("delete and create again", Colour::Bad),
        Verb::Delete => ("delete", Colour::Bad),
    };
    layout::line(page, out, &clean(&format!("  {word} {}", change.key)), colour);
    for field in &change.fields {
        layout::paragraph(page, out, "    ", &layout::field_text(field), Colour::Plain);
    }
}

fn definition(verdict: &DefinitionVerdict, page: &Page, out: &mut String) {
    let DefinitionVerdict { name, findings, taken, refused } = verdict;
    let findings = if findings.is_empty() { String::new() } else { format!(": {}", findings.join("; ")) };
    layout::paragraph(page, out, "  ", &format!("{name}{findings}"), Colour::Plain);
    for text in taken {
        layout::paragraph(page, out, "    ", &format!("its annotation says that this is taken: {text}"), Colour::Busy);
    }
    for text in refused {
        layout::paragraph(page, out, "    ", &format!("refused: {text}"), Colour::Bad);
    }
}
