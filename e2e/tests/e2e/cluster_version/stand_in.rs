//! A component without an operator: the daemon reports its ClusterOperator from the health of its workloads.

use std::path::Path;
use std::time::Duration;

use cvo::testing::api::ClusterOperator;
use e2e::conditions::Conditions;
use e2e::platform::releases::Contents;
use e2e::platform::{LIMIT, Platform, Release};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

/// A component `shop` of a Deployment and a StatefulSet.
fn add_shop(components: &Path, image: &str, database: &str, greeting: &str) -> anyhow::Result<()> {
    let folder = components.join("shop");
    std::fs::create_dir_all(&folder)?;
    let annotations = |more: Value| {
        let mut all = json!({"include.release.openshift.io/self-managed-high-availability": "true"});
        all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        all
    };
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "annotations": annotations(json!({}))}});
    let labels = json!({"app": "web"});
    let container = json!({"name": "web", "image": image, "args": ["pause"], "env": [{"name": "GREETING", "value": greeting}],
        "terminationMessagePolicy": "FallbackToLogsOnError", "resources": {"requests": {"cpu": "1m", "memory": "1Mi"}}});
    let template = json!({"metadata": {"labels": labels}, "spec": {"hostNetwork": true, "terminationGracePeriodSeconds": 1,
        "containers": [container]}});
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "shop", "annotations": annotations(json!({}))},
        "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}});
    let labels = json!({"app": "db"});
    let mut template = deployment["spec"]["template"].clone();
    template["metadata"]["labels"] = labels.clone();
    template["spec"]["containers"][0]["name"] = json!("db");
    // A StatefulSet does not replace a pod that has never started.
    template["spec"]["containers"][0]["image"] = json!(database);
    let stateful_set = json!({"apiVersion": "apps/v1", "kind": "StatefulSet",
        "metadata": {"name": "db", "namespace": "shop", "annotations": annotations(json!({}))},
        "spec": {"replicas": 1, "serviceName": "db", "selector": {"matchLabels": labels}, "template": template}});
    let operator = json!({"apiVersion": "config.openshift.io/v1", "kind": "ClusterOperator",
        "metadata": {"name": "shop", "annotations": annotations(json!({"release.openshift.io/report-workloads": "true"}))}, "spec": {},
        "status": {"versions": [{"name": "operator", "version": "0.0.1-snapshot"}],
            "relatedObjects": [{"group": "", "resource": "namespaces", "name": "shop"}]}});
    for (file, object) in
        [("00_namespace", namespace), ("40_web", deployment), ("41_db", stateful_set), ("90_operator", operator)]
    {
        std::fs::write(folder.join(format!("0000_60_shop_{file}.json")), object.to_string())?;
    }
    Ok(())
}

async fn release(platform: &Platform, version: &str, image: &str) -> Release {
    let contents = Contents { version, folders: &["base"], previous: &[], components: &[] };
    let release = platform
        .changed_release(contents, |folder| add_shop(folder, image, platform.lab_image(), version))
        .await
        .unwrap();
    platform.sign(&release).await.unwrap();
    release
}

/// Waits until the operator `shop` reports this.
async fn reports(platform: &Platform, what: &str, ok: impl Fn(&ClusterOperator) -> bool) {
    let operators: Api<ClusterOperator> = Api::all(platform.cluster.client().await.unwrap());
    let wait = platform.wait(format!("the operator shop to report: {what}"), Duration::from_secs(60));
    wait.existing(operators, "shop", ok).await.unwrap();
}

fn version(operator: &ClusterOperator) -> &str {
    let versions = operator.status.iter().flat_map(|status| &status.versions);
    versions.filter(|it| it.name == "operator").map(|it| it.version.as_str()).next().unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "hack/soak runs it"]
async fn component_without_an_operator_reports_what_its_workloads_do() {
    let Some(platform) = Platform::on_a_node().await.unwrap() else { return };
    let image = platform.lab_image().to_owned();
    let first = release(&platform, "1.0.0", &image).await;
    platform.install(&first).await.unwrap();
    platform.until_completed(&first, LIMIT).await.unwrap();
    reports(&platform, "installed", |it| {
        it.has("Available=True") && !it.has("Progressing=True") && version(it) == "1.0.0"
    })
    .await;

    // Its pods go, and come back.
    let client = platform.cluster.client().await.unwrap();
    let databases: Api<StatefulSet> = Api::namespaced(client, "shop");
    assert_eq!(databases.get("db").await.unwrap().status.unwrap().available_replicas, Some(1));
    let deployments: Api<Deployment> = Api::namespaced(platform.cluster.client().await.unwrap(), "shop");
    platform.cluster.kubectl(["cordon", &platform.cluster.node_name()]).await.unwrap();
    platform.cluster.kubectl(["delete", "pods", "--all", "-n", "shop"]).await.unwrap();
    reports(&platform, "without a pod", |it| !it.has("Available=True") && version(it) == "1.0.0").await;
    platform.cluster.kubectl(["uncordon", &platform.cluster.node_name()]).await.unwrap();
    reports(&platform, "with its pod again", |it| it.has("Available=True")).await;

    let second = release(&platform, "1.0.1", &image).await;
    platform.ask_image(&second.image, "1.0.1").await.unwrap();
    platform.until_completed(&second, LIMIT).await.unwrap();
    reports(&platform, "updated", |it| {
        it.has("Available=True") && !it.has("Progressing=True") && version(it) == "1.0.1"
    })
    .await;

    // What cannot be rolled out does not get the version, and the old pods stay until they are replaced.
    let absent = format!("{}/sample/absent@sha256:{}", platform.cluster.registry(), "0".repeat(64));
    let third = release(&platform, "1.0.2", &absent).await;
    platform.ask_image(&third.image, "1.0.2").await.unwrap();
    reports(&platform, "stuck", |it| it.has("Progressing=True") && version(it) == "1.0.1").await;
    let begun = Timestamp::now();
    let kept = deployments.get("web").await.unwrap();
    assert!(kept.metadata.creation_timestamp.unwrap().0 < begun);
    // It reports only what has changed.
    let patch = json!({"metadata": {"annotations": {"noticed": "nothing"}}});
    deployments.patch("web", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    let back = release(&platform, "1.0.3", &image).await;
    platform.ask_image(&back.image, "1.0.3").await.unwrap();
    platform.until_completed(&back, LIMIT).await.unwrap();
    reports(&platform, "updated again", |it| version(it) == "1.0.3" && !it.has("Progressing=True")).await;
    platform.close().await.unwrap();
}
