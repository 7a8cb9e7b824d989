//! Metadata of a PackageManifest: where it is, its labels and annotations.

use super::head::Provider;
use super::view::Catalog;
use crate::olm::api::keys::label;
use jiff::Timestamp;
use serde::Serialize;
use std::collections::BTreeMap;

/// Annotation: other catalogs that have a package of this name, as `<namespace>/<name>` with commas between them.
pub(crate) const OTHER_CATALOGS: &str = "packages.operators.coreos.com/other-catalogs";
/// Annotation: since when the content of the catalog could not be read anew.
pub(crate) const STALE_SINCE: &str = "packages.operators.coreos.com/stale-since";

/// What the name of a label that says something of operating systems or of architectures begins with, and the default.
const DEFAULTS: [(&str, &str); 2] = [
    ("operatorframework.io/os", "operatorframework.io/os.linux"),
    ("operatorframework.io/arch", "operatorframework.io/arch.amd64"),
];

/// What lists need to know of a package, small enough to be kept for all packages. Catalogs with the same content share it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Labelled {
    pub name: String,
    pub(super) provider: Provider,
    /// Those of the version at the head of the default channel.
    pub(super) labels: BTreeMap<String, String>,
}

impl Labelled {
    /// The labels of the object: those of the CatalogSource, where it comes from, whose it is, those of the version, and defaults
    /// where nothing is said of operating systems or architectures at all.
    pub(super) fn labels(&self, catalog: &Catalog) -> BTreeMap<String, String> {
        let mut labels = catalog.labels.clone();
        labels.insert(label::CATALOG.to_owned(), catalog.name.clone());
        labels.insert(label::CATALOG_NAMESPACE.to_owned(), catalog.namespace.clone());
        labels.insert(label::PROVIDER.to_owned(), self.provider.name.clone());
        labels.insert(label::PROVIDER_URL.to_owned(), self.provider.url.clone());
        labels.extend(self.labels.clone());
        for (prefix, default) in DEFAULTS {
            if !labels.keys().any(|key| key.starts_with(prefix)) {
                labels.insert(default.to_owned(), "supported".to_owned());
            }
        }
        labels
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Metadata<'a> {
    name: &'a str,
    namespace: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    creation_timestamp: Option<Timestamp>,
    labels: &'a BTreeMap<String, String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    annotations: BTreeMap<&'static str, String>,
}

impl<'a> Metadata<'a> {
    /// `namespace`: the one that was asked for; empty for all, so that it is the catalog's own. `others`: catalogs that have a
    /// package of this name, too.
    pub(super) fn of(
        catalog: &'a Catalog,
        name: &'a str,
        namespace: &'a str,
        labels: &'a BTreeMap<String, String>,
        others: &[&Catalog],
    ) -> Self {
        let names = others.iter().map(|other| format!("{}/{}", other.namespace, other.name));
        let names = names.collect::<Vec<_>>().join(",");
        let mut annotations = BTreeMap::new();
        if !names.is_empty() {
            annotations.insert(OTHER_CATALOGS, names);
        }
        if let Some(since) = catalog.stale_since {
            annotations.insert(STALE_SINCE, since.to_string());
        }
        let namespace = if namespace.is_empty() { &catalog.namespace } else { namespace };
        Metadata { name, namespace, creation_timestamp: catalog.created, labels, annotations }
    }
}
