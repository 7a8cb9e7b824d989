//! The floor of a plan: a bare loop that pulls the image of the bundle, creates its objects and waits until the kind is served.

use crate::bench::world::{account, create};
use anyhow::Context;
use e2e::conditions::Conditions;
use e2e::operators::Version;
use e2e::until::until;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::PostParams;
use kube::{Api, Client};
use serde_json::Value;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(60);

/// Seconds for the bundle of this version, in a namespace in which nothing is.
pub(super) async fn measure(
    client: &Client,
    registry: &str,
    version: &Version,
    namespace: &str,
) -> anyhow::Result<f64> {
    let begun = Instant::now();
    pull(registry, version).await?;
    let definition: CustomResourceDefinition = serde_json::from_value(version.definition())?;
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let name = definition.metadata.name.clone().context("a definition without a name")?;
    definitions.create(&PostParams::default(), &definition).await?;
    let wait = until("the kind to be served", LIMIT);
    wait.existing(definitions, &name, |it| it.has("Established=True")).await?;
    for object in [version.csv()].into_iter().chain(account(version.package())) {
        create(client, namespace, object).await?;
    }
    Ok(begun.elapsed().as_secs_f64())
}

async fn pull(registry: &str, version: &Version) -> anyhow::Result<()> {
    let repository = version.repository();
    let (name, tag) = repository.rsplit_once(':').context("an image without a tag")?;
    let http = reqwest::Client::new();
    let kind = "application/vnd.oci.image.manifest.v1+json";
    let asked = http.get(format!("http://{registry}/v2/{name}/manifests/{tag}")).header("accept", kind);
    let manifest: Value = serde_json::from_slice(&asked.send().await?.error_for_status()?.bytes().await?)?;
    let layers = manifest.get("layers").and_then(Value::as_array).into_iter().flatten();
    let blobs = layers.chain(manifest.get("config"));
    for digest in blobs.filter_map(|blob| blob.get("digest")?.as_str()) {
        let blob = http.get(format!("http://{registry}/v2/{name}/blobs/{digest}")).send().await?;
        blob.error_for_status()?.bytes().await?;
    }
    Ok(())
}
