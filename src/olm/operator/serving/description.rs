//! Which webhooks and APIs of a ClusterServiceVersion are refused before anything is installed.

use super::endpoint::described;
use crate::olm::api::GROUP;
use crate::olm::api::cluster_service_version::{
    ClusterServiceVersion, InstallModeType, StrategyDetails, WebhookDescription, WebhookType,
};
use crate::olm::operator::requirements::Definition;
use k8s_openapi::api::admissionregistration::v1::RuleWithOperations;
use std::collections::{BTreeMap, BTreeSet};

const REGISTRATION: &str = "admissionregistration.k8s.io";
const CONFIGURATIONS: [&str; 3] = ["*", "mutatingwebhookconfigurations", "validatingwebhookconfigurations"];

/// Why nothing is installed. `definitions`: those of the cluster by name.
pub(crate) fn refusal(
    csv: &ClusterServiceVersion,
    strategy: &StrategyDetails,
    definitions: &BTreeMap<String, Definition>,
) -> Option<String> {
    let mut names = BTreeSet::new();
    for webhook in &csv.spec.webhook_definitions {
        // Clients compare the whole of this text and of those about rules.
        if !names.insert(&webhook.generate_name) {
            return Some("CSV contains repeated WebhookDescription name".to_owned());
        }
        let of_rules = webhook.rules.iter().find_map(refused_rule).map(str::to_owned);
        let found = of_rules.or_else(|| incomplete(webhook, strategy));
        if let Some(refusal) = found.or_else(|| refused_conversion(csv, webhook, definitions)) {
            return Some(refusal);
        }
    }
    ambiguous_port(csv)
}

/// Rules that could keep operators from being managed, or webhooks from being removed.
fn refused_rule(rule: &RuleWithOperations) -> Option<&'static str> {
    let groups = rule.api_groups.as_deref().unwrap_or_default();
    let has = |group: &str| groups.iter().any(|it| it == group);
    let mut resources = rule.resources.iter().flatten();
    // A subresource comes after its resource.
    let is_configuration = |resource: &String| {
        let resource = resource.split_once('/').map_or(resource.as_str(), |(resource, _)| resource);
        CONFIGURATIONS.contains(&resource.to_lowercase().as_str())
    };
    if has("*") {
        return Some("webhook rules cannot include all groups");
    }
    if has(GROUP) {
        return Some("webhook rules cannot include the OLM group");
    }
    (has(REGISTRATION) && resources.any(is_configuration)).then_some(
        "webhook rules cannot include MutatingWebhookConfiguration or ValidatingWebhookConfiguration resources",
    )
}

fn incomplete(webhook: &WebhookDescription, strategy: &StrategyDetails) -> Option<String> {
    let WebhookDescription { generate_name: name, type_, deployment_name: deployment, container_port, .. } = webhook;
    let refused = |what: &str| Some(format!("webhook {name:?} of spec.webhookdefinitions: {what}"));
    if name.is_empty() {
        return refused("generateName is empty; name the webhook");
    }
    if let WebhookType::Other(type_) = type_ {
        return refused(&format!(
            "its type {type_:?} is none of ValidatingAdmissionWebhook, MutatingAdmissionWebhook and ConversionWebhook; correct it"
        ));
    }
    if strategy.deployments.iter().all(|it| it.name != *deployment) {
        return refused(&format!(
            "no Deployment {deployment:?} is in spec.install.spec.deployments; correct deploymentName"
        ));
    }
    match container_port {
        Some(port) if !(0..=65_535).contains(port) => refused("containerPort is not from 1 to 65535; correct it"),
        _ => None,
    }
}

/// A conversion concerns all namespaces, and one operator alone decides on it.
fn refused_conversion(
    csv: &ClusterServiceVersion,
    webhook: &WebhookDescription,
    definitions: &BTreeMap<String, Definition>,
) -> Option<String> {
    if webhook.type_ != WebhookType::Conversion {
        return None;
    }
    let refused = |what: String| {
        Some(format!("ConversionWebhook {:?} of spec.webhookdefinitions: {what}", webhook.generate_name))
    };
    let supported: Vec<_> = csv.spec.install_modes.iter().filter(|mode| mode.supported).collect();
    if supported.is_empty() || supported.iter().any(|mode| mode.type_ != InstallModeType::AllNamespaces) {
        return refused(
            "a CSV with one must support AllNamespaces alone in spec.installModes; correct them".to_owned(),
        );
    }
    for name in &webhook.conversion_crds {
        if csv.spec.custom_resource_definitions.owned.iter().all(|owned| owned.name != *name) {
            return refused(format!(
                "CustomResourceDefinition {name} is not owned by this CSV; add it to spec.customresourcedefinitions.owned, or remove \
                 it from conversionCRDs"
            ));
        }
        if definitions.get(name).is_some_and(|it| it.keeps_unknown_fields) {
            return refused(format!(
                "CustomResourceDefinition {name} has spec.preserveUnknownFields: true, with which nothing is converted; set it to \
                 false"
            ));
        }
    }
    None
}

/// A port of a Service leads to one port of its pods.
fn ambiguous_port(csv: &ClusterServiceVersion) -> Option<String> {
    let mut targets = BTreeMap::new();
    let mut described = described(csv);
    described.find_map(|(deployment, port, target)| {
        let known = targets.entry((deployment, port)).or_insert_with(|| target.clone());
        (*known != target).then(|| {
            let text = |target: &_| serde_json::to_string(target).unwrap_or_default();
            format!(
                "containerPort {port} of Deployment {deployment} leads to the port {} of its pods and to {} in spec.webhookdefinitions \
                 and spec.apiservicedefinitions; give each another containerPort",
                text(known),
                text(&target)
            )
        })
    })
}
