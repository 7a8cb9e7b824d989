//! The objects that say where operators stand, as they are read.

use crate::error::{CAUSE, shortened};
use crate::olm::api::cluster_service_version::ClusterServiceVersion;
use crate::olm::api::install_plan::InstallPlan;
use crate::olm::api::operator_condition::OperatorCondition;
use crate::olm::api::subscription::Subscription;
use serde::de::DeserializeOwned;
use serde_json::Value;

#[derive(Debug)]
pub(super) struct Objects {
    pub subscriptions: Vec<Subscription>,
    pub plans: Vec<InstallPlan>,
    /// Without copies.
    pub versions: Vec<ClusterServiceVersion>,
    /// As they are written, because a gate reads them so. `None`: they cannot be read.
    pub deployments: Option<Vec<Value>>,
    /// Or why they cannot be read.
    pub conditions: Result<Vec<OperatorCondition>, String>,
    /// Objects that are left out, and why.
    pub odd: Vec<String>,
    /// What could not be read, or is not up to date.
    pub unread: Vec<String>,
}

impl Objects {
    /// Subscriptions, InstallPlans, ClusterServiceVersions, Deployments and OperatorConditions, or why they cannot be read.
    pub(super) fn of(
        [subscriptions, plans, versions, deployments, conditions]: [Result<Vec<Value>, String>; 5],
    ) -> Self {
        let (mut unread, mut odd) = (Vec::new(), Vec::new());
        let mut known = |what: &str, found: Result<Vec<Value>, String>| {
            found.map_err(|error| unread.push(format!("{what} are not shown: {error}"))).ok()
        };
        let subscriptions = known("Subscriptions", subscriptions).unwrap_or_default();
        let plans = known("InstallPlans", plans).unwrap_or_default();
        let versions = known("ClusterServiceVersions", versions).unwrap_or_default();
        let deployments = known("Deployments", deployments);
        Objects {
            subscriptions: decoded(subscriptions, &mut odd),
            plans: decoded(plans, &mut odd),
            versions: decoded(versions, &mut odd),
            deployments,
            conditions: conditions.map(|found| decoded(found, &mut odd)),
            odd,
            unread,
        }
    }
}

/// One that does not fit its type keeps none of the others from being shown.
fn decoded<T: DeserializeOwned>(objects: Vec<Value>, odd: &mut Vec<String>) -> Vec<T> {
    let each = |object: Value| {
        let decoded = serde_path_to_error::deserialize(&object);
        decoded.map_err(|error| {
            let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default();
            let (kind, namespace, name) = (text("/kind"), text("/metadata/namespace"), text("/metadata/name"));
            let cause = error.to_string();
            odd.push(format!("{kind} {namespace}/{name} is left out: {}; correct the field", shortened(&cause, CAUSE)));
        })
    };
    objects.into_iter().map(each).filter_map(Result::ok).collect()
}
