//! Serves metrics and health, with the TLS settings of the cluster where the cluster wants all of its servers to follow them,
//! and metrics to those whom the cluster knows.

pub(crate) mod authentication;

mod access;
mod demands;
mod tokens;

use crate::cluster::task;
use crate::cluster::{Clients, Kinds};
use crate::serve::health::Heartbeat;
use crate::serve::{self, Health, Metrics, ServeError, tls};
use access::Access;
use demands::Demanded;
use futures::future::BoxFuture;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Audience of tokens that give access to the metrics and to nothing else: the API server does not take them.
pub(crate) const METRICS_AUDIENCE: &str = "cluster-version-operator-metrics";

/// The configuration of the metrics from the command line.
#[derive(Clone, Debug)]
pub(crate) struct Serving {
    pub listen: SocketAddr,
    /// The serving certificate; self-signed without.
    pub files: Option<tls::Files>,
    /// What the command line demands of TLS.
    pub flags: tls::Flags,
}

impl Serving {
    /// Starts the server, which follows what the cluster says of TLS and of clients, until `stop`. `text` is called at each
    /// scrape.
    pub(crate) fn start(
        self,
        text: Arc<dyn Fn() -> String + Send + Sync>,
        clients: &Clients,
        kinds: &Arc<Kinds>,
        stop: CancellationToken,
    ) {
        let demands = demands(self.flags, clients, kinds, &stop);
        let access = Arc::new(Access::follow(clients, kinds.clone(), &stop));
        let metrics = Metrics {
            text,
            guard: Arc::new(move |caller| {
                let access = access.clone();
                Box::pin(async move { access.check(caller).await })
            }),
        };
        let (listen, files, until) = (self.listen, self.files, stop.clone());
        let serve = move || -> Served {
            let (files, demands, metrics, until) = (files.clone(), demands.clone(), metrics.clone(), until.clone());
            Box::pin(async move {
                let source = tls::Source::of_files(files);
                let tls = Arc::new(tls::Current::new(source, tls::Protocols::Http1, demands)?);
                serve::metrics(listen, tls, metrics, until).await
            })
        };
        tokio::spawn(task::guarded("metrics", &stop, again_and_again("metrics", stop.clone(), serve)));
    }
}

/// What the command line and the cluster demand of TLS, followed until `stop`.
pub(crate) fn demands(
    flags: tls::Flags,
    clients: &Clients,
    kinds: &Arc<Kinds>,
    stop: &CancellationToken,
) -> watch::Receiver<tls::Demands> {
    let demanded = Demanded::new(flags);
    let demands = demanded.subscribe();
    demanded.follow(clients, kinds.clone(), stop.clone());
    demands
}

/// Serves health at this address as long as the process lives.
pub(crate) fn health(listen: SocketAddr, heartbeat: Arc<Heartbeat>, stopping: CancellationToken) {
    health_and_readiness(listen, heartbeat, Arc::new(|| Ok(())), stopping);
}

/// The same for a process that is not ready before it can answer. `ready`: or why it cannot yet.
pub(crate) fn health_and_readiness(
    listen: SocketAddr,
    heartbeat: Arc<Heartbeat>,
    ready: Arc<dyn Fn() -> Result<(), String> + Send + Sync>,
    stopping: CancellationToken,
) {
    let check = Arc::new(move || -> BoxFuture<'static, _> {
        let heartbeat = heartbeat.clone();
        Box::pin(async move { heartbeat.check().await })
    });
    let (process, health) = (stopping.clone(), Health { check, ready, stopping });
    let serve = move || -> Served {
        let health = health.clone();
        Box::pin(async move { serve::health(listen, health).await })
    };
    tokio::spawn(task::guarded("health", &process, again_and_again("health", CancellationToken::new(), serve)));
}

pub(crate) type Served = BoxFuture<'static, Result<(), ServeError>>;

/// If a server fails, for instance because the port is in use, it is tried again; the daemon goes on.
pub(crate) async fn again_and_again(what: &'static str, stop: CancellationToken, serve: impl Fn() -> Served) {
    let mut failures = 0;
    while !stop.is_cancelled() {
        if let Err(error) = serve().await {
            failures += 1;
            tracing::warn!(%error, "cannot serve {what}; trying again");
            let pause = crate::cluster::jittered(Duration::from_secs(1), failures, Duration::from_secs(60));
            let _stopped = stop.run_until_cancelled(tokio::time::sleep(pause)).await;
        }
    }
}
