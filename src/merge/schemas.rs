//! The schemas of the kinds that a release defines, read when an object may have fields that its manifest lacks.

use super::schema::Schema;
use crate::payload::{DefinedKind, Manifest, defined_group};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[derive(Debug, Default)]
pub(crate) struct Schemas {
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// The CustomResourceDefinitions of the release, by name.
    definitions: HashMap<String, Arc<Manifest>>,
    /// By API version and kind.
    read: HashMap<(String, String), Option<Arc<Schema>>>,
}

impl Schemas {
    /// Those of the kinds that these manifests define.
    pub(crate) fn new<'a>(manifests: impl IntoIterator<Item = &'a Arc<Manifest>>) -> Schemas {
        let schemas = Schemas::default();
        schemas.add(manifests);
        schemas
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// These manifests define the kinds, in place of those before.
    pub(crate) fn set<'a>(&self, manifests: impl IntoIterator<Item = &'a Arc<Manifest>>) {
        self.lock().definitions.clear();
        self.add(manifests);
    }

    /// These manifests define kinds too.
    pub(crate) fn add<'a>(&self, manifests: impl IntoIterator<Item = &'a Arc<Manifest>>) {
        let definitions = manifests.into_iter().filter(|manifest| manifest.id.kind == "CustomResourceDefinition");
        let mut known = self.lock();
        known.definitions.extend(definitions.map(|definition| (definition.id.name.clone(), definition.clone())));
        known.read.clear();
    }

    /// That of the kind of a manifest.
    pub(crate) fn of(&self, manifest: &Manifest) -> Option<Arc<Schema>> {
        let key = (manifest.api_version.clone(), manifest.id.kind.clone());
        let definitions: Vec<Arc<Manifest>> = {
            let known = self.lock();
            if let Some(read) = known.read.get(&key) {
                return read.clone();
            }
            let group = |definition: &Manifest| defined_group(&definition.id.name) == Some(manifest.id.group.as_str());
            known.definitions.values().filter(|definition| group(definition)).cloned().collect()
        };
        let schema = read(manifest, &definitions).map(Arc::new);
        self.lock().read.insert(key, schema.clone());
        schema
    }
}

fn read(manifest: &Manifest, definitions: &[Arc<Manifest>]) -> Option<Schema> {
    let (group, kind) = (&manifest.id.group, &manifest.id.kind);
    if let Some(schema) = Schema::built_in(group, kind) {
        return Some(schema);
    }
    let version = manifest.api_version.rsplit('/').next().unwrap_or_default();
    let definition = definitions.iter().find(|definition| {
        DefinedKind::of_manifest(definition).is_ok_and(|defined| defined.group == *group && defined.kind == *kind)
    })?;
    Schema::of_definition(&definition.raw.bytes(), version)
}
