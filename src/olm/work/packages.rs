//! Starts the server of packages, and what it has to follow.

use super::catalogs::Outputs;
use super::certificate::{self, Identity};
use super::reviews::reviews;
use crate::cluster::{Clients, Kinds, task};
use crate::olm::certificate::Stored;
use crate::olm::serve::packages::{CsvSource, PackageServer, Sources};
use crate::process::serving::{Served, again_and_again, authentication, demands};
use crate::serve::front_proxy::FrontProxy;
use crate::serve::{Server, tls};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// How long is answered after the process has been told to stop: clients learn of that a little later, and ask until then.
const LINGER: Duration = Duration::from_secs(15);

/// Is cancelled when nobody is answered any more after the process has been told to stop.
pub(crate) fn lingering(stop: &CancellationToken) -> CancellationToken {
    let (end, stop) = (CancellationToken::new(), stop.clone());
    let ending = end.clone();
    tokio::spawn(async move {
        stop.cancelled().await;
        tokio::time::sleep(LINGER).await;
        ending.cancel();
    });
    end
}

/// How packages are served, from the command line.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub listen: SocketAddr,
    /// What the command line demands of TLS.
    pub flags: tls::Flags,
    /// Catalogs of this namespace are seen by all.
    pub global: String,
    pub identity: Identity,
    /// The release of this process.
    pub version: String,
}

/// The server at work.
#[derive(Debug)]
pub(crate) struct Running {
    /// For whoever asks whether it is ready.
    pub server: Arc<PackageServer>,
    /// For the holder of the lease: [`certificate::keep`].
    pub stored: watch::Receiver<Stored>,
    /// Ends when the last request is answered, some time after the process has been told to stop.
    pub ended: JoinHandle<()>,
}

/// Serves the packages of the catalogs, and ClusterServiceVersions where these are given, until `end`, which comes some time after `stop`
/// ([`lingering`]).
pub(crate) fn start(
    settings: Settings,
    (outputs, csvs): (&Outputs, Option<Arc<dyn CsvSource>>),
    clients: &Clients,
    kinds: &Arc<Kinds>,
    stop: &CancellationToken,
    end: CancellationToken,
) -> Running {
    let Settings { listen, flags, global, identity, version } = settings;
    let certificate::Followed { stored, key } = certificate::follow(&identity, clients, kinds, stop);
    let lacking = "nobody can ask for packages";
    let front_proxy = authentication::follow(clients, kinds.clone(), stop, lacking, FrontProxy::parse);
    let reviews = reviews(clients, outputs, &global, &version);
    let sources = Sources {
        csvs,
        reviews,
        global,
        catalogs: outputs.catalogs.clone(),
        behind: outputs.behind.clone(),
        front_proxy,
        certificate: key,
        demands: demands(flags, clients, kinds, stop),
        stopping: stop.clone(),
    };
    let server = PackageServer::new(sources, clients.call.clone(), stop);
    let (serving, until) = (server.clone(), end.clone());
    let serve = move || -> Served {
        let (server, until) = (serving.clone(), until.clone());
        Box::pin(async move { server.serve(Server::bind(listen).await?, until).await })
    };
    let served = again_and_again("packages", end, serve);
    Running { server, stored, ended: tokio::spawn(task::guarded("packages", stop, served)) }
}
