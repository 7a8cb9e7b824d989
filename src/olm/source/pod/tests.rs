use super::*;
use crate::olm::api::catalog_source::CatalogSourceSpec;
use k8s_openapi::api::core::v1::{Pod, Service, ServiceAccount};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use serde::de::DeserializeOwned;

fn source(spec: Value) -> CatalogSource {
    let mut spec = spec;
    set(&mut spec, "sourceType", "grpc".into());
    let mut source = CatalogSource::new("my.cat", serde_json::from_value::<CatalogSourceSpec>(spec).unwrap());
    source.metadata.namespace = Some("shop".to_owned());
    source.metadata.uid = Some("u1".to_owned());
    source
}

static PODS: Pods<'static> = Pods {
    always: false,
    access: ImageAccess::Auto,
    enforced: None,
    has_users: true,
    set_user: false,
    refused: None,
    server_image: "quay.io/cvo@sha256:aa",
    seen: Vec::new(),
};

fn input<'a>(source: &'a CatalogSource, image: &'a str) -> PodInput<'a> {
    PodInput { source, named: "quay.io/a/b:1", image, why: Why::Asked, pods: &PODS }
}

/// The pod of a CatalogSource with this pod configuration.
fn configured(config: Value) -> Value {
    let source = source(json!({"grpcPodConfig": config}));
    pod(&input(&source, "quay.io/a/b:1"), false)
}

/// What the API server takes of it, which is all of it.
fn typed<T: DeserializeOwned + serde::Serialize>(object: &Value) -> T {
    let typed: T = serde_json::from_value(object.clone()).unwrap();
    let (again, mut object) = (serde_json::to_value(&typed).unwrap(), object.clone());
    // What is to be absent.
    object["spec"].as_object_mut().into_iter().for_each(|spec| spec.retain(|_, value| !value.is_null()));
    if object.get("spec").is_some_and(Value::is_null) {
        object.as_object_mut().unwrap().remove("spec");
    }
    if object["spec"]["egress"] == json!([{}]) {
        object["spec"]["egress"] = again["spec"]["egress"].clone();
    }
    assert_eq!(again, object);
    typed
}

#[test]
fn pod_of_a_catalog_is_as_other_programs_know_it() {
    let mut source = source(json!({"image": "quay.io/a/b:1"}));
    source.metadata.annotations = Some([("note".to_owned(), "x".to_owned())].into());
    let pod = pod(&input(&source, "quay.io/a/b:1"), false);
    let typed: Pod = typed(&pod);
    let metadata = &pod["metadata"];
    assert_eq!(metadata["generateName"], "my.cat-");
    assert_eq!(metadata["labels"]["olm.catalogSource"], "my.cat");
    assert_eq!(metadata["labels"]["olm.managed"], "true");
    assert_eq!(metadata["labels"]["olm.pod-spec-hash"], pod_hash(&pod));
    assert!(pod_hash(&pod).len() <= 63 && !pod_hash(&pod).is_empty());
    let annotations =
        json!({"note": "x", "cluster-autoscaler.kubernetes.io/safe-to-evict": "true", IMAGE: "quay.io/a/b:1"});
    assert_eq!(metadata["annotations"], annotations);
    let owner = &typed.metadata.owner_references.unwrap()[0];
    assert_eq!((owner.kind.as_str(), owner.uid.as_str(), owner.controller), ("CatalogSource", "u1", Some(true)));
    let spec = &pod["spec"];
    assert_eq!(spec["serviceAccountName"], "my.cat");
    assert_eq!(spec["nodeSelector"], json!({"kubernetes.io/os": "linux"}));
    let container = &spec["containers"][0];
    assert_eq!(container["name"], "registry-server");
    assert_eq!(container["image"], "quay.io/a/b:1");
    assert_eq!(container["ports"], json!([{"name": "grpc", "containerPort": 50051, "protocol": "TCP"}]));
    assert_eq!(container["terminationMessagePolicy"], "FallbackToLogsOnError");
    assert_eq!(container["resources"], json!({"requests": {"cpu": "10m", "memory": "50Mi"}}));
    let grpc = json!({"port": 50051});
    assert_eq!(container["readinessProbe"], json!({"grpc": grpc, "initialDelaySeconds": 5, "timeoutSeconds": 5}));
    assert_eq!(container["livenessProbe"], json!({"grpc": grpc, "initialDelaySeconds": 10, "timeoutSeconds": 5}));
    assert_eq!(
        container["startupProbe"],
        json!({"grpc": grpc, "periodSeconds": 10, "failureThreshold": 15, "timeoutSeconds": 5})
    );
    for absent in ["tolerations", "affinity", "priorityClassName", "initContainers", "volumes"] {
        assert!(spec.get(absent).is_none(), "{absent}");
    }
}

#[test]
fn image_with_a_digest_is_pulled_only_if_it_is_not_there() {
    let source = source(json!({}));
    for (image, expected) in [("quay.io/a/b:1", "Always"), ("quay.io/a/b@sha256:aa", "IfNotPresent")] {
        assert_eq!(pod(&input(&source, image), false)["spec"]["containers"][0]["imagePullPolicy"], expected);
    }
}

#[test]
fn security_is_that_of_the_spec_else_that_which_the_namespace_enforces() {
    for (config, enforced, restricted) in [
        (json!({}), None, false),
        (json!({}), Some("baseline"), false),
        (json!({}), Some("restricted"), true),
        (json!({"securityContextConfig": "legacy"}), Some("restricted"), false),
        (json!({"securityContextConfig": "restricted"}), None, true),
    ] {
        let source = source(json!({"grpcPodConfig": config}));
        for (set_user, has_users) in [(false, false), (false, true), (true, false), (true, true)] {
            let pods = Pods { enforced, set_user, has_users, ..PODS.clone() };
            let input = PodInput { pods: &pods, ..input(&source, "a/b:1") };
            let pod = pod(&input, false);
            let (of_pod, of_container) =
                (&pod["spec"]["securityContext"], &pod["spec"]["containers"][0]["securityContext"]);
            let mut expected = json!({"readOnlyRootFilesystem": false});
            let mut expected_of_pod = Value::Null;
            if restricted {
                expected = json!({"readOnlyRootFilesystem": false, "allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}});
                expected_of_pod = json!({"seccompProfile": {"type": "RuntimeDefault"}});
                // Nothing else would say that it is not root.
                if set_user || (enforced.is_some() && !has_users) {
                    expected_of_pod["runAsUser"] = json!(1001);
                    expected_of_pod["runAsNonRoot"] = json!(true);
                }
            }
            assert_eq!((of_pod, of_container), (&expected_of_pod, &expected), "{config} {enforced:?} {has_users}");
        }
    }
}

#[test]
fn each_field_of_the_pod_configuration_is_in_the_pod() {
    let affinity =
        json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}});
    let pod = configured(json!({
        "nodeSelector": {"disk": "fast"}, "tolerations": [{"key": "a", "operator": "Exists"}], "affinity": affinity,
        "priorityClassName": "system-cluster-critical", "memoryTarget": "100Mi",
    }));
    typed::<Pod>(&pod);
    let spec = &pod["spec"];
    assert_eq!(spec["nodeSelector"], json!({"disk": "fast"}), "it replaces the default");
    assert_eq!(spec["tolerations"], json!([{"key": "a", "operator": "Exists"}]));
    assert_eq!(spec["affinity"], affinity);
    assert_eq!(spec["priorityClassName"], "system-cluster-critical");
    assert_eq!(spec["containers"][0]["resources"], json!({"requests": {"cpu": "10m", "memory": "100Mi"}}));
    assert_eq!(spec["containers"][0]["env"], json!([{"name": "GOMEMLIMIT", "value": "104857600B"}]));
    assert_eq!(configured(json!({"nodeSelector": {}}))["spec"]["nodeSelector"], json!({}), "an empty one as well");
    assert_eq!(configured(json!({"priorityClassName": ""}))["spec"].get("priorityClassName"), None);
}

#[test]
fn priority_class_of_the_annotation_comes_first() {
    let mut source = source(json!({"grpcPodConfig": {"priorityClassName": "one"}}));
    source.metadata.annotations = Some([(annotation::PRIORITY_CLASS.to_owned(), "other".to_owned())].into());
    assert_eq!(pod(&input(&source, "a/b:1"), false)["spec"]["priorityClassName"], "other");
}

#[test]
fn content_is_taken_out_of_the_image_and_served_by_our_own_server() {
    let pod = configured(json!({"extractContent": {"catalogDir": "/configs", "cacheDir": "/cache"}}));
    typed::<Pod>(&pod);
    let spec = &pod["spec"];
    let names: Vec<_> =
        spec["initContainers"].as_array().unwrap().iter().map(|it| (&it["name"], &it["image"])).collect();
    let (own, catalog) = (json!("quay.io/cvo@sha256:aa"), json!("quay.io/a/b:1"));
    assert_eq!(names, [(&json!("extract-utilities"), &own), (&json!("extract-content"), &catalog)]);
    let copy =
        json!(
            ["/utilities/cvo", "payload", "copy-folder", "--from", "/configs", "--to", "/extracted-catalog/catalog",]
        );
    assert_eq!(spec["initContainers"][1]["command"], copy);
    let server = &spec["containers"][0];
    assert_eq!((&server["image"], &server["imagePullPolicy"]), (&own, &json!("IfNotPresent")));
    assert_eq!(server["command"][3], "/extracted-catalog/catalog");
    let volumes: Vec<_> = spec["volumes"].as_array().unwrap().iter().map(|it| &it["name"]).collect();
    assert_eq!(volumes, ["utilities", "catalog-content", "tmp"]);
    for container in spec["initContainers"].as_array().unwrap().iter().chain([server]) {
        assert_eq!(container["securityContext"]["readOnlyRootFilesystem"], true);
    }
}

#[test]
fn candidate_is_the_same_pod_to_which_no_service_leads() {
    let source = source(json!({}));
    let input = input(&source, "a/b:1");
    let (used, candidate) = (pod(&input, false), pod(&input, true));
    assert_eq!((&used["spec"], pod_hash(&used)), (&candidate["spec"], pod_hash(&candidate)));
    let labels = &candidate["metadata"]["labels"];
    assert_eq!(labels["olm.catalogSource"], "");
    assert_eq!(labels["catalogsource.operators.coreos.com/update"], "my.cat");
    let selector = service(&input)["spec"]["selector"].clone();
    assert_eq!(selector["olm.catalogSource"], used["metadata"]["labels"]["olm.catalogSource"]);
}

#[test]
fn pod_is_another_one_for_whatever_it_is_made_of() {
    let hash_of = |spec: Value, image: &str| pod_hash(&pod(&input(&source(spec), image), false)).to_owned();
    let first = hash_of(json!({}), "a/b:1");
    assert_eq!(first, hash_of(json!({"displayName": "A", "priority": 7}), "a/b:1"), "what a pod is not made of");
    for (spec, image) in [
        (json!({}), "a/b:2"),
        (json!({"grpcPodConfig": {"memoryTarget": "1Gi"}}), "a/b:1"),
        (json!({"grpcPodConfig": {"securityContextConfig": "restricted"}}), "a/b:1"),
    ] {
        assert_ne!(first, hash_of(spec, image));
    }
    let mut annotated = source(json!({}));
    let last = "kubectl.kubernetes.io/last-applied-configuration";
    annotated.metadata.annotations = Some([(last.to_owned(), "{}".to_owned())].into());
    assert_eq!(first, pod_hash(&pod(&input(&annotated, "a/b:1"), false)));
    annotated.metadata.annotations = Some([("a".to_owned(), "b".to_owned())].into());
    assert_ne!(first, pod_hash(&pod(&input(&annotated, "a/b:1"), false)));
}

#[test]
fn account_has_the_pull_secrets_of_the_catalog() {
    let source = source(json!({"secrets": ["one", "two"]}));
    let account = account(&input(&source, "a/b:1"));
    typed::<ServiceAccount>(&account);
    assert_eq!(account["metadata"]["name"], "my.cat");
    assert_eq!(account["imagePullSecrets"], json!([{"name": "one"}, {"name": "two"}]));
    let live = json!({"imagePullSecrets": [{"name": "of-platform"}, {"name": "two"}]});
    let all = account_with(account.clone(), &live)["imagePullSecrets"].clone();
    assert_eq!(all, json!([{"name": "of-platform"}, {"name": "two"}, {"name": "one"}]));
    let none = account_with(json!({"imagePullSecrets": []}), &json!({}));
    assert_eq!(none["imagePullSecrets"], Value::Null);
}

#[test]
fn service_has_the_port_of_catalogs_and_a_name_without_dots() {
    let source = source(json!({}));
    let service = service(&input(&source, "a/b:1"));
    typed::<Service>(&service);
    assert_eq!((&service["metadata"]["name"], &service["spec"]["ports"][0]["port"]), (&json!("my-cat"), &json!(50051)));
    assert!(service["metadata"]["labels"]["olm.service-spec-hash"].as_str().is_some_and(|hash| !hash.is_empty()));
}

#[test]
fn policies_let_everybody_ask_the_server_and_pods_that_unpack_bundles_reach_registries() {
    let source = source(json!({}));
    let [server, bundles] = policies(&input(&source, "a/b:1"));
    typed::<NetworkPolicy>(&server);
    assert_eq!(server["metadata"]["name"], "my.cat-grpc-server");
    assert_eq!(server["spec"]["ingress"], json!([{"ports": [{"protocol": "TCP", "port": 50051}]}]));
    assert_eq!(server["spec"]["egress"], Value::Null, "it asks nobody");
    assert_eq!(server["spec"]["policyTypes"], json!(["Ingress", "Egress"]));
    assert_eq!(bundles["metadata"]["name"], "my.cat-unpack-bundles");
    assert_eq!(bundles["spec"]["egress"], json!([{}]));
    assert_eq!(bundles["spec"]["ingress"], Value::Null);
}

#[test]
fn names_that_are_too_long_are_cut() {
    let mut long = source(json!({}));
    long.metadata.name = Some("a".repeat(200));
    let pod = pod(&input(&long, "a/b:1"), true);
    let labels = pod["metadata"]["labels"].as_object().unwrap();
    assert!(labels.values().all(|value| value.as_str().unwrap().len() <= 63));
    assert!(pod["metadata"]["generateName"].as_str().unwrap().len() <= 58);
}

#[test]
fn image_that_is_read_through_a_node_needs_no_server_and_pods_say_why_they_are_there() {
    let source = source(json!({}));
    let of = |why: Why| pod(&PodInput { why, ..input(&source, "a/b:1") }, false);
    let command = &of(Why::Access)["spec"]["initContainers"][1]["command"];
    assert_eq!(command[4], "/configs");
    assert_eq!(of(Why::Asked)["spec"].get("initContainers"), None);
    for (why, word) in [(Why::Asked, None), (Why::OnlyServes, Some("image")), (Why::Access, Some("access"))] {
        let pod = of(why);
        let told = pod["metadata"]["annotations"].get(WHY).and_then(Value::as_str);
        assert_eq!((told, told.and_then(Why::of)), (word, Some(why).filter(|_| word.is_some())));
    }
}

#[test]
fn pod_of_a_bundle_runs_once_as_pods_of_its_catalog_do() {
    let image = "quay.io/a/bundle@sha256:bb";
    let config = json!({"tolerations": [{"key": "a", "operator": "Exists"}], "nodeSelector": {"disk": "fast"},
        "priorityClassName": "low", "affinity": {"nodeAffinity": {}}});
    let source = source(json!({"grpcPodConfig": config, "secrets": ["pull", ""]}));
    let strict = Pods { enforced: Some("restricted"), has_users: false, ..PODS.clone() };
    let pod = bundle::pod(&PodInput { pods: &strict, ..input(&source, image) }, "my.cat-bundle-1");
    let _: Pod = typed(&pod);
    let (metadata, spec) = (&pod["metadata"], &pod["spec"]);
    assert_eq!((&metadata["name"], &metadata["namespace"]), (&json!("my.cat-bundle-1"), &json!("shop")));
    // Services and policies of the catalog select by another label.
    let labels = json!({"olm.managed": "true", "operatorframework.io/bundle-unpack-ref": "my.cat-bundle-1"});
    assert_eq!(metadata["labels"], labels);
    assert_eq!(metadata["ownerReferences"][0]["uid"], "u1");
    for (field, expected) in [
        ("restartPolicy", json!("Never")),
        ("activeDeadlineSeconds", json!(600)),
        ("automountServiceAccountToken", json!(false)),
        ("imagePullSecrets", json!([{"name": "pull"}])),
        ("nodeSelector", config["nodeSelector"].clone()),
        ("tolerations", config["tolerations"].clone()),
        ("affinity", config["affinity"].clone()),
        ("priorityClassName", json!("low")),
        (
            "securityContext",
            json!({"seccompProfile": {"type": "RuntimeDefault"}, "runAsNonRoot": true, "runAsUser": 1001}),
        ),
        ("serviceAccountName", Value::Null),
    ] {
        assert_eq!(spec[field], expected, "{field}");
    }
    let (tool, bundle) = (&spec["initContainers"][0], &spec["containers"][0]);
    assert_eq!((&tool["image"], &bundle["image"]), (&json!(PODS.server_image), &json!(image)));
    assert_eq!(bundle["command"], json!(["/utilities/cvo", "bundle", "print"]));
    assert_eq!(bundle["volumeMounts"], json!([{"name": "utilities", "mountPath": "/utilities", "readOnly": true}]));
    for container in [tool, bundle] {
        let expected = json!({"readOnlyRootFilesystem": true, "allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}});
        assert_eq!(container["securityContext"], expected);
        assert_eq!(container["imagePullPolicy"], "IfNotPresent");
    }
    // Without pull secrets of the catalog those of the account of the namespace count.
    let source = self::source(json!({}));
    let pod = bundle::pod(&input(&source, image), "a");
    assert_eq!((&pod["spec"]["imagePullSecrets"], &pod["spec"]["securityContext"]), (&Value::Null, &Value::Null));
}

#[test]
fn names_of_pods_of_bundles_differ_and_are_labels() {
    let long = "a".repeat(39) + ".-" + &"b".repeat(200);
    for catalog in ["my.cat", long.as_str()] {
        let name = |image: &str, moment: i128| bundle::name(catalog, image, moment);
        let one = name("a/b:1", 1);
        assert!(one.len() <= 63 && one.contains("-bundle-") && !one.contains(".-"), "{one}");
        assert_ne!(one, name("a/b:1", 2), "another attempt has another one");
        assert_ne!(one, name("a/b:2", 1));
    }
}
