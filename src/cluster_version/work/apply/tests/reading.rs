//! How kinds are read from servers that cannot, or will not, do all of it.

use super::*;
use crate::cluster::index::ChangeKind;

/// The first change of a tracked object that is told.
async fn change(applier: &Applier) -> (ObjectId, ChangeKind) {
    let changes = tokio::time::timeout(LIMIT, applier.index().changes()).await;
    changes.expect("no change is told").into_iter().next().unwrap()
}

/// With and without initial events, and for a kind with so many objects that ours are read by name.
#[tokio::test]
async fn deletion_in_a_gap_of_the_watch_is_told() {
    for refusal in [None, Some(422), Some(500)] {
        for others in [0, 1300] {
            let server = Server::default();
            if let Some(code) = refusal {
                server.refuse_initial_events(code);
            }
            for number in 0..others {
                let name = format!("other-{number}");
                let other =
                    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "a"}});
                server.put(&format!("/api/v1/namespaces/a/configmaps/{name}"), other);
            }
            let (applier, manifest) = (process(&server).await, manifest(&config("1")));
            assert_eq!(apply_one(&applier, &manifest).await, Applied::Created);
            let id = applier.resolve(&manifest).unwrap().1;
            let watched = |a: &Applier| a.is_as_desired(&id, &manifest);
            until(&applier, "the object to be known", watched).await;
            server.lose(CONFIG);
            assert_eq!(change(&applier).await, (id.clone(), ChangeKind::Content), "{refusal:?}, {others} others");
            assert_eq!(apply_one(&applier, &manifest).await, Applied::Created, "{refusal:?}, {others} others");
        }
    }
}

/// It is neither allowed to list nor to watch them, but to read and to write each.
#[tokio::test]
async fn kind_that_cannot_be_listed_is_applied_by_name() {
    for (code, reason) in [(403, "Forbidden"), (500, "InternalError")] {
        let server = Server::default();
        server.close("v1/configmaps", code, reason);
        server.put(CONFIG, config("theirs"));
        let (applier, manifest) = (process(&server).await, manifest(&config("1")));
        updated(&apply_one(&applier, &manifest).await);
        assert_eq!(apply_one(&applier, &manifest).await, Applied::Unchanged);
        // What others do is noticed when the feed tries again.
        server.edit(CONFIG, |live| live["data"]["key"] = json!("2"));
        let id = applier.resolve(&manifest).unwrap().1;
        assert_eq!(change(&applier).await, (id, ChangeKind::Content));
        updated(&apply_one(&applier, &manifest).await);
        // Once it is allowed, there is a watch again.
        server.open("v1/configmaps");
        let kind = applier.resolve(&manifest).unwrap().0;
        let mut state = applier.cluster.feeds.start(&kind);
        let watched = state.wait_for(|state| state.error.is_none());
        assert!(tokio::time::timeout(LIMIT, watched).await.is_ok_and(|state| state.is_ok()));
    }
}

#[tokio::test]
async fn error_of_a_kind_that_cannot_be_read_is_that_of_the_server() {
    let server = Server::default();
    // Nothing is read before the limit, since the server asks to wait.
    server.close("v1/configmaps", 429, "TooManyRequests");
    let (applier, manifest) = (process(&server).await, manifest(&config("1")));
    let error = failure(&apply(&applier, &[&manifest]).await.remove(0).unwrap_err(), &manifest).error;
    assert!(error.message.contains("cannot watch configmaps: TooManyRequests"), "{error}");
    assert_eq!(error.reason.as_str(), "UpdatePayloadClusterOverloaded");
}

fn definitions() -> Kind {
    Kind::known("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", false)
}

/// Without a request until its definition changes.
#[tokio::test]
async fn kind_that_is_not_served_any_more_is_waited_for() {
    let server = Server::default();
    let applier = process_with(&server, vec![definitions()]).await;
    let widget = manifest(&object("example.com/v1", "Widget", json!({"spec": {"a": 1}})));
    let definition = manifest(&json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "gadgets.example.com"}, "spec": {"group": "example.com"}}));
    apply(&applier, &[&definition, &widget]).await;
    let (kind, id) = applier.resolve(&widget).unwrap();
    server.close("example.com/v1/widgets", 404, "NotFound");
    until(&applier, "the kind to be missed", |a| !a.index().is_present(&id)).await;
    server.open("example.com/v1/widgets");
    let _before = server.requests();
    let state = applier.cluster.feeds.start(&kind);
    assert!(state.borrow().error.is_some(), "nothing has been asked since");
    let mut crd = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"});
    crd["metadata"] = json!({"name": "widgets.example.com"});
    server.put("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com", crd);
    let found = |a: &Applier| a.index().is_present(&id);
    until(&applier, "the kind to be read again", found).await;
    assert_eq!(server.requests(), ["WATCH /apis/example.com/v1/widgets"]);
}

#[tokio::test]
async fn version_that_is_not_served_any_more_says_nothing_about_the_others() {
    let server = Server::default();
    let old = Kind::known("example.com", "v1alpha1", "Widget", "widgets", true);
    server.close("example.com/v1alpha1/widgets", 404, "NotFound");
    let applier = process_with(&server, vec![old.clone()]).await;
    let widget = manifest(&object("example.com/v1", "Widget", json!({"spec": {"a": 1}})));
    apply(&applier, &[&widget]).await;
    let (_, id) = applier.resolve(&widget).unwrap();
    let mut state = applier.cluster.feeds.start(&old);
    let ready = tokio::time::timeout(LIMIT, state.wait_for(|state| state.ready)).await;
    assert!(ready.unwrap().unwrap().error.as_ref().is_some_and(|error| error.is_not_found()));
    assert!(applier.kinds().get("example.com/v1alpha1", "Widget").is_none(), "it is not looked for there any more");
    assert!(applier.index().is_present(&id));
}

/// With and without initial events: also those that the release does not contain, and however many there are of them.
#[tokio::test]
async fn every_cluster_operator_of_the_cluster_is_known() {
    let path = |name: &str| format!("/apis/config.openshift.io/v1/clusteroperators/{name}");
    let put = |server: &Server, name: &str| {
        let operator = json!({"apiVersion": "config.openshift.io/v1", "kind": "ClusterOperator", "metadata": {"name": name}, "status": {"versions": [{"name": "operator", "version": "1.0.0"}]}});
        server.put(&path(name), operator);
    };
    for refusal in [None, Some(422)] {
        let server = Server::default();
        if let Some(code) = refusal {
            server.refuse_initial_events(code);
        }
        (0..1100).for_each(|number| put(&server, &format!("other-{number:04}")));
        // The release has no ClusterOperator at all.
        let (applier, manifest) = (process(&server).await, manifest(&config("1")));
        let mut following = std::pin::pin!(applier.follow_operators());
        assert!(futures::poll!(following.as_mut()).is_pending(), "no object of a release is tracked yet");
        assert_eq!(apply_one(&applier, &manifest).await, Applied::Created);
        following.await;
        until(&applier, "all operators", |a| a.operators().current().len() == 1100).await;
        assert!(applier.operators().current().values().all(|report| report.version("operator") == Some("1.0.0")));
        // Not by metadata alone, as a kind would be read with so many objects that are not of the release.
        let watches = std::cell::Cell::new(0);
        let count = || {
            let of_operators = |r: &&String| r.starts_with("WATCH") && r.contains("clusteroperators");
            watches.set(watches.get() + server.requests().iter().filter(of_operators).count());
            watches.get()
        };
        let expected = if refusal.is_none() { 1 } else { 2 };
        // The watch after a list begins when the objects of the list are known already.
        until(&applier, "its watches", |_| count() >= expected).await;
        assert_eq!(watches.get(), expected);
        server.remove(&path("other-0003"));
        until(&applier, "a deletion", |a| a.operators().current().len() == 1099).await;
        put(&server, "late");
        until(&applier, "a new operator", |a| a.operators().current().contains_key("late")).await;
        server.lose(&path("late"));
        until(&applier, "the deletion in a gap", |a| !a.operators().current().contains_key("late")).await;
    }
}
