//! What a catalog offers, in some 15 MiB for 15,000 bundles: tables of numbers, and each string once. Strings are sorted, so
//! that their numbers compare as they do, and one is found without a table of its own. Packages, their channels and their
//! bundles are sorted by name; entries of a channel and properties have the order of their blob.

mod disk;
mod views;

pub use disk::IndexError;
pub use views::{Api, Bundle, Channel, Custom, Entry, Package, Property, Stored};

use super::rows::{ApiRow, BundleRow, Cell, ChannelRow, CustomRow, EntryRow, Extent, PackageRow, PropertyRow};
use super::strings::{StringId, Strings};

/// The packages of a catalog that can be served.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Index {
    pub(super) strings: Strings,
    pub(super) packages: Vec<PackageRow>,
    pub(super) channels: Vec<ChannelRow>,
    pub(super) entries: Vec<EntryRow>,
    pub(super) skips: Vec<StringId>,
    pub(super) bundles: Vec<BundleRow>,
    pub(super) properties: Vec<PropertyRow>,
    /// By the string of the property.
    pub(super) apis: Vec<ApiRow>,
    pub(super) stored: Vec<Extent>,
    /// By schema, package and name.
    pub(super) custom: Vec<CustomRow>,
    /// Bytes that the data file has at least.
    pub(super) data_length: u64,
}

/// What an index holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub packages: usize,
    pub channels: usize,
    pub bundles: usize,
}

impl Index {
    pub fn counts(&self) -> Counts {
        Counts { packages: self.packages.len(), channels: self.channels.len(), bundles: self.bundles.len() }
    }

    /// Bytes in memory, about.
    pub fn size(&self) -> usize {
        fn of<T>(table: &[T]) -> usize {
            size_of_val(table)
        }
        self.strings.size()
            + of(&self.packages)
            + of(&self.channels)
            + of(&self.entries)
            + of(&self.skips)
            + of(&self.bundles)
            + of(&self.properties)
            + of(&self.apis)
            + of(&self.stored)
            + of(&self.custom)
    }

    /// Bytes that the data file has at least.
    pub fn data_length(&self) -> u64 {
        self.data_length
    }

    /// Gives back the memory that growing has reserved.
    pub(super) fn shrink(&mut self) {
        self.strings.shrink();
        self.packages.shrink_to_fit();
        self.channels.shrink_to_fit();
        self.entries.shrink_to_fit();
        self.skips.shrink_to_fit();
        self.bundles.shrink_to_fit();
        self.properties.shrink_to_fit();
        self.apis.shrink_to_fit();
        self.stored.shrink_to_fit();
        self.custom.shrink_to_fit();
    }

    /// Calls `f` with each string of each table.
    pub(super) fn for_each_string(&mut self, f: &mut impl FnMut(&mut StringId)) {
        fn of<T: Cell>(table: &mut [T], f: &mut impl FnMut(&mut StringId)) {
            table.iter_mut().for_each(|row| row.strings(f));
        }
        of(&mut self.packages, f);
        of(&mut self.channels, f);
        of(&mut self.entries, f);
        of(&mut self.skips, f);
        of(&mut self.bundles, f);
        of(&mut self.properties, f);
        of(&mut self.apis, f);
        of(&mut self.custom, f);
    }
}

#[cfg(test)]
mod tests;
