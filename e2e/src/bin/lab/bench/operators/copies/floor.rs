//! The floor: how long the API server needs for the same writes from a loop that does nothing else.

use super::{NAMESPACES, OPERATORS, versions};
use crate::bench::machine;
use crate::bench::world::World;
use anyhow::Context;
use cvo::testing::api::olm::cluster_service_version::ClusterServiceVersion;
use futures::{StreamExt, TryStreamExt};
use kube::api::{DeleteParams, ListParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use std::time::Instant;

/// Every so many namespaces get copies, and their time stands for all.
const PART: usize = 10;
/// Requests at a time, as many as the process sends.
const AT_ONCE: usize = 24;
const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";

/// Seconds for all copies. No process follows them, and none of them is left.
pub(super) async fn measure(world: &World) -> anyhow::Result<f64> {
    let copies: Vec<Value> = versions()
        .iter()
        .map(|version| {
            let labels = json!({"olm.copiedFrom": "everywhere", "olm.managed": "true"});
            json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
                "metadata": {"name": version.name, "labels": labels}, "spec": version.csv().get("spec")})
        })
        .collect();
    let namespaces = || (0..NAMESPACES).step_by(PART).map(|number| format!("team-{number}"));
    let all = namespaces().flat_map(|namespace| copies.iter().map(move |copy| (namespace.clone(), copy)));
    machine::quiet().await;
    let begun = Instant::now();
    let written = futures::stream::iter(all).map(|(namespace, copy)| write(&world.client, namespace, copy));
    let count = written.buffer_unordered(AT_ONCE).try_fold(0_usize, |count, ()| async move { Ok(count + 1) }).await?;
    let seconds = begun.elapsed().as_secs_f64() * (NAMESPACES * OPERATORS) as f64 / count as f64;
    for namespace in namespaces() {
        let api: Api<ClusterServiceVersion> = Api::namespaced(world.client.clone(), &namespace);
        api.delete_collection(&DeleteParams::default(), &ListParams::default()).await?;
    }
    Ok(seconds)
}

/// The object and its status.
async fn write(client: &Client, namespace: String, copy: &Value) -> anyhow::Result<()> {
    let path = format!("/apis/operators.coreos.com/v1alpha1/namespaces/{namespace}/clusterserviceversions");
    let made = send(client, http::Request::post(&path), copy).await?;
    let name = made.pointer("/metadata/name").and_then(Value::as_str).context("an object without a name")?;
    let status = json!({"phase": "Succeeded", "reason": "Copied", "message": "The operator is running in everywhere but is \
        managing this namespace", "lastUpdateTime": "2026-01-01T00:00:00Z", "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let whole = json!({"apiVersion": copy.get("apiVersion"), "kind": copy.get("kind"), "metadata": made.get("metadata"), "status": status});
    send(client, http::Request::put(format!("{path}/{name}/status")), &whole).await?;
    Ok(())
}

async fn send(client: &Client, request: http::request::Builder, body: &Value) -> anyhow::Result<Value> {
    let request = request.header(http::header::CONTENT_TYPE, "application/json").header(http::header::ACCEPT, METADATA);
    Ok(client.request(request.body(serde_json::to_vec(body)?)?).await?)
}
