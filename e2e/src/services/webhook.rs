//! A webhook that the API server asks: whatever answers, in this process.

use crate::faults::proxy::serving;
use crate::harness::Cluster;
use axum::{Json, Router};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use rustls::ServerConfig;
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_util::task::AbortOnDropHandle;

/// Serves until it is dropped.
#[derive(Debug)]
pub struct Webhook {
    _serving: AbortOnDropHandle<()>,
}

impl Webhook {
    /// What an object says of the webhook by this name of the cluster, whether it is served or not: a `clientConfig`.
    pub fn client_config(cluster: &Cluster, name: &str) -> anyhow::Result<Value> {
        use base64::Engine;
        use base64::engine::general_purpose::STANDARD;
        let authority = STANDARD.encode(cluster.authority()?);
        Ok(json!({"url": format!("https://127.0.0.1:{}/", cluster.port(name)), "caBundle": authority}))
    }

    /// Answers from now on.
    pub async fn serve(cluster: &Cluster, name: &str, router: Router) -> anyhow::Result<Webhook> {
        let config = Arc::new(serving(&cluster.dir().join("pki"))?);
        let listener = TcpListener::bind(("127.0.0.1", cluster.port(name))).await?;
        let serving = tokio::spawn(serve(listener, config, router));
        Ok(Webhook { _serving: AbortOnDropHandle::new(serving) })
    }
}

/// Answers all that connect, by TLS.
pub async fn serve(listener: TcpListener, config: Arc<ServerConfig>, router: Router) {
    let acceptor = TlsAcceptor::from(config);
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        let (acceptor, service) = (acceptor.clone(), TowerToHyperService::new(router.clone()));
        tokio::spawn(async move {
            let Ok(stream) = acceptor.accept(stream).await else { return };
            let builder = auto::Builder::new(TokioExecutor::new());
            // It does not matter how a connection ends.
            let _ended = builder.serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

/// Answers a conversion webhook: version `v1` calls `spec.length` what the other one calls `spec.size`.
pub async fn sizes_converted(Json(review): Json<Value>) -> Json<Value> {
    Json(converted(&review, |object, wanted| {
        let (from, to) = if wanted.ends_with("/v1") { ("size", "length") } else { ("length", "size") };
        let spec = object.get_mut("spec").and_then(Value::as_object_mut);
        if let Some((spec, value)) = spec.and_then(|spec| spec.remove(from).map(|value| (spec, value))) {
            spec.insert(to.to_owned(), value);
        }
    }))
}

/// The answer of a conversion webhook: `convert` makes each object one of the version (`group/version`) that is asked for.
pub fn converted(review: &Value, convert: impl Fn(&mut Value, &str)) -> Value {
    let request = review.get("request").cloned().unwrap_or_default();
    let wanted = request.get("desiredAPIVersion").and_then(Value::as_str).unwrap_or_default().to_owned();
    let mut objects = request.get("objects").and_then(Value::as_array).cloned().unwrap_or_default();
    for object in &mut objects {
        convert(object, &wanted);
        if let Some(fields) = object.as_object_mut() {
            fields.insert("apiVersion".to_owned(), json!(wanted));
        }
    }
    let response = json!({"uid": request.get("uid"), "convertedObjects": objects, "result": {"status": "Success"}});
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "response": response})
}

/// The answer of an admission webhook that makes this JSON patch; an empty one lets the object as it is.
pub fn patched(review: &Value, patch: &Value) -> Value {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    let patch = STANDARD.encode(patch.to_string());
    let uid = review.pointer("/request/uid");
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "response": {"uid": uid, "allowed": true, "patchType": "JSONPatch", "patch": patch}})
}
