//! What the stage hand sees and touches: watches that begin when their kind is served, and single writes.

use super::roles;
use super::script::Script;
use futures::stream::{BoxStream, SelectAll, StreamExt};
use kube::Client;
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::runtime::{WatchStreamExt, watcher};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// Something moved.
#[derive(Debug)]
pub enum News {
    /// A CustomResourceDefinition (by its name) is established.
    Definition(String),
    /// A Deployment, DaemonSet or Job is there, or changed.
    Workload(Value),
    /// A ClusterOperator (by its name) is there, changed, or gone.
    Operator(String),
}

/// One write: making an object, with its status, or giving an object its status.
#[derive(Clone, Debug)]
pub struct Write {
    kind: GroupVersionKind,
    create: bool,
    pub object: Value,
}

impl Write {
    pub fn create(group: &str, version: &str, kind: &str, object: Value) -> Write {
        Write { kind: GroupVersionKind::gvk(group, version, kind), create: true, object }
    }

    pub fn status(group: &str, version: &str, kind: &str, object: Value) -> Write {
        Write { kind: GroupVersionKind::gvk(group, version, kind), create: false, object }
    }
}

/// Carries a write out. What is there already stays; what is gone needs no status.
pub async fn write(client: &Client, write: &Write) -> Result<(), String> {
    let resource = ApiResource::from_gvk(&write.kind);
    let (namespace, name) = roles::name_of(&write.object);
    let api: Api<DynamicObject> = match namespace {
        "" => Api::all_with(client.clone(), &resource),
        namespace => Api::namespaced_with(client.clone(), namespace, &resource),
    };
    let failed = |error: kube::Error| format!("{} {namespace}/{name}: {error}", write.kind.kind);
    let is = |error: &kube::Error, code: u16| matches!(error, kube::Error::Api(status) if status.code == code);
    if write.create {
        let mut object = write.object.clone();
        if let Some(map) = object.as_object_mut() {
            map.insert("apiVersion".into(), resource.api_version.clone().into());
            map.insert("kind".into(), resource.kind.clone().into());
        }
        let object: DynamicObject = serde_json::from_value(object).map_err(|e| e.to_string())?;
        match api.create(&PostParams::default(), &object).await {
            Err(error) if !is(&error, 409) => return Err(failed(error)),
            _ => {}
        }
    }
    let Some(status) = write.object.get("status") else { return Ok(()) };
    let patch = Patch::Merge(json!({ "status": status }));
    match api.patch_status(name, &PatchParams::default(), &patch).await {
        Err(error) if !is(&error, 404) => Err(failed(error)),
        _ => Ok(()),
    }
}

/// The watches and what they have shown.
pub struct Props {
    pub client: Client,
    news: SelectAll<BoxStream<'static, Option<Seen>>>,
    /// Definitions known to be established.
    established: HashSet<String>,
    operators: BTreeMap<String, Value>,
    /// Which releases each Deployment carries.
    carried: BTreeMap<(String, String), BTreeSet<usize>>,
}

enum Seen {
    Definition(Value),
    Workload(Value),
    Operator(Value),
    OperatorGone(String),
}

impl Props {
    /// Watches what every API server serves; the rest is followed once its definition is established.
    pub fn new(client: Client) -> Props {
        let kinds = [("apps", "Deployment"), ("apps", "DaemonSet"), ("batch", "Job")];
        let mut news = SelectAll::new();
        for (group, kind) in kinds {
            news.push(watch(&client, group, kind));
        }
        news.push(watch(&client, "apiextensions.k8s.io", "CustomResourceDefinition"));
        Props { client, news, established: HashSet::new(), operators: BTreeMap::new(), carried: BTreeMap::new() }
    }

    /// Follows what a definition brings, if it takes part in the play.
    pub fn follow(&mut self, definition: &str) {
        if definition == "clusteroperators.config.openshift.io" {
            self.news.push(watch(&self.client, "config.openshift.io", "ClusterOperator"));
        }
    }

    /// The next piece of news. Cancel safe.
    pub async fn next(&mut self) -> News {
        loop {
            let Some(seen) = self.news.next().await else { return std::future::pending().await };
            match seen {
                Some(Seen::Definition(object)) => {
                    let name = roles::name_of(&object).1.to_owned();
                    if established(&object) && self.established.insert(name.clone()) {
                        return News::Definition(name);
                    }
                }
                Some(Seen::Workload(object)) => return News::Workload(object),
                Some(Seen::Operator(object)) => {
                    let name = roles::name_of(&object).1.to_owned();
                    self.operators.insert(name.clone(), object);
                    return News::Operator(name);
                }
                Some(Seen::OperatorGone(name)) => {
                    self.operators.remove(&name);
                    return News::Operator(name);
                }
                None => {}
            }
        }
    }

    /// Notes which releases a Deployment carries; returns the operators that run in it, if that has changed.
    pub fn saw_workload(&mut self, script: &Script, object: &Value) -> Vec<String> {
        let (namespace, name) = roles::name_of(object);
        let key = (namespace.to_owned(), name.to_owned());
        let carried = script.carried(&key, object);
        if self.carried.insert(key.clone(), carried.clone()) == Some(carried) {
            return Vec::new();
        }
        script.operators.iter().filter(|(_, in_)| in_.contains(&key)).map(|(operator, _)| operator.clone()).collect()
    }

    /// The release that the operator has to report and does not yet: the newest that all its Deployments carry.
    pub fn to_report(&self, script: &Script, operator: &str) -> Option<usize> {
        let live = self.operators.get(operator)?;
        let mut common: BTreeSet<usize> = (0..script.releases.len()).collect();
        for deployment in script.operators.get(operator)? {
            let carried = self.carried.get(deployment)?;
            common.retain(|release| carried.contains(release));
        }
        let release = common.into_iter().next_back()?;
        let versions = script.versions_of(operator, release)?;
        (!roles::reports(live, versions)).then_some(release)
    }
}

fn established(definition: &Value) -> bool {
    let conditions = definition.pointer("/status/conditions").and_then(Value::as_array);
    let text = |c: &Value, key: &str| c.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    conditions.into_iter().flatten().any(|c| text(c, "type") == "Established" && text(c, "status") == "True")
}

fn watch(client: &Client, group: &str, kind: &str) -> BoxStream<'static, Option<Seen>> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, "v1", kind));
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    let (kind, api_version) = (resource.kind.clone(), resource.api_version.clone());
    let seen = move |object: DynamicObject| {
        let mut object = serde_json::to_value(object).ok()?;
        if let Some(map) = object.as_object_mut() {
            // Lists leave these out of their items.
            map.insert("kind".into(), kind.clone().into());
            map.insert("apiVersion".into(), api_version.clone().into());
        }
        Some(match kind.as_str() {
            "CustomResourceDefinition" => Seen::Definition(object),
            "ClusterOperator" => Seen::Operator(object),
            _ => Seen::Workload(object),
        })
    };
    let watched = watcher(api, watcher::Config::default()).default_backoff();
    let news = watched.map(move |event| match event {
        Ok(watcher::Event::Apply(object) | watcher::Event::InitApply(object)) => seen(object),
        Ok(watcher::Event::Delete(object)) if object.types.as_ref().is_some_and(|t| t.kind == "ClusterOperator") => {
            object.metadata.name.map(Seen::OperatorGone)
        }
        Ok(_) => None,
        Err(error) => {
            println!("watch: {error}");
            None
        }
    });
    news.boxed()
}
