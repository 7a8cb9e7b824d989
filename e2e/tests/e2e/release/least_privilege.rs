//! The daemon with the roles that `cvo rbac` derives instead of cluster-admin.

use std::time::Duration;

use cvo::testing::api::HistoryState;
use jiff::Timestamp;
use k8s_openapi::api::rbac::v1::{ClusterRoleBinding, Role};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};

use e2e::conditions::Conditions;
use e2e::harness::{Cluster, Cvo, audit};
use e2e::platform::Platform;
use e2e::signing::TRUSTED;
use e2e::simulator::cluster::{LIMIT, SimulatedCluster};
use e2e::simulator::history::history;
use e2e::simulator::releases::Release;
use e2e::simulator::requests::DAEMON;
use e2e::simulator::sample;
use e2e::simulator::simulation::Workloads;

/// Of the manifests that are excluded in this mode.
const MODE: &str = "least-privilege";
const ADMIN: &str = "cluster-version-operator-1";
const ROLE: &str = "cluster-version-operator-release";

/// What `cvo rbac` prints about the update from one release to the other.
async fn rbac(from: &Release, to: &Release, output: &str) -> String {
    let rbac = Cvo::new(["rbac", "--exclude-manifests", MODE, "-o", output]);
    rbac.flag("--from", &from.folder).flag("--to", &to.folder).output().await.unwrap()
}

async fn grant(cluster: &Cluster, roles: &str) {
    let file = cluster.dir().join("roles.yaml");
    std::fs::write(&file, roles).unwrap();
    let file = file.display().to_string();
    let apply = ["apply", "--server-side", "--force-conflicts", "-f", &file];
    cluster.kubectl(apply).await.unwrap();
}

/// Which ConfigMaps the daemon may not write, as a plan of the update says.
async fn denied_by_plan(cluster: &SimulatedCluster, to: &Release) -> Vec<String> {
    let plan = cluster.control_plane.cvo(["plan", "-o", "json", "--from", "cluster", "--to-image", &to.image]);
    let plan: Value = plan.flag("--to", &to.folder).run().await.unwrap().json().unwrap();
    let blockers = plan["blockers"].as_array().unwrap().iter();
    let denied = blockers.filter(|blocker| blocker["cause"] == "permission" && blocker["object"] == "configmaps");
    denied.map(|blocker| blocker["message"].as_str().unwrap().to_owned()).collect()
}

/// What the daemon was refused since then.
fn refused(cluster: &Cluster, since: Timestamp) -> Vec<String> {
    let requests = audit::requests(&cluster.audit_log(), DAEMON).unwrap().into_iter();
    let requests = requests.filter(|request| request.at >= since && request.code == 403);
    requests.map(|request| format!("{} {} {}", request.verb, request.object(), request.uri)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn derived_roles_suffice_to_install_and_update_and_a_missing_right_is_named() {
    let mut cluster = SimulatedCluster::start(Workloads::Kwok).await.unwrap();
    let releases = ["1.0.0", "1.0.1"].map(|version| cluster.lay_out_sample(version).unwrap());
    let [first, second] = &releases;
    cluster.sign(second, TRUSTED).await.unwrap();
    cluster.install(first).await.unwrap();
    let bindings: Api<ClusterRoleBinding> = Api::all(cluster.client.clone());
    bindings.delete(ADMIN, &DeleteParams::default()).await.unwrap();
    let roles = rbac(first, second, "yaml").await;
    grant(&cluster.control_plane, &roles).await;
    cluster.simulate(&releases, Duration::ZERO).unwrap();
    cluster.add_arguments(["--exclude-manifests", MODE]).unwrap();
    let begun = Timestamp::now();
    cluster.run_daemon(first).await.unwrap();
    cluster.completed(first).await.unwrap();
    assert_eq!(refused(&cluster.control_plane, begun), Vec::<String>::new());

    assert_eq!(denied_by_plan(&cluster, second).await, Vec::<String>::new(), "it has the rights by name");
    // A Role that lacks a verb, as one that was made for another release.
    let some: Api<Role> = Api::namespaced(cluster.client.clone(), "beta");
    let mut role = some.get(ROLE).await.unwrap();
    let of_maps = |group: &Vec<String>| group.iter().any(|resource| resource == "configmaps");
    for rule in role.rules.iter_mut().flatten().filter(|rule| rule.resources.as_ref().is_some_and(of_maps)) {
        rule.verbs.retain(|verb| verb != "update");
    }
    let rules: Vec<_> = role.rules.into_iter().flatten().filter(|rule| !rule.verbs.is_empty()).collect();
    let patch = Patch::Merge(json!({"rules": rules}));
    some.patch(ROLE, &PatchParams::default(), &patch).await.unwrap();
    cluster.request(second).await.unwrap();
    let failing = cluster.until("the missing right to be named", |version| {
        let named = |message: &str| ["update", "\"configmaps\"", "\"beta\""].iter().all(|word| message.contains(word));
        version.condition("Failing=True").is_some_and(|failing| named(&failing.message))
    });
    let failing = failing.await.unwrap();
    println!("{}", failing.condition("Failing=True").unwrap().message);

    let denied = denied_by_plan(&cluster, second).await;
    assert!(denied.len() == 1 && denied[0].contains(" may not update configmaps beta/"), "{denied:?}");

    grant(&cluster.control_plane, &roles).await;
    let restored = Timestamp::now();
    let updated = cluster.completed(second).await.unwrap();
    let row = |version: &str, verified| (version.to_owned(), HistoryState::Completed, verified);
    assert_eq!(history(&updated), [row("1.0.1", true), row("1.0.0", false)]);
    let late = refused(&cluster.control_plane, restored);
    // The authorizer may need a moment to know a role.
    assert!(late.iter().all(|refused| refused.contains("configmaps") && refused.contains("beta")), "{late:?}");
    assert!(bindings.get_opt(ADMIN).await.unwrap().is_none(), "the release does not make the daemon cluster-admin");
    cluster.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn update_says_which_rights_are_new_and_which_are_as_good_as_cluster_admin() {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("rbac");
    let trust = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "trust", "namespace": "alpha"}});
    let [first, second] = ["1.0.0", "1.0.1"].map(|version| sample::lay_out(&folder, version, &trust).unwrap());
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "key", "namespace": "gamma",
        "annotations": {"include.release.openshift.io/self-managed-high-availability": "true"}}});
    second.put("0000_20_gamma_15_key.json", &secret.to_string()).unwrap();
    let said = rbac(&first, &second, "text").await;
    println!("{said}");
    let new = said.split("New in 1.0.1:").nth(1).unwrap();
    let (new, powerful) = new.split_once("As good as cluster-admin:").unwrap();
    assert!(new.contains("update secrets \"key\" in gamma") && !new.contains("configmaps"), "{new}");
    assert!(powerful.contains("list secrets: ") && powerful.contains("0000_20_gamma_15_key.json"), "{powerful}");
    assert!(!said.contains("cluster-admin\" in"), "the binding to it is excluded: {said}");
    std::fs::remove_dir_all(&folder).unwrap();
}

/// As the page on rights says: the mode is handed from release to release, and the Jobs of a retrieval run.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "hack/soak runs it"]
async fn platform_on_a_node_is_installed_and_updated_with_derived_roles() {
    let Some(platform) = Platform::on_a_node().await.unwrap() else { return };
    let [first, second, _] = platform.samples().await.unwrap();
    let words = ["rbac", "--from", &first.image, "--to", &second.image, "--exclude-manifests", MODE, "-o", "yaml"];
    grant(&platform.cluster, &platform.cvo(words).await.unwrap()).await;
    platform.install_with(&first, &["--exclude-manifests", MODE]).await.unwrap();
    let begun = Timestamp::now();
    platform.until_completed(&first, LIMIT).await.unwrap();
    assert_eq!(refused(&platform.cluster, begun), Vec::<String>::new(), "while it was installed");

    platform.ask_image(&second.image, &second.version).await.unwrap();
    let updated = platform.until_completed(&second, LIMIT).await.unwrap();
    let row = |version: &str, verified| (version.to_owned(), HistoryState::Completed, verified);
    assert_eq!(history(&updated), [row("1.0.1", true), row("1.0.0", false)]);
    assert!(updated.status.as_ref().unwrap().history[0].verified);
    assert_eq!(refused(&platform.cluster, begun), Vec::<String>::new(), "while it was updated");
    let bindings: Api<ClusterRoleBinding> = Api::all(platform.cluster.client().await.unwrap());
    assert!(bindings.get_opt(ADMIN).await.unwrap().is_none(), "no release makes the daemon cluster-admin");
    platform.close().await.unwrap();
}
