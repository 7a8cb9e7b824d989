use super::*;
use kube::api::ObjectMeta;
use watcher::Event::{Apply, Delete, Init, InitApply, InitDone};

fn object(name: &str, generation: Option<i64>, version: &str) -> Metadata {
    let metadata = ObjectMeta {
        name: Some(name.into()),
        generation,
        resource_version: Some(version.into()),
        ..ObjectMeta::default()
    };
    PartialObjectMeta { types: None, metadata, _phantom: std::marker::PhantomData }
}

#[test]
fn changes_are_told_after_the_first_list() {
    let mut known = Known::default();
    let mut on = |event| known.on(event).join(" ");
    for event in [Init, InitApply(object("a", Some(1), "1")), InitApply(object("b", None, "2")), InitDone] {
        assert_eq!(on(event), "", "what exists is no change");
    }
    assert_eq!(on(Apply(object("a", Some(1), "3"))), "", "only its status");
    assert_eq!(on(Apply(object("a", Some(2), "4"))), "a");
    assert_eq!(on(Apply(object("b", None, "5"))), "b");
    assert_eq!(on(Apply(object("c", Some(1), "6"))), "c");
    assert_eq!(on(Delete(object("c", Some(1), "6"))), "c");
    // After a gap the list shows what has changed.
    assert_eq!(on(Init), "");
    assert_eq!(on(InitApply(object("a", Some(2), "9"))), "");
    assert_eq!(on(InitApply(object("d", Some(1), "9"))), "");
    assert_eq!(on(InitDone), "b d");
}

/// The status of an object of these kinds may be written all the time.
#[tokio::test(start_paused = true)]
async fn events_that_change_nothing_do_not_put_off_what_is_asked_again() {
    let begun = Instant::now();
    let first = [Init, InitApply(object("a", Some(1), "1")), InitDone, Apply(object("a", Some(2), "2"))];
    let status = stream::unfold(3, |version| async move {
        tokio::time::sleep(Duration::from_millis(700)).await;
        Some((Apply(object("a", Some(2), &version.to_string())), version + 1))
    });
    let events = stream::iter(first).chain(status).map(|event| (DEFINITIONS, event)).boxed();
    let asked = std::cell::RefCell::new(Vec::new());
    let ask = |_: &[Option<String>]| asked.borrow_mut().push(begun.elapsed().as_secs());
    let _never_ends = tokio::time::timeout(Duration::from_secs(600), ask_after_changes(events, ask)).await;
    assert_eq!(*asked.borrow(), [1, 11, 71]);
}
