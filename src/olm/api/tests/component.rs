use super::component_folder;
use crate::object::manifest::Manifest;
use crate::olm::api::{
    DEPLOYMENT, GLOBAL_CATALOG_NAMESPACE, NAMESPACE, PACKAGE_SERVICE, cluster_operator, package_manifest,
};
use crate::release::lint::lint;
use crate::release::load;
use crate::release::load::{LoadOptions, PayloadFiles, SourceFile};
use crate::release::references;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

const PLACEHOLDER: &str = "registry.invalid/olm-operator";
const IMAGE: &str = "registry.example.com/olm@sha256:0";
const OLM: &str = "OperatorLifecycleManager";
const MARKETPLACE: &str = "marketplace";

/// The manifests of the component, its image filled in.
fn manifests(excluded: Option<&str>) -> Vec<Arc<Manifest>> {
    manifests_in(&[component_folder()], excluded)
}

fn manifests_in(folders: &[PathBuf], excluded: Option<&str>) -> Vec<Arc<Manifest>> {
    let mut release = Vec::new();
    for entry in folders.iter().flat_map(|folder| std::fs::read_dir(folder).unwrap()) {
        let (path, name) = entry.map(|entry| (entry.path(), entry.file_name().into_string().unwrap())).unwrap();
        let text = std::fs::read_to_string(path).unwrap();
        if name != references::FILE {
            release.push(SourceFile { name, bytes: text.replace(PLACEHOLDER, IMAGE).into_bytes() });
        }
    }
    let mut options = LoadOptions::default();
    options.filter.exclude_identifier = excluded.map(str::to_owned);
    let files = PayloadFiles { place: "manifests/olm".into(), release, ..PayloadFiles::default() };
    load::partial(files, &options).unwrap().manifests
}

fn object(manifests: &[Arc<Manifest>], kind: &str, name: &str) -> Value {
    let found = manifests.iter().find(|it| it.id.kind == kind && it.id.name == name);
    found.unwrap_or_else(|| panic!("no {kind} {name}")).object().unwrap()
}

fn list<'a>(value: &'a Value, path: &str) -> &'a Vec<Value> {
    value.pointer(path).and_then(Value::as_array).unwrap()
}

#[test]
fn component_has_nothing_that_a_release_must_not_have() {
    let findings = lint(&manifests(None));
    assert!(findings.is_empty(), "{findings:?}");
    let text = std::fs::read_to_string(component_folder().join(references::FILE)).unwrap();
    assert!(text.contains(&format!("name: {PLACEHOLDER}\n")), "{text}");
}

/// With what deletes the programs of another implementation, which must not touch what the component itself brings.
#[test]
fn programs_of_another_implementation_are_deleted_before_the_component_runs() {
    let former = component_folder().with_file_name("olm-former");
    let all = manifests_in(&[component_folder(), former], None);
    assert_eq!(lint(&all), []);
    let is_deleted = |it: &&Arc<Manifest>| it.annotation("release.openshift.io/delete") == Some("true");
    let deleted: Vec<String> = all.iter().filter(is_deleted).map(|it| it.id.to_string()).collect();
    let named = |name: &str| deleted.iter().position(|it| it.contains(name)).unwrap_or_else(|| panic!("{deleted:?}"));
    assert!(named("package-server-manager\"") < named("clusterserviceversion"), "who makes it goes first");
    assert!(named("catalog-operator\"") > 0 && named("marketplace-operator\"") > 0);
    let place = |is: &dyn Fn(&Arc<Manifest>) -> bool| all.iter().rposition(is).unwrap();
    let runs = place(&|it| it.id.kind == "Deployment" && it.id.name == DEPLOYMENT);
    assert!(place(&|it| is_deleted(&it)) < runs, "before the Deployment of the component");
}

#[test]
fn component_is_left_out_where_its_capability_is_disabled() {
    let of_marketplace: BTreeSet<String> = manifests(None)
        .iter()
        .filter(|manifest| match manifest.annotation("capability.openshift.io/name") {
            Some(OLM) => false,
            Some(MARKETPLACE) => true,
            // It is in a namespace of the other one.
            Some(both) if both == format!("{MARKETPLACE}+{OLM}") => true,
            other => panic!("{}: {other:?}", manifest.id),
        })
        .map(|manifest| format!("{} {}", manifest.id.kind, manifest.id.name))
        .collect();
    let expected = [
        "ClusterOperator marketplace",
        "ClusterRole operatorhub-config-reader",
        "ConfigMap default-catalog-sources",
        "CustomResourceDefinition operatorhubs.config.openshift.io",
        "OperatorHub cluster",
    ];
    assert_eq!(of_marketplace.iter().map(String::as_str).collect::<Vec<_>>(), expected);
}

#[test]
fn what_administrators_may_change_is_made_once() {
    let once: Vec<String> = manifests(None)
        .iter()
        .filter(|manifest| manifest.create_only())
        .map(|manifest| format!("{} {}", manifest.id.kind, manifest.id.name))
        .collect();
    assert_eq!(once, ["OperatorHub cluster", "OLMConfig cluster"]);
}

#[test]
fn operators_are_reported_by_the_names_that_the_cluster_knows() {
    let manifests = manifests(None);
    let operators: Vec<&Arc<Manifest>> = manifests.iter().filter(|it| it.id.kind == "ClusterOperator").collect();
    let names: BTreeSet<&str> = operators.iter().map(|manifest| manifest.id.name.as_str()).collect();
    let expected = [
        cluster_operator::LIFECYCLE,
        cluster_operator::CATALOG,
        cluster_operator::PACKAGE_SERVER,
        cluster_operator::MARKETPLACE,
    ];
    assert_eq!(names, BTreeSet::from(expected));
    for operator in &operators {
        let versions = json!([{"name": "operator", "version": "0.0.1-snapshot"}]);
        assert_eq!(operator.object().unwrap()["status"]["versions"], versions, "{}", operator.id);
    }
    // The gate of the Deployment comes before, and then the API that it serves.
    let last: Vec<&str> =
        manifests.iter().rev().map(|manifest| manifest.id.kind.as_str()).skip(operators.len()).take(3).collect();
    assert_eq!(last, ["APIService", "PodDisruptionBudget", "Deployment"]);
    let role = object(&manifests, "ClusterRole", "system:controller:operator-lifecycle-manager");
    let writes = list(&role, "/rules").iter().find(|rule| {
        list(rule, "/resources").contains(&json!("clusteroperators/status"))
            && list(rule, "/verbs").contains(&json!("patch"))
    });
    let allowed: BTreeSet<&str> = list(writes.unwrap(), "/resourceNames").iter().filter_map(Value::as_str).collect();
    assert_eq!(allowed, names);
}

/// Whoever may do everything has the cluster. Two rights reach that far: objects of each kind that an operator defines are read, and
/// operators are given what they ask for.
#[test]
fn each_right_of_the_process_is_spelled_out() {
    let manifests = manifests(None);
    let roles = manifests.iter().filter(|manifest| manifest.id.kind.ends_with("Role"));
    for role in roles {
        for rule in list(&role.object().unwrap(), "/rules") {
            let parts = ["apiGroups", "resources", "verbs", "nonResourceURLs"];
            let wide = parts.iter().any(|part| rule.get(*part).is_some_and(|all| all.to_string().contains('*')));
            let powers =
                ["escalate", "bind", "impersonate"].iter().any(|verb| list(rule, "/verbs").contains(&json!(verb)));
            let reads = json!({"apiGroups": ["*"], "resources": ["*"], "verbs": ["list"]});
            let gives = json!({"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles", "roles"],
                "verbs": ["bind", "escalate"]});
            assert!(!wide && !powers || *rule == reads || *rule == gives, "{}: {rule}", role.id);
        }
    }
    let secrets = object(&manifests, "Role", "olm-operator");
    let names = list(&secrets, "/rules").iter().filter_map(|rule| rule.pointer("/resourceNames/0"));
    let arguments = arguments(&manifests);
    for name in names {
        assert!(arguments.contains(&format!("--packages-secret={}", name.as_str().unwrap())), "{name}");
    }
}

fn deployment(manifests: &[Arc<Manifest>]) -> Value {
    object(manifests, "Deployment", DEPLOYMENT)
}

fn arguments(manifests: &[Arc<Manifest>]) -> Vec<String> {
    let deployment = deployment(manifests);
    let arguments = list(&deployment, "/spec/template/spec/containers/0/args");
    arguments.iter().map(|it| it.as_str().unwrap().to_owned()).collect()
}

#[test]
fn process_is_started_as_this_release() {
    let manifests = manifests(None);
    let deployment = deployment(&manifests);
    assert_eq!(deployment["metadata"]["namespace"], NAMESPACE);
    assert_eq!(deployment.pointer("/spec/template/spec/containers/0/name"), Some(&json!(DEPLOYMENT)));
    let arguments = arguments(&manifests);
    assert_eq!(
        arguments.get(..4).unwrap(),
        [
            "olm".to_owned(),
            "start".to_owned(),
            "--release-version=0.0.1-snapshot".to_owned(),
            format!("--image={IMAGE}"),
        ]
    );
    assert!(arguments.contains(&format!("--namespace={GLOBAL_CATALOG_NAMESPACE}")));
    let service = format!("--packages-service={PACKAGE_SERVICE}");
    assert!(arguments.contains(&service), "{arguments:?}");
}

/// An API that is registered and does not answer hampers discovery, and no namespace is deleted meanwhile.
#[test]
fn packages_are_served_while_pods_are_replaced_or_drained() {
    let manifests = manifests(None);
    let spec = deployment(&manifests)["spec"].clone();
    assert_eq!(spec["replicas"], 2);
    assert_eq!(
        spec["strategy"],
        json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}})
    );
    let labels = json!({"app": "olm-operator"});
    assert_eq!((&spec["selector"]["matchLabels"], &spec["template"]["metadata"]["labels"]), (&labels, &labels));
    let apart = spec.pointer("/template/spec/affinity/podAntiAffinity").unwrap();
    let preferred = "/preferredDuringSchedulingIgnoredDuringExecution/0/podAffinityTerm/labelSelector/matchLabels";
    assert_eq!(apart.pointer(preferred), Some(&labels), "one node alone has both");
    let budget = object(&manifests, "PodDisruptionBudget", "packageserver-pdb");
    assert_eq!((&budget["spec"]["maxUnavailable"], &budget["spec"]["selector"]["matchLabels"]), (&json!(1), &labels));
    let tolerations = list(&spec, "/template/spec/tolerations");
    let cordoned = tolerations.iter().find(|it| it["key"] == "node.kubernetes.io/unschedulable");
    assert_eq!(cordoned.unwrap()["effect"], "NoSchedule", "a single node could not be drained");
}

#[test]
fn api_of_packages_leads_to_a_port_of_the_process_that_policies_let_through() {
    let manifests = manifests(None);
    let api = object(&manifests, "APIService", &format!("{}.{}", package_manifest::VERSION, package_manifest::GROUP));
    assert_eq!(api["spec"]["service"], json!({"namespace": NAMESPACE, "name": PACKAGE_SERVICE, "port": 5443}));
    assert_eq!(api["spec"].get("insecureSkipTLSVerify"), None);
    let spec = deployment(&manifests)["spec"].clone();
    let ports = list(&spec, "/template/spec/containers/0/ports");
    let policies: Vec<Value> = ["default-deny-all-traffic", "olm-operator"]
        .map(|name| object(&manifests, "NetworkPolicy", name)["spec"].clone())
        .into();
    assert_eq!(policies[0], json!({"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}));
    assert_eq!(policies[1]["podSelector"]["matchLabels"], spec["selector"]["matchLabels"]);
    let open: Vec<&Value> = list(&policies[1], "/ingress/0/ports").iter().map(|it| &it["port"]).collect();
    for (service, port) in [(PACKAGE_SERVICE, 5443), ("olm-operator-metrics", 8443)] {
        let service = object(&manifests, "Service", service)["spec"].clone();
        assert_eq!(service["selector"], spec["selector"]["matchLabels"]);
        assert_eq!(service["ports"][0]["port"], port);
        let target = &service["ports"][0]["targetPort"];
        assert!(open.contains(&target), "{target}");
        let named = ports.iter().find(|it| it["name"] == *target).unwrap();
        assert_eq!(named["containerPort"], port);
    }
    let range = list(&policies[1], "/ingress/0/ports").iter().find(|it| it.get("endPort").is_some()).unwrap();
    let arguments = arguments(&manifests);
    for argument in [
        format!("--listen-catalogs=0.0.0.0:{}", range["port"]),
        format!("--catalog-ports={}-{}", range["port"].as_i64().unwrap() + 1, range["endPort"]),
    ] {
        assert!(arguments.contains(&argument), "{argument}");
    }
}

/// As the restricted standard asks for, which its namespace enforces; and nothing is there that not each cluster has.
#[test]
fn process_runs_on_any_cluster_without_privileges() {
    let manifests = manifests(None);
    let namespace = object(&manifests, "Namespace", NAMESPACE);
    assert_eq!(namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"], "restricted");
    let pod = deployment(&manifests).pointer("/spec/template/spec").unwrap().clone();
    let context = json!({"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}});
    assert_eq!(pod["securityContext"], context, "users are said by the image, or by OpenShift");
    let expected =
        json!({"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": {"drop": ["ALL"]}});
    assert_eq!(pod["containers"][0]["securityContext"], expected);
    assert_eq!((pod.get("hostNetwork"), pod.get("nodeSelector")), (None, None));
    for volume in list(&pod, "/volumes") {
        let optional = volume.get("secret").is_none_or(|secret| secret["optional"] == true);
        assert!(optional && (volume.get("secret").is_some() || volume.get("emptyDir").is_some()), "{volume}");
    }
    let foreign: BTreeSet<String> = manifests
        .iter()
        .filter(|it| !crate::object::built_in::is_of_kubernetes(&it.id.group))
        .map(|it| it.id.group.clone())
        .collect();
    let own = ["config.openshift.io".to_owned(), "operators.coreos.com".to_owned()];
    assert_eq!(foreign, BTreeSet::from(own));
}

#[test]
fn process_runs_on_the_control_plane_unless_any_node_will_do() {
    let affinity = |excluded| deployment(&manifests(excluded)).pointer("/spec/template/spec/affinity").unwrap().clone();
    let has = |label: &str| json!({"matchExpressions": [{"key": label, "operator": "Exists"}]});
    let terms = json!([has("node-role.kubernetes.io/control-plane"), has("node-role.kubernetes.io/master")]);
    assert_eq!(
        affinity(None)["nodeAffinity"],
        json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}})
    );
    let anywhere = affinity(Some("any-node"));
    assert_eq!((anywhere.get("nodeAffinity"), anywhere.get("podAntiAffinity").is_some()), (None, true));
}
