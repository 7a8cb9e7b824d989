//! Objects of a cluster as commands read them: of the namespaces that they are about, so that whoever may see only these may ask.

use crate::cli::reach;
use crate::cluster::{ApiError, Clients};
use kube::Resource;
use kube::api::{Api, DynamicObject, ListParams};
use kube::core::{ApiResource, NamespaceResourceScope};
use serde::de::DeserializeOwned;

/// All objects of a kind, of one namespace or of all. One that does not fit its type is left out.
pub(super) async fn listed<K>(clients: &Clients, namespace: Option<&str>) -> anyhow::Result<Vec<K>>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + DeserializeOwned,
{
    let (resource, plural) = (ApiResource::erase::<K>(&()), K::plural(&()));
    let api: Api<DynamicObject> = match namespace {
        Some(namespace) => Api::namespaced_with(clients.call.clone(), namespace, &resource),
        None => Api::all_with(clients.call.clone(), &resource),
    };
    let all = api.list(&ListParams::default()).await;
    let all = all.map_err(|error| ApiError::of(&format!("list {plural}"), error)).map_err(|error| {
        match error.is_not_found() {
            true => anyhow::anyhow!("this cluster has no {plural}: the component olm is not installed"),
            false => reach::explain(&clients.server(), error),
        }
    })?;
    Ok(all.items.into_iter().filter_map(|object| object.try_parse().ok()).collect())
}
