//! `cvo history`: what each update of a cluster did, how long, and what it waited for.

use crate::cli::layout::{Cell, Colour, Page, clean, line, page, paragraph, table};
use crate::cli::output::print;
use crate::cli::reach;
use crate::cli::status::{State, View};
use crate::cluster::Clients;
use crate::cluster_version::api::{HistoryEntry, HistoryState};
use crate::cluster_version::cli::request::{Output, RequestArgs};
use crate::cluster_version::updates::timeline::{Comparison, Told};
use anyhow::{Context, bail};
use clap::Args;
use jiff::Timestamp;
use serde_json::json;
use std::path::PathBuf;

/// Show what each installation and update did: how long it took, where the time went, and what waited
///
/// Lists the history, newest first, and the course of one entry: the time of each stage and of its slowest components, the components
/// that everything else waited for, what was waited for longest, attempts that failed, risks that were accepted, and what took
/// longer than in the update before. The course is known of the last ten.
#[derive(Args, Debug)]
pub(crate) struct HistoryArgs {
    /// The entry to show the course of [default: the newest]
    #[arg(value_name = "VERSION")]
    pub version: Option<String>,
    /// Show the course of each entry
    #[arg(long, conflicts_with = "version")]
    pub all: bool,
    /// Show all components of the course
    #[arg(long)]
    pub components: bool,
    /// Read what `cvo collect` has written instead of a cluster
    #[arg(long, value_name = "FILE", conflicts_with = "kubeconfig")]
    pub from: Option<PathBuf>,
    #[command(flatten)]
    pub request: RequestArgs,
}

/// Components of a course that are shown without --components.
const SHOWN: usize = 10;

pub(crate) async fn run(args: HistoryArgs) -> anyhow::Result<()> {
    let (state, now) = match &args.from {
        Some(file) => State::recorded(file)?,
        None => (read(&args.request).await?, Timestamp::now()),
    };
    let view = View::of(&state, now);
    if state.cluster_version.is_none() {
        bail!(
            "there is no ClusterVersion {}: the daemon is not installed, or --name is wrong",
            args.request.source.name
        );
    }
    let unread = state.progress.is_none() && !view.remarks.is_empty();
    let chosen = choose(&view, args.version.as_deref(), args.all, unread)?;
    match args.request.output {
        Output::Json => {
            let object = json!({"schema": 1, "history": view.history, "updates": chosen, "unknown": view.remarks});
            print(&format!("{object:#}\n"))
        }
        Output::Text => {
            let shown = if args.components { usize::MAX } else { SHOWN };
            print(&text(&view, &chosen, shown, unread, &Page { now, ..page() }))
        }
    }
}

async fn read(request: &RequestArgs) -> anyhow::Result<State> {
    let clients = Clients::connect(request.kubeconfig.as_deref()).await?;
    let state = State::gather(&clients.call, &request.source).await;
    state.map_err(|error| reach::explain(&clients.server(), error))
}

/// The updates whose course is shown. `unread`: the record of them could not be read, as a remark says.
fn choose<'a>(view: &'a View, version: Option<&str>, all: bool, unread: bool) -> anyhow::Result<Vec<&'a Told>> {
    let Some(version) = version else {
        return Ok(view.updates.iter().take(if all { usize::MAX } else { 1 }).collect());
    };
    let found: Vec<&Told> =
        view.updates.iter().filter(|update| update.version == version || update.image == version).collect();
    if !found.is_empty() {
        return Ok(found);
    }
    let mut entries = view.history.iter();
    entries.find(|entry| entry.version == version || entry.image == version).with_context(|| {
        let known: Vec<&str> = view.history.iter().map(|entry| entry.version.as_str()).collect();
        format!("{version} is not in the history of this cluster, which has {}", known.join(", "))
    })?;
    if unread {
        bail!("the course of {version} cannot be shown. {}", view.remarks.join("; "));
    }
    bail!("the course of {version} is not known any more: it is kept for the last ten updates")
}

fn text(view: &View, chosen: &[&Told], shown: usize, unread: bool, page: &Page) -> String {
    let mut out = String::new();
    list(&view.history, page, &mut out);
    for update in chosen {
        course(update, shown, page, &mut out);
    }
    if chosen.is_empty() {
        let why = if unread { "its record cannot be read" } else { "the daemon has not recorded one yet" };
        line(page, &mut out, &format!("\nThe course of no update is known: {why}"), Colour::Faint);
    }
    for remark in &view.remarks {
        out.push('\n');
        paragraph(page, &mut out, "", remark, Colour::Faint);
    }
    out
}

fn list(history: &[HistoryEntry], page: &Page, out: &mut String) {
    let titles = ["VERSION", "STATE", "STARTED", "TOOK", "VERIFIED", "RISKS"];
    let mut rows: Vec<Vec<Cell>> = vec![titles.map(|title| (title.to_owned(), Colour::Faint)).to_vec()];
    rows.extend(history.iter().map(|entry| {
        let name = if entry.version.is_empty() { &entry.image } else { &entry.version };
        let state = match entry.state {
            HistoryState::Completed => ("Completed", Colour::Good),
            HistoryState::Partial => ("Partial", Colour::Busy),
        };
        let took = entry.completion_time.as_ref().map(|end| end.0.duration_since(entry.started_time.0).as_secs_f64());
        vec![
            (clean(name).into_owned(), Colour::Plain),
            (state.0.to_owned(), state.1),
            (entry.started_time.0.strftime("%Y-%m-%d %H:%M:%SZ").to_string(), Colour::Plain),
            (took.map_or_else(|| "-".to_owned(), time), Colour::Plain),
            (if entry.verified { "yes" } else { "no" }.to_owned(), Colour::Plain),
            (if entry.accepted_risks.is_empty() { "-" } else { "accepted" }.to_owned(), Colour::Plain),
        ]
    }));
    table(page, out, &rows);
}

fn course(update: &Told, shown: usize, page: &Page, out: &mut String) {
    line(page, out, &format!("\n{}", title(update)), Colour::Strong);
    let mut facts = vec![match update.retries {
        0 => "no attempt failed".to_owned(),
        1 => "one attempt failed and was repeated".to_owned(),
        n => format!("{n} attempts failed and were repeated"),
    }];
    if update.rollouts > 1 {
        let why = "another process of the daemon took over, or the configuration changed";
        facts.push(format!("begun {} times: {why}", update.rollouts));
    }
    paragraph(page, out, "  ", &facts.join("; "), Colour::Plain);
    if !update.accepted_risks.is_empty() {
        paragraph(page, out, "  ", &format!("Accepted: {}", update.accepted_risks), Colour::Busy);
    }
    stages(update, page, out);
    path(update, page, out);
    if !update.longest_waits.is_empty() {
        line(page, out, "\n  Waited for longest", Colour::Strong);
    }
    for wait in &update.longest_waits {
        let text = format!("{} for {} ({}), in {}", time(wait.seconds), wait.object, wait.reason, wait.component);
        paragraph(page, out, "  ", &text, Colour::Plain);
    }
    components(update, shown, page, out);
    if let Some(comparison) = &update.comparison {
        compared(update, comparison, page, out);
    }
}

fn title(update: &Told) -> String {
    let version = if update.version.is_empty() { &update.image } else { &update.version };
    let what = match (update.mode.as_str(), update.from.as_str()) {
        ("install", _) | (_, "") => format!("Installation of {version}"),
        (_, from) => format!("Update {from} → {version}"),
    };
    let took = time(update.seconds);
    clean(&match update.state {
        "Completed" => format!("{what}: {took}"),
        "Running" => format!("{what}: under way, its last step at {took}"),
        _ => format!("{what}: replaced by another release, its last step at {took}"),
    })
    .into_owned()
}

fn stages(update: &Told, page: &Page, out: &mut String) {
    let titles = ["  STAGE", "TOOK", "COMPONENTS", "SLOWEST"];
    let mut rows: Vec<Vec<Cell>> = vec![titles.map(|title| (title.to_owned(), Colour::Faint)).to_vec()];
    rows.extend(update.stages.iter().map(|stage| {
        let prefix = format!("{}/", stage.stage);
        let slowest = update.components.iter().filter(|it| it.id.starts_with(&prefix)).take(3).map(|component| {
            format!("{} {}", clean(name(&component.id)), component.seconds.map_or_else(|| "not ended".to_owned(), time))
        });
        vec![
            (format!("  {}", clean(&stage.stage)), Colour::Plain),
            (time(stage.seconds), Colour::Plain),
            (stage.components.to_string(), Colour::Plain),
            (slowest.collect::<Vec<String>>().join(", "), Colour::Faint),
        ]
    }));
    if update.finished.is_some() {
        rows.push(vec![
            ("  all in place".to_owned(), Colour::Plain),
            (time(update.last_check), Colour::Plain),
            (String::new(), Colour::Plain),
            (String::new(), Colour::Plain),
        ]);
    }
    out.push('\n');
    table(page, out, &rows);
}

fn path(update: &Told, page: &Page, out: &mut String) {
    if update.critical_path.is_empty() {
        return;
    }
    line(page, out, "\n  Everything else waited for", Colour::Strong);
    let steps: Vec<String> =
        update.critical_path.iter().map(|step| format!("{} {}", name(&step.id), time(step.seconds))).collect();
    paragraph(page, out, "  ", &steps.join(" → "), Colour::Plain);
}

fn components(update: &Told, shown: usize, page: &Page, out: &mut String) {
    // The stages name the slowest already.
    if shown < usize::MAX && update.components.len() <= 3 {
        return;
    }
    let titles = ["  COMPONENT", "BEGAN AT", "TOOK", "FAILED ATTEMPTS"];
    let mut rows: Vec<Vec<Cell>> = vec![titles.map(|title| (title.to_owned(), Colour::Faint)).to_vec()];
    rows.extend(update.components.iter().take(shown).map(|component| {
        vec![
            (format!("  {}", clean(&component.id)), Colour::Plain),
            (time(component.begin), Colour::Plain),
            (component.seconds.map_or_else(|| "-".to_owned(), time), Colour::Plain),
            (component.retries.to_string(), Colour::Plain),
        ]
    }));
    out.push('\n');
    table(page, out, &rows);
    let hidden = update.components.len().saturating_sub(shown);
    if hidden > 0 {
        line(page, out, &format!("  and {hidden} faster ones (--components shows all)"), Colour::Faint);
    }
    if update.components_left_out > 0 {
        let text = format!("  {} faster ones were not kept", update.components_left_out);
        line(page, out, &text, Colour::Faint);
    }
}

fn compared(update: &Told, comparison: &Comparison, page: &Page, out: &mut String) {
    line(page, out, &format!("\n  Against {}", clean(&comparison.version)), Colour::Strong);
    let text = format!("{} now, {} then", time(update.seconds), time(comparison.seconds));
    paragraph(page, out, "  ", &text, Colour::Plain);
    for difference in &comparison.components {
        let text =
            format!("{}: {} now, {} then", difference.component, time(difference.seconds), time(difference.before));
        paragraph(page, out, "  ", &text, Colour::Plain);
    }
}

/// The component of an id `stage/level/component`.
fn name(id: &str) -> &str {
    id.splitn(3, '/').nth(2).unwrap_or(id)
}

/// Tenths of a second matter in a short update.
fn time(seconds: f64) -> String {
    if seconds < 60.0 {
        return format!("{seconds:.1}s");
    }
    // Times come from a record that anybody may have edited.
    crate::cli::layout::duration(seconds.clamp(0.0, 3.2e9).round() as u64)
}

#[cfg(test)]
mod tests;
