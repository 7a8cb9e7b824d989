//! Deployment, DaemonSet, StatefulSet, Job, CronJob, and quotas, limits and budgets.

use super::pods::{Runs, template};
use crate::random::{Make, SeededRandom, flag, number, quantity};
use serde_json::{Value, json};

/// A number, or a percentage as text.
fn some_pods(d: &SeededRandom) -> Value {
    d.pick(&[json!(1), json!("10%"), json!("25%"), json!(2), json!("100%")])
}

/// Labels that match the selector, and others.
fn labels(d: &SeededRandom) -> Value {
    let mut labels = json!({"name": "x"});
    if d.chance(40) {
        labels["tier"] = json!(d.pick(&["a", ""]));
    }
    labels
}

fn selector() -> Value {
    json!({"matchLabels": {"name": "x"}})
}

pub(super) fn deployment(d: &SeededRandom) -> Value {
    let labels = labels(d);
    let mut spec = json!({"selector": selector(), "template": template(d, &labels, Runs::Always)});
    spec = d.with(spec, &[
        ("replicas", |d| json!(d.below(4))),
        ("paused", flag),
        ("minReadySeconds", number),
        ("revisionHistoryLimit", |d| json!(d.pick(&[0, 10, 3]))),
        ("progressDeadlineSeconds", |d| json!(d.pick(&[600, 300]))),
        ("strategy", |d| match d.below(4) {
            0 => json!({"type": "Recreate"}),
            1 => json!({"type": "RollingUpdate"}),
            2 => json!({"rollingUpdate": {"maxUnavailable": some_pods(d)}}),
            _ => json!({"type": "RollingUpdate", "rollingUpdate": d.with(json!({"maxSurge": some_pods(d)}), &[("maxUnavailable", some_pods)])}),
        }),
    ]);
    json!({"spec": spec})
}

pub(super) fn daemon_set(d: &SeededRandom) -> Value {
    let labels = labels(d);
    let mut spec = json!({"selector": selector(), "template": template(d, &labels, Runs::Always)});
    spec = d.with(
        spec,
        &[
            ("minReadySeconds", number),
            ("revisionHistoryLimit", |d| json!(d.pick(&[0, 10, 3]))),
            ("updateStrategy", |d| match d.below(4) {
                0 => json!({"type": "OnDelete"}),
                1 => json!({"rollingUpdate": {"maxUnavailable": some_pods(d)}}),
                2 => json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": some_pods(d), "maxUnavailable": 0}}),
                _ => json!({"type": "RollingUpdate"}),
            }),
        ],
    );
    json!({"spec": spec})
}

pub(super) fn stateful_set(d: &SeededRandom) -> Value {
    let labels = labels(d);
    let mut spec = json!({"selector": selector(), "template": template(d, &labels, Runs::Always)});
    // Immutable fields.
    let fixed = d.fixed("claims");
    spec["serviceName"] = json!(fixed.pick(&["x", ""]));
    if fixed.chance(50) {
        spec["podManagementPolicy"] = json!(fixed.pick(&["Parallel", "OrderedReady"]));
    }
    if fixed.chance(50) {
        let claim = super::volumes::claim(&fixed);
        spec["volumeClaimTemplates"] = json!([{"metadata": {"name": "claimed"}, "spec": claim}]);
    }
    spec = d.with(
        spec,
        &[
            ("replicas", |d| json!(d.below(4))),
            ("minReadySeconds", number),
            ("ordinals", |d| json!({"start": d.below(3)})),
            ("persistentVolumeClaimRetentionPolicy", |d| {
                d.some(&[
                    ("whenDeleted", |d| json!(d.pick(&["Retain", "Delete"]))),
                    ("whenScaled", |_| json!("Delete")),
                ])
            }),
            ("updateStrategy", |d| match d.below(3) {
                0 => json!({"type": "OnDelete"}),
                1 => json!({"rollingUpdate": {"partition": d.below(3)}}),
                _ => json!({"type": "RollingUpdate"}),
            }),
        ],
    );
    json!({"spec": spec})
}

pub(super) fn job(d: &SeededRandom) -> Value {
    json!({"spec": job_spec(d)})
}

fn job_spec(d: &SeededRandom) -> Value {
    let labels = if d.chance(50) { json!({"tier": "a"}) } else { json!({}) };
    let mut spec = json!({"template": template(d, &labels, Runs::ToTheEnd)});
    spec = d.with(
        spec,
        &[
            ("activeDeadlineSeconds", number),
            ("ttlSecondsAfterFinished", |d| json!(d.pick(&[0, 100]))),
            ("suspend", flag),
            ("manualSelector", |_| json!(false)),
            ("podReplacementPolicy", |d| json!(d.pick(&["Failed", "TerminatingOrFailed"]))),
        ],
    );
    match d.below(5) {
        0 => spec["parallelism"] = json!(d.below(3)),
        1 => spec["completions"] = json!(1 + d.below(3)),
        2 => {
            spec["completionMode"] = json!("Indexed");
            spec["completions"] = json!(3);
            if d.chance(50) {
                spec["backoffLimitPerIndex"] = json!(1);
            }
        }
        3 => spec["completionMode"] = json!("NonIndexed"),
        _ => {}
    }
    if spec.get("backoffLimitPerIndex").is_none() && d.chance(40) {
        spec["backoffLimit"] = json!(d.pick(&[0, 6, 2]));
    }
    if spec["template"]["spec"]["restartPolicy"] == "Never" && d.chance(20) {
        spec["podFailurePolicy"] = json!({"rules": [
            {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}},
            {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]},
        ]});
        spec["podReplacementPolicy"] = json!("Failed");
    }
    spec
}

pub(super) fn cron_job(d: &SeededRandom) -> Value {
    let mut job = json!({"spec": job_spec(d)});
    if d.chance(30) {
        job["metadata"] = json!({"labels": d.entries()});
    }
    let spec = d.with(
        json!({"schedule": d.pick(&["@daily", "*/5 * * * *"]), "jobTemplate": job}),
        &[
            ("timeZone", |d| json!(d.pick(&["Etc/UTC", "Europe/Berlin"]))),
            ("startingDeadlineSeconds", |d| json!(d.pick(&[0, 60]))),
            ("concurrencyPolicy", |d| json!(d.pick(&["Allow", "Forbid", "Replace"]))),
            ("suspend", flag),
            ("successfulJobsHistoryLimit", |d| json!(d.pick(&[0, 3, 5]))),
            ("failedJobsHistoryLimit", |d| json!(d.pick(&[0, 1, 5]))),
        ],
    );
    json!({"spec": spec})
}

pub(super) fn disruption_budget(d: &SeededRandom) -> Value {
    let mut spec = d.some(&[
        ("selector", SeededRandom::selector),
        ("unhealthyPodEvictionPolicy", |d| json!(d.pick(&["IfHealthyBudget", "AlwaysAllow"]))),
    ]);
    match d.below(3) {
        0 => spec["minAvailable"] = d.pick(&[json!(0), json!(1), json!("50%"), json!("0%")]),
        1 => spec["maxUnavailable"] = d.pick(&[json!(0), json!(1), json!("50%"), json!("0%")]),
        _ => {}
    }
    json!({"spec": spec})
}

pub(super) fn autoscaler(d: &SeededRandom) -> Value {
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "x"});
    let spec = d.with(json!({"scaleTargetRef": target, "maxReplicas": 5}), &[
        ("minReplicas", |d| json!(1 + d.below(3))),
        ("metrics", |d| {
            d.list(1, 2, |d| match d.below(3) {
                0 => json!({"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}}),
                1 => json!({"type": "Resource", "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": quantity(d)}}}),
                _ => json!({"type": "Pods", "pods": {"metric": {"name": "m"}, "target": {"type": "AverageValue", "averageValue": "1500m"}}}),
            })
        }),
        ("behavior", |d| d.some(&[("scaleUp", scaling), ("scaleDown", scaling)])),
    ]);
    json!({"spec": spec})
}

fn scaling(d: &SeededRandom) -> Value {
    const FIELDS: &[(&str, Make)] = &[
        ("stabilizationWindowSeconds", |d| json!(d.pick(&[0, 60]))),
        ("selectPolicy", |d| json!(d.pick(&["Max", "Min"]))),
        ("policies", |_| json!([{"type": "Pods", "value": 4, "periodSeconds": 15}])),
    ];
    d.some(FIELDS)
}

pub(super) fn quota(d: &SeededRandom) -> Value {
    let mut spec = json!({});
    if d.chance(80) {
        spec["hard"] = d.some(&[
            ("pods", |d| d.pick(&[json!("10"), json!(10), json!("0")])),
            ("requests.cpu", |d| d.pick(&[json!("1000m"), json!(4), json!("0.5")])),
            ("limits.memory", quantity),
            ("count/configmaps", |_| json!("1k")),
        ]);
    }
    if d.fixed("scopes").chance(20) {
        spec = json!({"hard": {"pods": "1000m"}, "scopes": ["BestEffort"]});
    }
    json!({"spec": spec})
}

pub(super) fn limit_range(d: &SeededRandom) -> Value {
    let limits = d.list(1, 2, |d| match d.below(3) {
        0 => json!({"type": "Container", "default": {"cpu": "1000m"}, "defaultRequest": {"cpu": "0.1"}}),
        1 => json!({"type": "Container", "max": {"memory": quantity(d)}}),
        _ => json!({"type": "Pod", "min": {"cpu": 0.1}, "max": {"cpu": "2.0"}}),
    });
    json!({"spec": {"limits": limits}})
}

pub(super) fn claim(d: &SeededRandom) -> Value {
    // Only the request may change, and on a bound claim it may only grow.
    let fixed = d.fixed("claim");
    json!({"spec": super::volumes::claim(&fixed)})
}
