use super::*;
use serde_json::{Value, json};

fn release(version: &str, image: &str) -> Release {
    Release { version: version.into(), image: image.into(), ..Release::default() }
}

fn expected(name: &str, mut pod: Value) -> Value {
    let labels = json!({"k8s-app": "retrieve-openshift-release"});
    let common = json!({
        "nodeName": "n1", "tolerations": [{"operator": "Exists"}], "hostNetwork": true, "dnsPolicy": "Default",
        "restartPolicy": "Never", "priorityClassName": "system-cluster-critical",
    });
    pod.as_object_mut().unwrap().extend(common.as_object().unwrap().clone());
    json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": name, "namespace": "ns", "labels": labels},
        "spec": {
            "backoffLimit": 1, "activeDeadlineSeconds": 600, "ttlSecondsAfterFinished": 3600,
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    })
}

fn expected_container(name: &str, image: &str, command: &[&str], memory: &str, user: Value, more: Value) -> Value {
    let mut security = json!({
        "readOnlyRootFilesystem": true, "allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    });
    security.as_object_mut().unwrap().extend(user.as_object().unwrap().clone());
    let mut container = json!({
        "name": name, "image": image, "command": command, "imagePullPolicy": "IfNotPresent",
        "terminationMessagePolicy": "FallbackToLogsOnError", "securityContext": security,
        "resources": {"requests": {"cpu": "10m", "memory": "50Mi"}, "limits": {"memory": memory}},
    });
    container.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    container
}

fn nobody() -> Value {
    json!({"runAsUser": 65534, "runAsNonRoot": true})
}

const PLACEMENT: Placement<'_> = Placement { namespace: "ns", node: "n1" };

#[test]
fn retrieval_copies_the_manifests_with_the_running_binary() {
    let target = release("1.0.1", "r@sha256:1");
    let job = retrieval(PLACEMENT, "own@sha256:0", &target, "/etc/cvo", "sha256-1", &["a", "b"]);
    let tool = json!({"name": "tool", "mountPath": "/tool"});
    let payloads = json!({"name": "payloads", "mountPath": "/payloads"});
    let install = ["/usr/bin/cvo", "payload", "install-tool", "--to", "/tool/cvo"];
    let copy = ["/tool/cvo", "payload", "copy", "--to", "/payloads/sha256-1", "--keep", "a", "--keep", "b"].as_slice();
    let mounts = json!({"volumeMounts": [tool]});
    let init = expected_container("tool", "own@sha256:0", &install, "200Mi", nobody(), mounts);
    let tool = json!({"name": "tool", "mountPath": "/tool", "readOnly": true});
    let mounts = json!({"volumeMounts": [tool, payloads]});
    let root = json!({"runAsUser": 0, "seLinuxOptions": {"type": "spc_t"}});
    let pod = json!({
        "serviceAccountName": "update-payload",
        "automountServiceAccountToken": false,
        "initContainers": [init],
        "containers": [expected_container("payload", "r@sha256:1", copy, "200Mi", root, mounts)],
        "volumes": [
            {"name": "tool", "emptyDir": {}},
            {"name": "payloads", "hostPath": {"path": "/etc/cvo", "type": "DirectoryOrCreate"}},
        ],
    });
    assert_eq!(serde_json::to_value(job).unwrap(), expected(&name("version", &target), pod));
}

#[test]
fn preflight_runs_the_binary_of_the_target_and_reads_the_api_only_if_that_is_verified() {
    let target = release("1.0.1", "r@sha256:1");
    let verified = ["/usr/bin/cvo", "preflight", "--release-image=r@sha256:1"].as_slice();
    let forced = ["/usr/bin/cvo", "preflight", "--release-image=r@sha256:1", "--without-api"].as_slice();
    for (is_verified, command, account) in [(true, verified, "update-preflight"), (false, forced, "update-payload")] {
        for (given, excluded) in [(None, ""), (Some("id"), "id")] {
            let env = json!([
                {"name": "CLUSTER_PROFILE", "value": "p"},
                {"name": "EXCLUDE_MANIFESTS", "value": excluded},
            ]);
            let more = json!({"env": env});
            let pod = json!({
                "serviceAccountName": account,
                "automountServiceAccountToken": is_verified,
                "containers": [expected_container("preflight", "r@sha256:1", command, "500Mi", nobody(), more)],
            });
            let job = preflight(PLACEMENT, &target, is_verified, "p", given);
            assert_eq!(serde_json::to_value(job).unwrap(), expected(&name("preflight", &target), pod));
        }
    }
}

#[test]
fn job_name_is_valid_and_short() {
    for version in ["1.0.1", "4.20.0-0.nightly-2025-01-01-000000+BUILD_x", "", &"9".repeat(90)] {
        let name = name("version", &release(version, "r@sha256:00"));
        assert!(name.len() <= 63 && name.starts_with("version-"), "{name}");
        assert!(name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.".contains(c)), "{name}");
    }
    assert_ne!(name("version", &release("1", "a")), name("version", &release("1", "b")));
}

#[test]
fn job_ends_and_is_removed_by_the_cluster() {
    let spec = job(PLACEMENT, "version-1".into(), PodSpec::default()).spec.unwrap();
    assert!(spec.active_deadline_seconds > Some(0));
    assert!(spec.ttl_seconds_after_finished > Some(0), "{spec:?}");
}
