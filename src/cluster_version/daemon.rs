//! The daemon: connects everything, acquires the lease, works as the leader, and stops in order.

use crate::cluster::lease::{Election, LeaderResult, Outage, Times};
use crate::cluster::task;
use crate::cluster::{ClientError, Clients, Kind, Kinds, Objects};
use crate::cluster_version::api::ClusterVersion;
use crate::cluster_version::api::FIELD_MANAGER;
use crate::cluster_version::progress::Progress;
use crate::cluster_version::rollout::MANAGER;
use crate::cluster_version::updates::advice::Asker;
use crate::cluster_version::work::advice;
use crate::cluster_version::work::apply::Applier;
use crate::cluster_version::work::config_maps::ConfigMaps;
use crate::cluster_version::work::controller::notices::could_not_write;
use crate::cluster_version::work::controller::{ClusterVersionController, Parts};
use crate::cluster_version::work::monitoring;
use crate::cluster_version::work::monitoring::Monitoring;
use crate::cluster_version::work::operator_configuration::Follower;
pub(crate) use crate::cluster_version::work::operator_configuration::SetLogLevel;
use crate::cluster_version::work::record;
use crate::cluster_version::work::retrieve::Retriever;
pub(crate) use crate::cluster_version::work::settings::Settings;
use crate::net::registry::architecture;
use crate::object::metadata as object_meta;
use crate::process::egress;
use crate::process::events::Events;
use crate::process::leader::{LAST_EVENTS, LeadingError, candidate, topology, until_answered, while_leading};
use crate::process::prometheus;
use crate::process::prometheus::Querier;
use crate::process::serving;
use crate::process::settings::{SettingsError, address};
use crate::release::metadata;
use crate::release::metadata::ReleaseMetadata;
use crate::release::work::features;
use crate::release::work::payload_dir;
use crate::release::work::payload_dir::PayloadDirError;
use crate::release::{Features, Filter, LoadError, LoadOptions, Payload, PayloadFiles, load};
use crate::serve::health::Heartbeat;
use jiff::SignedDuration;
use std::sync::Arc;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// The lease could not be renewed for longer than this.
const TOLD_OUTAGE: SignedDuration = SignedDuration::from_secs(5);

#[derive(Debug, thiserror::Error)]
pub(crate) enum DaemonError {
    #[error(transparent)]
    Settings(#[from] SettingsError),
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error(transparent)]
    Leading(#[from] LeadingError),
    #[error("cannot read the running release: {0}")]
    PayloadDir(#[from] PayloadDirError),
    #[error("cannot load the running release: {0}")]
    Load(#[from] LoadError),
}

/// Runs the daemon until it is told to `stop` (then `Ok`) or cannot continue.
pub(crate) async fn run(
    settings: Settings,
    set_log_level: SetLogLevel,
    stop: CancellationToken,
) -> Result<(), DaemonError> {
    let settings = Arc::new(settings);
    let serving = settings.serving.serving(&settings.listen)?;
    let listen_health = address("--listen-health", &settings.listen_health)?;
    let times = settings.lease.times()?;
    settings.check()?;
    let source = settings.metrics.source()?;
    let heartbeat = Arc::new(Heartbeat::default());
    if let Some(listen) = listen_health {
        serving::health(listen, heartbeat.clone(), stop.clone());
    }
    let clients = Arc::new(Clients::connect(settings.kubeconfig.as_deref()).await?);
    // Prepare as much as possible before acquiring the lease, so that there is no gap when the previous leader releases it.
    let kinds = Arc::new(Kinds::default());
    let Some(features) = features::follow(&clients, kinds.clone(), &stop).await else { return Ok(()) };
    let reader = Objects::reader(clients.call.clone());
    let Some(topology) = topology(&reader, &stop).await else { return Ok(()) };
    let times = times.unwrap_or_else(|| Times::of_topology(topology.as_deref()));
    let result = LeaderResult { plural: "clusterversions", name: settings.name.clone(), list: "/status/history" };
    let lease = (settings.namespace.as_str(), settings.name.as_str());
    let (election, objects) = candidate(&clients, FIELD_MANAGER, lease, result, &settings.lease, times);
    let first = features.borrow().clone();
    let own = Arc::new(load_running_release(&settings, &first).await?);
    let (version, image) = (&own.release.version, &own.release.image);
    tracing::info!(%version, %image, manifests = own.manifests.len(), "running release loaded");
    let monitoring = Monitoring::new(own.clone(), settings.update_service.clone(), clients.requests.clone(), heartbeat);
    let monitoring = Arc::new(monitoring);
    if let Some(serving) = serving {
        let told = monitoring.clone();
        serving.start(Arc::new(move || told.text()), &clients, &kinds, stop.clone());
    }
    if !election.acquire(&stop).await {
        return Ok(());
    }
    let held = election.clone();
    let prepared =
        Prepared { settings, set_log_level, source, election, clients, objects, kinds, own, features, monitoring };
    Ok(while_leading(held, stop.clone(), lead(prepared, stop)).await?)
}

/// What is there before the lease is held.
struct Prepared {
    settings: Arc<Settings>,
    set_log_level: SetLogLevel,
    /// Where the queries of published risks are sent.
    source: prometheus::Source,
    election: Arc<Election>,
    clients: Arc<Clients>,
    objects: Objects,
    /// Empty.
    kinds: Arc<Kinds>,
    own: Arc<Payload>,
    features: watch::Receiver<Arc<Features>>,
    monitoring: Arc<Monitoring>,
}

/// Does the leader's work until `stop`.
async fn lead(prepared: Prepared, stop: CancellationToken) {
    let Prepared { settings, clients, objects, kinds, own, features, monitoring, .. } = &prepared;
    until_answered(&stop, || kinds.refresh(objects.client())).await;
    follow_operator_configuration(&prepared, &stop);
    let recorded = until_answered(&stop, || record::read(objects, &settings.namespace)).await.unwrap_or_default();
    let progress = recorded.progress;
    let applier = Arc::new(Applier::new(clients.clone(), objects.clone(), MANAGER, kinds.clone(), stop.clone()));
    let way = egress::follow(clients, kinds, applier.proxy(), &stop);
    monitor(monitoring, &applier, objects, &stop);
    let (events, publishing) = publish(&prepared, &stop);
    let (records, received) = watch::channel(Progress::default());
    let record_stop = CancellationToken::new();
    let keep = record::keep(objects.clone(), settings.namespace.clone(), recorded.live, received, record_stop.clone());
    let recording = tokio::spawn(task::guarded("progress record", &stop, keep));
    let parts = Parts {
        retriever: Arc::new(Retriever {
            settings: settings.clone(),
            objects: objects.clone(),
            clients: clients.clone(),
            own: own.clone(),
            way: way.clone(),
        }),
        advice: asking(&prepared, &progress, &way, &stop),
        config_maps: ConfigMaps::follow(clients, kinds, &stop),
        settings: settings.clone(),
        clients: clients.clone(),
        applier,
        own: own.clone(),
        progress,
        records,
        features: features.clone(),
        way,
        events,
        monitoring: monitoring.clone(),
        note: prepared.election.note.clone(),
    };
    ClusterVersionController::new(parts).run(stop).await;
    record_stop.cancel();
    let _recorded = recording.await;
    // The last events say why the process ends. They are not worth waiting for long.
    let _published = tokio::time::timeout(LAST_EVENTS, publishing).await;
}

/// Publishes events, first of all those about the lease. The handle ends once the last one is told.
fn publish(prepared: &Prepared, stop: &CancellationToken) -> (Events, JoinHandle<()>) {
    let Prepared { settings, election, objects, .. } = prepared;
    let client = objects.client_for_writes();
    let (events, publishing) = Events::start(client, FIELD_MANAGER, &settings.namespace, &election.identity, stop);
    let telling =
        tell_outages(election.outages(), events.clone(), objects.clone(), settings.name.clone(), stop.clone());
    task::spawn("outages", stop, telling);
    (events, publishing)
}

/// What asks the update service, once the controller knows what.
fn asking(prepared: &Prepared, progress: &Progress, way: &egress::Way, stop: &CancellationToken) -> advice::Handle {
    let Prepared { settings, objects, own, monitoring, source, .. } = prepared;
    let version = own.release.version.clone();
    let parts = advice::Parts {
        asker: Asker {
            update_service: settings.update_service.clone(),
            own: own.release.clone(),
            architecture: architecture().to_owned(),
            period: advice::period(),
        },
        recorded: progress.advice.clone(),
        querier: Querier { source: source.clone(), objects: objects.clone(), version },
        way: way.clone(),
        monitoring: monitoring.clone(),
    };
    advice::Handle::new(parts, stop.clone())
}

/// Says what kept this process from writing, once it can write again. Shorter times are in the log.
async fn tell_outages(
    mut outages: watch::Receiver<Option<Outage>>,
    events: Events,
    objects: Objects,
    name: String,
    stop: CancellationToken,
) {
    while let Some(Ok(())) = stop.run_until_cancelled(outages.changed()).await {
        let Some(Outage { since, until, why }) = outages.borrow_and_update().clone() else { continue };
        if until.duration_since(since) < TOLD_OUTAGE {
            continue;
        }
        let version =
            objects.get(&Kind::of::<ClusterVersion>(false), "", &name).await.ok().flatten().unwrap_or_default();
        events.publish(could_not_write(since, until, &why), &name, object_meta::uid(&version));
    }
}

/// Follows what the metrics show beside the controller's own state.
fn monitor(monitoring: &Arc<Monitoring>, applier: &Arc<Applier>, objects: &Objects, stop: &CancellationToken) {
    monitoring.set_applier(applier.clone());
    task::spawn("installer", stop, tell_installer(objects.clone(), monitoring.clone(), stop.clone()));
    let following = applier.clone();
    task::spawn("cluster operators", stop, async move { following.follow_operators().await });
}

/// Reads once who installed the cluster: it does not change.
async fn tell_installer(objects: Objects, monitoring: Arc<Monitoring>, stop: CancellationToken) {
    if let Some(installer) = until_answered(&stop, || monitoring::read_installer(&objects)).await {
        monitoring.set_installer(installer);
    }
}

/// Lets the ClusterVersionOperator decide how much is logged.
fn follow_operator_configuration(prepared: &Prepared, stop: &CancellationToken) {
    let follower = Follower {
        clients: prepared.clients.clone(),
        objects: prepared.objects.clone(),
        kinds: prepared.kinds.clone(),
        features: prepared.features.clone(),
        version: prepared.own.release.version.clone(),
        set: prepared.set_log_level.clone(),
    };
    task::spawn("operator configuration", stop, follower.run(stop.clone()));
}

async fn load_running_release(settings: &Settings, features: &Features) -> Result<Payload, DaemonError> {
    let (root, features) = (settings.payload.clone(), features.clone());
    let mut options = LoadOptions {
        image: settings.release_image.clone(),
        profile: settings.profile.clone(),
        strict_templates: false,
        // Decides until the ClusterVersion is read: each rollout selects its manifests anew.
        filter: Filter { feature_set: Some(features.set.clone()), ..settings.filter() },
    };
    let loading = tokio::task::spawn_blocking(move || -> Result<Payload, DaemonError> {
        let files = payload_dir::read(&root)?;
        let gates = features.enabled([version_of(&files).as_str()]).cloned();
        options.filter.feature_gates = Some(gates.unwrap_or_default());
        Ok(load(files, &options)?)
    });
    let place = settings.payload.display().to_string();
    let unusable = |problem| DaemonError::Load(LoadError::Integrity { place, problems: vec![problem] });
    let payload = match loading.await {
        Ok(loaded) => loaded?,
        Err(error) => return Err(unusable(error.to_string())),
    };
    for warning in &payload.warnings {
        tracing::warn!(%warning, "file of the running release skipped");
    }
    if payload.manifests.is_empty() {
        return Err(unusable(format!(
            "none of its {} manifests is included in a cluster with profile {:?}: set CLUSTER_PROFILE to the profile that \
             the release was made for",
            payload.excluded.len(),
            settings.profile
        )));
    }
    Ok(payload)
}

/// The version in `release-metadata`, or an empty one: loading reports what is wrong with the file.
fn version_of(files: &PayloadFiles) -> String {
    let file = files.release.iter().find(|file| file.name == metadata::FILE);
    file.and_then(|file| ReleaseMetadata::parse(&file.bytes).ok()).map(|metadata| metadata.version).unwrap_or_default()
}
