//! A process that may not read what all operators depend on says so of its component, and begins once it may.

use cvo::testing::api::ClusterOperator;
use e2e::conditions::Conditions;
use e2e::olm::{PROCESS, USER};
use e2e::workspace;
use kube::Api;
use serde_json::{Value, json};

use super::{COLLECTED, World};

/// What the release allows the process.
const RIGHTS: &str = "manifests/olm/0000_50_olm_02_rbac.yaml";
const ROLE: &str = "system:controller:operator-lifecycle-manager";

impl World {
    /// Takes away the rights to read Deployments, and returns when the API server knows of that.
    async fn hide_deployments(&self) {
        let role = self.kubectl(["get", "clusterrole", ROLE, "-o", "json"]).await;
        let mut role: Value = serde_json::from_str(&role).unwrap();
        let reads = [json!(["deployments"]), json!(["*"])];
        role["rules"].as_array_mut().unwrap().retain(|rule| !reads.contains(&rule["resources"]));
        let patch = json!({"rules": role["rules"]}).to_string();
        self.kubectl(["patch", "clusterrole", ROLE, "--type=merge", "-p", &patch]).await;
        let wait = self.cluster.until("Deployments to be hidden", &[]).within(COLLECTED);
        let asked = ["auth", "can-i", "list", "deployments.apps", "-A", "--as", USER];
        wait.holds(async || self.cluster.kubectl(asked).await.is_err()).await.unwrap();
    }

    async fn until_operator(&self, name: &str, what: &str, is_so: impl FnMut(&ClusterOperator) -> bool) {
        let operators: Api<ClusterOperator> = Api::all(self.client.clone());
        let wait = self.cluster.until(format!("{name}: {what}"), &[PROCESS]).within(COLLECTED);
        wait.existing(operators, name, is_so).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "hack/soak runs it"]
async fn process_that_may_not_read_what_it_needs_says_so_and_begins_once_it_may() {
    let world = World::up().await;
    world.hide_deployments().await;
    world.start();
    let (own, of_catalogs) = ("operator-lifecycle-manager", "operator-lifecycle-manager-catalog");
    let lacks = |it: &ClusterOperator| {
        it.has("Available=False") && it.has("Progressing=True") && it.says("Degraded=True", &["deployments"])
    };
    let works =
        |it: &ClusterOperator| it.has("Available=True") && it.has("Progressing=False") && it.has("Degraded=False");
    world.until_operator(own, "what it lacks", lacks).await;
    world.until_operator(of_catalogs, "to work all the same", works).await;

    let rights = workspace::root().join(RIGHTS).display().to_string();
    world.kubectl(["apply", "--server-side", "--force-conflicts", "-f", &rights]).await;
    world.until_operator(own, "to work", works).await;
    world.group("one").await;
    world.install_empty("1.0.0").await;
    world.down().await;
}
