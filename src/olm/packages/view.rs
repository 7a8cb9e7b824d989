//! What PackageManifests are made of: a catalog and one of its packages, both as plain data.

pub(crate) use crate::olm::catalog::served::Catalog;

/// A package. Texts without content are empty.
#[derive(Clone, Debug, Default)]
pub(crate) struct Package<'a> {
    pub name: &'a str,
    /// For versions that have none of their own.
    pub description: &'a str,
    pub icon: Option<IconSource<'a>>,
    pub default_channel: &'a str,
    pub deprecation: Option<&'a str>,
    /// In the order in which they are shown.
    pub channels: Vec<Channel<'a>>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Channel<'a> {
    pub name: &'a str,
    pub deprecation: Option<&'a str>,
    pub entries: Vec<Entry<'a>>,
    pub head: Head<'a>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Entry<'a> {
    pub name: &'a str,
    pub version: &'a str,
    /// Tells rebuilds of one version apart.
    pub release: &'a str,
    /// Why nobody should install it.
    pub deprecation: Option<&'a str>,
    /// It has the property `olm.deprecated`, so that nobody can.
    pub is_withdrawn: bool,
}

/// The version at the head of a channel.
#[derive(Clone, Debug, Default)]
pub(crate) struct Head<'a> {
    /// Of the bundle.
    pub name: &'a str,
    pub version: &'a str,
    /// Those of the blob, each with an image.
    pub related_images: Vec<&'a str>,
    pub csv: CsvSource<'a>,
}

/// What a catalog has of a ClusterServiceVersion, as JSON.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum CsvSource<'a> {
    /// Nothing.
    #[default]
    Absent,
    /// The value of `olm.csv.metadata`.
    Metadata(&'a [u8]),
    /// A manifest of an `olm.bundle.object`, decoded from base64.
    Object(&'a [u8]),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IconSource<'a> {
    /// Base64, perhaps with ends of lines in it.
    pub data: &'a str,
    pub media_type: &'a str,
}
