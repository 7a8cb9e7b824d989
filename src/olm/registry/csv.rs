//! Makes a ClusterServiceVersion of what a catalog says of one for people: what clients show before anything is installed. How it is
//! installed stays in the image of the bundle.

use crate::olm::catalog::objects::{Icon, RelatedImage};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

pub(super) const KIND: &str = "ClusterServiceVersion";

/// What the catalog says besides the property `olm.csv.metadata`.
#[derive(Clone, Debug, Default)]
pub(super) struct Beside<'a> {
    pub name: &'a str,
    pub version: &'a str,
    /// Of the package, in place of a missing one.
    pub description: String,
    /// Of the package.
    pub icon: Option<Icon>,
    pub related_images: Vec<RelatedImage>,
}

/// The property `olm.csv.metadata`, whose values are only passed on.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Metadata<'a> {
    #[serde(borrow)]
    annotations: Option<&'a RawValue>,
    #[serde(borrow)]
    api_service_definitions: Option<&'a RawValue>,
    #[serde(borrow)]
    crd_descriptions: Option<&'a RawValue>,
    #[serde(borrow)]
    description: Option<&'a RawValue>,
    #[serde(borrow)]
    display_name: Option<&'a RawValue>,
    #[serde(borrow)]
    install_modes: Option<&'a RawValue>,
    #[serde(borrow)]
    keywords: Option<&'a RawValue>,
    #[serde(borrow)]
    labels: Option<&'a RawValue>,
    #[serde(borrow)]
    links: Option<&'a RawValue>,
    #[serde(borrow)]
    maintainers: Option<&'a RawValue>,
    #[serde(borrow)]
    maturity: Option<&'a RawValue>,
    #[serde(borrow)]
    min_kube_version: Option<&'a RawValue>,
    #[serde(borrow, rename = "nativeAPIs")]
    native_apis: Option<&'a RawValue>,
    #[serde(borrow)]
    provider: Option<&'a RawValue>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Object<'a> {
    kind: &'static str,
    api_version: &'static str,
    metadata: ObjectMeta<'a>,
    spec: Spec<'a>,
}

#[derive(Serialize)]
struct ObjectMeta<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "is_empty")]
    labels: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "is_empty")]
    annotations: Option<&'a RawValue>,
}

/// Clients written in Go expect the objects also where they are empty.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Spec<'a> {
    install: Install,
    version: &'a str,
    #[serde(skip_serializing_if = "is_empty")]
    maturity: Option<&'a RawValue>,
    customresourcedefinitions: Members<'a>,
    apiservicedefinitions: Members<'a>,
    #[serde(rename = "nativeAPIs", skip_serializing_if = "is_empty")]
    native_apis: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "is_empty")]
    min_kube_version: Option<&'a RawValue>,
    display_name: Text<'a>,
    #[serde(skip_serializing_if = "Text::is_empty")]
    description: Text<'a>,
    #[serde(skip_serializing_if = "is_empty")]
    keywords: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "is_empty")]
    maintainers: Option<&'a RawValue>,
    provider: Members<'a>,
    #[serde(skip_serializing_if = "is_empty")]
    links: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    icon: Option<[&'a Icon; 1]>,
    #[serde(skip_serializing_if = "is_empty")]
    install_modes: Option<&'a RawValue>,
    cleanup: Cleanup,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    related_images: &'a [RelatedImage],
}

/// Says nothing of the installation but that there would be one.
#[derive(Serialize)]
struct Install {
    strategy: &'static str,
    spec: Strategy,
}

#[derive(Serialize)]
struct Strategy {
    deployments: Option<()>,
}

#[derive(Serialize)]
struct Cleanup {
    enabled: bool,
}

/// An object, empty if there is none.
#[derive(Serialize)]
#[serde(untagged)]
enum Members<'a> {
    Given(&'a RawValue),
    None {},
}

#[derive(Serialize)]
#[serde(untagged)]
enum Text<'a> {
    Given(&'a RawValue),
    Of(&'a str),
}

impl<'a> Members<'a> {
    fn of(given: Option<&'a RawValue>) -> Self {
        given.map_or(Members::None {}, Members::Given)
    }
}

impl<'a> Text<'a> {
    fn or(given: Option<&'a RawValue>, other: &'a str) -> Self {
        if is_empty(&given) { Text::Of(other) } else { given.map_or(Text::Of(other), Text::Given) }
    }

    fn is_empty(&self) -> bool {
        matches!(self, Text::Of(""))
    }
}

/// Whether a value is one that says nothing.
fn is_empty(value: &Option<&RawValue>) -> bool {
    value.is_none_or(|value| ["\"\"", "[]", "{}", "null"].contains(&value.get()))
}

/// The JSON of the object. `metadata` has no blanks between its parts.
pub(super) fn object(metadata: &str, beside: &Beside<'_>) -> serde_json::Result<String> {
    let it: Metadata<'_> = serde_json::from_str(metadata)?;
    serde_json::to_string(&Object {
        kind: KIND,
        api_version: "operators.coreos.com/v1alpha1",
        metadata: ObjectMeta { name: beside.name, labels: it.labels, annotations: it.annotations },
        spec: Spec {
            install: Install { strategy: "deployment", spec: Strategy { deployments: None } },
            version: beside.version,
            maturity: it.maturity,
            customresourcedefinitions: Members::of(it.crd_descriptions),
            apiservicedefinitions: Members::of(it.api_service_definitions),
            native_apis: it.native_apis,
            min_kube_version: it.min_kube_version,
            display_name: Text::or(it.display_name, ""),
            description: Text::or(it.description, &beside.description),
            keywords: it.keywords,
            maintainers: it.maintainers,
            provider: Members::of(it.provider),
            links: it.links,
            icon: beside.icon.as_ref().map(|icon| [icon]),
            install_modes: it.install_modes,
            cleanup: Cleanup { enabled: false },
            related_images: &beside.related_images,
        },
    })
}

/// Whether the JSON of a manifest is that of a ClusterServiceVersion.
pub(super) fn is_one(manifest: &str) -> bool {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Typed {
        kind: Option<String>,
    }
    serde_json::from_str::<Typed>(manifest).is_ok_and(|it| it.kind.as_deref() == Some(KIND))
}
