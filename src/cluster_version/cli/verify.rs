//! `cvo verify`: checks the signatures of a release digest as the daemon does, for people and auditors.

use crate::cli::exit::Exit;
use crate::cli::output;
use crate::cli::output::print;
use crate::cli::reach;
use crate::cli::release::signatures::{Report, keyrings, report, stores, text};
use crate::cluster::{ApiError, Clients, Kind, Objects};
use crate::cluster_version::api::{ClusterVersion, ConfigMapName, NAME, SignatureStore};
use crate::cluster_version::updates::FeatureGates;
use crate::cluster_version::work::retrieve::{store_client, verify};
use crate::error::without_password;
use crate::net::http::{Egress, client};
use crate::net::signatures::{self, Found};
use crate::object::MANAGED_NAMESPACE;
use crate::release::Features;
use crate::release::work::features;
use crate::verify::{Config, Digest, Store, VERIFICATION_ANNOTATION};
use anyhow::Context;
use clap::{Args, ValueEnum};
use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, ListParams};
use kube::{Client, ResourceExt};
use serde_json::Value;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

/// For each store.
const LIMIT: Duration = Duration::from_secs(60);
/// Check the signatures of a release digest
///
/// Runs the same code as the daemon: every keyring needs a good signature by one of its keys, and the signed text must be
/// about this digest. Reads the files and stores that are named, and nothing else: no release, and no cluster unless --from asks
/// for it.
#[derive(Args, Debug)]
pub(crate) struct VerifyArgs {
    /// The digest, or a pull spec with one
    #[arg(value_name = "DIGEST", value_parser = Digest::given)]
    digest: Digest,
    /// With the keyrings and stores of the release that the cluster runs, or the stores that its ClusterVersion names, and the
    /// signatures that are in the cluster. Its stores are asked from here, not through its proxy
    #[arg(long, value_enum, value_name = "SOURCE")]
    from: Option<Source>,
    /// Kubeconfig of the cluster [default: $KUBECONFIG, else ~/.kube/config, else the pod's service account]
    #[arg(long, value_name = "FILE", requires = "from")]
    kubeconfig: Option<PathBuf>,
    /// Armored OpenPGP public keys. Each keyring needs a signature by one of its keys
    #[arg(long, value_name = "FILE", required_unless_present = "from", num_args = 1..)]
    keyring: Vec<PathBuf>,
    /// Signatures: OpenPGP messages, as a store has them
    #[arg(long, value_name = "FILE", num_args = 1.., required_unless_present_any = ["store", "from"])]
    signature: Vec<PathBuf>,
    /// Signature stores: folders, or URLs with http or https
    #[arg(long, value_name = "DIR|URL", num_args = 1..)]
    store: Vec<String>,
    /// The registry or repository that the signed image must be of [default: any]
    #[arg(long, value_name = "REPOSITORY")]
    identity_prefix: Option<String>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Source {
    Cluster,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    /// For people
    Text,
    /// For programs
    Json,
}

pub(crate) async fn run(args: VerifyArgs) -> anyhow::Result<Exit> {
    let prepared = keyrings(&args.keyring).and_then(|keyrings| Ok((keyrings, stores(&args.store)?)));
    let (mut keyrings, stores) = match prepared {
        Ok(prepared) => prepared,
        Err(error) => {
            output::remark(&format!("cvo: {}", crate::error::chain(error.as_ref())));
            return Ok(Exit::Usage);
        }
    };
    let web = client(env!("CARGO_PKG_VERSION"), &Egress::default())?;
    let mut stores: Vec<_> = stores.into_iter().map(|store| (store, web.clone())).collect();
    let mut found = Vec::new();
    if args.from.is_some() {
        // Nothing is known of the digest then, which is not to be taken for a refusal.
        let own = match of_cluster(&args).await {
            Ok(own) => own,
            Err(error) => {
                output::remark(&format!("cvo: {}", crate::error::chain(error.as_ref())));
                return Ok(Exit::Unknown);
            }
        };
        keyrings.take_over(own.config);
        stores.extend(own.stores);
        found.extend(own.found);
    }
    keyrings.identity = args.identity_prefix.or(keyrings.identity);
    for path in &args.signature {
        found.push(signatures::from_file(path).await);
    }
    found.extend(signatures::from_stores(stores, &args.digest, LIMIT).collect::<Vec<_>>().await);
    let report = report(&args.digest, &keyrings, found, Timestamp::now());
    match args.output {
        Output::Json => print(&(serde_json::to_string_pretty(&report)? + "\n"))?,
        Output::Text => print(&text(&report))?,
    }
    Ok(match &report {
        Report { verified: true, .. } => Exit::Success,
        Report { unknown: true, .. } => Exit::Unknown,
        _ => Exit::Failure,
    })
}

/// What the running release of a cluster demands.
struct Demanded {
    config: Config,
    /// Each with the ConfigMap of its CA, if it has one.
    stores: Vec<(Store, Option<ConfigMapName>)>,
}

/// What was found out of a cluster.
struct OfCluster {
    config: Config,
    stores: Vec<(Store, reqwest::Client)>,
    /// The signatures in the cluster, and the stores that cannot be asked.
    found: Vec<Found>,
}

async fn of_cluster(args: &VerifyArgs) -> anyhow::Result<OfCluster> {
    let clients = Clients::connect(args.kubeconfig.as_deref()).await?;
    let objects = Objects::reader(clients.call.clone());
    let fail = |error| reach::explain(&clients.server(), error);
    let maps = config_maps(&clients.call).await.map_err(fail)?;
    let version = objects.get(&Kind::of::<ClusterVersion>(false), "", NAME).await.map_err(fail)?.unwrap_or_default();
    let has_stores = version.pointer("/spec/signatureStores").is_some_and(|stores| !stores.is_null());
    let named = if has_stores { named(&version, &features::read(&objects).await.map_err(fail)?)? } else { None };
    if has_stores && named.is_none() {
        output::remark("spec.signatureStores does not count: the feature gate SignatureStores is off");
    }
    let Demanded { config, stores } = demanded(maps, named)?;
    let mut found: Vec<Found> = verify::in_config_maps(&objects, &args.digest, &OnceLock::new()).collect().await;
    let mut asked = Vec::new();
    for (store, ca) in stores {
        match store_client::build(&objects, env!("CARGO_PKG_VERSION"), &Egress::default(), ca.as_ref()).await {
            Ok(client) => asked.push((store, client)),
            Err(cause) => {
                found.push(Found::Failure { source: without_password(&store.to_string()).into_owned(), cause })
            }
        }
    }
    Ok(OfCluster { config, stores: asked, found })
}

/// The stores that the ClusterVersion names in place of those of the release. They count with a feature gate only.
fn named(version: &Value, features: &Features) -> anyhow::Result<Option<Vec<SignatureStore>>> {
    let running = version.pointer("/status/desired/version").and_then(Value::as_str).unwrap_or_default();
    if !FeatureGates::of(features.enabled([running])).signature_stores {
        return Ok(None);
    }
    let stores = version.pointer("/spec/signatureStores").cloned().unwrap_or_default();
    serde_json::from_value(stores).context("spec.signatureStores of the ClusterVersion")
}

async fn config_maps(client: &Client) -> Result<Vec<ConfigMap>, ApiError> {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), MANAGED_NAMESPACE);
    let attempt = format!("list configmaps in {MANAGED_NAMESPACE}");
    let listed = maps.list(&ListParams::default()).await;
    Ok(listed.map_err(|error| ApiError::of(&attempt, error))?.items)
}

/// `maps`: those of the namespace that the daemon manages. `named`: the stores that count in place of those of the release.
fn demanded(maps: Vec<ConfigMap>, named: Option<Vec<SignatureStore>>) -> anyhow::Result<Demanded> {
    let annotated = |map: &ConfigMap| map.annotations().contains_key(VERIFICATION_ANNOTATION);
    let map = maps.into_iter().find(annotated).with_context(|| {
        format!(
            "no ConfigMap in namespace {MANAGED_NAMESPACE} has the annotation {VERIFICATION_ANNOTATION}: the release that the \
             cluster runs demands no signatures, so that it accepts another one by force only"
        )
    })?;
    let name = map.name_any();
    let config = Config::from_config_map(&map.data.unwrap_or_default())
        .with_context(|| format!("ConfigMap {MANAGED_NAMESPACE}/{name}"))?;
    let stores = match named {
        None => config.stores.iter().map(|store| (store.clone(), None)).collect(),
        Some(named) => {
            let each = named.into_iter().map(|SignatureStore { url, ca }| match Store::parse(&url) {
                Ok(store) => Ok((store, ca)),
                Err(cause) => Err(anyhow::anyhow!("spec.signatureStores: {url}: {cause}")),
            });
            each.collect::<Result<_, _>>()?
        }
    };
    Ok(Demanded { config, stores })
}

#[cfg(test)]
mod tests;
