//! All that the blobs of a catalog say, as it was read. Names, versions and small properties are kept once each; what is large was
//! written to the data file.

use super::decode::Decoded;
use super::fault::Reason;
use super::faults::{Faults, Place};
use super::properties::Property;
use super::record::{Content, Record, Stored, Target};
use super::rows::{ApiRow, CustomRow, Extent, PropertyRow, Span};
use super::strings::{Interner, StringId};
use crate::olm::names::property::{GVK, GVK_REQUIRED};
use crate::olm::names::schema::{BUNDLE, CHANNEL, DEPRECATIONS, PACKAGE};
use std::collections::HashMap;
use std::io::{self, Write};

/// Rows of all blobs. Those of the four schemas are in the order in which they were read.
#[derive(Debug, Default)]
pub(super) struct Collected {
    pub files: Vec<String>,
    pub strings: Interner,
    pub packages: Vec<RawPackage>,
    pub channels: Vec<RawChannel>,
    pub bundles: Vec<RawBundle>,
    pub deprecations: Vec<RawDeprecations>,
    pub entries: Vec<RawEntry>,
    pub skips: Vec<StringId>,
    pub targets: Vec<RawTarget>,
    pub properties: Vec<PropertyRow>,
    /// By the value of the property.
    pub apis: HashMap<StringId, ApiRow>,
    pub stored: Vec<Extent>,
    pub custom: Vec<(Place, CustomRow)>,
    /// Bytes in the data file.
    pub data_length: u64,
    pub faults: Faults,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct RawPackage {
    pub place: Place,
    pub name: StringId,
    pub default_channel: StringId,
    pub properties: Span,
    pub stored: Span,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct RawChannel {
    pub place: Place,
    pub package: StringId,
    pub name: StringId,
    pub entries: Span,
    /// Which of the entries.
    pub head: u32,
    pub properties: Span,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct RawEntry {
    pub name: StringId,
    pub replaces: StringId,
    pub skips: Span,
    pub skip_range: StringId,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct RawBundle {
    pub place: Place,
    pub package: StringId,
    pub name: StringId,
    pub image: StringId,
    pub version: StringId,
    pub release: StringId,
    pub properties: Span,
    pub stored: Span,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct RawDeprecations {
    pub place: Place,
    pub package: StringId,
    pub targets: Span,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct RawTarget {
    pub target: Target,
    pub name: StringId,
    pub message: StringId,
}

/// A row of a blob.
pub(super) trait Raw: Copy {
    /// Schema, for messages.
    const SCHEMA: &'static str;
    /// Package, name and place.
    fn key(&self) -> (StringId, StringId, Place);
}

macro_rules! raw {
    ($($row:ty, $schema:ident, $package:ident, $name:ident;)+) => {$(
        impl Raw for $row {
            const SCHEMA: &'static str = $schema;

            fn key(&self) -> (StringId, StringId, Place) {
                (self.$package, self.$name, self.place)
            }
        }
    )+};
}

raw! {
    RawPackage, PACKAGE, name, name;
    RawChannel, CHANNEL, package, name;
    RawBundle, BUNDLE, package, name;
    RawDeprecations, DEPRECATIONS, package, package;
}

impl Collected {
    /// Bytes in memory, about.
    pub(super) fn size(&self) -> usize {
        fn of<T>(rows: &[T]) -> usize {
            size_of_val(rows)
        }
        self.strings.size()
            + of(&self.packages)
            + of(&self.channels)
            + of(&self.bundles)
            + of(&self.deprecations)
            + of(&self.entries)
            + of(&self.skips)
            + of(&self.targets)
            + of(&self.properties)
            + of(&self.stored)
            + of(&self.custom)
            + self.apis.len() * size_of::<(StringId, ApiRow)>()
    }

    /// A fault of a file as a whole.
    pub(super) fn fault(&mut self, place: Place, reason: Reason) {
        self.faults.add(&self.strings, &self.files, (place, String::new(), StringId::EMPTY, reason));
    }

    pub(super) fn add(&mut self, file: u32, decoded: Decoded<'_>, data: &mut impl Write) -> io::Result<()> {
        let place = Place { file, line: u32::try_from(decoded.line).unwrap_or(u32::MAX) };
        let mut record = match decoded.record {
            Ok(None) => return Ok(()),
            Ok(Some(record)) => record,
            Err(reason) => {
                self.fault(place, reason);
                return Ok(());
            }
        };
        let package = self.strings.add(&record.package);
        let reasons = std::mem::take(&mut record.reasons);
        if matches!(record.content, Content::None) {
            self.faults.incomplete.insert(package);
        }
        for reason in reasons {
            self.faults.add(&self.strings, &self.files, (place, record.label(), package, reason));
        }
        self.content(place, package, &record, data)
    }

    fn content(
        &mut self,
        place: Place,
        package: StringId,
        record: &Record<'_>,
        data: &mut impl Write,
    ) -> io::Result<()> {
        let name = self.strings.add(&record.name);
        match &record.content {
            Content::Package { default_channel, properties } => {
                let default_channel = self.strings.add(default_channel);
                let (properties, stored) = (self.properties(properties), self.store(&record.stored, data)?);
                self.packages.push(RawPackage { place, name, default_channel, properties, stored });
            }
            Content::Channel { entries, head, properties } => {
                let start = self.entries.len();
                for entry in entries {
                    let since = self.skips.len();
                    self.skips.extend(entry.skips.iter().map(|skip| self.strings.add(skip)));
                    let skips = Span::since(since, &self.skips);
                    let mut id = |text| self.strings.add(text);
                    let (name, replaces, skip_range) = (id(&entry.name), id(&entry.replaces), id(&entry.skip_range));
                    self.entries.push(RawEntry { name, replaces, skips, skip_range });
                }
                let (entries, properties) = (Span::since(start, &self.entries), self.properties(properties));
                let head = u32::try_from(*head).unwrap_or(u32::MAX);
                self.channels.push(RawChannel { place, package, name, entries, head, properties });
            }
            Content::Bundle { image, identity, properties } => {
                let mut id = |text| self.strings.add(text);
                let (image, version, release) = (id(image), id(&identity.version), id(&identity.release));
                let (properties, stored) = (self.properties(properties), self.store(&record.stored, data)?);
                self.bundles.push(RawBundle { place, package, name, image, version, release, properties, stored });
            }
            Content::Deprecations(entries) => {
                let start = self.targets.len();
                for entry in entries {
                    let (name, message) = (self.strings.add(&entry.name), self.strings.add(&entry.message));
                    self.targets.push(RawTarget { target: entry.target, name, message });
                }
                self.deprecations.push(RawDeprecations { place, package, targets: Span::since(start, &self.targets) });
            }
            Content::Custom => {
                let extent = self.extent(record.json, 0, data)?;
                let stored = u32::try_from(self.stored.len()).unwrap_or(u32::MAX);
                self.stored.push(extent);
                let schema = self.strings.add(&record.schema);
                self.custom.push((place, CustomRow { schema, package, name, stored }));
            }
            Content::None => {}
        }
        Ok(())
    }

    fn properties(&mut self, properties: &[Property<'_>]) -> Span {
        let start = self.properties.len();
        for property in properties {
            let (kind, value) = (self.strings.add(&property.kind), self.strings.add(&property.compact()));
            if [GVK, GVK_REQUIRED].contains(&property.kind.as_ref()) {
                self.api(value, property);
            }
            self.properties.push(PropertyRow { kind, value });
        }
        Span::since(start, &self.properties)
    }

    fn api(&mut self, value: StringId, property: &Property<'_>) {
        if self.apis.contains_key(&value) {
            return;
        }
        let fields = property.fields().unwrap_or_default();
        let mut id = |name| self.strings.add(&fields.text(name).unwrap_or_default());
        let row = ApiRow { value, group: id("group"), version: id("version"), kind: id("kind") };
        self.apis.insert(value, row);
    }

    fn store(&mut self, parts: &[Stored<'_>], data: &mut impl Write) -> io::Result<Span> {
        let start = self.stored.len();
        for part in parts {
            let extent = self.extent(part.json, part.kind as u32, data)?;
            self.stored.push(extent);
        }
        Ok(Span::since(start, &self.stored))
    }

    /// Writes a part of a blob.
    fn extent(&mut self, json: &str, kind: u32, data: &mut impl Write) -> io::Result<Extent> {
        data.write_all(json.as_bytes())?;
        let (offset, length) = (self.data_length, u32::try_from(json.len()).unwrap_or(u32::MAX));
        self.data_length += u64::from(length);
        Ok(Extent { offset, length, checksum: crc32fast::hash(json.as_bytes()), kind })
    }
}
