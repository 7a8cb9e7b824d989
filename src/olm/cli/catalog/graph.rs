//! `cvo catalog graph`: which version follows which other one.

use super::{GraphArgs, GraphOutput, show};
use crate::cli::exit::Exit;
use crate::cli::layout::{self, Colour, Page, clean};
use crate::cli::output::{print, remark};
use crate::olm::catalog::index::{Bundle, Channel, Entry, Package};
use crate::olm::cli::input;
use crate::olm::version_range::VersionRange;
use anyhow::bail;
use semver::Version;
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::HashSet;
use std::fmt::Write;

pub(super) async fn run(args: &GraphArgs) -> anyhow::Result<Exit> {
    let given = input::catalog(&args.catalog, &args.source).await?;
    let catalog = super::read(&given.folder)?;
    let packages: Vec<Package<'_>> = match &args.package {
        Some(name) => vec![show::find(&catalog, name, &args.catalog)?],
        None => catalog.index.packages().collect(),
    };
    let wanted = |channel: &Channel<'_>| args.channel.as_deref().is_none_or(|name| channel.name() == name);
    if let Some(name) = &args.channel
        && !packages.iter().any(|package| package.channel(name).is_some())
    {
        bail!("there is no channel {name}: cvo catalog show {} lists those that there are", args.catalog);
    }
    match args.output {
        GraphOutput::Text => print(&text(&packages, &wanted, &layout::page()))?,
        GraphOutput::Mermaid => print(&mermaid(&packages, &wanted))?,
        GraphOutput::Json => {
            let packages: Vec<Graph<'_>> = packages.iter().map(|package| Graph::of(*package, &wanted)).collect();
            print(&(serde_json::to_string_pretty(&serde_json::json!({"schema": 1, "packages": packages}))? + "\n"))?;
        }
    }
    show::remark_of_sick(&catalog, &args.catalog).into_iter().for_each(|text| remark(&text));
    Ok(Exit::Success)
}

/// How one version follows another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
enum By {
    Skips,
    SkipRange,
    Replaces,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
struct Edge<'a> {
    from: &'a str,
    to: &'a str,
    by: By,
}

#[derive(Debug, Serialize)]
struct Graph<'a> {
    name: &'a str,
    channels: Vec<ChannelGraph<'a>>,
}

#[derive(Debug, Serialize)]
struct ChannelGraph<'a> {
    name: &'a str,
    head: &'a str,
    edges: Vec<Edge<'a>>,
}

impl<'a> Graph<'a> {
    fn of(package: Package<'a>, wanted: &dyn Fn(&Channel<'_>) -> bool) -> Self {
        let graph = |channel: Channel<'a>| ChannelGraph {
            name: channel.name(),
            head: channel.head().map(Entry::name).unwrap_or_default(),
            edges: by_version(channel).into_iter().flat_map(|entry| edges(channel, entry)).collect(),
        };
        Graph { name: package.name(), channels: package.channels().filter(|it| wanted(it)).map(graph).collect() }
    }
}

fn version(entry: Entry<'_>) -> Option<Version> {
    entry.bundle().and_then(|bundle| bundle.version().parse().ok())
}

/// The highest version first.
fn by_version(channel: Channel<'_>) -> Vec<Entry<'_>> {
    let mut entries: Vec<(Option<Version>, Entry<'_>)> = channel.entries().map(|it| (version(it), it)).collect();
    entries.sort_by_key(|(version, _)| Reverse(version.clone()));
    entries.into_iter().map(|(_, entry)| entry).collect()
}

/// The edges that lead to an entry.
fn edges<'a>(channel: Channel<'a>, entry: Entry<'a>) -> Vec<Edge<'a>> {
    let edge = |from: &'a str, by: By| Edge { from, to: entry.name(), by };
    let range = entry.skip_range().and_then(|range| VersionRange::parse(range).ok());
    let in_range = |other: &Entry<'a>| {
        let version = version(*other);
        range.as_ref().zip(version).is_some_and(|(range, version)| range.contains(&version))
    };
    let skips = entry.skips().map(|from| edge(from, By::Skips));
    let ranges = channel.entries().filter(in_range).map(|other| edge(other.name(), By::SkipRange));
    skips.chain(ranges).chain(entry.replaces().map(|from| edge(from, By::Replaces))).collect()
}

/// What people write, as many web pages and editors draw it.
fn mermaid(packages: &[Package<'_>], wanted: &dyn Fn(&Channel<'_>) -> bool) -> String {
    let mut out = String::from(
        "graph LR\n  classDef deprecated fill:#E8960F\n  classDef skipped stroke:#FF0000,stroke-width:4px\n  \
         classDef deprecatedskipped fill:#E8960F,stroke:#FF0000,stroke-width:4px\n",
    );
    let (mut styles, mut deprecated) = (String::new(), Vec::new());
    for package in packages {
        let (name, before) = (package.name(), out.len());
        push(&mut out, format_args!("  %% package {name:?}\n  subgraph {name:?}\n"));
        let start = out.len();
        for channel in package.channels().filter(|channel| wanted(channel)) {
            let id = format!("{name}-{}", channel.name());
            push(
                &mut out,
                format_args!("    %% channel {:?}\n    subgraph {id}[{:?}]\n", channel.name(), channel.name()),
            );
            for entry in by_version(channel) {
                let node = |name: &str| format!("{id}-{name}[{name:?}]");
                let to = node(entry.name());
                push(&mut out, format_args!("      {to}\n"));
                for edge in edges(channel, entry) {
                    let by = match (edge.by, entry.skip_range()) {
                        (By::SkipRange, range) => format!("\"skipRange({})\"", range.unwrap_or_default()),
                        (By::Skips, _) => "skip".to_owned(),
                        (By::Replaces, _) => "replace".to_owned(),
                    };
                    push(&mut out, format_args!("      {}-- {by} --> {to}\n", node(edge.from)));
                }
                if entry.bundle().and_then(Bundle::deprecation).is_some() {
                    deprecated.push(format!("{id}-{}", entry.name()));
                }
            }
            out.push_str("    end\n");
            if channel.deprecation().is_some() {
                push(&mut styles, format_args!("style {id} fill:#DCD0FF\n"));
            }
        }
        if out.len() == start {
            out.truncate(before);
            continue;
        }
        out.push_str("  end\n");
        if package.deprecation().is_some() {
            push(&mut styles, format_args!("style {name} fill:#989695\n"));
        }
    }
    if !deprecated.is_empty() {
        deprecated.sort();
        push(&mut styles, format_args!("class {} deprecated\n", deprecated.join(",")));
    }
    out + &styles
}

fn push(out: &mut String, text: std::fmt::Arguments<'_>) {
    // A text takes everything.
    let _written = out.write_fmt(text);
}

fn text(packages: &[Package<'_>], wanted: &dyn Fn(&Channel<'_>) -> bool, page: &Page) -> String {
    let mut out = String::new();
    for package in packages {
        let default = package.default_channel().map(Channel::name).unwrap_or_default();
        for channel in package.channels().filter(|channel| wanted(channel)) {
            let is_default = if channel.name() == default { " (default)" } else { "" };
            let head = format!("{} {}{is_default}", package.name(), channel.name());
            layout::line(page, &mut out, &clean(&head), Colour::Strong);
            of_channel(page, &mut out, channel);
        }
    }
    out
}

/// A line an entry from the head down; below it what it skips, and at the end what is named and not there.
fn of_channel(page: &Page, out: &mut String, channel: Channel<'_>) {
    let entries = show::from_head(channel);
    let known: HashSet<&str> = entries.iter().map(|entry| entry.name()).collect();
    let skipped: HashSet<&str> = entries.iter().flat_map(|entry| entry.skips()).collect();
    for entry in entries {
        let name = entry.name();
        let deprecated = entry.bundle().and_then(Bundle::deprecation).map_or("", |_| ", deprecated");
        let is_skipped = if skipped.contains(name) { " (skipped)" } else { "" };
        layout::line(page, out, &clean(&format!("  {name}{is_skipped}{deprecated}")), Colour::Plain);
        if let Some(replaced) = entry.replaces() {
            let gone = if known.contains(replaced) { "" } else { " (not in the channel)" };
            layout::line(page, out, &clean(&format!("    replaces {replaced}{gone}")), Colour::Faint);
        }
        let skips: Vec<&str> = entry.skips().collect();
        if !skips.is_empty() {
            layout::paragraph(page, out, "    ", &format!("skips {}", skips.join(", ")), Colour::Faint);
        }
        let edges = edges(channel, entry);
        let ranged: Vec<&str> = edges.iter().filter(|it| it.by == By::SkipRange).map(|it| it.from).collect();
        if let Some(range) = entry.skip_range() {
            let which = if ranged.is_empty() { "nothing here".to_owned() } else { ranged.join(", ") };
            layout::paragraph(page, out, "    ", &format!("skips {range}: {which}"), Colour::Faint);
        }
    }
}

#[cfg(test)]
mod tests;
