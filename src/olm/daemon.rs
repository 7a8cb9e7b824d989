//! The process that looks after catalogs and operators. Each replica reads and serves; the one that holds the lease writes besides.

pub(crate) mod settings;

mod controllers;
mod servers;

use crate::cluster::lease::{Election, LeaderResult, Times};
use crate::cluster::task;
use crate::cluster::{ClientError, Clients, Kinds, Objects};
use crate::olm::api::{MANAGER, cluster_operator};
use crate::olm::certificate::Stored;
use crate::olm::net::store::{Store, StoreError};
use crate::olm::work::catalogs::{CatalogController, Figures};
use crate::olm::work::certificate::{self, Identity};
use crate::process::leader::{LeadingError, candidate, topology, while_leading};
use crate::process::serving;
use crate::process::settings::{SettingsError, address};
use crate::serve::health::Heartbeat;
use controllers::{Common, Started};
use servers::Servers;
use settings::Loop;
pub(crate) use settings::Settings;
use std::sync::{Arc, OnceLock};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

#[derive(Debug, thiserror::Error)]
pub(crate) enum DaemonError {
    #[error(transparent)]
    Settings(#[from] SettingsError),
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error(transparent)]
    Leading(#[from] LeadingError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Runs the process until it is told to `stop` (then `Ok`) or cannot continue.
pub(crate) async fn run(settings: Settings, stop: CancellationToken) -> Result<(), DaemonError> {
    let (serving, listen_health) = (settings.serving()?, address("--listen-health", &settings.listen_health)?);
    let (times, of_controller) = (settings.lease.times()?, settings.of_controller()?);
    let (folder, size) = settings.cache()?;
    let servers = Servers::of(&settings)?;
    settings.tell_what_has_no_meaning();
    let clients = Arc::new(Clients::connect(settings.kubeconfig.as_deref()).await?);
    let (heartbeat, subscriptions, operators) = (Arc::<Heartbeat>::default(), Arc::default(), Arc::default());
    let figures =
        Arc::new(Figures::new(clients.requests.clone(), (Arc::clone(&subscriptions), Arc::clone(&operators))));
    let readiness = Arc::new(OnceLock::new());
    if let Some(listen) = listen_health {
        let (asked, served) = (figures.clone(), readiness.clone());
        let ready = Arc::new(move || asked.ready().and_then(|()| is_served(&served)));
        serving::health_and_readiness(listen, heartbeat.clone(), ready, stop.clone());
    }
    if let Some(serving) = serving {
        let told = figures.clone();
        serving.start(Arc::new(move || told.text()), &clients, &Arc::new(Kinds::default()), stop.clone());
    }
    let store = Arc::new(opened(folder, size).await?);
    let reader = Objects::reader(clients.call.clone());
    let Some(topology) = topology(&reader, &stop).await else { return Ok(()) };
    let times = times.unwrap_or_else(|| Times::of_topology(topology.as_deref()));
    let name = settings.lease_name();
    let lease = (settings.namespace.as_str(), name.as_str());
    let (election, objects) = candidate(&clients, MANAGER, lease, result(), &settings.lease, times);
    tracing::info!(version = %settings.release_version, image = %settings.image, "looking after catalogs");
    let (leading, led) = watch::channel(false);
    let parts = (&clients, &objects, &led);
    let common =
        Common { settings: &settings, parts, figures: (figures.clone(), subscriptions, operators), stop: &stop };
    let leads = common.leads(Loop::Catalogs);
    let (controller, outputs) =
        CatalogController::new(of_controller, &clients, objects.clone(), leads, store.clone(), figures, &stop);
    let Started { tasks, csvs } = common.start(&outputs, store)?;
    let served = servers.start(&outputs, csvs, &clients, &stop);
    let _first = readiness.set(served.readiness());
    let ended = CancellationToken::new();
    let (until, over) = (stop.clone(), ended.clone());
    let running = async move {
        // However it ends.
        let _over = over.drop_guard();
        controller.run(heartbeat, until).await;
        futures::future::join_all(tasks).await;
    };
    let running = tokio::spawn(task::guarded("catalogs", &stop, running));
    let certificate = served.packages.as_ref().map(|packages| Certificate {
        identity: settings.packages_identity(),
        objects,
        stored: packages.stored.clone(),
        clients: clients.clone(),
    });
    let outcome = lead(election, (&leading, certificate), &ended, &stop).await;
    stop.cancel();
    let _ended = running.await;
    served.ended().await;
    Ok(outcome?)
}

/// By what others see that this process works.
fn result() -> LeaderResult {
    LeaderResult { plural: "clusteroperators", name: cluster_operator::CATALOG.to_owned(), list: "/status/conditions" }
}

/// Whether a client that the servers know can be answered.
fn is_served<F: Fn() -> Result<(), String>>(readiness: &OnceLock<F>) -> Result<(), String> {
    readiness.get().map_or_else(|| Err("nothing is served yet".to_owned()), |ready| ready())
}

/// What the holder of the lease needs to keep the certificate of the API of packages.
#[derive(Clone)]
struct Certificate {
    identity: Identity,
    objects: Objects,
    stored: watch::Receiver<Stored>,
    clients: Arc<Clients>,
}

impl Certificate {
    /// Until `stop`.
    async fn keep(self, stop: CancellationToken) {
        let kinds = Arc::new(Kinds::default());
        certificate::keep(self.identity, self.objects, self.stored, (&self.clients, &kinds), stop).await;
    }
}

/// What the process keeps on disk.
async fn opened(folder: std::path::PathBuf, size: u64) -> Result<Store, StoreError> {
    let opened = tokio::task::spawn_blocking(move || Store::open(&folder, size)).await;
    opened.unwrap_or_else(|error| Err(StoreError::Stopped(error.to_string())))
}

/// Holds the lease whenever that is possible. A process that loses it goes on as one that only reads, because whoever asks for
/// packages needs nobody who writes. `ended`: the controller has ended, and with it all writes.
async fn lead(
    election: Arc<Election>,
    (leading, certificate): (&watch::Sender<bool>, Option<Certificate>),
    ended: &CancellationToken,
    stop: &CancellationToken,
) -> Result<(), LeadingError> {
    while election.acquire(stop).await {
        let term = stop.child_token();
        let (told, over, all, ended) = (leading.clone(), term.clone(), stop.clone(), ended.clone());
        let certificate = certificate.clone();
        let work = async move {
            told.send_replace(true);
            match certificate {
                Some(certificate) => certificate.keep(over).await,
                None => over.cancelled().await,
            }
            told.send_replace(false);
            if all.is_cancelled() {
                ended.cancelled().await;
            }
        };
        match while_leading(election.clone(), term, work).await {
            Err(LeadingError::LeaseLost(_)) if !stop.is_cancelled() && !election.is_restored() => {}
            outcome => return outcome,
        }
    }
    Ok(())
}
