use super::*;
use futures::stream;
use serde_json::json;

#[tokio::test]
async fn error_counts_only_until_the_config_map_was_read() {
    let failed = || Read::Failed("no".to_owned());
    let map = || Read::Value(json!({"data": {"ack": "true", "nonsense": 7}}));
    let value = Read::Value(BTreeMap::from([("ack".to_owned(), "true".to_owned())]));
    for (states, expected) in [
        (vec![], None),
        (vec![failed()], Some(Read::Failed("no".to_owned()))),
        (vec![failed(), map()], Some(value.clone())),
        (vec![map(), failed()], Some(value)),
        (vec![map(), Read::Absent, failed()], Some(Read::Absent)),
        (vec![Read::Value(json!({}))], Some(Read::Value(BTreeMap::new()))),
    ] {
        let (tell, told) = watch::channel(None);
        follow_one(stream::iter(states.clone()).boxed(), tell).await;
        assert_eq!(*told.borrow(), expected, "{states:?}");
    }
}

fn map(name: &str, version: &str) -> Metadata {
    let metadata = json!({"name": name, "namespace": MANAGED_NAMESPACE, "resourceVersion": version});
    serde_json::from_value(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})).unwrap()
}

/// The watch begins after the attempt that has read the signatures.
#[tokio::test]
async fn only_signatures_that_the_attempt_has_not_read_are_told_of() {
    let init = |maps: &[(&str, &str)]| {
        let maps: Vec<_> = maps.iter().map(|(name, version)| Event::InitApply(map(name, version))).collect();
        [Event::Init].into_iter().chain(maps).chain([Event::InitDone]).collect::<Vec<_>>()
    };
    let apply = |version| vec![Event::Apply(map("new", version))];
    for (as_of, events, expected, why) in [
        (Some(7), init(&[]), None, "there is none"),
        (Some(7), init(&[("a", "3"), ("b", "7")]), None, "all of them were read"),
        (Some(7), init(&[("a", "3"), ("b", "8")]), Some(Some(8)), "one was added before the watch began"),
        (Some(7), [init(&[("a", "3")]), apply("9")].concat(), Some(Some(9)), "one is added"),
        (None, init(&[("a", "3")]), Some(Some(3)), "they could not be read"),
        (Some(7), init(&[("a", "x")]), Some(Some(7)), "which is newer cannot be told"),
    ] {
        let (tell, mut told) = watch::channel(None);
        follow_signatures(stream::iter(events.into_iter().map(Ok)), Unsigned { as_of }, &tell).await;
        let seen = told.has_changed().unwrap().then(|| *told.borrow_and_update());
        assert_eq!(seen, expected, "{why}");
        drop(tell);
    }
}

#[tokio::test]
async fn a_list_after_a_gap_shows_again_only_what_is_new() {
    let (tell, mut told) = watch::channel(None);
    let list = |version: &str| [Event::Init, Event::InitApply(map("a", version)), Event::InitDone];
    for (version, expected) in [("8", true), ("8", false), ("9", true)] {
        let as_of = told.borrow_and_update().or(Some(7));
        follow_signatures(stream::iter(list(version).into_iter().map(Ok)), Unsigned { as_of }, &tell).await;
        assert_eq!(told.has_changed().unwrap(), expected, "{version}");
    }
}
