//! The daemon and a plan of the update judge alike: the same inputs give the same words.

use super::*;
use crate::cluster_version::api::ClusterVersion;
use crate::cluster_version::forecast;
use crate::cluster_version::forecast::{ClusterState, Severity};
use crate::cluster_version::updates::upgradeable;
use crate::cluster_version::updates::upgradeable::{NotUpgradeable, Sources};
use crate::object::condition::Condition;
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeMap;

const TIME: &str = "2026-01-01T00:00:00Z";

fn version() -> impl Strategy<Value = String> {
    let good = (prop::sample::select(vec![3, 4, 5, 6]), 0..4, 0..3).prop_map(|(a, b, c)| format!("{a}.{b}.{c}"));
    prop_oneof![9 => good, 1 => Just("4.1.0-rc.1".to_owned()), 1 => Just("nonsense".to_owned())]
}

fn release_of(version: &str) -> Value {
    json!({"version": version, "image": format!("r@sha256:{version}")})
}

fn entry(version: &str, completed: bool) -> Value {
    let state = if completed { "Completed" } else { "Partial" };
    json!({"state": state, "startedTime": TIME, "completionTime": TIME, "version": version,
        "image": format!("r@sha256:{version}"), "verified": true})
}

fn conditional(version: &str, status: &str) -> Value {
    let condition = json!({"type": "Recommended", "status": status, "reason": "R", "message": "because",
        "lastTransitionTime": TIME});
    json!({"release": release_of(version), "risks": [], "conditions": [condition]})
}

fn truth() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["True", "False", "Unknown"])
}

prop_compose! {
    fn cluster()(
        history in prop::collection::vec((version(), any::<bool>()), 1..5),
        available in prop::collection::vec(version(), 0..3),
        conditionals in prop::collection::vec((version(), truth()), 0..3),
        retrieved in truth(),
        updating in any::<bool>(),
        unmanaged in prop::option::of(any::<bool>()),
        channel in prop::sample::select(vec!["", "fast"]),
    ) -> ClusterVersion {
        let condition = |type_: &str, status: &str| json!({"type": type_, "status": status, "lastTransitionTime": TIME});
        let overrides: Vec<Value> = unmanaged.iter()
            .map(|unmanaged| json!({"kind": "Deployment", "name": "a", "namespace": "b", "unmanaged": unmanaged}))
            .collect();
        let object = json!({
            "apiVersion": "config.openshift.io/v1", "kind": "ClusterVersion", "metadata": {"name": "version"},
            "spec": {"clusterID": "x", "channel": channel, "overrides": overrides},
            "status": {
                "desired": release_of(&history[0].0),
                "history": history.iter().map(|(version, completed)| entry(version, *completed)).collect::<Vec<_>>(),
                "availableUpdates": available.iter().map(|v| release_of(v)).collect::<Vec<_>>(),
                "conditionalUpdates": conditionals.iter().map(|(v, status)| conditional(v, status)).collect::<Vec<_>>(),
                "conditions": [
                    condition("RetrievedUpdates", retrieved),
                    condition("Progressing", if updating { "True" } else { "False" }),
                ],
            },
        });
        serde_json::from_value(object).unwrap()
    }
}

fn data() -> impl Strategy<Value = Read<BTreeMap<String, String>>> {
    let key = prop::sample::select(vec!["ack-4.1-a", "ack-4.2-a", "ack-5.0-a", "nonsense"]);
    let value = prop::sample::select(vec!["true", "", "read this"]);
    let map = prop::collection::btree_map(key.prop_map(str::to_owned), value.prop_map(str::to_owned), 0..3);
    prop_oneof![5 => map.prop_map(Read::Value), 1 => Just(Read::Absent), 1 => Just(Read::Failed("no answer".to_owned()))]
}

fn operators() -> impl Strategy<Value = Vec<NotUpgradeable>> {
    let name = prop::sample::select(vec!["dns", "machine-config", "network"]);
    let conditions = |status: &str| -> Vec<Condition> {
        let condition = json!([{"type": "Upgradeable", "status": status, "reason": "Busy", "message": "wait",
            "lastTransitionTime": TIME}]);
        serde_json::from_value(condition).unwrap()
    };
    prop::collection::btree_map(name, truth(), 0..3).prop_map(move |operators| {
        let all: Vec<_> = operators.iter().map(|(name, status)| (*name, conditions(status))).collect();
        upgradeable::refusals(all.iter().map(|(name, conditions)| (*name, conditions.as_slice())))
    })
}

proptest! {
    #[test]
    fn plan_says_what_the_daemon_will_do(
        cluster in cluster(),
        to in version(),
        gates in data(),
        acks in data(),
        operators in operators(),
        deletions in prop::collection::vec("[a-z]{3}", 0..2),
    ) {
        let target: Release = serde_json::from_value(release_of(&to)).unwrap();
        let status = cluster.status.clone().unwrap_or_default();
        let operators = Read::Value(operators);
        let updating = status.conditions.iter().any(|c| c.type_ == "Progressing" && c.status == crate::object::condition::ConditionStatus::True);
        let risks = upgradeable::risks(&Sources {
            version: &status.desired.version,
            updating,
            overrides: &cluster.spec.overrides,
            deletions: &deletions,
            operators: &operators,
            gates: &gates,
            acks: &acks,
        });
        let retrieved = status.conditions.iter().any(|c| c.type_ == "RetrievedUpdates" && c.status == crate::object::condition::ConditionStatus::True);
        let answer = Retrieval {
            outcome: if retrieved { Ok(String::new()) } else { Err(("RemoteFailed".into(), "away".into())) },
            available: status.available_updates.clone().unwrap_or_default(),
            conditional: status.conditional_updates.clone(),
            current: None,
            answered: true,
            known: true,
            risks: Vec::new(),
        };
        // The overrides may make it unmanaged.
        let own = ObjectId::new("", "Deployment", "b", "a");
        let findings = judge(&target, &cluster.spec, &status, Some(&risks), Some(&answer), &own, &Read::Absent);
        let state = ClusterState { operators, gates, acks, deletions, unplaced: Read::Absent };
        let blockers = forecast::preconditions(&cluster, &state, &target, &own);
        let daemon: Vec<_> = findings.iter().map(|f| (f.reason.as_str(), f.message.as_str(), f.blocks)).collect();
        let plan: Vec<_> = blockers.iter().map(|b| (b.reason.as_str(), b.message.as_str(), b.severity == Severity::Blocks)).collect();
        prop_assert_eq!(daemon, plan);
        prop_assert_eq!(preconditions::is_blocked(&findings, false), blockers.iter().any(|b| b.severity == Severity::Blocks));
    }
}
