//! What `cvo status`, `cvo collect` and `cvo page` tell of the operators that were installed: one stands in the way of the cluster's update,
//! one has failed, and a plan waits for an approval.

use e2e::harness::{Cluster, Cvo, Options};
use e2e::olm;
use serde_json::{Value, json};

use super::page::{Page, browser, count, is_in_tree, looks_right, shows};

const BEGIN: &str = "2026-01-02T03:04:05Z";

fn version(name: &str, maximum: &str) -> Value {
    let properties = json!({"properties": [{"type": "olm.maxOpenShiftVersion", "value": maximum}]}).to_string();
    json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
        "metadata": {"name": name, "namespace": "shop", "annotations": {"operatorframework.io/properties": properties}},
        "spec": {"displayName": "Gears", "version": "1.0.0", "installModes": [],
            "install": {"strategy": "deployment", "spec": {"deployments": [{"name": "gears", "spec": {
                "selector": {"matchLabels": {"a": "b"}},
                "template": {"spec": {"containers": [{"name": "gears", "env": [{"name": "X", "value": "PLANTED"}]}]}}}}]}}}})
}

/// Objects with their status, as who looks after them would have written it.
fn objects() -> Vec<(Value, Value)> {
    let of = |kind: &str, name: &str, spec: Value| json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": kind, "metadata": {"name": name, "namespace": "shop"}, "spec": spec});
    let image = format!("registry.invalid/release@sha256:{}", "1".repeat(64));
    let done = json!({"state": "Completed", "version": "1.0.0", "image": image, "verified": true, "startedTime": BEGIN, "completionTime": BEGIN});
    let progressing =
        json!({"type": "Progressing", "status": "False", "reason": "", "message": "", "lastTransitionTime": BEGIN});
    let waits = json!({"type": "InstallPlanPending", "status": "True", "reason": "RequiresApproval", "lastTransitionTime": BEGIN});
    let plan = json!({"approval": "Manual", "approved": false, "clusterServiceVersionNames": ["gears.v1.1.0"]});
    let succeeded =
        json!({"phase": "Succeeded", "reason": "InstallSucceeded", "message": "", "lastTransitionTime": BEGIN});
    let failed = json!({"phase": "Failed", "reason": "NoOperatorGroup", "message": "there is none", "lastTransitionTime": BEGIN});
    vec![
        (
            json!({"apiVersion": "config.openshift.io/v1", "kind": "ClusterVersion", "metadata": {"name": "version"},
                "spec": {"clusterID": "00000000-0000-4000-8000-000000000000"}}),
            json!({"desired": {"version": "1.0.0", "image": image}, "history": [done], "observedGeneration": 1, "versionHash": "",
                "availableUpdates": [{"version": "1.1.0", "image": image}], "conditions": [progressing]}),
        ),
        (
            of("CatalogSource", "main", json!({"sourceType": "grpc", "image": "registry.invalid/catalog:1"})),
            json!({"connectionState": {"lastObservedState": "READY", "lastConnect": BEGIN}}),
        ),
        (
            of(
                "Subscription",
                "gears",
                json!({"name": "gears", "channel": "stable", "source": "main", "sourceNamespace": "shop",
                "installPlanApproval": "Manual"}),
            ),
            json!({"installedCSV": "gears.v1.0.0", "currentCSV": "gears.v1.1.0", "lastUpdated": BEGIN,
                "installPlanRef": {"name": "install-abcde", "namespace": "shop"}, "conditions": [waits]}),
        ),
        (
            of("InstallPlan", "install-abcde", plan),
            json!({"phase": "RequiresApproval", "catalogSources": [], "plan": []}),
        ),
        (version("gears.v1.0.0", "1.0"), succeeded),
        (version("wheels.v1.0.0", "1.1"), failed),
    ]
}

async fn prepared() -> Cluster {
    let cluster = Cluster::up(Options::default()).await.unwrap();
    olm::prepare(&cluster).await.unwrap();
    cluster.kubectl(["create", "namespace", "shop"]).await.unwrap();
    for (object, status) in objects() {
        let file = cluster.dir().join("object.json");
        std::fs::write(&file, object.to_string()).unwrap();
        cluster.kubectl(["apply", "-f", &file.display().to_string()]).await.unwrap();
        let patch = json!({"status": status}).to_string();
        let (kind, name) = (object["kind"].as_str().unwrap(), object["metadata"]["name"].as_str().unwrap());
        let arguments = ["patch", kind, name, "-n", "shop", "--subresource=status", "--type=merge", "-p", &patch];
        cluster.kubectl(arguments).await.unwrap();
    }
    cluster
}

#[tokio::test(flavor = "multi_thread")]
async fn status_and_page_name_the_operator_that_stands_in_the_way_of_the_next_version() {
    let cluster = prepared().await;
    let sentences = [
        "\nInstalled operators\n  1 installed, 1 of them well\n",
        "\n  shop/gears: approve the InstallPlan: cvo olm approve install-abcde -n shop\n",
        "\n  shop/wheels.v1.0.0: mend the OperatorGroup of namespace shop, as wheels.v1.0.0 says\n",
        "\n  shop/gears.v1.0.0 stands in the way of updates: the last version of the cluster that it supports is 1.0, not 1.1\n",
        "\n  → cvo plan says which version of its catalog supports 1.1, and gears.v1.1.0 is what its plan installs\n",
    ];
    let says = |said: &str| sentences.iter().all(|it| said.contains(it));
    let said = cluster.cvo(["status"]).run().await.unwrap();
    assert!(says(&said.stdout), "{said:?}");
    let said: Value = cluster.cvo(["status", "-o", "json"]).run().await.unwrap().json().unwrap();
    let held = &said["installedOperators"]["inTheWay"];
    assert_eq!(
        (held.as_array().unwrap().len(), &held[0]["name"], &held[0]["maximum"]),
        (1, &json!("gears.v1.0.0"), &json!("1.0"))
    );

    let file = cluster.dir().join("collected.tar.zst").display().to_string();
    cluster.cvo(["collect", "--to", &file]).run().await.unwrap();
    let said = Cvo::new(["status", "--from", &file]).run().await.unwrap();
    assert!(says(&said.stdout), "{said:?}");

    let Some(mut browser) = browser(&cluster.dir()).await else { return cluster.down().await.unwrap() };
    let page = Page::start(&["--kubeconfig", &cluster.kubeconfig().display().to_string()]).await;
    browser.open(&page.url).await.unwrap();
    shows(&mut browser, "in-the-way", "shop/gears.v1.0.0 stands in the way of updates").await;
    shows(&mut browser, "operator-list", "approve the InstallPlan: cvo olm approve install-abcde -n shop").await;
    shows(&mut browser, "operator-list", "InstallPlan install-abcde: RequiresApproval since ").await;
    shows(&mut browser, "operator-list", "✕ shop/wheels.v1.0.0: applied without a Subscription").await;
    shows(&mut browser, "catalog-list", "shop/main: READY").await;
    is_in_tree(&mut browser, &[("heading", "Installed operators"), ("heading", "Catalogs of operators")]).await;
    looks_right(&mut browser, "operators").await;

    // What it follows comes by watches: the operator says that it fits.
    let fits = version("gears.v1.0.0", "1.1");
    let changed = cluster.dir().join("object.json");
    std::fs::write(&changed, fits.to_string()).unwrap();
    cluster.kubectl(["apply", "-f", &changed.display().to_string()]).await.unwrap();
    browser.until("document.getElementById('in-the-way').children.length === 0").await.unwrap();
    assert_eq!(count(&mut browser, "#operator-list > li").await, 2);
    let recorded = Page::start(&["--from", &file]).await;
    browser.open(&recorded.url).await.unwrap();
    shows(&mut browser, "in-the-way", "shop/gears.v1.0.0 stands in the way of updates").await;
    shows(&mut browser, "catalog-list", "shop/main: READY").await;
    assert_eq!(browser.take_errors(), Vec::<String>::new());
    browser.close().await.unwrap();
    cluster.down().await.unwrap();
}
