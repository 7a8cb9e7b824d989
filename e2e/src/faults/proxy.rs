//! A proxy between a client and the API server that injects faults on demand (see `source`). HTTP/2 on both sides; watches
//! stream through it.
//!
//! It forwards requests with the administrator's certificate, since it cannot forward the client's; the header that says
//! which user the client impersonates goes with them.

use super::source::{FORBIDDEN, FaultSource, Faults, NO_DRY_RUN, NO_INITIAL_EVENTS, Outcome, Tally, named, writes};
use crate::harness::{Cluster, set_in_kubeconfig};
use crate::until::until;
use axum::{
    Router,
    body::Body,
    extract::{Request, State},
    http::{Method, Response, Uri, Version, header},
};
use futures::{StreamExt, TryStreamExt};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
    service::TowerToHyperService,
};
use kube::client::ConfigExt;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
use serde_json::json;
use std::{
    collections::BTreeSet,
    net::SocketAddr,
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinHandle,
};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

/// As many as the API server allows.
const STREAMS: u32 = 100;

/// Ends with the value.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
    stop: CancellationToken,
}

/// Shared by all connections.
#[derive(Debug)]
struct Shared {
    /// `127.0.0.1:<port>` of the API server.
    server: String,
    tls: rustls::ClientConfig,
    faults: watch::Sender<Faults>,
    source: Mutex<FaultSource>,
    tally: watch::Sender<Tally>,
    /// Ends all connections.
    disconnect: Mutex<CancellationToken>,
    /// The kind (as in paths) of which no watch sends initial events.
    no_initial_events: Mutex<Option<String>>,
    /// The kind that nobody may read or write.
    forbidden: Mutex<Option<String>>,
    /// The kinds that were asked for.
    asked: Mutex<BTreeSet<String>>,
    /// What the server calls its version.
    version: Mutex<Option<String>>,
    /// Requests to try a write out that were refused; `None` where they are not.
    dry_runs: Mutex<Option<usize>>,
}

/// One connection of the client. It has its own connections to the API server, as it would have without a proxy.
#[derive(Debug, Clone)]
struct Connection {
    shared: Arc<Shared>,
    client: Client<HttpsConnector<HttpConnector>, Body>,
    /// Ends the connection.
    disconnect: CancellationToken,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.stop.cancel();
        self.accepting.abort();
    }
}

impl Proxy {
    /// Listens on a free port of loopback with the API server's own certificate. There are no faults yet.
    pub async fn start(cluster: &Cluster, seed: u64) -> anyhow::Result<Self> {
        let config = cluster.config().await?;
        let shared = Arc::new(Shared {
            server: cluster.server().trim_start_matches("https://").to_owned(),
            tls: config.rustls_client_config()?,
            faults: watch::Sender::default(),
            source: Mutex::new(FaultSource::new(seed)),
            tally: watch::Sender::default(),
            disconnect: Mutex::default(),
            no_initial_events: Mutex::default(),
            forbidden: Mutex::default(),
            asked: Mutex::default(),
            version: Mutex::default(),
            dry_runs: Mutex::default(),
        });
        let acceptor = TlsAcceptor::from(Arc::new(serving(&cluster.dir().join("pki"))?));
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let stop = CancellationToken::new();
        let accepting = tokio::spawn(accept(listener, acceptor, shared.clone(), stop.clone()));
        Ok(Self { address, shared, accepting, stop })
    }

    /// Changes a kubeconfig (in JSON, as the harness writes them) so that its users connect to the proxy.
    pub fn redirect(&self, kubeconfig: &Path) -> anyhow::Result<()> {
        Ok(set_in_kubeconfig(kubeconfig, "/clusters/0/cluster/server", format!("https://{}", self.address))?)
    }

    /// From now on watches of this kind (`configmaps`) cannot begin with initial events, as with a server that does not
    /// know them. This is not one of the faults, which come and go.
    pub fn refuse_initial_events(&self, resource: &str) {
        *self.shared.no_initial_events.lock().unwrap() = Some(resource.to_owned());
    }

    /// From now on requests for this kind are forbidden, and no others; `*` are all of them.
    pub fn forbid(&self, resource: Option<&str>) {
        *self.shared.forbidden.lock().unwrap() = resource.map(str::to_owned);
    }

    /// From now on the API server seems to have this version (`v1.36.0`).
    pub fn say_version(&self, version: &str) {
        *self.shared.version.lock().unwrap() = Some(version.to_owned());
    }

    /// From now on no write can be tried out, as with a webhook that has effects.
    pub fn refuse_dry_runs(&self) {
        self.shared.dry_runs.lock().unwrap().get_or_insert(0);
    }

    /// How often one was refused.
    pub fn refused_dry_runs(&self) -> usize {
        self.shared.dry_runs.lock().unwrap().unwrap_or_default()
    }

    /// The kinds (`configmaps`) that were asked for since this was called last.
    pub fn asked(&self) -> BTreeSet<String> {
        std::mem::take(&mut *self.shared.asked.lock().unwrap())
    }

    /// Injects these faults from now on, and resets the tally.
    pub fn set(&self, faults: Faults) {
        self.shared.faults.send_replace(faults);
        if faults.away {
            std::mem::take(&mut *self.shared.disconnect.lock().unwrap()).cancel();
        }
        self.shared.tally.send_replace(Tally::default());
    }

    /// What the proxy has done since `set`.
    pub fn tally(&self) -> Tally {
        self.shared.tally.borrow().clone()
    }

    /// Waits until the tally has reached something. The requests that it counts may not be answered yet.
    pub async fn until(&self, what: &str, limit: Duration, reached: impl Fn(&Tally) -> bool) {
        until(what, limit).value(self.shared.tally.subscribe(), reached).await.unwrap();
    }
}

/// With the certificate of the API server, which is valid for 127.0.0.1.
pub fn serving(pki: &Path) -> anyhow::Result<rustls::ServerConfig> {
    let chain: Vec<_> = CertificateDer::pem_file_iter(pki.join("serving.crt"))?.collect::<Result<_, _>>()?;
    let key = PrivateKeyDer::from_pem_file(pki.join("serving.key"))?;
    let mut config = rustls::ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

async fn accept(listener: TcpListener, acceptor: TlsAcceptor, shared: Arc<Shared>, stop: CancellationToken) {
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        if shared.faults.borrow().away {
            continue;
        }
        let (client, disconnect) = (client(&shared.tls), shared.disconnect.lock().unwrap().child_token());
        let connection = Connection { shared: shared.clone(), client, disconnect };
        let (acceptor, stop) = (acceptor.clone(), stop.clone());
        tokio::spawn(async move { stop.run_until_cancelled(serve(stream, acceptor, connection)).await });
    }
}

/// Serves one connection until it ends.
async fn serve(stream: TcpStream, acceptor: TlsAcceptor, connection: Connection) {
    let _ = stream.set_nodelay(true);
    let Ok(stream) = acceptor.accept(stream).await else { return };
    let disconnect = connection.disconnect.clone();
    let router = Router::new().fallback(respond).with_state(connection);
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http2().max_concurrent_streams(STREAMS);
    let serving = builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    // It does not matter how a connection ends.
    let _ended = disconnect.run_until_cancelled(serving).await;
}

fn client(tls: &rustls::ClientConfig) -> Client<HttpsConnector<HttpConnector>, Body> {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    let https = HttpsConnectorBuilder::new().with_tls_config(tls.clone()).https_only().enable_http2();
    Client::builder(TokioExecutor::new()).http2_adaptive_window(true).build(https.wrap_connector(tcp))
}

/// One request.
async fn respond(State(connection): State<Connection>, request: Request) -> Response<Body> {
    let shared = &connection.shared;
    let faults = *shared.faults.borrow();
    let (uri, method) = (request.uri().clone(), request.method().clone());
    let (outcome, delay) = {
        let mut source = shared.source.lock().unwrap();
        (source.outcome(&faults, &method, uri.path()), source.random.duration(faults.delay))
    };
    shared.count(&method, &uri, outcome);
    tokio::time::sleep(delay).await;
    if shared.lacks_initial_events(&uri) {
        return NO_INITIAL_EVENTS.response(&uri);
    }
    if shared.forbids(&uri) {
        return FORBIDDEN.response(&uri);
    }
    if shared.refuses_dry_run(&uri) {
        return NO_DRY_RUN.response(&uri);
    }
    if let Some(version) = shared.version(&uri) {
        return version;
    }
    match outcome {
        Outcome::Refused(refusal) if !refusal.after_forwarding => refusal.response(&uri),
        Outcome::Refused(refusal) => {
            connection.forward(request).await;
            refusal.response(&uri)
        }
        Outcome::Lost => {
            connection.forward(request).await;
            connection.disconnect().await
        }
        Outcome::Answered => {
            let answer = connection.forward(request).await;
            if is_watch(&uri) && answer.status().is_success() { answer.map(|body| shared.cut(body)) } else { answer }
        }
    }
}

fn is_watch(uri: &Uri) -> bool {
    uri.query().is_some_and(|query| query.split('&').any(|part| part == "watch=true" || part == "watch=1"))
}

impl Connection {
    /// The API server's answer. If there is none, the client's connection ends.
    async fn forward(&self, request: Request) -> Response<Body> {
        let (mut parts, body) = request.into_parts();
        let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
        let Ok(uri) = format!("https://{}{path}", self.shared.server).parse() else { return self.disconnect().await };
        parts.uri = uri;
        parts.version = Version::HTTP_11;
        parts.headers.remove(header::HOST);
        match self.client.request(Request::from_parts(parts, body)).await {
            Ok(answer) => answer.map(Body::new),
            Err(_) => self.disconnect().await,
        }
    }

    async fn disconnect(&self) -> Response<Body> {
        self.disconnect.cancel();
        // There is no answer.
        std::future::pending().await
    }
}

impl Shared {
    fn lacks_initial_events(&self, uri: &Uri) -> bool {
        let asked = is_watch(uri) && uri.query().is_some_and(|query| query.contains("sendInitialEvents=true"));
        let refused = self.no_initial_events.lock().unwrap();
        asked && refused.as_ref().is_some_and(|resource| uri.path().ends_with(&format!("/{resource}")))
    }

    /// Remembers what was asked for.
    fn forbids(&self, uri: &Uri) -> bool {
        let (resource, _) = named(uri.path());
        // Everybody may ask what kinds there are.
        if ["", "api", "apis"].contains(&resource) || !uri.path().starts_with("/api") {
            return false;
        }
        self.asked.lock().unwrap().insert(resource.to_owned());
        self.forbidden.lock().unwrap().as_ref().is_some_and(|it| it == "*" || it == resource)
    }

    fn refuses_dry_run(&self, uri: &Uri) -> bool {
        let is_dry = uri.query().is_some_and(|query| query.contains("dryRun="));
        let mut refused = self.dry_runs.lock().unwrap();
        let counted = refused.as_mut().filter(|_| is_dry);
        counted.map(|count| *count += 1).is_some()
    }

    fn version(&self, uri: &Uri) -> Option<Response<Body>> {
        let version = self.version.lock().unwrap().clone().filter(|_| uri.path() == "/version")?;
        let mut parts = version.trim_start_matches('v').split('.');
        let (major, minor) = (parts.next(), parts.next());
        let said = json!({"major": major, "minor": minor, "gitVersion": version, "gitCommit": "", "gitTreeState": "",
            "buildDate": "", "goVersion": "", "compiler": "", "platform": ""});
        let answer = Response::builder().header(header::CONTENT_TYPE, "application/json");
        answer.body(Body::from(said.to_string())).ok()
    }

    fn count(&self, method: &Method, uri: &Uri, outcome: Outcome) {
        self.tally.send_modify(|tally| {
            tally.requests += 1;
            let write = usize::from(writes(method, uri.path()));
            tally.writes += write;
            match outcome {
                Outcome::Refused(refusal) => {
                    *tally.refused.entry(refusal.code).or_default() += 1;
                    tally.refused_writes += write;
                }
                Outcome::Lost => tally.lost += 1,
                Outcome::Answered => {}
            }
        });
    }

    /// Ends the body of a watch when the faults say so, also of those set after it began; every other one with an error.
    fn cut(self: &Arc<Self>, body: Body) -> Body {
        let breaks = self.source.lock().unwrap().random.below(2) == 1;
        let shared = self.clone();
        let mut faults = self.faults.subscribe();
        let end = async move {
            let Some(life) =
                faults.wait_for(|faults| faults.watch_life.is_some()).await.ok().and_then(|it| it.watch_life)
            else {
                return;
            };
            tokio::time::sleep(life).await;
            shared.tally.send_modify(|tally| tally.watches_cut += 1);
        };
        let whole = body.into_data_stream().map_err(std::io::Error::other).take_until(Box::pin(end));
        let broken = breaks.then(|| Err(std::io::Error::other("cut")));
        Body::from_stream(whole.chain(futures::stream::iter(broken)))
    }
}
