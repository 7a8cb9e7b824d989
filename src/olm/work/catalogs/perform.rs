//! Writes what was decided.

use super::live::{Live, hub_kind, operator_kind, service_kind, slice_kind, source_kind};
use crate::cluster::{ApiError, Cause, Kind, Objects};
use crate::object::cluster_operator::{ClusterOperator, ClusterOperatorStatus};
use crate::olm::api::GROUP;
use crate::olm::api::catalog_source::{CatalogSource, CatalogSourceStatus};
use crate::olm::api::keys::label;
use crate::olm::api::operator_hub::{self, OperatorHub, OperatorHubStatus};
use crate::olm::endpoints::{Id, Write};
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::fmt;
use std::sync::Arc;

/// What is written, one at a time for each.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Key {
    Source(Id),
    ConfigMap(Id),
    Service(Id),
    Slice(Id),
    Account(Id),
    Policy(Id),
    /// A pod to be made, by its catalog.
    NewPod(Id),
    Pod(Id),
    /// A default catalog, by its name.
    Default(String),
    Hub,
    Operator(String),
}

/// What stands before the name of a default catalog.
pub(super) const DEFAULT: &str = "default catalog ";

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Key::Source((namespace, name)) => write!(f, "CatalogSource {namespace}/{name}"),
            Key::ConfigMap((namespace, name)) => write!(f, "ConfigMap {namespace}/{name}"),
            Key::Service((namespace, name)) => write!(f, "Service {namespace}/{name}"),
            Key::Slice((namespace, name)) => write!(f, "EndpointSlice {namespace}/{name}"),
            Key::Account((namespace, name)) => write!(f, "ServiceAccount {namespace}/{name}"),
            Key::Policy((namespace, name)) => write!(f, "NetworkPolicy {namespace}/{name}"),
            Key::NewPod((namespace, name)) => write!(f, "pod of CatalogSource {namespace}/{name}"),
            Key::Pod((namespace, name)) => write!(f, "pod {namespace}/{name}"),
            Key::Default(name) => write!(f, "{DEFAULT}{name}"),
            Key::Hub => write!(f, "OperatorHub {}", operator_hub::NAME),
            Key::Operator(name) => write!(f, "ClusterOperator {name}"),
        }
    }
}

pub(super) fn of_answer<T: DeserializeOwned>(answer: Value) -> Option<T> {
    serde_json::from_value(answer).ok()
}

/// First the image, then the status, which is that of an object with this image.
pub(super) async fn write_source(
    objects: Objects,
    live: Live,
    source: Arc<CatalogSource>,
    image: Option<String>,
    status: Option<CatalogSourceStatus>,
) -> Result<(), ApiError> {
    let mut object = (*source).clone();
    let (namespace, name) = id(&object);
    if let Some(image) = image {
        let patch =
            json!({"metadata": {"resourceVersion": object.metadata.resource_version}, "spec": {"image": image}});
        object = objects.merge_patch(&source_kind(), &namespace, &name, &patch).await?;
        live.sources.on_written(object.clone());
    }
    if let Some(status) = status {
        object.status = Some(status);
        let written = objects.replace_status(&source_kind(), &namespace, &name, &json!(object)).await?;
        live.sources.on_answer(written);
    }
    Ok(())
}

/// Namespace and name.
pub(super) fn id(source: &CatalogSource) -> Id {
    (source.metadata.namespace.clone().unwrap_or_default(), source.metadata.name.clone().unwrap_or_default())
}

/// The ConfigMap belongs to the CatalogSource from now on, and is removed with it.
pub(super) async fn adopt(objects: Objects, source: Arc<CatalogSource>) -> Result<(), ApiError> {
    let (namespace, name) = (id(&source).0, source.spec.config_map.as_str());
    let Some(mut object) = objects.get(&Kind::config_map(), &namespace, name).await? else { return Ok(()) };
    let owner = json!({
        "apiVersion": format!("{GROUP}/v1alpha1"), "kind": "CatalogSource", "name": source.metadata.name,
        "uid": source.metadata.uid, "controller": false, "blockOwnerDeletion": false,
    });
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else { return Ok(()) };
    let owners = metadata.entry("ownerReferences").or_insert_with(|| json!([]));
    if let Some(owners) = owners.as_array_mut()
        && owners.iter().all(|known| known.get("uid") != owner.get("uid"))
    {
        owners.push(owner);
    }
    let labels = metadata.entry("labels").or_insert_with(|| json!({}));
    if let Some(labels) = labels.as_object_mut() {
        labels.insert(label::MANAGED.to_owned(), "false".into());
    }
    objects.replace(&Kind::config_map(), &namespace, name, &object).await.map(drop)
}

pub(super) async fn write_service(objects: Objects, live: Live, change: Write) -> Result<(), ApiError> {
    let written: Result<Option<Service>, ApiError> = write(&objects, &service_kind(), change.clone()).await;
    if let (Err(error), Write::Create { id, object }) = (&written, &change)
        && error.is_already_exists()
        && let Some(message) = clear(&objects, &service_kind(), id, object).await?
    {
        let cause = Cause::Server { code: 409, reason: "AlreadyExists".to_owned(), message };
        return Err(ApiError { attempt: error.attempt.clone(), cause });
    }
    written?.into_iter().for_each(|written| live.services.on_written(written));
    Ok(())
}

/// Deletes what another program has made in its place for the same owner: with a Service go the endpoints that are kept for its
/// selector. What belongs to nobody or to others stays, and is told; so does what has our labels and is only not known here yet.
async fn clear(
    objects: &Objects,
    kind: &Kind,
    (namespace, name): &Id,
    wanted: &Value,
) -> Result<Option<String>, ApiError> {
    let Some(object) = objects.get(kind, namespace, name).await? else { return Ok(None) };
    if object.pointer("/metadata/labels").is_some_and(|labels| labels.get(label::CATALOG_SOURCE).is_some()) {
        return Ok(None);
    }
    let owners = object.pointer("/metadata/ownerReferences").and_then(Value::as_array).into_iter().flatten();
    let (own, uid) = (wanted.pointer("/metadata/ownerReferences/0/uid"), object.pointer("/metadata/uid"));
    if owners.clone().any(|owner| owner.get("uid") == own) {
        if let Some(uid) = uid.and_then(Value::as_str) {
            tracing::info!(namespace, name, "a Service that another program has made for a catalog is replaced");
            objects.delete(kind, namespace, name, uid).await?;
        }
        return Ok(None);
    }
    let text = |owner: &Value, key: &str| owner.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let owner = owners.map(|owner| format!("{} {}", text(owner, "kind"), text(owner, "name"))).next();
    Ok(Some(format!(
        "there is a {} {namespace}/{name} of others already, which belongs to {}: delete it or give it another name, or give the \
         CatalogSource another name",
        kind.kind,
        owner.as_deref().unwrap_or("nobody")
    )))
}

pub(super) async fn write_slice(objects: Objects, live: Live, change: Write) -> Result<(), ApiError> {
    let written: Option<EndpointSlice> = write(&objects, &slice_kind(), change).await?;
    written.into_iter().for_each(|written| live.slices.on_written(written));
    Ok(())
}

pub(super) async fn write<T: DeserializeOwned>(
    objects: &Objects,
    kind: &Kind,
    change: Write,
) -> Result<Option<T>, ApiError> {
    match change {
        Write::Create { id: (namespace, _), object } => Ok(of_answer(objects.create(kind, &namespace, &object).await?)),
        Write::Change { id: (namespace, name), patch } => {
            objects.merge_patch(kind, &namespace, &name, &patch).await.map(Some)
        }
        Write::Delete { id: (namespace, name), uid } => {
            objects.delete(kind, &namespace, &name, &uid).await.map(|_| None)
        }
    }
}

/// What is to become of a default catalog.
pub(super) enum Default {
    Create(Box<CatalogSource>),
    Repair(Box<CatalogSource>),
    Delete { namespace: String, name: String, uid: String },
}

pub(super) async fn write_default(objects: Objects, live: Live, change: Default) -> Result<(), ApiError> {
    let written = match change {
        Default::Create(source) => objects.create(&source_kind(), &id(&source).0, &json!(source)).await?,
        Default::Repair(source) => {
            let (namespace, name) = id(&source);
            objects.replace(&source_kind(), &namespace, &name, &json!(source)).await?
        }
        Default::Delete { namespace, name, uid } => {
            return objects.delete(&source_kind(), &namespace, &name, &uid).await.map(drop);
        }
    };
    live.sources.on_answer(written);
    Ok(())
}

pub(super) async fn write_hub(
    objects: Objects,
    live: Live,
    mut hub: OperatorHub,
    status: OperatorHubStatus,
) -> Result<(), ApiError> {
    hub.status = Some(status);
    let written = objects.replace_status(&hub_kind(), "", operator_hub::NAME, &json!(hub)).await?;
    live.hub.on_answer(written);
    Ok(())
}

/// `version`: of the object that the status is based on; it is made if there is none.
pub(super) async fn write_operator(
    objects: Objects,
    live: Live,
    name: String,
    version: Option<String>,
    status: ClusterOperatorStatus,
) -> Result<(), ApiError> {
    if version.is_none() {
        let object = json!(ClusterOperator::new(&name, std::default::Default::default()));
        if let Err(error) = objects.create(&operator_kind(), "", &object).await
            && !error.is_already_exists()
        {
            return Err(error);
        }
    }
    let metadata = version.map_or_else(|| json!({}), |version| json!({"resourceVersion": version}));
    let patch = json!({"metadata": metadata, "status": status});
    let written: ClusterOperator = objects.merge_patch_status(&operator_kind(), "", &name, &patch).await?;
    live.operators.get(&name).into_iter().for_each(|followed| followed.on_written(written.clone()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::client::Body;
    use std::sync::Mutex;

    /// An API server that has this object, and what it is asked.
    fn server(object: Value) -> (Objects, Arc<Mutex<Vec<String>>>) {
        let (service, mut requests) = tower_test::mock::pair::<http::Request<Body>, http::Response<Body>>();
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let log = asked.clone();
        tokio::spawn(async move {
            while let Some((request, respond)) = requests.next_request().await {
                log.lock().unwrap().push(format!("{} {}", request.method(), request.uri().path()));
                respond.send_response(http::Response::new(Body::from(object.to_string().into_bytes())));
            }
        });
        (Objects::new(kube::Client::new(service, "default"), "test", Arc::new(|| true)), asked)
    }

    #[tokio::test]
    async fn service_that_was_made_for_the_catalog_is_replaced_and_that_of_others_is_not() {
        let owned = |uid: &str| json!({"metadata": {"name": "a", "uid": "7", "ownerReferences": [{"uid": uid}]}});
        let (id, path) = (("shop".to_owned(), "a".to_owned()), "/api/v1/namespaces/shop/services/a");
        let mut ours = owned("own");
        ours["metadata"]["labels"] = json!({label::CATALOG_SOURCE: "a"});
        let mut other = owned("other");
        other["metadata"]["ownerReferences"][0] = json!({"uid": "other", "kind": "Deployment", "name": "web"});
        for (live, expected, told) in [
            (ours, vec![format!("GET {path}")], ""),
            (owned("own"), vec![format!("GET {path}"), format!("DELETE {path}")], ""),
            (other, vec![format!("GET {path}")], "which belongs to Deployment web: delete it"),
            (json!({"metadata": {"name": "a", "uid": "7"}}), vec![format!("GET {path}")], "which belongs to nobody"),
        ] {
            let (objects, asked) = server(live);
            let said = clear(&objects, &service_kind(), &id, &owned("own")).await.unwrap();
            assert_eq!((asked.lock().unwrap().clone(), said.is_some()), (expected, !told.is_empty()));
            assert!(said.unwrap_or_default().contains(told), "{told}");
        }
    }
}
