//! The component as three Deployments, each of which does a part of the work.

use std::fs;

use cvo::testing::api::olm::NAMESPACE;
use e2e::harness::Cluster;
use e2e::olm::{COMPONENT, PACKAGES};
use serde::Deserialize;
use serde_json::{Value, json};

use super::super::apply;
use super::OPERATORS;

/// Names and labels of Deployments, and the loops that each runs.
const PARTS: [(&str, &str); 3] =
    [("catalog-operator", "catalogs,subscriptions"), ("olm-operator", "operators"), ("packageserver", "operators")];
/// How `manifests/olm` names the image.
const IMAGE: &str = "registry.invalid/olm-operator";

/// Installs it, and waits until packages are served. Its kinds have to be defined.
pub(super) async fn install(cluster: &Cluster, image: &str) {
    let folder = cluster.dir().join("olm-manifests");
    COMPONENT.write(cluster, &folder).unwrap();
    let mut paths: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|it| it == "yaml") && !path.ends_with(".crd.yaml"));
    paths.sort();
    for path in paths {
        let text = fs::read_to_string(path).unwrap().replace(IMAGE, image);
        let documents = serde_yaml::Deserializer::from_str(&text).map(|it| Value::deserialize(it).unwrap());
        let objects: Vec<Value> = documents.filter(|it| !it.is_null()).flat_map(split).collect();
        apply(cluster, &objects).await;
    }
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": OPERATORS}});
    apply(cluster, &[namespace]).await;
    for (name, _) in PARTS {
        let deployment = format!("deployment/{name}");
        cluster.kubectl(["-n", NAMESPACE, "rollout", "status", "--timeout=2m", &deployment]).await.unwrap();
    }
    let service = format!("apiservice/{PACKAGES}");
    cluster.kubectl(["wait", "--for=condition=Available", "--timeout=2m", &service]).await.unwrap();
}

/// The Deployment becomes one for each part, everything else stays.
fn split(object: Value) -> Vec<Value> {
    if object["kind"] != "Deployment" {
        return vec![object];
    }
    PARTS.iter().map(|(name, loops)| part(object.clone(), name, loops)).collect()
}

fn part(mut deployment: Value, name: &str, loops: &str) -> Value {
    let labels = json!({"app": name});
    deployment["metadata"]["name"] = json!(name);
    deployment["metadata"]["labels"] = labels.clone();
    let spec = &mut deployment["spec"];
    spec["replicas"] = json!(1);
    spec["selector"] = json!({"matchLabels": labels});
    spec["template"]["metadata"]["labels"] = labels;
    let arguments = spec["template"]["spec"]["containers"][0]["args"].as_array_mut().unwrap();
    // One of them says to the update of the cluster what all do.
    arguments.retain(|it| loops != "operators" || !it.as_str().unwrap().starts_with("--write"));
    // The suite has its global catalogs beside the component.
    arguments.retain(|it| !it.as_str().unwrap().starts_with("--namespace="));
    arguments.extend([json!(format!("--namespace={NAMESPACE}")), json!(format!("--loops={loops}"))]);
    deployment
}
