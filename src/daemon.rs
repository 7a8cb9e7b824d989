//! Builds everything, leads, stops in order (payload-and-apply §8.3).

use crate::api::progress::Progress;
use crate::cluster::lease::{Election, Times};
use crate::cluster::{ApiError, ClientError, Clients, Index, Kinds, Objects};
use crate::payload::{Features, Filter, LoadError, LoadOptions, Payload, load};
use crate::serve;
use crate::work::apply::{Applier, Kept, Wanted};
use crate::work::cluster_version::{ClusterVersionController, Parts};
use crate::work::events::Events;
use crate::work::features;
use crate::work::feeds::Feeds;
use crate::work::payload_dir::{self, PayloadDirError};
use crate::work::record;
use crate::work::retrieve::Retriever;
pub use crate::work::retrieve::Source as PayloadSource;
use crate::work::surroundings::Settings;
use crate::work::update_service;
use serde_json::Value;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// After a stop is asked for, this long until the process ends whatever is unfinished; the pod's grace is 130 s.
const STOP_WITHIN: Duration = Duration::from_secs(120);

/// What the command line says.
#[derive(Debug)]
pub struct Config {
    pub release_image: String,
    pub listen: Option<SocketAddr>,
    /// Certificate and key file.
    pub serving: Option<(PathBuf, PathBuf)>,
    pub kubeconfig: Option<PathBuf>,
    pub update_service: Option<String>,
    pub namespace: String,
    pub name: String,
    pub profile: String,
    pub exclude_manifests: Option<String>,
    /// Capabilities that are enabled whatever the spec says.
    pub always_enabled: BTreeSet<String>,
    /// Root of the own payload.
    pub payload: PathBuf,
    pub payload_store: PathBuf,
    pub source: PayloadSource,
    pub identity: String,
    pub lease: Times,
}

#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error("the own release cannot be read: {0}")]
    PayloadDir(#[from] PayloadDirError),
    #[error("the own release cannot be loaded: {0}")]
    Load(#[from] LoadError),
    #[error(transparent)]
    Api(#[from] ApiError),
    #[error("cannot listen for signals: {0}")]
    Signals(std::io::Error),
    #[error("no longer the leader: {0}")]
    LeaseLost(String),
    #[error("the main loop ended badly: {0}")]
    Crashed(String),
    #[error("did not stop within {} s", STOP_WITHIN.as_secs())]
    StopTimedOut,
}

/// Runs the daemon until it is told to stop (then `Ok`) or cannot go on.
pub async fn run(config: Config) -> Result<(), DaemonError> {
    let stop = CancellationToken::new();
    on_signal(stop.clone())?;
    let clients = Arc::new(Clients::connect(config.kubeconfig.as_deref()).await?);
    let election =
        Arc::new(Election::new(clients.call.clone(), &config.namespace, &config.name, &config.identity, config.lease));
    let claim = election.claim.clone();
    let objects = Objects::new(clients.call.clone(), Arc::new(move || claim.holds()));
    // Before the lease: what can be made ready is ready when the predecessor lets go.
    let Some(features) = until_answered(&stop, || features::read(&objects)).await else { return Ok(()) };
    let own = Arc::new(own_payload(&config, &features).await?);
    tracing::info!(version = %own.release.version, image = %own.release.image, manifests = own.manifests.len(), "own release loaded");
    serve_metrics(&config, &stop);
    if !election.acquire(&stop).await {
        return Ok(());
    }
    // Renewing goes on while everything else stops; its own stop comes last.
    let renew_stop = CancellationToken::new();
    let (keeper, lease_stop) = (election.clone(), renew_stop.clone());
    let mut renewing = tokio::spawn(async move { keeper.keep(&lease_stop).await });
    let mut leading = tokio::spawn(lead(config, clients, objects, own, features, stop.clone()));
    let outcome = tokio::select! {
        ended = &mut leading => ended.unwrap_or_else(|e| Err(DaemonError::Crashed(e.to_string()))),
        why = &mut renewing => {
            let why = why.unwrap_or_else(|e| e.to_string());
            tracing::error!(%why, "stopping: no longer the leader");
            stop.cancel();
            let _stopped = tokio::time::timeout(Duration::from_secs(10), &mut leading).await;
            Err(DaemonError::LeaseLost(why))
        }
        () = expired(&stop) => Err(DaemonError::StopTimedOut),
    };
    renew_stop.cancel();
    election.release().await;
    tracing::info!("stopped");
    outcome
}

async fn expired(stop: &CancellationToken) {
    stop.cancelled().await;
    tokio::time::sleep(STOP_WITHIN).await;
}

/// The first signal asks to stop, the second one does not ask.
fn on_signal(stop: CancellationToken) -> Result<(), DaemonError> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate()).map_err(DaemonError::Signals)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(DaemonError::Signals)?;
    tokio::spawn(async move {
        loop {
            tokio::select! { _ = terminate.recv() => {}, _ = interrupt.recv() => {} }
            if stop.is_cancelled() {
                tracing::warn!("second signal: ending at once");
                std::process::exit(130);
            }
            tracing::info!("asked to stop");
            stop.cancel();
        }
    });
    Ok(())
}

/// The leader's work.
async fn lead(
    config: Config,
    clients: Arc<Clients>,
    objects: Objects,
    own: Arc<Payload>,
    features: Features,
    stop: CancellationToken,
) -> Result<(), DaemonError> {
    let kinds = Arc::new(Kinds::default());
    until_answered(&stop, || kinds.refresh(objects.client())).await;
    let features = features::watch(&clients, kinds.clone(), features, stop.clone());
    let filter = base_filter(&config);
    let progress = until_answered(&stop, || record::read(&objects, &config.namespace)).await.unwrap_or_default();
    let settings = Arc::new(Settings::new(stop.clone()));
    let kept = Arc::new(Kept::default());
    let wanted = Arc::new(Wanted::new(settings.clone(), kept.clone()));
    let index = Arc::new(Index::default());
    let comparing = wanted.clone();
    let feeds = Feeds::new(
        clients.clone(),
        objects.clone(),
        index.clone(),
        Arc::new(move |id, live| comparing.compare(id, live)),
        stop.clone(),
    );
    let born = Mutex::default();
    let applier = Arc::new(Applier { objects: objects.clone(), index, kinds, feeds, wanted, settings, kept, born });
    let retriever = Arc::new(Retriever {
        objects: objects.clone(),
        clients: clients.clone(),
        own: own.clone(),
        source: config.source,
        namespace: config.namespace.clone(),
        store: config.payload_store,
        profile: config.profile,
        exclude_manifests: config.exclude_manifests,
    });
    let events = Events::start(clients.call.clone(), &config.namespace, &config.identity, stop.clone());
    let (records, received) = watch::channel(Progress::default());
    let record_stop = CancellationToken::new();
    let recording = tokio::spawn(record::keep(objects, config.namespace.clone(), received, record_stop.clone()));
    let (requests, requested) = watch::channel(None);
    let (retrieved, updates) = watch::channel(None);
    let client = update_service::Client {
        update_service: config.update_service,
        own: own.release.clone(),
        architecture: architecture().to_owned(),
    };
    tokio::spawn(update_service::run(client, requested, retrieved, stop.clone()));
    let parts = Parts {
        clients,
        applier,
        retriever,
        own,
        name: config.name,
        namespace: config.namespace,
        progress,
        records,
        requests,
        updates,
        features,
        filter,
        always_enabled: config.always_enabled,
        events,
    };
    ClusterVersionController::new(parts).run(stop).await;
    record_stop.cancel();
    let _recorded = recording.await;
    Ok(())
}

/// Repeats a read until the server answers; `None` when stopped before.
async fn until_answered<T, F>(stop: &CancellationToken, mut read: impl FnMut() -> F) -> Option<T>
where
    F: Future<Output = Result<T, ApiError>>,
{
    let mut failures = 0;
    loop {
        match read().await {
            Ok(answer) => return Some(answer),
            Err(error) => {
                failures += 1;
                tracing::warn!(%error, "trying again");
                let pause = crate::cluster::jittered(Duration::from_millis(250), failures, Duration::from_secs(10));
                stop.run_until_cancelled(tokio::time::sleep(pause)).await?;
            }
        }
    }
}

/// Go's name of the running architecture, which is what the update service speaks.
pub fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "powerpc64" => "ppc64le",
        other => other,
    }
}

/// What a process filters by from its start to its end (payload-and-apply §2.2, §2.6).
fn base_filter(config: &Config) -> Filter {
    Filter {
        profile: Some(config.profile.clone()),
        exclude_identifier: config.exclude_manifests.clone(),
        ..Filter::default()
    }
}

async fn own_version(root: &Path) -> Option<String> {
    let text = tokio::fs::read(root.join("release-manifests/release-metadata")).await.ok()?;
    let metadata: Value = serde_json::from_slice(&text).ok()?;
    metadata.get("version").and_then(Value::as_str).map(str::to_owned)
}

async fn own_payload(config: &Config, features: &Features) -> Result<Payload, DaemonError> {
    let root = config.payload.clone();
    let version = own_version(&root).await.unwrap_or_default();
    let gates = features.enabled([version.as_str()]).cloned().unwrap_or_default();
    let options = LoadOptions {
        image: config.release_image.clone(),
        profile: config.profile.clone(),
        strict_templates: false,
        // For the time until the ClusterVersion is seen: who takes part is chosen anew for each pass.
        filter: Filter { feature_set: Some(features.set.clone()), feature_gates: Some(gates), ..base_filter(config) },
    };
    let loading = tokio::task::spawn_blocking(move || -> Result<Payload, DaemonError> {
        Ok(load(payload_dir::read(&root)?, &options)?)
    });
    let payload = loading.await.map_err(|e| {
        DaemonError::Load(LoadError::Integrity {
            place: config.payload.display().to_string(),
            problems: vec![e.to_string()],
        })
    })??;
    for warning in &payload.warnings {
        tracing::warn!(%warning, "file of the own release skipped");
    }
    if payload.manifests.is_empty() {
        let profile = &config.profile;
        let cause = format!(
            "none of its {} manifests takes part in a cluster of profile {profile:?}: set CLUSTER_PROFILE to the one the              release was made for",
            payload.excluded.len()
        );
        return Err(LoadError::Integrity { place: config.payload.display().to_string(), problems: vec![cause] }.into());
    }
    Ok(payload)
}

/// The metrics server is no reason to stop: a taken port is tried again.
fn serve_metrics(config: &Config, stop: &CancellationToken) {
    let Some(listen) = config.listen else { return };
    let (serving, stop) = (config.serving.clone(), stop.clone());
    tokio::spawn(async move {
        let registry = Arc::new(prometheus_client::registry::Registry::default());
        let mut failures = 0;
        while !stop.is_cancelled() {
            let served = async {
                let tls = match &serving {
                    Some((certificate, key)) => serve::tls::config(certificate, key)?,
                    None => {
                        serve::tls::self_signed(&["cluster-version-operator".to_owned(), "localhost".to_owned()])?.0
                    }
                };
                serve::run(listen, tls, registry.clone(), stop.clone()).await
            };
            if let Err(error) = served.await {
                failures += 1;
                tracing::warn!(%error, "metrics are not served; trying again");
                let pause = crate::cluster::jittered(Duration::from_secs(1), failures, Duration::from_secs(60));
                let _stopped = stop.run_until_cancelled(tokio::time::sleep(pause)).await;
            }
        }
    });
}
