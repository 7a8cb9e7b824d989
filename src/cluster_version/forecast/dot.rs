//! A plan in the DOT language of Graphviz: stages with their nodes, what these write and wait for, and their order.

use super::{Forecast, Node};
use std::fmt::Write;

/// For `dot -Tsvg`.
pub(crate) fn dot(forecast: &Forecast) -> String {
    let mut out = String::from("digraph plan {\n  rankdir=LR;\n  node [shape=box];\n");
    let title = format!("{} to {}", forecast.from.release.version, forecast.to.release.version);
    // Writing into a String cannot fail.
    let _ = writeln!(out, "  label={};", quoted(&title));
    for stage in &forecast.stages {
        let _ =
            writeln!(out, "  subgraph cluster_{} {{\n    label={};", stage.number, quoted(&stage_label(stage.number)));
        for node in &stage.nodes {
            let (text, writes) = label(node);
            let fill = if writes { " style=filled fillcolor=lightyellow" } else { "" };
            let _ = writeln!(out, "    {} [label={}{fill}];", quoted(&node.id), quoted(&text));
        }
        out.push_str("  }\n");
    }
    for node in forecast.stages.iter().flat_map(|stage| &stage.nodes) {
        for before in &node.after {
            let _ = writeln!(out, "  {} -> {};", quoted(before), quoted(&node.id));
        }
    }
    out.push_str("}\n");
    out
}

fn stage_label(number: usize) -> String {
    format!("stage {number}")
}

fn label(node: &Node) -> (String, bool) {
    let mut lines = vec![node.id.clone()];
    let mut leave = 0;
    for step in &node.steps {
        match &step.action {
            super::Action::Leave { .. } => leave += 1,
            action => lines.push(format!("{} {}", action.word(), step.object)),
        }
    }
    let writes = node.steps.iter().any(|step| step.action.writes());
    if leave > 0 {
        lines.push(format!("{leave} left alone"));
    }
    let gates = node.steps.iter().filter(|step| step.gate.is_some()).count();
    if gates > 0 {
        lines.push(format!("{gates} gates"));
    }
    (lines.join("\n"), writes)
}

/// A quoted DOT string; `\\l` ends a line and aligns it to the left.
fn quoted(text: &str) -> String {
    let escaped = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\l");
    format!("\"{escaped}\"")
}
