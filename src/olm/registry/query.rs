//! What each method answers, a part at a time: an answer has rows, those of a table of the index, and each row has messages. So a
//! long one needs no more memory than a short one.

use super::bundle::{self, Form, deprecation};
use super::messages::*;
use crate::error::shortened;
use crate::olm::catalog::index::{self, Api, Entry, Index, IndexError};
use crate::olm::catalog::served::Content;
use prost::Message;
use prost_types::value::Kind;
use prost_types::{ListValue, Struct, Value};
use serde_json::Value as Json;
use std::collections::HashSet;

/// Bytes of the messages of a part, about.
const PART_SIZE: usize = 64 << 10;
/// Rows of a part.
const PART_ROWS: usize = 512;
/// Bytes of a free-form blob. As values of the API it takes many times as much.
const MAX_BLOB: usize = 1 << 20;
/// Bytes of memory that a byte of a free-form blob takes at most as such values.
const BLOB_COPIES: usize = 64;
/// Bytes of a name in an error.
const MAX_NAME: usize = 200;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum QueryError {
    #[error("package {package:?} not found")]
    Package { package: String },
    #[error("package {package:?}, channel {channel:?} not found")]
    Channel { package: String, channel: String },
    #[error("package {package:?}, channel {channel:?}, bundle {bundle:?} not found")]
    Bundle { package: String, channel: String, bundle: String },
    #[error("no entry of package {package:?}, channel {channel:?} replaces {bundle:?}")]
    NotReplaced { package: String, channel: String, bundle: String },
    #[error("no channel entries found that replace {bundle:?}")]
    NoneReplaces { bundle: String },
    #[error("no channel entries found that provide group {group:?}, version {version:?}, kind {kind:?}")]
    NoneProvides { group: String, version: String, kind: String },
    #[error("{field} {value:?} must be letters, digits, '.', '_' and '-', beginning with a letter or digit")]
    Invalid { field: &'static str, value: String },
    #[error("{name:?} of schema {schema:?} has more than {MAX_BLOB} bytes; read it from the image of the catalog")]
    TooLarge { schema: String, name: String },
    #[error("the index of the catalog: {0}")]
    Index(#[from] IndexError),
}

/// A request.
pub(crate) trait Query: Message + Default + 'static {
    /// Path of the method, with its service.
    const PATH: &'static str;
    type Answer: Message + Default + std::fmt::Debug;

    /// The messages of a row; `None` after the last one.
    fn row(&self, content: &Content, row: usize) -> Result<Option<Vec<Self::Answer>>, QueryError>;

    /// Bytes of memory that a row takes besides what is in the index, about.
    fn weight(&self, _content: &Content, _row: usize) -> usize {
        0
    }

    /// The error that no messages at all are.
    fn none(&self) -> Option<QueryError> {
        None
    }
}

/// Some messages of an answer.
#[derive(Debug)]
pub(crate) struct Part<A> {
    pub messages: Vec<A>,
    /// The row with which the next part begins; `None` after the last one.
    pub next: Option<usize>,
}

/// The messages from a row on, as many as one part has. A row with a weight is a part of its own.
pub(crate) fn part<Q: Query>(query: &Q, content: &Content, from: usize) -> Result<Part<Q::Answer>, QueryError> {
    let (mut messages, mut size) = (Vec::new(), 0);
    for row in from..from.saturating_add(PART_ROWS) {
        if size >= PART_SIZE || row > from && query.weight(content, row) > 0 {
            return Ok(Part { messages, next: Some(row) });
        }
        let Some(more) = query.row(content, row)? else { return Ok(Part { messages, next: None }) };
        size += more.iter().map(Message::encoded_len).sum::<usize>();
        messages.extend(more);
    }
    Ok(Part { messages, next: Some(from.saturating_add(PART_ROWS)) })
}

fn name(text: &str) -> String {
    shortened(text, MAX_NAME).into_owned()
}

/// The only row of an answer with one message.
fn only<T>(row: usize, answer: impl FnOnce() -> Result<T, QueryError>) -> Result<Option<Vec<T>>, QueryError> {
    if row == 0 { answer().map(|message| Some(vec![message])) } else { Ok(None) }
}

impl Query for ListPackageRequest {
    const PATH: &str = "/api.Registry/ListPackages";
    type Answer = PackageName;

    fn row(&self, content: &Content, row: usize) -> Result<Option<Vec<PackageName>>, QueryError> {
        Ok(content.index.packages().nth(row).map(|package| vec![PackageName { name: package.name().to_owned() }]))
    }
}

impl Query for GetPackageRequest {
    const PATH: &str = "/api.Registry/GetPackage";
    type Answer = Package;

    fn row(&self, content: &Content, row: usize) -> Result<Option<Vec<Package>>, QueryError> {
        only(row, || {
            let package = package(&content.index, &self.name)?;
            let channel = |channel: index::Channel<'_>| Channel {
                name: channel.name().to_owned(),
                csv_name: channel.head().map(|head| head.name().to_owned()).unwrap_or_default(),
                deprecation: channel.deprecation().map(deprecation),
            };
            let default = package.default_channel().map(|channel| channel.name().to_owned());
            Ok(Package {
                name: package.name().to_owned(),
                channels: package.channels().map(channel).collect(),
                default_channel_name: default.unwrap_or_default(),
                deprecation: package.deprecation().map(deprecation),
            })
        })
    }
}

impl Query for ListBundlesRequest {
    const PATH: &str = "/api.Registry/ListBundles";
    type Answer = Bundle;

    fn row(&self, content: &Content, row: usize) -> Result<Option<Vec<Bundle>>, QueryError> {
        let Some(entry) = content.index.entries_from(row).next() else { return Ok(None) };
        Ok(Some(vec![bundle::of(content, entry, Form::Listed)?]))
    }

    fn weight(&self, content: &Content, row: usize) -> usize {
        content.index.entries_from(row).next().map_or(0, |entry| bundle::weight(entry, Form::Listed))
    }
}

/// Requests for one bundle.
macro_rules! single_bundles {
    ($($request:ident $method:literal;)+) => {$(
        impl Query for $request {
            const PATH: &str = concat!("/api.Registry/", $method);
            type Answer = Bundle;

            fn row(&self, content: &Content, row: usize) -> Result<Option<Vec<Bundle>>, QueryError> {
                only(row, || Ok(bundle::of(content, self.find(&content.index)?, Form::Single)?))
            }

            fn weight(&self, content: &Content, _row: usize) -> usize {
                self.find(&content.index).map_or(0, |entry| bundle::weight(entry, Form::Single))
            }
        }
    )+};
}

single_bundles! {
    GetBundleRequest "GetBundle";
    GetBundleInChannelRequest "GetBundleForChannel";
    GetReplacementRequest "GetBundleThatReplaces";
    GetDefaultProviderRequest "GetDefaultBundleThatProvides";
}

impl GetBundleRequest {
    fn find<'a>(&self, index: &'a Index) -> Result<Entry<'a>, QueryError> {
        let found = channel(index, &self.pkg_name, &self.channel_name)?;
        found.entries().find(|entry| entry.name() == self.csv_name).ok_or_else(|| QueryError::Bundle {
            package: name(&self.pkg_name),
            channel: name(&self.channel_name),
            bundle: name(&self.csv_name),
        })
    }
}

impl GetBundleInChannelRequest {
    /// The head of a channel.
    fn find<'a>(&self, index: &'a Index) -> Result<Entry<'a>, QueryError> {
        channel(index, &self.pkg_name, &self.channel_name)?.head().ok_or(QueryError::Index(IndexError::Tables))
    }
}

impl GetReplacementRequest {
    /// What replaces a bundle in a channel, or else the highest version that skips it; of equal ones the last by name.
    fn find<'a>(&self, index: &'a Index) -> Result<Entry<'a>, QueryError> {
        let found = channel(index, &self.pkg_name, &self.channel_name)?;
        let bundle = self.csv_name.as_str();
        let replaces = |entry: &Entry<'_>| entry.replaces() == Some(bundle);
        let skips = |entry: &Entry<'_>| entry.skips().any(|skip| skip == bundle);
        let version = |entry: &Entry<'_>| semver::Version::parse(entry.bundle()?.version()).ok();
        let skipping = || found.entries().filter(skips).max_by_key(|entry| (version(entry), entry.name()));
        found.entries().find(replaces).or_else(skipping).filter(|_| !bundle.is_empty()).ok_or_else(|| {
            QueryError::NotReplaced {
                package: name(&self.pkg_name),
                channel: name(&self.channel_name),
                bundle: name(bundle),
            }
        })
    }
}

impl GetDefaultProviderRequest {
    /// The head of the default channel of the first package by name whose head provides the API.
    fn find<'a>(&self, index: &'a Index) -> Result<Entry<'a>, QueryError> {
        let api = Api { group: &self.group, version: &self.version, kind: &self.kind };
        let heads = index.packages().filter_map(|package| package.default_channel()?.head());
        heads.into_iter().find(|head| provides(*head, api)).ok_or_else(|| none_provides(api))
    }
}

impl Query for GetAllReplacementsRequest {
    const PATH: &str = "/api.Registry/GetChannelEntriesThatReplace";
    type Answer = ChannelEntry;

    fn row(&self, content: &Content, row: usize) -> Result<Option<Vec<ChannelEntry>>, QueryError> {
        let Some(entry) = content.index.entries_from(row).next() else { return Ok(None) };
        let bundle = self.csv_name.as_str();
        let is_replaced = entry.replaces() == Some(bundle);
        let skipped = entry.skips().filter(|skip| *skip == bundle && !is_replaced).count();
        let count = if bundle.is_empty() { 0 } else { usize::from(is_replaced) + skipped };
        Ok(Some(vec![channel_entry(entry, entry.replaces()); count]))
    }

    fn none(&self) -> Option<QueryError> {
        Some(QueryError::NoneReplaces { bundle: name(&self.csv_name) })
    }
}

impl Query for GetAllProvidersRequest {
    const PATH: &str = "/api.Registry/GetChannelEntriesThatProvide";
    type Answer = ChannelEntry;

    fn row(&self, content: &Content, row: usize) -> Result<Option<Vec<ChannelEntry>>, QueryError> {
        let Some(entry) = content.index.entries_from(row).next() else { return Ok(None) };
        let api = Api { group: &self.group, version: &self.version, kind: &self.kind };
        Ok(Some(if provides(entry, api) { channel_entries(entry, |_| true) } else { Vec::new() }))
    }

    fn none(&self) -> Option<QueryError> {
        Some(none_provides(Api { group: &self.group, version: &self.version, kind: &self.kind }))
    }
}

impl Query for GetLatestProvidersRequest {
    const PATH: &str = "/api.Registry/GetLatestChannelEntriesThatProvide";
    type Answer = ChannelEntry;

    /// Heads of channels, each once for what it replaces and for each bundle of its channel that it skips.
    fn row(&self, content: &Content, row: usize) -> Result<Option<Vec<ChannelEntry>>, QueryError> {
        let Some(channel) = content.index.channels_from(row).next() else { return Ok(None) };
        let api = Api { group: &self.group, version: &self.version, kind: &self.kind };
        let Some(head) = channel.head().filter(|head| provides(*head, api)) else { return Ok(Some(Vec::new())) };
        let names: HashSet<&str> = channel.entries().map(Entry::name).collect();
        Ok(Some(channel_entries(head, |skip| names.contains(skip))))
    }

    fn none(&self) -> Option<QueryError> {
        Some(none_provides(Api { group: &self.group, version: &self.version, kind: &self.kind }))
    }
}

impl Query for ExperimentalListPackageCustomSchemasRequest {
    const PATH: &str = "/api.ExperimentalRegistry/ExperimentalListPackageCustomSchemas";
    type Answer = Struct;

    /// Blobs of a schema, of exactly this package, or those of none.
    fn row(&self, content: &Content, row: usize) -> Result<Option<Vec<Struct>>, QueryError> {
        check("schema", &self.schema)?;
        if !self.package_name.is_empty() {
            check("packageName", &self.package_name)?;
        }
        let Some(custom) = self.find(&content.index, row) else { return Ok(None) };
        let stored = custom.blob().ok_or(IndexError::Tables)?;
        if stored.length() > MAX_BLOB {
            return Err(QueryError::TooLarge { schema: name(&self.schema), name: name(custom.name()) });
        }
        match serde_json::from_str(&content.json(stored)?) {
            Ok(Json::Object(members)) => Ok(Some(vec![members_of(members)])),
            _ => Err(IndexError::Data.into()),
        }
    }

    fn weight(&self, content: &Content, row: usize) -> usize {
        let stored = self.find(&content.index, row).and_then(index::Custom::blob);
        stored.map_or(0, |stored| stored.length().saturating_mul(BLOB_COPIES))
    }
}

impl ExperimentalListPackageCustomSchemasRequest {
    fn find<'a>(&'a self, index: &'a Index, row: usize) -> Option<index::Custom<'a>> {
        let found = index.custom(&self.schema, &self.package_name);
        found.into_iter().filter(|custom| custom.package() == self.package_name).nth(row)
    }
}

fn package<'a>(index: &'a Index, package: &str) -> Result<index::Package<'a>, QueryError> {
    index.package(package).ok_or_else(|| QueryError::Package { package: name(package) })
}

fn channel<'a>(index: &'a Index, package_name: &str, channel: &str) -> Result<index::Channel<'a>, QueryError> {
    let found = package(index, package_name)?.channel(channel);
    found.ok_or_else(|| QueryError::Channel { package: name(package_name), channel: name(channel) })
}

fn provides(entry: Entry<'_>, api: Api<'_>) -> bool {
    entry.bundle().is_some_and(|bundle| bundle.provided().any(|provided| provided == api))
}

fn none_provides(api: Api<'_>) -> QueryError {
    QueryError::NoneProvides { group: name(api.group), version: name(api.version), kind: name(api.kind) }
}

fn channel_entry(entry: Entry<'_>, replaces: Option<&str>) -> ChannelEntry {
    let channel = entry.channel();
    let text = |text: Option<&str>| text.unwrap_or_default().to_owned();
    ChannelEntry {
        package_name: text(channel.and_then(index::Channel::package).map(index::Package::name)),
        channel_name: text(channel.map(index::Channel::name)),
        bundle_name: entry.name().to_owned(),
        replaces: text(replaces),
    }
}

/// An entry once for what it replaces, and once for each other bundle that it skips.
fn channel_entries(entry: Entry<'_>, counts: impl Fn(&str) -> bool) -> Vec<ChannelEntry> {
    let skips = entry.skips().filter(|skip| Some(*skip) != entry.replaces() && counts(skip));
    let skips = skips.map(|skip| channel_entry(entry, Some(skip)));
    [channel_entry(entry, entry.replaces())].into_iter().chain(skips).collect()
}

fn check(field: &'static str, value: &str) -> Result<(), QueryError> {
    let letter = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    let valid = value.bytes().all(letter) && value.starts_with(|first: char| first.is_ascii_alphanumeric());
    if valid { Ok(()) } else { Err(QueryError::Invalid { field, value: name(value) }) }
}

fn members_of(members: serde_json::Map<String, Json>) -> Struct {
    Struct { fields: members.into_iter().map(|(name, value)| (name, value_of(value))).collect() }
}

fn value_of(value: Json) -> Value {
    let kind = match value {
        Json::Null => Kind::NullValue(0),
        Json::Bool(value) => Kind::BoolValue(value),
        Json::Number(number) => Kind::NumberValue(number.as_f64().unwrap_or_default()),
        Json::String(text) => Kind::StringValue(text),
        Json::Array(values) => Kind::ListValue(ListValue { values: values.into_iter().map(value_of).collect() }),
        Json::Object(members) => Kind::StructValue(members_of(members)),
    };
    Value { kind: Some(kind) }
}
