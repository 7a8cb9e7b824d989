//! The cluster's state as the operator knows it: stores fed by watches, and one stream that reports every change.

use super::{Operand, OperatorArgs, version};
use cvo::testing::api::ClusterOperator;
use futures::stream::{BoxStream, SelectAll, StreamExt, select_all};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DynamicObject};
use kube::core::{ApiResource, GroupVersionKind};
use kube::runtime::reflector::{self, Lookup, Store};
use kube::runtime::{WatchStreamExt, watcher};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;

/// The input of `decide`.
#[derive(Clone, Debug, Default)]
pub(super) struct Facts {
    pub now: jiff::Timestamp,
    pub operators: BTreeMap<String, Arc<ClusterOperator>>,
    /// In the order of `OperatorArgs::operands`.
    pub operands: Vec<Option<Value>>,
    /// Spec of PlatformConfig `cluster`.
    pub config: Option<Value>,
    /// The versions, in the stores, of the objects that the operator writes.
    pub versions: super::Versions,
    /// Whether the ConfigMap that repairs a failing component exists.
    pub repaired: bool,
}

/// One store for each kind that is needed.
pub(super) struct Stores {
    operators: Store<ClusterOperator>,
    workloads: Vec<(Operand, Store<DynamicObject>)>,
    config: Option<Store<DynamicObject>>,
    repair: Option<(String, Store<ConfigMap>)>,
}

/// Starts all watches. The stream must be polled for the stores to fill.
pub(super) fn watch(client: &kube::Client, args: &OperatorArgs) -> (Stores, SelectAll<BoxStream<'static, ()>>) {
    let mut streams = Vec::new();
    let (operators, stream) = follow(Api::<ClusterOperator>::all(client.clone()), (), watcher::Config::default());
    streams.push(stream);
    let mut workloads = Vec::new();
    for operand in &args.operands {
        let resource = operand.kind.resource();
        let api = Api::namespaced_with(client.clone(), &args.component, &resource);
        let (store, stream) = follow(api, resource, named(&operand.name));
        streams.push(stream);
        workloads.push((operand.clone(), store));
    }
    let config = args.needs_config.then(|| {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("platform.example.com", "v1", "PlatformConfig"));
        let (store, stream) = follow(Api::all_with(client.clone(), &resource), resource, named("cluster"));
        streams.push(stream);
        store
    });
    let repair = args.fail_until.clone().map(|name| {
        let (store, stream) = follow(Api::<ConfigMap>::namespaced(client.clone(), &args.component), (), named(&name));
        streams.push(stream);
        (name, store)
    });
    (Stores { operators, workloads, config, repair }, select_all(streams))
}

fn named(name: &str) -> watcher::Config {
    watcher::Config::default().fields(&format!("metadata.name={name}"))
}

/// A store and a stream of its changes. Errors (the kind is not served yet, the API server restarts) are logged and
/// retried with the watcher's back-off.
fn follow<K>(api: Api<K>, dynamic: K::DynamicType, config: watcher::Config) -> (Store<K>, BoxStream<'static, ()>)
where
    K: kube::Resource + Clone + Debug + serde::de::DeserializeOwned + Send + Sync + 'static,
    K::DynamicType: Eq + Hash + Clone + Send + Sync,
{
    let writer = reflector::store::Writer::new(dynamic);
    let store = writer.as_reader();
    let stream = reflector::reflector(writer, watcher(api, config))
        .default_backoff()
        .map(|event| {
            if let Err(error) = event {
                eprintln!("watch: {error}");
            }
        })
        .boxed();
    (store, stream)
}

impl Stores {
    /// `None` until the required stores have been listed once: otherwise a component that has not been read yet would be
    /// reported as missing.
    pub(super) fn facts(&self, now: jiff::Timestamp) -> Option<Facts> {
        let listed = ready(&self.operators)
            && self.workloads.iter().all(|(_, store)| ready(store))
            && self.repair.iter().all(|(_, store)| ready(store));
        if !listed {
            return None;
        }
        let operators = self.operators.state();
        let mut versions: super::Versions = operators
            .iter()
            .map(|o| {
                (format!("ClusterOperator/{}", o.metadata.name.as_deref().unwrap_or_default()), version(&o.metadata))
            })
            .collect();
        for (operand, store) in &self.workloads {
            if let Some(object) = store.state().first() {
                versions.insert(format!("{}/{}", operand.kind.name(), operand.name), version(&object.metadata));
            }
        }
        Some(Facts {
            now,
            versions,
            operators: operators.into_iter().filter_map(|o| Some((o.metadata.name.clone()?, o))).collect(),
            operands: self.workloads.iter().map(|(_, store)| only(store)).collect(),
            config: self.config.as_ref().and_then(only).and_then(|object| object.get("spec").cloned()),
            repaired: self.repair.as_ref().is_none_or(|(_, store)| !store.state().is_empty()),
        })
    }
}

/// `wait_until_ready` of a store resolves at once after its first list.
fn ready<K>(store: &Store<K>) -> bool
where
    K: Lookup + Clone + 'static,
    K::DynamicType: Eq + Hash + Clone,
{
    use futures::FutureExt;
    store.wait_until_ready().now_or_never().is_some_and(|r| r.is_ok())
}

/// The one object of a store that watches a single name.
fn only(store: &Store<DynamicObject>) -> Option<Value> {
    store.state().first().and_then(|object| serde_json::to_value(&**object).ok())
}
