use super::schema::{Seen, fields};
use super::{KINDS, Kind, schema_of, versions};
use crate::olm::api::catalog_source::{CatalogSource, Connection, SourceType};
use crate::olm::api::cluster_service_version::{InstallModeType, Phase, Requirement, WebhookType};
use crate::olm::api::install_plan::{InstallPlanPhase, StepStatus};
use crate::olm::api::operator_condition::OperatorCondition;
use crate::olm::api::package_manifest::{
    Apis, ChannelEntry, CrdSummary, CsvDescription, Deprecation, PackageChannel, PackageManifest, PackageManifestSpec,
    PackageManifestStatus,
};
use crate::olm::api::subscription::{Approval, State};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::collections::BTreeSet;

#[test]
fn types_and_definitions_have_the_same_fields() {
    for kind in KINDS {
        let definition = kind.definition();
        let schema = schema_of(&definition, kind.version);
        let seen = Seen::of(schema, &(kind.full)());
        assert_eq!(seen.faults, Vec::<String>::new(), "{}", kind.plural);
        let lacking: Vec<_> = fields(schema).difference(&seen.fields).cloned().collect();
        assert_eq!(lacking, Vec::<String>::new(), "{}: the type does not have them", kind.plural);
    }
}

#[test]
fn what_is_required_is_written_even_if_it_is_empty() {
    for kind in KINDS {
        let definition = kind.definition();
        let faults = Seen::of(schema_of(&definition, kind.version), &(kind.least)()).faults;
        assert_eq!(faults, Vec::<String>::new(), "{}", kind.plural);
    }
}

#[test]
fn older_versions_are_served_and_the_version_of_our_type_is_stored() {
    for kind in KINDS {
        let definition = kind.definition();
        let newest = fields(schema_of(&definition, kind.version));
        for version in versions(&definition) {
            let name = version["name"].as_str().unwrap();
            assert_eq!((&version["served"], &version["storage"]), (&json!(true), &json!(name == kind.version)));
            let older = fields(schema_of(&definition, name));
            let lost: Vec<_> = older.difference(&newest).collect();
            assert!(lost.is_empty(), "{} {name}: {} lacks {lost:?}", kind.plural, kind.version);
        }
    }
}

/// Kind, scope, versions with the stored one last, short names, and columns.
type Known = (
    &'static str,
    &'static str,
    &'static str,
    &'static [&'static str],
    &'static [&'static str],
    &'static [&'static str],
);

const KNOWN: [Known; 9] = [
    (
        "catalogsources",
        "CatalogSource",
        "Namespaced",
        &["v1alpha1"],
        &["catsrc"],
        &["Display", "Type", "Publisher", "Age"],
    ),
    (
        "clusterserviceversions",
        "ClusterServiceVersion",
        "Namespaced",
        &["v1alpha1"],
        &["csv", "csvs"],
        &["Display", "Version", "Release", "Replaces", "Phase"],
    ),
    ("installplans", "InstallPlan", "Namespaced", &["v1alpha1"], &["ip"], &["CSV", "Approval", "Approved"]),
    ("olmconfigs", "OLMConfig", "Cluster", &["v1"], &[], &[]),
    ("operatorconditions", "OperatorCondition", "Namespaced", &["v1", "v2"], &["condition"], &[]),
    ("operatorgroups", "OperatorGroup", "Namespaced", &["v1alpha2", "v1"], &["og"], &[]),
    ("operatorhubs", "OperatorHub", "Cluster", &["v1"], &[], &[]),
    ("operators", "Operator", "Cluster", &["v1"], &[], &[]),
    ("subscriptions", "Subscription", "Namespaced", &["v1alpha1"], &["sub", "subs"], &["Package", "Source", "Channel"]),
];

#[test]
fn clients_find_kinds_by_the_names_that_they_know() {
    for (plural, kind, scope, known, short_names, columns) in KNOWN {
        let definition = Kind::of(plural).definition();
        let (hub, spec) = (plural == "operatorhubs", &definition["spec"]);
        let group = if hub { "config.openshift.io" } else { "operators.coreos.com" };
        assert_eq!(definition["metadata"]["name"], format!("{plural}.{group}"));
        assert_eq!(
            (&spec["group"], &spec["scope"], &spec["names"]["kind"]),
            (&json!(group), &json!(scope), &json!(kind))
        );
        let texts = |value: &Value| -> Vec<String> {
            value.as_array().into_iter().flatten().map(|it| it.as_str().unwrap().to_owned()).collect()
        };
        assert_eq!(texts(&spec["names"]["shortNames"]), short_names);
        assert_eq!(texts(&spec["names"]["categories"]), if hub { vec![] } else { vec!["olm"] });
        let mut served: Vec<&Value> = versions(&definition).iter().collect();
        served.sort_by_key(|version| version["storage"] == true);
        assert_eq!(served.iter().map(|version| &version["name"]).collect::<Vec<_>>(), known);
        for version in served {
            assert_eq!(version["subresources"], json!({"status": {}}), "{plural}");
            let shown: Vec<&Value> =
                version["additionalPrinterColumns"].as_array().into_iter().flatten().map(|it| &it["name"]).collect();
            assert_eq!(shown, columns);
        }
    }
}

/// Otherwise the API server would drop the key, and the empty selector that remains means all namespaces.
#[test]
fn group_keeps_what_documentation_shows_of_it() {
    let kind = Kind::of("operatorgroups");
    let definition = kind.definition();
    for version in ["v1", "v1alpha2"] {
        let faults = |spec: Value| {
            let group = json!({"metadata": {}, "spec": spec});
            Seen::of(schema_of(&definition, version), &group).faults
        };
        let (labels, expressions) = (json!({"a": "b"}), json!([{"key": "a", "operator": "Exists"}]));
        for selector in [
            json!({}),
            json!({"matchLabels": labels, "matchExpressions": expressions}),
            json!({"cool.io/prod": "true"}),
            json!({"matchLabels": labels, "cool.io/prod": "true"}),
        ] {
            assert_eq!(faults(json!({"selector": selector})), Vec::<String>::new(), "{selector}");
        }
        let account = json!({"metadata": {"creationTimestamp": null}});
        let both = json!({"selector": {}, "targetNamespaces": ["local"], "serviceAccount": account});
        assert_eq!(faults(both), Vec::<String>::new());
        assert_eq!(faults(json!({"selector": []})).len(), 1);
    }
}

#[test]
fn samples_that_people_copy_lose_nothing() {
    let catalog = json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource",
        "metadata": {"generation": 1, "name": "example-catalog", "namespace": "openshift-marketplace", "annotations": {
            "olm.catalogImageTemplate": "quay.io/example/catalog:v{kube_major_version}.{kube_minor_version}.{kube_patch_version}"}},
        "spec": {"displayName": "Example Catalog", "image": "quay.io/example/catalog:v1", "priority": -400,
            "publisher": "Example Org", "sourceType": "grpc",
            "grpcPodConfig": {"securityContextConfig": "restricted", "nodeSelector": {"custom_label": "value"},
                "priorityClassName": "system-cluster-critical",
                "tolerations": [{"key": "key1", "operator": "Equal", "value": "value1", "effect": "NoSchedule"}]},
            "updateStrategy": {"registryPoll": {"interval": "30m0s"}}},
        "status": {"connectionState": {"address": "example-catalog.openshift-marketplace.svc:50051",
                "lastConnect": "2021-08-26T18:14:31Z", "lastObservedState": "READY"},
            "latestImageRegistryPoll": "2021-08-26T18:46:25Z",
            "registryService": {"createdAt": "2021-08-26T16:16:37Z", "port": "50051", "protocol": "grpc",
                "serviceName": "example-catalog", "serviceNamespace": "openshift-marketplace"}}});
    whole::<CatalogSource>("catalogsources", "v1alpha1", &catalog);
    // Of the older version, though with the conditions where the newer one has them.
    let condition = json!({
        "apiVersion": "operators.coreos.com/v1", "kind": "OperatorCondition",
        "metadata": {"name": "my-operator", "namespace": "operators"},
        "spec": {"conditions": [{"type": "Upgradeable", "status": "False", "reason": "migration",
                "message": "The Operator is performing a migration.", "lastTransitionTime": "2020-08-24T23:15:55Z"}],
            "overrides": [{"type": "Upgradeable", "status": "True", "reason": "upgradeIsSafe", "message": "It works."}]}});
    let seen = Seen::of(schema_of(&Kind::of("operatorconditions").definition(), "v1"), &condition);
    assert_eq!(seen.faults, Vec::<String>::new());
    let read: OperatorCondition = serde_json::from_value(condition).unwrap();
    assert_eq!((read.spec.conditions.len(), read.spec.overrides.len()), (1, 1));
}

fn whole<T: Serialize + DeserializeOwned>(plural: &str, version: &str, sample: &Value) {
    let seen = Seen::of(schema_of(&Kind::of(plural).definition(), version), sample);
    assert_eq!(seen.faults, Vec::<String>::new());
    let read: T = serde_json::from_value(sample.clone()).unwrap();
    assert_eq!(&serde_json::to_value(read).unwrap(), sample);
}

fn keeps<T: Serialize + DeserializeOwned + PartialEq>(known: &[&str], other: fn(String) -> T) {
    let texts: Vec<&str> = known.iter().copied().chain(["of a later version"]).collect();
    let read = |text: &str| serde_json::from_value::<T>(json!(text)).unwrap();
    for text in &texts {
        assert_eq!(serde_json::to_value(read(text)).unwrap(), json!(text));
    }
    assert!(read("of a later version") == other("of a later version".to_owned()));
    assert!(known.iter().all(|text| read(text) != other((*text).to_owned())), "{known:?} are known");
}

#[test]
fn enumerations_keep_texts_that_they_do_not_know() {
    keeps(&["grpc", "configmap", "internal"], SourceType::Other);
    keeps(&["IDLE", "CONNECTING", "READY", "TRANSIENT_FAILURE", "SHUTDOWN"], Connection::Other);
    keeps(&["Automatic", "Manual"], Approval::Other);
    keeps(&["", "UpgradeAvailable", "UpgradePending", "AtLatestKnown", "UpgradeFailed"], State::Other);
    keeps(&["", "Planning", "RequiresApproval", "Installing", "Complete", "Failed"], InstallPlanPhase::Other);
    keeps(
        &["Unknown", "NotPresent", "Present", "Created", "NotCreated", "WaitingForApi", "UnsupportedResource"],
        StepStatus::Other,
    );
    keeps(
        &["", "Pending", "InstallReady", "Installing", "Succeeded", "Failed", "Unknown", "Replacing", "Deleting"],
        Phase::Other,
    );
    keeps(
        &[
            "Present",
            "NotPresent",
            "PresentNotSatisfied",
            "PresentNotAvailable",
            "DeploymentFound",
            "DeploymentNotFound",
            "Satisfied",
            "NotSatisfied",
        ],
        Requirement::Other,
    );
    keeps(&["OwnNamespace", "SingleNamespace", "MultiNamespace", "AllNamespaces"], InstallModeType::Other);
    keeps(&["ValidatingAdmissionWebhook", "MutatingAdmissionWebhook", "ConversionWebhook"], WebhookType::Other);
}

/// Clients read them without asking whether they are there.
#[test]
fn package_has_all_that_clients_expect_even_if_it_is_empty() {
    let mut package = PackageManifest::new("etcd", PackageManifestSpec {});
    let channel = PackageChannel { entries: vec![ChannelEntry::default()], ..PackageChannel::default() };
    package.status = Some(PackageManifestStatus { channels: vec![channel], ..PackageManifestStatus::default() });
    let expected = json!({
        "apiVersion": "packages.operators.coreos.com/v1", "kind": "PackageManifest", "metadata": {"name": "etcd"}, "spec": {},
        "status": {"catalogSource": "", "catalogSourceDisplayName": "", "catalogSourcePublisher": "",
            "catalogSourceNamespace": "", "provider": {}, "packageName": "", "defaultChannel": "",
            "channels": [{"name": "", "currentCSV": "", "entries": [{"name": ""}], "currentCSVDesc": {"version": "",
                "provider": {}, "customresourcedefinitions": {}, "apiservicedefinitions": {}}}]}});
    assert_eq!(serde_json::to_value(&package).unwrap(), expected);
    assert_eq!(
        serde_json::to_value(serde_json::from_value::<PackageManifest>(expected.clone()).unwrap()).unwrap(),
        expected
    );
}

#[test]
fn package_names_its_fields_as_clients_do() {
    let crd = CrdSummary { name: "etcds.example.com".into(), display_name: "etcd".into(), ..CrdSummary::default() };
    let description = CsvDescription {
        display_name: "etcd".into(),
        native_apis: vec![crate::olm::api::cluster_service_version::NativeApi::default()],
        min_kube_version: "1.30.0".into(),
        related_images: vec!["example.com/etcd".into()],
        install_modes: vec![crate::olm::api::cluster_service_version::InstallMode::default()],
        custom_resource_definitions: Apis { owned: vec![crd], required: Vec::new() },
        ..CsvDescription::default()
    };
    let channel = PackageChannel {
        deprecation: Some(Deprecation { message: "old".into() }),
        current_csv_desc: description,
        ..PackageChannel::default()
    };
    let json = serde_json::to_value(channel).unwrap();
    let names = |value: &Value| -> BTreeSet<String> { value.as_object().unwrap().keys().cloned().collect() };
    let expected = |names: &[&str]| -> BTreeSet<String> { names.iter().map(|name| (*name).to_owned()).collect() };
    assert_eq!(names(&json), expected(&["name", "currentCSV", "currentCSVDesc", "entries", "deprecation"]));
    let description = [
        "apiservicedefinitions",
        "customresourcedefinitions",
        "displayName",
        "installModes",
        "minKubeVersion",
        "nativeApis",
        "provider",
        "relatedImages",
        "version",
    ];
    assert_eq!(names(&json["currentCSVDesc"]), expected(&description));
    assert_eq!(json["currentCSVDesc"]["relatedImages"], json!(["example.com/etcd"]));
    let crd = &json["currentCSVDesc"]["customresourcedefinitions"]["owned"][0];
    assert_eq!(names(crd), expected(&["name", "version", "kind", "displayName"]));
}

/// A comma in a text without quotes ends it, and what follows is taken for a field.
#[test]
fn definitions_have_no_field_that_the_api_server_does_not_know() {
    for kind in KINDS {
        let ours = kind.definition();
        let known: CustomResourceDefinition = serde_json::from_value(ours.clone()).unwrap();
        let lost = lost(&ours, &serde_json::to_value(known).unwrap(), kind.plural);
        assert!(lost.is_empty(), "{lost:#?}");
    }
}

/// Where `ours` has fields that `theirs` lacks.
fn lost(ours: &Value, theirs: &Value, at: &str) -> Vec<String> {
    match ours {
        Value::Object(map) => {
            let lost = |(name, inner): (&String, &Value)| match theirs.get(name) {
                None => vec![format!("{at}.{name}")],
                Some(theirs) => lost(inner, theirs, &format!("{at}.{name}")),
            };
            map.iter().flat_map(lost).collect()
        }
        Value::Array(list) => {
            list.iter().enumerate().flat_map(|(i, inner)| lost(inner, &theirs[i], &format!("{at}[{i}]"))).collect()
        }
        _ => Vec::new(),
    }
}
