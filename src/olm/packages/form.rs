//! The forms in which objects are asked for, and what writes them item by item, so that no more than one is in memory.

use super::list::{ListMetadata, Listed};
use super::metadata::Metadata;
use super::table;
use super::view::Catalog;
use super::{API_VERSION, KIND};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;
use std::io::{self, Write};

/// What an answer says of each object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Form {
    /// All there is.
    #[default]
    Object,
    /// A `PartialObjectMetadata`.
    Metadata,
    /// A row of a `Table`.
    Table(Include),
}

impl Form {
    /// Whether it has all of each object.
    pub(crate) fn has_objects(self) -> bool {
        matches!(self, Form::Object | Form::Table(Include::Object))
    }
}

/// What a row says of its object besides the cells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Include {
    /// Its metadata.
    #[default]
    Metadata,
    /// All of it.
    Object,
    /// Nothing.
    None,
}

/// Whose objects they are and when they are asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'a> {
    /// Empty for all.
    pub namespace: &'a str,
    /// Ages count until then.
    pub now: Timestamp,
}

/// Writes a list or a table.
#[derive(Debug)]
pub(crate) struct ListWriter<W> {
    out: W,
    form: Form,
    is_first: bool,
}

impl<W: Write> ListWriter<W> {
    /// Of packages.
    pub(crate) fn begin(out: W, form: Form, metadata: &ListMetadata) -> io::Result<Self> {
        Self::begin_kind(out, form, metadata, KIND, &table::columns())
    }

    /// Of a kind, whose tables have these columns.
    pub(super) fn begin_kind(
        mut out: W,
        form: Form,
        metadata: &ListMetadata,
        kind: &str,
        columns: &[Value],
    ) -> io::Result<Self> {
        let (version, kind) = match form {
            Form::Object => (API_VERSION, format!("{kind}List")),
            Form::Metadata => (META_V1, "PartialObjectMetadataList".to_owned()),
            Form::Table(_) => (META_V1, "Table".to_owned()),
        };
        write!(out, r#"{{"apiVersion":"{version}","kind":"{kind}","metadata":"#)?;
        serde_json::to_writer(&mut out, metadata)?;
        match form {
            Form::Object | Form::Metadata => out.write_all(br#","items":["#)?,
            Form::Table(_) => {
                out.write_all(br#","columnDefinitions":"#)?;
                serde_json::to_writer(&mut out, columns)?;
                out.write_all(br#","rows":["#)?;
            }
        }
        Ok(ListWriter { out, form, is_first: true })
    }

    /// Writes a package. `object` writes the whole of it, and is called where the form has that. `others`: catalogs that have a
    /// package of this name, too.
    pub(crate) fn item(
        &mut self,
        listed: &Listed,
        asked: Asked<'_>,
        others: &[&Catalog],
        object: impl FnOnce(&mut W) -> io::Result<()>,
    ) -> io::Result<()> {
        let cells = || Vec::from(table::cells(listed, asked.now));
        self.row(cells, |out| write_metadata(listed, asked.namespace, others, out), object)
    }

    /// Writes an object of any kind. What writes it is called where the form has that: its cells, a `PartialObjectMetadata`, and all of it.
    pub(super) fn row(
        &mut self,
        cells: impl FnOnce() -> Vec<String>,
        metadata: impl FnOnce(&mut W) -> io::Result<()>,
        object: impl FnOnce(&mut W) -> io::Result<()>,
    ) -> io::Result<()> {
        if !std::mem::take(&mut self.is_first) {
            self.out.write_all(b",")?;
        }
        let include = match self.form {
            Form::Object => return object(&mut self.out),
            Form::Metadata => return metadata(&mut self.out),
            Form::Table(include) => include,
        };
        self.out.write_all(br#"{"cells":"#)?;
        serde_json::to_writer(&mut self.out, &cells())?;
        if include != Include::None {
            self.out.write_all(br#","object":"#)?;
        }
        match include {
            Include::Metadata => metadata(&mut self.out)?,
            Include::Object => object(&mut self.out)?,
            Include::None => {}
        }
        self.out.write_all(b"}")
    }

    pub(crate) fn end(mut self) -> io::Result<W> {
        self.out.write_all(b"]}")?;
        Ok(self.out)
    }
}

pub(super) const META_V1: &str = "meta.k8s.io/v1";

/// Writes a `PartialObjectMetadata`.
pub(crate) fn write_metadata(
    listed: &Listed,
    namespace: &str,
    others: &[&Catalog],
    out: &mut impl Write,
) -> io::Result<()> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Partial<'a> {
        api_version: &'static str,
        kind: &'static str,
        metadata: Metadata<'a>,
    }
    let labels = listed.labels();
    let metadata = Metadata::of(&listed.catalog, listed.name(), namespace, &labels, others);
    let partial = Partial { api_version: META_V1, kind: "PartialObjectMetadata", metadata };
    serde_json::to_writer(out, &partial).map_err(io::Error::from)
}
