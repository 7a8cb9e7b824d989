//! Bundles and what is read to the same, by functions of plain types: for inputs that nobody has written by hand.

use crate::olm::bundle::finding::{Finding, Weight};
use crate::olm::bundle::render::{Form, blob};
use crate::olm::bundle::validate::validate;
use crate::olm::bundle::{self, BundleError, Contents, SourceFile, config_map, read};
use std::collections::BTreeMap;

/// What was found: where, what, and whether it is an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    pub place: String,
    pub message: String,
    pub is_error: bool,
}

/// What was read of the files of a bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Read {
    /// What is wrong with it, and may be.
    pub found: Vec<Found>,
    /// Why there is none.
    pub bundle: Result<Bundle, String>,
}

/// A whole bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bundle {
    pub name: String,
    /// Empty if it is not known.
    pub package: String,
    /// As JSON, in the order of their files.
    pub objects: Vec<String>,
    /// Types and values as JSON, those that are derived as well.
    pub properties: Vec<(String, String)>,
    /// As a line of a catalog: with what describes it, and with all manifests.
    pub described: Result<String, String>,
    pub whole: Result<String, String>,
}

impl From<&Finding> for Found {
    fn from(finding: &Finding) -> Self {
        let is_error = finding.weight == Weight::Error;
        Found { place: finding.location(), message: finding.message.clone(), is_error }
    }
}

/// Reads files by their paths. An error: there is too much of them.
pub fn read_bundle(files: &[(String, Vec<u8>)], image: &str) -> Result<Read, String> {
    let file = |(path, bytes): &(String, Vec<u8>)| SourceFile { path: path.clone(), bytes: bytes.clone() };
    let files: Vec<SourceFile> = files.iter().map(file).collect();
    let contents = read::read(&files, &BTreeMap::new()).map_err(|error| error.to_string())?;
    let found = validate(&contents).iter().map(Found::from).collect();
    Ok(Read { found, bundle: whole(contents, image).map_err(|error| error.to_string()) })
}

fn whole(contents: Contents, image: &str) -> Result<Bundle, BundleError> {
    let bundle: bundle::Bundle = contents.bundle()?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let blob = |image: &str, form| blob(&bundle, image, form).map_err(|error| error.to_string());
    let properties = bundle.all_properties().into_iter().map(|it| (it.kind, it.value.to_string()));
    Ok(Bundle {
        name: bundle.csv.metadata.name.clone(),
        package: bundle.annotations.package().to_owned(),
        objects: bundle.objects.iter().map(|object| text(&object.raw.bytes())).collect(),
        properties: properties.collect(),
        described: blob(image, Form::Metadata),
        whole: blob("", Form::Objects),
    })
}

/// Reads the data of a ConfigMap as the blobs of a catalog, in JSON, and what of it was left out. An error: it is no catalog.
pub fn read_config_map(data: &BTreeMap<String, String>) -> Result<(String, Vec<Found>), String> {
    let blobs = config_map::read(data).map_err(|error| error.to_string())?;
    Ok((blobs.json, blobs.findings.iter().map(Found::from).collect()))
}
