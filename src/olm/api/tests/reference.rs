use super::schema::differences;
use super::{KINDS, Kind, component_folder, schema_of, shared, versions};
use crate::olm::api::cluster_service_version::{
    ApiServiceDefinitions, CustomResourceDefinitions, InstallMode, Link, Maintainer, NativeApi,
};
use cel::extractors::This;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Parts of pods and Deployments are not spelled out, so that a field which is newer than the definition is not dropped from what
/// an operator needs. The API server checks them where the pod or Deployment is made.
const OPEN: &str = "x-kubernetes-preserve-unknown-fields";

/// All differences, by the kind and the place.
const DIFFERENCES: [(&str, &str, &str); 18] = [
    ("catalogsources", ".spec.grpcPodConfig.affinity.nodeAffinity", OPEN),
    ("catalogsources", ".spec.grpcPodConfig.affinity.podAffinity", OPEN),
    ("catalogsources", ".spec.grpcPodConfig.affinity.podAntiAffinity", OPEN),
    ("clusterserviceversions", ".spec.install.spec.deployments[].spec", OPEN),
    ("clusterserviceversions", ".spec.install.spec.deployments[].spec.selector", OPEN),
    ("clusterserviceversions", ".spec.install.spec.deployments[].spec.selector", "x-kubernetes-map-type"),
    ("clusterserviceversions", ".spec.install.spec.deployments[].spec.template", OPEN),
    // Operators of the older version that write the conditions where the newer one has them are understood.
    ("operatorconditions", ".spec.conditions", "only ours"),
    // Keys that are none of a selector count as labels instead of being dropped.
    ("operatorgroups", ".spec.selector", OPEN),
    // Documentation shows it.
    ("operatorgroups", ".spec.serviceAccount", "only ours"),
    ("subscriptions", ".spec.config.affinity.nodeAffinity", OPEN),
    ("subscriptions", ".spec.config.affinity.podAffinity", OPEN),
    ("subscriptions", ".spec.config.affinity.podAntiAffinity", OPEN),
    ("subscriptions", ".spec.config.env[]", OPEN),
    ("subscriptions", ".spec.config.env[].valueFrom", OPEN),
    ("subscriptions", ".spec.config.envFrom[]", OPEN),
    ("subscriptions", ".spec.config.volumeMounts[]", OPEN),
    ("subscriptions", ".spec.config.volumes[]", OPEN),
];

#[test]
fn definitions_differ_from_those_of_openshift_only_where_it_is_meant() {
    for kind in KINDS {
        let (ours, Some(theirs)) = (kind.definition(), kind.theirs()) else { continue };
        let mut found = BTreeSet::new();
        for version in versions(&theirs) {
            let name = version["name"].as_str().unwrap();
            found.extend(differences(schema_of(&ours, name), schema_of(&theirs, name)));
        }
        let meant = DIFFERENCES.iter().filter(|(plural, ..)| *plural == kind.plural);
        let meant: BTreeSet<String> = meant.map(|(_, path, keyword)| format!("{path}: {keyword}")).collect();
        assert_eq!(found, meant, "{}: left is what differs, right what is meant to", kind.plural);
    }
}

#[test]
fn names_columns_and_versions_are_those_of_openshift() {
    let column = |column: &Value| -> Vec<Value> {
        ["name", "type", "jsonPath", "priority"].map(|field| column[field].clone()).to_vec()
    };
    for kind in KINDS {
        let (ours, Some(theirs)) = (kind.definition(), kind.theirs()) else { continue };
        assert_eq!(ours["metadata"]["name"], theirs["metadata"]["name"]);
        for field in ["group", "scope", "names"] {
            assert_eq!(ours["spec"][field], theirs["spec"][field], "{}", kind.plural);
        }
        let told = |definition: &Value| -> BTreeMap<String, Value> {
            let told = |version: &Value| {
                let columns = version["additionalPrinterColumns"].as_array().into_iter().flatten().map(column);
                let columns: Vec<_> = columns.collect();
                json!([version["served"], version["storage"], version["subresources"], columns])
            };
            versions(definition).iter().map(|it| (it["name"].as_str().unwrap().to_owned(), told(it))).collect()
        };
        assert_eq!(told(&ours), told(&theirs), "{}", kind.plural);
    }
}

/// Whether all rules of `spec.release` accept the text.
fn accepts(definition: &Value, text: &str) -> bool {
    let schema = &schema_of(definition, "v1alpha1")["properties"]["spec"]["properties"]["release"];
    let accepts = |rule: &Value| {
        let program = cel::Program::compile(rule["rule"].as_str().unwrap()).unwrap();
        let mut context = cel::Context::default();
        context.add_variable("self", text.to_owned()).unwrap();
        // Of Kubernetes, not of the language.
        let split = |This(text): This<Arc<String>>, by: Arc<String>| {
            Arc::new(text.split(by.as_str()).map(cel::Value::from).collect::<Vec<_>>())
        };
        context.add_function("split", split).unwrap();
        match program.execute(&context) {
            Ok(cel::Value::Bool(accepts)) => accepts,
            other => panic!("{rule}: {other:?}"),
        }
    };
    text.len() as u64 <= schema["maxLength"].as_u64().unwrap()
        && schema["x-kubernetes-validations"].as_array().unwrap().iter().all(accepts)
}

#[test]
fn release_of_a_version_has_parts_without_leading_zeros() {
    let kind = Kind::of("clusterserviceversions");
    let (ours, theirs) = (kind.definition(), kind.theirs());
    let long = "1".repeat(21);
    for (text, expected) in [
        ("1", true),
        ("0", true),
        ("1.alpha-2.0", true),
        ("0a", true),
        ("", false),
        ("1.", false),
        ("1..2", false),
        ("01", false),
        ("1.00", false),
        ("1.0012", false),
        ("1_2", false),
        ("1+2", false),
        (long.as_str(), false),
    ] {
        assert_eq!(accepts(&ours, text), expected, "{text}");
        if let Some(theirs) = &theirs {
            assert_eq!(accepts(theirs, text), expected, "theirs: {text}");
        }
    }
}

#[test]
fn users_may_do_what_they_may_on_openshift() {
    let Some(theirs) = shared("payload-5.0/0000_50_olm_09-aggregated.clusterrole.yaml") else { return };
    let roles = |path: &std::path::Path| -> BTreeMap<String, (BTreeSet<String>, BTreeSet<String>)> {
        let text = std::fs::read_to_string(path).unwrap();
        let documents = serde_yaml::Deserializer::from_str(&text).map(|it| Value::deserialize(it).unwrap());
        let texts = |value: &Value| -> Vec<String> {
            value.as_array().unwrap().iter().map(|it| it.as_str().unwrap().to_owned()).collect()
        };
        let rights = |role: &Value| {
            let mut rights = BTreeSet::new();
            for rule in role["rules"].as_array().unwrap() {
                for (resource, verb) in texts(&rule["resources"])
                    .iter()
                    .flat_map(|it| texts(&rule["verbs"]).into_iter().map(move |verb| (it.clone(), verb)))
                {
                    rights.insert(format!("{verb} {resource}.{}", rule["apiGroups"][0].as_str().unwrap()));
                }
            }
            let labels = role["metadata"]["labels"].as_object().unwrap().keys().cloned().collect();
            (labels, rights)
        };
        documents.map(|role| (role["metadata"]["name"].as_str().unwrap().to_owned(), rights(&role))).collect()
    };
    let (ours, theirs) = (roles(&component_folder().join("0000_50_olm_03_user-roles.yaml")), roles(&theirs));
    assert_eq!(theirs.len(), 2);
    for (name, (labels, mut rights)) in theirs {
        // Whoever subscribes may approve as well, and ask before.
        if name == "aggregate-olm-edit" {
            rights.extend(["patch", "update"].map(|verb| format!("{verb} installplans.operators.coreos.com")));
            rights.insert("create subscriptionreviews.packages.operators.coreos.com".to_owned());
        }
        // Copies that are not written are seen there.
        if name == "aggregate-olm-view" {
            let csvs = "clusterserviceversions.packages.operators.coreos.com";
            rights.extend(["get", "list"].map(|verb| format!("{verb} {csvs}")));
        }
        assert_eq!(ours.get(&name), Some(&(labels, rights)), "{name}");
    }
}

/// What catalogs tell of a ClusterServiceVersion has its types.
#[test]
fn metadata_in_published_catalogs_are_read() {
    let Some(catalogs) = shared("catalogs/v4.21") else { return };
    let mut bundles = 0;
    for package in std::fs::read_dir(catalogs).unwrap() {
        let text = std::fs::read_to_string(package.unwrap().path().join("catalog.yaml")).unwrap();
        for document in serde_yaml::Deserializer::from_str(&text) {
            let blob = Value::deserialize(document).unwrap();
            for property in blob["properties"].as_array().into_iter().flatten() {
                if property["type"] == "olm.csv.metadata" {
                    bundles += 1;
                    check_metadata(&property["value"], &blob["name"]);
                }
            }
        }
    }
    assert!(bundles > 500, "{bundles}");
}

fn check_metadata(metadata: &Value, bundle: &Value) {
    let known = |field: &str| metadata.get(field).filter(|value| !value.is_null());
    fn read<T: DeserializeOwned>(value: Option<&Value>, bundle: &Value) {
        if let Some(value) = value {
            let read: Result<T, _> = serde_json::from_value(value.clone());
            assert!(read.is_ok(), "{bundle}: {:?} in {value}", read.err());
        }
    }
    read::<CustomResourceDefinitions>(known("crdDescriptions"), bundle);
    read::<ApiServiceDefinitions>(known("apiServiceDefinitions"), bundle);
    read::<Vec<InstallMode>>(known("installModes"), bundle);
    read::<Vec<Link>>(known("links"), bundle);
    read::<Vec<Maintainer>>(known("maintainers"), bundle);
    read::<Vec<NativeApi>>(known("nativeAPIs"), bundle);
    read::<Link>(known("provider"), bundle);
    read::<BTreeMap<String, String>>(known("annotations"), bundle);
}
