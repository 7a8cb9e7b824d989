//! What other clients add to objects of a release, and what an update makes of it.

use cvo::testing::payload::Manifest;
use e2e::{random::SeededRandom, simulator::releases::Release};
use kube::{
    Api, Client,
    api::PostParams,
    core::{DynamicObject, GroupVersionKind},
    discovery::{ApiResource, Scope, pinned_kind},
};
use serde_json::{Value, json};
use std::{collections::HashMap, sync::Arc};

/// Something that is not in the release.
struct Addition {
    /// For these kinds; for all kinds if empty.
    kinds: &'static [&'static str],
    /// The map or list that it is added to.
    place: &'static str,
    /// In a map.
    key: Option<&'static str>,
    value: fn() -> Value,
    /// Whether merging keeps it. If not, the whole place belongs to the release.
    stays: bool,
}

const PODS: &[&str] = &["Deployment", "DaemonSet", "StatefulSet"];

const fn entry(kinds: &'static [&'static str], place: &'static str) -> Addition {
    Addition { kinds, place, key: Some("example.com/added"), value: || json!("yes"), stays: true }
}

const fn element(kinds: &'static [&'static str], place: &'static str, value: fn() -> Value) -> Addition {
    Addition { kinds, place, key: None, value, stays: true }
}

const ADDITIONS: &[Addition] = &[
    entry(&[], "/metadata/labels"),
    entry(&[], "/metadata/annotations"),
    element(&[], "/metadata/finalizers", || json!("example.com/added")),
    Addition { key: Some("added"), ..entry(&["ConfigMap"], "/data") },
    element(&["ServiceAccount"], "/imagePullSecrets", || json!({"name": "added"})),
    entry(PODS, "/spec/template/metadata/annotations"),
    entry(PODS, "/spec/template/spec/nodeSelector"),
    element(
        PODS,
        "/spec/template/spec/tolerations",
        || json!({"key": "example.com/added", "operator": "Exists", "effect": "NoExecute"}),
    ),
    // The environment of a container belongs to the release: a variable that was added is removed again.
    Addition {
        stays: false,
        ..element(PODS, "/spec/template/spec/containers/0/env", || json!({"name": "ADDED", "value": "yes"}))
    },
];

impl Addition {
    fn applies_to(&self, manifest: &Manifest) -> bool {
        self.kinds.is_empty() || self.kinds.contains(&manifest.id.kind.as_str())
    }

    fn add(&self, object: &mut Value) {
        let empty = || if self.key.is_some() { json!({}) } else { json!([]) };
        let mut place = object;
        for step in self.place.split('/').skip(1) {
            let next = match place {
                Value::Array(list) => list.get_mut(step.parse::<usize>().unwrap()).unwrap(),
                Value::Object(map) => map.entry(step).or_insert(Value::Null),
                other => panic!("{step} of {} in {other}", self.place),
            };
            place = next;
            if place.is_null() {
                *place = if self.place.ends_with(step) { empty() } else { json!({}) };
            }
        }
        match (self.key, place) {
            (Some(key), Value::Object(map)) => drop(map.insert(key.to_owned(), (self.value)())),
            (None, Value::Array(list)) => list.push((self.value)()),
            (_, other) => panic!("{} is {other}", self.place),
        }
    }

    fn is_in(&self, object: &Value) -> bool {
        match (self.key, object.pointer(self.place)) {
            (Some(key), Some(Value::Object(map))) => map.get(key) == Some(&(self.value)()),
            (None, Some(Value::Array(list))) => list.contains(&(self.value)()),
            _ => false,
        }
    }
}

/// Objects of a release that something was added to.
pub(super) struct Additions {
    objects: Vec<(Arc<Manifest>, Api<DynamicObject>)>,
}

impl Additions {
    /// Adds everything that fits to so many objects: all Deployments, which an update writes, and others at random.
    pub(super) async fn make(client: &Client, release: &Release, number: usize, seed: u64) -> Self {
        let payload = release.load().unwrap();
        let random = SeededRandom::new(seed, 0, 0);
        let (mut chosen, mut others): (Vec<_>, Vec<_>) =
            payload.manifests.into_iter().filter(|m| m.delete() == Ok(false)).partition(|m| m.id.kind == "Deployment");
        assert!(chosen.len() < number && number < chosen.len() + others.len());
        while chosen.len() < number {
            chosen.push(others.swap_remove(random.below(others.len())));
        }
        let mut kinds: HashMap<GroupVersionKind, (ApiResource, Scope)> = HashMap::new();
        let mut objects = Vec::new();
        for manifest in chosen {
            let version = manifest.api_version.rsplit('/').next().unwrap();
            let kind = GroupVersionKind::gvk(&manifest.id.group, version, &manifest.id.kind);
            if !kinds.contains_key(&kind) {
                let (resource, capabilities) = pinned_kind(client, &kind).await.unwrap();
                kinds.insert(kind.clone(), (resource, capabilities.scope));
            }
            let (resource, scope) = &kinds[&kind];
            let api = match scope {
                Scope::Cluster => Api::all_with(client.clone(), resource),
                Scope::Namespaced => Api::namespaced_with(client.clone(), &manifest.id.namespace, resource),
            };
            objects.push((manifest, api));
        }
        let additions = Self { objects };
        additions.for_each(async |manifest, api| add(manifest, api).await).await;
        additions
    }

    /// What was not kept or removed as it should be, one line each.
    pub(super) async fn violations(&self) -> Vec<String> {
        let lines = self.for_each(async |manifest, api| {
            let live = serde_json::to_value(api.get(&manifest.id.name).await.unwrap()).unwrap();
            let wrong = |addition: &&Addition| addition.applies_to(manifest) && addition.is_in(&live) != addition.stays;
            let line = |addition: &Addition| {
                let fault = if addition.stays { "is missing" } else { "is still there" };
                format!("{}: what was added to {} {fault}", manifest.id, addition.place)
            };
            ADDITIONS.iter().filter(wrong).map(line).collect::<Vec<_>>()
        });
        lines.await.concat()
    }

    /// How many things were added.
    pub(super) fn number(&self) -> usize {
        self.objects.iter().map(|(manifest, _)| ADDITIONS.iter().filter(|it| it.applies_to(manifest)).count()).sum()
    }

    async fn for_each<T>(&self, act: impl AsyncFn(&Manifest, &Api<DynamicObject>) -> T) -> Vec<T> {
        let mut all = Vec::new();
        for (manifest, api) in &self.objects {
            all.push(act(manifest, api).await);
        }
        all
    }
}

/// One write, which is tried again after a conflict with a write of the status.
async fn add(manifest: &Manifest, api: &Api<DynamicObject>) {
    loop {
        let mut object = serde_json::to_value(api.get(&manifest.id.name).await.unwrap()).unwrap();
        for addition in ADDITIONS.iter().filter(|addition| addition.applies_to(manifest)) {
            addition.add(&mut object);
        }
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        match api.replace(&manifest.id.name, &PostParams::default(), &object).await {
            Ok(_) => return,
            Err(kube::Error::Api(status)) if status.reason == "Conflict" => {}
            Err(error) => panic!("cannot add to {}: {error}", manifest.id),
        }
    }
}
