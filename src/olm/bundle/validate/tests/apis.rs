//! Kinds, APIServices and webhooks.

use super::*;

#[test]
#[rustfmt::skip]
fn owned_kinds_and_definitions_need_each_other() {
    let owned = "spec.customresourcedefinitions.owned[0]";
    expect(&[
        (CSV_FILE, "      version: v1\n", "      version: v2\n", Error, Check::Definition, owned, "has no version v2"),
        (CSV_FILE, "      version: v1\n", "      version: v1alpha1\n", Error, Check::Definition, owned, "does not serve the version v1alpha1"),
        (CSV_FILE, "      kind: Widget\n", "      kind: Gadget\n", Error, Check::Definition, owned, "\"Gadget\" here and \"Widget\""),
        (CSV_FILE, "      kind: Widget\n", "", Error, Check::Definition, owned, "must be set"),
        (CSV_FILE, "- name: widgets.example.com", "- name: widgets", Error, Check::Definition, owned, "<plural>.<group>"),
        (CSV_FILE, "- name: widgets.example.com", "- name: gadgets.example.com", Error, Check::Definition, owned, "no definition of gadgets"),
        (CSV_FILE, "- name: widgets.example.com", "- name: gadgets.example.com", Error, Check::Definition, "widgets.example.com", "does not own it"),
        (CSV_FILE, "    owned:\n", "    owned:\n    - {name: widgets.example.com, version: v1, kind: Widget}\n", Error, Check::Definition, "spec.customresourcedefinitions.owned[1]", "there twice"),
        (CSV_FILE, "gears.example.com", "widgets.example.com", Warning, Check::Definition, "spec.customresourcedefinitions.required[0]", "owned as well"),
        (CSV_FILE, ", kind: Gear", "", Error, Check::Definition, "spec.customresourcedefinitions.required[0]", "must be set"),
        (CSV_FILE, "gears.example.com", "gears.", Error, Check::Definition, "spec.customresourcedefinitions.required[0]", "<plural>.<group>"),
        (CSV_FILE, "gears.example.com", ".example.com", Error, Check::Definition, "spec.customresourcedefinitions.required[0]", "<plural>.<group>"),
        (CRD_FILE, "plural: widgets", "plural: gadgets", Error, Check::Name, "widgets.example.com", "\"gadgets.example.com\""),
        (CRD_FILE, "served: true", "served: false", Error, Check::Definition, "widgets.example.com", "no version is served"),
        (CRD_FILE, "served: false", "served: true", Warning, Check::Definition, "widgets.example.com", "v1alpha1"),
        (CRD_FILE, "served: false", "served: maybe", Error, Check::Definition, "widgets.example.com", "cannot be read"),
    ]);
    let missing = found(&without(CRD_FILE));
    assert_eq!((missing.len(), &*missing[0].place), (1, owned), "{missing:?}");
}

#[test]
#[rustfmt::skip]
fn api_services_and_webhooks_need_deployments() {
    let webhooks = |text: &str| format!("  webhookdefinitions:\n  - {{{text}}}\n  displayName: Widget Operator");
    let services = "  apiservicedefinitions: {owned: [{name: a, group: b, version: v1, deploymentName: gone}]}\n  displayName: Widget Operator";
    let from = "  displayName: Widget Operator";
    let service = "spec.apiservicedefinitions.owned[0]";
    let place = "spec.webhookdefinitions[0]";
    let good = "generateName: a, type: ValidatingAdmissionWebhook, deploymentName: widget-operator";
    let conversion = good.replace("Validating", "").replace("Admission", "").replace("type: ", "type: Conversion");
    let rules = |rule: &str| webhooks(&format!("{good}, rules: [{rule}]"));
    expect(&[
        (CSV_FILE, from, services, Error, Check::Endpoint, service, "no Deployment \"gone\""),
        (CSV_FILE, from, services, Error, Check::Endpoint, service, "must be set"),
        (CSV_FILE, from, &webhooks("type: ValidatingAdmissionWebhook"), Error, Check::Endpoint, place, "generateName must be set"),
        (CSV_FILE, from, &webhooks("generateName: a, type: Other"), Error, Check::Endpoint, place, "\"Other\" is no type"),
        (CSV_FILE, from, &webhooks("generateName: a, deploymentName: gone"), Error, Check::Endpoint, place, "no Deployment \"gone\""),
        (CSV_FILE, from, &webhooks(&format!("{good}, containerPort: 70000")), Error, Check::Endpoint, place, "1 to 65535"),
        (CSV_FILE, from, &webhooks(&format!("{good}}}\n  - {{{good}")), Error, Check::Endpoint, "spec.webhookdefinitions[1]", "there twice"),
        (CSV_FILE, from, &rules("{apiGroups: ['*']}"), Error, Check::Endpoint, place, "group \"*\""),
        (CSV_FILE, from, &rules("{apiGroups: [operators.coreos.com]}"), Error, Check::Endpoint, place, "group \"operators.coreos.com\""),
        (CSV_FILE, from, &rules("{apiGroups: [admissionregistration.k8s.io], resources: [mutatingwebhookconfigurations]}"), Error, Check::Endpoint, place, "\"mutatingwebhookconfigurations\""),
        (CSV_FILE, from, &webhooks(&conversion), Error, Check::Endpoint, place, "support AllNamespaces alone"),
        (CSV_FILE, from, &webhooks(&conversion), Error, Check::Endpoint, place, "conversionCRDs is empty"),
        (CSV_FILE, from, &webhooks(&format!("{conversion}, conversionCRDs: [gears.example.com]")), Error, Check::Endpoint, place, "does not own"),
    ]);
    assert_eq!(found(&replaced(CSV_FILE, from, &rules("{apiGroups: [example.com], resources: ['*']}"))), []);
}

#[test]
fn conversion_needs_definitions_that_keep_no_unknown_fields() {
    let webhook = "  webhookdefinitions: [{generateName: a, type: ConversionWebhook, deploymentName: widget-operator, \
                   conversionCRDs: [widgets.example.com]}]\n  displayName: Widget Operator";
    let mut files = replaced(CSV_FILE, "  displayName: Widget Operator", webhook);
    let kept = replaced(CRD_FILE, "  scope: Namespaced", "  scope: Namespaced\n  preserveUnknownFields: true");
    files.retain(|file| file.path != CRD_FILE);
    files.extend(kept.into_iter().filter(|file| file.path == CRD_FILE));
    let all = found(&files);
    assert!(all.iter().any(|it| it.message.contains("widgets.example.com preserves unknown fields")), "{all:?}");
}
