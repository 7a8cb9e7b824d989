//! A release as a daemon takes it on a test cluster: what takes part there.

use cvo::{
    payload::{Filter, LoadOptions, Payload, load},
    work::payload_dir,
};
use std::{collections::BTreeSet, path::Path};

/// From the folder with `manifests/` and `release-manifests/`, with the default features and no feature gates.
pub fn taking_part(folder: &Path, image: &str) -> anyhow::Result<Payload> {
    let filter = Filter { feature_set: Some(String::new()), feature_gates: Some(BTreeSet::new()), ..Filter::default() };
    let options = LoadOptions { image: image.to_owned(), filter, ..LoadOptions::default() };
    Ok(load(payload_dir::read(folder)?, &options)?)
}
