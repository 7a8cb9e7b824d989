//! What methods answer about catalogs that are written here.

mod authority;
mod bundles;
mod descriptors;
mod entries;
mod lists;
mod real;

use super::messages::*;
use super::query::{Query, QueryError, part};
use crate::olm::catalog::blobs::Blobs;
use crate::olm::catalog::builder::CatalogBuilder;
use crate::olm::catalog::fault::Rules;
use crate::olm::catalog::index::Index;
use crate::olm::catalog::served::{Catalogs, Content, Data, Served};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use std::io;
use std::sync::Arc;

struct InMemory(Vec<u8>);

impl Data for InMemory {
    fn read(&self, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        let start = usize::try_from(offset).unwrap();
        self.0.get(start..start + length).map(<[u8]>::to_vec).ok_or(io::ErrorKind::UnexpectedEof.into())
    }
}

/// The content of a catalog with these blobs, of which each must be right.
pub(crate) fn content(blobs: &[Value]) -> Content {
    content_by(Rules::Files, blobs)
}

pub(crate) fn content_by(rules: Rules, blobs: &[Value]) -> Content {
    let (mut builder, mut json) = (CatalogBuilder::by(rules, Vec::new()), Vec::new());
    let file = builder.file("catalog.json".to_owned()).unwrap();
    let text: String = blobs.iter().map(Value::to_string).collect();
    let mut blobs = Blobs::new(text.as_bytes());
    while let Some(document) = blobs.next_document().unwrap() {
        builder.add(file, document.decode(&mut json)).unwrap();
    }
    let catalog = builder.finish().unwrap();
    assert!(catalog.faults.is_empty(), "{:?}", catalog.faults);
    Content::new(catalog.index, Box::new(InMemory(catalog.data)))
}

/// Catalogs by namespace and name.
pub(crate) fn catalogs(all: Vec<(&str, &str, Content)>) -> Catalogs {
    let served = |content| Served { about: Arc::default(), content: Arc::new(content) };
    all.into_iter().map(|(namespace, name, it)| ((namespace.to_owned(), name.to_owned()), served(it))).collect()
}

fn property(kind: &str, value: Value) -> Value {
    json!({"type": kind, "value": value})
}

fn gvk(kind: &str) -> Value {
    json!({"group": "example.com", "kind": kind, "version": "v1"})
}

fn object(manifest: &str) -> Value {
    property("olm.bundle.object", json!({"data": STANDARD.encode(manifest)}))
}

pub(crate) fn package(name: &str, default: &str) -> Value {
    json!({"schema": "olm.package", "name": name, "defaultChannel": default})
}

pub(crate) fn channel(package: &str, name: &str, entries: Value) -> Value {
    json!({"schema": "olm.channel", "package": package, "name": name, "entries": entries})
}

/// A bundle in an image, or with its manifests as properties.
pub(crate) fn bundle(package: &str, name: &str, version: &str, image: bool, more: &[Value]) -> Value {
    let identity = property("olm.package", json!({"packageName": package, "version": version}));
    let properties: Vec<&Value> = [&identity].into_iter().chain(more).collect();
    let mut blob = json!({"schema": "olm.bundle", "package": package, "name": name, "properties": properties});
    if image {
        blob["image"] = json!(format!("registry.example.com/{package}:{version}"));
    }
    blob
}

const CSV: &str = r#"{"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion", "metadata": {"name": "widgets.v2"}}"#;
const SERVICE: &str = "apiVersion: v1\nkind: Service\nmetadata:\n  name: widgets\n";

/// With properties of every kind.
fn third() -> Value {
    let metadata = json!({
        "annotations": {"categories": "Tools"}, "displayName": "Widgets", "provider": {"name": "Example"}, "keywords": [],
        "crdDescriptions": {"owned": [{"name": "widgets.example.com", "version": "v1", "kind": "Widget"}]},
        "installModes": [{"type": "AllNamespaces", "supported": true}], "labels": {"tier": "gold"}, "description": "",
    });
    let mut third = bundle(
        "widgets",
        "widgets.v3",
        "3.0.0",
        true,
        &[
            property("olm.gvk", gvk("Widget")),
            property("olm.gvk", gvk("Gadget")),
            property("olm.gvk.required", gvk("Gear")),
            property("olm.package.required", json!({"packageName": "gears", "versionRange": ">=1.0.0"})),
            property(
                "olm.constraint",
                json!({"failureMessage": "no", "package": {"packageName": "gears", "versionRange": "1"}}),
            ),
            property("olm.csv.metadata", metadata),
            property("color", json!("red")),
        ],
    );
    third["relatedImages"] = json!([{"name": "operand", "image": "registry.example.com/operand:3"}]);
    third
}

/// The catalog of most tests. Of `widgets`, `v1` and `v3` are images, and `v2` has its manifests in the catalog.
pub(crate) fn widgets() -> Vec<Value> {
    let deprecated = |schema: &str, name: &str| json!({"reference": {"schema": schema, "name": name}, "message": format!("no {schema}")});
    let mut widgets = package("widgets", "stable");
    widgets["description"] = json!("Of the package.");
    widgets["icon"] = json!({"base64data": "YWJj", "mediatype": "image/png"});
    vec![
        widgets,
        channel(
            "widgets",
            "stable",
            json!([
                {"name": "widgets.v3", "replaces": "widgets.v2", "skips": ["widgets.v1", "widgets.v2", "widgets.v2.5"], "skipRange": "<3.0.0"},
                {"name": "widgets.v2", "replaces": "widgets.v1"},
                {"name": "widgets.v1"},
            ]),
        ),
        channel("widgets", "fast", json!([{"name": "widgets.v3", "replaces": "widgets.v2"}])),
        bundle("widgets", "widgets.v1", "1.0.0", true, &[property("olm.gvk", gvk("Widget"))]),
        bundle(
            "widgets",
            "widgets.v2",
            "2.0.0",
            false,
            &[property("olm.gvk", gvk("Widget")), object(SERVICE), object(CSV)],
        ),
        third(),
        json!({"schema": "olm.deprecations", "package": "widgets", "entries": [
            deprecated("olm.package", ""), deprecated("olm.channel", "fast"), deprecated("olm.bundle", "widgets.v1"),
        ]}),
        package("gears", "main"),
        channel("gears", "main", json!([{"name": "gears.v1"}])),
        channel("gears", "old", json!([{"name": "gears.v0"}])),
        bundle("gears", "gears.v0", "0.1.0", true, &[property("olm.gvk", gvk("Cog"))]),
        bundle(
            "gears",
            "gears.v1",
            "1.0.0",
            true,
            &[property("olm.gvk", gvk("Gear")), property("olm.gvk", gvk("Widget"))],
        ),
        json!({"schema": "example.com.notes", "package": "widgets", "name": "one", "list": [1, null, {"a": true}]}),
        json!({"schema": "example.com.notes", "package": "gears", "name": "two"}),
        json!({"schema": "example.com.notes", "name": "three"}),
    ]
}

/// The whole answer, as a server makes it.
fn ask<Q: Query>(query: Q, content: &Content) -> Result<Vec<Q::Answer>, QueryError> {
    let (mut all, mut next) = (Vec::new(), Some(0));
    while let Some(from) = next {
        let part = part(&query, content, from)?;
        assert!(part.next.is_none_or(|next| next > from));
        all.extend(part.messages);
        next = part.next;
    }
    match query.none().filter(|_| all.is_empty()) {
        Some(error) => Err(error),
        None => Ok(all),
    }
}

fn refusal<Q: Query>(query: Q, content: &Content) -> String {
    match ask(query, content) {
        Ok(answer) => panic!("{} messages", answer.len()),
        Err(error) => error.to_string(),
    }
}

pub(crate) fn get_bundle(package: &str, channel: &str, bundle: &str) -> GetBundleRequest {
    GetBundleRequest { pkg_name: package.into(), channel_name: channel.into(), csv_name: bundle.into() }
}

pub(crate) fn get_replacement(package: &str, channel: &str, bundle: &str) -> GetReplacementRequest {
    GetReplacementRequest { pkg_name: package.into(), channel_name: channel.into(), csv_name: bundle.into() }
}

fn empty() -> Content {
    Content::new(Index::default(), Box::new(InMemory(Vec::new())))
}
