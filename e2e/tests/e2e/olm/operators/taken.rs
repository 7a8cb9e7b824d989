//! An operator that another implementation has installed and left: it is taken over while it runs. Nothing that runs is made anew, what
//! lacked a label has it then, and another process finds nothing to do.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cvo::testing::api::olm::NAMESPACE;
use cvo::testing::api::olm::cluster_service_version::{ClusterServiceVersion, Phase};
use e2e::harness::audit;
use e2e::olm::{PACKAGES, PROCESS, USER};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Namespace, Pod, Secret};
use kube::api::ListParams;
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::super::LIMIT;
use super::super::moving::{object, owned};
use super::tenants::writes_nothing;
use super::{COLLECTED, SHOP, World, csv, group, in_shop, rule, serving};

const NAME: &str = "server.v1.0.0";
const CSV: &str = "ClusterServiceVersion";
const OLM: &str = "operators.coreos.com/v1alpha1";
const RBAC: &str = "rbac.authorization.k8s.io";
const SERVICE: &str = "server-service";
const SECRET: &str = "server-service-cert";
/// Name of the role that the plan has made.
const ROLE: &str = "server.v1.0.0-server-3kq9x";
const WEBHOOK: &str = "check.example.com";
/// The label by which the content of the Deployment was known.
const HASH: &str = "olm.deployment-spec-hash";
const AT: &str = "2026-01-02T03:04:05Z";
/// Kinds that name their owner in labels.
const KINDS: &str = "deployments,services,secrets,roles,rolebindings,clusterroles,clusterrolebindings,validatingwebhookconfigurations,apiservices";
/// The process is at rest when it has written nothing for so long. What Operator objects say waits for five seconds at most.
const REST: SignedDuration = SignedDuration::from_secs(7);

/// Of a version that is installed, or of its copy.
fn succeeded(reason: &str, message: &str) -> Value {
    let condition = json!({"phase": "Succeeded", "reason": "InstallSucceeded", "lastTransitionTime": AT, "lastUpdateTime": AT,
        "message": "install strategy completed with no errors"});
    json!({"phase": "Succeeded", "reason": reason, "message": message, "lastTransitionTime": AT, "lastUpdateTime": AT,
        "conditions": [condition]})
}

fn installed() -> Value {
    succeeded("InstallSucceeded", "install strategy completed with no errors")
}

/// What the group makes the annotations of the version, which go to its pods.
fn annotations() -> Value {
    json!({"example.com/told": "to pods", "olm.operatorGroup": "all", "olm.operatorNamespace": SHOP, "olm.targetNamespaces": ""})
}

fn spec() -> Value {
    let mut spec = csv("1.0.0", "")["spec"].clone();
    spec["webhookdefinitions"] = json!([{"generateName": WEBHOOK, "type": "ValidatingAdmissionWebhook",
        "deploymentName": "server", "containerPort": 443, "admissionReviewVersions": ["v1"], "sideEffects": "None",
        "failurePolicy": "Ignore", "rules": rules()}]);
    spec
}

fn rules() -> Value {
    json!([{"apiGroups": ["example.com"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["widgets"]}])
}

/// Metadata of what belongs to the version, without the label by which this process would see it.
fn unlabelled(uid: &str) -> Value {
    let mut metadata = owned(NAME, SHOP, uid);
    let labels = metadata["labels"].as_object_mut().unwrap();
    labels.retain(|key, _| ![HASH, "olm.managed"].contains(&key.as_str()));
    metadata
}

/// The same of what has no namespace, or another one: it names its owner in labels alone.
fn elsewhere(uid: &str) -> Value {
    json!({"labels": unlabelled(uid)["labels"]})
}

/// Base64 of the authority in a Secret.
fn authority(secret: &Value) -> &str {
    secret["data"]["olmCAKey"].as_str().unwrap()
}

fn deployment(uid: &str, secret: &Value) -> Value {
    let version = csv("1.0.0", "");
    let mut spec = version.pointer("/spec/install/spec/deployments/0/spec").unwrap().clone();
    spec["revisionHistoryLimit"] = json!(1);
    let told = spec.pointer_mut("/template/metadata/annotations").unwrap();
    told.as_object_mut().unwrap().extend(annotations().as_object().unwrap().clone());
    told["olmcahash"] = json!(hex::encode(Sha256::digest(STANDARD.decode(authority(secret)).unwrap())));
    let volume = |name: &str, files: [&str; 2]| {
        let items = [("tls.crt", files[0]), ("tls.key", files[1])].map(|(key, path)| json!({"key": key, "path": path}));
        json!({"name": name, "secret": {"secretName": SECRET, "items": items}})
    };
    let pod = spec.pointer_mut("/template/spec").unwrap();
    pod["volumes"] = json!([
        volume("apiservice-cert", ["apiserver.crt", "apiserver.key"]),
        volume("webhook-cert", ["tls.crt", "tls.key"]),
    ]);
    pod["containers"][0]["env"] = json!([{"name": "OPERATOR_CONDITION_NAME", "value": NAME}]);
    pod["containers"][0]["volumeMounts"] = json!([
        {"name": "apiservice-cert", "mountPath": "/apiserver.local.config/certificates"},
        {"name": "webhook-cert", "mountPath": "/tmp/k8s-webhook-server/serving-certs"},
    ]);
    let mut metadata = unlabelled(uid);
    for (key, value) in [("tier", "one"), (HASH, "3aFg7h"), ("operators.coreos.com/server.shop", "")] {
        metadata["labels"][key] = json!(value);
    }
    object("apps/v1", "Deployment", (SHOP, "server"), json!({"metadata": metadata, "spec": spec}))
}

/// A role of this kind, and the binding that gives it to the account.
fn role(kind: &str, (namespace, name): (&str, &str), metadata: &Value, rules: &Value) -> [Value; 2] {
    let version = format!("{RBAC}/v1");
    let subject = json!({"kind": "ServiceAccount", "name": "server", "namespace": SHOP});
    let role = json!({"apiGroup": RBAC, "kind": kind, "name": name});
    let of = |kind: &str, content: Value| {
        let mut object = object(&version, kind, (namespace, name), content);
        if namespace.is_empty() {
            object["metadata"].as_object_mut().unwrap().remove("namespace");
        }
        object
    };
    [
        of(kind, json!({"metadata": metadata, "rules": rules})),
        of(&format!("{kind}Binding"), json!({"metadata": metadata, "roleRef": role, "subjects": [subject]})),
    ]
}

/// All that belongs to the version but its Deployment.
fn belongings(uid: &str, secret: &Value) -> Vec<Value> {
    let (own, other) = (unlabelled(uid), elsewhere(uid));
    let mut account = in_shop("v1", "ServiceAccount", "server", json!({}));
    account["metadata"]["ownerReferences"] = own["ownerReferences"].clone();
    let mut secret = secret.clone();
    secret["metadata"]["labels"] = own["labels"].clone();
    secret["metadata"]["ownerReferences"] = own["ownerReferences"].clone();
    let ports = json!([{"name": "443", "port": 443, "targetPort": 443}]);
    let service =
        json!({"metadata": own, "spec": {"type": "ClusterIP", "ports": ports, "selector": {"app": "server"}}});
    let service = object("v1", "Service", (SHOP, SERVICE), service);
    let mut metadata = other.clone();
    metadata["name"] = json!(format!("{WEBHOOK}-x7k2p"));
    metadata["labels"]["olm.webhook-description-generate-name"] = json!(WEBHOOK);
    metadata["labels"]["olm.webhook-description-hash"] = json!("3aFg7h");
    let client = json!({"service": {"name": SERVICE, "namespace": SHOP, "port": 443}, "caBundle": authority(&secret)});
    let webhook = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": metadata, "webhooks": [{"name": WEBHOOK, "clientConfig": client, "rules": rules(),
            "admissionReviewVersions": ["v1"], "sideEffects": "None", "failurePolicy": "Ignore"}]});
    let read = json!([{"apiGroups": [""], "resources": ["secrets"], "resourceNames": [SECRET], "verbs": ["get"]}]);
    let everywhere =
        json!([rule(), {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get", "list", "watch"]}]);
    let roles = [
        role("Role", (SHOP, ROLE), &own, &json!([rule()])),
        role("ClusterRole", ("", ROLE), &other, &everywhere),
        role("Role", (SHOP, SECRET), &own, &read),
    ];
    [account, secret, service, webhook].into_iter().chain(roles.into_iter().flatten()).collect()
}

/// What runs, or is served with, and may not become another one.
#[derive(Debug, PartialEq)]
struct Running {
    deployment: (Option<String>, Option<i64>, Value),
    pods: Vec<Option<String>>,
    secret: (Option<String>, Value),
    /// uids of the others, and of the copies.
    others: Vec<String>,
}

impl World {
    async fn give_status(&self, kind: &str, (namespace, name): (&str, &str), status: &Value) {
        let patch = json!({"status": status}).to_string();
        let how = ["--subresource=status", "--type=merge", "-p"];
        self.kubectl(["patch", kind, name, "-n", namespace, how[0], how[1], how[2], &patch]).await;
    }

    /// Creates a version with this status, and returns its uid.
    async fn leave_version(&self, id: (&str, &str), content: Value, status: &Value) -> String {
        self.apply(&object(OLM, CSV, id, content)).await;
        self.give_status("csv", id, status).await;
        self.kubectl(["get", "csv", id.1, "-n", id.0, "-o", "jsonpath={.metadata.uid}"]).await
    }

    async fn running(&self) -> Running {
        let deployment = self.deployment().await;
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), SHOP);
        let pods = pods.list(&ListParams::default()).await.unwrap();
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), SHOP);
        let secret = secrets.get(SECRET).await.unwrap();
        let path = "jsonpath={.metadata.uid}";
        let mut others = Vec::new();
        for (kind, namespace, name) in [
            ("service", SHOP, SERVICE),
            ("serviceaccount", SHOP, "server"),
            ("role", SHOP, ROLE),
            ("clusterrole", SHOP, ROLE),
            ("operatorcondition", SHOP, NAME),
            ("csv", SHOP, NAME),
            ("csv", "mall", NAME),
            ("csv", "park", NAME),
        ] {
            others.push(self.kubectl(["get", kind, name, "-n", namespace, "-o", path]).await);
        }
        Running {
            deployment: (deployment.uid(), deployment.metadata.generation, json!(deployment.spec)),
            pods: pods.iter().map(ResourceExt::uid).collect(),
            secret: (secret.uid(), json!(secret.data)),
            others,
        }
    }

    /// What names its owner and does not have the label.
    async fn unlabelled(&self) -> String {
        let labels = "olm.owner.kind,!olm.managed";
        let named = self.kubectl(["get", KINDS, "-A", "-l", labels, "-o", "name"]).await;
        // An account names it by reference alone.
        let account = self.kubectl(["get", "sa", "-n", SHOP, "-l", "olm.managed=true", "-o", "name"]).await;
        if account.contains("serviceaccount/server") { named } else { format!("{named} serviceaccount/server") }
    }

    /// What has the label in the namespace, or has no namespace, and names no owner.
    async fn without_owner(&self) -> Vec<String> {
        let kinds = format!("{KINDS},serviceaccounts");
        let all = self.kubectl(["get", &kinds, "-n", SHOP, "-l", "olm.managed=true", "-o", "json"]).await;
        let all: Value = serde_json::from_str(&all).unwrap();
        let has_owner = |it: &&Value| {
            let metadata = &it["metadata"];
            metadata["ownerReferences"].is_array() || metadata["labels"]["olm.owner"].is_string()
        };
        let items = all["items"].as_array().unwrap().iter();
        items.filter(|it| !has_owner(it)).map(|it| format!("{} {}", it["kind"], it["metadata"]["name"])).collect()
    }

    /// Until the process has written nothing for a while.
    async fn until_at_rest(&self) {
        let rests = async || {
            let all = audit::requests(&self.cluster.audit_log(), USER).unwrap();
            let last = all.iter().filter(|it| it.wrote() && it.resource != "leases").map(|it| it.at).max();
            last.is_some_and(|at| Timestamp::now().duration_since(at) > REST)
        };
        self.cluster.until("the process to be at rest", &[PROCESS]).within(COLLECTED).holds(rests).await.unwrap();
    }
}

/// A Subscription whose plan is complete, its version with all that belongs to it, and copies, one of them without its label.
async fn left(world: &World) {
    for name in ["mall", "park"] {
        world.namespace(name).await;
    }
    world.apply(&group("all", json!({}))).await;
    let subscribed = json!({"spec": {"name": "server", "channel": "stable", "source": "main",
        "sourceNamespace": "openshift-marketplace", "installPlanApproval": "Automatic"}});
    world.apply(&in_shop(OLM, "Subscription", "server", subscribed)).await;
    let uid = world.kubectl(["get", "subscription", "server", "-n", SHOP, "-o", "jsonpath={.metadata.uid}"]).await;
    let owner = json!({"apiVersion": OLM, "kind": "Subscription", "name": "server", "uid": uid, "controller": false,
        "blockOwnerDeletion": false});
    let plan = json!({"metadata": {"ownerReferences": [owner], "labels": {"operators.coreos.com/server.shop": ""}},
        "spec": {"approval": "Automatic", "approved": true, "generation": 1, "clusterServiceVersionNames": [NAME]}});
    world.apply(&object(OLM, "InstallPlan", (SHOP, "install-x7k2p"), plan)).await;
    let complete = json!({"phase": "Complete", "catalogSources": ["main"], "plan": [],
        "conditions": [{"type": "Installed", "status": "True", "lastTransitionTime": AT, "lastUpdateTime": AT}]});
    world.give_status("installplan", (SHOP, "install-x7k2p"), &complete).await;
    let plan = json!({"apiVersion": OLM, "kind": "InstallPlan", "name": "install-x7k2p", "namespace": SHOP});
    let status = json!({"state": "AtLatestKnown", "installedCSV": NAME, "currentCSV": NAME, "installPlanGeneration": 1,
        "installPlanRef": plan, "lastUpdated": AT});
    world.give_status("subscription", (SHOP, "server"), &status).await;

    let metadata = json!({"annotations": annotations(), "finalizers": ["operators.coreos.com/csv-cleanup"],
        "labels": {"olm.managed": "true", "operators.coreos.com/server.shop": ""}});
    let content = json!({"metadata": metadata, "spec": spec()});
    let uid = world.leave_version((SHOP, NAME), content, &installed()).await;
    let mut told = annotations();
    told.as_object_mut().unwrap().remove("olm.targetNamespaces");
    let copied = succeeded("Copied", "The operator is running in shop but is managing this namespace");
    for (namespace, labels) in [("mall", json!({"olm.managed": "true", "olm.copiedFrom": SHOP})), ("park", json!({}))] {
        let content = json!({"metadata": {"annotations": told, "labels": labels}, "spec": spec()});
        world.leave_version((namespace, NAME), content, &copied).await;
    }
    let secret = serving::secret(Timestamp::now() + SignedDuration::from_hours(24 * 300));
    for it in belongings(&uid, &secret).iter().chain([&deployment(&uid, &secret)]) {
        world.apply(it).await;
    }
    let mut owner = owned(NAME, SHOP, &uid)["ownerReferences"].clone();
    owner[0]["controller"] = json!(true);
    let condition = json!({"metadata": {"ownerReferences": owner}, "spec": {"serviceAccounts": ["server"], "deployments": ["server"]}});
    world.apply(&object("operators.coreos.com/v2", "OperatorCondition", (SHOP, NAME), condition)).await;
    let operator = json!({"apiVersion": "operators.coreos.com/v1", "kind": "Operator", "metadata": {"name": "server.shop"},
        "spec": {}});
    world.apply(&operator).await;
    world.kubectl(["rollout", "status", "-n", SHOP, "deployment/server", "--timeout=60s"]).await;
}

/// The API of packages, which the other implementation keeps by a version of its own. That is deleted before the process starts, as the
/// page on moving says. The APIService stays, and leads to the Service of the component afterwards.
async fn packages(world: &World) {
    let id = (NAMESPACE, "packageserver");
    let content = json!({"spec": {"displayName": "Package Server", "version": "1.0.0", "installModes": [],
        "install": {"strategy": "deployment", "spec": {"deployments": []}}}});
    let uid = world.leave_version(id, content, &installed()).await;
    let own = owned(id.1, NAMESPACE, &uid);
    let labels = json!({"app": id.1});
    let pod = json!({"containers": [{"name": "packageserver", "image": "registry.example.com/packageserver:1"}]});
    let spec = json!({"replicas": 0, "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": pod}});
    world.apply(&object("apps/v1", "Deployment", id, json!({"metadata": own, "spec": spec}))).await;
    let service = json!({"metadata": own, "spec": {"ports": [{"port": 5443}], "selector": labels}});
    world.apply(&object("v1", "Service", (NAMESPACE, "packageserver-service"), service)).await;
    world.kubectl(["delete", "csv", id.1, "-n", NAMESPACE]).await;
    let gone = ["deployment/packageserver", "service/packageserver-service"];
    world.kubectl(["wait", gone[0], gone[1], "-n", NAMESPACE, "--for=delete", "--timeout=2m"]).await;
    let mut labels = own["labels"].clone();
    labels.as_object_mut().unwrap().remove("olm.managed");
    let service = json!({"namespace": NAMESPACE, "name": "packageserver-service", "port": 5443});
    let (version, group) = PACKAGES.split_once('.').unwrap();
    world
        .apply(&json!({"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
            "metadata": {"name": PACKAGES, "labels": labels},
            "spec": {"group": group, "version": version, "groupPriorityMinimum": 2000, "versionPriority": 15,
                "service": service}}))
        .await;
}

/// All versions and copies are as they were, wherever they are.
async fn assert_all_have_succeeded(world: &World) {
    let csvs: Api<ClusterServiceVersion> = Api::all(world.client.clone());
    let all = csvs.list(&ListParams::default()).await.unwrap();
    let odd = all.iter().filter(|it| it.status.as_ref().is_none_or(|status| status.phase != Phase::Succeeded));
    let odd: Vec<_> = odd.map(|it| (it.namespace(), it.name_any())).collect();
    assert!(odd.is_empty(), "{odd:?}");
    let namespaces: Api<Namespace> = Api::all(world.client.clone());
    let namespaces = namespaces.list(&ListParams::default()).await.unwrap().items.len();
    assert_eq!(all.items.len(), namespaces, "one is the original, and each other namespace has a copy");
}

#[tokio::test(flavor = "multi_thread")]
async fn operator_of_another_implementation_is_taken_over_while_it_runs() {
    let world = World::up().await;
    left(&world).await;
    packages(&world).await;
    assert!(!world.unlabelled().await.is_empty());
    let before = world.running().await;
    assert_eq!(before.pods.len(), 1);

    world.start();
    let is_ours = |it: &Deployment| it.labels().get(HASH).is_some_and(|hash| hash != "3aFg7h");
    let wait = world.cluster.until("the operator to be looked at", &[PROCESS]).within(LIMIT);
    wait.existing(world.deployments(), "server", is_ours).await.unwrap();
    world.until_succeeded(NAME).await;
    let copies: Api<ClusterServiceVersion> = Api::namespaced(world.client.clone(), "park");
    let is_known = |it: &ClusterServiceVersion| it.labels().get("olm.copiedFrom").is_some_and(|from| from == SHOP);
    let wait = world.cluster.until("the copy to have its label", &[PROCESS]).within(LIMIT);
    wait.existing(copies, NAME, is_known).await.unwrap();
    let wait = world.cluster.until("everything to have the label", &[PROCESS]).within(LIMIT);
    wait.holds(async || world.unlabelled().await.is_empty()).await.unwrap();
    world.until_at_rest().await;
    assert_eq!(world.running().await, before);
    assert_eq!(world.without_owner().await, [""; 0]);
    assert_all_have_succeeded(&world).await;

    writes_nothing(&world).await;
    assert_eq!(world.running().await, before);
    world.down().await;
}
