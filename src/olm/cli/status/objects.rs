//! The objects that say where operators stand, as they are read.

use super::kinds::{Lists, What};
use crate::error::{CAUSE, shortened};
use crate::olm::api::cluster_service_version::ClusterServiceVersion;
use crate::olm::api::install_plan::InstallPlan;
use crate::olm::api::operator_condition::OperatorCondition;
use crate::olm::api::subscription::Subscription;
use crate::olm::cli::catalogs;
use serde::de::DeserializeOwned;
use serde_json::Value;

#[derive(Clone, Debug)]
pub(crate) struct Objects {
    pub subscriptions: Vec<Subscription>,
    /// `None`: they were not read.
    pub plans: Option<Vec<InstallPlan>>,
    /// Without copies.
    pub versions: Vec<ClusterServiceVersion>,
    /// As they are written, because a gate reads them so. `None`: they were not read.
    pub deployments: Option<Vec<Value>>,
    /// Or why they cannot be read.
    pub conditions: Result<Vec<OperatorCondition>, String>,
    /// What each of them says, by namespace and name.
    pub catalogs: Vec<catalogs::Row>,
    /// Objects that are left out, and why.
    pub odd: Vec<String>,
    /// What could not be read, or is not up to date.
    pub unread: Vec<String>,
}

impl Objects {
    pub(crate) fn of(mut lists: Lists) -> Self {
        // That they cannot be read matters only where one of them would be shown.
        let conditions = lists.remove(&What::Conditions).unwrap_or_else(|| Ok(Vec::new()));
        let (mut unread, mut odd) = (Vec::new(), Vec::new());
        let mut known = |what: What| {
            let found = lists.remove(&what)?;
            found.map_err(|error| unread.push(format!("{} are not shown: {error}", what.text()))).ok()
        };
        let subscriptions = known(What::Subscriptions).unwrap_or_default();
        let plans = known(What::Plans);
        let versions = known(What::Versions).unwrap_or_default();
        let deployments = known(What::Deployments);
        let catalogs = known(What::Catalogs).unwrap_or_default();
        Objects {
            subscriptions: decoded(subscriptions, &mut odd),
            plans: plans.map(|plans| decoded(plans, &mut odd)),
            versions: decoded(versions, &mut odd),
            deployments,
            conditions: conditions.map(|found| decoded(found, &mut odd)),
            catalogs: catalogs::rows(catalogs),
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
