//! The two Jobs of a retrieval: one copies a target's manifests to the node, the other runs the target's preflight.

use crate::api::Release;
use k8s_openapi::api::batch::v1::{Job, JobSpec};
use k8s_openapi::api::core::v1::{
    Container, EmptyDirVolumeSource, EnvVar, HostPathVolumeSource, PodSpec, PodTemplateSpec, ResourceRequirements,
    SecurityContext, Toleration, Volume, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use sha2::{Digest, Sha256};

/// A pull may be slow, but a Job that takes longer than this has failed.
pub(crate) const DEADLINE_SECONDS: u32 = 600;
/// A finished Job that nobody waits for any more, because another release was requested meanwhile, is removed after this.
const TTL_SECONDS: i32 = 3600;
/// Value of the label `k8s-app`.
const LABEL: &str = "retrieve-openshift-release";

/// Where the Jobs run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Placement<'a> {
    pub namespace: &'a str,
    pub node: &'a str,
}

/// Copies the manifests of `target` to `folder` in `host_path` of the node. The binary that copies is that of the running
/// release; nothing of the target is executed. `keep` are the folders that must not be removed.
pub(crate) fn retrieval(
    placement: Placement<'_>,
    running_image: &str,
    target: &Release,
    host_path: &str,
    folder: &str,
    keep: &[&str],
) -> Job {
    let to = format!("/payloads/{folder}");
    let mut copy = vec!["/tool/cvo", "payload", "copy", "--to", &to];
    for keep in keep {
        copy.extend(["--keep", keep]);
    }
    let install = ["/usr/bin/cvo", "payload", "install-tool", "--to", "/tool/cvo"];
    let mount = |name: &str| VolumeMount { name: name.into(), mount_path: format!("/{name}"), ..Default::default() };
    let (tool, payloads) = (mount("tool"), mount("payloads"));
    let init = Container { volume_mounts: Some(vec![tool.clone()]), ..container("tool", running_image, &install) };
    let main = Container { volume_mounts: Some(vec![tool, payloads]), ..container("payload", &target.image, &copy) };
    let host_path = HostPathVolumeSource { path: host_path.into(), type_: Some("DirectoryOrCreate".into()) };
    let pod = PodSpec {
        service_account_name: Some("update-payload".into()),
        automount_service_account_token: Some(false),
        init_containers: Some(vec![init]),
        containers: vec![main],
        volumes: Some(vec![
            Volume { name: "tool".into(), empty_dir: Some(EmptyDirVolumeSource::default()), ..Default::default() },
            Volume { name: "payloads".into(), host_path: Some(host_path), ..Default::default() },
        ]),
        ..Default::default()
    };
    job(placement, name("version", target), pod)
}

/// Runs the target's own binary, which loads its payload, reads the API and writes nothing.
pub(crate) fn preflight(
    placement: Placement<'_>,
    target: &Release,
    profile: &str,
    exclude_manifests: Option<&str>,
) -> Job {
    let command = ["/usr/bin/cvo", "preflight", &format!("--release-image={}", target.image)];
    let env = |name: &str, value: &str| EnvVar { name: name.into(), value: Some(value.into()), value_from: None };
    let container = Container {
        env: Some(vec![
            env("CLUSTER_PROFILE", profile),
            env("EXCLUDE_MANIFESTS", exclude_manifests.unwrap_or_default()),
        ]),
        ..container("preflight", &target.image, &command)
    };
    let pod = PodSpec {
        service_account_name: Some("cluster-version-operator".into()),
        containers: vec![container],
        ..Default::default()
    };
    job(placement, name("preflight", target), pod)
}

/// `<prefix>-<version>-<hash>` with at most 63 characters. Characters that are not allowed in a name are replaced.
fn name(prefix: &str, target: &Release) -> String {
    let allowed = |c: char| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' };
    let version: String = target.version.to_lowercase().chars().map(allowed).take(53 - prefix.len()).collect();
    let hash: String = hex::encode(Sha256::digest(target.image.as_bytes())).chars().take(8).collect();
    let parts = [prefix, version.trim_matches(['-', '.']), &hash];
    parts.iter().filter(|p| !p.is_empty()).copied().collect::<Vec<_>>().join("-")
}

fn container(name: &str, image: &str, command: &[&str]) -> Container {
    let request = |resource: &str, quantity: &str| (resource.to_owned(), Quantity(quantity.to_owned()));
    Container {
        name: name.into(),
        image: Some(image.into()),
        image_pull_policy: Some("IfNotPresent".into()),
        command: Some(command.iter().map(|part| (*part).to_owned()).collect()),
        termination_message_policy: Some("FallbackToLogsOnError".into()),
        security_context: Some(SecurityContext {
            read_only_root_filesystem: Some(true),
            allow_privilege_escalation: Some(false),
            ..Default::default()
        }),
        resources: Some(ResourceRequirements {
            requests: Some([request("cpu", "10m"), request("memory", "50Mi")].into()),
            ..Default::default()
        }),
        ..Default::default()
    }
}

fn job(placement: Placement<'_>, name: String, pod: PodSpec) -> Job {
    let labels = Some([("k8s-app".to_owned(), LABEL.to_owned())].into());
    let pod = PodSpec {
        // On this node whatever its taints, because the daemon reads the result from its disk. On the host's network,
        // because the update may be what repairs the pod network.
        node_name: Some(placement.node.into()),
        tolerations: Some(vec![Toleration { operator: Some("Exists".into()), ..Default::default() }]),
        host_network: Some(true),
        dns_policy: Some("Default".into()),
        restart_policy: Some("Never".into()),
        priority_class_name: Some("system-cluster-critical".into()),
        ..pod
    };
    let metadata = ObjectMeta { labels: labels.clone(), ..Default::default() };
    Job {
        metadata: ObjectMeta {
            name: Some(name),
            namespace: Some(placement.namespace.into()),
            labels,
            ..Default::default()
        },
        spec: Some(JobSpec {
            backoff_limit: Some(2),
            active_deadline_seconds: Some(DEADLINE_SECONDS.into()),
            ttl_seconds_after_finished: Some(TTL_SECONDS),
            template: PodTemplateSpec { metadata: Some(metadata), spec: Some(pod) },
            ..Default::default()
        }),
        status: None,
    }
}

#[cfg(test)]
mod tests {
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
                "backoffLimit": 2, "activeDeadlineSeconds": 600, "ttlSecondsAfterFinished": 3600,
                "template": {"metadata": {"labels": labels}, "spec": pod},
            },
        })
    }

    fn expected_container(name: &str, image: &str, command: &[&str], more: Value) -> Value {
        let mut container = json!({
            "name": name, "image": image, "command": command, "imagePullPolicy": "IfNotPresent",
            "terminationMessagePolicy": "FallbackToLogsOnError",
            "securityContext": {"readOnlyRootFilesystem": true, "allowPrivilegeEscalation": false},
            "resources": {"requests": {"cpu": "10m", "memory": "50Mi"}},
        });
        container.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        container
    }

    const PLACEMENT: Placement<'_> = Placement { namespace: "ns", node: "n1" };

    #[test]
    fn retrieval_copies_the_manifests_with_the_running_binary() {
        let target = release("1.0.1", "r@sha256:1");
        let job = retrieval(PLACEMENT, "own@sha256:0", &target, "/etc/cvo", "sha256-1", &["a", "b"]);
        let tool = json!({"name": "tool", "mountPath": "/tool"});
        let payloads = json!({"name": "payloads", "mountPath": "/payloads"});
        let install = ["/usr/bin/cvo", "payload", "install-tool", "--to", "/tool/cvo"];
        let copy =
            ["/tool/cvo", "payload", "copy", "--to", "/payloads/sha256-1", "--keep", "a", "--keep", "b"].as_slice();
        let pod = json!({
            "serviceAccountName": "update-payload",
            "automountServiceAccountToken": false,
            "initContainers": [expected_container("tool", "own@sha256:0", &install, json!({"volumeMounts": [tool]}))],
            "containers": [expected_container("payload", "r@sha256:1", copy, json!({"volumeMounts": [tool, payloads]}))],
            "volumes": [
                {"name": "tool", "emptyDir": {}},
                {"name": "payloads", "hostPath": {"path": "/etc/cvo", "type": "DirectoryOrCreate"}},
            ],
        });
        assert_eq!(serde_json::to_value(job).unwrap(), expected(&name("version", &target), pod));
    }

    #[test]
    fn preflight_runs_the_binary_of_the_target() {
        let target = release("1.0.1", "r@sha256:1");
        let command = ["/usr/bin/cvo", "preflight", "--release-image=r@sha256:1"];
        for (given, excluded) in [(None, ""), (Some("id"), "id")] {
            let env = json!([
                {"name": "CLUSTER_PROFILE", "value": "p"},
                {"name": "EXCLUDE_MANIFESTS", "value": excluded},
            ]);
            let pod = json!({
                "serviceAccountName": "cluster-version-operator",
                "containers": [expected_container("preflight", "r@sha256:1", &command, json!({"env": env}))],
            });
            let job = preflight(PLACEMENT, &target, "p", given);
            assert_eq!(serde_json::to_value(job).unwrap(), expected(&name("preflight", &target), pod));
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
}
