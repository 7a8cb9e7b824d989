//! What operators of the suite run that have webhooks or an API.

use serde_json::{Value, json};

use super::{USUAL_OPERATOR, Version, package, push_catalog};

/// An operator with an API of its own, by the path that the suite calls.
pub(super) const API: (&str, &str) =
    ("operator-framework/mock-extension-apiserver:master", "/bin/mock-extension-apiserver");
const NAME: &str = "webhook-operator";
const GROUP: &str = "webhook.operators.coreos.io";
/// The suite writes the plural as the kind.
const KIND: &str = "webhooktests";
/// Where the webhooks are.
const PORT: u16 = 9443;

/// A catalog with an operator that has the three kinds of webhooks.
pub(super) async fn push(registry: &str) {
    let version =
        Version { operator: NAME, package: NAME, version: "0.0.5", replaces: "", kinds: &[], everywhere: false };
    let image = "olmtest/webhook-operator-bundle:0.0.5";
    version.push_with(registry, image, Some(csv(&version)), &[definition()]).await;
    let blobs = package(NAME, "alpha", vec![version.entry()], vec![version.offered(image, &[])]);
    push_catalog(registry, "olmtest/webhook-operator-index:v0.0.5", &blobs).await;
}

/// A definition with two versions. How one becomes the other is said by the operator once it runs.
fn definition() -> Value {
    let any = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let version = |name: &str, storage: bool| {
        json!({"name": name, "served": true, "storage": storage,
            "schema": {"openAPIV3Schema": any}})
    };
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{KIND}.{GROUP}")},
        "spec": {"group": GROUP, "scope": "Namespaced", "versions": [version("v1", true), version("v2", false)],
            "names": {"plural": KIND, "singular": "webhooktest", "kind": KIND}}})
}

fn csv(version: &Version<'_>) -> Value {
    let mut csv = version.csv();
    let of_secret = |name: &str| format!("/tmp/k8s-webhook-server/serving-certs/tls.{name}");
    let command = json!([
        "/usr/bin/lab",
        "served-operator",
        "--secure-port",
        PORT.to_string(),
        "--certificate",
        of_secret("crt"),
        "--key",
        of_secret("key")
    ]);
    let probe = json!({"tcpSocket": {"port": PORT}, "periodSeconds": 1});
    let image = format!("quay.io/{USUAL_OPERATOR}");
    let container = json!({"name": "operator", "image": image, "command": command, "readinessProbe": probe});
    let rule = json!({"apiGroups": [GROUP], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": [KIND]});
    let webhook = |name: &str, type_: &str, path: &str| {
        json!({"generateName": name, "type": type_, "deploymentName": NAME, "webhookPath": path, "containerPort": 443,
            "targetPort": PORT, "admissionReviewVersions": ["v1"], "sideEffects": "None", "rules": [rule]})
    };
    let mut conversion = webhook("cwebhooktest.kb.io", "ConversionWebhook", "/convert");
    conversion["conversionCRDs"] = json!([format!("{KIND}.{GROUP}")]);
    conversion.as_object_mut().unwrap().remove("rules");
    let spec = csv["spec"].as_object_mut().unwrap();
    spec["install"]["spec"]["deployments"][0]["spec"]["template"]["spec"]["containers"] = json!([container]);
    spec["installModes"] = json!([{"type": "AllNamespaces", "supported": true}]);
    let owned =
        ["v1", "v2"].map(|version| json!({"name": format!("{KIND}.{GROUP}"), "version": version, "kind": KIND}));
    spec["customresourcedefinitions"] = json!({"owned": owned});
    spec.insert(
        "webhookdefinitions".to_owned(),
        json!([
            webhook("vwebhooktest-v1.kb.io", "ValidatingAdmissionWebhook", "/validate"),
            webhook("mwebhooktest-v1.kb.io", "MutatingAdmissionWebhook", "/mutate"),
            conversion,
        ]),
    );
    csv
}
