//! The suite deletes a catalog, waits until its pod has ended, and writes its ConfigMap anew. Here is no pod, so that the ConfigMap of
//! before, which belongs to the catalog, might not be collected yet: each new one is held for a moment.

use std::time::Duration;

use axum::routing::post;
use axum::{Json, Router};
use e2e::harness::Cluster;
use e2e::services::webhook::{Webhook, patched};
use serde_json::{Value, json};

use super::super::apply;

const NAME: &str = "held-configmaps";
/// The collector needs a tenth of it.
const MOMENT: Duration = Duration::from_secs(1);
/// How the suite names them, and nobody else.
const SUITES: &str = "object.metadata.name.endsWith('-configmap')";

/// Until it is dropped.
pub(super) async fn hold(cluster: &Cluster) -> Webhook {
    let webhook = Webhook::serve(cluster, NAME, Router::new().fallback(post(later))).await.unwrap();
    let rule = json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]});
    let asked = json!({"name": format!("{NAME}.cvo.invalid"), "rules": [rule], "sideEffects": "None", "failurePolicy": "Ignore",
        "admissionReviewVersions": ["v1"], "matchConditions": [{"name": "suite", "expression": SUITES}],
        "clientConfig": Webhook::client_config(cluster, NAME).unwrap()});
    let configuration = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": NAME}, "webhooks": [asked]});
    apply(cluster, &[configuration]).await;
    webhook
}

async fn later(Json(review): Json<Value>) -> Json<Value> {
    tokio::time::sleep(MOMENT).await;
    Json(patched(&review, &json!([])))
}
