//! What the API server asks of an operator, a real program in a pod: an API of its own (aggregation), or the webhooks of its kind.
//! It answers by the certificate that its pod had when it began.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use axum::extract::State;
use axum::routing::{get, post};
use axum::{Json, Router};
use e2e::harness::install_tls_provider;
use e2e::services::webhook::{converted, patched, serve};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};
use tokio::net::TcpListener;

/// This program by the name that the suite of operator-lifecycle-manager calls, with arguments of its own.
const API_PROGRAM: &str = "mock-extension-apiserver";
/// The webhook that refuses.
const REFUSES: &str = "Spec.Valid must be true";

/// `lab served-operator`: what it answers.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct ServedOperator {
    /// Kinds of its API, with commas; none: it answers webhooks.
    #[arg(long = "mock-kinds", value_name = "LIST", value_delimiter = ',')]
    kinds: Vec<String>,
    /// Its API, as GROUP/VERSION.
    #[arg(long = "mock-group-version", value_name = "API", default_value = "")]
    api: String,
    /// Where it listens.
    #[arg(long = "secure-port", value_name = "PORT")]
    port: u16,
    /// Its certificate and its key, which somebody mounts.
    #[arg(long, value_name = "FILE", default_value = "/apiserver.local.config/certificates/apiserver.crt")]
    certificate: PathBuf,
    #[arg(long, value_name = "FILE", default_value = "/apiserver.local.config/certificates/apiserver.key")]
    key: PathBuf,
    /// It says nothing either way.
    #[arg(long)]
    debug: bool,
    #[arg(short, value_name = "LEVEL")]
    v: Option<u8>,
}

/// The arguments of this command, where the program was called by the name of that operator.
pub(crate) fn renamed(arguments: Vec<String>) -> Vec<String> {
    let Some((program, rest)) = arguments.split_first() else { return arguments };
    if Path::new(program).file_name().is_none_or(|name| name != API_PROGRAM) {
        return arguments;
    }
    let command = ["lab", "served-operator"].map(str::to_owned);
    command.into_iter().chain(rest.iter().cloned()).collect()
}

/// Serves until it is killed.
pub(crate) async fn run(args: ServedOperator) -> anyhow::Result<()> {
    install_tls_provider();
    let listener = TcpListener::bind(("0.0.0.0", args.port)).await.with_context(|| format!("port {}", args.port))?;
    let router = if args.kinds.is_empty() { webhooks() } else { api(&args) };
    serve(listener, Arc::new(certificate(&args)?), router).await;
    Ok(())
}

fn certificate(args: &ServedOperator) -> anyhow::Result<ServerConfig> {
    let chain = CertificateDer::pem_file_iter(&args.certificate).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let chain = chain.with_context(|| format!("read {}", args.certificate.display()))?;
    let key = PrivateKeyDer::from_pem_file(&args.key).with_context(|| format!("read {}", args.key.display()))?;
    Ok(ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key)?)
}

/// An API without objects: what is asked is which kinds it has.
fn api(args: &ServedOperator) -> Router {
    let resource = |kind: &String| {
        let singular = kind.to_lowercase();
        json!({"name": format!("{singular}s"), "singularName": singular, "namespaced": true, "kind": kind,
            "verbs": ["list"]})
    };
    let resources: Vec<Value> = args.kinds.iter().map(resource).collect();
    let kinds =
        json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": args.api, "resources": resources});
    Router::new().route(&format!("/apis/{}", args.api), get(told)).with_state(kinds)
}

async fn told(State(answer): State<Value>) -> Json<Value> {
    Json(answer)
}

/// Of a kind with `spec.valid`, which has to be true, and `spec.mutate`, which is set; `v2` has both below `spec.conversion`.
fn webhooks() -> Router {
    Router::new().route("/mutate", post(mutate)).route("/validate", post(validate)).route("/convert", post(convert))
}

async fn mutate(Json(review): Json<Value>) -> Json<Value> {
    Json(patched(&review, &json!([{"op": "add", "path": "/spec/mutate", "value": true}])))
}

async fn validate(Json(review): Json<Value>) -> Json<Value> {
    let (uid, object) = (review.pointer("/request/uid"), review.pointer("/request/object"));
    let is_valid = object.and_then(|it| it.pointer("/spec/valid")) == Some(&Value::Bool(true));
    let name = object.and_then(|it| it.pointer("/metadata/name")).and_then(Value::as_str).unwrap_or_default();
    let response = json!({"uid": uid, "allowed": is_valid, "status": {"message": format!("{name}: {REFUSES}")}});
    Json(json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}))
}

async fn convert(Json(review): Json<Value>) -> Json<Value> {
    Json(converted(&review, |object, wanted| {
        let Some(spec) = object.get_mut("spec") else { return };
        let inner = spec.get("conversion").cloned();
        match (inner, wanted.ends_with("/v2")) {
            (None, true) => *spec = json!({"conversion": spec.take()}),
            (Some(inner), false) => *spec = inner,
            (None, false) | (Some(_), true) => {}
        }
    }))
}

#[test]
fn the_operator_of_the_suite_is_called_with_arguments_of_its_own() {
    let called = ["/bin/mock-extension-apiserver", "-v=4", "--debug"].map(str::to_owned).to_vec();
    assert_eq!(renamed(called), ["lab", "served-operator", "-v=4", "--debug"]);
    let other = ["/usr/bin/lab", "pause"].map(str::to_owned).to_vec();
    assert_eq!(renamed(other.clone()), other);
}
