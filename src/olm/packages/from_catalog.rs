//! Packages of a catalog: from its index, and from what is read of the data beside it, which is no more than one package at a time.

use super::manifest::PackageManifest;
use super::metadata::Labelled;
use super::view::{self, CsvSource, IconSource};
use crate::olm::catalog::index::{Channel, Entry, IndexError, Package};
use crate::olm::catalog::objects::{self, Icon};
use crate::olm::catalog::served::Content;
use crate::olm::catalog::stored::{self, Csv};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The property of a bundle that nobody can install any more.
const WITHDRAWN: &str = "olm.deprecated";
/// Packages of which it is told why they are not shown.
const MAX_TOLD: usize = 10;

/// What is read of a package.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// All but its picture.
    Channels,
    /// The picture as well.
    All,
    /// No other channel than the default one.
    DefaultChannel,
}

/// A package with what was read of it.
#[derive(Debug)]
pub(crate) struct Read<'a> {
    package: Package<'a>,
    channels: Vec<Channel<'a>>,
    description: String,
    icon: Option<Icon>,
    /// Those of several channels are read once.
    heads: BTreeMap<&'a str, Head>,
}

#[derive(Debug)]
struct Head {
    csv: Csv,
    images: Vec<String>,
}

impl<'a> Read<'a> {
    pub(crate) fn of(content: &Content, package: Package<'a>, part: Part) -> Result<Self, IndexError> {
        let channels: Vec<Channel<'a>> = match part {
            Part::DefaultChannel => package.default_channel().into_iter().collect(),
            Part::Channels | Part::All => package.channels().collect(),
        };
        let mut heads = BTreeMap::new();
        for bundle in channels.iter().filter_map(|channel| channel.head()?.bundle()) {
            if !heads.contains_key(bundle.name()) {
                let (csv, images) = (stored::csv(content, bundle)?, stored::related_images(content, bundle)?);
                heads.insert(bundle.name(), Head { csv, images });
            }
        }
        let icon = if part == Part::All { objects::icon(content, package)? } else { None };
        Ok(Read { package, channels, description: objects::description(content, package)?, icon, heads })
    }

    pub(crate) fn view(&self) -> view::Package<'_> {
        view::Package {
            name: self.package.name(),
            description: &self.description,
            icon: self.icon.as_ref().map(|icon| IconSource { data: &icon.base64data, media_type: &icon.mediatype }),
            default_channel: self.package.default_channel().map(Channel::name).unwrap_or_default(),
            deprecation: self.package.deprecation(),
            channels: self.channels.iter().map(|channel| self.channel(*channel)).collect(),
        }
    }

    fn channel(&self, channel: Channel<'a>) -> view::Channel<'_> {
        let bundle = channel.head().and_then(Entry::bundle);
        let name = bundle.map(|bundle| bundle.name()).unwrap_or_default();
        let head = self.heads.get(name);
        view::Channel {
            name: channel.name(),
            deprecation: channel.deprecation(),
            entries: channel.entries().filter_map(entry).collect(),
            head: view::Head {
                name,
                version: bundle.map(|bundle| bundle.version()).unwrap_or_default(),
                related_images: head.iter().flat_map(|head| &head.images).map(String::as_str).collect(),
                csv: match head.map(|head| &head.csv) {
                    None | Some(Csv::Absent) => CsvSource::Absent,
                    Some(Csv::Metadata(json)) => CsvSource::Metadata(json.as_bytes()),
                    Some(Csv::Object(json)) => CsvSource::Object(json),
                },
            },
        }
    }
}

/// `None` if the catalog has no such bundle.
fn entry(entry: Entry<'_>) -> Option<view::Entry<'_>> {
    let bundle = entry.bundle()?;
    Some(view::Entry {
        name: bundle.name(),
        version: bundle.version(),
        release: bundle.release().unwrap_or_default(),
        deprecation: bundle.deprecation(),
        is_withdrawn: bundle.properties().any(|property| property.kind() == WITHDRAWN),
    })
}

/// The packages of a catalog that can be shown, by name, for all CatalogSources with this content.
#[derive(Debug, Default)]
pub(crate) struct Labels {
    pub packages: Vec<Arc<Labelled>>,
    /// How many cannot be shown.
    pub hidden: usize,
    /// Why, of the first ones.
    pub causes: Vec<String>,
}

impl Labels {
    /// Reads the head of each default channel, and the others where that one cannot be shown.
    pub(crate) fn of(content: &Content) -> Self {
        let mut labels = Labels::default();
        for package in content.index.packages() {
            let found = labelled(content, package, Part::DefaultChannel);
            match found.or_else(|_| labelled(content, package, Part::Channels)) {
                Ok(labelled) => labels.packages.push(Arc::new(labelled)),
                Err(cause) => {
                    labels.hidden += 1;
                    if labels.causes.len() < MAX_TOLD {
                        labels.causes.push(format!("{}: {cause}", package.name()));
                    }
                }
            }
        }
        labels
    }
}

fn labelled(content: &Content, package: Package<'_>, part: Part) -> Result<Labelled, String> {
    let read = Read::of(content, package, part).map_err(|error| error.to_string())?;
    let (catalog, view) = (view::Catalog::default(), read.view());
    match PackageManifest::of(&catalog, &view) {
        Ok(manifest) => Ok(manifest.labelled()),
        Err(left_out) => Err(match left_out.first() {
            Some((channel, cause)) => format!("the head of its channel {channel} cannot be shown: {cause}"),
            None => "it has no channels".to_owned(),
        }),
    }
}
