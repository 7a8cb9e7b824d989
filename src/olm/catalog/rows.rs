//! The tables of an index: rows of numbers, with strings and spans of other tables in them.

use super::strings::StringId;

/// A number in a row, or a row of them.
pub(super) trait Cell: Sized {
    fn write(&self, out: &mut Vec<u8>);
    /// Takes the cell from the beginning of the bytes.
    fn read(bytes: &mut &[u8]) -> Option<Self>;
    /// Calls `f` with each string.
    fn strings(&mut self, _f: &mut impl FnMut(&mut StringId)) {}
}

/// Neighbouring rows of another table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Span {
    pub start: u32,
    pub length: u32,
}

impl Span {
    /// The rows from `start` to the end of a table.
    pub(super) fn since<T>(start: usize, table: &[T]) -> Self {
        let number = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
        Span { start: number(start), length: number(table.len().saturating_sub(start)) }
    }

    pub(super) fn of<T>(self, table: &[T]) -> &[T] {
        let start = self.start as usize;
        table.get(start..start.saturating_add(self.length as usize)).unwrap_or_default()
    }
}

impl Cell for u32 {
    fn write(&self, out: &mut Vec<u8>) {
        out.extend(self.to_le_bytes());
    }

    fn read(bytes: &mut &[u8]) -> Option<Self> {
        let (cell, rest) = bytes.split_first_chunk()?;
        *bytes = rest;
        Some(u32::from_le_bytes(*cell))
    }
}

impl Cell for u64 {
    fn write(&self, out: &mut Vec<u8>) {
        out.extend(self.to_le_bytes());
    }

    fn read(bytes: &mut &[u8]) -> Option<Self> {
        let (cell, rest) = bytes.split_first_chunk()?;
        *bytes = rest;
        Some(u64::from_le_bytes(*cell))
    }
}

impl Cell for StringId {
    fn write(&self, out: &mut Vec<u8>) {
        self.0.write(out);
    }

    fn read(bytes: &mut &[u8]) -> Option<Self> {
        u32::read(bytes).map(StringId)
    }

    fn strings(&mut self, f: &mut impl FnMut(&mut StringId)) {
        f(self);
    }
}

/// Defines rows by their cells.
macro_rules! rows {
    ($($(#[$about:meta])* $name:ident { $($(#[$what:meta])* $cell:ident: $kind:ty,)+ })+) => {$(
        $(#[$about])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub(super) struct $name { $($(#[$what])* pub $cell: $kind,)+ }

        impl Cell for $name {
            fn write(&self, out: &mut Vec<u8>) {
                $(self.$cell.write(out);)+
            }

            fn read(bytes: &mut &[u8]) -> Option<Self> {
                Some($name { $($cell: Cell::read(bytes)?,)+ })
            }

            fn strings(&mut self, f: &mut impl FnMut(&mut StringId)) {
                $(self.$cell.strings(f);)+
            }
        }
    )+};
}

impl Cell for Span {
    fn write(&self, out: &mut Vec<u8>) {
        self.start.write(out);
        self.length.write(out);
    }

    fn read(bytes: &mut &[u8]) -> Option<Self> {
        Some(Span { start: Cell::read(bytes)?, length: Cell::read(bytes)? })
    }
}

rows! {
    /// A part of the data file.
    Extent {
        offset: u64,
        length: u32,
        /// CRC-32 of its bytes.
        checksum: u32,
        /// A number of [`super::record::StoredKind`]; 0 for a blob of an unknown schema.
        kind: u32,
    }
    PackageRow {
        name: StringId,
        /// A row of the channels.
        default_channel: u32,
        channels: Span,
        bundles: Span,
        properties: Span,
        stored: Span,
        /// Why it is deprecated. Empty if it is not.
        deprecation: StringId,
    }
    ChannelRow {
        name: StringId,
        /// A row of the packages.
        package: u32,
        entries: Span,
        /// A row of the entries.
        head: u32,
        properties: Span,
        deprecation: StringId,
    }
    EntryRow {
        /// A row of the bundles.
        bundle: u32,
        /// A row of the channels.
        channel: u32,
        /// Empty if it replaces nothing.
        replaces: StringId,
        skips: Span,
        skip_range: StringId,
    }
    BundleRow {
        name: StringId,
        package: u32,
        image: StringId,
        version: StringId,
        release: StringId,
        properties: Span,
        stored: Span,
        deprecation: StringId,
    }
    PropertyRow {
        kind: StringId,
        /// JSON without blanks.
        value: StringId,
    }
    /// What a property with an API says.
    ApiRow {
        /// JSON of the property.
        value: StringId,
        group: StringId,
        version: StringId,
        kind: StringId,
    }
    /// A blob of an unknown schema.
    CustomRow {
        schema: StringId,
        package: StringId,
        name: StringId,
        /// A row of the extents.
        stored: u32,
    }
}
