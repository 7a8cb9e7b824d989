//! What the API server serves: group, version and kind to resource and scope. Read once by aggregated discovery
//! (two requests), then extended from the CustomResourceDefinitions that the daemon itself sees established.

use super::objects::ApiError;
use crate::payload::{Manifest, ObjectId, defined};
use kube::Client;
use kube::discovery::{Discovery, Scope};
use serde_json::Value;
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
    /// A kind that every cluster is known to serve, so that it need not be looked up.
    pub fn known(group: &str, version: &str, kind: &str, plural: &str, namespaced: bool) -> Kind {
        Kind { group: group.into(), version: version.into(), kind: kind.into(), plural: plural.into(), namespaced }
    }

    /// The kind that the administrator drives the daemon by.
    pub fn cluster_version() -> Kind {
        Kind::known("config.openshift.io", "v1", "ClusterVersion", "clusterversions", false)
    }

    /// Path of the collection: `/apis/apps/v1/namespaces/ns/deployments`; without a namespace that of all namespaces.
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
        let mut id = manifest.id.clone();
        match (self.namespaced, id.namespace.is_empty()) {
            (false, _) => id.namespace.clear(),
            (true, true) => id.namespace = "default".to_owned(),
            (true, false) => {}
        }
        id
    }
}

type Key = (String, String);

/// The served kinds, by `apiVersion` and kind. Readers may wait for it to grow.
#[derive(Debug)]
pub struct Kinds {
    map: RwLock<HashMap<Key, Kind>>,
    grown: watch::Sender<u64>,
    /// When the last answer came.
    refresh: tokio::sync::Mutex<Option<Instant>>,
}

impl Default for Kinds {
    fn default() -> Self {
        Kinds { map: RwLock::default(), grown: watch::channel(0).0, refresh: tokio::sync::Mutex::default() }
    }
}

impl Kinds {
    /// The kind, if the server is known to serve it.
    pub fn get(&self, api_version: &str, kind: &str) -> Option<Kind> {
        let map = self.map.read().unwrap_or_else(PoisonError::into_inner);
        map.get(&(api_version.to_owned(), kind.to_owned())).cloned()
    }

    /// The manifest's kind and its identity as the cluster knows it, if the server is known to serve the kind.
    pub fn resolve(&self, manifest: &Manifest) -> Option<(Kind, ObjectId)> {
        let kind = self.get(&manifest.api_version, &manifest.id.kind)?;
        let id = kind.identity(manifest);
        Some((kind, id))
    }

    /// As [`Kinds::resolve`], by another version of the kind that is served: an object is the same in all of them.
    pub fn resolve_otherwise(&self, manifest: &Manifest) -> Option<(Kind, ObjectId)> {
        let map = self.map.read().unwrap_or_else(PoisonError::into_inner);
        let same = |kind: &&Kind| (&kind.group, &kind.kind) == (&manifest.id.group, &manifest.id.kind);
        let kind = map.values().filter(same).min_by(|a, b| a.version.cmp(&b.version))?;
        Some((kind.clone(), kind.identity(manifest)))
    }

    /// Waits until the server is known to serve the kind. Cancel safe.
    pub async fn served(&self, api_version: &str, kind: &str) -> Kind {
        let mut grown = self.grown();
        loop {
            if let Some(kind) = self.get(api_version, kind) {
                return kind;
            }
            if grown.changed().await.is_err() {
                // Nobody is left who could add one.
                std::future::pending::<()>().await;
            }
        }
    }

    /// Changes whenever a kind is added.
    pub fn grown(&self) -> watch::Receiver<u64> {
        self.grown.subscribe()
    }

    /// Asks the server again. Callers that come while another asks share its answer.
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

    /// The kinds that an established CustomResourceDefinition serves, from the object itself: no request.
    pub fn of_definition(crd: &Value) -> Vec<Kind> {
        let definition = defined(crd);
        let kind = |version: &&str| {
            Kind::known(definition.group, version, definition.kind, definition.plural, definition.namespaced)
        };
        definition.served.iter().map(kind).collect()
    }

    /// From now on these are served. Of several resources of one kind the last counts.
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
            self.grown.send_modify(|n| *n += 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crd_teaches_its_served_versions_and_wakes_those_who_wait() {
        let kinds = Kinds::default();
        let grown = kinds.grown();
        let crd = serde_json::json!({"spec": {"group": "example.org", "scope": "Namespaced",
            "names": {"kind": "Widget", "plural": "widgets"},
            "versions": [{"name": "v1", "served": true}, {"name": "v0", "served": false}]}});
        kinds.add(Kinds::of_definition(&crd));
        let kind = kinds.get("example.org/v1", "Widget").unwrap();
        assert_eq!(kind.path("ns"), "/apis/example.org/v1/namespaces/ns/widgets");
        assert_eq!(kind.path(""), "/apis/example.org/v1/widgets");
        assert!(kinds.get("example.org/v0", "Widget").is_none());
        assert!(grown.has_changed().unwrap());
        // Two resources of one kind, as some groups have them: told again they are nothing new.
        let twice =
            ["templates", "processedtemplates"].map(|plural| Kind::known("t.io", "v1", "Template", plural, true));
        kinds.add(twice.clone());
        let grown = kinds.grown();
        kinds.add(twice);
        assert!(!grown.has_changed().unwrap());
        let core = Kind::known("", "v1", "Node", "nodes", false);
        assert_eq!(core.path("ignored"), "/api/v1/nodes");
    }
}
