//! Label selectors.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use std::collections::BTreeMap;

/// Whether there are no requirements.
pub(crate) fn is_empty(selector: &LabelSelector) -> bool {
    selector.match_labels.iter().flatten().next().is_none()
        && selector.match_expressions.iter().flatten().next().is_none()
}

/// Whether labels meet all requirements: those of any object, where there are none.
pub(crate) fn matches(selector: &LabelSelector, labels: &BTreeMap<String, String>) -> bool {
    let equal = selector.match_labels.iter().flatten().all(|(key, value)| labels.get(key) == Some(value));
    let holds = |it: &LabelSelectorRequirement| {
        let (value, values) = (labels.get(&it.key), it.values.as_deref().unwrap_or_default());
        match it.operator.as_str() {
            "In" => value.is_some_and(|value| values.contains(value)),
            "NotIn" => value.is_none_or(|value| !values.contains(value)),
            "Exists" => value.is_some(),
            "DoesNotExist" => value.is_none(),
            // The API server's schema allows any text.
            _ => false,
        }
    };
    equal && selector.match_expressions.iter().flatten().all(holds)
}
