use super::*;
use crate::cluster::watcher::tests::{
    answer, asked, end_of_initial_events, event, kind, list, object, refused, server, watch,
};
use futures::FutureExt;
use serde_json::json;
use std::time::Duration;

async fn next(states: &mut BoxStream<'static, Read<Value>>) -> Read<Value> {
    tokio::time::timeout(Duration::from_secs(60), states.next()).await.expect("a state comes").expect("no end")
}

fn known(kinds: impl IntoIterator<Item = Kind>) -> Arc<Kinds> {
    let known = Kinds::default();
    known.add(kinds);
    Arc::new(known)
}

#[tokio::test(start_paused = true)]
async fn deletion_in_a_gap_is_told() {
    let answers = vec![
        watch(&[event("ADDED", "a"), end_of_initial_events()], false),
        watch(&[end_of_initial_events(), event("ADDED", "b"), event("DELETED", "b")], true),
    ];
    let (client, _) = server(answers);
    let mut states = states(client, known([kind()]), kind(), ("", "cluster"), WatchBackoff::default());
    assert_eq!(next(&mut states).await, Read::Value(object("a")));
    assert_eq!(next(&mut states).await, Read::Absent);
    assert_eq!(next(&mut states).await, Read::Value(object("b")));
    assert_eq!(next(&mut states).await, Read::Absent);
}

#[tokio::test(start_paused = true)]
async fn failure_is_told_before_the_object_is_read() {
    let (client, _) = server(vec![refused(500), list(&["a"]), watch(&[], true)]);
    let mut states = states(client, known([kind()]), kind(), ("", "cluster"), WatchBackoff::default());
    assert_eq!(next(&mut states).await, Read::Failed("cannot watch gates with the name cluster: no".to_owned()));
    assert_eq!(next(&mut states).await, Read::Value(object("a")));
}

#[tokio::test(start_paused = true)]
async fn object_of_a_kind_that_is_not_served_is_absent_and_not_asked_for() {
    let (client, requests) = server(vec![watch(&[event("ADDED", "a"), end_of_initial_events()], true)]);
    let kinds = known([Kind::config_map()]);
    let mut states = states(client, kinds.clone(), kind(), ("", "cluster"), WatchBackoff::default());
    assert_eq!(next(&mut states).await, Read::Absent);
    assert!(tokio::time::timeout(Duration::from_secs(3600), states.next()).await.is_err(), "nothing else is told");
    assert_eq!(asked(&requests), Vec::<String>::new());
    kinds.add([kind()]);
    assert_eq!(next(&mut states).await, Read::Value(object("a")));
}

/// What the server serves may not be known yet, and may change.
#[tokio::test(start_paused = true)]
async fn object_is_absent_when_the_server_does_not_know_its_kind() {
    let missing = || answer(404, &json!({"kind": "Status", "code": 404, "reason": "NotFound", "message": "no"}));
    let present = watch(&[event("ADDED", "a"), end_of_initial_events()], false);
    let (client, requests) = server(vec![missing(), present, missing()]);
    let kinds = known([]);
    let mut states = states(client, kinds.clone(), kind(), ("", "cluster"), WatchBackoff::default());
    assert_eq!(next(&mut states).await, Read::Absent);
    kinds.add([Kind::config_map()]);
    assert!(tokio::time::timeout(Duration::from_secs(3600), states.next()).await.is_err(), "it waits for the kind");
    kinds.add([kind()]);
    assert_eq!(next(&mut states).await, Read::Value(object("a")));
    assert_eq!(next(&mut states).await, Read::Absent);
    assert_eq!(asked(&requests), ["initial", "initial", "initial"]);
    assert!(states.next().now_or_never().is_none());
}
