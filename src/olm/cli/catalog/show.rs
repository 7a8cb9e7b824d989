//! `cvo catalog show`: the packages of a catalog, or the channels of one of them.

use super::validate::counted;
use super::{Output, ShowArgs};
use crate::cli::exit::Exit;
use crate::cli::layout::{self, Cell, Colour, Page, clean};
use crate::cli::output::{print, remark};
use crate::olm::catalog::builder::Catalog;
use crate::olm::catalog::index::{Api, Bundle, Channel, Entry, Package};
use crate::olm::cli::input;
use anyhow::bail;
use serde::Serialize;
use serde_json::value::RawValue;
use std::collections::{HashMap, HashSet};

pub(super) async fn run(args: &ShowArgs) -> anyhow::Result<Exit> {
    let given = input::catalog(&args.catalog, &args.source).await?;
    let catalog = super::read(&given.folder)?;
    let packages: Vec<Package<'_>> = match &args.package {
        Some(name) => vec![find(&catalog, name, &args.catalog)?],
        None => catalog.index.packages().collect(),
    };
    let page = layout::page();
    match (args.output, args.package.is_some()) {
        (Output::Json, whole) => {
            let packages: Vec<_> = packages.iter().map(|package| Shown::of(*package, whole)).collect();
            print(&(serde_json::to_string_pretty(&serde_json::json!({"schema": 1, "packages": packages}))? + "\n"))?;
        }
        (Output::Text, false) => print(&list(&packages, &page))?,
        (Output::Text, true) => print(&packages.iter().map(|it| text(*it, &page)).collect::<String>())?,
    }
    remark_of_sick(&catalog, &args.catalog).into_iter().for_each(|text| remark(&text));
    Ok(Exit::Success)
}

/// What is not shown of a catalog.
pub(super) fn remark_of_sick<W>(catalog: &Catalog<W>, dir: &str) -> Option<String> {
    let sick = counted(catalog.sick_count, "package");
    (catalog.fault_count > 0).then(|| format!("{sick} with faults left out: cvo catalog validate {dir} tells why"))
}

pub(super) fn find<'a, W>(catalog: &'a Catalog<W>, name: &str, dir: &str) -> anyhow::Result<Package<'a>> {
    match (catalog.index.package(name), catalog.sick.iter().find(|sick| sick.package == name)) {
        (Some(package), _) => Ok(package),
        (None, Some(sick)) => {
            bail!("the package {name} has {}: cvo catalog validate {dir} tells which", counted(sick.faults, "fault"))
        }
        (None, None) => {
            bail!("the catalog {dir} has no package {name}: cvo catalog show {dir} lists those that it has")
        }
    }
}

/// A package, for programs.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Shown<'a> {
    name: &'a str,
    default_channel: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    deprecation: Option<&'a str>,
    channels: Vec<ShownChannel<'a>>,
    /// Only of a package that was asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    bundles: Vec<ShownBundle<'a>>,
}

#[derive(Debug, Serialize)]
struct ShownChannel<'a> {
    name: &'a str,
    head: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    deprecation: Option<&'a str>,
    /// From the head down.
    entries: Vec<ShownEntry<'a>>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ShownEntry<'a> {
    name: &'a str,
    version: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    replaces: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    skips: Vec<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    skip_range: Option<&'a str>,
}

#[derive(Debug, Serialize)]
struct ShownBundle<'a> {
    name: &'a str,
    version: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    release: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    image: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    deprecation: Option<&'a str>,
    properties: Vec<ShownProperty<'a>>,
}

#[derive(Debug, Serialize)]
struct ShownProperty<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    value: Option<&'a RawValue>,
}

impl<'a> Shown<'a> {
    pub(super) fn of(package: Package<'a>, whole: bool) -> Self {
        let bundles = package.bundles().filter(|_| whole).map(ShownBundle::of);
        Shown {
            name: package.name(),
            default_channel: package.default_channel().map(Channel::name).unwrap_or_default(),
            deprecation: package.deprecation(),
            channels: package.channels().map(ShownChannel::of).collect(),
            bundles: bundles.collect(),
        }
    }
}

impl<'a> ShownChannel<'a> {
    fn of(channel: Channel<'a>) -> Self {
        let entry = |entry: Entry<'a>| ShownEntry {
            name: entry.name(),
            version: entry.bundle().map(Bundle::version).unwrap_or_default(),
            replaces: entry.replaces(),
            skips: entry.skips().collect(),
            skip_range: entry.skip_range(),
        };
        ShownChannel {
            name: channel.name(),
            head: channel.head().map(Entry::name).unwrap_or_default(),
            deprecation: channel.deprecation(),
            entries: from_head(channel).into_iter().map(entry).collect(),
        }
    }
}

impl<'a> ShownBundle<'a> {
    fn of(bundle: Bundle<'a>) -> Self {
        let properties = bundle.properties().map(|property| ShownProperty {
            kind: property.kind(),
            value: serde_json::from_str(property.value()).ok(),
        });
        ShownBundle {
            name: bundle.name(),
            version: bundle.version(),
            release: bundle.release(),
            image: bundle.image(),
            deprecation: bundle.deprecation(),
            properties: properties.collect(),
        }
    }
}

/// The head, what it replaces and so on, and then all other entries.
pub(super) fn from_head<'a>(channel: Channel<'a>) -> Vec<Entry<'a>> {
    let by_name: HashMap<&str, Entry<'a>> = channel.entries().map(|entry| (entry.name(), entry)).collect();
    let (mut found, mut known, mut next) = (Vec::new(), HashSet::new(), channel.head());
    while let Some(entry) = next.filter(|entry| known.insert(entry.name())) {
        found.push(entry);
        next = entry.replaces().and_then(|name| by_name.get(name)).copied();
    }
    found.extend(channel.entries().filter(|entry| !known.contains(entry.name())));
    found
}

fn cell(text: &str) -> Cell {
    (clean(text).into_owned(), Colour::Plain)
}

pub(super) fn list(packages: &[Package<'_>], page: &Page) -> String {
    let mut rows =
        vec![["PACKAGE", "DEFAULT CHANNEL", "HEAD", "VERSION", "CHANNELS", "BUNDLES", ""].map(cell).to_vec()];
    rows.extend(packages.iter().map(|package| {
        let channel = package.default_channel();
        let head = channel.and_then(Channel::head).and_then(Entry::bundle);
        let deprecated = package.deprecation().map_or("", |_| "deprecated");
        let (channels, bundles) = (package.channels().count().to_string(), package.bundles().count().to_string());
        let texts = [package.name(), channel.map(Channel::name).unwrap_or_default()];
        let texts =
            texts.into_iter().chain([head.map(Bundle::name), head.map(Bundle::version)].map(Option::unwrap_or_default));
        texts.chain([channels.as_str(), bundles.as_str(), deprecated]).map(cell).collect()
    }));
    let mut out = String::new();
    layout::table(page, &mut out, &rows);
    out
}

pub(super) fn text(package: Package<'_>, page: &Page) -> String {
    let mut out = String::new();
    let default = package.default_channel().map(Channel::name).unwrap_or_default();
    deprecated(page, &mut out, "the package", package.deprecation());
    for channel in package.channels() {
        let name = channel.name();
        let what = if name == default { " (default)" } else { "" };
        layout::line(page, &mut out, &clean(&format!("channel {name}{what}")), Colour::Strong);
        deprecated(page, &mut out, "the channel", channel.deprecation());
        let mut rows = vec![["  NAME", "VERSION", "REPLACES", "SKIPS", ""].map(cell).to_vec()];
        rows.extend(from_head(channel).into_iter().map(row));
        layout::table(page, &mut out, &rows);
        let head = channel.head().and_then(Entry::bundle);
        apis(page, &mut out, "provides", head.into_iter().flat_map(Bundle::provided));
        apis(page, &mut out, "requires", head.into_iter().flat_map(Bundle::required));
    }
    out
}

fn row(entry: Entry<'_>) -> Vec<Cell> {
    let bundle = entry.bundle();
    let skips: Vec<&str> = entry.skips().chain(entry.skip_range()).collect();
    let deprecated = bundle.and_then(Bundle::deprecation).map(|why| format!("deprecated: {why}")).unwrap_or_default();
    let version = bundle.map(Bundle::version).unwrap_or_default();
    let name = format!("  {}", entry.name());
    [&name, version, entry.replaces().unwrap_or_default(), &skips.join(", "), &deprecated].map(cell).to_vec()
}

fn deprecated(page: &Page, out: &mut String, what: &str, why: Option<&str>) {
    if let Some(why) = why {
        layout::paragraph(page, out, "  ", &format!("{what} is deprecated: {why}"), Colour::Busy);
    }
}

/// The APIs of the head.
fn apis<'a>(page: &Page, out: &mut String, what: &str, apis: impl Iterator<Item = Api<'a>>) {
    let names: Vec<String> = apis.map(|api| format!("{}.{}.{}", api.kind, api.version, api.group)).collect();
    if !names.is_empty() {
        layout::paragraph(page, out, "  ", &format!("{what} {}", names.join(", ")), Colour::Faint);
    }
}
