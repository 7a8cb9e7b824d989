//! The OperatorCondition of a ClusterServiceVersion: the object itself, who may write it, and its status.

use super::deployment::{labels, owner_reference};
use crate::olm::api::GROUP;
use crate::olm::api::cluster_service_version::ClusterServiceVersion;
use crate::olm::api::keys::label;
use crate::olm::api::operator_condition::{OperatorCondition, OperatorConditionStatus};
use crate::olm::permissions::DEFAULT_ACCOUNT;
use k8s_openapi::api::rbac::v1::PolicyRule;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

const RBAC: &str = "rbac.authorization.k8s.io";

fn text(text: Option<&String>) -> &str {
    text.map(String::as_str).unwrap_or_default()
}

/// Accounts that the operator runs as, and its Deployments.
fn named(csv: &ClusterServiceVersion) -> (BTreeSet<String>, Vec<String>) {
    let Some(strategy) = &csv.spec.install.spec else { return (BTreeSet::new(), Vec::new()) };
    let permissions = strategy.permissions.iter().chain(&strategy.cluster_permissions);
    let mut accounts: BTreeSet<String> = permissions.map(|it| it.service_account_name.clone()).collect();
    if accounts.is_empty() {
        accounts.insert(DEFAULT_ACCOUNT.to_owned());
    }
    (accounts, strategy.deployments.iter().map(|it| it.name.clone()).collect())
}

/// What the object lacks, as a merge patch; or the object, if there is none. `None` if everything is there. The conditions and what
/// the administrator says are never touched.
pub(crate) fn object(csv: &ClusterServiceVersion, live: Option<&OperatorCondition>) -> Option<Value> {
    let (accounts, deployments) = named(csv);
    let spec = json!({"serviceAccounts": accounts, "deployments": deployments});
    let mut owner = owner_reference(csv);
    if let Some(owner) = owner.as_object_mut() {
        owner.insert("controller".to_owned(), true.into());
    }
    let Some(live) = live else {
        return Some(json!({"apiVersion": format!("{GROUP}/v2"), "kind": "OperatorCondition",
            "metadata": {"name": csv.metadata.name, "namespace": csv.metadata.namespace, "labels": labels(csv),
                "ownerReferences": [owner]},
            "spec": spec}));
    };
    let mut patch = Map::new();
    if live.spec.service_accounts.iter().ne(&accounts) || live.spec.deployments != deployments {
        patch.insert("spec".to_owned(), spec);
    }
    let owners = live.metadata.owner_references.as_deref().unwrap_or_default();
    if owners.iter().all(|it| Some(&it.uid) != csv.metadata.uid.as_ref()) {
        // The others are versions that do not exist any more, under the same name.
        patch.insert("metadata".to_owned(), json!({"ownerReferences": [owner]}));
    }
    let version = || json!(live.metadata.resource_version);
    (!patch.is_empty()).then(|| {
        let metadata = patch.entry("metadata").or_insert_with(|| json!({}));
        if let Some(metadata) = metadata.as_object_mut() {
            metadata.insert("resourceVersion".to_owned(), version());
        }
        Value::Object(patch)
    })
}

/// The status, where it lacks what the operator has said, or is that of an older generation.
pub(crate) fn status(live: &OperatorCondition) -> Option<OperatorConditionStatus> {
    let before = live.status.clone().unwrap_or_default();
    let said =
        live.spec.conditions.iter().map(|it| Condition { observed_generation: live.metadata.generation, ..it.clone() });
    let is_said = |known: &&Condition| live.spec.conditions.iter().any(|it| it.type_ == known.type_);
    let others = before.conditions.iter().filter(|known| !is_said(known)).cloned();
    let after = OperatorConditionStatus { conditions: others.chain(said).collect() };
    (after != before).then_some(after)
}

/// The Role by which the operator writes it, and the RoleBinding that gives it to the accounts of the operator.
pub(crate) fn components(condition: &OperatorCondition) -> [Value; 2] {
    let some = |texts: &[&str]| Some(texts.iter().map(|it| (*it).to_owned()).collect());
    let rule = PolicyRule {
        verbs: ["get", "update", "patch"].map(str::to_owned).into(),
        api_groups: some(&[GROUP]),
        resources: some(&["operatorconditions"]),
        resource_names: some(&[text(condition.metadata.name.as_ref())]),
        non_resource_urls: None,
    };
    let subject =
        |name: &String| json!({"kind": "ServiceAccount", "name": name, "namespace": condition.metadata.namespace});
    let subjects: Vec<Value> = condition.spec.service_accounts.iter().map(subject).collect();
    let role = json!({"apiGroup": RBAC, "kind": "Role", "name": condition.metadata.name});
    let version = format!("{RBAC}/v1");
    [
        json!({"apiVersion": version, "kind": "Role", "metadata": metadata(condition), "rules": [rule]}),
        json!({"apiVersion": version, "kind": "RoleBinding", "metadata": metadata(condition), "roleRef": role,
            "subjects": subjects}),
    ]
}

fn metadata(condition: &OperatorCondition) -> Value {
    let owner = json!({"apiVersion": format!("{GROUP}/v2"), "kind": "OperatorCondition", "name": condition.metadata.name,
        "uid": condition.metadata.uid, "controller": false, "blockOwnerDeletion": true});
    json!({"name": condition.metadata.name, "namespace": condition.metadata.namespace,
        "labels": {label::MANAGED: "true"}, "ownerReferences": [owner]})
}
