//! What other clients add and the payload does not own stays: foreign fields, injected CA bundles, and owner references.

use super::*;

/// Foreign fields of a Deployment stay when drift in another field is repaired.
#[test]
fn foreign_fields_survive_a_repair() {
    let (desired, mut live) = pair("Deployment", "web");
    let foreign = [
        ("/metadata/labels", json!({"team": "a"})),
        ("/metadata/finalizers", json!(["example.com/hold"])),
        ("/metadata/ownerReferences", json!([{"uid": "u", "kind": "Other", "name": "o", "apiVersion": "v1"}])),
        ("/metadata/annotations/foreign", json!("x")),
        ("/spec/template/metadata/annotations", json!({"restartedAt": "now"})),
        ("/spec/template/spec/nodeSelector/zone", json!("a")),
        ("/spec/template/spec/tolerations/-", json!({"key": "z", "operator": "Exists"})),
        ("/spec/template/spec/runtimeClassName", json!("gvisor")),
        ("/spec/template/spec/securityContext/supplementalGroups/-", json!(9)),
        ("/spec/template/spec/containers/0/securityContext/capabilities/add", json!(["NET_ADMIN"])),
        ("/spec/template/spec/containers/0/fieldOfTomorrow", json!({"a": 1})),
        ("/spec/fieldOfTomorrow", json!(0)),
        ("/status/fieldOfTomorrow", json!(1)),
    ];
    for (pointer, value) in &foreign {
        set(&mut live, pointer, value.clone());
    }
    assert_eq!(merge(&live, &desired), Ok(Outcome::Same));
    let before = live.clone();
    set(&mut live, "/spec/template/spec/containers/0/image", json!("other"));
    let (object, fields) = changed(&live, &desired);
    assert_eq!(fields, ["spec.template.spec.containers[web].image"]);
    assert_eq!(object, before);
}

#[test]
fn foreign_entries_and_allocated_values_are_not_a_difference() {
    for (kind, name, pointer, value) in [
        ("ConfigMap", "settings", "/data/ca-bundle.crt", json!("pem")),
        ("ConfigMap", "settings", "/immutable", json!(true)),
        ("Secret", "login", "/data/extra", json!("eA==")),
        ("ServiceAccount", "web", "/secrets", json!([{"name": "t"}])),
        ("ServiceAccount", "web", "/imagePullSecrets", json!([{"name": "t"}])),
        ("Service", "web", "/spec/ports/0/nodePort", json!(31000)),
        ("Service", "web", "/spec/healthCheckNodePort", json!(31001)),
        ("Service", "headless", "/spec/clusterIP", json!("10.0.0.7")),
        ("Service", "web", "/spec/internalTrafficPolicy", json!("Local")),
        ("ClusterRole", "shop-all", "/rules", json!([{"verbs": ["get"]}])),
        ("Namespace", "shop", "/spec/finalizers", json!(["x"])),
        ("DaemonSet", "plain", "/spec/updateStrategy", json!({"type": "OnDelete"})),
        ("APIService", "v1.extra.shop.example", "/spec/caBundle", json!("eA==")),
        ("Deployment", "web", "/spec/revisionHistoryLimit", json!(2)),
        ("Deployment", "web", "/spec/template/spec/containers/0/livenessProbe/terminationGracePeriodSeconds", json!(3)),
    ] {
        let (desired, mut live) = pair(kind, name);
        set(&mut live, pointer, value);
        assert_eq!(merge(&live, &desired), Ok(Outcome::Same), "{kind} {pointer}");
    }
}

#[test]
fn value_that_the_server_has_allocated_stays_whatever_the_manifest_says() {
    for (pointer, live_value, said) in [
        ("/spec/healthCheckNodePort", json!(31001), json!(30000)),
        ("/spec/clusterIP", json!("10.0.0.7"), json!("10.0.0.8")),
    ] {
        let (mut desired, mut live) = pair("Service", "web");
        set(&mut live, pointer, live_value);
        set(&mut desired, pointer, said);
        assert_eq!(merge(&live, &desired), Ok(Outcome::Same), "{pointer}");
    }
}

#[test]
fn repeated_toleration_is_removed() {
    let (desired, mut live) = pair("Deployment", "web");
    let first = live["spec"]["template"]["spec"]["tolerations"][0].clone();
    set(&mut live, "/spec/template/spec/tolerations/-", first);
    let (object, fields) = changed(&live, &desired);
    assert_eq!(fields, ["spec.template.spec.tolerations"]);
    assert_eq!(object["spec"]["template"]["spec"]["tolerations"].as_array().unwrap().len(), 2);
}

const INJECT: &str = "service.beta.openshift.io/inject-cabundle";

#[test]
fn injected_ca_bundle_is_kept_with_the_annotation_only() {
    for (kind, name, pointer) in [
        ("CustomResourceDefinition", "baskets.shop.example", "/spec/conversion/webhook/clientConfig"),
        ("ValidatingWebhookConfiguration", "shop-validate", "/webhooks/0/clientConfig"),
        ("MutatingWebhookConfiguration", "shop-mutate", "/webhooks/0/clientConfig"),
        ("APIService", "v1.extra.shop.example", "/spec"),
    ] {
        let (mut desired, mut live) = pair(kind, name);
        for object in [&mut desired, &mut live] {
            set(object, "/metadata/annotations", json!({INJECT: "true"}));
        }
        set(&mut live, &format!("{pointer}/caBundle"), json!("bGl2ZQ=="));
        assert_eq!(merge(&live, &desired), Ok(Outcome::Same), "{kind}");
        // Even if the manifest has a bundle, there is no conflict with the injecting controller.
        set(&mut desired, &format!("{pointer}/caBundle"), json!("bWFuaWZlc3Q="));
        assert_eq!(merge(&live, &desired), Ok(Outcome::Same), "{kind}");
        // Another client removed the annotation, which the merge restores.
        set(&mut live, "/metadata/annotations", json!({}));
        let (object, _) = changed(&live, &desired);
        assert_eq!(object.pointer(pointer).unwrap()["caBundle"], "bGl2ZQ==", "{kind}");
        // Without the annotation the manifest's bundle is enforced.
        set(&mut desired, "/metadata/annotations", Value::Null);
        set(&mut live, "/metadata/annotations", Value::Null);
        let (object, _) = changed(&live, &desired);
        assert_eq!(object.pointer(pointer).unwrap()["caBundle"], "bWFuaWZlc3Q=", "{kind}");
    }
}

#[test]
fn new_webhook_gets_the_injected_bundle_of_the_others() {
    let (mut desired, mut live) = pair("ValidatingWebhookConfiguration", "shop-validate");
    set(&mut live, "/metadata/annotations", json!({INJECT: "true"}));
    set(&mut live, "/webhooks/0/clientConfig/caBundle", json!("bGl2ZQ=="));
    let mut second = desired["webhooks"][0].clone();
    second["name"] = json!("b.shop.example");
    set(&mut desired, "/webhooks/-", second);
    let (object, fields) = changed(&live, &desired);
    assert_eq!(fields, ["webhooks[b.shop.example]"]);
    assert_eq!(object["webhooks"][1]["clientConfig"]["caBundle"], "bGl2ZQ==");
}

pub(super) fn owner() -> Owner {
    crate::cluster_version::rollout::owner("version", "cv-uid")
}

#[test]
fn owner_is_that_of_the_manifest_or_the_cluster_version() {
    let object = |references: Value| {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "status": {"a": 1}, "data": {"a": null},
            "metadata": {"name": "c", "ownerReferences": references, "annotations": {"a": ""}}})
    };
    let ours = json!({"apiVersion": "config.openshift.io/v1", "kind": "ClusterVersion", "name": "version",
        "uid": "cv-uid", "controller": true});
    let foreign = json!({"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "n"});
    let stale =
        json!({"apiVersion": "config.openshift.io/v1", "kind": "ClusterVersion", "name": "version", "uid": "old"});
    for (declared, expected) in [
        (json!([]), json!([ours])),
        (json!(null), json!([ours])),
        (json!([stale]), json!([ours])),
        (json!([foreign]), json!([foreign])),
        (json!([stale, foreign]), json!([foreign])),
    ] {
        let prepared = prepare(object(declared), Some(&owner()), false);
        assert_eq!(prepared["metadata"]["ownerReferences"], expected);
        assert_eq!(prepared.get("status"), None);
        assert_eq!((&prepared["data"], &prepared["metadata"]["annotations"]), (&json!({"a": null}), &json!({"a": ""})));
    }
    let created = prepare(object(json!([])), Some(&owner()), true);
    assert_eq!(created["metadata"]["ownerReferences"][0].get("controller"), None);
    assert_eq!(prepare(object(json!([stale])), None, false)["metadata"].get("ownerReferences"), None);
    assert_eq!(prepare(json!(7), Some(&owner()), false), json!(7));
}

#[test]
fn owner_reference_is_added_beside_foreign_ones() {
    let (desired, mut live) = pair("ConfigMap", "settings");
    let desired = prepare(desired, Some(&owner()), false);
    let (object, fields) = changed(&live, &desired);
    assert_eq!(fields, ["metadata.ownerReferences"]);
    assert_eq!(object["metadata"]["ownerReferences"][0]["controller"], true);
    // The API server allows one controller only, so another one stays the controller.
    set(
        &mut live,
        "/metadata/ownerReferences",
        json!([{"uid": "u", "kind": "Other", "name": "o", "apiVersion": "v1", "controller": true}]),
    );
    let (object, fields) = changed(&live, &desired);
    assert_eq!(fields, ["metadata.ownerReferences[cv-uid]"]);
    let references = &object["metadata"]["ownerReferences"];
    assert_eq!((&references[0]["uid"], &references[1]["uid"]), (&json!("u"), &json!("cv-uid")));
    assert_eq!(references[1].get("controller"), None);
}
