//! Objects that are replaced, and those that are being deleted.

use super::*;

fn binding(role: &str) -> Value {
    let reference = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": role});
    object("rbac.authorization.k8s.io/v1", "RoleBinding", json!({"roleRef": reference, "subjects": []}))
}

const BINDING: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/b/rolebindings/a";

#[tokio::test]
async fn object_with_an_immutable_field_is_replaced() {
    let server = Server::default();
    let manifest = manifest(&binding("new"));
    let mut old = binding("old");
    old["metadata"]["labels"] = json!({"foreign": "label"});
    server.put(BINDING, old.clone());
    let applier = process(&server).await;
    assert!(updated(&apply_one(&applier, &manifest).await).contains(&"roleRef.name".to_owned()));
    assert_eq!(server.writes(), [format!("DELETE {BINDING}"), format!("POST {}", BINDING.trim_end_matches("/a"))]);
    let live = server.get(BINDING).unwrap();
    assert_eq!((&live["roleRef"]["name"], &live["metadata"]["labels"]["foreign"]), (&json!("new"), &json!("label")));
    assert_eq!(apply_one(&applier, &manifest).await, Applied::Unchanged);

    // Killed after the DELETE: the next process finds no object and creates it.
    server.remove(BINDING);
    assert_eq!(apply_one(&process(&server).await, &manifest).await, Applied::Created);
    assert_eq!(server.writes().len(), 1);
}

#[tokio::test]
async fn binding_that_gives_this_process_its_rights_is_not_taken_away() {
    let server = Server::default();
    let account = |name: &str| json!({"kind": "ServiceAccount", "namespace": "b", "name": name});
    let of = |kind: &str, name: &str| json!({"kind": kind, "apiGroup": "rbac.authorization.k8s.io", "name": name});
    for (subject, ours) in [
        (account("daemon"), true),
        (of("User", "system:serviceaccount:b:daemon"), true),
        (of("Group", "system:serviceaccounts"), true),
        (account("other"), false),
        (of("Group", "system:masters"), false),
    ] {
        let with = |role: &str| {
            let mut binding = binding(role);
            binding["subjects"] = json!([account("another"), subject]);
            binding
        };
        server.put(BINDING, with("old"));
        let applier = process(&server).await;
        let outcome = applier.apply(&manifest(&with("new"))).await;
        let role = server.get(BINDING).unwrap()["roleRef"]["name"].clone();
        assert_eq!(role, if ours { "old" } else { "new" }, "{subject}: {outcome:?}");
        if ours {
            assert!(matches!(outcome, Err(ApplyError::OwnRights(_))), "{outcome:?}");
        }
    }
}

#[tokio::test]
async fn object_that_another_client_puts_in_the_place_of_a_replaced_one_is_replaced_too() {
    let server = Server::default();
    server.put(BINDING, binding("old"));
    server.recreate(binding("theirs"));
    let applier = process(&server).await;
    let applied = apply_one(&applier, &manifest(&binding("new"))).await;
    assert!(updated(&applied).contains(&"roleRef.name".to_owned()), "{applied:?}");
    assert_eq!(server.get(BINDING).unwrap()["roleRef"]["name"], "new");
    let collection = BINDING.trim_end_matches("/a");
    let once = [format!("DELETE {BINDING}"), format!("POST {collection}")];
    assert_eq!(server.writes(), [once.clone(), once].concat());
}

#[tokio::test]
async fn terminating_object_is_waited_for_without_requests() {
    let server = Server::default();
    let manifest = manifest(&binding("new"));
    let mut old = binding("old");
    old["metadata"]["finalizers"] = json!(["somebody/else"]);
    server.put(BINDING, old);
    let applier = process(&server).await;
    let id = applier.resolve(&manifest).unwrap().1;
    let error = apply(&applier, &[&manifest]).await.remove(0).unwrap_err();
    assert!(matches!(&error, ApplyError::Terminating(by) if by == &["somebody/else"]), "{error:?}");
    assert_eq!(server.writes(), [format!("DELETE {BINDING}")]);
    until(&applier, "the event of the deletion", |a| {
        matches!(a.index().lookup(&id, 0), CachedState::Differs(live) if live["metadata"]["deletionTimestamp"].is_string())
    })
    .await;
    for _ in 0..3 {
        let again = applier.apply(&manifest).await;
        assert!(matches!(again, Err(ApplyError::Terminating(_))), "{again:?}");
    }
    assert_eq!(server.writes(), Vec::<String>::new());
    server.edit(BINDING, |live| live["metadata"]["finalizers"] = json!([]));
    until(&applier, "the object to be deleted", |a| !a.index().is_present(&id)).await;
    assert_eq!(apply_one(&applier, &manifest).await, Applied::Created);
    assert_eq!(server.get(BINDING).unwrap()["roleRef"]["name"], "new");
}
