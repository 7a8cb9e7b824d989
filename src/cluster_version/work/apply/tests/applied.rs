//! Kinds without rules of their own are written by server-side apply.

use super::*;

fn widget(spec: Value) -> Arc<Manifest> {
    manifest(&object("example.com/v1", "Widget", json!({ "spec": spec })))
}

const WIDGET: &str = "/apis/example.com/v1/namespaces/b/widgets/a";

#[tokio::test]
async fn object_of_a_kind_without_rules_is_applied_on_the_state_that_is_known() {
    let server = Server::default();
    let applier = process(&server).await;
    let (one, two) = (widget(json!({"a": 1})), widget(json!({"a": 2})));
    assert_eq!(apply_one(&applier, &one).await, Applied::Created);
    assert_eq!(updated(&apply_one(&applier, &two).await), ["spec.a"]);
    assert_eq!(server.writes(), [format!("PATCH {WIDGET}"), format!("PATCH {WIDGET}")]);
    // Another client creates it meanwhile: the apply must not touch what has not been read.
    server.remove(WIDGET);
    let id = applier.resolve(&one).unwrap().1;
    until(&applier, "the deletion to be known", |a| !a.index().is_present(&id)).await;
    applier.index().hold_events(&id);
    server.put(WIDGET, object("example.com/v1", "Widget", json!({"spec": {"a": 7, "theirs": 1}})));
    assert!(updated(&apply_one(&applier, &two).await).contains(&"spec.a".to_owned()));
    let writes = server.writes();
    assert_eq!(writes, [format!("PATCH {WIDGET}"), format!("PATCH {WIDGET}")], "the first is refused");
    assert_eq!(server.get(WIDGET).unwrap()["spec"], json!({"a": 2, "theirs": 1}));
}

#[tokio::test]
async fn object_of_plain_updates_is_taken_over_only_if_it_has_dropped_fields() {
    let server = Server::default();
    let mut live = object("example.com/v1", "Widget", json!({"spec": {"a": 1, "old": 1}}));
    live["metadata"]["ownerReferences"] = json!([{"apiVersion": "config.openshift.io/v1", "kind": "ClusterVersion", "name": "version",
        "uid": "owner", "controller": true}]);
    let set = json!({"f:spec": {"f:a": {}, "f:old": {}}});
    live["metadata"]["managedFields"] = json!([{"manager": "cluster-version-operator", "operation": "Update",
        "apiVersion": "example.com/v1", "fieldsType": "FieldsV1", "fieldsV1": set}]);
    server.put(WIDGET, live);
    let applier = process(&server).await;
    assert_eq!(apply_one(&applier, &widget(json!({"a": 1, "old": 1}))).await, Applied::Unchanged);
    assert_eq!(server.writes(), Vec::<String>::new());
    assert_eq!(updated(&apply_one(&applier, &widget(json!({"a": 1}))).await), ["spec.old"]);
    assert_eq!(server.writes(), ["PATCH", "PUT", "PATCH"].map(|verb| format!("{verb} {WIDGET}")));
    assert_eq!(server.get(WIDGET).unwrap()["metadata"]["managedFields"][0]["operation"], "Apply");
}

#[tokio::test]
async fn manifest_that_cannot_be_applied_is_written_as_a_whole() {
    let server = Server::default();
    server.refuse_apply();
    let applier = process(&server).await;
    assert_eq!(apply_one(&applier, &widget(json!({"a": 1}))).await, Applied::Created);
    assert_eq!(updated(&apply_one(&applier, &widget(json!({"a": 2}))).await), ["spec.a"]);
    let collection = WIDGET.trim_end_matches("/a");
    let wanted =
        [format!("PATCH {WIDGET}"), format!("POST {collection}"), format!("PATCH {WIDGET}"), format!("PUT {WIDGET}")];
    assert_eq!(server.writes(), wanted);
    assert_eq!(server.get(WIDGET).unwrap()["spec"]["a"], 2);
}
