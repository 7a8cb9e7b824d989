//! `lab registry-front`: stands before a registry for those who only read, with TLS, and with a password for repositories below
//! `private/`. Those below `node/` are opened by a header.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{Method, Response, StatusCode, header};
use axum::response::IntoResponse;
use axum::serve::Listener;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use e2e::harness::install_tls_provider;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

/// Paths of repositories that want a password.
const PRIVATE: &str = "/v2/private/";
/// Paths of repositories that a header opens.
const OF_NODE: &str = "/v2/node/";
const CHALLENGE: &str = "Basic realm=\"private\"";

/// Where to listen, and where the registry is.
#[derive(Debug, Args)]
pub(crate) struct RegistryFront {
    /// Address and port to listen on.
    #[arg(long)]
    listen: SocketAddr,
    /// The registry, without TLS.
    #[arg(long)]
    to: SocketAddr,
    #[arg(long)]
    certificate: PathBuf,
    #[arg(long)]
    key: PathBuf,
    /// What opens private repositories.
    #[arg(long, value_name = "USER:PASSWORD")]
    login: String,
    /// The header that opens repositories of the node.
    #[arg(long, value_name = "NAME:VALUE")]
    of_node: String,
}

#[derive(Clone, Debug)]
struct Front {
    to: SocketAddr,
    /// The header that opens private repositories.
    opens: String,
    /// Name and value of the header that opens those of the node.
    of_node: (String, String),
    client: reqwest::Client,
}

/// Serves until it is killed.
pub(crate) async fn run(args: RegistryFront) -> anyhow::Result<()> {
    install_tls_provider();
    let chain: Vec<_> = CertificateDer::pem_file_iter(&args.certificate)?.collect::<Result<_, _>>()?;
    let key = PrivateKeyDer::from_pem_file(&args.key)?;
    let tls = rustls::ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key)?;
    let acceptor = TlsAcceptor::from(Arc::new(tls));
    let mut listener = TcpListener::bind(args.listen).await.with_context(|| format!("listen on {}", args.listen))?;
    let client = reqwest::Client::builder().no_proxy().no_gzip().build()?;
    let (name, value) = args.of_node.split_once(':').context("--of-node must be NAME:VALUE")?;
    let of_node = (name.to_owned(), value.to_owned());
    let front = Front { to: args.to, opens: format!("Basic {}", STANDARD.encode(&args.login)), of_node, client };
    let router = Router::new().fallback(answer).with_state(front);
    loop {
        let (stream, _) = Listener::accept(&mut listener).await;
        tokio::spawn(serve(stream, acceptor.clone(), router.clone()));
    }
}

/// Serves one connection. It does not matter how it ends.
async fn serve(stream: TcpStream, acceptor: TlsAcceptor, router: Router) {
    let Ok(stream) = acceptor.accept(stream).await else { return };
    let builder = auto::Builder::new(TokioExecutor::new());
    let _ended = builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router)).await;
}

async fn answer(State(front): State<Front>, request: Request) -> Response<Body> {
    if ![Method::GET, Method::HEAD].contains(request.method()) {
        return StatusCode::METHOD_NOT_ALLOWED.into_response();
    }
    let shown = request.headers().get(header::AUTHORIZATION);
    let (name, value) = &front.of_node;
    let path = request.uri().path();
    let is_closed = path.starts_with(PRIVATE) && shown.is_none_or(|shown| shown != &front.opens)
        || path.starts_with(OF_NODE) && request.headers().get(name).is_none_or(|shown| shown != value);
    if is_closed {
        return (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, CHALLENGE)]).into_response();
    }
    let failed = |error: &dyn std::fmt::Display| (StatusCode::BAD_GATEWAY, error.to_string()).into_response();
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
    let mut headers = request.headers().clone();
    for name in [header::HOST, header::AUTHORIZATION] {
        headers.remove(name);
    }
    let asked = front.client.request(request.method().clone(), format!("http://{}{path}", front.to)).headers(headers);
    let mut answer = match asked.send().await {
        Ok(answer) => answer,
        Err(error) => return failed(&error),
    };
    let mut response = Response::new(Body::empty());
    *response.status_mut() = answer.status();
    std::mem::swap(response.headers_mut(), answer.headers_mut());
    for name in [header::CONNECTION, header::TRANSFER_ENCODING] {
        response.headers_mut().remove(name);
    }
    *response.body_mut() = Body::from_stream(answer.bytes_stream());
    response
}
