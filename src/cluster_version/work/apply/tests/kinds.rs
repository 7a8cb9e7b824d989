//! Kinds that are found, gone, or served in other versions.

use super::*;

#[tokio::test]
async fn object_read_in_another_version_of_its_kind_is_read_again() {
    let server = Server::default();
    let applier = process(&server).await;
    let widget = manifest(&object("example.com/v1", "Widget", json!({"spec": {"a": 1}})));
    assert_eq!(apply_one(&applier, &widget).await, Applied::Created);
    let (_, id) = applier.resolve(&widget).unwrap();
    let mut other = server.get("/apis/example.com/v1/namespaces/b/widgets/a").unwrap();
    other["apiVersion"] = json!("example.com/v1beta1");
    applier.index().record_read(&id, Some(other), None, None);
    assert_eq!(applier.apply(&widget).await.unwrap(), Applied::Unchanged);
    assert_eq!(server.writes(), ["PATCH /apis/example.com/v1/namespaces/b/widgets/a"]);
}

/// That the release defines another kind of the same group does not mean that it defines this one.
#[tokio::test]
async fn kind_defined_by_another_client_is_found() {
    let definitions =
        Kind::known("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", false);
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "others.example.org", "annotations": {"release.openshift.io/create-only": "true"}},
        "spec": {"group": "example.org", "scope": "Namespaced", "versions": [],
            "names": {"kind": "Other", "plural": "others"}}});
    let gadget = object("example.org/v1", "Gadget", json!({"spec": {"a": 1}}));
    let server = Server::default();
    let applier = process_with(&server, vec![definitions]).await;
    let manifests = vec![manifest(&definition), manifest(&gadget)];
    let mut rollout = start(plan(manifests, Mode::Reconcile), &applier);
    rollout.admit();
    server.serve("example.org/v1", "Gadget", "gadgets");
    let end = async {
        while !rollout.view().completed {
            rollout.moved().await;
        }
    };
    assert!(tokio::time::timeout(LIMIT, end).await.is_ok(), "discovery is not asked again");
    assert!(server.get("/apis/example.org/v1/namespaces/b/gadgets/a").is_some());
    rollout.cancel().await;
}

/// A server that lags behind, or whose aggregated server has gone.
#[tokio::test]
async fn known_kind_that_the_server_does_not_find_is_tried_after_a_pause_and_discovery() {
    let server = Server::default();
    server.stop_serving("example.com/v1/widgets");
    let applier = process(&server).await;
    let widget = manifest(&object("example.com/v1", "Widget", json!({"spec": {"a": 1}})));
    let mut rollout = start(plan(vec![widget], Mode::Update), &applier);
    rollout.admit();
    let reported = async {
        while rollout.view().failure().is_none() {
            rollout.moved().await;
        }
    };
    assert!(tokio::time::timeout(LIMIT, reported).await.is_ok(), "nothing is reported");
    let failure = rollout.view().failure().unwrap();
    assert!(failure.message.contains("example.com/v1/widgets"), "the server's answer is shown: {failure:?}");
    let requests = server.requests();
    let count = |matches: fn(&str) -> bool| requests.iter().filter(|r| matches(r)).count();
    let write = |r: &str| !r.starts_with("WATCH") && !r.starts_with("GET") && r.contains("/namespaces/b/widgets");
    assert_eq!(count(write), 3, "{requests:?}");
    assert_eq!(count(|r| r == "GET /apis"), 2, "{requests:?}");
    rollout.cancel().await;
}

#[tokio::test]
async fn object_to_be_deleted_is_looked_for_where_discovery_does_not_name_its_kind() {
    const GADGET: &str = "/apis/example.org/v1/namespaces/b/gadgets/a";
    let gadget = to_delete(object("example.org/v1", "Gadget", json!({"spec": {}})));
    let server = Server::default();
    let applier = process(&server).await;
    assert_eq!(apply_one(&applier, &gadget).await, Applied::Unchanged, "the server does not serve it");
    server.put(GADGET, object("example.org/v1", "Gadget", json!({"spec": {}})));
    server.set_away("example.org/v1");
    let error = applier.apply(&gadget).await.unwrap_err();
    assert!(matches!(&error, ApplyError::Api(error) if error.to_string().contains("unable to handle")), "{error:?}");
    server.serve("example.org/v1", "Gadget", "gadgets");
    assert_eq!(apply_one(&applier, &gadget).await, Applied::Deleted);
    assert_eq!(server.get(GADGET), None);
    // In another version it is the same object.
    server.put(GADGET, object("example.org/v1", "Gadget", json!({"spec": {}})));
    let old = to_delete(object("example.org/v1beta1", "Gadget", json!({"spec": {}})));
    let applier = process_with(&server, vec![kind(("example.org/v1", "Gadget", "gadgets", true))]).await;
    assert_eq!(apply_one(&applier, &old).await, Applied::Deleted);
}
