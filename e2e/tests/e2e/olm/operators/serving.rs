//! Webhooks of all kinds and an API of an operator are asked all the time, while its certificate is made anew, its Secret is spoilt, and
//! its next version takes its place; and nothing of them stays.

mod names;
mod owned;
mod repaired;
mod scope;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::routing::{get, post};
use axum::{Json, Router};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cvo::testing::api::olm::cluster_service_version::Phase;
use e2e::conditions::Conditions;
use e2e::harness::machine;
use e2e::olm::PROCESS;
use e2e::services::backend::Backend;
use e2e::services::webhook::{patched, sizes_converted};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::{Secret, Service};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DynamicObject, ListParams, PostParams};
use kube::core::ApiResource;
use kube::{Api, ResourceExt};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, date_time_ymd};
use serde_json::{Value, json};
use tokio_util::task::AbortOnDropHandle;

use super::super::LIMIT;
use super::{COLLECTED, SHOP, World, csv, group, history, in_shop};

const NAME: &str = "server.v1.0.0";
const SECRET: &str = "server-service-cert";
const DEFINITION: &str = "widgets.example.com";
const API: &str = "v1.gears.example.com";
/// Fifty requests a second.
const PAUSE: Duration = Duration::from_millis(20);
/// So many answers are waited for in between.
const ANSWERS: usize = 150;
/// A certificate is made anew a day before it ends: this one so soon after it was made.
const SOON: SignedDuration = SignedDuration::from_secs(20);

/// Each widget is marked.
async fn mutate(Json(review): Json<Value>) -> Json<Value> {
    let patch = json!([{"op": "add", "path": "/metadata/labels", "value": {"changed": "yes"}}]);
    Json(patched(&review, &patch))
}

/// None of them is smaller than nothing.
async fn validate(Json(review): Json<Value>) -> Json<Value> {
    let object = &review["request"]["object"];
    let is_good = object["spec"]["size"].as_i64().is_some_and(|size| size >= 0);
    let response = json!({"uid": review["request"]["uid"], "allowed": is_good, "status": {"message": "too small"}});
    Json(json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}))
}

fn program() -> Router {
    let resource =
        json!({"name": "gears", "singularName": "gear", "namespaced": true, "kind": "Gear", "verbs": ["list"]});
    let kinds = json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "gears.example.com/v1",
        "resources": [resource]});
    let gears = json!({"kind": "GearList", "apiVersion": "gears.example.com/v1", "metadata": {}, "items": []});
    let other =
        json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "gears.example.com/to", "resources": []});
    let told = |answer: Value| get(move || async move { Json(answer) });
    Router::new()
        .route("/mutate", post(mutate))
        .route("/validate", post(validate))
        .route("/convert", post(sizes_converted))
        .route("/apis/gears.example.com/v1", told(kinds))
        .route("/apis/gears.example.com/to", told(other))
        .route("/apis/gears.example.com/v1/namespaces/shop/gears", told(gears))
}

fn definition() -> Value {
    let of = |name: &str, field: &str, storage: bool| {
        let spec = json!({"type": "object", "properties": {field: {"type": "integer"}}});
        json!({"name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema":
            {"type": "object", "properties": {"spec": spec}}}})
    };
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": DEFINITION},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [of("v1", "length", false), of("v2", "size", true)]}})
}

/// A version of the operator with all that it serves.
fn version(version: &str, replaces: &str) -> Value {
    let mut csv = csv(version, replaces);
    let rule = json!({"apiGroups": ["example.com"], "apiVersions": ["v2"], "operations": ["CREATE"], "resources": ["widgets"]});
    let webhook = |name: &str, type_: &str, path: &str| {
        json!({"generateName": name, "type": type_, "deploymentName": "server", "webhookPath": path, "containerPort": 443,
            "admissionReviewVersions": ["v1"], "sideEffects": "None", "rules": [rule]})
    };
    let mut conversion = webhook("convert.example.com", "ConversionWebhook", "/convert");
    conversion["conversionCRDs"] = json!([DEFINITION]);
    conversion.as_object_mut().unwrap().remove("rules");
    let served = json!({
        "webhookdefinitions": [
            webhook("mutate.example.com", "MutatingAdmissionWebhook", "/mutate"),
            webhook("validate.example.com", "ValidatingAdmissionWebhook", "/validate"),
            conversion,
        ],
        "customresourcedefinitions": {"owned": [{"name": DEFINITION, "version": "v2", "kind": "Widget"}]},
        "apiservicedefinitions": {"owned": [{"name": "gears", "group": "gears.example.com", "version": "v1", "kind": "Gear",
            "deploymentName": "server", "containerPort": 443}]},
        "installModes": [{"type": "AllNamespaces", "supported": true}],
    });
    let spec = csv["spec"].as_object_mut().unwrap();
    spec.extend(served.as_object().unwrap().clone());
    spec["install"]["spec"]["permissions"] = json!([]);
    csv
}

/// As another program may have left it. It is to be made anew at this time.
pub(super) fn secret(due: Timestamp) -> Value {
    let hosts = ["", ".svc", ".svc.cluster.local"].map(|end| format!("server-service.{SHOP}{end}"));
    let end = u64::try_from((due + SignedDuration::from_hours(24)).as_second()).unwrap();
    let until = date_time_ymd(1970, 1, 1) + Duration::from_secs(end);
    let (key, mut authority) = (KeyPair::generate().unwrap(), CertificateParams::default());
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority.not_after = until;
    let signed = authority.self_signed(&key).unwrap().pem();
    let (own, mut params) = (KeyPair::generate().unwrap(), CertificateParams::new(hosts).unwrap());
    params.not_after = until;
    params.use_authority_key_identifier_extension = true;
    let certificate = params.signed_by(&own, &Issuer::new(authority, key)).unwrap().pem();
    let data = [("tls.crt", certificate), ("tls.key", own.serialize_pem()), ("olmCAKey", signed)];
    let data: serde_json::Map<String, Value> =
        data.into_iter().map(|(key, text)| (key.to_owned(), json!(STANDARD.encode(text)))).collect();
    in_shop("v1", "Secret", SECRET, json!({"type": "kubernetes.io/tls", "data": data}))
}

#[derive(Default)]
struct Answers {
    good: AtomicUsize,
    bad: Mutex<Vec<String>>,
}

fn widgets(world: &World, version: &str) -> Api<DynamicObject> {
    kind_of(world, "example.com", version, "Widget", "widgets")
}

fn kind_of(world: &World, group: &str, version: &str, kind: &str, plural: &str) -> Api<DynamicObject> {
    Api::namespaced_with(world.client.clone(), SHOP, &resource(group, version, kind, plural))
}

fn resource(group: &str, version: &str, kind: &str, plural: &str) -> ApiResource {
    ApiResource {
        group: group.to_owned(),
        version: version.to_owned(),
        api_version: format!("{group}/{version}"),
        kind: kind.to_owned(),
        plural: plural.to_owned(),
    }
}

fn widget(name: &str, size: i64) -> DynamicObject {
    let object =
        json!({"apiVersion": "example.com/v2", "kind": "Widget", "metadata": {"name": name}, "spec": {"size": size}});
    serde_json::from_value(object).unwrap()
}

/// One request after the other asks all webhooks and the API.
fn ask(world: &World, answers: &Arc<Answers>) -> AbortOnDropHandle<()> {
    let (new, old) = (widgets(world, "v2"), widgets(world, "v1"));
    let gears = kind_of(world, "gears.example.com", "v1", "Gear", "gears");
    let answers = answers.clone();
    AbortOnDropHandle::new(tokio::spawn(async move {
        let mut pauses = tokio::time::interval(PAUSE);
        for number in 0_usize.. {
            pauses.tick().await;
            let (new, old, gears, answers) = (new.clone(), old.clone(), gears.clone(), answers.clone());
            tokio::spawn(async move {
                let told = match number % 3 {
                    0 => created(&new).await,
                    1 => old.get("first").await.map(|it| it.data["spec"] == json!({"length": 3})),
                    _ => gears.list(&ListParams::default()).await.map(|_| true),
                };
                match told {
                    Ok(true) => drop(answers.good.fetch_add(1, Ordering::Relaxed)),
                    Ok(false) => answers.bad.lock().unwrap().push(format!("request {number} has another answer")),
                    Err(error) => answers.bad.lock().unwrap().push(error.to_string()),
                }
            });
        }
    }))
}

/// It is tried out, and marked.
async fn created(widgets: &Api<DynamicObject>) -> kube::Result<bool> {
    let dry_run = PostParams { dry_run: true, ..PostParams::default() };
    let object = widgets.create(&dry_run, &widget("tried", 1)).await?;
    Ok(object.labels().get("changed").is_some_and(|it| it == "yes"))
}

impl World {
    async fn secret(&self) -> Secret {
        Api::<Secret>::namespaced(self.client.clone(), SHOP).get(SECRET).await.unwrap()
    }

    /// Until the Secret has another certificate than this one, of one authority alone.
    async fn until_rotated(&self, before: &Secret) -> Secret {
        let of = |secret: &Secret, key: &str| secret.data.as_ref().unwrap()[key].0.clone();
        let one = |secret: &Secret| String::from_utf8_lossy(&of(secret, "olmCAKey")).matches("BEGIN").count() == 1;
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), SHOP);
        let wait = self.cluster.until("another certificate", &[PROCESS]).within(3 * LIMIT);
        let known = of(before, "tls.crt");
        let is_new = |it: &Secret| of(it, "tls.crt") != known && of(it, "tls.crt").starts_with(b"-----") && one(it);
        wait.existing(secrets, SECRET, is_new).await.unwrap()
    }

    async fn until_answered(&self, answers: &Answers) {
        let until = answers.good.load(Ordering::Relaxed) + ANSWERS;
        let wait = self.cluster.until("answers", &[PROCESS]).within(LIMIT);
        let enough = async || answers.good.load(Ordering::Relaxed) >= until || !answers.bad.lock().unwrap().is_empty();
        wait.holds(enough).await.unwrap();
        assert_eq!(*answers.bad.lock().unwrap(), [""; 0]);
    }

    /// What leads the API server to the operator, and is in no namespace, or in another one.
    async fn registered(&self) -> Vec<String> {
        let mut all = Vec::new();
        for kind in [
            "mutatingwebhookconfigurations",
            "validatingwebhookconfigurations",
            "apiservices",
            "clusterrolebindings",
            "rolebindings",
        ] {
            let namespace = if kind == "rolebindings" { "kube-system" } else { "default" };
            let found = self.kubectl([
                "get",
                kind,
                "-n",
                namespace,
                "-l",
                "olm.owner.kind=ClusterServiceVersion",
                "-o",
                "name",
            ]);
            all.extend(found.await.lines().map(str::to_owned));
        }
        all
    }

    /// Until the collector has taken what belonged to versions that are gone.
    async fn until_nothing_is_owned(&self) {
        let wait =
            self.cluster.until("the Service, the Secret and the roles to be collected", &[PROCESS]).within(COLLECTED);
        let is_gone = async || {
            let labels = "olm.owner.kind=ClusterServiceVersion";
            let kinds = "services,secrets,roles,rolebindings,deployments";
            self.kubectl(["get", kinds, "-n", SHOP, "-l", labels, "-o", "name"]).await.is_empty()
        };
        wait.holds(is_gone).await.unwrap();
    }

    async fn replica_sets(&self) -> BTreeSet<String> {
        let sets: Api<ReplicaSet> = Api::namespaced(self.client.clone(), SHOP);
        sets.list(&ListParams::default()).await.unwrap().items.iter().map(ResourceExt::name_any).collect()
    }
}

/// Whether a test may give this machine addresses of its own.
fn may_have_addresses() -> bool {
    let is_root = machine::is_root();
    if !is_root {
        println!("skipped: only root can give the Service of an operator an address");
    }
    is_root
}

/// Installed, and its pods answer. `due`: when the certificate is to be made anew that somebody else has left; `None` for none.
async fn installed(world: &World, due: Option<Timestamp>) -> Backend {
    world.start();
    world.apply(&group("all", json!({}))).await;
    world.account().await;
    world.apply(&definition()).await;
    if let Some(due) = due {
        world.apply(&secret(due)).await;
    }
    world.apply(&version("1.0.0", "")).await;
    let backend = answering(world).await;
    world.until_succeeded(NAME).await;
    backend
}

/// Its pods answer at the address of its Service.
async fn answering(world: &World) -> Backend {
    let services: Api<Service> = Api::namespaced(world.client.clone(), SHOP);
    let wait = world.cluster.until("the Service", &[PROCESS]).within(LIMIT);
    let service =
        wait.existing(services, "server-service", |it| it.spec.as_ref().is_some_and(|it| it.cluster_ip.is_some()));
    let service = service.await.unwrap();
    Backend::start(world.client.clone(), &service, "app=server", program()).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn webhooks_and_an_api_answer_through_new_certificates_and_new_versions() {
    if !may_have_addresses() {
        return;
    }
    let world = World::up().await;
    let before = Timestamp::now();
    let backend = installed(&world, Some(before + SOON)).await;
    let given = world.secret().await;
    let object = widgets(&world, "v2").create(&PostParams::default(), &widget("first", 3)).await.unwrap();
    assert_eq!(object.labels()["changed"], "yes");
    let refused = widgets(&world, "v2").create(&PostParams::default(), &widget("second", -1)).await.unwrap_err();
    assert!(refused.to_string().contains("too small"), "{refused}");
    let answers = Arc::<Answers>::default();
    let _asking = ask(&world, &answers);
    world.until_answered(&answers).await;
    assert_eq!(backend.certificates(), 1);

    // The certificate is made anew.
    let second = world.until_rotated(&given).await;
    assert!(Timestamp::now() >= before + SOON, "not before its time");
    let csv = world.until_succeeded(NAME).await;
    assert!(history(&csv).contains(&"Pending/NeedsCertRotation".to_owned()), "{:?}", history(&csv));
    world.until_answered(&answers).await;
    assert_eq!(backend.certificates(), 2, "pods with both of them have answered");

    // It is spoilt by hand.
    world
        .kubectl(["patch", "secret", SECRET, "-n", SHOP, "--type=merge", "-p", r#"{"data": {"tls.crt": "c3BvaWx0"}}"#])
        .await;
    let third = world.until_rotated(&second).await;
    world.until_succeeded(NAME).await;
    world.until_answered(&answers).await;
    assert_eq!(backend.certificates(), 2);

    // The next version takes over.
    let (sets, registered, uids) = (world.replica_sets().await, world.registered().await, world.uids().await);
    assert_eq!(registered.len(), 5, "{registered:?}");
    world.apply(&version("2.0.0", "1.0.0")).await;
    let csv = world.until_succeeded("server.v2.0.0").await;
    world.until_gone(NAME).await;
    world.until_answered(&answers).await;
    let fourth = world.secret().await;
    assert_eq!((fourth.uid(), &fourth.data), (third.uid(), &third.data), "the certificate stays");
    assert_eq!(fourth.owner_references().iter().map(|it| Some(it.uid.clone())).collect::<Vec<_>>(), [csv.uid()]);
    assert_eq!(world.replica_sets().await.difference(&sets).count(), 1, "pods are made anew once");
    assert_eq!(world.registered().await, registered);
    owned::third_version_takes_over_too(&world, (uids.as_str(), &fourth)).await;
    world.until_answered(&answers).await;
    assert_eq!(world.registered().await, registered);
    println!("{} requests were answered, and none was refused", answers.good.load(Ordering::Relaxed));
    world.down().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "hack/soak runs it"]
async fn nothing_is_left_of_what_an_operator_has_served() {
    if !may_have_addresses() {
        return;
    }
    let world = World::up().await;
    let backend = installed(&world, None).await;
    owned::secret_is_that_of_the_version(&world).await;
    assert_eq!(world.registered().await.len(), 5);
    let apis: Api<k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService> =
        Api::all(world.client.clone());
    assert!(apis.get(API).await.unwrap().has("Available=True"));
    let definitions: Api<CustomResourceDefinition> = Api::all(world.client.clone());
    let strategy = async || definitions.get(DEFINITION).await.unwrap().spec.conversion.unwrap().strategy;
    assert_eq!(strategy().await, "Webhook");
    // Somebody takes away what leads to the operator, and it comes back.
    let service =
        world.kubectl(["get", "service", "server-service", "-n", SHOP, "-o", "jsonpath={.spec.selector}"]).await;
    world
        .kubectl(["patch", "service", "server-service", "-n", SHOP, "-p", r#"{"spec": {"selector": {"app": "none"}}}"#])
        .await;
    let wait = world.cluster.until("the selector of the Service", &[PROCESS]).within(LIMIT);
    let is_back = async || {
        world.kubectl(["get", "service", "server-service", "-n", SHOP, "-o", "jsonpath={.spec.selector}"]).await
            == service
    };
    wait.holds(is_back).await.unwrap();
    world.until("to succeed again", NAME, |it| it.phase == Phase::Succeeded).await;
    repaired::what_leads_to_the_operator_comes_back(&world).await;

    world.kubectl(["delete", "csv", NAME, "-n", SHOP]).await;
    assert_eq!(world.registered().await, [""; 0]);
    assert_eq!(strategy().await, "None");
    world.until_nothing_is_owned().await;
    drop(backend);
    names::roles_of_the_cluster_stay(&world).await;
    world.until_nothing_is_owned().await;
    scope::only_what_is_in_namespaces_of_the_group_is_sent(&world).await;
    scope::what_a_removed_description_needed_goes(&world).await;
    world.down().await;
}
