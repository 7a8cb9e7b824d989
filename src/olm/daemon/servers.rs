//! The servers of what the controller of catalogs reads. Each replica has them.

use super::Settings;
use crate::cluster::{Clients, Kinds};
use crate::olm::serve::packages::{CsvSource, PackageServer};
use crate::olm::serve::registry::{Limits, Server};
use crate::olm::work::catalogs::Outputs;
use crate::olm::work::packages;
use crate::process::serving::{Served, again_and_again};
use crate::process::settings::{SettingsError, address};
use crate::serve::tls;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Where the process is asked, from the command line.
#[derive(Clone, Debug)]
pub(super) struct Servers {
    /// `None`: nobody is to ask for packages.
    packages: Option<packages::Settings>,
    catalogs: Option<SocketAddr>,
}

/// The servers that run.
pub(super) struct Running {
    pub packages: Option<packages::Running>,
    catalogs: Option<JoinHandle<()>>,
}

impl Servers {
    pub(super) fn of(settings: &Settings) -> Result<Self, SettingsError> {
        let flags = tls::Flags::new(None, Vec::new()).map_err(|error| SettingsError(error.to_string()))?;
        let port = settings.servers.secure_port;
        let packages = packages::Settings {
            listen: SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), port),
            flags,
            global: settings.global_namespace().to_owned(),
            identity: settings.packages_identity(),
            version: settings.release_version.clone(),
        };
        Ok(Servers {
            packages: (port != 0).then_some(packages),
            catalogs: address("--listen-catalogs", &settings.servers.listen_catalogs)?,
        })
    }

    /// Starts them. They end some time after `stop`, when the last request is answered. `csvs`: what is served beside packages, if it is.
    pub(super) fn start(
        self,
        outputs: &Outputs,
        csvs: Option<Arc<dyn CsvSource>>,
        clients: &Clients,
        stop: &CancellationToken,
    ) -> Running {
        let kinds = Arc::new(Kinds::default());
        // Pods are replaced one after the other, and Services still lead to one that stops. Whoever serves packages stays anyway.
        let end = if self.packages.is_some() { packages::lingering(stop) } else { stop.clone() };
        let (of, until) = ((outputs, csvs), end.clone());
        let packages = self.packages.map(|settings| packages::start(settings, of, clients, &kinds, stop, until));
        let catalogs = self.catalogs.map(|listen| {
            let (outputs, until) = (outputs.clone(), end.clone());
            let serve = move || -> Served {
                let (outputs, until) = (outputs.clone(), until.clone());
                Box::pin(async move {
                    Server::bind(listen, Limits::default()).await?.run(outputs.catalogs, outputs.ports, until).await;
                    Ok(())
                })
            };
            tokio::spawn(again_and_again("catalogs", end, serve))
        });
        Running { packages, catalogs }
    }
}

impl Running {
    /// Whether packages can be asked for; an error says what is missing.
    pub(super) fn readiness(&self) -> impl Fn() -> Result<(), String> + Send + Sync + 'static {
        let server = self.packages.as_ref().map(|running| running.server.clone());
        move || server.as_deref().map_or(Ok(()), PackageServer::ready)
    }

    pub(super) async fn ended(self) {
        if let Some(packages) = self.packages {
            let _ended = packages.ended.await;
        }
        if let Some(catalogs) = self.catalogs {
            let _ended = catalogs.await;
        }
    }
}
