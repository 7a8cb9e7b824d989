//! What the pods of an operator need to answer belongs to the version that runs, and stays the same object.

use cvo::testing::api::olm::operator_condition::OperatorCondition;
use e2e::olm::PROCESS;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, ResourceExt};

use super::super::{COLLECTED, SHOP, World};
use super::{NAME, SECRET, version};

impl World {
    /// uids of what its pods need to answer: account, Secret and Service.
    pub(super) async fn uids(&self) -> String {
        let (account, secret, service) =
            ("serviceaccount/server", format!("secret/{SECRET}"), "service/server-service");
        let path = "jsonpath={.items[*].metadata.uid}";
        self.kubectl(["get", account, &secret, service, "-n", SHOP, "-o", path]).await
    }

    /// Until the collector has taken what belonged to this version alone.
    async fn until_collected(&self, csv: &str) {
        let conditions: Api<OperatorCondition> = Api::namespaced(self.client.clone(), SHOP);
        let wait = self.cluster.until(format!("the OperatorCondition {csv} to be collected"), &[PROCESS]);
        wait.within(COLLECTED).object(conditions, csv, |it| it.is_none()).await.unwrap();
    }
}

/// Also once the collector has been there, which must take nothing that goes on. `uids`: since the first version. `secret`: that of the
/// second one.
pub(super) async fn third_version_takes_over_too(world: &World, (uids, secret): (&str, &Secret)) {
    world.until_collected(NAME).await;
    assert_eq!(world.uids().await, uids);
    world.apply(&version("3.0.0", "2.0.0")).await;
    world.until_succeeded("server.v3.0.0").await;
    world.until_gone("server.v2.0.0").await;
    world.until_collected("server.v2.0.0").await;
    assert_eq!(world.uids().await, uids);
    let after = world.secret().await;
    assert_eq!(after.data, secret.data);
    assert_eq!(owners(&after), [world.csvs().get("server.v3.0.0").await.unwrap().uid()]);
}

fn owners(secret: &Secret) -> Vec<Option<String>> {
    secret.owner_references().iter().map(|it| Some(it.uid.clone())).collect()
}

/// There was none: the process has made it.
pub(super) async fn secret_is_that_of_the_version(world: &World) {
    let (csv, secret) = (world.csvs().get(NAME).await.unwrap(), world.secret().await);
    assert_eq!(secret.type_.as_deref(), Some("kubernetes.io/tls"));
    let keys: Vec<&String> = secret.data.iter().flatten().map(|(key, _)| key).collect();
    assert_eq!(keys, ["olmCAKey", "tls.crt", "tls.key"]);
    for (key, value) in [
        ("olm.managed", "true"),
        ("olm.owner", NAME),
        ("olm.owner.namespace", SHOP),
        ("olm.owner.kind", "ClusterServiceVersion"),
    ] {
        assert_eq!(secret.labels()[key], value, "{:?}", secret.labels());
    }
    assert_eq!(owners(&secret), [csv.uid()]);
}
