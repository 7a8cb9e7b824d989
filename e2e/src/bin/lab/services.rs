//! `lab services`: makes Services reachable on a node. Listens at the address of each Service and forwards connections to the pods behind
//! it, and answers questions for the names of Services. It does what kube-proxy and CoreDNS do, as far as tests need it: the rules of
//! kube-proxy have the same names for every cluster on a machine, so that one would replace those of the other.

mod dns;
mod listeners;

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::future::ready;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;

use anyhow::{Context, bail};
use clap::Args;
use e2e::harness::install_tls_provider;
use futures::{Stream, StreamExt, stream::select};
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointSlice};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::reflector::{self, Store, reflector};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, Config, Resource};
use serde::de::DeserializeOwned;
use tokio::net::UdpSocket;
use tokio::sync::watch;

use dns::Names;
use listeners::{Listeners, Targets};

/// On EndpointSlices: the name of their Service.
const SERVICE: &str = "kubernetes.io/service-name";

/// Where to serve, and who may watch Services.
#[derive(Debug, Args)]
pub(crate) struct Services {
    /// Of a user who may watch Services and EndpointSlices.
    #[arg(long)]
    kubeconfig: PathBuf,
    /// Address of the Service `kubernetes`, which has no endpoints.
    #[arg(long)]
    kubernetes: SocketAddr,
    /// The API server.
    #[arg(long)]
    apiserver: SocketAddr,
    /// Where to answer questions for names.
    #[arg(long)]
    dns: SocketAddr,
}

/// Serves until it is killed.
pub(crate) async fn run(args: Services) -> anyhow::Result<()> {
    install_tls_provider();
    let names = watch::Sender::new(Names::new());
    let socket = UdpSocket::bind(args.dns).await.with_context(|| format!("listen on {}", args.dns))?;
    tokio::spawn(dns::serve(socket, names.subscribe()));
    let fixed = Targets::from([(args.kubernetes, BTreeSet::from([args.apiserver]))]);
    let mut listeners = Listeners::default();
    listeners.set(&fixed).await;

    let kubeconfig = Kubeconfig::read_from(&args.kubeconfig)?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    let client = Client::try_from(config)?;
    let (services, of_services) = followed::<Service>(client.clone());
    let (slices, of_slices) = followed::<EndpointSlice>(client);
    let mut changes = pin!(select(of_services, of_slices));
    while let Some(()) = changes.next().await {
        let (services, slices) = (services.state(), slices.state());
        names.send_replace(all_names(&services, &slices));
        let mut targets = all_targets(&services, &slices);
        targets.extend(fixed.clone());
        listeners.set(&targets).await;
    }
    bail!("the watches have ended")
}

/// The objects, and when they have changed.
fn followed<K>(client: Client) -> (Store<K>, impl Stream<Item = ()>)
where
    K: Resource<DynamicType = ()> + Clone + Debug + Send + Sync + DeserializeOwned + 'static,
{
    let (store, writer) = reflector::store();
    let events = watcher(Api::all(client), watcher::Config::default()).default_backoff();
    (store, reflector(writer, events).filter_map(|event| ready(event.ok().map(drop))))
}

/// Where connections to Services go.
fn all_targets(services: &[Arc<Service>], slices: &[Arc<EndpointSlice>]) -> Targets {
    let mut targets = Targets::new();
    for service in services {
        let spec = service.spec.clone().unwrap_or_default();
        let address = spec.cluster_ip.as_deref().and_then(|address| address.parse::<IpAddr>().ok());
        let Some(address) = address else { continue };
        for port in spec.ports.iter().flatten().filter(|port| port.protocol.as_deref() != Some("UDP")) {
            let Ok(number) = u16::try_from(port.port) else { continue };
            let to: BTreeSet<_> = of(service, slices).flat_map(|slice| sockets(slice, port.name.as_deref())).collect();
            if !to.is_empty() {
                targets.insert(SocketAddr::new(address, number), to);
            }
        }
    }
    targets
}

/// What the port of that name leads to.
fn sockets<'a>(slice: &'a EndpointSlice, name: Option<&str>) -> impl Iterator<Item = SocketAddr> + use<'a> {
    let mut ports = slice.ports.iter().flatten();
    let port = ports.find(|port| port.name.as_deref().unwrap_or_default() == name.unwrap_or_default());
    let number = port.and_then(|port| u16::try_from(port.port?).ok());
    number
        .into_iter()
        .flat_map(move |number| addresses(slice).map(move |address| SocketAddr::new(address.into(), number)))
}

/// Each Service with its address, or those of its endpoints where it has none of its own.
fn all_names(services: &[Arc<Service>], slices: &[Arc<EndpointSlice>]) -> Names {
    let mut names = Names::new();
    for service in services {
        let own = service.spec.as_ref().and_then(|spec| spec.cluster_ip.as_deref()).unwrap_or_default();
        let found: BTreeSet<Ipv4Addr> = match own {
            "None" => of(service, slices).flat_map(addresses).collect(),
            address => address.parse().into_iter().collect(),
        };
        if !found.is_empty() {
            names.insert(dns::name_of(service), found);
        }
    }
    names
}

fn of<'a>(service: &'a Service, slices: &'a [Arc<EndpointSlice>]) -> impl Iterator<Item = &'a EndpointSlice> {
    let is_its = |slice: &&EndpointSlice| {
        let labels = slice.metadata.labels.as_ref();
        slice.metadata.namespace == service.metadata.namespace
            && labels.and_then(|labels| labels.get(SERVICE)) == service.metadata.name.as_ref()
    };
    slices.iter().map(|slice| &**slice).filter(is_its)
}

/// Those that are ready, or of which nobody says anything.
fn addresses(slice: &EndpointSlice) -> impl Iterator<Item = Ipv4Addr> {
    let ready = |endpoint: &&Endpoint| endpoint.conditions.as_ref().and_then(|it| it.ready) != Some(false);
    let all = slice.endpoints.iter().flatten().filter(ready).flat_map(|endpoint| &endpoint.addresses);
    all.filter_map(|address| address.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::collections::BTreeMap;

    fn service(name: &str, address: &str) -> Arc<Service> {
        let ports = json!([{"name": "grpc", "port": 50051}, {"name": "dns", "port": 53, "protocol": "UDP"}]);
        let object =
            json!({"metadata": {"name": name, "namespace": "shop"}, "spec": {"clusterIP": address, "ports": ports}});
        Arc::new(serde_json::from_value(object).unwrap())
    }

    fn slice(of: &str, endpoints: serde_json::Value) -> Arc<EndpointSlice> {
        let metadata = json!({"name": of, "namespace": "shop", "labels": {SERVICE: of}});
        let ports = json!([{"name": "dns", "port": 5353}, {"name": "grpc", "port": 7001}]);
        let object = json!({"metadata": metadata, "addressType": "IPv4", "ports": ports, "endpoints": endpoints});
        Arc::new(serde_json::from_value(object).unwrap())
    }

    #[test]
    fn services_lead_to_their_endpoints_that_are_ready() {
        let services = [
            service("a", "10.0.0.1"),
            service("headless", "None"),
            service("empty", "10.0.0.2"),
            service("outside", ""),
        ];
        let ready = json!([
            {"addresses": ["10.1.0.1"], "conditions": {"ready": true}},
            {"addresses": ["10.1.0.2"], "conditions": {"ready": false}},
            {"addresses": ["10.1.0.3"]},
        ]);
        let slices =
            [slice("a", ready.clone()), slice("headless", ready), slice("other", json!([{"addresses": ["10.1.0.9"]}]))];
        let targets = all_targets(&services, &slices);
        let to = BTreeSet::from(["10.1.0.1:7001", "10.1.0.3:7001"].map(|it| it.parse().unwrap()));
        assert_eq!(targets, Targets::from([("10.0.0.1:50051".parse().unwrap(), to)]));
        let names: BTreeMap<String, Vec<String>> = all_names(&services, &slices)
            .into_iter()
            .map(|(name, all)| (name, all.iter().map(ToString::to_string).collect()))
            .collect();
        let expected = [
            ("a.shop.svc.cluster.local", vec!["10.0.0.1"]),
            ("empty.shop.svc.cluster.local", vec!["10.0.0.2"]),
            ("headless.shop.svc.cluster.local", vec!["10.1.0.1", "10.1.0.3"]),
        ];
        let texts = |all: Vec<&str>| all.into_iter().map(str::to_owned).collect();
        assert_eq!(names, expected.into_iter().map(|(name, all)| (name.to_owned(), texts(all))).collect());
    }
}
