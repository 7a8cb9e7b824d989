//! ClusterServiceVersions as namespaces see them: which stand on a page, and how they are written.

use super::API_VERSION;
use super::form::{Form, ListWriter, META_V1};
use super::list::ListMetadata;
use super::query::{Query, Token};
use crate::olm::api::keys::annotation;
use crate::olm::operator::copies::content;
use crate::olm::operator::copies::shown::{Shown, ShownCsv};
use serde_json::{Map, Value, json};
use std::io::{self, Write};

pub(crate) const PLURAL: &str = "clusterserviceversions";
pub(super) const SINGULAR: &str = "clusterserviceversion";
pub(super) const KIND: &str = "ClusterServiceVersion";
/// Most items of a page of all namespaces, each of which may see many.
pub(crate) const LONGEST_PAGE: usize = 500;

/// Those of a page, by namespace and name.
#[derive(Clone, Debug)]
pub(crate) struct Page {
    pub items: Vec<ShownCsv>,
    pub metadata: ListMetadata,
}

/// Those that a request asks for. Without a limit, all that are left. An empty namespace means all.
pub(crate) fn page(shown: &Shown, namespace: &str, query: &Query) -> Page {
    let after = query.after.as_ref().map(|token| {
        let (name, namespace, _) = token.key();
        (namespace, name)
    });
    let namespaces: Vec<&str> = match namespace {
        "" => shown.namespaces(after.map_or("", |(namespace, _)| namespace)).into_iter().collect(),
        namespace => vec![namespace],
    };
    let selected = namespaces.into_iter().flat_map(|namespace| shown.within(namespace)).filter(|it| {
        after.is_none_or(|after| (it.namespace.as_str(), it.name()) > after) && query.selects(it.name(), || it.labels())
    });
    let mut metadata = ListMetadata::default();
    let Some(limit) = query.limit else { return Page { items: selected.collect(), metadata } };
    // How many are left would be known only if all were looked at.
    let mut items: Vec<ShownCsv> = selected.take(limit.saturating_add(1)).collect();
    if items.len() > limit {
        items.truncate(limit);
        let token = items.last().map(|last| Token::at((last.name(), last.namespace.as_str(), "")).encode());
        metadata.token = token.unwrap_or_default();
    }
    Page { items, metadata }
}

/// The columns of a table: those that `kubectl get csv` shows.
fn columns() -> Vec<Value> {
    let column = |name: &str, format: &str, description: &str| json!({"name": name, "type": "string", "format": format, "description": description, "priority": 0});
    vec![
        column("Name", "name", "Name of the ClusterServiceVersion"),
        column("Display", "", "The name for people."),
        column("Version", "", "The version of the operator."),
        column("Release", "", "Which build of the version."),
        column("Replaces", "", "The ClusterServiceVersion that it replaces."),
        column("Phase", "", "What has become of its installation."),
    ]
}

/// What stands in them.
fn cells(csv: &ShownCsv) -> Vec<String> {
    let spec = &csv.original.spec;
    let phase = csv.original.status.as_ref().and_then(|status| serde_json::to_value(&status.phase).ok());
    let phase = phase.as_ref().and_then(Value::as_str).unwrap_or_default();
    [csv.name(), &spec.display_name, &spec.version, &spec.release, &spec.replaces, phase].map(str::to_owned).into()
}

/// Begins a list or a table.
pub(crate) fn begin<W: Write>(out: W, form: Form, metadata: &ListMetadata) -> io::Result<ListWriter<W>> {
    ListWriter::begin_kind(out, form, metadata, KIND, &columns())
}

/// Writes one into it. `body`: all of it, which has to be there where the form has that.
pub(crate) fn item<W: Write>(list: &mut ListWriter<W>, csv: &ShownCsv, body: Option<&Body>) -> io::Result<()> {
    let object = |out: &mut W| match body {
        Some(body) => body.write(&csv.namespace, out),
        None => Err(io::Error::other("the ClusterServiceVersion was not read")),
    };
    list.row(|| cells(csv), |out| write_metadata(csv, out), object)
}

/// Writes a `PartialObjectMetadata`.
pub(crate) fn write_metadata(csv: &ShownCsv, out: &mut impl Write) -> io::Result<()> {
    let partial = json!({"apiVersion": META_V1, "kind": "PartialObjectMetadata", "metadata": csv.metadata()});
    serde_json::to_writer(out, &partial).map_err(io::Error::from)
}

/// All of an original, and of what its copies are, wherever they are seen.
#[derive(Clone, Debug)]
pub(crate) struct Body {
    pub uid: String,
    /// The resourceVersion.
    pub version: String,
    namespace: String,
    /// Metadata, and the status as JSON.
    own: (Map<String, Value>, String),
    /// The same of copies, without their namespace.
    copied: (Map<String, Value>, String),
    /// As JSON.
    spec: String,
}

impl Body {
    /// `original`: the object as the API server has it.
    pub(crate) fn of(original: &Value) -> Body {
        let metadata = |object: &Value| {
            let metadata = object.get("metadata").and_then(Value::as_object);
            metadata.cloned().unwrap_or_default()
        };
        let part = |name: &str| original.get(name).map_or_else(|| "{}".to_owned(), Value::to_string);
        let mut own = metadata(original);
        own.remove("managedFields");
        let copy = content(original);
        let mut copied = metadata(&copy.object);
        // It tells who writes copies what they are.
        if let Some(Value::Object(annotations)) = copied.get_mut("annotations") {
            annotations.remove(annotation::COPIED_CONTENT);
        }
        if let Some(created) = own.get("creationTimestamp") {
            copied.insert("creationTimestamp".to_owned(), created.clone());
        }
        let text = |key: &str| own.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        Body {
            uid: text("uid"),
            version: text("resourceVersion"),
            namespace: text("namespace"),
            own: (own, part("status")),
            copied: (copied, copy.status.to_string()),
            spec: part("spec"),
        }
    }

    /// Bytes of its texts.
    pub(crate) fn size(&self) -> usize {
        let of = |(metadata, status): &(Map<String, Value>, String)| {
            status.len() + serde_json::to_string(metadata).unwrap_or_default().len()
        };
        self.spec.len() + of(&self.own) + of(&self.copied)
    }

    /// Writes it as this namespace sees it, as JSON.
    pub(crate) fn write(&self, namespace: &str, out: &mut impl Write) -> io::Result<()> {
        let (metadata, status) = if namespace == self.namespace { &self.own } else { &self.copied };
        let mut metadata = metadata.clone();
        metadata.insert("namespace".to_owned(), namespace.into());
        write!(out, r#"{{"apiVersion":"{API_VERSION}","kind":"{KIND}","metadata":"#)?;
        serde_json::to_writer(&mut *out, &metadata)?;
        write!(out, r#","spec":{},"status":{status}}}"#, self.spec)
    }
}
