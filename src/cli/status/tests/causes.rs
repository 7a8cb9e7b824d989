//! Each cause that the tools can name, planted alone and together with one that looks like it: what each tool says. No tool names what was
//! not planted. `cargo test causes -- --nocapture` prints the table.

use super::*;
use crate::cli::doctor;
use crate::cli::status::details::{Namespace, silent};
use crate::cluster_version::forecast::{self, Blocker};
use crate::cluster_version::health::{self, daemon};
use crate::cluster_version::work::silence::of_daemon;
use crate::diagnosis::Trouble;
use crate::diagnosis::lease::{Renewal, Silence, silence};
use crate::diagnosis::parts::{Deployment, Parts, PodFacts};
use crate::diagnosis::refusals::{Answer, Attempt};
use crate::object::budgets::Budget;
use jiff::SignedDuration;
use std::collections::BTreeSet;
use world::*;

mod world;

/// A cause.
struct Planted {
    name: &'static str,
    plant: fn(&mut World),
    /// Objects that doctor names, with words of the message.
    doctor: &'static [(&'static str, &'static str)],
    /// What status and page say.
    status: &'static [&'static str],
}

const LEASE: (&str, &str) = ("lease openshift-cluster-version/version", "has not renewed");
const SILENT: &str = "the daemon has not renewed lease openshift-cluster-version/version since 2026-11-21T12:03:54Z";
const REFUSED: &str = r#"Internal error occurred: failed calling webhook "all.example.com": failed to call webhook: Post "https://127.0.0.1:1/x?timeout=10s": dial tcp 127.0.0.1:1: connect: connection refused"#;

fn certificate() -> String {
    use base64::Engine;
    let mut parameters = rcgen::CertificateParams::new(Vec::new()).unwrap();
    parameters.not_before = rcgen::date_time_ymd(2020, 1, 1);
    parameters.not_after = rcgen::date_time_ymd(2026, 11, 1);
    base64::prelude::BASE64_STANDARD.encode(parameters.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap().pem())
}

fn waiting(reason: &str, message: &str) -> Value {
    json!({"phase": "Pending", "containerStatuses": [{"name": "operator", "image": "i", "imageID": "", "ready": false, "restartCount": 0,
        "state": {"waiting": {"reason": reason, "message": message}}}]})
}

fn crashing() -> Value {
    let ended = json!({"terminated": {"exitCode": 3, "reason": "Error", "message": "no such table"}});
    json!({"phase": "Running", "containerStatuses": [{"name": "operator", "image": "i", "imageID": "", "ready": false, "restartCount": 4,
        "state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": ended}]})
}

const CAUSES: [Planted; 29] = [
    Planted {
        name: "a webhook by url that nobody answers",
        plant: |world| {
            world.silent();
            world.parts.webhooks.push(webhook(
                "ValidatingWebhookConfiguration",
                "all",
                json!({"clientConfig": {"url": "https://127.0.0.1:1/x"}}),
            ));
            world.refuse(true, 500, REFUSED);
        },
        doctor: &[LEASE, ("validatingwebhookconfiguration all", "connection refused")],
        status: &[SILENT, "validatingwebhookconfiguration all", "connection refused"],
    },
    Planted {
        name: "a webhook that denies",
        plant: |world| {
            world.silent();
            world.parts.webhooks.push(webhook(
                "MutatingWebhookConfiguration",
                "deny",
                json!({"clientConfig": {"url": "https://a.example"}}),
            ));
            world.refuse(true, 403, "admission webhook \"deny.example.com\" denied the request: frozen");
        },
        doctor: &[LEASE, ("mutatingwebhookconfiguration deny", "frozen")],
        status: &[SILENT, "mutatingwebhookconfiguration deny", "frozen"],
    },
    Planted {
        name: "an admission policy",
        plant: |world| {
            world.silent();
            world.refuse(false, 422, "leases \"version\" is forbidden: ValidatingAdmissionPolicy 'freeze' with binding 'b' denied request: no");
        },
        doctor: &[LEASE, ("validatingadmissionpolicy freeze", "denied request")],
        status: &[SILENT, "validatingadmissionpolicy freeze"],
    },
    Planted {
        name: "a right of the daemon is missing",
        plant: |world| {
            world.silent();
            world.parts.denied = vec!["update leases.coordination.k8s.io".into()];
            world.refuse(true, 403, &format!("leases \"version\" is forbidden: User \"{DAEMON}\" cannot update"));
        },
        doctor: &[
            LEASE,
            ("serviceaccount openshift-cluster-version/cluster-version-operator", "may not update leases"),
        ],
        status: &[SILENT, "serviceaccount openshift-cluster-version/cluster-version-operator"],
    },
    Planted {
        name: "a quota that allows no pod",
        plant: |world| {
            world.parts.attempts[2].answer = Answer::Refused {
                code: 403,
                message: "pods \"x\" is forbidden: exceeded quota: few, requested: pods=1".into(),
            };
        },
        doctor: &[("resourcequota openshift-cluster-version/few", "exceeded quota")],
        status: &[],
    },
    Planted {
        name: "the daemon's Deployment is deleted",
        plant: |world| {
            world.silent();
            world.parts.deployment = Deployment::Missing("openshift-cluster-version/cluster-version-operator".into());
        },
        doctor: &[LEASE, ("deployment openshift-cluster-version/cluster-version-operator", "does not exist")],
        status: &[SILENT, "deployment openshift-cluster-version/cluster-version-operator: it does not exist"],
    },
    Planted {
        name: "the daemon is switched off",
        plant: |world| {
            world.silent();
            world.parts.deployment = Deployment::Found(own(0));
        },
        doctor: &[LEASE, ("deployment openshift-cluster-version/cluster-version-operator", "switched off")],
        status: &[SILENT, "the daemon is switched off", "scale deployment cluster-version-operator --replicas=1"],
    },
    Planted {
        name: "the daemon hangs",
        plant: World::silent,
        doctor: &[LEASE],
        status: &[SILENT, "which cannot be told apart from here"],
    },
    Planted {
        name: "a webhook that is asked about the status alone",
        plant: |world| {
            let why = "cannot update the status: admission webhook \"status.example.com\" denied the request: no";
            let renewal = Renewal { not_written: Some((ago(66), why.into())), ..renewal(5, 0) };
            world.parts.silences.extend(silence(
                of_daemon("openshift-cluster-version", "version"),
                Some(&renewal),
                now(),
            ));
            world.parts.webhooks.push(webhook(
                "ValidatingWebhookConfiguration",
                "status",
                json!({"clientConfig": {"url": "https://a.example"}}),
            ));
            world.parts.attempts[1].answer = Answer::Refused {
                code: 403,
                message: "admission webhook \"status.example.com\" denied the request: no".into(),
            };
        },
        doctor: &[
            ("lease openshift-cluster-version/version", "could not be written since"),
            ("validatingwebhookconfiguration status", "denied the request"),
        ],
        status: &[
            "what it does could not be written since 2026-11-21T12:03:54Z",
            "validatingwebhookconfiguration status",
        ],
    },
    Planted {
        name: "the controller of nodes hangs",
        plant: |world| world.parts.silences.extend(silence(OF_NODES, Some(&renewal(66, 0)), now())),
        doctor: &[(
            "lease openshift-machine-config-operator/machine-config",
            "the controller of nodes has not renewed",
        )],
        status: &[
            "the controller of nodes has not renewed lease openshift-machine-config-operator/machine-config since",
        ],
    },
    Planted {
        name: "the API server is overloaded",
        plant: |world| {
            world.silent();
            world.refuse(false, 429, "the server has received too many requests and has asked us to try again later");
        },
        doctor: &[LEASE, ("the API server", "too many requests")],
        status: &[SILENT, "the API server: the API server does not let the daemon"],
    },
    Planted {
        name: "a node that is not ready",
        plant: |world| {
            world.parts.nodes.push(of(json!({"metadata": {"name": "lost"}, "status": {"conditions": [{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}]}})));
            world.parts.renewed.push(("lost".into(), renewal(300, 0)));
        },
        doctor: &[("node lost", "NodeStatusUnknown")],
        status: &[],
    },
    Planted {
        name: "the clock of a node",
        plant: |world| world.parts.renewed[0].1 = renewal(5, -66),
        doctor: &[("node n0", "its clock is 66 s behind")],
        status: &[],
    },
    Planted {
        name: "a kubelet that does not renew its lease",
        plant: |world| world.parts.renewed[1].1 = renewal(66, 0),
        doctor: &[("node n1", "nobody has renewed the lease of n1 since")],
        status: &[],
    },
    Planted {
        name: "the clock of this machine",
        plant: |world| world.parts.clocks = Some((now(), ago(66))),
        doctor: &[("this machine", "66 s behind")],
        status: &[],
    },
    Planted {
        name: "a budget that never allows",
        plant: |world| {
            world.parts.budgets.push(Budget::of(of(
                json!({"metadata": {"name": "never", "namespace": "shop"}, "spec": {"maxUnavailable": 0}}),
            )));
        },
        doctor: &[("poddisruptionbudget shop/never", "can be drained")],
        status: &[],
    },
    Planted {
        name: "a webhook behind whose Service nobody answers",
        plant: |world| {
            let service = json!({"clientConfig": {"service": {"namespace": "default", "name": "nobody"}}});
            let mut hook = webhook("ValidatingWebhookConfiguration", "silent", service);
            hook["webhooks"][0]["rules"][0]["resources"] = json!(["widgets"]);
            world.parts.webhooks.push(hook);
        },
        doctor: &[("validatingwebhookconfiguration silent", "nobody answers behind Service default/nobody")],
        status: &[],
    },
    Planted {
        name: "an aggregated API without a server",
        plant: |world| {
            world.parts.api_services.push(json!({"kind": "APIService", "metadata": {"name": "v1.metrics.example"}, "status": {"conditions": [{"type": "Available", "status": "False", "reason": "ServiceNotFound", "message": "not present"}]}}));
        },
        doctor: &[("apiservice v1.metrics.example", "ServiceNotFound")],
        status: &[],
    },
    Planted {
        name: "a certificate that has ended",
        plant: |world| {
            let config = json!({"failurePolicy": "Ignore", "clientConfig": {"url": "https://a.example", "caBundle": certificate()}});
            world.parts.webhooks.push(webhook("MutatingWebhookConfiguration", "expired", config));
        },
        doctor: &[("mutatingwebhookconfiguration expired", "ended at 2026-11-01")],
        status: &[],
    },
    Planted {
        name: "an image that cannot be pulled",
        plant: |world| {
            world.pod("network-agent-1", None, waiting("ImagePullBackOff", "Back-off pulling image \"r.example/x\""));
            let pod = world.network.pods.last().unwrap();
            world.parts.pods.push(PodFacts::of(pod));
        },
        doctor: &[("pod network/network-agent-1", "ImagePullBackOff")],
        status: &["pod network/network-agent-1: ImagePullBackOff", "kubectl -n network describe pod network-agent-1"],
    },
    Planted {
        name: "a crash loop",
        plant: |world| world.pod("network-operator-2", None, crashing()),
        doctor: &[],
        status: &[
            "pod network/network-operator-2: CrashLoopBackOff",
            "kubectl -n network logs network-operator-2 -c operator --previous",
        ],
    },
    Planted {
        name: "an image whose name is wrong",
        plant: |world| {
            world.pod("network-proxy-1", None, waiting("InvalidImageName", "couldn't parse image reference"))
        },
        doctor: &[],
        status: &["pod network/network-proxy-1: InvalidImageName", "kubectl -n network describe pod network-proxy-1"],
    },
    Planted {
        name: "a pod that was evicted and replaced (no cause)",
        plant: |world| {
            world.pod(
                "network-operator-0",
                Some("old"),
                json!({"phase": "Failed", "reason": "Evicted", "message": "low on memory"}),
            )
        },
        doctor: &[],
        status: &[],
    },
    Planted {
        name: "an operator that is degraded",
        plant: |world| {
            let degraded = [
                condition("Available", "True", "2026-11-21T12:00:00Z", "", ""),
                condition("Degraded", "True", "2026-11-21T12:00:00Z", "DiskFull", "no room"),
            ];
            if let Read::Value(operators) = &mut world.state.operators {
                operators.push(operator("storage", &degraded));
            }
        },
        doctor: &[("clusteroperator storage", "DiskFull")],
        status: &["storage is degraded", "kubectl describe clusteroperator storage"],
    },
    Planted {
        name: "a right of an operator is missing",
        plant: |world| {
            let user = "system:serviceaccount:network:network-operator";
            world.condition(
                "Failing",
                "True",
                "ClusterOperatorDegraded",
                &format!("Cluster operator x is degraded: pods is forbidden: User \"{user}\" cannot list"),
            );
        },
        doctor: &[("clusterversion: Failing", "network:network-operator")],
        status: &["Failing for", "it is that of an operator"],
    },
    Planted {
        name: "a release that is not signed",
        plant: |world| {
            world.condition(
                "ReleaseAccepted",
                "False",
                "RetrievePayload",
                "the update cannot be verified: no signature",
            )
        },
        doctor: &[("clusterversion: ReleaseAccepted=False", "cannot be verified")],
        status: &["ReleaseAccepted=False", "cannot be verified"],
    },
    Planted {
        name: "a release that is being retrieved (no cause)",
        plant: |world| world.condition("ReleaseAccepted", "Unknown", "RetrievePayload", "Retrieving and verifying"),
        doctor: &[],
        status: &["ReleaseAccepted=Unknown"],
    },
    Planted {
        name: "an operator that is scaled to 0",
        plant: |world| {
            world.network.deployments[0].spec.as_mut().unwrap().replicas = Some(0);
            world.network.pods.clear();
        },
        doctor: &[],
        status: &[
            "deployment network/network-operator is scaled to 0",
            "kubectl -n network scale deployment network-operator --replicas=1",
        ],
    },
    Planted {
        name: "pods that may not be read",
        plant: |world| {
            world.network.complete = false;
            world.network.pods.clear();
        },
        doctor: &[],
        status: &["cannot be told: not all pods in network could be read"],
    },
];

/// Two causes that look alike.
const PAIRS: [(&str, &str); 25] = [
    ("a webhook that is asked about the status alone", "a kubelet that does not renew its lease"),
    ("a webhook by url that nobody answers", "the clock of a node"),
    ("a webhook by url that nobody answers", "a kubelet that does not renew its lease"),
    ("a webhook by url that nobody answers", "a webhook behind whose Service nobody answers"),
    ("a webhook by url that nobody answers", "the daemon is switched off"),
    ("a webhook by url that nobody answers", "the clock of this machine"),
    ("a webhook that denies", "a certificate that has ended"),
    ("an admission policy", "a quota that allows no pod"),
    ("a right of the daemon is missing", "a right of an operator is missing"),
    ("a right of the daemon is missing", "the daemon is switched off"),
    ("a right of the daemon is missing", "the clock of a node"),
    ("the daemon's Deployment is deleted", "the controller of nodes hangs"),
    ("the daemon hangs", "a kubelet that does not renew its lease"),
    ("the daemon hangs", "the controller of nodes hangs"),
    ("the API server is overloaded", "an aggregated API without a server"),
    ("a node that is not ready", "a kubelet that does not renew its lease"),
    ("a node that is not ready", "the clock of a node"),
    ("the clock of a node", "the clock of this machine"),
    ("the clock of a node", "a kubelet that does not renew its lease"),
    ("a budget that never allows", "a quota that allows no pod"),
    ("a webhook behind whose Service nobody answers", "a certificate that has ended"),
    ("an image that cannot be pulled", "a crash loop"),
    ("a crash loop", "a pod that was evicted and replaced (no cause)"),
    ("a release that is not signed", "an operator that is degraded"),
    ("a release that is being retrieved (no cause)", "a right of an operator is missing"),
];

/// Plants these, and checks what each tool says; returns a row of the table.
fn check(planted: &[&Planted]) -> String {
    let mut world = world();
    planted.iter().for_each(|cause| (cause.plant)(&mut world));
    let said = world.said();
    let names: Vec<&str> = planted.iter().map(|cause| cause.name).collect();
    let title = names.join(" + ");
    let expected: BTreeSet<&str> = planted.iter().flat_map(|cause| cause.doctor).map(|(object, _)| *object).collect();
    let found: BTreeSet<&str> = said.doctor.iter().map(|trouble| trouble.object.as_str()).collect();
    assert_eq!(found, expected, "{title}: doctor names what was planted, and nothing else");
    for (object, words) in planted.iter().flat_map(|cause| cause.doctor) {
        let told = |trouble: &Trouble| trouble.object == *object && trouble.message.contains(words);
        assert!(said.doctor.iter().any(told), "{title}: {object} {words}: {:#?}", said.doctor);
        let of_status = object.starts_with("clusteroperator ") || object.starts_with("clusterversion: ReleaseAccepted");
        assert!(
            of_status || said.plan.iter().any(|line| line.contains(words)),
            "{title}: plan does not say {words}: {:#?}",
            said.plan
        );
    }
    let (mut status, page) = (said.status.clone(), said.page.replace("\\\"", "\""));
    for words in planted.iter().flat_map(|cause| cause.status) {
        assert!(said.status.contains(words), "{title}: {words:?} is missing in\n{}", said.status);
        let of_text = ["ReleaseAccepted=", "Failing for", " is degraded"].iter().any(|part| words.contains(part));
        // There object and message are fields of their own.
        let told = words.split(": ").all(|part| page.contains(part));
        assert!(of_text || told, "{title}: {words:?} is missing in the page\n{page}");
        status = status.replace(words, "");
    }
    // Nobody names what was not planted.
    for other in CAUSES.iter().filter(|other| !names.contains(&other.name)) {
        let own: BTreeSet<&str> = planted.iter().flat_map(|cause| cause.status).copied().collect();
        let foreign =
            other.status.iter().filter(|words| !own.contains(*words) && !own.iter().any(|own| own.contains(**words)));
        for words in foreign {
            assert!(
                !said.status.contains(words),
                "{title}: status says {words:?}, which is {}:\n{}",
                other.name,
                said.status
            );
        }
    }
    let clock = planted.iter().any(|cause| cause.name.starts_with("the clock"));
    assert_eq!(
        said.doctor.iter().any(|trouble| trouble.message.contains("clock")),
        clock,
        "{title}: a clock is called wrong only if it is"
    );
    assert!(said.doctor.iter().all(|trouble| !trouble.next_step.is_empty()), "{title}");
    let objects: Vec<&str> = found.into_iter().collect();
    let lines = said
        .status
        .lines()
        .filter(|line| planted.iter().flat_map(|cause| cause.status).any(|words| line.contains(words)));
    let lines: Vec<&str> = lines.map(str::trim).collect();
    format!("| {title} | {} | {} |", objects.join("; "), lines.join(" / "))
}

fn named(name: &str) -> &'static Planted {
    CAUSES.iter().find(|cause| cause.name == name).unwrap_or_else(|| panic!("{name} is no cause"))
}

#[test]
fn each_cause_is_named_by_each_tool_that_shows_it_and_no_other() {
    println!("| planted | doctor and plan name | status and page say |\n|---|---|---|");
    println!("{}", check(&[]));
    for cause in &CAUSES {
        println!("{}", check(&[cause]));
    }
}

#[test]
fn causes_that_look_alike_are_both_named_and_no_other() {
    println!("| planted | doctor and plan name | status and page say |\n|---|---|---|");
    for (one, other) in PAIRS {
        println!("{}", check(&[named(one), named(other)]));
    }
}
