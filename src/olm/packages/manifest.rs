//! One PackageManifest: which channels it has, its labels, and its JSON.

use super::head::{Description, HeadError, Provider, Shown};
use super::metadata::{Labelled, Metadata};
use super::view::{Catalog, Channel, Entry, Package};
use super::{API_VERSION, KIND};
use semver::Version;
use serde::Serialize;
use std::cmp::Reverse;
use std::io::{self, Write};

/// A package of a catalog that can be shown: at least one of its channels can.
#[derive(Debug)]
pub(crate) struct PackageManifest<'a> {
    catalog: &'a Catalog,
    package: &'a Package<'a>,
    default_channel: &'a str,
    labelled: Labelled,
    channels: Vec<(&'a Channel<'a>, Shown<'a>)>,
    /// Channels that are left out, and why.
    #[cfg_attr(not(test), expect(dead_code, reason = "nobody is told yet"))]
    pub left_out: Vec<(&'a str, HeadError)>,
}

impl<'a> PackageManifest<'a> {
    /// The package, without channels whose heads cannot be read. If the default channel is one of them, the first of the others
    /// takes its place. Without any channel the package is not shown, and what is said is why.
    pub(crate) fn of(catalog: &'a Catalog, package: &'a Package<'a>) -> Result<Self, Vec<(&'a str, HeadError)>> {
        let (mut channels, mut left_out) = (Vec::new(), Vec::new());
        for channel in &package.channels {
            match Shown::of(&channel.head, package) {
                Ok(shown) => channels.push((channel, shown)),
                Err(error) => left_out.push((channel.name, error)),
            }
        }
        let Some((first, of_first)) = channels.first() else { return Err(left_out) };
        let by_name = channels.iter().find(|(channel, _)| channel.name == package.default_channel);
        let elided = left_out.iter().any(|(name, _)| *name == package.default_channel);
        let default_channel = if elided { first.name } else { package.default_channel };
        let shown = by_name.map_or(of_first, |(_, shown)| shown);
        let (name, provider, labels) = (package.name.to_owned(), shown.provider.clone(), shown.labels.clone());
        let labelled = Labelled { name, provider, labels };
        Ok(PackageManifest { catalog, package, default_channel, labelled, channels, left_out })
    }

    /// What lists need to know of it.
    pub(crate) fn labelled(self) -> Labelled {
        self.labelled
    }

    /// Writes it as JSON. `namespace`: the one that was asked for; empty for all, so that it is the catalog's own.
    /// `others`: catalogs that have a package of this name, too.
    pub(crate) fn write(&self, namespace: &str, others: &[&Catalog], out: &mut impl Write) -> io::Result<()> {
        let Catalog { name, namespace: own, display_name, publisher, .. } = self.catalog;
        let labels = self.labelled.labels(self.catalog);
        let channels = self.channels.iter().map(|(channel, shown)| ShownChannel::of(channel, shown)).collect();
        let object = Object {
            api_version: API_VERSION,
            kind: KIND,
            metadata: Metadata::of(self.catalog, self.package.name, namespace, &labels, others),
            spec: Empty {},
            status: Status {
                catalog_source: name,
                catalog_source_display_name: display_name,
                catalog_source_publisher: publisher,
                catalog_source_namespace: own,
                provider: &self.labelled.provider,
                package_name: self.package.name,
                deprecation: self.package.deprecation.map(|message| Deprecation { message }),
                channels,
                default_channel: self.default_channel,
            },
        };
        serde_json::to_writer(out, &object).map_err(io::Error::from)
    }

    /// Name and head of the default channel, or of the first one if there is no such channel.
    pub(super) fn default_head(&self) -> Option<(&'a str, &Shown<'a>)> {
        let found = self.channels.iter().find(|(channel, _)| channel.name == self.default_channel);
        found.or(self.channels.first()).map(|(channel, shown)| (channel.name, shown))
    }

    pub(super) fn package(&self) -> &'a Package<'a> {
        self.package
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Object<'a> {
    api_version: &'static str,
    kind: &'static str,
    metadata: Metadata<'a>,
    spec: Empty,
    status: Status<'a>,
}

/// Clients expect the field, empty as it is.
#[derive(Serialize)]
struct Empty {}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Status<'a> {
    catalog_source: &'a str,
    catalog_source_display_name: &'a str,
    catalog_source_publisher: &'a str,
    catalog_source_namespace: &'a str,
    provider: &'a Provider,
    package_name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    deprecation: Option<Deprecation<'a>>,
    channels: Vec<ShownChannel<'a>>,
    default_channel: &'a str,
}

#[derive(Serialize)]
struct Deprecation<'a> {
    message: &'a str,
}

#[derive(Serialize)]
struct ShownChannel<'a> {
    name: &'a str,
    #[serde(rename = "currentCSV")]
    current_csv: &'a str,
    #[serde(rename = "currentCSVDesc")]
    description: &'a Description<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    deprecation: Option<Deprecation<'a>>,
    entries: Vec<ShownEntry<'a>>,
}

#[derive(Serialize)]
struct ShownEntry<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    version: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    deprecation: Option<Deprecation<'a>>,
}

impl<'a> ShownChannel<'a> {
    fn of(channel: &'a Channel<'a>, shown: &'a Shown<'a>) -> Self {
        let mut entries: Vec<&Entry> = channel.entries.iter().filter(|entry| !entry.is_withdrawn).collect();
        // The highest version first, and what has none last.
        entries.sort_by_cached_key(|entry| (Reverse(Order::of(entry)), entry.name));
        let entries = entries.into_iter().map(|entry| ShownEntry {
            name: entry.name,
            version: entry.version,
            deprecation: entry.deprecation.map(|message| Deprecation { message }),
        });
        ShownChannel {
            name: channel.name,
            current_csv: &shown.csv_name,
            description: &shown.description,
            deprecation: channel.deprecation.map(|message| Deprecation { message }),
            entries: entries.collect(),
        }
    }
}

/// Version and release of an entry by precedence. Build metadata does not count.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Order(Option<Version>, Option<semver::Prerelease>);

impl Order {
    fn of(entry: &Entry) -> Self {
        let version = Version::parse(entry.version).ok();
        let version = version.map(|version| Version { build: semver::BuildMetadata::EMPTY, ..version });
        let release = Some(entry.release).filter(|release| !release.is_empty());
        Order(version, release.and_then(|release| semver::Prerelease::new(release).ok()))
    }
}
