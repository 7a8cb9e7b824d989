//! References in the place of manifests: what an object of the API server cannot hold stands in the bundle that it came from, and the
//! step says which one, and the hash of what it has to find there.

use crate::olm::api::install_plan::{InstallPlanStatus, Step};
use crate::olm::bundle::Bundle;
use crate::olm::steps::{self, Chosen, SUBSCRIPTION, properties};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// Bytes of the manifests of a plan, as they stand in its JSON. What is beyond them is referred to.
pub(crate) const INLINE: usize = 512 << 10;
/// No reference is longer.
const MAX_REFERENCE: usize = 4 << 10;
/// Smaller manifests stay: a reference takes as much.
const MIN_MANIFEST: usize = 1 << 10;
const KIND: &str = "Bundle";

/// Where a manifest is found.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Reference {
    kind: String,
    /// Of the ClusterServiceVersion of the bundle.
    pub name: String,
    pub package: String,
    /// Its pull spec; empty if its catalog itself has the manifests.
    #[serde(default)]
    pub image: String,
    pub catalog_source_name: String,
    pub catalog_source_namespace: String,
    /// Of the manifest as the step would have it, as hexadecimal digits.
    pub sha256: String,
}

impl Reference {
    /// If the text is one.
    pub(crate) fn of(manifest: &str) -> Option<Reference> {
        let short = Some(manifest).filter(|text| text.len() <= MAX_REFERENCE)?;
        serde_json::from_str(short).ok().filter(|it: &Reference| it.kind == KIND)
    }

    fn new((package, image): (&str, &str), step: &Step) -> Reference {
        let resource = &step.resource;
        Reference {
            kind: KIND.to_owned(),
            name: step.resolving.clone(),
            package: package.to_owned(),
            image: image.to_owned(),
            catalog_source_name: resource.source_name.clone(),
            catalog_source_namespace: resource.source_namespace.clone(),
            sha256: hash(&resource.manifest),
        }
    }

    /// As it stands in a step.
    fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

fn hash(manifest: &str) -> String {
    hex::encode(Sha256::digest(manifest))
}

/// The steps of a bundle of a plan.
#[derive(Clone, Debug)]
pub(crate) struct Part<'a> {
    pub package: &'a str,
    /// Empty if the catalog itself has its manifests.
    pub image: &'a str,
    pub steps: Vec<Step>,
}

/// Puts references in the place of the largest manifests, until those that are left take at most `limit` bytes. Whether there are any.
pub(crate) fn refer(parts: &mut [Part<'_>], limit: usize) -> bool {
    let mut left = 0;
    let mut large: Vec<(usize, (&str, &str), &mut Step)> = Vec::new();
    for Part { package, image, steps } in parts {
        for step in steps {
            let length = length(&step.resource.manifest);
            left += length;
            // A Subscription is not in the bundle.
            if length > MIN_MANIFEST && step.resource.kind != SUBSCRIPTION.1 {
                large.push((length, (package, image), step));
            }
        }
    }
    large.sort_by_key(|(length, ..)| Reverse(*length));
    let is_within = left <= limit;
    for (manifest, origin, step) in large {
        if left <= limit {
            break;
        }
        let text = Reference::new(origin, step).text();
        left = (left + length(&text)).saturating_sub(manifest);
        step.resource.manifest = text;
    }
    !is_within
}

/// What another program refers to in the steps of a bundle: a ConfigMap that it has unpacked the bundle into. All steps say the same.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Unpacked {
    kind: String,
    pub name: String,
    pub namespace: String,
    pub catalog_source_name: String,
    pub catalog_source_namespace: String,
    /// Of its ClusterServiceVersion.
    #[serde(default)]
    pub replaces: String,
    #[serde(default)]
    pub properties: String,
}

impl Unpacked {
    /// If the text is one. Properties of a bundle may be long.
    pub(crate) fn of(manifest: &str) -> Option<Unpacked> {
        serde_json::from_str(manifest).ok().filter(|it: &Unpacked| it.kind == "ConfigMap")
    }
}

/// Bytes of a text in JSON.
fn length(text: &str) -> usize {
    text.len() + text.bytes().filter(|byte| matches!(byte, b'"' | b'\\' | b'\n' | b'\t')).count()
}

/// Manifests by the kind and the name that steps have.
type ByStep = BTreeMap<(String, String), String>;

/// The manifests that were looked for.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// By their hash.
    manifests: BTreeMap<String, String>,
    failures: BTreeMap<Reference, String>,
    /// Manifests of ConfigMaps, or why there are none.
    unpacked: BTreeMap<Unpacked, Result<ByStep, String>>,
}

impl Found {
    /// Looks through a bundle. `status`: of the plan, which says what its ClusterServiceVersion replaces, and its properties.
    pub(crate) fn add(
        &mut self,
        bundle: &Bundle,
        namespace: &str,
        status: &InstallPlanStatus,
        references: &BTreeSet<Reference>,
    ) {
        let Some(first) = references.first() else { return };
        let lookup = status.bundle_lookups.iter().find(|it| it.identifier == first.name);
        let (replaces, written) = lookup.map(|it| (it.replaces.as_str(), it.properties.as_str())).unwrap_or_default();
        let chosen = Chosen {
            bundle,
            namespace,
            replaces,
            catalog: (&first.catalog_source_namespace, &first.catalog_source_name),
            properties: &properties(written).unwrap_or_default(),
        };
        match steps::of_bundle(&chosen) {
            Err(error) => self.fail(references, &error.to_string()),
            Ok(steps) => {
                let wanted: BTreeSet<&str> = references.iter().map(|it| it.sha256.as_str()).collect();
                let hashed = steps.into_iter().map(|step| (hash(&step.resource.manifest), step.resource.manifest));
                self.manifests.extend(hashed.filter(|(hash, _)| wanted.contains(hash.as_str())));
            }
        }
    }

    /// Keeps what a ConfigMap has. `bundle`: read from it, or why it cannot be.
    pub(crate) fn add_unpacked(&mut self, reference: Unpacked, namespace: &str, bundle: Result<Bundle, String>) {
        let steps = bundle.and_then(|bundle| {
            let chosen = Chosen {
                bundle: &bundle,
                namespace,
                replaces: &reference.replaces,
                catalog: (&reference.catalog_source_namespace, &reference.catalog_source_name),
                properties: &properties(&reference.properties).unwrap_or_default(),
            };
            steps::of_bundle(&chosen).map_err(|error| error.to_string())
        });
        let named = |step: Step| ((step.resource.kind, step.resource.name), step.resource.manifest);
        self.unpacked.insert(reference, steps.map(|steps| steps.into_iter().map(named).collect()));
    }

    /// The manifest of a step of this kind and name.
    pub(crate) fn unpacked(&self, reference: &Unpacked, kind: &str, name: &str) -> Result<&str, String> {
        let id = (kind.to_owned(), name.to_owned());
        match self.unpacked.get(reference) {
            Some(Err(cause)) => Err(cause.clone()),
            Some(Ok(manifests)) if manifests.contains_key(&id) => Ok(manifests.get(&id).map_or("", String::as_str)),
            Some(Ok(_)) | None => Err(format!("it has no {kind} {name}; delete the plan, so that another one is made")),
        }
    }

    pub(crate) fn fail(&mut self, references: &BTreeSet<Reference>, cause: &str) {
        self.failures.extend(references.iter().map(|it| (it.clone(), cause.to_owned())));
    }

    /// The manifest, or why it is not there.
    pub(crate) fn manifest(&self, reference: &Reference) -> Result<&str, String> {
        if let Some(cause) = self.failures.get(reference) {
            return Err(cause.clone());
        }
        let found = self.manifests.get(&reference.sha256).map(String::as_str);
        found.ok_or_else(|| {
            format!(
                "it has no manifest with SHA-256 {} any more; delete the plan, so that another one is made",
                reference.sha256
            )
        })
    }
}

#[cfg(test)]
mod tests;
