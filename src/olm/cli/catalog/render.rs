//! `cvo catalog render`: catalogs and bundles as one stream of blobs.

use super::RenderArgs;
use crate::cli::exit::Exit;
use crate::cli::output::{remark, to_stdout};
use crate::olm::bundle::Contents;
use crate::olm::bundle::finding::{Finding, Weight};
use crate::olm::bundle::render::{Form, blob};
use crate::olm::bundle::unpackaged;
use crate::olm::catalog::written::{Rank, Syntax, written};
use crate::olm::cli::input::{self, Catalog, Input};
use crate::olm::net::folder::{self, Place};
use std::io::{self, Write};

/// Where the JSON of a blob is.
enum Source {
    Folder(Place),
    Text(String),
}

/// What is to be written. The folders must stay until it is.
#[derive(Default)]
struct Stream {
    blobs: Vec<(Rank, Source)>,
    catalogs: Vec<Catalog>,
    /// What was left out.
    findings: Vec<Finding>,
}

pub(super) async fn run(args: &RenderArgs) -> anyhow::Result<Exit> {
    let mut stream = Stream::default();
    for given in &args.inputs {
        stream.add(input::open(given, &args.source).await?, given)?;
    }
    let left_out = stream.findings.iter().any(|finding| finding.weight == Weight::Error);
    for finding in &stream.findings {
        remark(&format!("{}: {}", finding.location(), finding.message));
    }
    let syntax = args.output.syntax();
    to_stdout(|out| stream.write(syntax, out))?;
    Ok(if left_out { Exit::Found } else { Exit::Success })
}

impl Stream {
    fn add(&mut self, input: Input, given: &str) -> anyhow::Result<()> {
        match input {
            Input::Catalog(catalog) => self.catalog(catalog, given),
            Input::Bundle(contents, image) => self.bundle(*contents, &image),
            Input::Unpackaged(read) => {
                let blobs = unpackaged::blobs(read, unpackaged::MAX_OF_FOLDER)?;
                self.findings.extend(blobs.findings);
                blobs.json.lines().try_for_each(|json| self.text(json.to_owned()))
            }
        }
    }

    fn catalog(&mut self, catalog: Catalog, given: &str) -> anyhow::Result<()> {
        let before = self.blobs.len();
        let blobs = &mut self.blobs;
        folder::each_blob(&catalog.folder, &mut |place, blob| {
            blobs.push((Rank::of(blob.schema, blob.package, blob.name), Source::Folder(place.clone())));
        })?;
        anyhow::ensure!(self.blobs.len() > before, super::no_catalog(given, "no blob"));
        self.catalogs.push(catalog);
        Ok(())
    }

    /// A bundle without an image has all manifests in its blob.
    fn bundle(&mut self, contents: Contents, image: &str) -> anyhow::Result<()> {
        let bundle = contents.bundle()?;
        self.findings.extend(bundle.notes.iter().cloned().map(|note| Finding { weight: Weight::Warning, ..note }));
        let form = if image.is_empty() { Form::Objects } else { Form::Metadata };
        self.text(blob(&bundle, image, form)?)
    }

    fn text(&mut self, json: String) -> anyhow::Result<()> {
        let value: serde_json::Value = serde_json::from_str(&json)?;
        let text = |key: &str| value.get(key).and_then(serde_json::Value::as_str).unwrap_or_default();
        let (schema, name) = (text("schema"), text("name"));
        let package = if schema == crate::olm::names::schema::PACKAGE { name } else { text("package") };
        self.blobs.push((Rank::of(schema, package, name), Source::Text(json)));
        Ok(())
    }

    fn write(&mut self, syntax: Syntax, out: &mut impl Write) -> io::Result<()> {
        self.blobs.sort_by(|one, other| one.0.cmp(&other.0));
        for (_, source) in &self.blobs {
            let read;
            let json = match source {
                Source::Text(json) => json,
                Source::Folder(place) => {
                    read = place.json().map_err(io::Error::other)?;
                    &read
                }
            };
            out.write_all(written(json, syntax).map_err(io::Error::other)?.as_bytes())?;
        }
        Ok(())
    }

    /// All of it.
    #[cfg(test)]
    fn written(&mut self, syntax: Syntax) -> String {
        let mut out = Vec::new();
        self.write(syntax, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }
}

#[cfg(test)]
mod tests;
