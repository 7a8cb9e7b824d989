//! The schemas of the kinds that a release defines, read when an object may have fields that its manifest lacks.

use super::schema::Schema;
use crate::payload::{DefinedKind, Manifest, defined_group};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// By API version and kind.
#[derive(Debug, Default)]
pub(crate) struct Schemas {
    read: Mutex<Read>,
}

type Read = HashMap<(String, String), Option<Arc<Schema>>>;

impl Schemas {
    fn lock(&self) -> MutexGuard<'_, Read> {
        self.read.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Other manifests define the kinds.
    pub(crate) fn forget(&self) {
        self.lock().clear();
    }

    /// That of the kind of a manifest. `definitions` returns the manifests of the release that may define it.
    pub(crate) fn of(
        &self,
        manifest: &Manifest,
        definitions: impl FnOnce() -> Vec<Arc<Manifest>>,
    ) -> Option<Arc<Schema>> {
        let key = (manifest.api_version.clone(), manifest.id.kind.clone());
        if let Some(known) = self.lock().get(&key) {
            return known.clone();
        }
        let schema = read(manifest, definitions).map(Arc::new);
        self.lock().insert(key, schema.clone());
        schema
    }
}

/// Whether this manifest may define the kind of the other, by its name.
pub(crate) fn may_define(definition: &Manifest, manifest: &Manifest) -> bool {
    let group = || defined_group(&definition.id.name);
    definition.id.kind == "CustomResourceDefinition" && group() == Some(manifest.id.group.as_str())
}

fn read(manifest: &Manifest, definitions: impl FnOnce() -> Vec<Arc<Manifest>>) -> Option<Schema> {
    let (group, kind) = (&manifest.id.group, &manifest.id.kind);
    if let Some(schema) = Schema::built_in(group, kind) {
        return Some(schema);
    }
    let version = manifest.api_version.rsplit('/').next().unwrap_or_default();
    let mut definitions = definitions().into_iter();
    let definition = definitions.find(|definition| {
        DefinedKind::of_manifest(definition).is_ok_and(|defined| defined.group == *group && defined.kind == *kind)
    })?;
    Schema::of_definition(&definition.raw.bytes(), version)
}
