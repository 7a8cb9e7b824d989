//! Which values mean the same to the API server: equal numbers, and fields that are empty or absent.

use super::quantity;
use super::rule::Rule;
use serde_json::Value;

/// Fields whose zero or empty value differs in meaning from their absence. The API server stores them as they were written,
/// so a strict comparison does not lead to repeated writes.
const SIGNIFICANT: &[&str] = &[
    "activeDeadlineSeconds",
    "additionalProperties",
    "allocateLoadBalancerNodePorts",
    "allowPrivilegeEscalation",
    "automountServiceAccountToken",
    "backoffLimit",
    "backoffLimitPerIndex",
    "borrowingLimitPercent",
    "completions",
    "defaultMode",
    "downwardAPI",
    "defaultAllowPrivilegeEscalation",
    "emptyDir",
    "enableServiceLinks",
    "failedJobsHistoryLimit",
    "fsGroup",
    "hostUsers",
    "image",
    "labelSelector",
    "maxFailedIndexes",
    "maxSurge",
    "maxUnavailable",
    "minAvailable",
    "namespaceSelector",
    "not",
    "nominalConcurrencyShares",
    "objectSelector",
    "parallelism",
    "podFailurePolicy",
    "podSelector",
    "projected",
    "queuing",
    "replicas",
    "revisionHistoryLimit",
    "runAsGroup",
    "runAsNonRoot",
    "runAsUser",
    "stabilizationWindowSeconds",
    "startingDeadlineSeconds",
    "successfulJobsHistoryLimit",
    "terminationGracePeriodSeconds",
    "tolerationSeconds",
    "ttlSecondsAfterFinished",
];

/// Whether `value` under `key` means the same as no value. Null, empty lists and empty maps do. With `zero_is_absent` so do
/// `false`, `0` and the empty string, which API servers with Go types omit.
pub(super) fn blank(key: &str, value: &Value, zero_is_absent: bool) -> bool {
    let empty = match value {
        Value::Null => return true,
        Value::Array(list) => return list.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::Bool(set) => zero_is_absent && !set,
        Value::Number(number) => zero_is_absent && number.as_f64() == Some(0.0),
        Value::String(text) => zero_is_absent && text.is_empty(),
    };
    empty && !SIGNIFICANT.contains(&key)
}

/// Fields, beside those with a rule for a default, that an API server with Go types sets to a default if they are empty, so
/// that an empty value means the same as none.
const FILLED: &[&str] = &[
    "externalTrafficPolicy",
    "imagePullPolicy",
    "matchingPrecedence",
    "metrics",
    "podManagementPolicy",
    "policyTypes",
    "pullPolicy",
    "restartPolicy",
    "schedulerName",
    "sessionAffinity",
    "terminationMessagePath",
    "terminationMessagePolicy",
    "whenDeleted",
    "whenScaled",
];

/// Whether an API server with Go types replaces this value of a manifest by a default because it is empty. `defaulted` says
/// whether a rule has a default for it.
pub(super) fn filled(key: &str, value: &Value, defaulted: bool) -> bool {
    let scalar = !value.is_array() && !value.is_object();
    (scalar && defaulted || FILLED.contains(&key)) && blank(key, value, true)
}

/// Whether both are the same JSON. Numbers are compared by value.
pub(super) fn json(live: &Value, desired: &Value) -> bool {
    match (live, desired) {
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| json(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| json(a, b)))
        }
        _ => same(Rule::Json, live, desired),
    }
}

/// Whether these are two label selectors that are not both empty.
pub(super) fn is_selector(live: &Value, desired: &Value) -> bool {
    let (Value::Object(live), Value::Object(desired)) = (live, desired) else { return false };
    let mut keys = live.keys().chain(desired.keys()).peekable();
    keys.peek().is_some() && keys.all(|key| ["matchLabels", "matchExpressions"].contains(&key.as_str()))
}

/// Whether two scalars are equal by this rule.
pub(super) fn same(rule: Rule, live: &Value, desired: &Value) -> bool {
    match rule {
        Rule::Quantity => quantity::same(live, desired),
        Rule::IntOrString => match (live, desired) {
            (Value::String(text), Value::Number(number)) | (Value::Number(number), Value::String(text)) => {
                *text == number.to_string()
            }
            _ => same(Rule::Deep, live, desired),
        },
        Rule::Base64 => match (live, desired) {
            (Value::String(live), Value::String(desired)) => {
                let compact = |text: &str| text.chars().filter(|c| !c.is_ascii_whitespace()).collect::<String>();
                live == desired || compact(live) == compact(desired)
            }
            _ => live == desired,
        },
        _ => match (live, desired) {
            (Value::Number(a), Value::Number(b)) => a == b || (a.is_f64() || b.is_f64()) && a.as_f64() == b.as_f64(),
            _ => live == desired,
        },
    }
}
