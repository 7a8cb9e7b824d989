use super::*;
use crate::object::manifest::Origin;
use crate::release::load::manifests_of;
use crate::release::{LoadError, LoadOptions, PayloadFiles, SourceFile, load};
use serde_json::json;
use std::path::{Path, PathBuf};

fn verdict(object: &Value) -> Result<(), String> {
    let bytes = serde_json::to_vec(object).unwrap();
    check(&manifests_of(Origin::Release, "0000_50_a_b.json", &bytes).unwrap().remove(0))
}

fn object(version: &str, kind: &str, rest: Value) -> Value {
    let mut object = json!({"apiVersion": version, "kind": kind, "metadata": {"name": "a", "namespace": "b"}});
    object.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
    object
}

fn deployment(container: Value) -> Value {
    let mut containers = json!([{"name": "main"}]);
    containers[0].as_object_mut().unwrap().extend(container.as_object().unwrap().clone());
    object("apps/v1", "Deployment", json!({"spec": {"selector": {}, "template": {"spec": {"containers": containers}}}}))
}

#[test]
fn values_of_the_wrong_type_are_refused_with_their_path() {
    let table = [
        (deployment(json!({"env": [{"name": "A", "value": 5}]})), "spec.template.spec.containers[0].env[0].value"),
        (deployment(json!({"args": ["a", true]})), "containers[0].args[1]"),
        (deployment(json!({"ports": [{"containerPort": "80"}]})), "ports[0].containerPort"),
        (deployment(json!({"resources": {"requests": {"cpu": []}}})), "requests.cpu"),
        (deployment(json!({"livenessProbe": {"httpGet": {"port": 1.5}}})), "port"),
        (
            object("apps/v1", "DaemonSet", json!({"spec": {"template": {"spec": {"hostNetwork": "yes"}}}})),
            "hostNetwork",
        ),
        (object("batch/v1", "Job", json!({"spec": {"backoffLimit": "3"}})), "spec.backoffLimit"),
        (object("batch/v1", "CronJob", json!({"spec": {"suspend": "no"}})), "spec.suspend"),
        (object("v1", "Service", json!({"spec": {"ports": [{"port": 4294967296u64}]}})), "spec.ports[0].port"),
        (
            object("v1", "ServiceAccount", json!({"automountServiceAccountToken": "false"})),
            "automountServiceAccountToken",
        ),
        (object("rbac.authorization.k8s.io/v1", "Role", json!({"rules": [{"verbs": "get"}]})), "rules[0].verbs"),
        (
            object("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", json!({"subjects": [{"name": 1}]})),
            "subjects[0].name",
        ),
        (
            object(
                "apiextensions.k8s.io/v1",
                "CustomResourceDefinition",
                json!({"spec": {"versions": [
                {"name": "v1", "schema": {"openAPIV3Schema": {"properties": {"x": {"maxLength": "5"}}}}}]}}),
            ),
            "spec.versions[0].schema.openAPIV3Schema.properties.x.maxLength",
        ),
        (
            object(
                "admissionregistration.k8s.io/v1",
                "ValidatingWebhookConfiguration",
                json!({"webhooks": [{"timeoutSeconds": "10"}]}),
            ),
            "webhooks[0].timeoutSeconds",
        ),
        (
            object(
                "v1",
                "Namespace",
                json!({"metadata": {"name": "a",
                "annotations": {"release.openshift.io/delete": "yes"}}}),
            ),
            "release.openshift.io/delete must be exactly \"true\", not \"yes\"",
        ),
    ];
    for (object, words) in table {
        let error = verdict(&object).expect_err(words);
        assert!(error.contains(words), "{words} is not in {error}");
        assert!(error.contains("a\""), "{error} names no object");
    }
}

fn assert_accepted<const N: usize>(objects: [Value; N]) {
    for object in objects {
        assert_eq!(verdict(&object), Ok(()), "{object}");
    }
}

#[test]
fn values_in_workloads_that_go_decodes_are_accepted() {
    let pod = |fields: Value| {
        let mut spec = json!({"containers": [{"name": "main"}]});
        spec.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        object("apps/v1", "DaemonSet", json!({"spec": {"template": {"spec": spec}}}))
    };
    assert_accepted([
        deployment(json!({"resources": {"requests": {"cpu": 1, "memory": 1.5}, "limits": null}})),
        deployment(json!({"env": null, "args": [null, "a"], "command": null, "unknown": {"x": 1}, "Image": 5})),
        deployment(json!({"env": [{"name": "A", "valueFrom": {"resourceFieldRef": {"resource": "x", "divisor": 1}}}]})),
        deployment(
            json!({"livenessProbe": {"httpGet": {"port": "http"}}, "readinessProbe": {"tcpSocket": {"port": 1}}}),
        ),
        pod(
            json!({"volumes": [{"name": "v", "emptyDir": {"sizeLimit": 5}}, {"name": "w", "emptyDir": {}}], "overhead": {"cpu": 1}}),
        ),
        pod(json!({"securityContext": null, "nodeSelector": {"a": null}, "tolerations": [null, {}], "status": 1})),
        object("apps/v1", "Deployment", json!({"spec": null, "status": {"replicas": "many"}})),
        object(
            "apps/v1",
            "Deployment",
            json!({"spec": {"strategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": "5%"}}}}),
        ),
        object("apps/v1", "Deployment", json!({"metadata": {"name": "a", "creationTimestamp": null, "labels": null}})),
    ]);
}

#[test]
fn values_in_other_kinds_that_go_decodes_are_accepted() {
    assert_accepted([
        object("v1", "ConfigMap", json!({"data": null, "binaryData": {"a": "YQ\n=="}, "immutable": null})),
        object(
            "v1",
            "Service",
            json!({"spec": {"ports": [{"port": 80, "targetPort": "http"}, {"port": 81, "targetPort": 8}]}}),
        ),
        object(
            "rbac.authorization.k8s.io/v1",
            "ClusterRole",
            json!({"rules": null, "aggregationRule": {"clusterRoleSelectors": [{}]}}),
        ),
        object(
            "rbac.authorization.k8s.io/v1",
            "RoleBinding",
            json!({"roleRef": {"name": "x"}, "subjects": [{"kind": "User"}]}),
        ),
        object(
            "apiextensions.k8s.io/v1",
            "CustomResourceDefinition",
            json!({"spec": {
            "conversion": {"webhook": {"clientConfig": {"caBundle": "Cg\n=="}, "conversionReviewVersions": null}},
            "versions": [{"name": "v1", "schema": {"openAPIV3Schema": {"properties": {
                "limits": {"maxProperties": 5, "description": null, "enum": [null, 1], "default": {"a": [null]}},
                "any": {"x-kubernetes-preserve-unknown-fields": true, "items": [{"type": "string"}], "minimum": 1},
                "free": {"additionalProperties": true}, "map": {"additionalProperties": {"type": "string"}}}}}}]}}),
        ),
        object(
            "admissionregistration.k8s.io/v1",
            "ValidatingWebhookConfiguration",
            json!({"webhooks": [{"clientConfig": {"caBundle": "Cg\n==", "service": null}, "rules": null}]}),
        ),
        // Kinds and versions without types.
        object("config.openshift.io/v1", "Deployment", json!({"spec": 1})),
        object("apps/v1beta1", "Deployment", json!({"spec": 1})),
        object("security.openshift.io/v1", "SecurityContextConstraints", json!({"priority": "high"})),
    ]);
}

fn files(entries: &[(&str, &str)]) -> PayloadFiles {
    let file = |(name, text): &(&str, &str)| SourceFile { name: (*name).into(), bytes: text.as_bytes().to_vec() };
    let described = [
        ("release-metadata", r#"{"kind": "cincinnati-metadata-v0", "version": "1.0.0"}"#),
        (
            "image-references",
            r#"{"kind": "ImageStream", "apiVersion": "image.openshift.io/v1", "metadata": {"name": "1.0.0"}}"#,
        ),
    ];
    let release = described.iter().chain(entries).map(file).collect();
    PayloadFiles { place: "/payload".into(), own: vec![], release, ..PayloadFiles::default() }
}

/// One error names file and line of every problem. An excluded manifest may have the wrong type.
#[test]
fn release_with_invalid_types_is_refused_with_file_and_line() {
    let head = "apiVersion: v1\nkind: ServiceAccount\nmetadata:\n  name: a\n  annotations:\n";
    let here = "    include.release.openshift.io/self-managed-high-availability: 'true'\n";
    let misfit = format!("{head}{here}automountServiceAccountToken: 'no'\n");
    let elsewhere =
        format!("{head}    include.release.openshift.io/other: 'true'\nautomountServiceAccountToken: 'no'\n");
    let undeletable = format!("{head}{here}    release.openshift.io/delete: 'yes'\n");
    let two = format!("{}---\n{misfit}", elsewhere.replace("name: a", "name: b"));
    let read = files(&[("b.yaml", &two), ("c.yaml", &undeletable), ("d.yaml", "a: ["), ("e.yaml", &elsewhere)]);
    let Err(LoadError::Integrity { problems, .. }) = load(read, &LoadOptions::default()) else { panic!("loaded") };
    let [syntax, misfit, undeletable] = problems.as_slice() else { panic!("{problems:?}") };
    assert!(syntax.starts_with("release-manifests/d.yaml: line "), "{syntax}");
    assert!(misfit.starts_with("release-manifests/b.yaml: line 9: serviceaccount \"a\": automount"), "{misfit}");
    assert!(undeletable.contains("c.yaml: line 1: ") && undeletable.contains("exactly \"true\""), "{undeletable}");
    assert_eq!(load(files(&[("e.yaml", &elsewhere)]), &LoadOptions::default()).unwrap().manifests.len(), 0);
}

/// All manifests of the files below a folder.
fn manifests_below(folder: &Path) -> Vec<std::sync::Arc<Manifest>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(manifests_below(&path));
        } else if path.extension().is_some_and(|e| ["yaml", "json"].iter().any(|known| e == *known)) {
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            // Templates cannot be decoded before they are evaluated.
            found.extend(manifests_of(Origin::Release, &name, &std::fs::read(&path).unwrap()).unwrap_or_default());
        }
    }
    found
}

#[test]
fn manifests_that_api_servers_accept_are_not_refused() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut manifests = manifests_below(&root.join("e2e/releases"));
    manifests.extend(manifests_below(&root.join("manifests")));
    assert!(manifests.len() > 30, "{}", manifests.len());
    let shared = std::env::var_os("CVO_SHARED_DATA").map_or(root.join("../shared/data"), PathBuf::from);
    let real = manifests_below(&shared.join("payload-5.0"));
    if real.is_empty() {
        println!("skipped: no payload beside the project; CVO_SHARED_DATA names the folder that holds payload-5.0");
    } else {
        assert!(real.len() > 900, "{}", real.len());
    }
    let refused: Vec<_> = manifests.iter().chain(&real).filter_map(|manifest| check(manifest).err()).collect();
    assert_eq!(refused, Vec::<String>::new());
}
