//! What is kept of the objects that plans are about.

use crate::cluster::followed::View;
use crate::olm::api::cluster_service_version::ClusterServiceVersion;
use crate::olm::api::install_plan::{InstallPlan, InstallPlanPhase};
use crate::olm::api::operator_group::OperatorGroup;
use crate::olm::plan::group::Group;
use crate::olm::plan::step::Csv;
use crate::olm::plan::surplus::Known;
use crate::olm::work::definition::Definition;
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::json;
use std::sync::Arc;

/// The whole of a plan that has not ended, and of the others what says how old they are.
#[derive(Clone, Debug)]
pub(super) struct PlanView {
    pub known: Known,
    pub open: Option<Arc<InstallPlan>>,
}

impl View for PlanView {
    type Object = InstallPlan;

    fn of(mut plan: InstallPlan) -> Self {
        plan.metadata.managed_fields = None;
        let (metadata, status) = (&plan.metadata, plan.status.as_ref());
        let known = Known {
            name: metadata.name.clone().unwrap_or_default(),
            uid: metadata.uid.clone().unwrap_or_default(),
            resource_version: metadata.resource_version.clone().unwrap_or_default(),
            generation: plan.spec.generation.unwrap_or_default(),
            phase: status.map(|status| status.phase.clone()).unwrap_or_default(),
        };
        let has_ended = matches!(known.phase, InstallPlanPhase::Complete | InstallPlanPhase::Failed);
        let is_deleted = metadata.deletion_timestamp.is_some();
        PlanView { known, open: (!has_ended && !is_deleted).then(|| Arc::new(plan)) }
    }

    fn version(&self) -> &str {
        &self.known.resource_version
    }
}

impl PartialEq for PlanView {
    fn eq(&self, other: &Self) -> bool {
        self.known == other.known
    }
}

fn version(metadata: &ObjectMeta) -> String {
    metadata.resource_version.clone().unwrap_or_default()
}

/// A part of an object, and its resourceVersion. Changes of the rest are none.
#[derive(Clone, Debug)]
pub(super) struct Part<T> {
    version: String,
    pub part: Arc<T>,
}

impl<T: PartialEq> PartialEq for Part<T> {
    fn eq(&self, other: &Self) -> bool {
        self.part == other.part
    }
}

impl View for Part<Csv> {
    type Object = ClusterServiceVersion;

    fn of(object: ClusterServiceVersion) -> Self {
        Part { version: version(&object.metadata), part: Arc::new(Csv::read(&json!(object))) }
    }

    fn version(&self) -> &str {
        &self.version
    }
}

impl View for Part<Group> {
    type Object = OperatorGroup;

    fn of(object: OperatorGroup) -> Self {
        Part { version: version(&object.metadata), part: Arc::new(Group::of(&object)) }
    }

    fn version(&self) -> &str {
        &self.version
    }
}

/// That it exists.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Account;

impl View for Part<Account> {
    type Object = ServiceAccount;

    fn of(object: ServiceAccount) -> Self {
        Part { version: version(&object.metadata), part: Arc::new(Account) }
    }

    fn version(&self) -> &str {
        &self.version
    }
}

/// Whether the kinds of a definition are served, or why its names are refused.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Served {
    pub is_served: bool,
    pub refused: Option<String>,
}

impl View for Part<Served> {
    type Object = Definition;

    fn of(object: Definition) -> Self {
        let refused = object.condition("NamesAccepted").filter(|it| it.status == "False");
        let served = Served { is_served: object.is_available(), refused: refused.map(|it| it.message.clone()) };
        Part { version: version(&object.metadata), part: Arc::new(served) }
    }

    fn version(&self) -> &str {
        &self.version
    }
}
