//! Connections to servers that CatalogSources name. An address that names a Service is looked up among its EndpointSlices, because
//! the process need not know the names of the cluster by DNS.

use super::live::{all, service_kind, slice_kind};
use crate::cluster::Clients;
use crate::cluster::followed::{Followed, View};
use crate::cluster::task;
use crate::cluster::watcher::{Selection, Selector};
use crate::net::proxy::Proxies;
use crate::net::tunnel;
use crate::olm::net::registry_client::{Dial, RegistryClient, Times};
use crate::olm::servers::{Endpoints, PortNames, ServicePort, endpoints, port_names, targets};
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::time::timeout;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::AbortOnDropHandle;

/// For one endpoint of several.
const ENDPOINT: Duration = Duration::from_secs(5);
/// For the Service and its EndpointSlices to be read for the first time, before the name is looked up elsewhere.
const FIRST_READ: Duration = Duration::from_secs(3);

#[derive(Clone, Debug, PartialEq)]
struct PortsView(String, PortNames);

impl View for PortsView {
    type Object = Service;

    fn of(object: Service) -> Self {
        PortsView(object.metadata.resource_version.clone().unwrap_or_default(), port_names(&object))
    }

    fn version(&self) -> &str {
        &self.0
    }
}

#[derive(Clone, Debug)]
struct EndpointsView(String, Endpoints);

/// Another version with the same endpoints is nothing new.
impl PartialEq for EndpointsView {
    fn eq(&self, other: &Self) -> bool {
        self.1 == other.1
    }
}

impl View for EndpointsView {
    type Object = EndpointSlice;

    fn of(object: EndpointSlice) -> Self {
        EndpointsView(object.metadata.resource_version.clone().unwrap_or_default(), endpoints(&object))
    }

    fn version(&self) -> &str {
        &self.0
    }
}

/// A server to which the process is connected, or tries to be, until this is dropped.
pub(super) struct Server {
    pub client: RegistryClient,
    _until: DropGuard,
    _told: AbortOnDropHandle<()>,
}

impl Server {
    /// `changed` is notified of each state of the connection. `proxies`: for addresses that do not lead to a Service.
    pub(super) fn start(
        address: &str,
        proxies: &Arc<Proxies>,
        clients: &Clients,
        changed: &Arc<Notify>,
        stop: &CancellationToken,
    ) -> Server {
        let (until, hint) = (stop.child_token(), Arc::new(Notify::new()));
        let service = ServicePort::of(address).map(|port| OfService::start(port, clients, &hint, stop, &until));
        let client =
            RegistryClient::start(address, dial(service.map(Arc::new), proxies.clone()), hint, Times::default());
        let (states, woken) = (client.clone(), changed.clone());
        let telling = async move {
            let mut channel = states.channel();
            loop {
                woken.notify_one();
                channel = states.changed(&channel).await;
            }
        };
        let told = AbortOnDropHandle::new(tokio::spawn(task::guarded("the server of a catalog", stop, telling)));
        Server { client, _until: until.drop_guard(), _told: told }
    }
}

/// A Service and its EndpointSlices, as they are now.
struct OfService {
    port: ServicePort,
    service: Arc<Followed<PortsView>>,
    slices: Arc<Followed<EndpointsView>>,
}

impl OfService {
    fn start(
        port: ServicePort,
        clients: &Clients,
        hint: &Arc<Notify>,
        stop: &CancellationToken,
        until: &CancellationToken,
    ) -> OfService {
        let service = Selection::new(service_kind(), &port.namespace, Selector::Name(port.name.clone()));
        let slices = Selection::new(slice_kind(), &port.namespace, Selector::Labels(port.slices()));
        OfService {
            port,
            service: Followed::start_until(clients, service, hint.clone(), stop, until.clone()),
            slices: Followed::start_until(clients, slices, hint.clone(), stop, until.clone()),
        }
    }

    /// Where it leads to; an error says why nowhere.
    async fn targets(&self) -> Result<Vec<SocketAddr>, String> {
        let (mut services, mut slices) = (self.service.subscribe(), self.slices.subscribe());
        let known = async {
            while (all(&self.service).is_none() && services.changed().await.is_ok())
                || (all(&self.slices).is_none() && slices.changed().await.is_ok())
            {}
        };
        let _known = timeout(FIRST_READ, known).await;
        let ServicePort { namespace, name, port } = &self.port;
        let failed = |cause: &str| Err(format!("Service {namespace}/{name} {cause}"));
        let (Some(services), Some(slices)) = (all(&self.service), all(&self.slices)) else {
            return failed("cannot be read");
        };
        let Some(service) = services.into_values().next() else { return failed("does not exist") };
        let all = targets(&service.1, slices.values().map(|slice| &slice.1), *port);
        if all.is_empty() {
            return failed(&format!("has no endpoint for port {port} that is ready"));
        }
        Ok(all.into_iter().collect())
    }
}

/// Dials the endpoints of the Service, if the address names one, which are in the cluster and need no proxy; and then where DNS or
/// the proxy leads to.
fn dial(service: Option<Arc<OfService>>, proxies: Arc<Proxies>) -> Dial {
    Arc::new(move |address| {
        let (service, proxies) = (service.clone(), proxies.clone());
        Box::pin(async move {
            let mut causes = Vec::new();
            if let Some(service) = service {
                match service.targets().await {
                    Ok(targets) => match first(&targets).await {
                        Ok(stream) => return Ok(stream),
                        Err(cause) => causes.push(cause),
                    },
                    Err(cause) => causes.push(cause),
                }
            }
            match tunnel::connect(&proxies, &address).await {
                Ok(stream) => Ok(stream),
                Err(error) if causes.is_empty() => Err(error),
                Err(error) => {
                    causes.push(format!("{address}: {error}"));
                    Err(io::Error::new(error.kind(), causes.join("; ")))
                }
            }
        })
    })
}

/// The first endpoint that accepts a connection.
async fn first(targets: &[SocketAddr]) -> Result<TcpStream, String> {
    let mut causes = Vec::new();
    for target in targets {
        match timeout(ENDPOINT, TcpStream::connect(target)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => causes.push(format!("{target}: {error}")),
            Err(_) => causes.push(format!("{target}: no answer within {ENDPOINT:?}")),
        }
    }
    Err(causes.join("; "))
}
