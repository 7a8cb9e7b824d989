//! Makes an index of the packages that can be served.

use super::collected::{Collected, RawBundle, RawChannel};
use super::index::Index;
use super::record::Target;
use super::rows::{BundleRow, ChannelRow, CustomRow, EntryRow, PackageRow, Span};
use super::strings::{Order, StringId, Strings};
use super::validate::Group;
use std::collections::HashMap;

/// An index with the strings of what was collected.
#[derive(Debug)]
pub(super) struct Assembly<'a> {
    all: &'a Collected,
    index: Index,
}

/// Why something is deprecated.
type Messages = HashMap<(Target, StringId), StringId>;

fn number(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

/// Marks the strings that the index uses.
fn mark(index: &mut Index, used: &mut [bool]) {
    index.for_each_string(&mut |id| {
        if let Some(used) = used.get_mut(id.0 as usize) {
            *used = true;
        }
    });
}

/// Copies rows to another table.
fn copy<T: Copy>(span: Span, from: &[T], to: &mut Vec<T>) -> Span {
    let start = to.len();
    to.extend_from_slice(span.of(from));
    Span::since(start, to)
}

impl<'a> Assembly<'a> {
    pub(super) fn new(all: &'a Collected) -> Self {
        Assembly { all, index: Index { data_length: all.data_length, ..Index::default() } }
    }

    /// Adds a package without faults. They come by name.
    pub(super) fn add(&mut self, group: &Group<'_>) {
        let Some(raw) = group.packages.first() else { return };
        let messages: Messages = group
            .deprecations
            .iter()
            .flat_map(|blob| blob.targets.of(&self.all.targets))
            .map(|entry| ((entry.target, entry.name), entry.message))
            .collect();
        let package = number(self.index.packages.len());
        let (first_bundle, first_channel) = (self.index.bundles.len(), self.index.channels.len());
        for bundle in group.bundles {
            self.bundle(package, bundle, &messages);
        }
        let rows: HashMap<StringId, u32> =
            (number(first_bundle)..).zip(group.bundles).map(|(row, bundle)| (bundle.name, row)).collect();
        for channel in group.channels {
            self.channel(package, channel, &rows, &messages);
        }
        let default = group.channels.iter().position(|channel| channel.name == raw.default_channel);
        let row = PackageRow {
            name: raw.name,
            default_channel: number(first_channel + default.unwrap_or_default()),
            channels: Span::since(first_channel, &self.index.channels),
            bundles: Span::since(first_bundle, &self.index.bundles),
            properties: copy(raw.properties, &self.all.properties, &mut self.index.properties),
            stored: copy(raw.stored, &self.all.stored, &mut self.index.stored),
            deprecation: messages.get(&(Target::Package, StringId::EMPTY)).copied().unwrap_or_default(),
        };
        self.index.packages.push(row);
    }

    fn bundle(&mut self, package: u32, raw: &RawBundle, messages: &Messages) {
        let row = BundleRow {
            name: raw.name,
            package,
            image: raw.image,
            version: raw.version,
            release: raw.release,
            properties: copy(raw.properties, &self.all.properties, &mut self.index.properties),
            stored: copy(raw.stored, &self.all.stored, &mut self.index.stored),
            deprecation: messages.get(&(Target::Bundle, raw.name)).copied().unwrap_or_default(),
        };
        self.index.bundles.push(row);
    }

    fn channel(&mut self, package: u32, raw: &RawChannel, bundles: &HashMap<StringId, u32>, messages: &Messages) {
        let (channel, start) = (number(self.index.channels.len()), self.index.entries.len());
        for entry in raw.entries.of(&self.all.entries) {
            let row = EntryRow {
                bundle: bundles.get(&entry.name).copied().unwrap_or(u32::MAX),
                channel,
                replaces: entry.replaces,
                skips: copy(entry.skips, &self.all.skips, &mut self.index.skips),
                skip_range: entry.skip_range,
            };
            self.index.entries.push(row);
        }
        let row = ChannelRow {
            name: raw.name,
            package,
            entries: Span::since(start, &self.index.entries),
            head: number(start).saturating_add(raw.head),
            properties: copy(raw.properties, &self.all.properties, &mut self.index.properties),
            deprecation: messages.get(&(Target::Channel, raw.name)).copied().unwrap_or_default(),
        };
        self.index.channels.push(row);
    }

    /// The index of all packages that were added, and of blobs of unknown schemas except those of sick packages.
    pub(super) fn finish(mut self, order: &Order, is_sick: impl Fn(StringId) -> bool) -> Index {
        self.custom(order, is_sick);
        let mut used = vec![false; self.all.strings.len()];
        mark(&mut self.index, &mut used);
        let apis = self.all.apis.values().filter(|row| used.get(row.value.0 as usize) == Some(&true));
        self.index.apis = apis.copied().collect();
        mark(&mut self.index, &mut used);
        self.renumber(order, &used);
        self.index.apis.sort_unstable_by_key(|row| row.value);
        self.index.shrink();
        self.index
    }

    fn custom(&mut self, order: &Order, is_sick: impl Fn(StringId) -> bool) {
        for (_, row) in self.all.custom.iter().filter(|(_, row)| !is_sick(row.package)) {
            let stored = number(self.index.stored.len());
            self.index.stored.extend(self.all.stored.get(row.stored as usize).copied());
            self.index.custom.push(CustomRow { stored, ..*row });
        }
        self.index.custom.sort_by_key(|row| [row.schema, row.package, row.name].map(|id| order.rank(id)));
    }

    /// Keeps only the strings that are used, in alphabetical order.
    fn renumber(&mut self, order: &Order, used: &[bool]) {
        let (mut strings, mut numbers) = (Strings::default(), vec![StringId::EMPTY; used.len()]);
        for id in order.sorted.iter().filter(|id| !id.is_empty()) {
            if used.get(id.0 as usize) == Some(&true)
                && let Some(number) = numbers.get_mut(id.0 as usize)
            {
                *number = strings.push(self.all.strings.get(*id));
            }
        }
        self.index.for_each_string(&mut |id| *id = numbers.get(id.0 as usize).copied().unwrap_or_default());
        self.index.strings = strings;
    }
}
