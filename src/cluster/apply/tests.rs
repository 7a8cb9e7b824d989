//! Applies objects as a process does that has a name of its own, and whose objects have owners and writers of their own.

pub(crate) mod server;

use super::*;
use crate::merge::inject::ClusterConfiguration;
use crate::merge::{Manager, Owner};
use crate::object::manifest::Origin;
use crate::release::load;
use serde_json::json;
use server::Server;
use std::collections::HashMap;
use std::time::Duration;

const ACCOUNT: &str = "system:serviceaccount:b:shop";
const MANAGER: Manager = Manager { name: "installer", of_others: &[] };
const BUNDLE: Owner = Owner {
    api_version: "example.com/v1",
    kind: "Bundle",
    plural: "bundles",
    namespaced: true,
    name: String::new(),
    uid: String::new(),
    shares: false,
};

/// Much longer than anything here takes.
const LIMIT: Duration = Duration::from_secs(60);

fn path(name: &str) -> String {
    format!("/api/v1/namespaces/b/configmaps/{name}")
}

fn config(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "b"}, "data": {"key": "1"}})
}

/// A ConfigMap of the bundle `one`.
fn desired(name: &str) -> (ObjectId, Desired) {
    let bytes = serde_json::to_vec(&config(name)).unwrap();
    let manifest = load::manifests_of(Origin::Release, "bundle.json", &bytes).unwrap().remove(0);
    let desired = Desired {
        owner: Some(Owner { name: "one".into(), uid: "one".into(), ..BUNDLE }),
        manager: MANAGER,
        configuration: ClusterConfiguration::default(),
        may_be_stopped: false,
        schemas: Arc::default(),
        manifest,
    };
    (desired.manifest.id.clone(), desired)
}

/// This process itself only reads; the second writes with the rights of the account.
async fn installer(server: &Server, all: [(ObjectId, Desired); 2]) -> (Cluster, Objects) {
    let _installed = rustls::crypto::aws_lc_rs::default_provider().install_default();
    server.put("/apis/example.com/v1/namespaces/b/bundles/one", json!({"metadata": {"name": "one", "uid": "one"}}));
    let clients = Arc::new(Clients::new(kube::Config::new(server.start().await)).unwrap());
    let account = Objects::new(clients.acting_as(ACCOUNT).unwrap(), MANAGER.name, Arc::new(|| true));
    let (reader, kinds) = (Objects::reader(clients.call.clone()), Arc::new(Kinds::default()));
    kinds.add([Kind::config_map()]);
    let all = HashMap::from(all);
    let ids: Vec<ObjectId> = all.keys().cloned().collect();
    let wanted: Wanted = Arc::new(move |id, _| all.get(id).cloned());
    let cluster = Cluster::new(clients, reader, kinds, wanted, None, &CancellationToken::new());
    ids.iter().for_each(|id| cluster.follow(&Kind::config_map(), id));
    cluster.feeds.wait_until_listed(&Kind::config_map()).await.unwrap();
    (cluster, account)
}

#[tokio::test]
async fn other_process_applies_under_its_own_name_owner_and_account() {
    let (server, kind) = (Server::default(), Kind::config_map());
    let ((id, ours), (their_id, theirs)) = (desired("a"), desired("theirs"));
    let mut of_another = config("theirs");
    of_another["data"]["key"] = json!("of another");
    of_another["metadata"]["ownerReferences"] = json!([{"apiVersion": "example.com/v1", "kind": "Bundle",
        "name": "two", "uid": "two", "controller": true}]);
    server.put(&path("theirs"), of_another);
    let (cluster, account) = installer(&server, [(id.clone(), ours.clone()), (their_id.clone(), theirs.clone())]).await;

    assert_eq!(cluster.apply(&account, &kind, &id, &ours).await.unwrap(), Applied::Created);
    let live = server.get(&path("a")).unwrap();
    let owner =
        json!({"apiVersion": "example.com/v1", "kind": "Bundle", "name": "one", "uid": "one", "controller": true});
    assert_eq!((&live["metadata"]["ownerReferences"], &live["data"]), (&json!([owner]), &json!({"key": "1"})));
    assert!(cluster.is_as_desired(&id, &ours));
    let _counted = server.requests();
    assert_eq!(cluster.apply(&account, &kind, &id, &ours).await.unwrap(), Applied::Unchanged);
    assert_eq!(server.requests(), Vec::<String>::new());

    server.edit(&path("a"), |live| live["data"] = json!({"key": "2", "theirs": "stays"}));
    let noticed = async {
        while cluster.is_as_desired(&id, &ours) {
            cluster.index.changes().await;
        }
    };
    tokio::time::timeout(LIMIT, noticed).await.expect("the change is not noticed");
    let back = Applied::Updated { fields: vec!["data.key".into()], by: None };
    assert_eq!(cluster.apply(&account, &kind, &id, &ours).await.unwrap(), back);
    assert_eq!(server.get(&path("a")).unwrap()["data"], json!({"key": "1", "theirs": "stays"}));
    assert_eq!(server.requests(), [format!("PUT {}", path("a"))], "the watch has sent the object");
    assert_eq!(server.writers(), [format!("installer as {ACCOUNT}"), format!("installer as {ACCOUNT}")]);

    let before = server.get(&path("theirs"));
    for _ in 0..2 {
        let refused = cluster.apply(&account, &kind, &their_id, &theirs).await;
        assert!(matches!(&refused, Err(ApplyError::OtherController(by)) if by == "Bundle two"), "{refused:?}");
    }
    assert_eq!((server.requests(), server.get(&path("theirs"))), (Vec::<String>::new(), before));
}
