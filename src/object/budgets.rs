//! PodDisruptionBudgets that keep a pod where it is.

use super::selector;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;

/// The reason of the condition of a budget whose pods could not be counted.
const SYNC_FAILED: &str = "SyncFailed";

/// A PodDisruptionBudget.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Budget {
    name: String,
    namespace: String,
    version: String,
    selector: Option<LabelSelector>,
    /// None may leave, however healthy they are.
    never: bool,
    /// `None` until its controller has looked at it.
    counts: Option<Counts>,
}

/// Pods of a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Counts {
    /// So many may leave now.
    allowed: i32,
    healthy: i32,
    /// So many have to be healthy.
    desired: i32,
    expected: i32,
}

impl Budget {
    pub(crate) fn of(budget: PodDisruptionBudget) -> Budget {
        // Zero is also what stands there before its controller has looked at it, and where that could not count: pods that nothing
        // like a ReplicaSet owns have no number that is expected.
        let is_empty = budget.status.as_ref().is_some_and(|status| {
            let failed = status.conditions.iter().flatten().any(|condition| condition.reason == SYNC_FAILED);
            status.expected_pods == Some(0) && status.observed_generation.is_some() && !failed
        });
        let counts = budget.status.map(|status| Counts {
            allowed: status.disruptions_allowed.unwrap_or_default(),
            healthy: status.current_healthy.unwrap_or_default(),
            desired: status.desired_healthy.unwrap_or_default(),
            expected: status.expected_pods.unwrap_or_default(),
        });
        let spec = budget.spec.unwrap_or_default();
        Budget {
            name: budget.metadata.name.unwrap_or_default(),
            namespace: budget.metadata.namespace.unwrap_or_default(),
            version: budget.metadata.resource_version.unwrap_or_default(),
            // One that has no pods keeps none.
            never: !is_empty
                && (spec.max_unavailable == Some(IntOrString::Int(0))
                    || counts.is_some_and(|counts| counts.desired >= counts.expected)),
            selector: spec.selector,
            counts,
        }
    }

    /// Namespace and name.
    pub(crate) fn id(&self) -> (&str, &str) {
        (&self.namespace, &self.name)
    }

    pub(crate) fn counts(&self) -> Option<Counts> {
        self.counts
    }

    /// Whatever happens, none of its pods may leave.
    pub(crate) fn never_allows(&self) -> bool {
        self.never
    }

    pub(crate) fn version(&self) -> &str {
        &self.version
    }

    /// Whether a pod of this namespace with these labels may not leave without its consent.
    pub(crate) fn covers(&self, namespace: &str, labels: &BTreeMap<String, String>) -> bool {
        self.namespace == namespace
            && self.selector.as_ref().is_some_and(|selector| selector::matches(selector, labels))
    }

    /// Whether one of its pods may leave now.
    pub(crate) fn allows(&self) -> bool {
        self.counts.is_some_and(|counts| counts.allowed > 0)
    }
}

impl fmt::Display for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PodDisruptionBudget {}", self.name)?;
        let Some(Counts { healthy, desired, expected, .. }) = self.counts else { return Ok(()) };
        let way_out = if self.never { ", which never allows any to leave: change it, or delete the pod" } else { "" };
        write!(f, " ({healthy} of {expected} pods are healthy, {desired} have to be{way_out})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn budget(name: &str, selector: &Value, desired: i32) -> Budget {
        let status = json!({"currentHealthy": 2, "desiredHealthy": desired, "expectedPods": 2, "disruptionsAllowed": 2 - desired});
        let metadata = json!({"name": name, "namespace": "default"});
        let spec = json!({"selector": selector, "minAvailable": desired});
        Budget::of(serde_json::from_value(json!({"metadata": metadata, "spec": spec, "status": status})).unwrap())
    }

    #[test]
    fn budgets_that_cover_a_pod_say_what_they_demand() {
        let labels = BTreeMap::from([("app".to_owned(), "web".to_owned())]);
        let other = json!({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["db"]}]});
        let budgets = [
            budget("web", &json!({"matchLabels": {"app": "web"}}), 2),
            budget("all", &json!({}), 1),
            budget("db", &json!({"matchLabels": {"app": "db"}}), 1),
            budget("none", &Value::Null, 1),
            budget("expression", &other, 1),
        ];
        let covering = |namespace: &str| budgets.iter().filter(|it| it.covers(namespace, &labels)).collect::<Vec<_>>();
        let texts: Vec<(String, bool)> =
            covering("default").iter().map(|budget| (budget.to_string(), budget.allows())).collect();
        let never = "PodDisruptionBudget web (2 of 2 pods are healthy, 2 have to be, which never allows any to leave: \
                     change it, or delete the pod)";
        assert_eq!(
            texts,
            [
                (never.to_owned(), false),
                ("PodDisruptionBudget all (2 of 2 pods are healthy, 1 have to be)".to_owned(), true),
                ("PodDisruptionBudget expression (2 of 2 pods are healthy, 1 have to be)".to_owned(), true),
            ]
        );
        assert!(covering("other").is_empty());
    }

    #[test]
    fn a_budget_without_pods_is_in_nobodys_way() {
        let nothing = json!({"expectedPods": 0, "currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0});
        let with = |more: Value| {
            let mut status = nothing.clone();
            status.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            status
        };
        let failed = json!([{"type": "DisruptionAllowed", "status": "False", "reason": "SyncFailed", "message": "found no controllers",
            "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
        for (status, never) in [
            (with(json!({"observedGeneration": 1})), false),
            (nothing.clone(), true),
            (with(json!({"observedGeneration": 1, "conditions": failed})), true),
            (json!({"expectedPods": 1, "currentHealthy": 1, "desiredHealthy": 1, "disruptionsAllowed": 0}), true),
            (Value::Null, true),
        ] {
            let spec = json!({"maxUnavailable": 0, "selector": {"matchLabels": {"app": "gone"}}});
            let object = json!({"metadata": {"name": "left"}, "spec": spec, "status": status});
            let budget = Budget::of(serde_json::from_value(object).unwrap());
            assert_eq!(budget.never_allows(), never, "{status}");
        }
    }

    #[test]
    fn a_budget_that_nobody_has_looked_at_allows_nothing() {
        let new = Budget::of(serde_json::from_value(json!({"metadata": {"name": "new"}, "spec": {}})).unwrap());
        assert!(!new.allows());
        assert_eq!(new.to_string(), "PodDisruptionBudget new");
    }
}
