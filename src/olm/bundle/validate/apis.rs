//! Kinds that the operator owns and definitions in the bundle, each of which needs the other; APIServices and webhooks, which
//! need a Deployment.

use super::super::Bundle;
use super::super::csv::{DefinitionReference, Webhook};
use super::super::definition::Definition;
use super::super::finding::{Check, Finding};
use crate::object::definition::defined_group;
use std::collections::BTreeSet;

const WEBHOOKS: [&str; 3] = ["ValidatingAdmissionWebhook", "MutatingAdmissionWebhook", "ConversionWebhook"];
const CONVERSION: &str = "ConversionWebhook";

pub(super) fn check(bundle: &Bundle) -> Vec<Finding> {
    let mut findings = Vec::new();
    owned(bundle, &mut findings);
    required(bundle, &mut findings);
    definitions(bundle, &mut findings);
    api_services(bundle, &mut findings);
    webhooks(bundle, &mut findings);
    findings
}

fn error(bundle: &Bundle, check: Check, place: &str, message: String) -> Finding {
    let object = bundle.csv_object();
    Finding::error(check, (&object.file, object.line), place, message)
}

fn owned(bundle: &Bundle, findings: &mut Vec<Finding>) {
    let mut seen = BTreeSet::new();
    for (number, owned) in bundle.csv.spec.definitions.owned.iter().enumerate() {
        let place = format!("spec.customresourcedefinitions.owned[{number}]");
        let mut add = |message: String| findings.push(error(bundle, Check::Definition, &place, message));
        if let Some(message) = incomplete(owned) {
            add(message);
            continue;
        }
        if !seen.insert((&owned.name, &owned.version)) {
            add(format!("{} in {} is there twice: keep one of them", owned.name, owned.version));
        }
        match bundle.definitions.iter().find(|definition| definition.name == owned.name) {
            None => add(format!("the bundle has no definition of {}: add the CustomResourceDefinition", owned.name)),
            Some(definition) => {
                if let Some(message) = mismatch(owned, definition) {
                    add(message);
                }
            }
        }
    }
}

fn incomplete(it: &DefinitionReference) -> Option<String> {
    if it.name.is_empty() || it.version.is_empty() || it.kind.is_empty() {
        return Some("name, version and kind must be set: add what is missing".to_owned());
    }
    let message = || format!("{:?} is no name of a definition: write <plural>.<group>", it.name);
    defined_group(&it.name).is_none().then(message)
}

fn mismatch(owned: &DefinitionReference, definition: &Definition) -> Option<String> {
    let file = &definition.file;
    if definition.kind != owned.kind {
        return Some(format!(
            "its kind is {:?} here and {:?} in {file}: make them the same",
            owned.kind, definition.kind
        ));
    }
    match definition.versions.iter().find(|(name, _)| *name == owned.version) {
        None => Some(format!("{file} has no version {}: add it, or name one that it has", owned.version)),
        Some((_, false)) => {
            Some(format!("{file} does not serve the version {}: serve it, or name another", owned.version))
        }
        Some((_, true)) => None,
    }
}

fn required(bundle: &Bundle, findings: &mut Vec<Finding>) {
    let lists = &bundle.csv.spec.definitions;
    for (number, required) in lists.required.iter().enumerate() {
        let place = format!("spec.customresourcedefinitions.required[{number}]");
        if let Some(message) = incomplete(required) {
            findings.push(error(bundle, Check::Definition, &place, message));
        } else if lists.owned.iter().any(|owned| (&owned.name, &owned.version) == (&required.name, &required.version)) {
            let message = format!("{} is owned as well: remove it here", required.name);
            let object = bundle.csv_object();
            findings.push(Finding::warning(Check::Definition, (&object.file, object.line), &place, message));
        }
    }
}

fn definitions(bundle: &Bundle, findings: &mut Vec<Finding>) {
    for it in &bundle.definitions {
        let at = (&*it.file, it.line);
        let owned: Vec<&str> =
            bundle.csv.spec.definitions.owned.iter().filter(|o| o.name == it.name).map(|o| &*o.version).collect();
        if owned.is_empty() {
            let message = "the ClusterServiceVersion does not own it, so that nobody looks after it: add it to \
                           spec.customresourcedefinitions.owned, or remove the file"
                .to_owned();
            findings.push(Finding::error(Check::Definition, at, &it.name, message));
        }
        let expected = format!("{}.{}", it.plural, it.group);
        if it.name != expected {
            let message =
                format!("plural and group make {expected:?}, and the API server refuses any other name: rename it");
            findings.push(Finding::error(Check::Name, at, &it.name, message));
        }
        if it.served().next().is_none() {
            let message = "no version is served, so that nobody can use it: set served for one".to_owned();
            findings.push(Finding::error(Check::Definition, at, &it.name, message));
        }
        let unnamed: Vec<&str> = it.served().filter(|version| !owned.contains(version)).collect();
        if !owned.is_empty() && !unnamed.is_empty() {
            let message = format!(
                "the ClusterServiceVersion does not own its version {}: add it there, so that people see it",
                unnamed.join(", ")
            );
            findings.push(Finding::warning(Check::Definition, at, &it.name, message));
        }
    }
}

/// Why nothing would answer behind a Service, if that is so.
fn without_deployment(bundle: &Bundle, name: &str) -> Option<String> {
    let deployments = &bundle.csv.spec.install.spec.deployments;
    let message = || format!("there is no Deployment {name:?} in spec.install: correct deploymentName");
    deployments.iter().all(|deployment| deployment.name != name).then(message)
}

fn api_services(bundle: &Bundle, findings: &mut Vec<Finding>) {
    let lists = &bundle.csv.spec.api_services;
    let owned = lists.owned.iter().map(|it| ("owned", it)).enumerate();
    for (number, (list, it)) in owned.chain(lists.required.iter().map(|it| ("required", it)).enumerate()) {
        let place = format!("spec.apiservicedefinitions.{list}[{number}]");
        if [&it.name, &it.group, &it.version, &it.kind].into_iter().any(String::is_empty) {
            let message = "name, group, version and kind must be set: add what is missing".to_owned();
            findings.push(error(bundle, Check::Endpoint, &place, message));
        }
        if let Some(message) = without_deployment(bundle, &it.deployment_name).filter(|_| list == "owned") {
            findings.push(error(bundle, Check::Endpoint, &place, message));
        }
    }
}

fn webhooks(bundle: &Bundle, findings: &mut Vec<Finding>) {
    let mut names = BTreeSet::new();
    for (number, webhook) in bundle.csv.spec.webhooks.iter().enumerate() {
        let place = format!("spec.webhookdefinitions[{number}]");
        let mut add = |message: String| findings.push(error(bundle, Check::Endpoint, &place, message));
        if webhook.generate_name.is_empty() {
            add("generateName must be set: name the webhook".to_owned());
        } else if !names.insert(&webhook.generate_name) {
            add(format!(
                "the name {:?} is there twice, so that nothing is installed: rename one",
                webhook.generate_name
            ));
        }
        if !WEBHOOKS.contains(&webhook.kind.as_str()) {
            add(format!("{:?} is no type of a webhook: there are {}", webhook.kind, WEBHOOKS.join(", ")));
        }
        without_deployment(bundle, &webhook.deployment_name).into_iter().for_each(&mut add);
        if webhook.container_port.is_some_and(|port| !(1..=65_535).contains(&port)) {
            add("containerPort must be from 1 to 65535: correct it".to_owned());
        }
        refused_rules(webhook).into_iter().for_each(&mut add);
        conversion(bundle, webhook).into_iter().for_each(&mut add);
    }
}

/// Rules that could keep a cluster from being managed.
fn refused_rules(webhook: &Webhook) -> Vec<String> {
    let mut found = BTreeSet::new();
    for rule in &webhook.rules {
        for group in rule.api_groups.iter().filter(|group| matches!(group.as_str(), "*" | "operators.coreos.com")) {
            found.insert(format!(
                "a rule is for the group {group:?}, which is refused: name the groups that the operator needs"
            ));
        }
        let registration = rule.api_groups.iter().any(|group| group == "admissionregistration.k8s.io");
        let configurations = ["*", "mutatingwebhookconfigurations", "validatingwebhookconfigurations"];
        for resource in rule.resources.iter().filter(|it| registration && configurations.contains(&it.as_str())) {
            found.insert(format!(
                "a rule is for {resource:?} of admissionregistration.k8s.io, which is refused: remove it"
            ));
        }
    }
    found.into_iter().collect()
}

fn conversion(bundle: &Bundle, webhook: &Webhook) -> Vec<String> {
    if webhook.kind != CONVERSION {
        return Vec::new();
    }
    let mut found = Vec::new();
    let others = ["OwnNamespace", "SingleNamespace", "MultiNamespace"].iter().any(|mode| bundle.csv.supports(mode));
    if others || !bundle.csv.supports("AllNamespaces") {
        found.push(
            "a conversion webhook serves the whole cluster: support AllNamespaces alone in spec.installModes"
                .to_owned(),
        );
    }
    if webhook.conversion_crds.is_empty() {
        found.push("conversionCRDs is empty: name the definitions that it converts".to_owned());
    }
    for name in &webhook.conversion_crds {
        if bundle.csv.spec.definitions.owned.iter().all(|owned| owned.name != *name) {
            found.push(format!("conversionCRDs: the operator does not own {name:?}: correct it"));
        }
        if bundle.definitions.iter().any(|definition| definition.name == *name && definition.preserves_unknown_fields) {
            found.push(format!(
                "{name} preserves unknown fields, which no conversion allows: set preserveUnknownFields to false"
            ));
        }
    }
    found
}
