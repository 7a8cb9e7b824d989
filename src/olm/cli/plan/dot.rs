//! Plans in the DOT language of Graphviz: Subscriptions, the versions that they get, what these depend on and whose place they take.

use super::Foretold;
use crate::olm::forecast::{Forecast, Verb};
use crate::olm::resolve::answer::New;
use std::collections::BTreeMap;
use std::fmt::Write;

/// For `dot -Tsvg`.
pub(super) fn dot(rounds: &[Foretold]) -> String {
    let mut out = String::from("digraph plan {\n  rankdir=LR;\n  node [shape=box];\n");
    // Writing into a String cannot fail.
    for (number, Foretold { round, forecast }) in rounds.iter().enumerate() {
        let installs = round.installs();
        let _ =
            writeln!(out, "  subgraph cluster_{number} {{\n    label={};", quoted(&format!("round {}", number + 1)));
        for new in &installs {
            let _ = writeln!(
                out,
                "    {} [label={} style=filled fillcolor=lightyellow];",
                quoted(&new.name),
                quoted(&label(new, forecast))
            );
        }
        out.push_str("  }\n");
        for new in &installs {
            edges(new, &installs, &mut out);
        }
    }
    out.push_str("}\n");
    out
}

fn edges(new: &New, all: &[&New], out: &mut String) {
    let name = quoted(&new.name);
    for subscription in &new.subscriptions {
        let id = quoted(&format!("Subscription {subscription}"));
        let _ = writeln!(out, "  {id} [shape=ellipse];\n  {id} -> {name};");
    }
    if !new.replaces.is_empty() {
        let _ = writeln!(out, "  {} -> {name} [label=\"replaced by\" style=dashed];", quoted(&new.replaces));
    }
    let requires = |other: &&&New| {
        let text = format!("bundle {} requires ", other.name);
        new.reasons.iter().any(|reason| reason.starts_with(&text))
    };
    for other in all.iter().filter(requires) {
        let _ = writeln!(out, "  {} -> {name} [label=requires];", quoted(&other.name));
    }
}

/// Its name and channel, and how many objects it writes.
fn label(new: &New, forecast: &Forecast) -> String {
    let mut counts: BTreeMap<Verb, usize> = BTreeMap::new();
    for change in forecast.changes.iter().filter(|change| change.of == new.name) {
        *counts.entry(change.verb).or_default() += 1;
    }
    let word = |verb: Verb| match verb {
        Verb::Create => "created",
        Verb::Update => "changed",
        Verb::Replace => "created again",
        Verb::Delete => "deleted",
    };
    let counts: Vec<String> = counts.into_iter().map(|(verb, count)| format!("{count} {}", word(verb))).collect();
    let channel = format!("channel {} of {}/{}", new.channel, new.catalog.0, new.catalog.1);
    format!("{}\n{channel}\n{}\n", new.name, counts.join(", "))
}

/// A quoted DOT string; `\\l` ends a line and aligns it to the left.
fn quoted(text: &str) -> String {
    let escaped = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\l");
    format!("\"{escaped}\"")
}
