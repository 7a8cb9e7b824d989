//! The schemas of the kinds that a release defines, read when an object may have fields that its manifest lacks.

use super::schema::Schema;
use crate::object::definition::{DefinedKind, defined_group};
use crate::object::manifest::Manifest;
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
        let mut known = self.lock();
        known.definitions.clear();
        known.add(manifests);
    }

    /// These manifests define kinds too.
    pub(crate) fn add<'a>(&self, manifests: impl IntoIterator<Item = &'a Arc<Manifest>>) {
        self.lock().add(manifests);
    }

    /// That of the kind of a manifest. It is read under the lock, so that none of a definition before remains.
    pub(crate) fn of(&self, manifest: &Manifest) -> Option<Arc<Schema>> {
        let key = (manifest.api_version.clone(), manifest.id.kind.clone());
        let mut known = self.lock();
        if let Some(read) = known.read.get(&key) {
            return read.clone();
        }
        let schema = read(manifest, known.definitions.values().map(Arc::as_ref)).map(Arc::new);
        known.read.insert(key, schema.clone());
        schema
    }
}

impl Known {
    fn add<'a>(&mut self, manifests: impl IntoIterator<Item = &'a Arc<Manifest>>) {
        let definitions = manifests.into_iter().filter(|manifest| manifest.id.kind == "CustomResourceDefinition");
        self.definitions.extend(definitions.map(|definition| (definition.id.name.clone(), definition.clone())));
        self.read.clear();
    }
}

fn read<'a>(manifest: &Manifest, definitions: impl Iterator<Item = &'a Manifest>) -> Option<Schema> {
    let (group, kind) = (&manifest.id.group, &manifest.id.kind);
    if let Some(schema) = Schema::built_in(group, kind) {
        return Some(schema);
    }
    let version = manifest.api_version.rsplit('/').next().unwrap_or_default();
    let of_group = |definition: &&Manifest| defined_group(&definition.id.name) == Some(group.as_str());
    let definition = definitions.filter(of_group).find(|definition| {
        DefinedKind::of_manifest(definition).is_ok_and(|defined| defined.group == *group && defined.kind == *kind)
    })?;
    Schema::of_definition(&definition.raw.bytes(), version)
}
