//! The watches that the simulation reacts to.

use super::objects::key;
use futures::stream::{BoxStream, StreamExt};
use kube::Client;
use kube::api::{Api, DynamicObject};
use kube::core::{ApiResource, GroupVersionKind};
use kube::runtime::{WatchStreamExt, watcher};
use serde_json::Value;
use std::future::ready;

/// A change of an object that the simulation reacts to.
#[derive(Debug)]
pub(super) enum Event {
    /// A CustomResourceDefinition (by its name) is established.
    Established(String),
    /// A Deployment, DaemonSet or Job exists or has changed.
    Workload(Value),
    /// A ClusterOperator exists or has changed, or is deleted (`None`).
    Operator(String, Option<Value>),
}

/// Watches all objects of a kind with version `v1`.
pub(super) fn watch(client: &Client, group: &str, kind: &str) -> BoxStream<'static, Event> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, "v1", kind));
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    let kind = resource.kind;
    let watched = watcher(api, watcher::Config::default()).default_backoff();
    let events = watched.filter_map(move |event| {
        ready(match event {
            Ok(watcher::Event::Apply(object) | watcher::Event::InitApply(object)) => changed(&kind, object),
            Ok(watcher::Event::Delete(object)) if kind == "ClusterOperator" => {
                object.metadata.name.map(|name| Event::Operator(name, None))
            }
            Ok(_) => None,
            Err(error) => {
                eprintln!("watch of {kind}: {error}");
                None
            }
        })
    });
    events.boxed()
}

fn changed(kind: &str, object: DynamicObject) -> Option<Event> {
    let mut object = serde_json::to_value(object).ok()?;
    let (_, name) = key(&object);
    match kind {
        "CustomResourceDefinition" => established(&object).then_some(Event::Established(name)),
        "ClusterOperator" => Some(Event::Operator(name, Some(object))),
        _ => {
            // Lists omit it from their items.
            object.as_object_mut()?.insert("kind".into(), kind.into());
            Some(Event::Workload(object))
        }
    }
}

fn established(definition: &Value) -> bool {
    let conditions = definition.pointer("/status/conditions").and_then(Value::as_array);
    let is = |condition: &Value, key: &str, value: &str| condition.get(key).and_then(Value::as_str) == Some(value);
    conditions.into_iter().flatten().any(|c| is(c, "type", "Established") && is(c, "status", "True"))
}
