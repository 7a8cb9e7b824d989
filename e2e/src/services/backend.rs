//! The program of an operator whose pods kwok plays: it answers the API server at the address of its Service, as one pod after the
//! other. Each pod has the certificate that was in its Secret when it began.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, ensure};
use axum::Router;
use futures::StreamExt;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use k8s_openapi::api::core::v1::{Pod, Secret, Service};
use kube::runtime::watcher::{self, watcher};
use kube::{Api, Client, ResourceExt};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_util::task::AbortOnDropHandle;

/// The volume in which a pod has its certificate.
const VOLUME: &str = "webhook-cert";

/// Answers until it is dropped.
#[derive(Debug)]
pub struct Backend {
    pods: Arc<Pods>,
    _tasks: [AbortOnDropHandle<()>; 2],
    _address: Address,
}

/// Those that run, with what each serves.
#[derive(Debug, Default)]
struct Pods {
    running: Mutex<BTreeMap<String, Served>>,
    next: AtomicUsize,
    /// Certificates with which somebody was answered.
    used: Mutex<BTreeSet<Vec<u8>>>,
}

#[derive(Clone, Debug)]
struct Served {
    certificate: Vec<u8>,
    config: Arc<ServerConfig>,
}

/// An address that is one of this machine, until it is dropped.
#[derive(Debug)]
struct Address(String);

impl Address {
    fn add(address: &str) -> anyhow::Result<Address> {
        let address = Address(format!("{address}/32"));
        address.ip("add")?;
        Ok(address)
    }

    fn ip(&self, what: &str) -> anyhow::Result<()> {
        let done = Command::new("ip").args(["addr", what, &self.0, "dev", "lo"]).output()?;
        ensure!(done.status.success(), "ip addr {what} {}: {}", self.0, String::from_utf8_lossy(&done.stderr));
        Ok(())
    }
}

impl Drop for Address {
    fn drop(&mut self) {
        if let Err(error) = self.ip("del") {
            eprintln!("{error:#}");
        }
    }
}

impl Backend {
    /// Answers for the pods with this label (`app=server`) at the address of the Service. Needs root.
    pub async fn start(client: Client, service: &Service, label: &str, router: Router) -> anyhow::Result<Backend> {
        let spec = service.spec.clone().unwrap_or_default();
        let host = spec.cluster_ip.context("the Service has no address")?;
        let port = spec.ports.unwrap_or_default().first().map_or(443, |port| port.port);
        let address = Address::add(&host)?;
        let listener = TcpListener::bind((host.as_str(), u16::try_from(port)?)).await?;
        let pods = Arc::new(Pods::default());
        let namespace = service.namespace().unwrap_or_default();
        let following = follow(client, namespace, label.to_owned(), pods.clone());
        let serving = serve(listener, pods.clone(), router);
        let tasks = [tokio::spawn(following), tokio::spawn(serving)].map(AbortOnDropHandle::new);
        Ok(Backend { pods, _tasks: tasks, _address: address })
    }

    /// How many certificates have been used since this was asked last.
    pub fn certificates(&self) -> usize {
        std::mem::take(&mut *self.pods.used.lock().unwrap_or_else(PoisonError::into_inner)).len()
    }
}

impl Pods {
    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Served>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the next connection is answered with.
    fn turn(&self) -> Option<Served> {
        let running = self.lock();
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        running.values().nth(number.checked_rem(running.len())?).cloned()
    }
}

async fn follow(client: Client, namespace: String, label: String, pods: Arc<Pods>) {
    let api: Api<Pod> = Api::namespaced(client.clone(), &namespace);
    let secrets: Api<Secret> = Api::namespaced(client, &namespace);
    let mut events = watcher(api, watcher::Config::default().labels(&label)).boxed();
    while let Some(event) = events.next().await {
        let (pod, is_there) = match event {
            Ok(watcher::Event::Apply(pod) | watcher::Event::InitApply(pod)) => (pod, true),
            Ok(watcher::Event::Delete(pod)) => (pod, false),
            Ok(watcher::Event::Init | watcher::Event::InitDone) | Err(_) => continue,
        };
        let name = pod.name_any();
        let runs = pod.status.as_ref().is_some_and(|status| status.phase.as_deref() == Some("Running"));
        if !is_there || pod.metadata.deletion_timestamp.is_some() {
            pods.lock().remove(&name);
        } else if runs && !pods.lock().contains_key(&name) {
            match read(&pod, &secrets).await {
                Ok(served) => drop(pods.lock().insert(name, served)),
                Err(error) => eprintln!("pod {name}: {error:#}"),
            }
        }
    }
}

/// What a pod that begins finds in its volume.
async fn read(pod: &Pod, secrets: &Api<Secret>) -> anyhow::Result<Served> {
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    let mut own = volumes.filter(|volume| volume.name == VOLUME).filter_map(|volume| volume.secret.as_ref());
    let name = own.next().and_then(|it| it.secret_name.clone()).context("it has no volume with a certificate")?;
    let data = secrets.get(&name).await?.data.unwrap_or_default();
    let part = |key: &str| data.get(key).map(|it| it.0.clone()).with_context(|| format!("{name} has no {key}"));
    let certificate = part("tls.crt")?;
    let chain: Vec<_> = CertificateDer::pem_slice_iter(&certificate).collect::<Result<_, _>>()?;
    let key = PrivateKeyDer::from_pem_slice(&part("tls.key")?)?;
    let config = ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key)?;
    Ok(Served { certificate, config: Arc::new(config) })
}

/// Each request comes by a connection of its own, so that each one asks for a certificate.
async fn serve(listener: TcpListener, pods: Arc<Pods>, router: Router) {
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        let Some(served) = pods.turn() else { continue };
        let (pods, service) = (pods.clone(), TowerToHyperService::new(router.clone()));
        tokio::spawn(async move {
            let Ok(stream) = TlsAcceptor::from(served.config).accept(stream).await else { return };
            pods.used.lock().unwrap_or_else(PoisonError::into_inner).insert(served.certificate);
            let mut builder = auto::Builder::new(TokioExecutor::new()).http1_only();
            builder.http1().keep_alive(false);
            // It does not matter how a connection ends.
            let _ended = builder.serve_connection(TokioIo::new(stream), service).await;
        });
    }
}
