use super::*;
use crate::cli::release::assemble::image_stream;
use crate::release::lint::lint;
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;

const COMPONENT: Component<'_> = Component {
    name: "ingress",
    level: 50,
    namespace: Some("ingress"),
    profile: "self-managed-high-availability",
    operator: true,
    allow_secrets: false,
};

/// As `helm template` prints a chart.
const CHART: &str = r#"---
# Source: ingress/crds/routes.yaml
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: routes.ingress.example}
spec:
  group: ingress.example
  scope: Namespaced
  names: {kind: Route, plural: routes}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: ingress}
---
apiVersion: ingress.example/v1
kind: Route
metadata: {name: default}
spec: {host: a.example}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: controller, labels: {mode: "0644"}}
spec:
  selector: {matchLabels: {app: controller}}
  template:
    metadata: {labels: {app: controller}}
    spec:
      serviceAccountName: ingress
      initContainers: [{name: first, image: "registry.example:5000/tools/init:2"}]
      containers:
      - {name: main, image: "registry.example:5000/ingress/controller:1.2"}
      - {name: side, image: "docker.io/other/controller:3"}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: ingress}
rules: []
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {answer: "yes"}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: ingress}
---
apiVersion: batch/v1
kind: Job
metadata: {name: migrate, annotations: {helm.sh/hook: pre-upgrade}}
---
apiVersion: v1
kind: Pod
metadata: {name: test, annotations: {helm.sh/hook: test}}
"#;

fn objects(text: &str) -> Vec<Value> {
    let manifests = manifests_of(Origin::Release, "a chart", text.as_bytes()).unwrap();
    manifests.iter().map(|manifest| manifest.object().unwrap()).collect()
}

#[test]
fn chart_becomes_a_component_that_lint_accepts() {
    let laid = lay_out::lay_out(objects(CHART), &COMPONENT).unwrap();
    let names: Vec<&str> = laid.files.keys().map(String::as_str).collect();
    assert_eq!(
        names,
        [
            "0000_50_ingress_00_namespace-ingress.yaml",
            "0000_50_ingress_05_customresourcedefinition-routes.ingress.example.yaml",
            "0000_50_ingress_10_serviceaccount-ingress.yaml",
            "0000_50_ingress_15_clusterrole-ingress.yaml",
            "0000_50_ingress_20_configmap-settings.yaml",
            "0000_50_ingress_40_deployment-controller.yaml",
            "0000_50_ingress_60_route-default.yaml",
            "0000_50_ingress_70_validatingwebhookconfiguration-ingress.yaml",
            "0000_50_ingress_90_clusteroperator-ingress.yaml",
            "image-references",
        ]
    );
    assert_eq!(laid.remarks, ["Job migrate is left out: nothing runs the hook pre-upgrade of Helm"]);
    let images: Vec<(String, String)> = image_stream(&laid.files["image-references"])
        .unwrap()
        .into_iter()
        .map(|(name, tag)| (name, tag.image))
        .collect();
    let expected = [
        ("controller", "registry.example:5000/ingress/controller:1.2"),
        ("controller-2", "docker.io/other/controller:3"),
        ("init", "registry.example:5000/tools/init:2"),
    ];
    assert_eq!(images, expected.map(|(name, image)| (name.to_owned(), image.to_owned())));

    let manifests: Vec<_> = laid
        .files
        .iter()
        .filter(|(name, _)| *name != "image-references")
        .flat_map(|(name, bytes)| manifests_of(Origin::Release, name, bytes).unwrap())
        .collect();
    let findings = lint(&manifests);
    // The images get their digests when the release is built.
    let others: Vec<_> = findings.iter().filter(|finding| !finding.message.contains("digest")).collect();
    assert!(others.is_empty(), "{others:?}");
    let read = |kind: &str| manifests.iter().find(|it| it.id.kind == kind).unwrap();
    assert_eq!(read("Route").id.namespace, "ingress");
    assert_eq!(read("ClusterRole").id.namespace, "");
    assert_eq!(read("ConfigMap").object().unwrap()["data"]["answer"], "yes", "text stays text");
    assert_eq!(read("Deployment").object().unwrap()["metadata"]["labels"]["mode"], "0644");
    assert_eq!(
        read("Deployment").annotation("include.release.openshift.io/self-managed-high-availability"),
        Some("true")
    );
    let operator = read("ClusterOperator").object().unwrap();
    assert_eq!(
        operator["status"]["relatedObjects"],
        json!([{"group": "", "resource": "namespaces", "name": "ingress"}])
    );
}

#[test]
fn images_of_operands_are_found_and_of_a_repository_there_is_one() {
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"template": {"spec": {
            "initContainers": [{"name": "a", "image": "busybox:1.35"}, {"name": "b", "image": "busybox:1.35"}],
            "containers": [{"name": "web", "image": "busybox:1.36", "env": [
                {"name": "RELATED_IMAGE_DB", "value": "docker.io/library/postgres:16"},
                {"name": "RELATED_IMAGE_LATER", "valueFrom": {}}, {"name": "MODE", "value": "example.com/no/image:1"}]}]}}}});
    let laid = lay_out::lay_out(vec![deployment], &COMPONENT).unwrap();
    let images = image_stream(&laid.files["image-references"]).unwrap();
    let images: Vec<&str> = images.iter().map(|(_, tag)| tag.image.as_str()).collect();
    assert_eq!(images.len(), 2, "{images:?}");
    assert!(images[0].starts_with("busybox:1.3") && images[1] == "docker.io/library/postgres:16", "{images:?}");
    let [remark] = laid.remarks.as_slice() else { panic!("{:?}", laid.remarks) };
    assert!(remark.ends_with("a release has one of each repository"), "{remark}");
}

#[test]
fn what_cannot_be_in_a_release_is_named() {
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "key", "namespace": "a"}});
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}});
    let problems =
        lay_out::lay_out(vec![secret.clone(), map], &Component { namespace: None, ..COMPONENT }).unwrap_err();
    let [of_secret, of_namespace] = problems.as_slice() else { panic!("{problems:?}") };
    assert!(of_secret.starts_with("Secret key") && of_secret.contains("--allow-secrets"), "{of_secret}");
    assert_eq!(of_namespace, "ConfigMap settings names no namespace: give one with --namespace");
    let allowed = Component { allow_secrets: true, ..COMPONENT };
    assert!(lay_out::lay_out(vec![secret], &allowed).unwrap().files.len() == 3);
}

#[test]
fn component_without_an_operator_is_reported_by_the_daemon() {
    let report = |operator: bool| {
        let laid = lay_out::lay_out(objects(CHART), &Component { operator, ..COMPONENT }).unwrap();
        let manifest = &laid.files["0000_50_ingress_90_clusteroperator-ingress.yaml"];
        let manifests = manifests_of(Origin::Release, "x", manifest).unwrap();
        manifests[0].annotation("release.openshift.io/report-workloads").map(str::to_owned)
    };
    assert_eq!((report(false).as_deref(), report(true)), (Some("true"), None));
}

/// Runs `cvo release import` with programs of this folder.
async fn with_program(script: &str) -> (anyhow::Result<Option<String>>, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("helm");
    std::fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = Command::new(&program);
    command.arg("template").arg("a b; rm -rf /");
    (printed(command, "helm").await, dir)
}

#[tokio::test]
async fn program_that_fails_is_quoted() {
    let (printed, _dir) = with_program("printf '%s' \"$2\"").await;
    assert_eq!(printed.unwrap().unwrap(), "a b; rm -rf /", "no shell reads the arguments");
    let (failed, _dir) = with_program("echo 'chart not found' >&2; exit 3").await;
    let failed = failed.unwrap_err().to_string();
    assert!(failed.contains("helm has failed (exit status: 3): chart not found"), "{failed}");
    let (long, _dir) = with_program("yes error | head -c 100000 >&2; exit 1").await;
    assert!(long.unwrap_err().to_string().len() < 3 * ERRORS);
    let (binary, _dir) = with_program("printf '\\377'").await;
    assert!(binary.unwrap_err().to_string().contains("not UTF-8"));
    assert!(self::printed(Command::new("/does/not/exist"), "helm").await.unwrap().is_none());
}

#[test]
fn names_are_checked() {
    for (given, fine) in [("ingress", true), ("a-1", true), ("", false), ("A", false), ("-a", false), ("a/b", false)] {
        assert_eq!(name(given).is_ok(), fine, "{given}");
    }
}

/// Its definition comes from elsewhere, so that nobody knows here whether it is in a namespace.
#[test]
fn kinds_that_are_defined_in_a_group_like_those_of_kubernetes_are_own_kinds() {
    let class =
        json!({"apiVersion": "gateway.networking.k8s.io/v1", "kind": "GatewayClass", "metadata": {"name": "shop"}});
    let ingress = json!({"apiVersion": "networking.k8s.io/v1", "kind": "IngressClass", "metadata": {"name": "shop"}});
    let laid = lay_out::lay_out(vec![class, ingress], &COMPONENT).unwrap();
    assert_eq!(
        laid.remarks,
        ["GatewayClass shop names no namespace, and its kind is not defined here: add one to its file if it needs one"]
    );
    let (name, bytes) = laid.files.iter().find(|(name, _)| name.contains("gatewayclass")).unwrap();
    assert_eq!(name, "0000_50_ingress_60_gatewayclass-shop.yaml", "after the workloads that may define it");
    assert!(!String::from_utf8_lossy(bytes).contains("namespace: ingress"));
    let (_, bytes) = laid.files.iter().find(|(name, _)| name.contains("ingressclass")).unwrap();
    assert!(!String::from_utf8_lossy(bytes).contains("namespace"), "it is in none");
}

#[test]
fn long_names_of_objects_become_file_names_that_can_be_written() {
    let map = |end: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("{}{end}", "a".repeat(252))}});
    let laid = lay_out::lay_out(vec![map("b"), map("c")], &COMPONENT).unwrap();
    let root = tempfile::tempdir().unwrap();
    for name in laid.files.keys() {
        std::fs::write(root.path().join(name), "").unwrap_or_else(|error| panic!("{name}: {error}"));
    }
    let maps = laid.files.keys().filter(|name| name.starts_with("0000_50_ingress_20_configmap-aaa"));
    assert_eq!(maps.count(), 2);
}
