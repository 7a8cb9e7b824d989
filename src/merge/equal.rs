//! Which values mean the same to the API server: numbers by value, and fields that are empty or not there.

use super::quantity;
use super::rule::Rule;
use serde_json::Value;

/// Fields whose zero or empty value says something else than their absence. The server keeps them as they were
/// written, so that comparing them strictly cannot end in a loop.
const SIGNIFICANT: &[&str] = &[
    "activeDeadlineSeconds",
    "additionalProperties",
    "allocateLoadBalancerNodePorts",
    "allowPrivilegeEscalation",
    "automountServiceAccountToken",
    "backoffLimit",
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
    "labelSelector",
    "maxSurge",
    "maxUnavailable",
    "minAvailable",
    "namespaceSelector",
    "not",
    "nominalConcurrencyShares",
    "objectSelector",
    "parallelism",
    "podSelector",
    "projected",
    "queuing",
    "replicas",
    "revisionHistoryLimit",
    "runAsGroup",
    "runAsNonRoot",
    "runAsUser",
    "startingDeadlineSeconds",
    "successfulJobsHistoryLimit",
    "terminationGracePeriodSeconds",
    "tolerationSeconds",
    "ttlSecondsAfterFinished",
];

/// Does `value` under `key` mean the same as no value? Null and empty lists and maps always do. Where `zero_is_absent`,
/// so do `false`, `0` and the empty string, which typed API servers do not write out.
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

/// Fields without a rule of their own which a typed server fills in where they are empty, so that writing them empty is
/// the same as leaving them out.
const FILLED: &[&str] = &[
    "imagePullPolicy",
    "matchingPrecedence",
    "metrics",
    "podManagementPolicy",
    "pullPolicy",
    "restartPolicy",
    "schedulerName",
    "sessionAffinity",
    "terminationMessagePath",
    "terminationMessagePolicy",
    "whenDeleted",
    "whenScaled",
];

/// Does a typed server fill in this field although the manifest has it, because it is empty there? `defaulted`: a rule
/// knows a default for it.
pub(super) fn filled(key: &str, value: &Value, defaulted: bool) -> bool {
    let scalar = !value.is_array() && !value.is_object();
    (scalar && defaulted || FILLED.contains(&key)) && blank(key, value, true)
}

/// The same JSON, numbers by value.
pub(super) fn json(live: &Value, want: &Value) -> bool {
    match (live, want) {
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| json(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| json(a, b)))
        }
        _ => same(Rule::Json, live, want),
    }
}

/// Are these two label selectors, at least one of which selects by something?
pub(super) fn is_selector(live: &Value, want: &Value) -> bool {
    let (Value::Object(live), Value::Object(want)) = (live, want) else { return false };
    let mut keys = live.keys().chain(want.keys()).peekable();
    keys.peek().is_some() && keys.all(|key| ["matchLabels", "matchExpressions"].contains(&key.as_str()))
}

/// Are two scalars the same under this rule?
pub(super) fn same(rule: Rule, live: &Value, want: &Value) -> bool {
    match rule {
        Rule::Quantity => quantity::same(live, want),
        Rule::IntOrString => match (live, want) {
            (Value::String(text), Value::Number(number)) | (Value::Number(number), Value::String(text)) => {
                *text == number.to_string()
            }
            _ => same(Rule::Deep, live, want),
        },
        Rule::Base64 => match (live, want) {
            (Value::String(live), Value::String(want)) => {
                let dense = |text: &str| text.chars().filter(|c| !c.is_ascii_whitespace()).collect::<String>();
                live == want || dense(live) == dense(want)
            }
            _ => live == want,
        },
        _ => match (live, want) {
            (Value::Number(a), Value::Number(b)) => a == b || (a.is_f64() || b.is_f64()) && a.as_f64() == b.as_f64(),
            _ => live == want,
        },
    }
}
