//! Bundles with objects of other kinds than those that every operator has.

use serde_json::{Value, json};

use super::{Version, package_with, push_catalog};

/// What stands in the bundle of a version.
struct Content {
    version: &'static str,
    channel: &'static str,
    objects: Vec<Value>,
}

/// A catalog for each, with one or two versions in channels of their own.
pub(super) async fn push(registry: &str) {
    let first = |objects| Content { version: "2.0.0", channel: "alpha", objects };
    let second = |objects| Content { version: "3.0.0", channel: "beta", objects };
    let map = |name: &str, how: &str| {
        let metadata = json!({"name": name});
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"special.how": how}})
    };
    let name = json!({"name": "mysecret"});
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": name, "stringData": {"user": "somebody"}});
    let usual = map("special-config", "very");
    for (tag, versions) in [
        ("pdb-v2", vec![first(unusual())]),
        ("objects", vec![first(vec![usual.clone(), secret])]),
        (
            "objects-upgrade-samename",
            vec![first(vec![usual.clone()]), second(vec![map("special-config", "updated-very-much")])],
        ),
        ("objects-upgrade-diffname", vec![first(vec![usual]), second(vec![map("not-special-config", "very")])]),
    ] {
        push_one(registry, tag, versions).await;
    }
}

fn unusual() -> Vec<Value> {
    let object = |version: &str, kind: &str, name: &str, spec: Value| {
        json!({"apiVersion": version, "kind": kind, "spec": spec,
            "metadata": {"name": name}})
    };
    let selector = json!({"matchLabels": {"app": "busybox"}});
    let budget = json!({"minAvailable": 1, "selector": selector});
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "busybox"});
    let scaled = json!({"targetRef": target, "updatePolicy": {"updateMode": "Off"}});
    let allowed = json!({"podSelector": selector, "policyTypes": ["Ingress"], "ingress": [{}]});
    vec![
        object("policy/v1", "PodDisruptionBudget", "busybox-pdb", budget),
        object("autoscaling.k8s.io/v1", "VerticalPodAutoscaler", "busybox-vpa", scaled),
        object("networking.k8s.io/v1", "NetworkPolicy", "busybox-networkpolicy", allowed),
        json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "super-priority"},
            "value": 1_000_000, "globalDefault": false}),
    ]
}

async fn push_one(registry: &str, tag: &str, contents: Vec<Content>) {
    let (mut channels, mut bundles, mut before) = (Vec::new(), Vec::new(), "");
    for Content { version: number, channel, objects } in contents {
        let image = format!("olmtest/{tag}-bundle:{number}");
        let version = version(number, before);
        version.push_with(registry, &image, None, &objects).await;
        channels.push((channel, vec![version.entry()]));
        bundles.push(version.offered(&image, &[]));
        before = number;
    }
    let blobs = package_with("busybox", channels, bundles);
    push_catalog(registry, &format!("olmtest/single-bundle-index:{tag}"), &blobs).await;
}

fn version<'a>(version: &'a str, replaces: &'a str) -> Version<'a> {
    Version { operator: "busybox", package: "busybox", version, replaces, kinds: &[], everywhere: false }
}
