//! What is shown of the version at the head of a channel: read from the JSON that the catalog has of its ClusterServiceVersion.
//! Members that are only passed on are located and checked for their type, not decoded.

use super::view::{CsvSource, Head, Package};
use crate::error::of_json;
use crate::olm::bundle::csv::{Install, RelatedImage, nullable};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::collections::{BTreeMap, BTreeSet};

/// Why nothing can be shown of a head.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum HeadError {
    #[error(
        "the catalog has no ClusterServiceVersion of it: render the bundle anew, so that it has the property olm.csv.metadata"
    )]
    Absent,
    #[error("its ClusterServiceVersion cannot be read: {0}; render the bundle anew")]
    Json(String),
    #[error("{field} of its ClusterServiceVersion is no {expected}; correct it in the bundle")]
    Type { field: &'static str, expected: &'static str },
}

/// The head of a channel as it is shown.
#[derive(Debug)]
pub(super) struct Shown<'a> {
    pub csv_name: String,
    pub labels: BTreeMap<String, String>,
    pub provider: Provider,
    /// JSON: a list of pictures.
    pub icons: Option<&'a RawValue>,
    pub description: Description<'a>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Provider {
    #[serde(deserialize_with = "nullable", skip_serializing_if = "String::is_empty")]
    pub name: String,
    #[serde(deserialize_with = "nullable", skip_serializing_if = "String::is_empty")]
    pub url: String,
}

/// `currentCSVDesc`, with keys in the order in which they are written. Pictures have an address of their own.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Description<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    display_name: Option<&'a RawValue>,
    version: String,
    provider: Provider,
    #[serde(skip_serializing_if = "Option::is_none")]
    annotations: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    keywords: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    links: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    maintainers: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    maturity: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<Text<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    install_modes: Option<&'a RawValue>,
    #[serde(rename = "customresourcedefinitions")]
    definitions: Apis<'a>,
    #[serde(rename = "apiservicedefinitions")]
    api_services: Apis<'a>,
    /// With this spelling.
    #[serde(rename = "nativeApis", skip_serializing_if = "Option::is_none")]
    native_apis: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    min_kube_version: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    related_images: BTreeSet<String>,
}

/// The text of a version, or the one of its package in its place.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Text<'a> {
    Raw(&'a RawValue),
    OfPackage(&'a str),
}

/// APIs with what fits into a list; descriptors of their fields are left out.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Apis<'a> {
    #[serde(borrow, deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    owned: Vec<Api<'a>>,
    #[serde(borrow, deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    required: Vec<Api<'a>>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Api<'a> {
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    name: Option<&'a RawValue>,
    /// Of APIServices alone: the name of a definition contains it.
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    group: Option<&'a RawValue>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    version: Option<&'a RawValue>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    kind: Option<&'a RawValue>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    display_name: Option<&'a RawValue>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    description: Option<&'a RawValue>,
}

/// Members of a whole ClusterServiceVersion.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Object<'a> {
    #[serde(borrow, deserialize_with = "nullable")]
    metadata: Metadata<'a>,
    #[serde(borrow, deserialize_with = "nullable")]
    spec: Members<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Metadata<'a> {
    #[serde(deserialize_with = "nullable")]
    name: String,
    #[serde(borrow)]
    annotations: Option<&'a RawValue>,
    #[serde(deserialize_with = "nullable")]
    labels: BTreeMap<String, String>,
}

/// Members of the `spec`, and those of `olm.csv.metadata`, which has some of them under other names.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Members<'a> {
    #[serde(borrow)]
    annotations: Option<&'a RawValue>,
    #[serde(borrow)]
    labels: Option<&'a RawValue>,
    #[serde(borrow)]
    display_name: Option<&'a RawValue>,
    #[serde(deserialize_with = "nullable")]
    version: String,
    #[serde(deserialize_with = "nullable")]
    provider: Provider,
    #[serde(borrow)]
    keywords: Option<&'a RawValue>,
    #[serde(borrow)]
    links: Option<&'a RawValue>,
    #[serde(borrow)]
    maintainers: Option<&'a RawValue>,
    #[serde(borrow)]
    maturity: Option<&'a RawValue>,
    #[serde(borrow)]
    description: Option<&'a RawValue>,
    #[serde(borrow)]
    install_modes: Option<&'a RawValue>,
    #[serde(borrow, rename = "customresourcedefinitions", alias = "crdDescriptions", deserialize_with = "nullable")]
    definitions: Apis<'a>,
    #[serde(borrow, rename = "apiservicedefinitions", alias = "apiServiceDefinitions", deserialize_with = "nullable")]
    api_services: Apis<'a>,
    #[serde(borrow, rename = "nativeAPIs")]
    native_apis: Option<&'a RawValue>,
    #[serde(borrow)]
    min_kube_version: Option<&'a RawValue>,
    #[serde(borrow)]
    icon: Option<&'a RawValue>,
    #[serde(deserialize_with = "nullable")]
    related_images: Vec<RelatedImage>,
    #[serde(deserialize_with = "nullable")]
    install: Install,
}

impl<'a> Shown<'a> {
    pub(super) fn of(head: &Head<'a>, package: &Package<'a>) -> Result<Self, HeadError> {
        let error = |error: serde_json::Error| HeadError::Json(of_json(&error));
        let (name, labels, members) = match head.csv {
            CsvSource::Absent => return Err(HeadError::Absent),
            CsvSource::Object(json) => {
                let Object { metadata, mut spec } = serde_json::from_slice(json).map_err(error)?;
                spec.annotations = metadata.annotations;
                (metadata.name, metadata.labels, spec)
            }
            CsvSource::Metadata(json) => {
                let mut members: Members = serde_json::from_slice(json).map_err(error)?;
                let labels =
                    members.labels.map(|labels| serde_json::from_str(labels.get()).map_err(error)).transpose()?;
                members.version = head.version.to_owned();
                let images = head.related_images.iter().map(|image| (*image).to_owned());
                let images = images.map(|image| RelatedImage { image, name: String::new() });
                members.related_images = images.collect();
                (String::new(), labels.unwrap_or_default(), members)
            }
        };
        members.check()?;
        let csv_name = if name.is_empty() { head.name.to_owned() } else { name };
        let (provider, icons) = (members.provider.clone(), members.icon);
        Ok(Shown { csv_name, labels, provider, icons, description: members.description(package) })
    }
}

impl<'a> Members<'a> {
    /// Whether what is passed on has the type that clients expect.
    fn check(&self) -> Result<(), HeadError> {
        let texts = [
            ("displayName", self.display_name),
            ("maturity", self.maturity),
            ("description", self.description),
            ("minKubeVersion", self.min_kube_version),
        ];
        let lists = [
            ("keywords", self.keywords),
            ("links", self.links),
            ("maintainers", self.maintainers),
            ("installModes", self.install_modes),
            ("nativeAPIs", self.native_apis),
        ];
        let texts = texts.into_iter().chain(self.definitions.texts()).chain(self.api_services.texts());
        let texts = texts.map(|it| (it, '"', "text"));
        let lists = lists.into_iter().map(|it| (it, '[', "list"));
        let all = texts.chain(lists).chain([(("annotations", self.annotations), '{', "mapping")]);
        for ((field, value), first, expected) in all {
            if value.is_some_and(|value| !value.get().starts_with(first)) {
                return Err(HeadError::Type { field, expected });
            }
        }
        Ok(())
    }

    fn description(self, package: &Package<'a>) -> Description<'a> {
        let containers = self.install.images().into_iter().map(str::to_owned).collect::<BTreeSet<_>>();
        let images = self.related_images.into_iter().map(|it| it.image).chain(containers);
        let written = self.description.filter(|text| text.get() != "\"\"").map(Text::Raw);
        let of_package = (!package.description.is_empty()).then_some(Text::OfPackage(package.description));
        Description {
            display_name: self.display_name,
            version: self.version,
            provider: self.provider,
            annotations: self.annotations,
            keywords: self.keywords,
            links: self.links,
            maintainers: self.maintainers,
            maturity: self.maturity,
            description: written.or(of_package),
            install_modes: self.install_modes,
            definitions: self.definitions.without_groups(),
            api_services: self.api_services,
            native_apis: self.native_apis,
            min_kube_version: self.min_kube_version,
            related_images: images.filter(|image| !image.is_empty()).collect(),
        }
    }
}

impl<'a> Apis<'a> {
    fn texts(&self) -> impl Iterator<Item = (&'static str, Option<&'a RawValue>)> {
        let all = self.owned.iter().chain(&self.required);
        all.flat_map(|it| [it.name, it.group, it.version, it.kind, it.display_name, it.description])
            .map(|value| ("an API", value))
    }

    fn without_groups(mut self) -> Self {
        for api in self.owned.iter_mut().chain(&mut self.required) {
            api.group = None;
        }
        self
    }
}
