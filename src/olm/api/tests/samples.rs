//! A value of each kind in which each field is set, and one in which as few as possible are.

pub(super) mod catalog_source;
pub(super) mod cluster_service_version;
pub(super) mod install_plan;
pub(super) mod others;
pub(super) mod subscription;

use crate::object::condition::ConditionStatus;
use crate::olm::api::condition::UpdatedCondition;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{
    Condition as MetaCondition, LabelSelector, LabelSelectorRequirement, Time,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Debug;

/// As JSON. What is read from that is the same again.
fn json_of<T: Serialize + DeserializeOwned + Clone + Debug>(object: &T) -> Value {
    let value = serde_json::to_value(object).unwrap();
    let again: T = serde_json::from_value(value.clone()).unwrap();
    assert_eq!(serde_json::to_value(again).unwrap(), value);
    value
}

fn time() -> Time {
    Time("2026-01-02T03:04:05Z".parse().unwrap())
}

fn meta_condition() -> MetaCondition {
    MetaCondition {
        type_: "Upgradeable".into(),
        status: "True".into(),
        reason: "AsExpected".into(),
        message: "all is well".into(),
        last_transition_time: time(),
        observed_generation: Some(3),
    }
}

fn updated_condition() -> UpdatedCondition {
    UpdatedCondition {
        type_: "Installed".into(),
        status: ConditionStatus::True,
        last_update_time: Some(time()),
        last_transition_time: Some(time()),
        reason: "AsExpected".into(),
        message: "all is well".into(),
    }
}

fn reference() -> ObjectReference {
    ObjectReference {
        api_version: Some("operators.coreos.com/v1alpha1".into()),
        kind: Some("CatalogSource".into()),
        namespace: Some("olm".into()),
        name: Some("community".into()),
        uid: Some("5d8f1f0a".into()),
        resource_version: Some("17".into()),
        field_path: Some("spec".into()),
    }
}

fn selector() -> LabelSelector {
    LabelSelector {
        match_labels: Some(labels()),
        match_expressions: Some(vec![LabelSelectorRequirement {
            key: "tier".into(),
            operator: "In".into(),
            values: Some(vec!["prod".into()]),
        }]),
    }
}

fn labels() -> BTreeMap<String, String> {
    BTreeMap::from([("team".to_owned(), "a".to_owned())])
}

fn toleration() -> Value {
    json!({"key": "k", "operator": "Equal", "value": "v", "effect": "NoExecute", "tolerationSeconds": 5})
}

fn affinity() -> Value {
    let node =
        json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": []}]}});
    json!({"nodeAffinity": node, "podAffinity": {}, "podAntiAffinity": {}})
}
