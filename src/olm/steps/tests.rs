use super::*;
use crate::olm::bundle::tests::{bundle, example, replaced, with};

fn properties() -> Vec<(String, Value)> {
    vec![("olm.package".to_owned(), json!({"packageName": "widget-operator", "version": "1.2.0"}))]
}

fn chosen<'a>(bundle: &'a Bundle, properties: &'a [(String, Value)]) -> Chosen<'a> {
    Chosen { bundle, namespace: "ns", replaces: "widget-operator.v1.0.0", catalog: ("olm", "main"), properties }
}

/// Kind and name of each step.
fn told(steps: &[Step]) -> Vec<String> {
    steps.iter().map(|it| format!("{} {}", it.resource.kind, it.resource.name)).collect()
}

fn manifest(step: &Step) -> Value {
    serde_json::from_str(&step.resource.manifest).unwrap()
}

#[test]
fn bundle_is_its_version_its_objects_and_the_roles_it_asks_for() {
    let bundle = bundle(&example());
    let properties = properties();
    let steps = ordered(vec![of_bundle(&chosen(&bundle, &properties)).unwrap()]);
    let role = "widget-operator.v1.2";
    let told = told(&steps);
    assert_eq!(
        told[..5],
        [
            "ClusterServiceVersion widget-operator.v1.2.0",
            "CustomResourceDefinition widgets.example.com",
            "Service widget-operator-metrics",
            "PodDisruptionBudget widget-operator",
            "ServiceAccount widget-operator",
        ]
    );
    assert!(
        told[5].starts_with(&format!("Role {role}")) && told[6].starts_with(&format!("RoleBinding {role}")),
        "{told:?}"
    );
    assert_eq!(told.len(), 7);
    for step in &steps {
        assert_eq!(step.resolving, "widget-operator.v1.2.0");
        assert_eq!((step.resource.source_namespace.as_str(), step.resource.source_name.as_str()), ("olm", "main"));
        assert_eq!(step.status, StepStatus::Unknown);
    }
    let definition = &steps[1].resource;
    assert_eq!((definition.group.as_str(), definition.version.as_str()), ("apiextensions.k8s.io", "v1"));
    assert_eq!((steps[2].resource.group.as_str(), steps[2].resource.version.as_str()), ("", "v1"));
}

#[test]
fn version_says_where_it_belongs_what_it_replaces_and_what_it_is() {
    let bundle = bundle(&example());
    let properties = properties();
    let steps = of_bundle(&chosen(&bundle, &properties)).unwrap();
    let csv = manifest(&steps[0]);
    assert_eq!(csv["metadata"]["namespace"], "ns");
    assert_eq!(csv["spec"]["replaces"], "widget-operator.v1.0.0", "and not what the author wrote");
    let annotation = csv["metadata"]["annotations"]["operatorframework.io/properties"].as_str().unwrap();
    let expected = json!({"properties": [
        {"type": "olm.package", "value": {"packageName": "widget-operator", "version": "1.2.0"}}]});
    assert_eq!(serde_json::from_str::<Value>(annotation).unwrap(), expected);
    assert_eq!(csv["metadata"]["annotations"]["categories"], "Developer Tools", "the rest stays");
    let first = Chosen { replaces: "", ..chosen(&bundle, &properties) };
    assert!(manifest(&of_bundle(&first).unwrap()[0])["spec"]["replaces"].is_null());
}

#[test]
fn secrets_of_bundles_have_a_kind_of_their_own() {
    let secret = "{apiVersion: v1, kind: Secret, metadata: {generateName: key-}}";
    let bundle = bundle(&with("manifests/secret.yaml", secret));
    let steps = of_bundle(&chosen(&bundle, &[])).unwrap();
    let found = steps.iter().find(|it| it.resource.kind == "BundleSecret").unwrap();
    assert_eq!(found.resource.name, "key-");
    assert_eq!(manifest(found)["kind"], "Secret");
}

#[test]
fn kind_that_bundles_cannot_bring_is_marked() {
    let object = "{apiVersion: apps/v1, kind: Deployment, metadata: {name: x}}";
    let bundle = bundle(&with("manifests/other.yaml", object));
    let steps = of_bundle(&chosen(&bundle, &[])).unwrap();
    let marked: Vec<&Step> = steps.iter().filter(|it| it.status == StepStatus::UnsupportedResource).collect();
    assert_eq!(marked.iter().map(|it| it.resource.name.as_str()).collect::<Vec<_>>(), ["x"]);
}

#[test]
fn strategy_that_cannot_be_read_is_told() {
    let file = "manifests/widget-operator.clusterserviceversion.yaml";
    let bundle = bundle(&replaced(file, "- serviceAccountName: widget-operator", "- serviceAccountName: [5]"));
    let error = of_bundle(&chosen(&bundle, &[])).unwrap_err().to_string();
    assert!(error.contains("widget-operator.v1.2.0") && error.contains("spec.install"), "{error}");
}

#[test]
fn bundles_of_a_plan_are_interleaved_by_kind() {
    let bundle = bundle(&example());
    let properties = properties();
    let one = of_bundle(&chosen(&bundle, &properties)).unwrap();
    let steps = ordered(vec![one.clone(), one]);
    let kinds: Vec<&str> = steps.iter().map(|it| it.resource.kind.as_str()).take(5).collect();
    let (csv, definition) = ("ClusterServiceVersion", "CustomResourceDefinition");
    assert_eq!(kinds, [csv, csv, definition, definition, "Service"]);
}

#[test]
fn dependency_has_a_subscription_of_its_own() {
    let bundle = bundle(&example());
    let step = subscription(&chosen(&bundle, &[]), "widgets", "stable");
    assert_eq!(step.resource.name, "widgets-stable-main-olm");
    let expected = json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription",
        "metadata": {"name": "widgets-stable-main-olm", "namespace": "ns"},
        "spec": {"name": "widgets", "channel": "stable", "source": "main", "sourceNamespace": "olm",
            "startingCSV": "widget-operator.v1.2.0", "installPlanApproval": "Automatic"}});
    assert_eq!(manifest(&step), expected);
}

#[test]
fn name_of_a_subscription_is_always_that_of_an_object() {
    let long = "a".repeat(300);
    let mut seen = std::collections::BTreeSet::new();
    for channel in ["stable", "Stable", "stable_", "stäble", "v1.", ".", "", &long, &long[1..]] {
        let name = subscription_name(["widgets", channel, "main", "olm"]);
        assert!(names::is_object_name(&name), "{channel:?}: {name}");
        assert!(seen.insert(name), "{channel:?}");
    }
}
