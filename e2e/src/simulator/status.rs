//! What the controllers, the installer and the operators of a real cluster would write: pure functions of what was read.

use super::objects::{Key, Write, key};
use jiff::Timestamp;
use serde_json::{Value, json};

const CONFIG_GROUP: &str = "config.openshift.io";

/// A namespace that an operator would create for its operands.
pub fn namespace(name: &str) -> Write {
    Write::create("", "Namespace", json!({"metadata": {"name": name}}))
}

/// The objects that an installer or the config operator creates of a kind, once its CustomResourceDefinition
/// (`<plural>.<group>`) is established.
pub fn cluster_config(definition: &str, versions: &[String]) -> Option<Write> {
    let config = |kind: &str, spec: Value, status: Value| {
        let object = json!({"metadata": {"name": "cluster"}, "spec": spec, "status": status});
        Some(Write::create(CONFIG_GROUP, kind, object))
    };
    match definition {
        "infrastructures.config.openshift.io" => config(
            "Infrastructure",
            json!({"cloudConfig": {"name": ""}, "platformSpec": {"type": "None"}}),
            json!({
                "apiServerInternalURI": "https://api-int.sample.example.com:6443",
                "apiServerURL": "https://api.sample.example.com:6443",
                "controlPlaneTopology": "HighlyAvailable",
                "infrastructureTopology": "HighlyAvailable",
                "cpuPartitioning": "None",
                "etcdDiscoveryDomain": "",
                "infrastructureName": "sample-x1y2z",
                "platform": "None",
                "platformStatus": {"type": "None"},
            }),
        ),
        "featuregates.config.openshift.io" => {
            let gates: Vec<Value> =
                versions.iter().map(|v| json!({"version": v, "enabled": [], "disabled": []})).collect();
            config("FeatureGate", json!({}), json!({ "featureGates": gates }))
        }
        _ => None,
    }
}

/// The status that the controller of a workload would write now; `None` if the object has it, or is being deleted.
pub fn workload_status(object: &Value) -> Option<Write> {
    let number = |path: &str| object.pointer(path).and_then(Value::as_i64);
    let generation = number("/metadata/generation");
    let kind = object.get("kind").and_then(Value::as_str)?;
    let reported = match kind {
        "Job" => number("/status/succeeded").is_some(),
        _ => number("/status/observedGeneration") >= generation,
    };
    if reported || object.pointer("/metadata/deletionTimestamp").is_some() {
        return None;
    }
    let now = time(Timestamp::now());
    let condition = |type_: &str, reason: &str, also: &str| {
        json!({"type": type_, "status": "True", "reason": reason, "message": "simulated",
            "lastTransitionTime": now, also: now})
    };
    let (group, status) = match kind {
        "Deployment" => {
            let replicas = number("/spec/replicas").unwrap_or(1);
            let status = json!({
                "observedGeneration": generation, "replicas": replicas, "updatedReplicas": replicas,
                "readyReplicas": replicas, "availableReplicas": replicas,
                "conditions": [condition("Available", "MinimumReplicasAvailable", "lastUpdateTime"),
                    condition("Progressing", "NewReplicaSetAvailable", "lastUpdateTime")],
            });
            ("apps", status)
        }
        "DaemonSet" => {
            let status = json!({
                "observedGeneration": generation, "desiredNumberScheduled": 1, "currentNumberScheduled": 1,
                "updatedNumberScheduled": 1, "numberReady": 1, "numberAvailable": 1, "numberMisscheduled": 0,
            });
            ("apps", status)
        }
        "Job" => {
            let condition = |type_: &str| condition(type_, "CompletionsReached", "lastProbeTime");
            let succeeded = number("/spec/completions").unwrap_or(1);
            let status = json!({
                "startTime": now, "completionTime": now, "succeeded": succeeded, "terminating": 0, "ready": 0,
                "conditions": [condition("SuccessCriteriaMet"), condition("Complete")],
            });
            ("batch", status)
        }
        _ => return None,
    };
    Some(Write::status(group, kind, &key(object), status))
}

/// Whether the controller of a Deployment or DaemonSet has seen the newest spec, and all pods run it and are available.
pub fn rolled_out(kind: &str, object: &Value) -> bool {
    let number = |path: &str| object.pointer(path).and_then(Value::as_i64);
    let status = |field: &str| number(&format!("/status/{field}")).unwrap_or(0);
    let (desired, counts) = match kind {
        "DaemonSet" => (status("desiredNumberScheduled"), vec!["updatedNumberScheduled", "numberAvailable"]),
        _ => (number("/spec/replicas").unwrap_or(1), vec!["replicas", "updatedReplicas", "availableReplicas"]),
    };
    // A DaemonSet that no node takes serves nobody.
    status("observedGeneration") >= number("/metadata/generation").unwrap_or(0)
        && desired > 0
        && counts.into_iter().all(|field| status(field) == desired)
}

/// The status of an operator that is healthy and has reached `versions`.
pub fn operator_status(name: &str, versions: &Value, now: Timestamp) -> Write {
    let now = time(now);
    let conditions = [("Available", "True"), ("Degraded", "False"), ("Progressing", "False"), ("Upgradeable", "True")]
        .map(|(type_, status)| {
            json!({"type": type_, "status": status, "reason": "AsExpected", "message": "simulated",
                "lastTransitionTime": now})
        });
    let status = json!({"conditions": conditions, "versions": versions});
    Write::status(CONFIG_GROUP, "ClusterOperator", &Key::from((String::new(), name.to_owned())), status)
}

/// Whether an operator reports that it is healthy and at these versions.
pub fn reports(operator: &Value, versions: &Value) -> bool {
    let conditions = || operator.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten();
    let is = |type_: &str, status: &str| {
        conditions().any(|condition| {
            let text = |key: &str| condition.get(key).and_then(Value::as_str);
            text("type") == Some(type_) && text("status") == Some(status)
        })
    };
    is("Available", "True") && is("Degraded", "False") && operator.pointer("/status/versions") == Some(versions)
}

fn time(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workload_gets_a_status_for_each_generation_once() {
        let mut object = json!({"kind": "Deployment", "metadata": {"namespace": "n", "name": "d", "generation": 1},
            "spec": {"replicas": 2}});
        let write = workload_status(&object).unwrap();
        object["status"] = write.object["status"].clone();
        assert_eq!(object["status"]["updatedReplicas"], 2);
        assert!(workload_status(&object).is_none() && rolled_out("Deployment", &object));
        object["metadata"]["generation"] = 2.into();
        assert!(workload_status(&object).is_some() && !rolled_out("Deployment", &object));
        object["metadata"]["deletionTimestamp"] = "x".into();
        assert!(workload_status(&object).is_none());
    }

    #[test]
    fn written_operator_status_is_recognized() {
        let versions = json!([{"name": "operator", "version": "5.0.0"}]);
        let written = operator_status("a", &versions, Timestamp::UNIX_EPOCH).object;
        assert!(reports(&written, &versions));
        assert!(!reports(&written, &json!([{"name": "operator", "version": "5.0.1"}])));
        assert!(!reports(&json!({"status": {"versions": versions}}), &versions));
    }
}
