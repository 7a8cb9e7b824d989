//! Questions to an index.

use super::{Index, IndexError};
use crate::olm::catalog::record::StoredKind;
use crate::olm::catalog::rows::{
    ApiRow, BundleRow, ChannelRow, CustomRow, EntryRow, Extent, PackageRow, PropertyRow, Span,
};
use crate::olm::catalog::strings::StringId;
use crate::olm::names::property::{GVK, GVK_REQUIRED};

/// Defines a view: an index and a row of it.
macro_rules! views {
    ($($(#[$about:meta])* $name:ident of $row:ty)+) => {$(
        $(#[$about])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name<'a> {
            index: &'a Index,
            row: &'a $row,
        }
    )+};
}

views! {
    Package of PackageRow
    Channel of ChannelRow
    /// A bundle in a channel.
    Entry of EntryRow
    Bundle of BundleRow
    Property of PropertyRow
    /// A blob of an unknown schema.
    Custom of CustomRow
}

/// A part of a blob in the data file.
#[derive(Clone, Copy, Debug)]
pub struct Stored<'a>(&'a Extent);

/// An API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Api<'a> {
    pub group: &'a str,
    pub version: &'a str,
    pub kind: &'a str,
}

impl Index {
    fn string(&self, id: StringId) -> &str {
        self.strings.get(id)
    }

    /// `None` instead of an empty string.
    fn some(&self, id: StringId) -> Option<&str> {
        (!id.is_empty()).then(|| self.string(id))
    }

    /// All packages by name.
    pub fn packages(&self) -> impl Iterator<Item = Package<'_>> {
        self.packages.iter().map(|row| Package { index: self, row })
    }

    pub fn package(&self, name: &str) -> Option<Package<'_>> {
        let name = self.strings.find(name)?;
        let at = self.packages.binary_search_by_key(&name, |row| row.name).ok()?;
        self.packages.get(at).map(|row| Package { index: self, row })
    }

    /// All bundles by package and name.
    pub fn bundles(&self) -> impl Iterator<Item = Bundle<'_>> {
        self.bundles.iter().map(|row| Bundle { index: self, row })
    }

    /// The entries of all channels by package and channel, from one of them on.
    pub fn entries_from(&self, at: usize) -> impl Iterator<Item = Entry<'_>> {
        self.entries.get(at..).unwrap_or_default().iter().map(|row| Entry { index: self, row })
    }

    /// The channels of all packages by package and name, from one of them on.
    pub fn channels_from(&self, at: usize) -> impl Iterator<Item = Channel<'_>> {
        self.channels.get(at..).unwrap_or_default().iter().map(|row| Channel { index: self, row })
    }

    /// The entries of all channels that replace or skip a bundle of this name, which may be absent itself.
    pub fn replacing(&self, name: &str) -> impl Iterator<Item = Entry<'_>> {
        let name = self.strings.find(name).filter(|name| !name.is_empty());
        let replaces = move |row: &&EntryRow| {
            name.is_some_and(|name| row.replaces == name || row.skips.of(&self.skips).contains(&name))
        };
        self.entries.iter().filter(replaces).map(|row| Entry { index: self, row })
    }

    /// The bundles that provide an API.
    pub fn providing(&self, api: Api<'_>) -> impl Iterator<Item = Bundle<'_>> {
        let id = |text: &str| self.strings.find(text);
        let kind = id(GVK);
        // The same API may be written in several ways.
        let wanted = [id(api.group), id(api.version), id(api.kind)];
        let same = move |row: &&ApiRow| [row.group, row.version, row.kind].map(Some) == wanted;
        let values: Vec<StringId> = self.apis.iter().filter(same).map(|row| row.value).collect();
        let provides = move |row: &PropertyRow| Some(row.kind) == kind && values.contains(&row.value);
        let rows = self.bundles.iter().filter(move |row| row.properties.of(&self.properties).iter().any(&provides));
        rows.map(|row| Bundle { index: self, row })
    }

    /// Blobs of a schema that is not known here, of one package or (where `package` is empty) of all and none.
    pub fn custom<'a>(&'a self, schema: &'a str, package: &'a str) -> impl Iterator<Item = Custom<'a>> {
        let all = self.custom.iter().map(|row| Custom { index: self, row });
        all.filter(move |it| it.schema() == schema && (package.is_empty() || it.package() == package))
    }

    /// The blobs of all unknown schemas.
    pub fn all_custom(&self) -> impl Iterator<Item = Custom<'_>> {
        self.custom.iter().map(|row| Custom { index: self, row })
    }

    fn properties(&self, span: Span) -> impl Iterator<Item = Property<'_>> {
        span.of(&self.properties).iter().map(|row| Property { index: self, row })
    }

    fn stored(&self, span: Span, kind: StoredKind) -> impl Iterator<Item = Stored<'_>> {
        let of_kind = move |row: &&Extent| row.kind == kind as u32;
        span.of(&self.stored).iter().filter(of_kind).map(Stored)
    }
}

impl<'a> Package<'a> {
    pub fn name(self) -> &'a str {
        self.index.string(self.row.name)
    }

    pub fn default_channel(self) -> Option<Channel<'a>> {
        Channel::at(self.index, self.row.default_channel)
    }

    /// By name.
    pub fn channels(self) -> impl Iterator<Item = Channel<'a>> {
        self.row.channels.of(&self.index.channels).iter().map(move |row| Channel { index: self.index, row })
    }

    pub fn channel(self, name: &str) -> Option<Channel<'a>> {
        self.channels().find(|channel| channel.name() == name)
    }

    /// By name.
    pub fn bundles(self) -> impl Iterator<Item = Bundle<'a>> {
        self.row.bundles.of(&self.index.bundles).iter().map(move |row| Bundle { index: self.index, row })
    }

    pub fn bundle(self, name: &str) -> Option<Bundle<'a>> {
        let name = self.index.strings.find(name)?;
        let rows = self.row.bundles.of(&self.index.bundles);
        let at = rows.binary_search_by_key(&name, |row| row.name).ok()?;
        rows.get(at).map(|row| Bundle { index: self.index, row })
    }

    pub fn properties(self) -> impl Iterator<Item = Property<'a>> {
        self.index.properties(self.row.properties)
    }

    /// Why it is deprecated.
    pub fn deprecation(self) -> Option<&'a str> {
        self.index.some(self.row.deprecation)
    }

    /// Its description or icon.
    pub fn stored(self, kind: StoredKind) -> Option<Stored<'a>> {
        self.index.stored(self.row.stored, kind).next()
    }
}

impl<'a> Channel<'a> {
    fn at(index: &'a Index, row: u32) -> Option<Self> {
        index.channels.get(row as usize).map(|row| Channel { index, row })
    }

    pub fn name(self) -> &'a str {
        self.index.string(self.row.name)
    }

    pub fn package(self) -> Option<Package<'a>> {
        Package::at(self.index, self.row.package)
    }

    pub fn head(self) -> Option<Entry<'a>> {
        self.index.entries.get(self.row.head as usize).map(|row| Entry { index: self.index, row })
    }

    pub fn entries(self) -> impl Iterator<Item = Entry<'a>> {
        self.row.entries.of(&self.index.entries).iter().map(move |row| Entry { index: self.index, row })
    }

    pub fn properties(self) -> impl Iterator<Item = Property<'a>> {
        self.index.properties(self.row.properties)
    }

    pub fn deprecation(self) -> Option<&'a str> {
        self.index.some(self.row.deprecation)
    }
}

impl<'a> Package<'a> {
    fn at(index: &'a Index, row: u32) -> Option<Self> {
        index.packages.get(row as usize).map(|row| Package { index, row })
    }
}

impl<'a> Entry<'a> {
    pub fn bundle(self) -> Option<Bundle<'a>> {
        self.index.bundles.get(self.row.bundle as usize).map(|row| Bundle { index: self.index, row })
    }

    /// The name of its bundle.
    pub fn name(self) -> &'a str {
        self.bundle().map(Bundle::name).unwrap_or_default()
    }

    pub fn channel(self) -> Option<Channel<'a>> {
        Channel::at(self.index, self.row.channel)
    }

    pub fn replaces(self) -> Option<&'a str> {
        self.index.some(self.row.replaces)
    }

    pub fn skips(self) -> impl Iterator<Item = &'a str> {
        self.row.skips.of(&self.index.skips).iter().map(move |id| self.index.string(*id))
    }

    pub fn skip_range(self) -> Option<&'a str> {
        self.index.some(self.row.skip_range)
    }
}

impl<'a> Bundle<'a> {
    pub fn name(self) -> &'a str {
        self.index.string(self.row.name)
    }

    pub fn package(self) -> Option<Package<'a>> {
        Package::at(self.index, self.row.package)
    }

    /// `None` if its manifests are in the catalog.
    pub fn image(self) -> Option<&'a str> {
        self.index.some(self.row.image)
    }

    pub fn version(self) -> &'a str {
        self.index.string(self.row.version)
    }

    pub fn release(self) -> Option<&'a str> {
        self.index.some(self.row.release)
    }

    /// All but those in the data file, which are [`StoredKind::Metadata`] and [`StoredKind::Object`].
    pub fn properties(self) -> impl Iterator<Item = Property<'a>> {
        self.index.properties(self.row.properties)
    }

    pub fn deprecation(self) -> Option<&'a str> {
        self.index.some(self.row.deprecation)
    }

    /// The APIs that it provides.
    pub fn provided(self) -> impl Iterator<Item = Api<'a>> {
        self.apis(GVK)
    }

    /// The APIs that it requires.
    pub fn required(self) -> impl Iterator<Item = Api<'a>> {
        self.apis(GVK_REQUIRED)
    }

    fn apis(self, kind: &'static str) -> impl Iterator<Item = Api<'a>> {
        self.properties().filter(move |property| property.kind() == kind).filter_map(Property::api)
    }

    /// Parts of its blob in the data file.
    pub fn stored(self, kind: StoredKind) -> impl Iterator<Item = Stored<'a>> {
        self.index.stored(self.row.stored, kind)
    }
}

impl<'a> Property<'a> {
    pub fn kind(self) -> &'a str {
        self.index.string(self.row.kind)
    }

    /// JSON without blanks.
    pub fn value(self) -> &'a str {
        self.index.string(self.row.value)
    }

    /// The API of an `olm.gvk` or `olm.gvk.required`.
    pub fn api(self) -> Option<Api<'a>> {
        let at = self.index.apis.binary_search_by_key(&self.row.value, |row| row.value).ok()?;
        let row = self.index.apis.get(at)?;
        let text = |id| self.index.string(id);
        Some(Api { group: text(row.group), version: text(row.version), kind: text(row.kind) })
    }
}

impl Stored<'_> {
    /// Where it begins in the data file, in bytes.
    pub fn offset(self) -> u64 {
        self.0.offset
    }

    /// In bytes.
    pub fn length(self) -> usize {
        self.0.length as usize
    }

    /// Its JSON, if these are the bytes of the data file there.
    pub fn json(self, bytes: &[u8]) -> Result<&str, IndexError> {
        self.0.text(bytes)
    }
}

impl<'a> Custom<'a> {
    pub fn schema(self) -> &'a str {
        self.index.string(self.row.schema)
    }

    /// Empty if it names none.
    pub fn package(self) -> &'a str {
        self.index.string(self.row.package)
    }

    pub fn name(self) -> &'a str {
        self.index.string(self.row.name)
    }

    /// The blob in the data file.
    pub fn blob(self) -> Option<Stored<'a>> {
        self.index.stored.get(self.row.stored as usize).map(Stored)
    }
}
