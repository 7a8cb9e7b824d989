//! What is told of operators, for people and for programs.

use crate::olm::api::cluster_service_version::{Phase, Requirement};
use crate::olm::api::install_plan::InstallPlanPhase;
use jiff::Timestamp;
use serde::Serialize;

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct View {
    pub schema: u8,
    #[serde(rename = "operators")]
    pub rows: Vec<Row>,
    /// Objects that are left out, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub undecodable: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
}

impl View {
    /// Whether something is wrong that somebody has to mend.
    pub(crate) fn needs_somebody(&self) -> bool {
        !self.undecodable.is_empty() || self.rows.iter().any(|row| row.needs_somebody)
    }
}

/// An operator.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Row {
    pub namespace: String,
    /// Of the Subscription, or without one of the ClusterServiceVersion.
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subscription: Option<Asked>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub installed: Option<Version>,
    /// What is to come.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<Version>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hold: Option<Hold>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan: Option<Plan>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unhealthy_catalogs: Vec<Catalog>,
    /// Those of the Subscription that are true and tell more than its InstallPlan does.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Told>,
    pub what_to_do: String,
    pub needs_somebody: bool,
}

/// What a Subscription asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Asked {
    pub package: String,
    pub channel: String,
    /// Namespace and name of the catalog.
    pub catalog: String,
    /// It has a status.
    #[serde(skip)]
    pub is_read: bool,
}

/// A ClusterServiceVersion.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Version {
    pub name: String,
    pub exists: bool,
    #[serde(skip_serializing_if = "Phase::is_none")]
    pub phase: Phase,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    pub is_being_deleted: bool,
    /// Those that are not met.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub requirements: Vec<Unmet>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deployments: Vec<Workload>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Unmet {
    pub kind: String,
    pub name: String,
    pub status: Requirement,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Its parts that are not there, such as rights of an account.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<String>,
}

/// A Deployment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Workload {
    pub name: String,
    pub exists: bool,
    pub ready: i64,
    pub wanted: i64,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub in_the_way: String,
    /// It does not become ready by itself.
    pub fails: bool,
}

/// An OperatorCondition that keeps the next version from taking the place of this one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Hold {
    pub name: String,
    pub message: String,
    /// By the administrator, and not by the operator.
    pub by_override: bool,
}

/// An InstallPlan.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Plan {
    pub name: String,
    pub phase: InstallPlanPhase,
    pub approved: bool,
    /// When it was begun, and before that when it was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    pub steps: usize,
    /// Steps that are not done.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub open: Vec<String>,
    /// Bundles that are being fetched.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub waits_for: Vec<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// What it changes, in lines for people.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<String>,
}

impl Plan {
    pub(crate) fn is_complete(&self) -> bool {
        self.phase == InstallPlanPhase::Complete
    }

    /// One of which nothing else is known.
    pub(crate) fn to_approve(name: &str) -> Plan {
        Plan { name: name.to_owned(), phase: InstallPlanPhase::RequiresApproval, ..Plan::default() }
    }

    /// Somebody has to approve it.
    pub(crate) fn waits_for_approval(&self) -> bool {
        self.phase == InstallPlanPhase::RequiresApproval && !self.approved
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Catalog {
    /// Namespace and name.
    pub name: String,
    pub since: Option<Timestamp>,
}

/// A condition of a Subscription.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Told {
    #[serde(rename = "type")]
    pub type_: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
}

impl Row {
    /// What is installed works, and nothing that somebody has to mend is in the way of what is to come.
    pub(crate) fn is_well(&self) -> bool {
        let works = |it: &Version| matches!(it.phase, Phase::Succeeded | Phase::Replacing);
        !self.needs_somebody && self.installed.as_ref().is_some_and(works)
    }

    /// Somebody may let it go on.
    pub(crate) fn waits_for_approval(&self) -> bool {
        self.plan.as_ref().is_some_and(Plan::waits_for_approval)
    }

    pub(crate) fn condition(&self, type_: &str) -> Option<&Told> {
        self.conditions.iter().find(|it| it.type_ == type_)
    }
}
