//! What the played objects look like: pure functions from what is seen to what is written.

use super::props::Write;
use jiff::Timestamp;
use serde_json::{Value, json};

/// Namespace and name.
pub fn name_of(object: &Value) -> (&str, &str) {
    let text = |key: &str| object.pointer(key).and_then(Value::as_str).unwrap_or_default();
    (text("/metadata/namespace"), text("/metadata/name"))
}

/// A namespace that an operator would make for its operands.
pub fn namespace(name: &str) -> Write {
    Write::create("", "v1", "Namespace", json!({"metadata": {"name": name}}))
}

/// What an installer or the config operator makes of the kinds that a definition (`<plural>.<group>`) brings.
pub fn installed(definition: &str, versions: &[String]) -> Vec<Write> {
    let config = |kind: &str, spec: Value, status: Value| {
        let object = json!({"metadata": {"name": "cluster"}, "spec": spec, "status": status});
        vec![Write::create("config.openshift.io", "v1", kind, object)]
    };
    match definition {
        "infrastructures.config.openshift.io" => config(
            "Infrastructure",
            json!({"cloudConfig": {"name": ""}, "platformSpec": {"type": "None"}}),
            json!({
                "apiServerInternalURI": "https://api-int.stage.example.com:6443",
                "apiServerURL": "https://api.stage.example.com:6443",
                "controlPlaneTopology": "HighlyAvailable",
                "infrastructureTopology": "HighlyAvailable",
                "cpuPartitioning": "None",
                "etcdDiscoveryDomain": "",
                "infrastructureName": "stage-x1y2z",
                "platform": "None",
                "platformStatus": {"type": "None"},
            }),
        ),
        "featuregates.config.openshift.io" => {
            let gates: Vec<Value> =
                versions.iter().map(|v| json!({"version": v, "enabled": [], "disabled": []})).collect();
            config("FeatureGate", json!({}), json!({ "featureGates": gates }))
        }
        _ => Vec::new(),
    }
}

/// The status that a workload's controller would write now; `None` if the object has it, or is going.
pub fn workload_status(object: &Value) -> Option<Write> {
    let number = |key: &str| object.pointer(key).and_then(Value::as_i64);
    let generation = number("/metadata/generation");
    let kind = object.get("kind").and_then(Value::as_str)?;
    let told = match kind {
        "Job" => number("/status/succeeded").is_some(),
        _ => number("/status/observedGeneration") >= generation,
    };
    if told || object.pointer("/metadata/deletionTimestamp").is_some() {
        return None;
    }
    let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let condition = |type_: &str, reason: &str| {
        json!({"type": type_, "status": "True", "reason": reason, "message": "played",
            "lastTransitionTime": now, "lastUpdateTime": now})
    };
    let (group, status) = match kind {
        "Deployment" => {
            let replicas = number("/spec/replicas").unwrap_or(1);
            let status = json!({
                "observedGeneration": generation, "replicas": replicas, "updatedReplicas": replicas,
                "readyReplicas": replicas, "availableReplicas": replicas,
                "conditions": [condition("Available", "MinimumReplicasAvailable"),
                    condition("Progressing", "NewReplicaSetAvailable")],
            });
            ("apps", status)
        }
        "DaemonSet" => (
            "apps",
            json!({
                "observedGeneration": generation, "desiredNumberScheduled": 1, "currentNumberScheduled": 1,
                "updatedNumberScheduled": 1, "numberReady": 1, "numberAvailable": 1, "numberMisscheduled": 0,
            }),
        ),
        "Job" => {
            let condition = |type_: &str| {
                json!({"type": type_, "status": "True", "reason": "CompletionsReached", "message": "played",
                    "lastTransitionTime": now, "lastProbeTime": now})
            };
            let succeeded = number("/spec/completions").unwrap_or(1);
            let status = json!({
                "startTime": now, "completionTime": now, "succeeded": succeeded, "terminating": 0, "ready": 0,
                "conditions": [condition("SuccessCriteriaMet"), condition("Complete")],
            });
            ("batch", status)
        }
        _ => return None,
    };
    let (namespace, name) = name_of(object);
    Some(Write::status(
        group,
        "v1",
        kind,
        json!({"metadata": {"namespace": namespace, "name": name}, "status": status}),
    ))
}

/// An operator that is well and has reached `versions`.
pub fn operator_status(name: &str, versions: &Value, now: Timestamp) -> Write {
    let now = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let condition = |(type_, status): (&str, &str)| json!({"type": type_, "status": status, "reason": "AsExpected", "message": "played", "lastTransitionTime": now});
    let conditions = [("Available", "True"), ("Degraded", "False"), ("Progressing", "False"), ("Upgradeable", "True")]
        .map(condition);
    let status = json!({"conditions": conditions, "versions": versions});
    Write::status("config.openshift.io", "v1", "ClusterOperator", json!({"metadata": {"name": name}, "status": status}))
}

/// Whether an operator reports to be well and at these versions.
pub fn reports(operator: &Value, versions: &Value) -> bool {
    let is = |type_: &str, status: &str| {
        let conditions = operator.pointer("/status/conditions").and_then(Value::as_array);
        conditions.into_iter().flatten().any(|c| {
            c.get("type").and_then(Value::as_str) == Some(type_)
                && c.get("status").and_then(Value::as_str) == Some(status)
        })
    };
    is("Available", "True") && is("Degraded", "False") && operator.pointer("/status/versions") == Some(versions)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workload_gets_a_status_for_each_generation_once() {
        let mut object = json!({"kind": "Deployment", "metadata": {"namespace": "n", "name": "d", "generation": 1},
            "spec": {"replicas": 2}});
        let write = workload_status(&object).unwrap();
        object["status"] = write.object["status"].clone();
        assert_eq!(object["status"]["updatedReplicas"], 2);
        assert!(workload_status(&object).is_none());
        object["metadata"]["generation"] = 2.into();
        assert!(workload_status(&object).is_some());
        object["metadata"]["deletionTimestamp"] = "x".into();
        assert!(workload_status(&object).is_none());
    }

    #[test]
    fn what_is_reported_is_known_again() {
        let versions = json!([{"name": "operator", "version": "5.0.0"}]);
        let written = operator_status("a", &versions, Timestamp::UNIX_EPOCH).object;
        assert!(reports(&written, &versions));
        assert!(!reports(&written, &json!([{"name": "operator", "version": "5.0.1"}])));
        assert!(!reports(&json!({"status": {"versions": versions}}), &versions));
    }
}
