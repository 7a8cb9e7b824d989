//! The two Jobs of a retrieval: one copies a target's manifests to the node, the other runs the target's preflight.

use crate::release::api::Release;
use k8s_openapi::api::batch::v1::{Job, JobSpec};
use k8s_openapi::api::core::v1::{
    Capabilities, Container, EmptyDirVolumeSource, EnvVar, HostPathVolumeSource, PodSpec, PodTemplateSpec,
    ResourceRequirements, SELinuxOptions, SeccompProfile, SecurityContext, Toleration, Volume, VolumeMount,
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
/// The user `nobody`.
const NOBODY: i64 = 65534;
/// Account of the Job that copies; it may not use the API.
const COPYING: &str = "update-payload";
/// Account of the preflight of a verified release; it may read what the preflight reads.
const PREFLIGHT: &str = "update-preflight";
/// Copying needs a few megabytes.
const COPY_MEMORY: &str = "200Mi";
/// The target loads its payload, as large as that may be.
const PREFLIGHT_MEMORY: &str = "500Mi";

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
    let init = Container {
        volume_mounts: Some(vec![tool.clone()]),
        ..container("tool", running_image, &install, COPY_MEMORY, nobody())
    };
    // What the target's files lie beside must not be changed before it runs.
    let tool = VolumeMount { read_only: Some(true), ..tool };
    let main = Container {
        volume_mounts: Some(vec![tool, payloads]),
        ..container("payload", &target.image, &copy, COPY_MEMORY, owner_of_host_path())
    };
    let host_path = HostPathVolumeSource { path: host_path.into(), type_: Some("DirectoryOrCreate".into()) };
    let pod = PodSpec {
        service_account_name: Some(COPYING.into()),
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

/// Runs the target's own binary, which loads its payload and writes nothing. If the target is verified it also reads the API,
/// with an account that may do no more; what is not verified gets no access to the API at all.
pub(crate) fn preflight(
    placement: Placement<'_>,
    target: &Release,
    verified: bool,
    profile: &str,
    exclude_manifests: Option<&str>,
) -> Job {
    let image = format!("--release-image={}", target.image);
    let mut command = vec!["/usr/bin/cvo", "preflight", &image];
    if !verified {
        command.push("--without-api");
    }
    let env = |name: &str, value: &str| EnvVar { name: name.into(), value: Some(value.into()), value_from: None };
    let container = Container {
        env: Some(vec![
            env("CLUSTER_PROFILE", profile),
            env("EXCLUDE_MANIFESTS", exclude_manifests.unwrap_or_default()),
        ]),
        ..container("preflight", &target.image, &command, PREFLIGHT_MEMORY, nobody())
    };
    let pod = PodSpec {
        service_account_name: Some(if verified { PREFLIGHT } else { COPYING }.into()),
        automount_service_account_token: Some(verified),
        containers: vec![container],
        ..Default::default()
    };
    job(placement, name("preflight", target), pod)
}

/// For a container that needs no right on its node.
fn nobody() -> SecurityContext {
    SecurityContext { run_as_user: Some(NOBODY), run_as_non_root: Some(true), ..confined() }
}

/// For the container that writes to the folder of the host: that is owned by root, and where SELinux is enforced only this
/// type may write to it.
fn owner_of_host_path() -> SecurityContext {
    let selinux = SELinuxOptions { type_: Some("spc_t".into()), ..Default::default() };
    SecurityContext { run_as_user: Some(0), se_linux_options: Some(selinux), ..confined() }
}

fn confined() -> SecurityContext {
    SecurityContext {
        read_only_root_filesystem: Some(true),
        allow_privilege_escalation: Some(false),
        capabilities: Some(Capabilities { drop: Some(vec!["ALL".into()]), add: None }),
        seccomp_profile: Some(SeccompProfile { type_: "RuntimeDefault".into(), localhost_profile: None }),
        ..Default::default()
    }
}

/// `<prefix>-<version>-<hash>` with at most 63 characters. Characters that are not allowed in a name are replaced.
fn name(prefix: &str, target: &Release) -> String {
    let allowed = |c: char| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' };
    let version: String = target.version.to_lowercase().chars().map(allowed).take(53 - prefix.len()).collect();
    let hash: String = hex::encode(Sha256::digest(target.image.as_bytes())).chars().take(8).collect();
    let parts = [prefix, version.trim_matches(['-', '.']), &hash];
    parts.iter().filter(|p| !p.is_empty()).copied().collect::<Vec<_>>().join("-")
}

fn container(name: &str, image: &str, command: &[&str], memory: &str, security: SecurityContext) -> Container {
    let quantity = |resource: &str, quantity: &str| (resource.to_owned(), Quantity(quantity.to_owned()));
    Container {
        name: name.into(),
        image: Some(image.into()),
        image_pull_policy: Some("IfNotPresent".into()),
        command: Some(command.iter().map(|part| (*part).to_owned()).collect()),
        termination_message_policy: Some("FallbackToLogsOnError".into()),
        security_context: Some(security),
        resources: Some(ResourceRequirements {
            requests: Some([quantity("cpu", "10m"), quantity("memory", "50Mi")].into()),
            limits: Some([quantity("memory", memory)].into()),
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
            // Whoever is told early can help early; the daemon itself tries a refused release again, with growing pauses.
            backoff_limit: Some(1),
            active_deadline_seconds: Some(DEADLINE_SECONDS.into()),
            ttl_seconds_after_finished: Some(TTL_SECONDS),
            template: PodTemplateSpec { metadata: Some(metadata), spec: Some(pod) },
            ..Default::default()
        }),
        status: None,
    }
}

#[cfg(test)]
mod tests;
