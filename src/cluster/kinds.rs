//! The kinds that the API server serves: group, version and kind to resource and scope. Read once by aggregated discovery
//! (two requests), then extended by the CustomResourceDefinitions that the daemon sees become established.

use super::error::ApiError;
use crate::merge::Owner;
use crate::object::definition::DefinedKind;
use crate::object::manifest::{Manifest, ObjectId};
use kube::Client;
use kube::core::Version;
use kube::discovery::{Discovery, Scope};
use std::collections::HashMap;
use std::sync::{PoisonError, RwLock};
use std::time::Instant;
use tokio::sync::watch;

/// One served kind.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Kind {
    /// Empty for the core group.
    pub group: String,
    pub version: String,
    pub kind: String,
    pub plural: String,
    pub namespaced: bool,
}

impl Kind {
    /// A kind that is known without discovery.
    pub fn known(group: &str, version: &str, kind: &str, plural: &str, namespaced: bool) -> Kind {
        Kind { group: group.into(), version: version.into(), kind: kind.into(), plural: plural.into(), namespaced }
    }

    /// The kind of a type.
    pub fn of<K: kube::Resource<DynamicType = ()>>(namespaced: bool) -> Kind {
        Kind::known(&K::group(&()), &K::version(&()), &K::kind(&()), &K::plural(&()), namespaced)
    }

    pub(crate) fn config_map() -> Kind {
        Kind::known("", "v1", "ConfigMap", "configmaps", true)
    }

    pub(crate) fn pod() -> Kind {
        Kind::known("", "v1", "Pod", "pods", true)
    }

    pub(crate) fn of_owner(owner: &Owner) -> Kind {
        let (group, version) = owner.api_version.split_once('/').unwrap_or(("", owner.api_version));
        Kind::known(group, version, owner.kind, owner.plural, owner.namespaced)
    }

    /// `<plural>.<group>`; of the core group the plural alone.
    pub(crate) fn resource(&self) -> String {
        format!("{}.{}", self.plural, self.group).trim_end_matches('.').to_owned()
    }

    /// Path of the collection, such as `/apis/apps/v1/namespaces/ns/deployments`; of all namespaces without a namespace.
    pub fn path(&self, namespace: &str) -> String {
        let mut path = if self.group.is_empty() { "/api".to_owned() } else { format!("/apis/{}", self.group) };
        path.push('/');
        path.push_str(&self.version);
        if self.namespaced && !namespace.is_empty() {
            path.push_str("/namespaces/");
            path.push_str(namespace);
        }
        path.push('/');
        path.push_str(&self.plural);
        path
    }

    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    /// The identity of the manifest's object as the cluster knows it: without a namespace for cluster-scoped kinds, and
    /// in `default` where a namespaced manifest names none.
    pub fn identity(&self, manifest: &Manifest) -> ObjectId {
        self.identity_of(manifest.id.clone())
    }

    /// The same for the identity that is in a manifest.
    pub(crate) fn identity_of(&self, mut id: ObjectId) -> ObjectId {
        match (self.namespaced, id.namespace.is_empty()) {
            (false, _) => id.namespace.clear(),
            (true, true) => id.namespace = "default".to_owned(),
            (true, false) => {}
        }
        id
    }
}

type Key = (String, String);

/// The served kinds, by `apiVersion` and kind.
#[derive(Debug)]
pub struct Kinds {
    map: RwLock<HashMap<Key, Kind>>,
    added: watch::Sender<u64>,
    /// When discovery was answered last.
    refresh: tokio::sync::Mutex<Option<Instant>>,
}

impl Default for Kinds {
    fn default() -> Self {
        Kinds { map: RwLock::default(), added: watch::channel(0).0, refresh: tokio::sync::Mutex::default() }
    }
}

impl Kinds {
    /// The kind, if the server is known to serve it.
    pub fn get(&self, api_version: &str, kind: &str) -> Option<Kind> {
        let map = self.map.read().unwrap_or_else(PoisonError::into_inner);
        map.get(&(api_version.to_owned(), kind.to_owned())).cloned()
    }

    /// Whether the server has told what it serves, and this kind is not among it.
    pub(crate) fn lacks(&self, api_version: &str, kind: &str) -> bool {
        let map = self.map.read().unwrap_or_else(PoisonError::into_inner);
        !map.is_empty() && !map.contains_key(&(api_version.to_owned(), kind.to_owned()))
    }

    /// The manifest's kind and its identity as the cluster knows it, if the server is known to serve the kind. An object
    /// that is to be deleted is the same in every version.
    pub fn resolve(&self, manifest: &Manifest) -> Option<(Kind, ObjectId)> {
        if let Some(kind) = self.get(&manifest.api_version, &manifest.id.kind) {
            let id = kind.identity(manifest);
            return Some((kind, id));
        }
        if manifest.delete() == Ok(true) { self.resolve_in_another_version(manifest) } else { None }
    }

    /// As [`Kinds::resolve`], in another version of the kind: an object is the same in all of them.
    pub(crate) fn resolve_in_another_version(&self, manifest: &Manifest) -> Option<(Kind, ObjectId)> {
        self.resolve_id(&manifest.id)
    }

    /// The same for the identity that is in a manifest.
    pub(crate) fn resolve_id(&self, id: &ObjectId) -> Option<(Kind, ObjectId)> {
        let map = self.map.read().unwrap_or_else(PoisonError::into_inner);
        let same = |kind: &&Kind| (&kind.group, &kind.kind) == (&id.group, &id.kind);
        // As the API server prefers them: the newest stable one first.
        let kind = map.values().filter(same).max_by_key(|kind| Version::parse(&kind.version).priority())?;
        Some((kind.clone(), kind.identity_of(id.clone())))
    }

    /// Waits until the server is known to serve the kind. Cancel safe.
    pub async fn served(&self, api_version: &str, kind: &str) -> Kind {
        let mut added = self.added();
        loop {
            if let Some(kind) = self.get(api_version, kind) {
                return kind;
            }
            if added.changed().await.is_err() {
                // This registry is being dropped, so no kind will be added.
                std::future::pending::<()>().await;
            }
        }
    }

    /// Waits until the server is known to serve the kind of this object, in any version. Cancel safe.
    pub(crate) async fn resolved(&self, id: &ObjectId) -> (Kind, ObjectId) {
        let mut added = self.added();
        loop {
            if let Some(found) = self.resolve_id(id) {
                return found;
            }
            if added.changed().await.is_err() {
                // This registry is being dropped, so no kind will be added.
                std::future::pending::<()>().await;
            }
        }
    }

    /// Changes whenever a kind is added.
    fn added(&self) -> watch::Receiver<u64> {
        self.added.subscribe()
    }

    /// Asks the server for one kind, and remembers it if it is served.
    pub(crate) async fn look_up(&self, client: &Client, version: &str, kind: &str) -> Result<Option<Kind>, ApiError> {
        let listed = if version.contains('/') {
            client.list_api_group_resources(version).await
        } else {
            client.list_core_api_resources(version).await
        };
        let attempt = format!("discover whether the API server serves {version} {kind}");
        let resources = match listed.map_err(|error| ApiError::of(&attempt, error)) {
            Ok(list) => list.resources,
            Err(error) if error.is_not_found() => return Ok(None),
            Err(error) => return Err(error),
        };
        let group = version.split_once('/');
        let found = resources.into_iter().find(|r| r.kind == kind && !r.name.contains('/')).map(|resource| {
            let (group, version) = group.unwrap_or(("", version));
            Kind::known(group, version, kind, &resource.name, resource.namespaced)
        });
        self.add(found.clone());
        Ok(found)
    }

    /// Asks the server again. Concurrent callers share one answer.
    pub async fn refresh(&self, client: &Client) -> Result<(), ApiError> {
        let asked = Instant::now();
        let mut last = self.refresh.lock().await;
        if last.is_some_and(|answered| answered > asked) {
            return Ok(());
        }
        let discovery = match Discovery::new(client.clone()).run_aggregated().await {
            Ok(discovery) => discovery,
            // Servers without aggregated discovery answer it with an error.
            Err(_) => Discovery::new(client.clone())
                .run()
                .await
                .map_err(|e| ApiError::of("discover the kinds the API server serves", e))?,
        };
        let mut found = Vec::new();
        for group in discovery.groups() {
            for version in group.versions() {
                for (resource, capabilities) in group.versioned_resources(version) {
                    found.push(Kind {
                        group: resource.group,
                        version: resource.version,
                        kind: resource.kind,
                        plural: resource.plural,
                        namespaced: capabilities.scope == Scope::Namespaced,
                    });
                }
            }
        }
        self.add(found);
        *last = Some(Instant::now());
        Ok(())
    }

    /// The kinds that an established CustomResourceDefinition serves: no request.
    pub fn of_definition(defined: &DefinedKind) -> Vec<Kind> {
        let kind =
            |version: &String| Kind::known(&defined.group, version, &defined.kind, &defined.plural, defined.namespaced);
        defined.served.iter().map(kind).collect()
    }

    /// A version of a kind is not served any more. Whether another one still is.
    pub(crate) fn forget(&self, kind: &Kind) -> bool {
        let mut map = self.map.write().unwrap_or_else(PoisonError::into_inner);
        map.remove(&(kind.api_version(), kind.kind.clone()));
        map.values().any(|other| (&other.group, &other.kind) == (&kind.group, &kind.kind))
    }

    /// Adds kinds that are served from now on. Of several resources of one kind the last counts.
    pub fn add(&self, kinds: impl IntoIterator<Item = Kind>) {
        let kinds: HashMap<Key, Kind> =
            kinds.into_iter().map(|kind| ((kind.api_version(), kind.kind.clone()), kind)).collect();
        let mut changed = false;
        {
            let mut map = self.map.write().unwrap_or_else(PoisonError::into_inner);
            for (key, kind) in kinds {
                changed |= map.get(&key) != Some(&kind);
                map.insert(key, kind);
            }
        }
        if changed {
            self.added.send_modify(|n| *n += 1);
        }
    }
}

#[cfg(test)]
mod tests;
