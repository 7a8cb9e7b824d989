//! How other programs reach a catalog: a Service of its own, without a selector, and EndpointSlices that lead to the port which
//! this catalog has at each replica. The port stands in the Service as `targetPort`, where the holder of the lease writes it and
//! all replicas read it, so that no replica needs anything besides the Services to know where it listens.

use crate::olm::api::catalog_source::CatalogSource;
use crate::olm::api::keys::label;
use core::net::IpAddr;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

/// The port of each Service, and its name.
pub(crate) const PORT: u16 = 50051;
const PORT_NAME: &str = "grpc";
/// Says who looks after an EndpointSlice, so that nobody else does.
const MANAGED_BY: &str = "operator-lifecycle-manager";
const MANAGED_BY_LABEL: &str = "endpointslice.kubernetes.io/managed-by";
/// On EndpointSlices: the name of their Service.
pub(crate) const SERVICE_LABEL: &str = "kubernetes.io/service-name";
/// Longest value of a label.
const MAX_LABEL: usize = 63;

/// Which objects are looked after: Services and EndpointSlices with these labels.
pub(crate) fn selector() -> String {
    format!("{}=true,{}", label::MANAGED, label::CATALOG_SOURCE)
}

/// Namespace and name.
pub(crate) type Id = (String, String);

/// A catalog that is to be reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Exposed {
    pub namespace: String,
    pub catalog: String,
    pub uid: String,
    /// Name of its Service.
    pub service: String,
    /// The Service itself, if a pod serves the catalog.
    pub pod: Option<Value>,
}

impl Exposed {
    /// As the status says it.
    pub(crate) fn of(source: &CatalogSource) -> Option<Exposed> {
        let service = source.status.as_ref()?.registry_service.as_ref()?;
        if service.service_name.is_empty() || source.metadata.deletion_timestamp.is_some() {
            return None;
        }
        Some(Exposed {
            namespace: source.metadata.namespace.clone()?,
            catalog: source.metadata.name.clone()?,
            uid: source.metadata.uid.clone()?,
            service: service.service_name.clone(),
            pod: None,
        })
    }

    fn id(&self) -> Id {
        (self.namespace.clone(), self.service.clone())
    }
}

/// A Service or an EndpointSlice as it is.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Seen {
    pub uid: String,
    pub version: String,
    /// The port that a Service leads to.
    pub target: Option<u16>,
    /// The object, of which what is set here is compared.
    pub object: Value,
}

impl Seen {
    /// Whether an EndpointSlice is one of those that this process looks after.
    fn is_ours(&self) -> bool {
        let labels = self.object.pointer("/metadata/labels");
        labels.and_then(|labels| labels.get(MANAGED_BY_LABEL)?.as_str()).is_none_or(|by| by == MANAGED_BY)
    }

    /// Name of the Service of an EndpointSlice.
    fn service(&self) -> String {
        let labels = self.object.pointer("/metadata/labels");
        labels.and_then(|labels| labels.get(SERVICE_LABEL)?.as_str()).unwrap_or_default().to_owned()
    }
}

/// What is to be written.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Write {
    Create {
        id: Id,
        object: Value,
    },
    /// A merge patch.
    Change {
        id: Id,
        patch: Value,
    },
    Delete {
        id: Id,
        uid: String,
    },
}

impl Write {
    pub(crate) fn id(&self) -> &Id {
        match self {
            Write::Create { id, .. } | Write::Change { id, .. } | Write::Delete { id, .. } => id,
        }
    }
}

/// What is to be written of Services and EndpointSlices.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Writes {
    pub services: Vec<Write>,
    pub slices: Vec<Write>,
}

/// The port of each catalog, by namespace and name of its Service. Those that Services have stay, then those that were given before,
/// and a new one is the lowest that is free.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ports(pub BTreeMap<Id, u16>);

impl Ports {
    /// Gives ports out. Returns the catalogs for which there is none.
    pub(crate) fn give(
        &mut self,
        exposed: &[Exposed],
        services: &BTreeMap<Id, Seen>,
        range: &RangeInclusive<u16>,
    ) -> Vec<Id> {
        let (before, mut taken) = (std::mem::take(&mut self.0), BTreeSet::new());
        let in_service = |id: &Id| services.get(id).and_then(|service| service.target);
        for known in [&in_service as &dyn Fn(&Id) -> Option<u16>, &|id: &Id| before.get(id).copied()] {
            for id in exposed.iter().filter(|it| it.pod.is_none()).map(Exposed::id) {
                if let Some(port) = known(&id).filter(|port| range.contains(port) && !self.0.contains_key(&id))
                    && taken.insert(port)
                {
                    self.0.insert(id, port);
                }
            }
        }
        let mut without = Vec::new();
        for id in exposed
            .iter()
            .filter(|it| it.pod.is_none())
            .map(Exposed::id)
            .filter(|id| !self.0.contains_key(id))
            .collect::<Vec<_>>()
        {
            match range.clone().find(|port| !taken.contains(port)) {
                Some(port) => {
                    taken.insert(port);
                    self.0.insert(id, port);
                }
                None => without.push(id),
            }
        }
        without
    }
}

/// What is to be written so that each catalog is reached at these addresses. What belongs to none of them any more is deleted.
pub(crate) fn writes(
    exposed: &[Exposed],
    ports: &Ports,
    addresses: &BTreeSet<IpAddr>,
    services: &BTreeMap<Id, Seen>,
    slices: &BTreeMap<Id, Seen>,
) -> Writes {
    let (mut wanted_services, mut wanted_slices) = (BTreeMap::new(), BTreeMap::new());
    for catalog in exposed {
        if let Some(service) = &catalog.pod {
            wanted_services.insert(catalog.id(), service.clone());
            continue;
        }
        let Some(port) = ports.0.get(&catalog.id()) else { continue };
        wanted_services.insert(catalog.id(), service(catalog, *port));
        for (family, suffix) in [("IPv4", "olm"), ("IPv6", "olm-ipv6")] {
            let addresses = addresses.iter().filter(|address| address.is_ipv4() == (family == "IPv4"));
            let addresses: Vec<String> = addresses.map(ToString::to_string).collect();
            if !addresses.is_empty() {
                let name = format!("{}-{suffix}", catalog.service);
                let slice = slice(catalog, &name, family, *port, &addresses);
                wanted_slices.insert((catalog.namespace.clone(), name), slice);
            }
        }
    }
    // Those of pods are looked after by the cluster, which gives them the labels of their Services. It leaves them where they are
    // when the Service does not lead to pods any more.
    let without_pod: BTreeSet<Id> = exposed.iter().filter(|it| it.pod.is_none()).map(Exposed::id).collect();
    let counts = |(id, slice): &(&Id, &Seen)| slice.is_ours() || without_pod.contains(&(id.0.clone(), slice.service()));
    let ours = slices.iter().filter(counts).map(|(id, slice)| (id.clone(), slice.clone()));
    Writes { services: changes(wanted_services, services), slices: changes(wanted_slices, &ours.collect()) }
}

/// What is to be written so that all of these are as they are wanted, and no others are there.
pub(crate) fn changes(wanted: BTreeMap<Id, Value>, live: &BTreeMap<Id, Seen>) -> Vec<Write> {
    let left = live.iter().filter(|(id, _)| !wanted.contains_key(*id));
    let mut writes: Vec<Write> =
        left.map(|(id, seen)| Write::Delete { id: id.clone(), uid: seen.uid.clone() }).collect();
    for (id, object) in wanted {
        match live.get(&id) {
            None => writes.push(Write::Create { id, object }),
            Some(seen) if contains(&seen.object, &object) => {}
            Some(seen) => {
                let mut patch = object;
                if let Some(metadata) = patch.get_mut("metadata").and_then(Value::as_object_mut) {
                    metadata.insert("resourceVersion".to_owned(), seen.version.clone().into());
                }
                writes.push(Write::Change { id, patch });
            }
        }
    }
    writes
}

/// Whether all of `wanted` is in the object. What others have added stays; lists are those that are wanted, each entry perhaps with
/// more in it.
fn contains(object: &Value, wanted: &Value) -> bool {
    match (object, wanted) {
        (Value::Object(object), Value::Object(wanted)) => wanted.iter().all(|(key, value)| match object.get(key) {
            Some(present) => contains(present, value),
            None => value.is_null(),
        }),
        (Value::Array(object), Value::Array(wanted)) => {
            object.len() == wanted.len() && object.iter().zip(wanted).all(|(one, other)| contains(one, other))
        }
        (object, wanted) => object == wanted,
    }
}

fn service(catalog: &Exposed, port: u16) -> Value {
    let spec = json!({
        "ports": [{"name": PORT_NAME, "protocol": "TCP", "port": PORT, "targetPort": port}],
        // One that led to pods does so no longer.
        "selector": null,
    });
    let hash = hex::encode(Sha256::digest(spec.to_string()));
    let mut metadata = metadata(catalog, &catalog.service);
    if let Some(labels) = metadata.get_mut("labels").and_then(Value::as_object_mut) {
        labels.insert(label::SERVICE_SPEC_HASH.to_owned(), hash.get(..MAX_LABEL).unwrap_or(&hash).into());
    }
    json!({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec})
}

fn slice(catalog: &Exposed, name: &str, family: &str, port: u16, addresses: &[String]) -> Value {
    let mut metadata = metadata(catalog, name);
    if let Some(labels) = metadata.get_mut("labels").and_then(Value::as_object_mut) {
        labels.insert(SERVICE_LABEL.to_owned(), catalog.service.clone().into());
        labels.insert(MANAGED_BY_LABEL.to_owned(), MANAGED_BY.into());
    }
    let endpoint = |address: &String| json!({"addresses": [address], "conditions": {"ready": true}});
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": metadata, "addressType": family,
        "ports": [{"name": PORT_NAME, "protocol": "TCP", "port": port}],
        "endpoints": addresses.iter().map(endpoint).collect::<Vec<_>>(),
    })
}

/// It is removed with the catalog.
fn metadata(catalog: &Exposed, name: &str) -> Value {
    json!({
        "name": name, "namespace": catalog.namespace,
        "labels": {label::MANAGED: "true", label::CATALOG_SOURCE: label_of(&catalog.catalog)},
        "ownerReferences": [owner(&catalog.catalog, &catalog.uid)],
    })
}

/// What belongs to a catalog is removed with it.
pub(super) fn owner(catalog: &str, uid: &str) -> Value {
    json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource", "name": catalog, "uid": uid,
        "controller": true, "blockOwnerDeletion": false,
    })
}

/// A name that is too long for a label is shortened, and told apart by its hash.
pub(crate) fn label_of(name: &str) -> String {
    if name.len() <= MAX_LABEL {
        return name.to_owned();
    }
    let hash = hex::encode(Sha256::digest(name));
    format!("{}-{}", name.get(..40).unwrap_or_default(), hash.get(..16).unwrap_or_default())
}

#[cfg(test)]
mod tests;
