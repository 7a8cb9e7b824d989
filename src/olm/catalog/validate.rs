//! The rules that a package keeps as a whole, when each of its blobs is right by itself.

use super::collected::{Collected, Raw, RawBundle, RawChannel, RawDeprecations, RawPackage};
use super::fault::{Reason, short};
use super::faults::Place;
use super::record::{Target, target};
use super::strings::StringId;
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

/// The blobs of one package, each list by name and place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Group<'a> {
    pub all: &'a Collected,
    pub package: StringId,
    pub packages: &'a [RawPackage],
    pub channels: &'a [RawChannel],
    pub bundles: &'a [RawBundle],
    pub deprecations: &'a [RawDeprecations],
}

/// A fault of a package: where, which blob, why.
pub(super) type Found = (Place, String, Reason);

impl<'a> Group<'a> {
    fn text(&self, id: StringId) -> &'a str {
        self.all.strings.get(id)
    }

    fn found<T: Raw>(&self, row: &T, reason: Reason) -> Found {
        let (_, name, place) = row.key();
        (place, format!("{} {}", T::SCHEMA, short(self.text(name))), reason)
    }

    /// Calls `found` with everything that is wrong with the package, one at a time: there may be more than fits into memory.
    pub(super) fn faults(&self, found: &mut impl FnMut(Found)) {
        self.twice(self.packages, found);
        self.twice(self.channels, found);
        self.twice(self.bundles, found);
        self.twice(self.deprecations, found);
        let Some(package) = self.packages.first() else { return self.unknown(found) };
        self.channels_of(package, found);
        self.bundles_in_channels(found);
        self.versions(found);
        self.deprecated(found);
    }

    /// Neighbours of one name.
    fn twice<T: Raw>(&self, rows: &[T], found: &mut impl FnMut(Found)) {
        for (one, next) in rows.iter().zip(rows.iter().skip(1)) {
            let ((_, name, place), (_, same, _)) = (one.key(), next.key());
            if name == same {
                let file = self.all.files.get(place.file as usize).cloned().unwrap_or_default();
                found(self.found(next, Reason::Twice { file, line: place.line as usize }));
            }
        }
    }

    /// Blobs that name a package which does not exist: one fault a schema is enough.
    fn unknown(&self, found: &mut impl FnMut(Found)) {
        let reason = || Reason::UnknownPackage(short(self.text(self.package)));
        let channel = self.channels.first().map(|row| self.found(row, reason()));
        let bundle = self.bundles.first().map(|row| self.found(row, reason()));
        let deprecations = self.deprecations.first().map(|row| self.found(row, reason()));
        [channel, bundle, deprecations].into_iter().flatten().for_each(found);
    }

    fn channels_of(&self, package: &RawPackage, found: &mut impl FnMut(Found)) {
        let default = package.default_channel;
        if self.channels.is_empty() {
            found(self.found(package, Reason::NoChannels));
        } else if default.is_empty() {
            found(self.found(package, Reason::NoDefaultChannel));
        } else if self.channels.iter().all(|channel| channel.name != default) {
            found(self.found(package, Reason::DefaultChannel(short(self.text(default)))));
        }
    }

    fn bundles_in_channels(&self, found: &mut impl FnMut(Found)) {
        let bundles: HashSet<StringId> = self.bundles.iter().map(|bundle| bundle.name).collect();
        let mut entries = HashSet::new();
        for channel in self.channels {
            for entry in channel.entries.of(&self.all.entries) {
                entries.insert(entry.name);
                if !entry.name.is_empty() && !bundles.contains(&entry.name) {
                    let entry = short(self.text(entry.name));
                    found(self.found(channel, Reason::EntryWithoutBundle { entry }));
                }
            }
        }
        let alone = self.bundles.iter().filter(|bundle| !entries.contains(&bundle.name));
        alone.map(|bundle| self.found(bundle, Reason::InNoChannel)).for_each(found);
    }

    fn versions(&self, found: &mut impl FnMut(Found)) {
        let mut known: HashMap<Cow<'_, str>, StringId> = HashMap::new();
        for bundle in self.bundles.iter().filter(|bundle| !bundle.version.is_empty()) {
            let version = match (self.text(bundle.version), self.text(bundle.release)) {
                (version, "") => Cow::Borrowed(version),
                (version, release) => Cow::Owned(format!("{version}-{release}")),
            };
            let other = *known.entry(version.clone()).or_insert(bundle.name);
            // Two bundles of one name are a fault of their own.
            if other != bundle.name {
                let (version, other) = (short(&version), short(self.text(other)));
                found(self.found(bundle, Reason::SameVersion { version, other }));
            }
        }
    }

    fn deprecated(&self, found: &mut impl FnMut(Found)) {
        let channels: HashSet<StringId> = self.channels.iter().map(|channel| channel.name).collect();
        let bundles: HashSet<StringId> = self.bundles.iter().map(|bundle| bundle.name).collect();
        for blob in self.deprecations {
            for entry in blob.targets.of(&self.all.targets) {
                let exists = match entry.target {
                    Target::Package => true,
                    Target::Channel => channels.contains(&entry.name),
                    Target::Bundle => bundles.contains(&entry.name),
                };
                if !exists {
                    let target = target(entry.target, self.text(entry.name));
                    found(self.found(blob, Reason::DeprecatedTarget { target }));
                }
            }
        }
    }
}
