//! What is wrong with a release, found without a cluster and before anybody installs it.

use crate::gate::reported;
use crate::object::built_in::is_of_kubernetes;
use crate::object::definition::definitions;
use crate::object::manifest::{Manifest, ObjectId};
use serde::Serialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What was looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) enum Check {
    /// A manifest that no cluster profile includes.
    NoProfile,
    /// A file whose name has no run level and component.
    NoRunLevel,
    /// An object in manifests of two components.
    TwoComponents,
    /// A kind that neither Kubernetes nor the release defines.
    UnknownKind,
    /// A kind that is defined at a later run level than it is used.
    LateKind,
    /// A namespace that nothing in the release makes.
    NoNamespace,
    /// A namespace that is made at a later run level than it is used.
    LateNamespace,
    /// An image that is named without a digest.
    ImageByTag,
    /// A ClusterOperator in a component that runs nothing that could report it.
    NobodyReports,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) enum Weight {
    /// An installation or an update would wait for ever, or not do what was meant.
    Error,
    /// It may be meant so, or counts only in the first update that brings it.
    Warning,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) struct Finding {
    pub weight: Weight,
    pub check: Check,
    pub file: String,
    pub object: String,
    /// What is wrong, and the way out.
    pub message: String,
}

const INCLUDE: &str = "include.release.openshift.io/";
/// They exist in every cluster.
const GIVEN_NAMESPACES: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];
const WORKLOADS: [&str; 6] = ["Deployment", "DaemonSet", "StatefulSet", "ReplicaSet", "Job", "CronJob"];
/// Kinds that come with the base image of every release, in a group that has others.
const OWN_KINDS: [(&str, &str); 2] =
    [("config.openshift.io", "ClusterOperator"), ("config.openshift.io", "ClusterVersion")];

/// All findings, errors first, then in the order of the files. `manifests`: in load order.
pub(crate) fn lint(manifests: &[Arc<Manifest>]) -> Vec<Finding> {
    let part = |manifest: &&Arc<Manifest>| takes_part(manifest);
    let included: Vec<Arc<Manifest>> = manifests.iter().filter(part).cloned().collect();
    let mut findings: Vec<Finding> =
        manifests.iter().filter(|manifest| !takes_part(manifest)).map(|manifest| no_profile(manifest)).collect();
    findings.extend(run_levels(&included));
    findings.extend(components(&included));
    findings.extend(kinds(&included));
    findings.extend(namespaces(&included));
    findings.extend(included.iter().flat_map(|manifest| images(manifest)));
    findings.extend(reporters(&included));
    findings.sort();
    findings
}

fn takes_part(manifest: &Manifest) -> bool {
    manifest.annotations.iter().any(|(key, value)| key.starts_with(INCLUDE) && value == "true")
}

fn found(manifest: &Manifest, weight: Weight, check: Check, message: impl Into<String>) -> Finding {
    let (file, object) = (manifest.file.to_string(), manifest.id.to_string());
    Finding { weight, check, file, object, message: message.into() }
}

fn no_profile(manifest: &Manifest) -> Finding {
    let message =
        format!("no cluster profile includes it: annotate it with {INCLUDE}self-managed-high-availability: \"true\"");
    found(manifest, Weight::Warning, Check::NoProfile, message)
}

fn run_levels(manifests: &[Arc<Manifest>]) -> Vec<Finding> {
    let mut seen = BTreeSet::new();
    let without =
        manifests.iter().filter(|manifest| manifest.run_level().is_none() && seen.insert(manifest.file.clone()));
    let message = "everything before it ends before it begins, and nothing after it begins before it ends: name the file \
                   0000_LEVEL_COMPONENT_REST";
    without.map(|manifest| found(manifest, Weight::Warning, Check::NoRunLevel, message)).collect()
}

/// Which one of two components is applied last is nobody's decision.
fn components(manifests: &[Arc<Manifest>]) -> Vec<Finding> {
    let mut first: BTreeMap<&ObjectId, &Manifest> = BTreeMap::new();
    let mut findings = Vec::new();
    for manifest in manifests.iter().filter(|manifest| manifest.delete() == Ok(false)) {
        let other = *first.entry(&manifest.id).or_insert(manifest);
        let component = |manifest: &Manifest| manifest.run_level().map(|(_, component)| component.to_owned());
        if component(other) != component(manifest) && different_profiles(other, manifest).is_none() {
            let message = format!("it is also in {}, of another component: keep it in one of them", other.file);
            findings.push(found(manifest, Weight::Error, Check::TwoComponents, message));
        }
    }
    findings
}

/// Manifests of which a cluster never includes both.
fn different_profiles(one: &Manifest, other: &Manifest) -> Option<()> {
    let profiles = |manifest: &Manifest| -> BTreeSet<String> {
        let included = manifest.annotations.iter().filter(|(key, value)| key.starts_with(INCLUDE) && *value == "true");
        included.map(|(key, _)| key.clone()).collect()
    };
    let filters =
        ["release.openshift.io/feature-set", "release.openshift.io/feature-gate", "capability.openshift.io/name"];
    let filtered = filters.iter().any(|key| one.annotation(key) != other.annotation(key));
    (profiles(one).is_disjoint(&profiles(other)) || filtered).then_some(())
}

/// The run level of the file; `None` is a barrier, of which the order alone counts.
fn level(manifest: &Manifest) -> Option<&str> {
    manifest.run_level().map(|(level, _)| level)
}

fn is_later(definer: &Manifest, user: &Manifest) -> bool {
    matches!((level(definer), level(user)), (Some(definer), Some(user)) if definer > user)
}

fn kinds(manifests: &[Arc<Manifest>]) -> Vec<Finding> {
    let mut defined: BTreeMap<(String, String), Vec<&Manifest>> = BTreeMap::new();
    for manifest in manifests {
        for kind in definitions(std::slice::from_ref(manifest)) {
            defined.entry((kind.group, kind.kind)).or_default().push(manifest);
        }
    }
    let aggregated: BTreeSet<String> = manifests.iter().filter_map(|manifest| api_service_group(manifest)).collect();
    let mut findings = Vec::new();
    for manifest in manifests {
        let ObjectId { group, kind, .. } = &manifest.id;
        if is_of_kubernetes(group) || aggregated.contains(group) {
            continue;
        }
        if OWN_KINDS.contains(&(group.as_str(), kind.as_str())) {
            continue;
        }
        match defined.get(&(group.clone(), kind.clone())) {
            None => findings.push(found(
                manifest,
                Weight::Error,
                Check::UnknownKind,
                format!("nothing in the release defines {kind}.{group}, so that it is waited for until somebody does: add its \
                         CustomResourceDefinition, unless each cluster has it"),
            )),
            Some(definers) if definers.iter().all(|definer| is_later(definer, manifest)) => {
                let file = definers.first().map_or("", |definer| &definer.file);
                let message = format!("its kind is defined later, in {file}, which an update that brings both reaches after \
                                       it: give the \
                                       definition the same run level or an earlier one");
                findings.push(found(manifest, Weight::Warning, Check::LateKind, message));
            }
            Some(_) => {}
        }
    }
    findings
}

fn api_service_group(manifest: &Manifest) -> Option<String> {
    if manifest.id.kind != "APIService" {
        return None;
    }
    Some(manifest.object().ok()?.pointer("/spec/group")?.as_str()?.to_owned())
}

fn namespaces(manifests: &[Arc<Manifest>]) -> Vec<Finding> {
    let makes = |manifest: &&Arc<Manifest>| {
        manifest.id.group.is_empty() && manifest.id.kind == "Namespace" && manifest.delete() == Ok(false)
    };
    let mut makers: BTreeMap<&str, Vec<&Manifest>> = BTreeMap::new();
    for maker in manifests.iter().filter(makes) {
        makers.entry(&maker.id.name).or_default().push(maker);
    }
    let mut findings = Vec::new();
    let mut told = BTreeSet::new();
    let inside = manifests.iter().filter(|it| !it.id.namespace.is_empty() && it.delete() == Ok(false));
    for manifest in inside.filter(|it| !GIVEN_NAMESPACES.contains(&it.id.namespace.as_str())) {
        let namespace = manifest.id.namespace.as_str();
        match makers.get(namespace) {
            None if told.insert(namespace) => findings.push(found(
                manifest,
                Weight::Warning,
                Check::NoNamespace,
                format!(
                    "nothing in the release makes the namespace {namespace}: add its manifest, unless an operator makes it or \
                     each cluster has it"
                ),
            )),
            None => {}
            Some(makers) if makers.iter().all(|maker| is_later(maker, manifest)) => {
                let file = makers.first().map_or("", |maker| &maker.file);
                let message = format!("its namespace is made later, in {file}, which an update that brings both reaches after \
                                       it: give the \
                                       namespace the same run level or an earlier one");
                findings.push(found(manifest, Weight::Warning, Check::LateNamespace, message));
            }
            Some(_) => {}
        }
    }
    findings
}

/// The pod templates of workloads, wherever they are in the object.
fn images(manifest: &Manifest) -> Vec<Finding> {
    if !WORKLOADS.contains(&manifest.id.kind.as_str()) && manifest.id.kind != "Pod" {
        return Vec::new();
    }
    let Ok(object) = manifest.object() else { return Vec::new() };
    let mut images = BTreeSet::new();
    collect_images(&object, &mut images);
    let by_tag = images.into_iter().filter(|image| !image.contains("@sha256:"));
    by_tag
        .map(|image| {
            let message = format!(
                "the image {image:?} has no digest, so that it can change after the release was signed: name it in \
                 image-references, or by its digest"
            );
            found(manifest, Weight::Warning, Check::ImageByTag, message)
        })
        .collect()
}

fn collect_images(value: &Value, images: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                match (key.as_str(), value) {
                    ("containers" | "initContainers", Value::Array(containers)) => {
                        let named = containers.iter().filter_map(|container| container.get("image")?.as_str());
                        images.extend(named.map(str::to_owned));
                    }
                    _ => collect_images(value, images),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect_images(item, images)),
        _ => {}
    }
}

fn reporters(manifests: &[Arc<Manifest>]) -> Vec<Finding> {
    let component = |manifest: &Manifest| manifest.run_level().map(|(_, component)| component.to_owned());
    let running: BTreeSet<String> = manifests
        .iter()
        .filter(|manifest| WORKLOADS.contains(&manifest.id.kind.as_str()))
        .filter_map(|manifest| component(manifest))
        .collect();
    // Without an operator the daemon reports them.
    let by_daemon = |manifest: &Manifest| manifest.annotation(reported::ANNOTATION) == Some("true");
    let operators = manifests.iter().filter(|it| it.id.kind == "ClusterOperator" && !by_daemon(it));
    let silent = operators.filter(|manifest| component(manifest).is_none_or(|component| !running.contains(&component)));
    let message = "its component runs nothing that could report it, and the release waits for it for ever: add the operator \
                   to the component, or remove the ClusterOperator, unless another component reports it";
    silent.map(|manifest| found(manifest, Weight::Warning, Check::NobodyReports, message)).collect()
}

#[cfg(test)]
mod tests;
