//! Objects of a cluster as commands read them: of the namespaces that they are about, so that whoever may see only these may ask.

use crate::cli::reach;
use crate::cluster::{ApiError, Clients};
use kube::Resource;
use kube::api::{Api, DynamicObject, ListParams};
use kube::core::{ApiResource, NamespaceResourceScope, TypeMeta};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// All objects of a kind, of one namespace or of all. One that does not fit its type is left out.
pub(super) async fn listed<K>(clients: &Clients, namespace: Option<&str>) -> anyhow::Result<Vec<K>>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + DeserializeOwned,
{
    let all = raw::<K>(clients, namespace).await?;
    Ok(all.into_iter().filter_map(|object| serde_json::from_value(object).ok()).collect())
}

/// The same as they are.
pub(super) async fn raw<K>(clients: &Clients, namespace: Option<&str>) -> anyhow::Result<Vec<Value>>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
{
    let resource = &ApiResource::erase::<K>(&());
    let plural = &resource.plural;
    let api: Api<DynamicObject> = match namespace {
        Some(namespace) => Api::namespaced_with(clients.call.clone(), namespace, resource),
        None => Api::all_with(clients.call.clone(), resource),
    };
    let all = api.list(&ListParams::default()).await;
    let all = all.map_err(|error| ApiError::of(&format!("list {plural}"), error)).map_err(|error| {
        match error.is_not_found() {
            true => anyhow::anyhow!("this cluster has no {plural}: the component olm is not installed"),
            false => reach::explain(&clients.server(), error),
        }
    })?;
    Ok(all.items.into_iter().map(|object| typed(object, resource)).collect())
}

/// The elements of a list do not say what they are.
pub(super) fn typed(object: DynamicObject, resource: &ApiResource) -> Value {
    let types = TypeMeta { api_version: resource.api_version.clone(), kind: resource.kind.clone() };
    json!(DynamicObject { types: Some(types), ..object })
}
