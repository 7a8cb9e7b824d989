//! What is kept of the objects that plans are about.

use crate::cluster::followed::View;
use crate::object::condition::ConditionStatus;
use crate::olm::api::cluster_service_version::ClusterServiceVersion;
use crate::olm::api::install_plan::{InstallPlan, InstallPlanPhase};
use crate::olm::api::operator_group::OperatorGroup;
use crate::olm::operator::definition::Definition;
use crate::olm::plan::group::Group;
use crate::olm::plan::step::Csv;
use crate::olm::plan::surplus::Known;
use crate::olm::work::part::Reduced;
use k8s_openapi::api::core::v1::ServiceAccount;
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
            owners: metadata.owner_references.iter().flatten().map(|owner| owner.uid.clone()).collect(),
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

impl Reduced for Csv {
    type Object = ClusterServiceVersion;

    fn reduced(object: &ClusterServiceVersion) -> Csv {
        // A copy owns no definition.
        if object.is_copy() { Csv::default() } else { Csv::read(&json!(object)) }
    }
}

impl Reduced for Group {
    type Object = OperatorGroup;

    fn reduced(object: &OperatorGroup) -> Group {
        Group::of(object)
    }
}

/// That it exists.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Account;

impl Reduced for Account {
    type Object = ServiceAccount;

    fn reduced(_: &ServiceAccount) -> Account {
        Account
    }
}

/// Whether the kinds of a definition are served, or why its names are refused.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Served {
    pub is_served: bool,
    pub refused: Option<String>,
}

impl Reduced for Served {
    type Object = Definition;

    fn reduced(object: &Definition) -> Served {
        let refused = object.condition("NamesAccepted").filter(|it| it.status == ConditionStatus::False);
        Served { is_served: object.is_available(), refused: refused.map(|it| it.message.clone()) }
    }
}
