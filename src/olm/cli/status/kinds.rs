//! The kinds that say where operators stand, and what of their objects is read.

use crate::cluster::Kind;
use crate::error::{CAUSE, shortened};
use crate::olm::api::catalog_source::CatalogSource;
use crate::olm::api::cluster_service_version::{
    ClusterServiceVersion, ClusterServiceVersionSpec, CustomResourceDefinitions, InstallStrategy, StrategyDeployment,
    StrategyDetails,
};
use crate::olm::api::install_plan::{BundleLookup, InstallPlan, InstallPlanSpec, Step, StepResource};
use crate::olm::api::keys::{annotation, label};
use crate::olm::api::operator_condition::{OperatorCondition, OperatorConditionSpec};
use crate::olm::api::subscription::{Subscription, SubscriptionSpec};
use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::core::ApiResource;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::BTreeMap;

/// A kind that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum What {
    Subscriptions,
    Plans,
    Versions,
    Deployments,
    Conditions,
    Catalogs,
}

/// Objects as they are written, or why they cannot be read. A kind that was not asked for, or that the server does not have, is missing.
pub(crate) type Lists = BTreeMap<What, Result<Vec<Value>, String>>;

impl What {
    /// All that is told of operators.
    pub(super) const OF_OPERATORS: [What; 5] =
        [What::Subscriptions, What::Plans, What::Versions, What::Deployments, What::Conditions];
    /// The same and their catalogs.
    pub(crate) const ALL: [What; 6] =
        [What::Subscriptions, What::Plans, What::Versions, What::Deployments, What::Conditions, What::Catalogs];
    /// Enough to say how many operators there are, and which of them need somebody.
    pub(crate) const FEW: [What; 2] = [What::Subscriptions, What::Versions];

    pub(super) fn resource(self) -> ApiResource {
        match self {
            What::Subscriptions => ApiResource::erase::<Subscription>(&()),
            What::Plans => ApiResource::erase::<InstallPlan>(&()),
            What::Versions => ApiResource::erase::<ClusterServiceVersion>(&()),
            What::Deployments => ApiResource::erase::<Deployment>(&()),
            What::Conditions => ApiResource::erase::<OperatorCondition>(&()),
            What::Catalogs => ApiResource::erase::<CatalogSource>(&()),
        }
    }

    pub(super) fn kind(self) -> Kind {
        let ApiResource { group, version, kind, plural, .. } = self.resource();
        Kind::known(&group, &version, &kind, &plural, true)
    }

    /// A label selector; empty for all objects.
    pub(super) fn labels(self) -> String {
        match self {
            What::Versions => format!("!{}", label::COPIED_FROM),
            What::Deployments => format!("{}=true", label::MANAGED),
            _ => String::new(),
        }
    }

    /// Without it less is said of operators, and nothing else.
    pub(super) fn only_explains(self) -> bool {
        matches!(self, What::Deployments | What::Conditions)
    }

    /// As people say it.
    pub(crate) fn text(self) -> String {
        format!("{}s", self.resource().kind)
    }

    /// In a file that `cvo collect` writes.
    pub(crate) fn file(self) -> String {
        format!("operators/{}.json", self.resource().plural)
    }

    /// The object without what is not shown, which may be large, or secret.
    ///
    /// # Errors
    /// It does not fit its type: the field and why.
    pub(crate) fn kept(self, object: &Value) -> Result<Value, String> {
        match self {
            What::Subscriptions => kept(object, subscription),
            What::Plans => kept(object, plan),
            What::Versions => kept(object, version),
            What::Deployments => kept(object, deployment),
            What::Conditions => kept(object, condition),
            What::Catalogs => kept(object, catalog),
        }
    }
}

fn kept<K>(object: &Value, named: fn(K) -> K) -> Result<Value, String>
where
    K: Resource<DynamicType = ()> + DeserializeOwned + Serialize,
{
    let text = |error: String| shortened(&error, CAUSE).into_owned();
    let mut object: K = serde_path_to_error::deserialize(object).map_err(|error| text(error.to_string()))?;
    let metadata = metadata(std::mem::take(object.meta_mut()));
    let mut kept = named(object);
    *kept.meta_mut() = metadata;
    serde_json::to_value(kept).map_err(|error| text(error.to_string()))
}

fn metadata(metadata: ObjectMeta) -> ObjectMeta {
    let only = |all: Option<BTreeMap<String, String>>, names: &[&str]| {
        all.map(|all| all.into_iter().filter(|(name, _)| names.contains(&name.as_str())).collect())
    };
    ObjectMeta {
        name: metadata.name,
        namespace: metadata.namespace,
        uid: metadata.uid,
        generation: metadata.generation,
        resource_version: metadata.resource_version,
        creation_timestamp: metadata.creation_timestamp,
        deletion_timestamp: metadata.deletion_timestamp,
        owner_references: metadata.owner_references,
        labels: only(metadata.labels, &[label::COPIED_FROM]),
        // A copy without its label is known by the namespace of its operator.
        annotations: only(
            metadata.annotations,
            &[annotation::PROPERTIES, annotation::CHANGES, annotation::OPERATOR_NAMESPACE],
        ),
        ..ObjectMeta::default()
    }
}

fn subscription(object: Subscription) -> Subscription {
    let spec = object.spec;
    let spec = SubscriptionSpec {
        source: spec.source,
        source_namespace: spec.source_namespace,
        name: spec.name,
        channel: spec.channel,
        install_plan_approval: spec.install_plan_approval,
        ..SubscriptionSpec::default()
    };
    Subscription { spec, ..object }
}

fn plan(object: InstallPlan) -> InstallPlan {
    let InstallPlanSpec { cluster_service_version_names, approval, approved, generation, .. } = object.spec;
    let spec =
        InstallPlanSpec { cluster_service_version_names, approval, approved, generation, ..InstallPlanSpec::default() };
    let step = |step: Step| {
        let StepResource { kind, name, .. } = step.resource;
        let resource = StepResource { kind, name, ..StepResource::default() };
        Step { resource, status: step.status, ..Step::default() }
    };
    let lookup = |it: BundleLookup| BundleLookup {
        identifier: it.identifier,
        conditions: it.conditions,
        ..BundleLookup::default()
    };
    let status = object.status.map(|mut status| {
        status.plan = status.plan.into_iter().map(step).collect();
        status.bundle_lookups = status.bundle_lookups.into_iter().map(lookup).collect();
        status
    });
    InstallPlan { spec, status, ..object }
}

fn version(object: ClusterServiceVersion) -> ClusterServiceVersion {
    let spec = object.spec;
    let deployments = spec.install.spec.into_iter().flat_map(|details| details.deployments);
    let deployments = deployments.map(|it| StrategyDeployment { name: it.name, ..StrategyDeployment::default() });
    let details = StrategyDetails { deployments: deployments.collect(), ..StrategyDetails::default() };
    let names = |mut all: CustomResourceDefinitions| {
        for it in all.owned.iter_mut().chain(&mut all.required) {
            it.display_name.clear();
            it.description.clear();
            it.descriptors = Default::default();
        }
        all
    };
    let spec = ClusterServiceVersionSpec {
        version: spec.version,
        min_kube_version: spec.min_kube_version,
        replaces: spec.replaces,
        install: InstallStrategy { strategy: spec.install.strategy, spec: Some(details) },
        custom_resource_definitions: names(spec.custom_resource_definitions),
        ..ClusterServiceVersionSpec::default()
    };
    ClusterServiceVersion { spec, ..object }
}

fn deployment(object: Deployment) -> Deployment {
    let replicas = object.spec.and_then(|spec| spec.replicas);
    let spec = DeploymentSpec { replicas, ..DeploymentSpec::default() };
    Deployment { spec: Some(spec), ..object }
}

fn condition(object: OperatorCondition) -> OperatorCondition {
    let OperatorConditionSpec { overrides, conditions, .. } = object.spec;
    OperatorCondition { spec: OperatorConditionSpec { overrides, conditions, ..Default::default() }, ..object }
}

fn catalog(mut object: CatalogSource) -> CatalogSource {
    let spec = &mut object.spec;
    (spec.grpc_pod_config, spec.update_strategy, spec.icon) = (None, None, None);
    spec.secrets.clear();
    for text in [&mut spec.display_name, &mut spec.description, &mut spec.publisher] {
        text.clear();
    }
    object
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn of_objects_stays_what_is_shown_and_nothing_that_may_be_secret_or_large() {
        let secret = json!([{"name": "X", "value": "PLANTED"}]);
        let metadata = |name: &str| {
            json!({"name": name, "namespace": "n", "uid": "u", "labels": {"a": "PLANTED", "olm.copiedFrom": "m"},
                "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "PLANTED", "alm-examples": "PLANTED",
                    "operatorframework.io/properties": "{}", "olm.operatorframework.io/changes": "more"},
                "managedFields": [{"manager": "PLANTED"}]})
        };
        let pods = json!({"selector": {}, "template": {"spec": {"containers": [{"name": "c", "env": secret, "args": ["PLANTED"]}]}}});
        let with_replicas = json!({"replicas": 2, "selector": {}, "template": pods["template"]});
        let resource = json!({"kind": "Secret", "name": "s", "manifest": "PLANTED", "sourceName": "", "sourceNamespace": "",
            "group": "", "version": "v1"});
        let owned = json!([{"name": "a.b", "version": "v1", "kind": "A", "description": "PLANTED",
            "specDescriptors": [{"path": "PLANTED"}]}]);
        for (what, spec, status, kept) in [
            (
                What::Subscriptions,
                json!({"name": "a", "source": "s", "sourceNamespace": "m", "config": {"env": secret}}),
                json!({"installedCSV": "a.v1", "lastUpdated": "2026-01-01T00:00:00Z"}),
                "/status/installedCSV",
            ),
            (
                What::Plans,
                json!({"approved": true, "clusterServiceVersionNames": ["a.v1"]}),
                json!({"phase": "Complete", "plan": [{"resolving": "", "status": "Created", "resource": resource}],
                    "bundleLookups": [{"identifier": "a.v1", "path": "PLANTED", "properties": "PLANTED", "replaces": ""}]}),
                "/status/plan/0/resource/name",
            ),
            (
                What::Versions,
                json!({"displayName": "A", "description": "PLANTED", "icon": [{"base64data": "PLANTED", "mediatype": ""}],
                    "annotations": {"a": "PLANTED"}, "customresourcedefinitions": {"owned": owned},
                    "install": {"strategy": "deployment", "spec": {"deployments": [{"name": "d", "spec": pods}]}}}),
                json!({"phase": "Succeeded"}),
                "/spec/install/spec/deployments/0/name",
            ),
            (What::Deployments, with_replicas, json!({"readyReplicas": 1}), "/spec/replicas"),
            (
                What::Conditions,
                json!({"serviceAccounts": ["PLANTED"], "overrides": [{"type": "U", "status": "True", "reason": "", "message": ""}]}),
                json!({}),
                "/spec/overrides/0/type",
            ),
            (
                What::Catalogs,
                json!({"sourceType": "grpc", "image": "i", "secrets": ["PLANTED"], "icon": {"base64data": "PLANTED", "mediatype": ""}}),
                json!({"connectionState": {"lastObservedState": "READY"}}),
                "/spec/image",
            ),
        ] {
            let object = json!({"metadata": metadata("x"), "spec": spec, "status": status});
            let found = what.kept(&object).unwrap();
            assert!(!found.to_string().contains("PLANTED"), "{what:?}: {found}");
            let stays = ["/kind", "/metadata/name", "/metadata/namespace", "/metadata/uid", kept];
            assert!(stays.iter().all(|it| found.pointer(it).is_some()), "{what:?}: {found}");
            let annotations =
                json!({"operatorframework.io/properties": "{}", "olm.operatorframework.io/changes": "more"});
            assert_eq!(found["metadata"]["annotations"], annotations, "{what:?}");
        }
    }
}
