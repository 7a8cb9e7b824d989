//! PodDisruptionBudgets that keep a pod where it is.

use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::Value;
use std::collections::BTreeMap;

/// The budgets of a namespace that cover a pod with these labels and allow no disruption now, with what each demands.
pub(crate) fn covering(budgets: &[Value], labels: &BTreeMap<String, String>) -> Vec<String> {
    let budgets =
        budgets.iter().filter_map(|budget| serde_json::from_value::<PodDisruptionBudget>(budget.clone()).ok());
    let covering = budgets.filter(|budget| {
        let selector = budget.spec.as_ref().and_then(|spec| spec.selector.as_ref());
        selector.is_some_and(|selector| matches(selector, labels))
    });
    covering.map(|budget| described(&budget)).collect()
}

fn described(budget: &PodDisruptionBudget) -> String {
    let name = budget.metadata.name.as_deref().unwrap_or_default();
    let Some(status) = &budget.status else { return format!("PodDisruptionBudget {name}") };
    let number = |number: Option<i32>| number.unwrap_or_default();
    let (healthy, desired) = (number(status.current_healthy), number(status.desired_healthy));
    let expected = number(status.expected_pods);
    let never = match budget.spec.as_ref() {
        Some(spec) if spec.max_unavailable == Some(IntOrString::Int(0)) => true,
        _ => expected > 0 && desired >= expected,
    };
    let way_out = if never { ", which never allows any to leave: change it, or delete the pod" } else { "" };
    format!("PodDisruptionBudget {name} ({healthy} of {expected} pods are healthy, {desired} have to be{way_out})")
}

/// In policy/v1 an empty selector selects every pod.
fn matches(selector: &LabelSelector, labels: &BTreeMap<String, String>) -> bool {
    let equal = selector.match_labels.iter().flatten().all(|(key, value)| labels.get(key) == Some(value));
    let holds = |it: &LabelSelectorRequirement| {
        let (value, values) = (labels.get(&it.key), it.values.as_deref().unwrap_or_default());
        match it.operator.as_str() {
            "In" => value.is_some_and(|value| values.contains(value)),
            "NotIn" => value.is_none_or(|value| !values.contains(value)),
            "Exists" => value.is_some(),
            "DoesNotExist" => value.is_none(),
            _ => false,
        }
    };
    equal && selector.match_expressions.iter().flatten().all(holds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn budget(name: &str, selector: Value, desired: i32) -> Value {
        let status =
            json!({"currentHealthy": 2, "desiredHealthy": desired, "expectedPods": 2, "disruptionsAllowed": 0});
        json!({"metadata": {"name": name}, "spec": {"selector": selector, "minAvailable": desired}, "status": status})
    }

    #[test]
    fn budgets_that_cover_a_pod_are_named_with_what_they_demand() {
        let labels = BTreeMap::from([("app".to_owned(), "web".to_owned())]);
        let budgets = [
            budget("web", json!({"matchLabels": {"app": "web"}}), 2),
            budget("all", json!({}), 1),
            budget("db", json!({"matchLabels": {"app": "db"}}), 1),
            budget("none", Value::Null, 1),
            budget(
                "expression",
                json!({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["db"]}]}),
                1,
            ),
            json!("no budget"),
        ];
        let found = covering(&budgets, &labels);
        assert_eq!(
            found,
            [
                "PodDisruptionBudget web (2 of 2 pods are healthy, 2 have to be, which never allows any to leave: change \
                 it, or delete the pod)",
                "PodDisruptionBudget all (2 of 2 pods are healthy, 1 have to be)",
                "PodDisruptionBudget expression (2 of 2 pods are healthy, 1 have to be)",
            ]
        );
    }
}
