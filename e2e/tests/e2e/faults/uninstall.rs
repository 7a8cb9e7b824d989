//! The way out: who deletes the ClusterVersion and keeps the rest keeps the rest, although the daemon still runs.

use cvo::api::{ClusterVersion, ClusterVersionSpec};
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{ConfigMap, Namespace},
};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, PostParams, PropagationPolicy},
};

use e2e::theatre::{PATIENCE, Theatre};

/// The uids of some objects of the release, and whether all of them have owners.
async fn objects(client: &Client) -> (Vec<Option<String>>, Vec<bool>) {
    let namespace = Api::<Namespace>::all(client.clone()).get("beta").await.unwrap();
    let deployment = Api::<Deployment>::namespaced(client.clone(), "beta").get("beta").await.unwrap();
    let settings = Api::<ConfigMap>::namespaced(client.clone(), "beta").get("settings").await.unwrap();
    let uids = vec![namespace.uid(), deployment.uid(), settings.uid()];
    let owned = [namespace.owner_references(), deployment.owner_references(), settings.owner_references()];
    (uids, owned.iter().map(|references| !references.is_empty()).collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_kept_when_the_cluster_version_goes_stays() {
    let (mut theatre, releases) = Theatre::open(&["1.0.0"]).await;
    theatre.run_daemon();
    let installed = theatre.completed(&releases[0]).await;
    let (before, owned) = objects(&theatre.client).await;
    assert_eq!(owned, [true; 3], "the release belongs to the ClusterVersion");

    let orphan = DeleteParams { propagation_policy: Some(PropagationPolicy::Orphan), ..DeleteParams::default() };
    theatre.versions().delete("version", &orphan).await.unwrap();
    let gone = |object: Option<&ClusterVersion>| object.is_none();
    theatre.until_object("the ClusterVersion to be gone", theatre.versions(), "version", PATIENCE, gone).await;
    // The collector has let go of everything before it lets the owner go, and nobody has given anything back since.
    let (after, owned) = objects(&theatre.client).await;
    assert_eq!((after, owned), (before.clone(), vec![false; 3]));

    // A new one takes over what is there; had anything been collected meanwhile, it would be another object now.
    let spec = ClusterVersionSpec { cluster_id: installed.spec.cluster_id, ..ClusterVersionSpec::default() };
    theatre.versions().create(&PostParams::default(), &ClusterVersion::new("version", spec)).await.unwrap();
    theatre.completed(&releases[0]).await;
    let (again, owned) = objects(&theatre.client).await;
    assert_eq!((again, owned), (before, vec![true; 3]));
    theatre.close().await;
}
