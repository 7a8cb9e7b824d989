//! `cvo overview`, which is what `cvo` alone does: how the cluster is in a few lines, what needs attention, and the commands that fit
//! now. Another presentation of what `cvo status` reads.

use super::layout::{self, Cell, Colour, Page, clean, cut, line, paragraph, table};
use super::output::print;
use super::reach;
use super::status::{Phase, State, View, component, text};
use crate::cluster::Clients;
use crate::cluster_version::cli::request::Source;
use crate::cluster_version::progress::NodeState;
use crate::cluster_version::status::conditions::{FAILING, RELEASE_ACCEPTED};
use crate::object::condition::ConditionStatus;
use crate::version;
use clap::Args;
use jiff::Timestamp;
use std::path::PathBuf;

/// Say in a few lines how the cluster is, what needs attention, and which commands fit now; cvo alone does the same
///
/// Reads what `cvo status` reads, and changes nothing.
#[derive(Args, Debug)]
pub(crate) struct OverviewArgs {
    /// Kubeconfig of the cluster [default: $KUBECONFIG, else ~/.kube/config, else the pod's service account]
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    #[command(flatten)]
    pub source: Source,
}

/// Most causes of trouble that are shown.
const SHOWN: usize = 3;
/// Most characters of a message: `cvo status` has all of it.
const MESSAGE: usize = 240;

/// A command, and what for.
type Fitting = (String, &'static str);

pub(crate) async fn run(args: OverviewArgs, program: &str) -> anyhow::Result<()> {
    match read(&args).await {
        Ok(state) => {
            let page = layout::page();
            print(&overview(&View::of(&state, page.now), &Known::of(&state, &args.source), program, &page))
        }
        Err(error) => {
            print(&introduction(program, &layout::page()))?;
            Err(error)
        }
    }
}

async fn read(args: &OverviewArgs) -> anyhow::Result<State> {
    let clients = Clients::connect(args.kubeconfig.as_deref()).await?;
    let state = State::gather(&clients.call, &args.source).await;
    let mut state = state.map_err(|error| reach::explain(&clients.server(), error))?;
    state.explain_silence(&clients, &args.source).await;
    state.find_causes(&clients.call, false, Timestamp::now()).await;
    Ok(state)
}

/// What the view does not hold.
#[derive(Clone, Debug)]
struct Known {
    /// Whether there is a ClusterVersion.
    installed: bool,
    /// The name of the ClusterVersion.
    name: String,
}

impl Known {
    fn of(state: &State, source: &Source) -> Self {
        Known { installed: state.cluster_version.is_some(), name: source.name.clone() }
    }
}

fn overview(view: &View, known: &Known, program: &str, page: &Page) -> String {
    let mut out = String::new();
    if known.installed {
        text::title(view, page, &mut out);
        text::progress(view, page, &mut out);
    } else {
        let text = format!("This cluster has no ClusterVersion {}: the daemon is not installed", clean(&known.name));
        line(page, &mut out, &text, Colour::Strong);
    }
    awaited(view, page, &mut out);
    nodes(view, page, &mut out);
    if !view.available_updates.is_empty() {
        line(page, &mut out, &format!("Updates available: {}", view.available_updates.join(", ")), Colour::Plain);
    }
    attention(view, known, program, page, &mut out);
    fitting(&commands(view, known), program, page, &mut out);
    let more =
        format!("{program} --help lists all commands, .github/docs/ in the repository of cvo has a page for each task");
    out.push('\n');
    paragraph(page, &mut out, "", &more, Colour::Faint);
    out
}

/// The components that are waited for: the first with its cause.
fn awaited(view: &View, page: &Page, out: &mut String) {
    let mut waiting =
        view.components.iter().filter(|node| matches!(node.state, NodeState::Waiting | NodeState::Failing));
    let Some(first) = waiting.next() else { return };
    let mut said = format!("{} waits", component(&first.id));
    if let Some(cause) = first.waiting.first() {
        said.push_str(&format!(" for {}", text::awaited(cause)));
        if let Some(since) = cause.since {
            said.push_str(&format!(" (since {})", layout::ago(since, page.now)));
        }
    }
    let more = waiting.count();
    if more > 0 {
        said.push_str(&format!("; so do {more} more"));
    }
    paragraph(page, out, "", &cut(&said, MESSAGE), Colour::Busy);
}

/// How far the nodes of each pool are.
fn nodes(view: &View, page: &Page, out: &mut String) {
    if view.pools.is_empty() {
        return;
    }
    let pools: Vec<String> =
        view.pools.iter().map(|pool| format!("{} {}/{}", pool.name, pool.updated, pool.total)).collect();
    line(page, out, &format!("Nodes that have their configuration: {}", pools.join(", ")), Colour::Plain);
}

/// What is wrong, what it says, and what a person can do about it.
struct Trouble {
    title: String,
    message: String,
    next_step: String,
    colour: Colour,
}

fn attention(view: &View, known: &Known, program: &str, page: &Page, out: &mut String) {
    let mut troubles = troubles(view, page.now);
    out.push('\n');
    if troubles.is_empty() && view.details.is_empty() && view.remarks.is_empty() {
        if known.installed {
            line(page, out, "Nothing needs attention", Colour::Good);
        }
        return;
    }
    // What is broken comes before what only waits.
    troubles.sort_by_key(|trouble| trouble.colour != Colour::Bad);
    line(page, out, "Needs attention", Colour::Strong);
    for trouble in troubles.iter().take(SHOWN) {
        paragraph(page, out, "  ", &cut(&trouble.title, MESSAGE), trouble.colour);
        paragraph(page, out, "    ", &cut(&trouble.message, MESSAGE), Colour::Plain);
        if !trouble.next_step.is_empty() {
            paragraph(page, out, "    ", &format!("→ {}", trouble.next_step), Colour::Strong);
        }
    }
    if let Some((detail, cause)) = view.details.iter().find_map(|it| it.causes.first().map(|cause| (it, cause))) {
        paragraph(page, out, "  ", &format!("Behind {}: {}", detail.object, cause.object), Colour::Plain);
        paragraph(page, out, "    ", &cut(&cause.message, MESSAGE), Colour::Plain);
        paragraph(page, out, "    ", &format!("→ {}", cause.next_step), Colour::Strong);
    }
    for remark in view.remarks.iter().take(SHOWN) {
        paragraph(page, out, "  ", &cut(remark, MESSAGE), Colour::Faint);
    }
    let more = troubles.len().saturating_sub(SHOWN) + view.remarks.len().saturating_sub(SHOWN);
    if more > 0 {
        line(page, out, &format!("  and {more} more: {program} status --details"), Colour::Faint);
    }
}

fn troubles(view: &View, now: Timestamp) -> Vec<Trouble> {
    // Everything else is as old as this says.
    let silences = view.silences.iter().flat_map(|silence| text::of_silence(silence, now));
    let silences = silences.map(|told| Trouble {
        title: told.object,
        message: told.message,
        next_step: told.next_step,
        colour: Colour::Bad,
    });
    let concerns = view.concerns.iter().map(|concern| Trouble {
        title: text::condition_line(concern, now),
        message: concern.message.clone(),
        next_step: concern.next_step.to_owned(),
        colour: text::colour_of(concern),
    });
    let operators = view.operators.iter().map(|operator| Trouble {
        title: text::operator_line(operator, Some(now)),
        message: String::new(),
        next_step: operator.next_step.clone(),
        colour: Colour::Bad,
    });
    let pools = view.pools.iter().filter_map(|pool| {
        let blocked = pool.blocked.as_ref()?;
        let since = blocked.since.map(|since| format!(" for {}", layout::ago(since, now))).unwrap_or_default();
        Some(Trouble {
            title: format!("Nodes of pool {} wait{since}: {}", pool.name, blocked.reason),
            message: blocked.message.clone(),
            next_step: blocked.next_step.to_owned(),
            colour: Colour::Busy,
        })
    });
    let left_alone = view.nodes_without_pool.iter().map(|text| Trouble {
        title: text.clone(),
        message: String::new(),
        next_step: String::new(),
        colour: Colour::Busy,
    });
    silences.chain(concerns).chain(operators).chain(pools).chain(left_alone).collect()
}

/// The commands that fit now, without the name of the program.
fn commands(view: &View, known: &Known) -> Vec<Fitting> {
    let mut fit: Vec<Fitting> = Vec::new();
    let mut add = |command: &str, why: &'static str| fit.push((command.to_owned(), why));
    if !known.installed {
        add("render --help", "writes what installs the daemon");
        add("release new --help", "builds a release");
        return fit;
    }
    let refused = view.concerns.iter().find(|it| it.type_ == RELEASE_ACCEPTED && it.status == ConditionStatus::False);
    let failing = view.concerns.iter().any(|it| it.type_ == FAILING && it.status == ConditionStatus::True);
    let unwell = failing || !view.silences.is_empty() || !view.operators.is_empty() || !view.remarks.is_empty();
    if unwell || !view.details.is_empty() || refused.is_some() {
        add("status --details", "all causes, down to the pods");
    }
    if unwell {
        add("doctor", "what else could be the cause");
        add("collect --to FILE", "all that somebody else needs to help");
    }
    if refused.is_some_and(|it| it.message.contains("AdminAck")) {
        add("ack", "what has to be acknowledged before");
    }
    match view.phase {
        Phase::Installing | Phase::Updating => {
            add("status --watch", "follow it");
            add("page", "follow it in a browser");
            add("wait", "until it is completed");
        }
        Phase::Running | Phase::Unknown => {}
    }
    if view.phase == Phase::Updating || refused.is_some() {
        add("upgrade --clear", "withdraw the request");
    }
    if view.phase == Phase::Running && refused.is_none() {
        match newest(&view.available_updates) {
            Some(version) => {
                add(&format!("upgrade --to {version} --dry-run"), "what the update would do");
                add(&format!("upgrade --to {version}"), "request it");
            }
            None => add("channel NAME", "where updates are looked for"),
        }
        if !unwell {
            add("doctor", "what would hinder an update");
        }
        add("history", "what was installed, and where the time went");
    }
    if view.phase == Phase::Unknown {
        add("status --watch", "what the daemon says as soon as it does");
        add("doctor", "whether it can work");
    }
    fit
}

fn newest(versions: &[String]) -> Option<&String> {
    versions.iter().max_by(|a, b| match (version::parse(a), version::parse(b)) {
        (Ok(a), Ok(b)) => version::precedence(&a, &b),
        // What is no version is not proposed if there is another.
        (a, b) => a.is_ok().cmp(&b.is_ok()),
    })
}

fn fitting(commands: &[Fitting], program: &str, page: &Page, out: &mut String) {
    if commands.is_empty() {
        return;
    }
    line(page, out, "\nNow", Colour::Strong);
    let row = |(command, why): &Fitting| -> Vec<Cell> {
        vec![(format!("  {program} {command}"), Colour::Plain), ((*why).to_owned(), Colour::Faint)]
    };
    table(page, out, &commands.iter().map(row).collect::<Vec<_>>());
}

/// For whoever has no cluster, or none that can be reached.
fn introduction(program: &str, page: &Page) -> String {
    let mut out = String::new();
    let what = "cvo carries a Kubernetes cluster from one release of a platform to the next: it verifies the release, applies it in \
                order, waits for each component, and says at any time what waits for what.";
    paragraph(page, &mut out, "", what, Colour::Plain);
    let why = format!(
        "No cluster can be read. $KUBECONFIG or ~/.kube/config names it, else {program} overview --kubeconfig FILE."
    );
    paragraph(page, &mut out, "", &why, Colour::Strong);
    line(page, &mut out, "\nTo begin", Colour::Strong);
    let rows = [
        (
            "hack/demo".to_owned(),
            "a cluster on this machine that is updated while you watch, from the repository of cvo",
        ),
        (format!("{program} release new --help"), "build a release"),
        (format!("{program} render --help"), "install it in a cluster"),
    ];
    let rows: Vec<Vec<Cell>> = rows
        .into_iter()
        .map(|(command, why)| vec![(format!("  {command}"), Colour::Plain), (why.to_owned(), Colour::Faint)])
        .collect();
    table(page, &mut out, &rows);
    let more = format!(
        "README.md leads from a running cluster to a first update in ten minutes; {program} --help lists all commands"
    );
    out.push('\n');
    paragraph(page, &mut out, "", &more, Colour::Faint);
    out
}

#[cfg(test)]
mod tests;
