//! The operator of a sample package, a real program in a pod, as administrators install it from a catalog: for each object of its
//! kind it keeps a ConfigMap of that name with what the object asks for, and says in the status of the object which version did so.
//! It works for the namespaces that the annotation of its pod names, and says in its OperatorCondition whether it may be replaced.

use anyhow::Context;
use cvo::testing::api::olm::operator_condition::OperatorCondition;
use futures::StreamExt;
use futures::stream::select_all;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::sleep;

/// Delay before another try after the API server refused a write.
const RETRY: Duration = Duration::from_secs(1);
/// The operator writes everything under this name.
const MANAGER: &str = "installed-operator";

/// `lab installed-operator`: arguments and environment from the Deployment in the bundle.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct InstalledOperator {
    /// Version of the operator, which it writes into all that it makes.
    #[arg(long)]
    version: String,
    /// Its kind, as GROUP/VERSION/KIND.
    #[arg(long, value_name = "KIND")]
    kind: String,
    /// The resource of its kind.
    #[arg(long, value_name = "NAME")]
    plural: String,
    /// Namespaces that it works for, with commas; empty for all.
    #[arg(long, env = "WATCH_NAMESPACE", value_name = "LIST", default_value = "")]
    namespaces: String,
    /// Namespace of its pod.
    #[arg(long, env = "POD_NAMESPACE", value_name = "NAME")]
    own_namespace: String,
    /// Its OperatorCondition.
    #[arg(long, env = "OPERATOR_CONDITION_NAME", value_name = "NAME")]
    condition: Option<String>,
    /// It says that it must not be replaced until this ConfigMap is in its namespace.
    #[arg(long, value_name = "NAME")]
    busy_until_configmap: Option<String>,
}

/// Runs until the process is terminated.
pub(crate) async fn run(args: InstalledOperator) -> anyhow::Result<()> {
    let client = Client::try_default()
        .await
        .context("cannot reach the API server: run in a pod with a service account, or set KUBECONFIG")?;
    let kind = resource(&args)?;
    println!("{} at {}, for {:?}", args.kind, args.version, args.namespaces);
    let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
    let watch = |namespace: &str| {
        let objects: Api<DynamicObject> = match namespace {
            "" => Api::all_with(client.clone(), &kind),
            _ => Api::namespaced_with(client.clone(), namespace, &kind),
        };
        watcher(objects, watcher::Config::default()).default_backoff().applied_objects().boxed()
    };
    let mut objects = select_all(args.namespaces.split(',').map(watch));
    tokio::select! {
        _ = terminate.recv() => Ok(()),
        told = tell(&client, &args) => told,
        () = async {
            while let Some(object) = objects.next().await {
                match object {
                    Ok(object) => keep(&client, &kind, &args, &object).await,
                    Err(error) => eprintln!("{}: {error}", args.kind),
                }
            }
        } => Ok(()),
    }
}

fn resource(args: &InstalledOperator) -> anyhow::Result<ApiResource> {
    let parts: Vec<&str> = args.kind.split('/').collect();
    let [group, version, kind] = parts[..] else {
        anyhow::bail!("--kind {:?} is no kind: write GROUP/VERSION/KIND", args.kind);
    };
    Ok(ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), &args.plural))
}

/// Tries until it is done: no other event need come.
async fn keep(client: &Client, kind: &ApiResource, args: &InstalledOperator, object: &DynamicObject) {
    while let Err(error) = write(client, kind, args, object).await {
        eprintln!("{} {}: {error:#}", args.kind, object.name_any());
        sleep(RETRY).await;
    }
}

async fn write(
    client: &Client,
    kind: &ApiResource,
    args: &InstalledOperator,
    object: &DynamicObject,
) -> anyhow::Result<()> {
    let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
    let said = object.data.pointer("/status/version").and_then(Value::as_str);
    let spec = object.data.get("spec").cloned().unwrap_or_default();
    let is_done = said == Some(&args.version)
        && object.data.pointer("/status/observedGeneration").and_then(Value::as_i64) == object.metadata.generation;
    if is_done || object.metadata.deletion_timestamp.is_some() {
        return Ok(());
    }
    let apply = PatchParams::apply(MANAGER).force();
    let made = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "ownerReferences": [{"apiVersion": kind.api_version, "kind": kind.kind, "name": name,
            "uid": object.metadata.uid}]},
        "data": {"version": args.version, "spec": spec.to_string()}});
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), &namespace);
    maps.patch(&name, &apply, &Patch::Apply(&made)).await.with_context(|| format!("cannot write ConfigMap {name}"))?;
    let status = json!({"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name},
        "status": {"version": args.version, "observedGeneration": object.metadata.generation}});
    let objects: Api<DynamicObject> = Api::namespaced_with(client.clone(), &namespace, kind);
    match objects.patch_status(&name, &apply, &Patch::Apply(&status)).await {
        Err(kube::Error::Api(refused)) if refused.code == 404 => Ok(()),
        answer => answer.map(drop).with_context(|| format!("cannot write the status of {name}")),
    }
}

/// Says whether the operator may be replaced: not before the ConfigMap is there.
async fn tell(client: &Client, args: &InstalledOperator) -> anyhow::Result<()> {
    let (Some(condition), Some(map)) = (&args.condition, &args.busy_until_configmap) else {
        return std::future::pending().await;
    };
    say(client, args, condition, ("False", "Busy", &format!("ConfigMap {map} is awaited"))).await;
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), &args.own_namespace);
    let only = watcher::Config::default().fields(&format!("metadata.name={map}"));
    let mut found = watcher(maps, only).default_backoff().applied_objects().boxed();
    while let Some(object) = found.next().await {
        if object.is_ok() {
            say(client, args, condition, ("True", "Idle", "nothing is awaited")).await;
        }
    }
    Ok(())
}

async fn say(client: &Client, args: &InstalledOperator, name: &str, (status, reason, message): (&str, &str, &str)) {
    let conditions: Api<OperatorCondition> = Api::namespaced(client.clone(), &args.own_namespace);
    let said = json!({"type": "Upgradeable", "status": status, "reason": reason, "message": message,
        "lastTransitionTime": jiff::Timestamp::now()});
    let patch = Patch::Merge(json!({"spec": {"conditions": [said]}}));
    while let Err(error) = conditions.patch(name, &PatchParams::default(), &patch).await {
        eprintln!("OperatorCondition {name}: {error}");
        sleep(RETRY).await;
    }
    println!("Upgradeable={status}: {message}");
}
