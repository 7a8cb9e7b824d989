//! The pod that serves a catalog, and what belongs to it: account, policies of the network, and the Service that leads to it. All of it
//! is made of the CatalogSource alone, so that whatever differs from that is known by a hash.

pub(crate) mod bundle;
pub(crate) mod decide;

use crate::merge::quantity;
use crate::olm::api::catalog_source::{CatalogSource, ExtractContent, GrpcPodConfig, SecurityConfig};
use crate::olm::api::keys::{annotation, label};
use crate::olm::endpoints::{PORT, label_of, owner};
use crate::olm::source::spec::{Why, service_name};
use decide::PodSeen;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

/// The container with the server.
const CONTAINER: &str = "registry-server";
/// Lets an autoscaler remove the node: the pod is made anew elsewhere.
const SAFE_TO_EVICT: &str = "cluster-autoscaler.kubernetes.io/safe-to-evict";
/// On pods: the image as the CatalogSource names it, and why it has a pod.
pub(crate) const IMAGE: &str = "olm.operatorframework.io/catalog-image";
pub(crate) const WHY: &str = "olm.operatorframework.io/catalog-serving-reason";
/// Where catalogs are in images that do not say so, or cannot be asked.
const CONFIGS: &str = "/configs";
/// What is requested for the server.
const CPU: &str = "10m";
const MEMORY: &str = "50Mi";
/// The user where the platform asks for one.
const USER: i64 = 1001;
/// The profile of pod security that lets in only pods which cannot be root.
const RESTRICTED: &str = "restricted";
/// Longest beginning of a generated name: the server adds five characters, and a pod's name is the name of its host.
const MAX_PREFIX: usize = 58;
/// Volumes of a pod that serves what it has taken out of an image.
const TOOLS: &str = "utilities";
const CONTENT: &str = "catalog-content";
const SCRATCH: &str = "tmp";
/// Where these are.
const TOOL: &str = "/utilities/cvo";
const CATALOG: &str = "/extracted-catalog/catalog";

/// How images are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ImageAccess {
    /// By this process, and where a registry refuses it or cannot be reached, through nodes.
    #[default]
    Auto,
    Direct,
    Pod,
}

/// How pods are made besides what a CatalogSource says, and which of them there are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pods<'a> {
    /// Each catalog of an image has one.
    pub always: bool,
    pub access: ImageAccess,
    /// What the namespace enforces of pod security.
    pub enforced: Option<&'a str>,
    /// The platform gives the pods of the namespace their users.
    pub has_users: bool,
    /// Pods have a user of our own.
    pub set_user: bool,
    /// Why the API server takes no pod of this catalog.
    pub refused: Option<String>,
    /// The image of this process, which serves what is taken out of an image.
    pub server_image: &'a str,
    /// Those of this catalog.
    pub seen: Vec<PodSeen>,
}

/// What the pod of a catalog is made of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PodInput<'a> {
    pub source: &'a CatalogSource,
    /// The image as it is named.
    pub named: &'a str,
    /// The same with its digest, as far as the registry has told it.
    pub image: &'a str,
    pub why: Why,
    pub pods: &'a Pods<'a>,
}

/// What is made for a pod, besides the pod, and the pod itself: to be in use at once, and to be a candidate.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Objects {
    pub account: Value,
    pub policies: [Value; 2],
    pub service: Value,
    pub pod: Value,
    pub candidate: Value,
}

impl Objects {
    pub(crate) fn of(input: &PodInput<'_>) -> Objects {
        Objects {
            account: account(input),
            policies: policies(input),
            service: service(input),
            pod: pod(input, false),
            candidate: pod(input, true),
        }
    }
}

impl PodInput<'_> {
    fn name(&self) -> &str {
        self.source.metadata.name.as_deref().unwrap_or_default()
    }

    fn config(&self) -> GrpcPodConfig {
        self.source.spec.grpc_pod_config.clone().unwrap_or_default()
    }

    fn mode(&self) -> SecurityConfig {
        let chosen = self.source.spec.grpc_pod_config.as_ref().and_then(|config| config.security_context_config);
        chosen.unwrap_or(match self.pods.enforced {
            Some(RESTRICTED) => SecurityConfig::Restricted,
            _ => SecurityConfig::Legacy,
        })
    }

    /// Where only pods that are not root are let in, and nothing else says who they are, none would be.
    fn sets_user(&self) -> bool {
        self.pods.set_user || (self.pods.enforced == Some(RESTRICTED) && !self.pods.has_users)
    }

    fn metadata(&self, name: &str) -> Value {
        json!({
            "name": name, "namespace": self.source.metadata.namespace,
            "labels": {label::MANAGED: "true", label::CATALOG_SOURCE: label_of(self.name())},
            "ownerReferences": [owner(self.name(), self.source.metadata.uid.as_deref().unwrap_or_default())],
        })
    }
}

/// The account of the pod, with the credentials for its image.
pub(crate) fn account(input: &PodInput<'_>) -> Value {
    let secrets: Vec<Value> = input.source.spec.secrets.iter().map(|name| json!({"name": name})).collect();
    json!({
        "apiVersion": "v1", "kind": "ServiceAccount", "metadata": input.metadata(input.name()),
        "imagePullSecrets": secrets,
    })
}

/// The same with the pull secrets that somebody else has added to it, as some platforms do.
pub(crate) fn account_with(mut wanted: Value, live: &Value) -> Value {
    const SECRETS: &str = "imagePullSecrets";
    let list = |object: &Value| object.get(SECRETS).and_then(Value::as_array).cloned().unwrap_or_default();
    let (own, mut all) = (list(&wanted), list(live));
    all.extend(own.into_iter().filter(|secret| !list(live).contains(secret)));
    set(&mut wanted, SECRETS, if all.is_empty() { Value::Null } else { all.into() });
    wanted
}

/// The policy of the server, which may be asked and asks nobody, and the one of pods that unpack bundles of the catalog.
pub(crate) fn policies(input: &PodInput<'_>) -> [Value; 2] {
    let policy = |name: String, spec: Value| {
        json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": input.metadata(&name),
            "spec": spec,
        })
    };
    let catalog = label_of(input.name());
    let server = json!({
        "podSelector": {"matchLabels": {label::CATALOG_SOURCE: catalog}}, "policyTypes": ["Ingress", "Egress"],
        "ingress": [{"ports": [{"protocol": "TCP", "port": PORT}]}], "egress": null,
    });
    let bundles = json!({
        "podSelector": {"matchExpressions": [
            {"key": label::BUNDLE_UNPACK_REF, "operator": "Exists"}, {"key": label::MANAGED, "operator": "In", "values": ["true"]},
        ]},
        "policyTypes": ["Ingress", "Egress"], "ingress": null, "egress": [{}],
    });
    [
        policy(format!("{}-grpc-server", input.name()), server),
        policy(format!("{}-unpack-bundles", input.name()), bundles),
    ]
}

/// The Service that leads to the pod in use.
pub(crate) fn service(input: &PodInput<'_>) -> Value {
    let spec = json!({
        "ports": [{"name": "grpc", "protocol": "TCP", "port": PORT, "targetPort": PORT}],
        "selector": {label::CATALOG_SOURCE: label_of(input.name())},
    });
    let mut service =
        json!({"apiVersion": "v1", "kind": "Service", "metadata": input.metadata(&service_name(input.name()))});
    set(&mut service, "spec", spec.clone());
    set_label(&mut service, label::SERVICE_SPEC_HASH, &hash(&spec));
    service
}

/// The pod. `candidate`: it is not in use yet, so that no Service leads to it.
pub(crate) fn pod(input: &PodInput<'_>, candidate: bool) -> Value {
    let mut annotations = input.source.metadata.annotations.clone().unwrap_or_default();
    // What kubectl keeps for itself is of the CatalogSource, and may be too large for two.
    annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
    annotations.insert(SAFE_TO_EVICT.to_owned(), "true".to_owned());
    annotations.insert(IMAGE.to_owned(), input.named.to_owned());
    annotations.extend(input.why.word().map(|word| (WHY.to_owned(), word.to_owned())));
    let spec = spec(input);
    let prefix: String = format!("{}-", input.name()).chars().take(MAX_PREFIX).collect();
    let mut metadata = input.metadata("");
    if let Some(metadata) = metadata.as_object_mut() {
        metadata.remove("name");
        metadata.insert("generateName".to_owned(), prefix.into());
        metadata.insert("annotations".to_owned(), json!(annotations));
    }
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec});
    set_label(&mut pod, label::POD_SPEC_HASH, &hash(&json!([spec, annotations])));
    if candidate {
        set_label(&mut pod, label::CATALOG_SOURCE, "");
        set_label(&mut pod, label::CATALOG_UPDATE, &label_of(input.name()));
    }
    pod
}

/// The containers of a pod with their images.
pub(crate) fn images(pod: &Value) -> BTreeMap<&str, &str> {
    let lists =
        ["initContainers", "containers"].map(|key| pod.pointer(&format!("/spec/{key}")).and_then(Value::as_array));
    let named = lists.into_iter().flatten().flatten();
    named.filter_map(|it| Some((it.get("name")?.as_str()?, it.get("image")?.as_str()?))).collect()
}

/// By which a pod that is as wanted is known.
pub(crate) fn pod_hash(pod: &Value) -> &str {
    let labels = pod.pointer("/metadata/labels");
    labels.and_then(|labels| labels.get(label::POD_SPEC_HASH)?.as_str()).unwrap_or_default()
}

fn spec(input: &PodInput<'_>) -> Value {
    let extract = input.config().extract_content.filter(|extract| !extract.catalog_dir.is_empty());
    // An image that is only data has no server.
    let data = || ExtractContent { catalog_dir: CONFIGS.to_owned(), ..ExtractContent::default() };
    let extract = extract.or_else(|| (input.why == Why::Access).then(data));
    let mut spec = placed(input);
    set(&mut spec, "serviceAccountName", input.name().into());
    set(&mut spec, "containers", json!([server(input, extract.as_ref())]));
    if let Some(extract) = &extract {
        set(&mut spec, "initContainers", extraction(input, extract));
        set(&mut spec, "volumes", volumes(&[TOOLS, CONTENT, SCRATCH]));
    }
    spec
}

/// A pod without containers: where it runs, and as whom.
fn placed(input: &PodInput<'_>) -> Value {
    let config = input.config();
    let selector =
        config.node_selector.unwrap_or_else(|| BTreeMap::from([("kubernetes.io/os".into(), "linux".into())]));
    let mut spec = json!({"automountServiceAccountToken": false, "nodeSelector": selector});
    let priority = input.source.metadata.annotations.as_ref().and_then(|all| all.get(annotation::PRIORITY_CLASS));
    let priority = priority.cloned().or(config.priority_class_name).filter(|name| !name.is_empty());
    for (key, value) in [
        ("tolerations", (!config.tolerations.is_empty()).then(|| json!(config.tolerations))),
        ("affinity", config.affinity),
        ("priorityClassName", priority.map(Value::from)),
        ("securityContext", security_of_pod(input)),
    ] {
        value.into_iter().for_each(|value| set(&mut spec, key, value));
    }
    spec
}

fn volumes(names: &[&str]) -> Value {
    names.iter().map(|name| json!({"name": name, "emptyDir": {}})).collect()
}

fn security_of_pod(input: &PodInput<'_>) -> Option<Value> {
    let restricted = json!({"seccompProfile": {"type": "RuntimeDefault"}});
    match (input.mode(), input.sets_user()) {
        (SecurityConfig::Legacy, _) => None,
        (SecurityConfig::Restricted, false) => Some(restricted),
        (SecurityConfig::Restricted, true) => {
            let mut security = restricted;
            set(&mut security, "runAsNonRoot", true.into());
            set(&mut security, "runAsUser", USER.into());
            Some(security)
        }
    }
}

/// `read_only`: nothing is written to the root of the container.
fn security(input: &PodInput<'_>, read_only: bool) -> Value {
    let mut security = json!({"readOnlyRootFilesystem": read_only});
    if input.mode() == SecurityConfig::Restricted {
        set(&mut security, "allowPrivilegeEscalation", false.into());
        set(&mut security, "capabilities", json!({"drop": ["ALL"]}));
    }
    security
}

fn server(input: &PodInput<'_>, extract: Option<&ExtractContent>) -> Value {
    let target = input.config().memory_target;
    let memory = target.as_ref().map_or(MEMORY, |target| target.0.as_str());
    let probe = |more: Value| {
        let mut probe = json!({"grpc": {"port": PORT}, "timeoutSeconds": 5});
        for (key, value) in more.as_object().into_iter().flatten() {
            set(&mut probe, key, value.clone());
        }
        probe
    };
    let image = if extract.is_some() { input.pods.server_image } else { input.image };
    let mut container = json!({
        "name": CONTAINER, "image": image, "imagePullPolicy": pull_policy(image),
        "ports": [{"name": "grpc", "containerPort": PORT, "protocol": "TCP"}],
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "resources": {"requests": {"cpu": CPU, "memory": memory}},
        "readinessProbe": probe(json!({"initialDelaySeconds": 5})),
        "livenessProbe": probe(json!({"initialDelaySeconds": 10})),
        "startupProbe": probe(json!({"periodSeconds": 10, "failureThreshold": 15})),
        "securityContext": security(input, extract.is_some()),
    });
    // Programs in Go keep to that.
    let bytes = target.as_ref().and_then(|target| quantity::parts(&target.0, 1));
    if let Some(bytes) = bytes {
        set(&mut container, "env", json!([{"name": "GOMEMLIMIT", "value": format!("{bytes}B")}]));
    }
    if extract.is_some() {
        let command =
            ["/usr/bin/cvo", "catalog", "serve", CATALOG, "--listen=0.0.0.0:50051", "--cache-dir=/tmp/catalog"];
        set(&mut container, "command", json!(command));
        set(
            &mut container,
            "volumeMounts",
            json!([mount(CONTENT, "/extracted-catalog", true), mount(SCRATCH, "/tmp", false)]),
        );
    }
    container
}

/// Takes the catalog out of the image: the first container brings the program that does it, because the image need have none.
fn extraction(input: &PodInput<'_>, extract: &ExtractContent) -> Value {
    // What another server has made of the catalog (`cacheDir`) is of no use to ours.
    let copy = [TOOL, "payload", "copy-folder", "--from", &extract.catalog_dir, "--to", CATALOG];
    let mounts = json!([mount(TOOLS, "/utilities", true), mount(CONTENT, "/extracted-catalog", false)]);
    json!([tool(input), step(input, ("extract-content", input.image), &copy, mounts)])
}

/// Brings the program to where containers of other images find it.
fn tool(input: &PodInput<'_>) -> Value {
    let install = ["/usr/bin/cvo", "payload", "install-tool", "--to", TOOL];
    step(input, ("extract-utilities", input.pods.server_image), &install, json!([mount(TOOLS, "/utilities", false)]))
}

/// A container that ends by itself.
fn step(input: &PodInput<'_>, (name, image): (&str, &str), command: &[&str], mounts: Value) -> Value {
    json!({
        "name": name, "image": image, "imagePullPolicy": pull_policy(image), "command": command,
        "volumeMounts": mounts, "terminationMessagePolicy": "FallbackToLogsOnError",
        "resources": {"requests": {"cpu": CPU, "memory": MEMORY}}, "securityContext": security(input, true),
    })
}

fn mount(name: &str, path: &str, read_only: bool) -> Value {
    json!({"name": name, "mountPath": path, "readOnly": read_only})
}

fn pull_policy(image: &str) -> &'static str {
    if image.contains('@') { "IfNotPresent" } else { "Always" }
}

fn set(object: &mut Value, key: &str, value: Value) {
    if let Some(object) = object.as_object_mut() {
        object.insert(key.to_owned(), value);
    }
}

fn set_label(object: &mut Value, key: &str, value: &str) {
    let labels = object.get_mut("metadata").and_then(|metadata| metadata.get_mut("labels"));
    if let Some(labels) = labels.and_then(Value::as_object_mut) {
        labels.insert(key.to_owned(), value.into());
    }
}

/// As a label can have it.
fn hash(value: &Value) -> String {
    let hash = hex::encode(Sha256::digest(value.to_string()));
    hash.get(..40).unwrap_or(&hash).to_owned()
}

#[cfg(test)]
mod tests;
