use super::*;
use crate::cluster::Cause;
use crate::olm::operator::copies::{Course, Rules, Source, Targets};
use futures::FutureExt;
use kube::client::Body;
use std::collections::BTreeSet;

/// An operator of the namespace `shop` that works for these.
fn operator(name: &str, targets: Targets) -> (Key, Source) {
    let source = Source {
        namespace: "shop".to_owned(),
        name: name.to_owned(),
        uid: format!("uid-{name}"),
        version: "1".to_owned(),
        course: Course::Copied,
        targets,
        is_passing: false,
        lasts_from: None,
    };
    (("shop".to_owned(), name.to_owned()), source)
}

/// Of two operators: one works for `mall` beside its own namespace, the other for all of them.
fn keeper() -> Keeper {
    let (mock, _requests) = tower_test::mock::pair::<::http::Request<Body>, ::http::Response<Body>>();
    let mall = Targets::Some(BTreeSet::from(["mall".to_owned()]));
    let sources = BTreeMap::from([operator("some", mall), operator("all", Targets::All)]);
    let plan = Plan {
        originals: sources.keys().cloned().collect(),
        sources,
        namespaces: ["mall", "shop"].map(str::to_owned).into(),
        rules: Rules::default(),
    };
    let shared =
        Shared { book: Mutex::default(), woken: Notify::new(), changed: Arc::default(), told: Mutex::new(None) };
    shared.book().set(plan);
    let objects = Objects::reader(kube::Client::new(mock, "default"));
    Keeper {
        shared: Arc::new(shared),
        written: objects.answered_by_metadata(),
        objects,
        leading: watch::channel(false).1,
        jobs: JoinSet::new(),
        failed: BTreeMap::new(),
    }
}

/// In the namespace `mall`.
fn key(name: &str) -> Key {
    ("mall".to_owned(), name.to_owned())
}

fn copy(name: &str, uid: &str, version: u64) -> Metadata {
    let metadata = json!({"namespace": "mall", "name": name, "uid": uid, "resourceVersion": version.to_string(),
        "labels": {label::COPIED_FROM: "shop"}});
    serde_json::from_value(json!({"metadata": metadata})).unwrap()
}

/// Whether the controller of operators has been woken since it was asked last.
fn is_woken(keeper: &Keeper) -> bool {
    keeper.shared.changed.notified().now_or_never().is_some()
}

fn wakes(keeper: &Keeper, event: Event<Metadata>) -> bool {
    keeper.on_event(Ok(event));
    is_woken(keeper)
}

#[tokio::test]
async fn copy_that_an_operator_may_wait_for_wakes_once_and_no_other_does() {
    let keeper = keeper();
    assert!(!wakes(&keeper, Event::Init));
    assert!(wakes(&keeper, Event::InitApply(copy("some", "u1", 1))));
    assert!(!wakes(&keeper, Event::InitApply(copy("all", "u2", 2))), "it needs none of its copies");
    assert!(!wakes(&keeper, Event::InitDone));
    assert!(!wakes(&keeper, Event::Apply(copy("some", "u1", 3))), "it was there before");
    assert!(wakes(&keeper, Event::Apply(copy("some", "u4", 4))), "what the former one owned is gone");
    assert!(!wakes(&keeper, Event::Delete(copy("some", "u4", 5))));
    assert!(wakes(&keeper, Event::Apply(copy("some", "u6", 6))));
    assert!(!wakes(&keeper, Event::Apply(copy("all", "u7", 7))));
    // Its operator may come to be known later.
    assert!(wakes(&keeper, Event::Apply(copy("other", "u8", 8))));
    keeper.on_event(Err(ApiError { attempt: "watch".to_owned(), cause: Cause::Timeout }));
    assert!(!is_woken(&keeper));
    let mall = ["mall".to_owned()];
    let uid = |name: &str| keeper.shared.book().of(&("shop".to_owned(), name.to_owned()), mall.iter()).uids;
    let known = |uid: &str| BTreeMap::from([("mall".to_owned(), uid.to_owned())]);
    assert_eq!([uid("some"), uid("all")], [known("u6"), known("u7")]);
}

#[tokio::test]
async fn copy_that_was_written_here_wakes_before_the_watch_tells_of_it() {
    let mut keeper = keeper();
    for (name, is_awaited) in [("some", true), ("all", false)] {
        let live = Live { uid: name.to_owned(), version: 3, from: "shop".to_owned(), hash: None };
        keeper.on_end(key(name), false, Ok(Done::Written(live.clone())));
        assert_eq!(is_woken(&keeper), is_awaited, "{name}");
        assert!(!wakes(&keeper, Event::Apply(copy(name, name, 3))), "{name}");
        keeper.on_end(key(name), false, Ok(Done::Written(Live { version: 4, ..live })));
        assert!(!is_woken(&keeper), "{name}");
    }
}
