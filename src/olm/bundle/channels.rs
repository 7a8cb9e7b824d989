//! The entries of a channel, found from its head along the edges that the ClusterServiceVersions themselves name.

use super::Bundle;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// A version of a channel, as file-based catalogs have it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Entry {
    pub name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub replaces: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub skips: Vec<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub skip_range: String,
}

/// Entries from the head down: what each replaces, as far as there are bundles, and then the bundles that these skip. What
/// a skipped one replaces is not followed: nobody is offered it. Empty if the head has no bundle.
pub(crate) fn entries(head: &str, bundles: &BTreeMap<&str, &Bundle>) -> Vec<Entry> {
    let (mut chain, mut seen, mut skips) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
    let mut next = bundles.get(head).copied();
    while let Some(bundle) = next.filter(|bundle| seen.insert(bundle.csv.metadata.name.as_str())) {
        chain.push(bundle);
        skips.extend(bundle.csv.spec.skips.iter().map(String::as_str));
        let replaced = bundle.csv.spec.replaces.as_str();
        next = bundles.get(replaced).copied().filter(|_| !skips.contains(replaced));
    }
    let skipped = chain.iter().flat_map(|bundle| &bundle.csv.spec.skips);
    let skipped: Vec<&Bundle> = skipped
        .filter_map(|name| bundles.get(name.as_str()).copied())
        .filter(|bundle| seen.insert(bundle.csv.metadata.name.as_str()))
        .collect();
    chain.into_iter().chain(skipped).map(entry).collect()
}

fn entry(bundle: &Bundle) -> Entry {
    Entry {
        name: bundle.csv.metadata.name.clone(),
        replaces: bundle.csv.spec.replaces.clone(),
        skips: bundle.csv.spec.skips.clone(),
        skip_range: bundle.csv.skip_range().to_owned(),
    }
}
