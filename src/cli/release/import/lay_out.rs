//! The files of a component, from the objects that it consists of.

use crate::cli::release::assemble::repository;
use crate::cli::release::mark::mark;
use crate::gate::reported::ANNOTATION as REPORT_WORKLOADS;
use crate::object::built_in::{is_cluster_scoped, is_of_kubernetes};
use crate::object::manifest::Origin;
use crate::release::load::manifests_of;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};

/// How the component is to be made.
#[derive(Clone, Copy, Debug)]
pub(super) struct Component<'a> {
    pub name: &'a str,
    pub level: u8,
    /// Of objects that name none.
    pub namespace: Option<&'a str>,
    pub profile: &'a str,
    /// An operator of its own reports the ClusterOperator of its name; otherwise the daemon does.
    pub operator: bool,
    pub allow_secrets: bool,
}

#[derive(Debug, Default)]
pub(super) struct LaidOut {
    /// Base name and content.
    pub files: BTreeMap<String, Vec<u8>>,
    /// Name in `image-references`, and the image as the objects name it.
    pub images: BTreeMap<String, String>,
    /// What was done with some objects, for the user.
    pub remarks: Vec<String>,
}

/// Kinds by the order in which they are applied, within one component. Everything else in a group of Kubernetes comes with the
/// configuration, and every object of an own kind after the workloads.
const ORDER: [(u8, &[&str]); 7] = [
    (0, &["Namespace"]),
    (5, &["CustomResourceDefinition"]),
    (10, &["ServiceAccount", "PriorityClass", "RuntimeClass", "StorageClass", "ResourceQuota", "LimitRange"]),
    (15, &["Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"]),
    (30, &["Service"]),
    (40, &["Deployment", "DaemonSet", "StatefulSet", "ReplicaSet", "Pod", "Job", "CronJob"]),
    (
        70,
        &[
            "ValidatingWebhookConfiguration",
            "MutatingWebhookConfiguration",
            "APIService",
            "ValidatingAdmissionPolicy",
            "ValidatingAdmissionPolicyBinding",
            "HorizontalPodAutoscaler",
        ],
    ),
];
const CONFIGURATION: u8 = 20;
const OWN_KINDS: u8 = 60;
const OPERATOR: u8 = 90;

/// The files, or all that is wrong.
pub(super) fn lay_out(objects: Vec<Value>, component: &Component<'_>) -> Result<LaidOut, Vec<String>> {
    let mut out = LaidOut::default();
    let mut problems = Vec::new();
    let mut kept = Vec::new();
    for object in objects {
        if let Some(hook) = text(&object, "/metadata/annotations/helm.sh~1hook") {
            if !hook.starts_with("test") {
                out.remarks.push(format!("{} is left out: nothing runs the hook {hook} of Helm", named(&object)));
            }
            continue;
        }
        if text(&object, "/kind") == Some("Secret") && !component.allow_secrets {
            problems.push(format!(
                "{} would be in the release image for everybody to read: create it in the cluster, or give --allow-secrets",
                named(&object)
            ));
        }
        kept.push(object);
    }
    add_namespaces(&mut kept, component, &mut problems, &mut out.remarks);
    if !problems.is_empty() {
        return Err(problems);
    }
    if !kept.iter().any(|object| text(object, "/kind") == Some("ClusterOperator")) {
        kept.push(operator(component, &kept));
    }
    for mut object in kept {
        note_images(&object, &mut out.images, &mut out.remarks);
        mark(&mut object, component.profile);
        let name = file_name(&object, component, &out.files);
        let text = written(&object).map_err(|error| vec![format!("{name}: {error}")])?;
        out.files.insert(name, text.into_bytes());
    }
    if !out.images.is_empty() {
        let references = serde_yaml::to_string(&references(&out.images)).map_err(|error| vec![error.to_string()])?;
        out.files.insert("image-references".to_owned(), references.into_bytes());
    }
    Ok(out)
}

/// As YAML, if it is read back as it was: what one version of YAML takes for text, such as `yes`, is something else in another. Else
/// as JSON.
fn written(object: &Value) -> Result<String, String> {
    let yaml = serde_yaml::to_string(object).map_err(|error| error.to_string())?;
    let read = manifests_of(Origin::Release, "", yaml.as_bytes()).unwrap_or_default();
    let same = read.first().and_then(|manifest| manifest.object().ok()).is_some_and(|read| read == *object);
    if same { Ok(yaml) } else { serde_json::to_string_pretty(object).map_err(|error| error.to_string()) }
}

/// Gives objects the namespace that they leave open, and the component the namespace if nothing else makes it.
fn add_namespaces(
    objects: &mut Vec<Value>,
    component: &Component<'_>,
    problems: &mut Vec<String>,
    remarks: &mut Vec<String>,
) {
    let scopes: BTreeMap<String, bool> = objects.iter().filter_map(scope).collect();
    for object in objects.iter_mut() {
        let kind = text(object, "/kind").unwrap_or_default();
        let namespaced = match scopes.get(&format!("{}/{kind}", group(object))) {
            Some(namespaced) => Some(*namespaced),
            None if is_of_kubernetes(group(object)) => Some(!is_cluster_scoped(group(object), kind)),
            None => None,
        };
        if namespaced == Some(false) || text(object, "/metadata/namespace").is_some() {
            continue;
        }
        match (namespaced, component.namespace) {
            (Some(_), Some(namespace)) => {
                if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
                    metadata.insert("namespace".to_owned(), json!(namespace));
                }
            }
            (Some(_), None) => {
                problems.push(format!("{} names no namespace: give one with --namespace", named(object)));
            }
            (None, _) => remarks.push(format!(
                "{} names no namespace, and its kind is not defined here: add one to its file if it needs one",
                named(object)
            )),
        }
    }
    let made = |name: &str| {
        let mut namespaces = objects.iter().filter(|object| text(object, "/kind") == Some("Namespace"));
        namespaces.any(|object| text(object, "/metadata/name") == Some(name))
    };
    if let Some(name) = component.namespace.filter(|name| !made(name)) {
        objects.push(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}));
    }
}

/// Group and kind that a definition defines, and whether objects are in namespaces.
fn scope(object: &Value) -> Option<(String, bool)> {
    (text(object, "/kind") == Some("CustomResourceDefinition")).then_some(())?;
    let name = format!("{}/{}", text(object, "/spec/group")?, text(object, "/spec/names/kind")?);
    Some((name, text(object, "/spec/scope")? == "Namespaced"))
}

/// The ClusterOperator, with the versions that it has to report. Without an operator the daemon reports for it.
fn operator(component: &Component<'_>, objects: &[Value]) -> Value {
    let namespaces = objects.iter().filter_map(|object| text(object, "/metadata/namespace"));
    let namespaces: BTreeSet<&str> = namespaces.chain(component.namespace).collect();
    let related: Vec<Value> =
        namespaces.into_iter().map(|name| json!({"group": "", "resource": "namespaces", "name": name})).collect();
    let mut metadata = json!({"name": component.name});
    if !component.operator {
        metadata = json!({"name": component.name, "annotations": {REPORT_WORKLOADS: "true"}});
    }
    json!({
        "apiVersion": "config.openshift.io/v1",
        "kind": "ClusterOperator",
        "metadata": metadata,
        "spec": {},
        "status": {"versions": [{"name": "operator", "version": "0.0.1-snapshot"}], "relatedObjects": related},
    })
}

/// Remembers the images of containers, wherever in the object they are: own kinds hold templates of pods, too. Operators are told the
/// images of their operands in environment variables.
fn note_images(value: &Value, images: &mut BTreeMap<String, String>, remarks: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for key in ["containers", "initContainers"] {
                let containers = fields.get(key).and_then(Value::as_array).into_iter().flatten();
                for image in containers.filter_map(|container| container.get("image")?.as_str()) {
                    note_image(image, images, remarks);
                }
            }
            let variables = fields.get("env").and_then(Value::as_array).into_iter().flatten();
            let related = |name: &str| name.starts_with("RELATED_IMAGE_");
            let operands = variables.filter(|variable| text(variable, "/name").is_some_and(related));
            for image in operands.filter_map(|variable| text(variable, "/value")) {
                note_image(image, images, remarks);
            }
            fields.values().for_each(|field| note_images(field, images, remarks));
        }
        Value::Array(items) => items.iter().for_each(|item| note_images(item, images, remarks)),
        _ => {}
    }
}

/// One name for each repository: its last part, with a number if that is taken.
fn note_image(image: &str, images: &mut BTreeMap<String, String>, remarks: &mut Vec<String>) {
    if let Some(known) = images.values().find(|known| repository(known) == repository(image)) {
        let remark = format!("{image} becomes the same image as {known}: a release has one of each repository");
        if known != image && !remarks.contains(&remark) {
            remarks.push(remark);
        }
        return;
    }
    let last = repository(image).rsplit('/').next().unwrap_or_default();
    let stem = clean(last);
    let numbered = (2u32..).map(|n| format!("{stem}-{n}"));
    let free = std::iter::once(stem.clone()).chain(numbered).find(|name| !images.contains_key(name));
    if let Some(name) = free {
        images.insert(name, image.to_owned());
    }
}

fn references(images: &BTreeMap<String, String>) -> Value {
    let tags: Vec<Value> = images
        .iter()
        .map(|(name, image)| json!({"name": name, "from": {"kind": "DockerImage", "name": image}}))
        .collect();
    json!({"kind": "ImageStream", "apiVersion": "image.openshift.io/v1", "spec": {"tags": tags}})
}

/// Such as `0000_50_ingress_40_deployment-ingress-controller.yaml`.
fn file_name(object: &Value, component: &Component<'_>, taken: &BTreeMap<String, Vec<u8>>) -> String {
    let (level, name) = (component.level, component.name);
    let kind = text(object, "/kind").unwrap_or_default().to_lowercase();
    let object_name = clean(text(object, "/metadata/name").unwrap_or_default());
    let stem = short(format!("0000_{level:02}_{name}_{:02}_{kind}-{object_name}", order(object)));
    let numbered = (2u32..).map(|n| format!("{stem}-{n}.yaml"));
    let mut names = std::iter::once(format!("{stem}.yaml")).chain(numbered);
    names.find(|name| !taken.contains_key(name)).unwrap_or_default()
}

/// A file name has at most 255 bytes, and the name of an object alone may have 253: what is longer is cut, and a hash keeps it apart
/// from others.
fn short(stem: String) -> String {
    const MOST: usize = 200;
    let kept = stem.floor_char_boundary(MOST);
    match stem.get(..kept) {
        Some(kept) if kept.len() < stem.len() => {
            let hash = hex::encode(Sha256::digest(stem.as_bytes()));
            format!("{kept}-{}", hash.get(..16).unwrap_or(&hash))
        }
        _ => stem,
    }
}

fn order(object: &Value) -> u8 {
    let kind = text(object, "/kind").unwrap_or_default();
    if kind == "ClusterOperator" && group(object) == "config.openshift.io" {
        return OPERATOR;
    }
    if !is_of_kubernetes(group(object)) {
        return OWN_KINDS;
    }
    ORDER.iter().find(|(_, kinds)| kinds.contains(&kind)).map_or(CONFIGURATION, |(order, _)| *order)
}

fn group(object: &Value) -> &str {
    text(object, "/apiVersion").and_then(|version| version.split_once('/')).map_or("", |(group, _)| group)
}

/// With characters that file names and tags may have.
fn clean(text: &str) -> String {
    let fine = |c: char| if c.is_ascii_alphanumeric() || c == '-' || c == '.' { c.to_ascii_lowercase() } else { '-' };
    text.chars().map(fine).collect()
}

fn named(object: &Value) -> String {
    let (kind, name) = (text(object, "/kind").unwrap_or_default(), text(object, "/metadata/name").unwrap_or_default());
    format!("{kind} {name}")
}

fn text<'a>(object: &'a Value, pointer: &str) -> Option<&'a str> {
    object.pointer(pointer).and_then(Value::as_str).filter(|text| !text.is_empty())
}
