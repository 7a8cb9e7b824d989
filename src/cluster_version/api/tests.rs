//! Compares our CRD files with our types, and with the CRDs of OpenShift if they are at hand.

use crate::cluster_version::api::*;
use crate::object::cluster_operator;
use crate::object::cluster_operator::ClusterOperator;
use crate::object::condition::{Condition, ConditionStatus};
use crate::release::api::{ComponentOverride, MatchingRule, PromQl};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition as MetaCondition, Time};
use serde_json::{Value, json};
use std::collections::BTreeSet;

const CLUSTER_VERSIONS: &str = include_str!(concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/manifests/cluster-version/0000_00_cluster-version-operator_01_clusterversions.crd.yaml"
));
const CLUSTER_OPERATORS: &str = include_str!(concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/manifests/cluster-version/0000_00_cluster-version-operator_01_clusteroperators.crd.yaml"
));

fn crd(text: &str) -> Value {
    serde_yaml::from_str(text).unwrap()
}

fn schema(crd: &Value) -> &Value {
    crd.pointer("/spec/versions/0/schema/openAPIV3Schema").unwrap()
}

/// Every property below `schema`, as `spec.overrides[].kind`.
fn schema_paths(schema: &Value, at: &str, into: &mut BTreeSet<String>) {
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let path = if at.is_empty() { name.clone() } else { format!("{at}.{name}") };
        into.insert(path.clone());
        schema_paths(property, &path, into);
    }
    if let Some(items) = schema.get("items") {
        schema_paths(items, &format!("{at}[]"), into);
    }
}

/// Every key below `value`, in the same notation. `metadata` and `extension` are opaque to the schema.
fn value_paths(value: &Value, at: &str, into: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => {
            for (name, inner) in map {
                let path = if at.is_empty() { name.clone() } else { format!("{at}.{name}") };
                into.insert(path.clone());
                if path != "metadata" && path != "status.extension" {
                    value_paths(inner, &path, into);
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| value_paths(item, &format!("{at}[]"), into)),
        _ => {}
    }
}

/// Places where `value` lacks a key that `schema` requires.
fn missing(schema: &Value, value: &Value, at: &str, into: &mut Vec<String>) {
    for key in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        if value.get(key).is_none() {
            into.push(format!("{at}.{key}"));
        }
    }
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        if let Some(inner) = value.get(name) {
            missing(property, inner, &format!("{at}.{name}"), into);
        }
    }
    for item in value.as_array().into_iter().flatten() {
        missing(&schema["items"], item, &format!("{at}[]"), into);
    }
}

fn time() -> Time {
    Time("2026-01-02T03:04:05Z".parse().unwrap())
}

fn condition() -> Condition {
    Condition {
        type_: "Available".into(),
        status: ConditionStatus::True,
        last_transition_time: time(),
        reason: "AsExpected".into(),
        message: "all is well".into(),
    }
}

fn meta_condition() -> MetaCondition {
    MetaCondition {
        type_: "Recommended".into(),
        status: "True".into(),
        reason: "AsExpected".into(),
        message: "no risk applies".into(),
        last_transition_time: time(),
        observed_generation: Some(3),
    }
}

fn risk() -> ConditionalUpdateRisk {
    ConditionalUpdateRisk {
        url: "https://example.com/risk".into(),
        name: "Risk".into(),
        message: "may hurt".into(),
        matching_rules: vec![MatchingRule {
            type_: "PromQL".into(),
            promql: Some(PromQl { promql: "vector(1)".into() }),
        }],
        conditions: vec![meta_condition()],
    }
}

fn release() -> Release {
    Release {
        version: "1.0.0".into(),
        image: "example.com/release@sha256:0".into(),
        url: "https://example.com/1.0.0".into(),
        channels: vec!["stable".into()],
        architecture: "Multi".into(),
    }
}

fn full_spec() -> ClusterVersionSpec {
    ClusterVersionSpec {
        cluster_id: "5d8f1f0a-8f1e-4c55-9a55-0d5d6b5a8f11".into(),
        desired_update: Some(Update {
            architecture: "Multi".into(),
            version: "1.0.1".into(),
            image: "example.com/release@sha256:1".into(),
            force: true,
            accept_risks: vec![AcceptRisk { name: "Risk".into() }],
            mode: "Preflight".into(),
        }),
        upstream: "https://example.com/graph".into(),
        channel: "stable".into(),
        capabilities: Some(CapabilitiesSpec {
            baseline_capability_set: "None".into(),
            additional_enabled_capabilities: vec!["Console".into()],
        }),
        signature_stores: Some(vec![SignatureStore {
            url: "https://example.com/signatures".into(),
            ca: Some(ConfigMapName { name: "ca".into() }),
        }]),
        overrides: vec![ComponentOverride {
            kind: "Deployment".into(),
            group: "apps".into(),
            namespace: "console".into(),
            name: "console".into(),
            unmanaged: true,
        }],
    }
}

fn full_status() -> ClusterVersionStatus {
    ClusterVersionStatus {
        desired: release(),
        history: vec![HistoryEntry {
            state: HistoryState::Completed,
            started_time: time(),
            completion_time: Some(time()),
            version: "1.0.0".into(),
            image: "example.com/release@sha256:0".into(),
            verified: true,
            accepted_risks: "none".into(),
        }],
        observed_generation: 1,
        version_hash: "AAAAAAAAAAA=".into(),
        capabilities: Capabilities {
            enabled_capabilities: vec!["Console".into()],
            known_capabilities: vec!["Console".into()],
        },
        conditions: vec![condition()],
        available_updates: Some(vec![release()]),
        conditional_updates: vec![ConditionalUpdate {
            release: release(),
            risks: vec![risk()],
            conditions: vec![meta_condition()],
            risk_names: vec!["Risk".into()],
        }],
        conditional_update_risks: vec![risk()],
    }
}

fn full_cluster_version() -> Value {
    let mut object = ClusterVersion::new("version", full_spec());
    object.status = Some(full_status());
    serde_json::to_value(object).unwrap()
}

fn full_cluster_operator() -> Value {
    let mut object = ClusterOperator::new("console", cluster_operator::ClusterOperatorSpec {});
    object.status = Some(cluster_operator::ClusterOperatorStatus {
        conditions: vec![condition()],
        versions: vec![cluster_operator::OperandVersion { name: "operator".into(), version: "1.0.0".into() }],
        related_objects: vec![cluster_operator::RelatedObject {
            group: "apps".into(),
            resource: "deployments".into(),
            namespace: "console".into(),
            name: "console".into(),
        }],
        extension: Some(json!({"anything": 1})),
    });
    serde_json::to_value(object).unwrap()
}

fn paths_of_schema(crd: &Value) -> BTreeSet<String> {
    let mut paths = BTreeSet::new();
    schema_paths(schema(crd), "", &mut paths);
    paths
}

fn paths_of_value(value: &Value) -> BTreeSet<String> {
    let mut paths = BTreeSet::new();
    value_paths(value, "", &mut paths);
    paths
}

#[test]
fn types_and_crds_have_the_same_fields() {
    let expected = paths_of_schema(&crd(CLUSTER_VERSIONS));
    let all = paths_of_value(&full_cluster_version());
    assert_eq!(all, expected, "ClusterVersion: left is the type, right the CRD");
    assert_eq!(
        paths_of_value(&full_cluster_operator()),
        paths_of_schema(&crd(CLUSTER_OPERATORS)),
        "ClusterOperator: left is the type, right the CRD"
    );
}

#[test]
fn empty_values_have_the_required_keys() {
    let mut version = ClusterVersion::new("version", ClusterVersionSpec::default());
    version.status = Some(ClusterVersionStatus::default());
    let open = HistoryEntry {
        state: HistoryState::Partial,
        started_time: time(),
        completion_time: None,
        version: String::new(),
        image: String::new(),
        verified: false,
        accepted_risks: String::new(),
    };
    let mut partial = version.clone();
    partial.spec.overrides = vec![ComponentOverride::default()];
    partial.status.as_mut().unwrap().history = vec![open];
    let operator = ClusterOperator::new("console", cluster_operator::ClusterOperatorSpec {});
    let table = [
        (CLUSTER_VERSIONS, serde_json::to_value(version).unwrap()),
        (CLUSTER_VERSIONS, serde_json::to_value(partial).unwrap()),
        (CLUSTER_VERSIONS, full_cluster_version()),
        (CLUSTER_OPERATORS, serde_json::to_value(operator).unwrap()),
        (CLUSTER_OPERATORS, full_cluster_operator()),
    ];
    for (text, value) in table {
        let mut gaps = Vec::new();
        missing(schema(&crd(text)), &value, "", &mut gaps);
        assert!(gaps.is_empty(), "required, but not written: {gaps:?} in {value}");
    }
}

/// The schema without descriptions and with `required` sorted. Of validation rules only the number is kept, since
/// `assert_verdicts` compares what they decide.
fn normalised(value: &Value) -> Value {
    match value {
        Value::Object(map) => map
            .iter()
            .filter(|(key, inner)| !(*key == "description" && inner.is_string()))
            .map(|(key, inner)| {
                let inner = match (key.as_str(), inner) {
                    ("required", Value::Array(names)) => {
                        let mut names = names.clone();
                        names.sort_by_key(Value::to_string);
                        Value::Array(names)
                    }
                    ("x-kubernetes-validations", Value::Array(rules)) => json!(rules.len()),
                    _ => normalised(inner),
                };
                (key.clone(), inner)
            })
            .collect(),
        Value::Array(items) => items.iter().map(normalised).collect(),
        other => other.clone(),
    }
}

/// A CRD of OpenShift; `None` and a note if the folder does not exist.
fn reference(file: &str) -> Option<Value> {
    let beside = |path: &str| format!("{}/{path}", env!("CARGO_MANIFEST_DIR"));
    let folders = match std::env::var("CVO_SHARED_DATA") {
        Ok(folder) => vec![folder],
        // The second is for a git worktree, which is one level deeper.
        Err(_) => vec![beside("../shared/data"), beside("../../shared/data")],
    };
    let text = folders.iter().find_map(|folder| std::fs::read_to_string(format!("{folder}/crds/{file}")).ok());
    if text.is_none() {
        println!("skipped: no crds/{file} in {folders:?} (set CVO_SHARED_DATA to the folder that holds crds/)");
    }
    text.map(|text| crd(&text))
}

const REFERENCE_VERSIONS: &str = "0000_00_cluster-version-operator_01_clusterversions-CustomNoUpgrade.crd.yaml";
const REFERENCE_OPERATORS: &str = "0000_00_cluster-version-operator_01_clusteroperators.crd.yaml";

#[test]
fn our_crds_equal_those_of_openshift() {
    for (ours, theirs) in [(CLUSTER_VERSIONS, REFERENCE_VERSIONS), (CLUSTER_OPERATORS, REFERENCE_OPERATORS)] {
        let Some(theirs) = reference(theirs) else { continue };
        let ours = crd(ours);
        assert_eq!(ours["metadata"]["name"], theirs["metadata"]["name"]);
        assert_eq!(normalised(&ours["spec"]), normalised(&theirs["spec"]));
    }
}

/// What a validation rule decides about an object. `Broken` means that it cannot be evaluated, which the API server treats
/// as refused.
#[derive(Debug, PartialEq, Clone, Copy)]
enum Verdict {
    Accepted,
    Refused,
    Broken,
}

/// The verdict of all rules at `place` together.
fn verdict(crd: &Value, place: &str, object: &Value) -> Verdict {
    let mut verdict = Verdict::Accepted;
    for rule in crd.pointer(place).unwrap().as_array().unwrap() {
        let program = cel::Program::compile(rule["rule"].as_str().unwrap()).unwrap();
        let mut context = cel::Context::default();
        context.add_variable("self", object.clone()).unwrap();
        match program.execute(&context) {
            Ok(cel::Value::Bool(true)) => {}
            Ok(cel::Value::Bool(false)) => verdict = Verdict::Refused,
            _ => return Verdict::Broken,
        }
    }
    verdict
}

const ROOT_RULES: &str = "/spec/versions/0/schema/openAPIV3Schema/x-kubernetes-validations";
const UPDATE_RULES: &str =
    "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/desiredUpdate/x-kubernetes-validations";

/// Our rules at `place` and those of OpenShift must give the same verdict.
fn assert_verdicts<const N: usize>(place: &str, table: [(Value, Verdict); N]) {
    let (ours, theirs) = (crd(CLUSTER_VERSIONS), reference(REFERENCE_VERSIONS));
    for (object, expected) in table {
        assert_eq!(verdict(&ours, place, &object), expected, "our rules on {object}");
        if let Some(theirs) = &theirs {
            assert_eq!(verdict(theirs, place, &object), expected, "the rules of OpenShift on {object}");
        }
    }
}

#[test]
fn rules_of_the_desired_update_give_the_same_verdicts() {
    use Verdict::{Accepted, Broken, Refused};
    assert_verdicts(
        UPDATE_RULES,
        [
            (json!({}), Accepted),
            (json!({"version": "1.0.1", "image": "i"}), Accepted),
            (json!({"architecture": "Multi", "version": "1.0.1"}), Accepted),
            (json!({"architecture": "", "image": "i"}), Accepted),
            (json!({"architecture": "Multi", "version": "1.0.1", "image": ""}), Accepted),
            (json!({"architecture": "Multi", "version": "1.0.1", "image": "i"}), Refused),
            (json!({"architecture": "Multi", "version": ""}), Refused),
            (json!({"architecture": "Multi"}), Broken),
        ],
    );
}

#[test]
fn rules_of_capabilities_give_the_same_verdicts() {
    use Verdict::{Accepted, Broken, Refused};
    let capabilities = |spec: Value, enabled: Option<Value>| match enabled {
        Some(enabled) => {
            json!({"spec": {"capabilities": spec}, "status": {"capabilities": {"enabledCapabilities": enabled}}})
        }
        None => json!({"spec": {"capabilities": spec}}),
    };
    let olm = "OperatorLifecycleManager";
    assert_verdicts(
        ROOT_RULES,
        [
            (json!({"spec": {}}), Accepted),
            (capabilities(json!({"baselineCapabilitySet": "None"}), None), Accepted),
            (capabilities(json!({"additionalEnabledCapabilities": ["Console"]}), None), Accepted),
            (capabilities(json!({"additionalEnabledCapabilities": ["marketplace"]}), None), Broken),
            (capabilities(json!({"additionalEnabledCapabilities": ["marketplace", olm]}), None), Broken),
            (
                capabilities(
                    json!({"baselineCapabilitySet": "v4.11", "additionalEnabledCapabilities": ["marketplace"]}),
                    None,
                ),
                Accepted,
            ),
            (
                capabilities(
                    json!({"baselineCapabilitySet": "None", "additionalEnabledCapabilities": ["marketplace"]}),
                    None,
                ),
                Refused,
            ),
            (
                capabilities(
                    json!({"baselineCapabilitySet": "None", "additionalEnabledCapabilities": ["marketplace"]}),
                    Some(json!(["Console"])),
                ),
                Refused,
            ),
            (
                capabilities(
                    json!({"baselineCapabilitySet": "None", "additionalEnabledCapabilities": ["marketplace", olm]}),
                    None,
                ),
                Accepted,
            ),
            (
                capabilities(
                    json!({"baselineCapabilitySet": "None", "additionalEnabledCapabilities": ["marketplace"]}),
                    Some(json!([olm])),
                ),
                Accepted,
            ),
        ],
    );
}
