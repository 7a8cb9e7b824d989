//! What the operator does next, as a function of facts.

use super::facts::Facts;
use super::{Operand, OperandKind, OperatorArgs};
use cvo::testing::api::cluster_operator::{OperandVersion, RelatedObject};
use cvo::testing::api::condition::find;
use cvo::testing::api::{ClusterOperatorStatus, Condition, ConditionStatus};
use e2e::simulator::status::rolled_out;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Action {
    RollOut(Operand, Value),
    Report(ClusterOperatorStatus),
}

/// Status, reason and message of a condition.
type ConditionReport = (bool, &'static str, String);

struct Report {
    available: ConditionReport,
    progressing: ConditionReport,
    degraded: ConditionReport,
    /// Whether this version has rolled out.
    reached: bool,
}

/// Progressing is reported before the rollout begins, so that the new workload is never visible with the old report.
/// Nothing is decided before the daemon has created the ClusterOperator.
pub(super) fn decide(args: &OperatorArgs, facts: &Facts) -> Vec<Action> {
    let Some(own) = facts.operators.get(&args.component) else { return Vec::new() };
    let before = own.status.clone().unwrap_or_default();
    let missing = missing(args, facts);
    let blocked = !facts.repaired || !missing.is_empty();
    let mut changes = Vec::new();
    if !blocked {
        for (operand, live) in args.operands.iter().zip(&facts.operands) {
            let desired = workload(args, operand, facts.config.as_ref());
            // The items of a list do not say their kind.
            let parts = ["metadata", "spec"].map(|part| desired.get(part).zip(live.as_ref()?.get(part)));
            if !parts.iter().all(|part| part.is_some_and(|(desired, live)| contains(live, desired))) {
                changes.push(Action::RollOut(operand.clone(), desired));
            }
        }
    }
    let report =
        if !facts.repaired { failed(args) } else { progress(args, facts, &before, &missing, !changes.is_empty()) };
    let status = status(args, facts, &before, report);
    let mut actions = Vec::new();
    if status != before {
        actions.push(Action::Report(status));
    }
    actions.extend(changes);
    actions
}

/// What is needed before operands may be rolled out and is missing.
fn missing(args: &OperatorArgs, facts: &Facts) -> Vec<String> {
    let mut missing: Vec<String> = args
        .needs
        .iter()
        .filter(|name| {
            let status = facts.operators.get(*name).and_then(|operator| operator.status.as_ref());
            !status.is_some_and(|status| holds(status, "Available"))
        })
        .map(|name| format!("ClusterOperator {name} is not available"))
        .collect();
    if args.needs_config && facts.config.is_none() {
        missing.push("PlatformConfig cluster does not exist".into());
    }
    missing
}

fn holds(status: &ClusterOperatorStatus, condition: &str) -> bool {
    find(&status.conditions, condition).is_some_and(|c| c.status == ConditionStatus::True)
}

fn failed(args: &OperatorArgs) -> Report {
    let repair = args.fail_until.clone().unwrap_or_default();
    let why = format!("cannot set up: create ConfigMap {}/{repair} to repair it", args.component);
    Report {
        available: (false, "SetupFailed", why.clone()),
        progressing: (true, "SetupFailed", format!("stopped on the way to {}", args.version)),
        degraded: (true, "SetupFailed", why),
        reached: false,
    }
}

fn progress(
    args: &OperatorArgs,
    facts: &Facts,
    before: &ClusterOperatorStatus,
    missing: &[String],
    changing: bool,
) -> Report {
    let version = &args.version;
    let reached = before.versions.iter().any(|v| v.name == "operator" && v.version == *version)
        && find(&before.conditions, "Progressing").is_some_and(|c| c.status == ConditionStatus::False);
    let behind: Vec<String> = args
        .operands
        .iter()
        .zip(&facts.operands)
        .filter(|(operand, live)| !live.as_ref().is_some_and(|live| rolled_out(operand.kind.name(), live)))
        .map(|(operand, _)| format!("{} {} has not rolled out", operand.kind.name(), operand.name))
        .collect();
    let unavailable =
        args.operands.iter().zip(&facts.operands).any(|(operand, live)| !serves(operand.kind, live.as_ref()));
    let healthy = (false, "AsExpected", String::new());
    let ready = (true, "AsExpected", format!("{} serves", args.component));
    if missing.is_empty() && !changing && behind.is_empty() {
        let done = (false, "AsExpected", format!("{version} is rolled out"));
        return Report { available: ready, progressing: done, degraded: healthy, reached: true };
    }
    if reached && !changing && missing.is_empty() {
        // A pod of a finished rollout is down: no rollout, but perhaps no service.
        let available = if unavailable {
            (false, "OperandUnavailable", format!("no pod serves: {}", behind.join(", ")))
        } else {
            ready
        };
        let done = (false, "AsExpected", format!("{version} is rolled out"));
        return Report { available, progressing: done, degraded: healthy, reached: true };
    }
    // While pods are being replaced, having served before counts; a first rollout has nothing to show yet.
    let served = holds(before, "Available") || !unavailable && before.versions.iter().any(|v| v.name == "operator");
    let available =
        if served { ready } else { (false, "NotRolledOut", format!("{} has not served yet", args.component)) };
    let progressing = match (missing.is_empty(), reached) {
        (true, _) if behind.is_empty() => (true, "RollingOut", format!("rolling out {version}")),
        (true, _) => (true, "RollingOut", format!("rolling out {version}: {}", behind.join(", "))),
        (false, true) => (false, "AsExpected", format!("{version} is rolled out")),
        (false, false) => (true, "WaitingForOthers", format!("{version} waits: {}", missing.join(", "))),
    };
    Report { available, progressing, degraded: healthy, reached: reached && !changing }
}

/// The report as status: a transition time changes only with the condition's status, versions only after the rollout.
fn status(args: &OperatorArgs, facts: &Facts, before: &ClusterOperatorStatus, report: Report) -> ClusterOperatorStatus {
    let now = jiff::Timestamp::from_second(facts.now.as_second()).unwrap_or(facts.now);
    let condition = |type_: &str, (status, reason, message): ConditionReport| {
        let status = if status { ConditionStatus::True } else { ConditionStatus::False };
        let since = find(&before.conditions, type_)
            .filter(|c| c.status == status)
            .map_or(Time(now), |c| c.last_transition_time.clone());
        Condition { type_: type_.into(), status, last_transition_time: since, reason: reason.into(), message }
    };
    let versions = if report.reached {
        vec![OperandVersion { name: "operator".into(), version: args.version.clone() }]
    } else {
        before.versions.clone()
    };
    let mut related = vec![RelatedObject {
        group: String::new(),
        resource: "namespaces".into(),
        namespace: String::new(),
        name: args.component.clone(),
    }];
    related.extend(args.operands.iter().map(|operand| RelatedObject {
        group: "apps".into(),
        resource: format!("{}s", operand.kind.name().to_lowercase()),
        namespace: args.component.clone(),
        name: operand.name.clone(),
    }));
    ClusterOperatorStatus {
        conditions: vec![
            condition("Available", report.available),
            condition("Progressing", report.progressing),
            condition("Degraded", report.degraded),
        ],
        versions,
        related_objects: related,
        extension: before.extension.clone(),
    }
}

/// The operand at this version. A changed configuration replaces its pods as well.
fn workload(args: &OperatorArgs, operand: &Operand, config: Option<&Value>) -> Value {
    let labels = json!({"app": operand.name});
    let settings = config.map_or_else(|| "{}".to_owned(), Value::to_string);
    let spec = json!({
        "selector": {"matchLabels": labels},
        "template": {
            "metadata": {"labels": labels},
            "spec": {
                "hostNetwork": true,
                "terminationGracePeriodSeconds": 1,
                "tolerations": [{"operator": "Exists"}],
                "containers": [{
                    "name": operand.name,
                    "image": args.operand_image,
                    "args": ["pause"],
                    "env": [
                        {"name": "RELEASE_VERSION", "value": args.version},
                        {"name": "PLATFORM_CONFIG", "value": settings},
                    ],
                    "resources": {"requests": {"cpu": "5m", "memory": "8Mi"}},
                }],
            },
        },
    });
    json!({
        "apiVersion": "apps/v1",
        "kind": operand.kind.name(),
        "metadata": {"name": operand.name, "namespace": args.component, "labels": labels},
        "spec": spec,
    })
}

/// Whether `live` has all fields of `desired` with their values. Other fields do not matter.
fn contains(live: &Value, desired: &Value) -> bool {
    match (live, desired) {
        (Value::Object(live), Value::Object(desired)) => {
            desired.iter().all(|(key, desired)| live.get(key).is_some_and(|live| contains(live, desired)))
        }
        (Value::Array(live), Value::Array(desired)) => {
            live.len() == desired.len() && live.iter().zip(desired).all(|(live, desired)| contains(live, desired))
        }
        _ => live == desired,
    }
}

/// Whether at least one pod of the operand serves.
fn serves(kind: OperandKind, live: Option<&Value>) -> bool {
    let pointer = match kind {
        OperandKind::Deployment => "/status/availableReplicas",
        OperandKind::DaemonSet => "/status/numberAvailable",
    };
    live.is_some_and(|live| live.pointer(pointer).and_then(Value::as_i64).is_some_and(|pods| pods > 0))
}

#[cfg(test)]
mod tests;
