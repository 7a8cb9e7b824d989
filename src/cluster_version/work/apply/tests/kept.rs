//! Fields that the server keeps as they are.

use super::*;

#[tokio::test]
async fn field_that_the_server_keeps_is_written_once() {
    let server = Server::default();
    let (one, two) = (manifest(&config("1")), manifest(&config("2")));
    server.put(CONFIG, config("theirs"));
    server.set_webhook(Box::new(|object| {
        if object["kind"] == "ConfigMap" {
            object["data"]["key"] = json!("as the server likes it");
        }
    }));
    let applier = process(&server).await;
    let id = applier.resolve(&one).unwrap().1;
    assert!(updated(&apply_one(&applier, &one).await).contains(&"data.key".to_owned()));
    let _counted = server.requests();
    // Read again, by a watch or by name, it is still as the server keeps it.
    let live = server.get(CONFIG).unwrap();
    assert!(applier.cluster.feeds.compare(&id, &live).is_some());
    applier.index().invalidate(&id);
    assert_eq!(applier.apply(&one).await.unwrap(), Applied::Unchanged);
    assert_eq!(server.writes(), Vec::<String>::new());
    // A new rollout tries again, once, and so does one after a change by another client, or another release.
    for writes in [1, 0] {
        if writes > 0 {
            applier.set_desired(std::slice::from_ref(&one));
        }
        assert_eq!(applier.apply(&one).await.unwrap(), Applied::Unchanged);
        assert_eq!(server.writes().len(), writes);
    }
    assert_eq!(applier.kept().first().map(|kept| kept.fields.as_slice()), Some(["data.key".to_owned()].as_slice()));
    server.edit(CONFIG, |live| live["metadata"]["labels"] = json!({"a": "b"}));
    applier.index().invalidate(&id);
    updated(&apply_one(&applier, &one).await);
    assert_eq!(server.writes().len(), 1);
    updated(&apply_one(&applier, &two).await);
    assert_eq!(server.writes().len(), 1);
}

/// Not before somebody else has brought the field to the desired state.
#[tokio::test]
async fn field_that_the_server_kept_is_forgotten_when_it_is_as_desired() {
    let server = Server::default();
    let one = manifest(&config("1"));
    server.put(CONFIG, config("theirs"));
    server.set_webhook(Box::new(|object| {
        if object["kind"] == "ConfigMap" {
            object["data"]["key"] = json!("as the server likes it");
        }
    }));
    let applier = process(&server).await;
    apply_one(&applier, &one).await;
    assert_eq!(applier.kept().len(), 1);
    server.set_webhook(Box::new(|_| ()));
    server.edit(CONFIG, |live| live["data"]["key"] = json!("1"));
    applier.index().invalidate(&applier.resolve(&one).unwrap().1);
    assert_eq!(applier.apply(&one).await.unwrap(), Applied::Unchanged);
    assert!(applier.kept().is_empty());
}

/// The webhook is changed, and the configuration of webhooks says so.
#[tokio::test]
async fn field_that_the_server_kept_is_written_when_webhooks_change() {
    let webhooks = Kind::known(
        "admissionregistration.k8s.io",
        "v1",
        "MutatingWebhookConfiguration",
        "mutatingwebhookconfigurations",
        false,
    );
    let path = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/a";
    let server = Server::default();
    server.put(CONFIG, config("theirs"));
    server.put(
        path,
        json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": "a"}, "spec": 1}),
    );
    server.set_webhook(Box::new(|object| object["data"]["key"] = json!("as the server likes it")));
    let applier = process_with(&server, vec![webhooks]).await;
    assert!(applier.kept().is_empty() && !server.requests().iter().any(|r| r.contains("webhook")), "not before");
    let mut rollout = completed(&applier, &manifest(&config("1")), Mode::Reconcile).await;
    assert_eq!(rollout.hindrances().1[0].fields, ["data.key"]);
    let watched = |requests: Vec<String>| requests.iter().any(|r| r.starts_with("WATCH") && r.contains("webhook"));
    until(&applier, "webhooks to be watched", |_| watched(server.requests())).await;
    server.set_webhook(Box::new(|_| ()));
    server.edit(path, |live| live["spec"] = json!(2));
    let written = async {
        while !rollout.hindrances().1.is_empty() {
            rollout.moved().await;
        }
    };
    assert!(tokio::time::timeout(LIMIT, written).await.is_ok(), "never written again");
    assert_eq!(server.get(CONFIG).unwrap()["data"]["key"], "1");
    rollout.cancel().await;
}
