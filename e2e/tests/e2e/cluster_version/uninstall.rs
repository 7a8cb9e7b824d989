//! Uninstalling: when the ClusterVersion is deleted and its dependents are orphaned, they stay, although the daemon runs.

use cvo::testing::api::{ClusterVersion, ClusterVersionSpec};
use jiff::Timestamp;
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{ConfigMap, Namespace},
};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, PostParams, PropagationPolicy},
};

use e2e::simulator::cluster::{LIMIT, SimulatedCluster};

/// The uids of some objects of the release, and whether each has an owner.
async fn objects(client: &Client) -> (Vec<Option<String>>, Vec<bool>) {
    let namespace = Api::<Namespace>::all(client.clone()).get("beta").await.unwrap();
    let deployment = Api::<Deployment>::namespaced(client.clone(), "beta").get("beta").await.unwrap();
    let settings = Api::<ConfigMap>::namespaced(client.clone(), "beta").get("settings").await.unwrap();
    let uids = vec![namespace.uid(), deployment.uid(), settings.uid()];
    let owned = [namespace.owner_references(), deployment.owner_references(), settings.owner_references()];
    (uids, owned.iter().map(|references| !references.is_empty()).collect())
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "hack/soak runs it"]
async fn orphaned_objects_stay_when_the_cluster_version_is_deleted() {
    let (mut cluster, releases) = SimulatedCluster::with_samples(&["1.0.0"]).await.unwrap();
    cluster.run_daemon(&releases[0]).await.unwrap();
    let installed = cluster.completed(&releases[0]).await.unwrap();
    let (before, owned) = objects(&cluster.client).await;
    assert_eq!(owned, [true; 3], "the release belongs to the ClusterVersion");

    let orphan = DeleteParams { propagation_policy: Some(PropagationPolicy::Orphan), ..DeleteParams::default() };
    cluster.versions().delete("version", &orphan).await.unwrap();
    let deleted = |object: Option<&ClusterVersion>| object.is_none();
    cluster
        .until_object("the ClusterVersion to be deleted", cluster.versions(), "version", LIMIT, deleted)
        .await
        .unwrap();
    // The garbage collector removes the references before the owner, and the daemon must not have added them again.
    let (after, owned) = objects(&cluster.client).await;
    assert_eq!((after, owned), (before.clone(), vec![false; 3]));

    // A new ClusterVersion takes over what exists; had anything been deleted meanwhile, it would have another uid now.
    let spec = ClusterVersionSpec { cluster_id: installed.spec.cluster_id, ..ClusterVersionSpec::default() };
    let anew = Timestamp::now();
    cluster.versions().create(&PostParams::default(), &ClusterVersion::new("version", spec)).await.unwrap();
    cluster.rolled_out(&releases[0], anew).await.unwrap();
    cluster.completed(&releases[0]).await.unwrap();
    let (again, owned) = objects(&cluster.client).await;
    assert_eq!((again, owned), (before, vec![true; 3]));
    cluster.close().await.unwrap();
}
