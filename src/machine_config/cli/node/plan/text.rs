//! A plan for nodes as text: pool by pool what changes, what that disrupts, in which order, and what waits.

use crate::cli::layout::{Cell, Colour, Page, clean, line, paragraph, table};
use crate::machine_config::plan::{ChangeLine, DrainPlan, Held, Kept, NodePlan, PoolPlan, Rollout, Stuck, Transition};

/// So many nodes, pods or drains are named.
const NAMED: usize = 10;

pub(super) fn text(plan: &NodePlan, page: &Page) -> String {
    let mut out = String::new();
    for pool in &plan.pools {
        pool_text(pool, page, &mut out);
    }
    for lost in &plan.unselected {
        let text = format!("MachineConfig {}: {}", lost.name, lost.message);
        paragraph(page, &mut out, "", &text, Colour::Bad);
    }
    for refused in &plan.refused {
        paragraph(page, &mut out, "", &format!("{}: {}", refused.name, refused.message), Colour::Bad);
    }
    for remark in &plan.remarks {
        paragraph(page, &mut out, "", remark, Colour::Faint);
    }
    out
}

fn pool_text(pool: &PoolPlan, page: &Page, out: &mut String) {
    let name = clean(&pool.name);
    if let Some(error) = &pool.error {
        let keeps = if pool.from.is_empty() { String::new() } else { format!(", and keeps {}", pool.from) };
        line(page, out, &format!("Pool {name} gets no configuration{keeps}"), Colour::Bad);
        paragraph(page, out, "  ", error, Colour::Bad);
        return;
    }
    if !pool.changes() {
        line(page, out, &format!("Pool {name} does not change"), Colour::Plain);
        return;
    }
    let before = if pool.from.is_empty() { "nothing" } else { &pool.from };
    let to = pool.to.as_deref().unwrap_or_default();
    line(page, out, &format!("Pool {name}: {} → {}", clean(before), clean(to)), Colour::Strong);
    for warning in &pool.warnings {
        paragraph(page, out, "  ", warning, Colour::Busy);
    }
    for transition in &pool.transitions {
        if transition.from != pool.from || pool.transitions.len() > 1 {
            let nodes = named(&transition.nodes);
            let text = format!("{nodes}, which {} {}", has(transition.nodes.len()), clean(&transition.from));
            paragraph(page, out, "  ", &text, Colour::Faint);
        }
        transition_text(transition, page, out);
    }
    if let Some(rollout) = &pool.rollout {
        rollout_text(rollout, page, out);
    }
}

fn has(nodes: usize) -> &'static str {
    if nodes == 1 { "has" } else { "have" }
}

fn transition_text(transition: &Transition, page: &Page, out: &mut String) {
    if let Some(error) = &transition.error {
        paragraph(page, out, "    ", error, Colour::Bad);
        return;
    }
    let row = |change: &ChangeLine| -> Vec<Cell> {
        let follows = match change.follows.as_slice() {
            [] => "nothing follows".to_owned(),
            follows => follows.join(", "),
        };
        let cell = |text: String| (clean(&text).into_owned(), Colour::Plain);
        vec![cell(format!("    {}", change.what)), cell(change.how.clone()), cell(follows)]
    };
    let rows: Vec<Vec<Cell>> = transition.changes.iter().map(row).collect();
    table(page, out, &rows);
    let (effect, colour) = effect(transition);
    paragraph(page, out, "  ", &effect, colour);
}

/// What a node goes through.
fn effect(transition: &Transition) -> (String, Colour) {
    let actions = || transition.actions.iter().map(|action| clean(action).into_owned()).collect::<Vec<_>>().join(", ");
    match (transition.reboots, transition.drains, transition.actions.is_empty()) {
        (true, ..) => ("Each node is drained and restarted".to_owned(), Colour::Busy),
        (false, true, true) => ("Each node is drained, and not restarted".to_owned(), Colour::Busy),
        (false, true, false) => (format!("Each node is drained, then: {}", actions()), Colour::Busy),
        (false, false, false) => (format!("Pods stay; on each node: {}", actions()), Colour::Good),
        (false, false, true) => ("Nothing is disrupted".to_owned(), Colour::Good),
    }
}

fn rollout_text(rollout: &Rollout, page: &Page, out: &mut String) {
    if !rollout.order.is_empty() {
        let text = format!("Nodes, {} at a time: {}", rollout.at_a_time, named(&rollout.order));
        paragraph(page, out, "  ", &text, Colour::Plain);
        let time = match rollout.seconds {
            Some(seconds) => format!("It takes {}, if nodes take as long as the last ones did", duration(seconds)),
            None => "How long it takes is not known yet: no node of the pool has been seen to take a change".to_owned(),
        };
        paragraph(page, out, "  ", &time, Colour::Plain);
    } else if rollout.stuck.is_none() && rollout.unknown.is_empty() {
        paragraph(page, out, "  ", "The pool has no node that would have to change", Colour::Plain);
    }
    for hold in &rollout.holds {
        paragraph(page, out, "  ", &held(hold), if hold.lasts { Colour::Bad } else { Colour::Busy });
    }
    if let Some(stuck) = &rollout.stuck {
        paragraph(page, out, "  ", &stuck_text(stuck), Colour::Bad);
    }
    if !rollout.unknown.is_empty() {
        let text = format!("{}: no agent has said yet what is there", named(&rollout.unknown));
        paragraph(page, out, "  ", &text, Colour::Busy);
    }
    let kept: Vec<&DrainPlan> = rollout.drains.iter().filter(|drain| !drain.kept.is_empty()).collect();
    for drain in kept.iter().take(NAMED) {
        drain_text(drain, page, out);
    }
    if kept.len() > NAMED {
        line(page, out, &format!("  and {} more nodes that could not be drained now", kept.len() - NAMED), Colour::Bad);
    }
    let lost: Vec<String> = rollout.drains.iter().flat_map(|drain| drain.lost.iter().cloned()).collect();
    if !lost.is_empty() {
        let text = format!("{} would lose something: {}", pods(lost.len()), named_with(&lost, "; "));
        paragraph(page, out, "  ", &text, Colour::Busy);
    }
}

fn held(hold: &Held) -> String {
    match hold.after {
        0 => format!("Nodes would wait: {}", hold.message),
        after => format!("After {after} the others would wait: {}", hold.message),
    }
}

fn drain_text(drain: &DrainPlan, page: &Page, out: &mut String) {
    for kept in &drain.kept {
        paragraph(page, out, "  ", &kept_text(&drain.node, kept), Colour::Bad);
    }
}

fn kept_text(node: &str, kept: &Kept) -> String {
    let pods: Vec<String> = kept.pods.iter().map(|pod| format!("{}/{pod}", kept.namespace)).collect();
    format!("Node {node} could not be drained now: {} kept by {}", is(&pods), kept.message)
}

fn stuck_text(stuck: &Stuck) -> String {
    format!("As the cluster is, {} would wait: {}", named(&stuck.nodes), stuck.message)
}

fn is(pods: &[String]) -> String {
    format!("{} {}", named(pods), if pods.len() == 1 { "is" } else { "are" })
}

fn pods(count: usize) -> String {
    if count == 1 { "1 pod".to_owned() } else { format!("{count} pods") }
}

fn named(names: &[String]) -> String {
    named_with(names, ", ")
}

fn named_with(names: &[String], separator: &str) -> String {
    let mut text = names.iter().take(NAMED).cloned().collect::<Vec<_>>().join(separator);
    if names.len() > NAMED {
        text += &format!(" and {} more", names.len() - NAMED);
    }
    text
}

fn duration(seconds: i64) -> String {
    match seconds / 60 {
        0 => "less than a minute".to_owned(),
        1 => "about 1 minute".to_owned(),
        minutes @ 2..120 => format!("about {minutes} minutes"),
        minutes => format!("about {} hours", minutes / 60),
    }
}

#[cfg(test)]
mod tests;
