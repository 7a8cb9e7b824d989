//! What the index makes of events, readings and answers, in whichever order they come.

use super::*;
use serde_json::json;

fn id() -> ObjectId {
    ObjectId::new("apps", "Deployment", "ns", "a")
}

fn object(rv: u64, generation: i64, label: &str) -> Value {
    let metadata = json!({"resourceVersion": rv.to_string(), "generation": generation, "labels": {"l": label}});
    json!({"metadata": metadata, "status": {}})
}

fn index() -> Index {
    let index = Index::default();
    index.track([&id()]);
    index
}

async fn news(index: &Index) -> Option<ChangeKind> {
    tokio::select! { biased;
        touched = index.changes() => touched.get(&id()).copied(),
        () = std::future::ready(()) => None,
    }
}

#[tokio::test]
async fn the_echo_of_our_own_write_is_no_news() {
    let index = index();
    assert_eq!(index.lookup(&id(), 1), CachedState::Unknown);
    index.hold_events(&id());
    index.on_event(&id(), Revision::of(&object(10, 1, "x")), None, None);
    index.record_read(&id(), Some(object(10, 1, "x")), Some(1), None);
    index.release_events(&id());
    assert_eq!(index.lookup(&id(), 1), CachedState::AsDesired);
    assert_eq!(news(&index).await, None);
    assert_eq!(index.lookup(&id(), 2), CachedState::Unknown, "other content is not what was confirmed");
}

#[tokio::test]
async fn a_change_held_during_our_write_counts_if_it_is_later() {
    let index = index();
    index.hold_events(&id());
    index.on_event(&id(), Revision::of(&object(11, 2, "x")), None, None);
    index.record_read(&id(), Some(object(10, 1, "x")), Some(1), None);
    index.release_events(&id());
    assert_eq!(index.lookup(&id(), 1), CachedState::Unknown);
    assert_eq!(news(&index).await, Some(ChangeKind::Content));
}

#[tokio::test]
async fn a_status_change_leaves_the_content_known_but_the_view_stale() {
    let index = index();
    index.record_read(&id(), Some(object(10, 1, "x")), Some(1), Some(json!({})));
    assert!(matches!(index.view(&id()), View::Fresh(_)));
    index.on_event(&id(), Revision::of(&object(12, 1, "x")), None, None);
    assert_eq!(index.lookup(&id(), 1), CachedState::AsDesired);
    assert_eq!(index.view(&id()), View::Stale);
    assert_eq!(news(&index).await, Some(ChangeKind::Status));
    index.on_event(&id(), Revision::of(&object(13, 1, "y")), None, None);
    assert_eq!(index.lookup(&id(), 1), CachedState::Unknown, "a label moved");
}

#[tokio::test]
async fn an_old_answer_does_not_hide_what_the_watch_saw() {
    let index = index();
    index.record_read(&id(), Some(object(10, 1, "x")), Some(1), None);
    index.on_event(&id(), Revision::of(&object(20, 2, "x")), None, None);
    index.record_read(&id(), Some(object(15, 1, "x")), Some(1), None);
    assert_eq!(index.lookup(&id(), 1), CachedState::Unknown);
    index.on_delete(&id(), "21");
    assert_eq!(index.lookup(&id(), 1), CachedState::Absent);
    index.on_event(&id(), Revision::of(&object(19, 2, "x")), None, None);
    assert_eq!(index.lookup(&id(), 1), CachedState::Absent, "an event from before the deletion");
    index.record_read(&id(), Some(object(20, 2, "x")), Some(1), None);
    assert_eq!(index.lookup(&id(), 1), CachedState::Absent, "an answer from before the deletion");
    index.record_read(&id(), Some(object(22, 1, "x")), Some(1), None);
    assert_eq!(index.lookup(&id(), 1), CachedState::AsDesired, "made anew");
}

#[tokio::test]
async fn what_was_found_out_holds_although_the_status_has_moved_since() {
    let index = index();
    let raw = |object: &Value| Some(serde_json::value::to_raw_value(object).unwrap());
    index.record_read(&id(), Some(object(10, 1, "x")), Some(1), None);
    let (changed, moved) = (object(11, 2, "x"), object(12, 2, "x"));
    index.on_event(&id(), Revision::of(&changed), None, raw(&changed));
    index.on_event(&id(), Revision::of(&moved), Some(json!({"moved": true})), raw(&moved));
    assert_eq!(index.lookup(&id(), 1), CachedState::Differs(Arc::new(changed.clone())));
    index.record_read(&id(), Some(changed), Some(1), Some(json!({"moved": false})));
    assert_eq!(index.lookup(&id(), 1), CachedState::AsDesired);
    assert_eq!(index.view(&id()), View::Fresh(Arc::new(json!({"moved": true}))), "of the status the watch knows more");
    assert_eq!(news(&index).await, Some(ChangeKind::Content));
    index.on_event(&id(), Revision::of(&object(12, 2, "x")), None, None);
    assert_eq!(news(&index).await, None, "the mark is the one of the watch");
}

#[tokio::test]
async fn a_generation_that_nobody_counts_hides_no_change() {
    let index = index();
    let object =
        |rv: u64, value: u64| json!({"metadata": {"resourceVersion": rv.to_string(), "generation": 1}, "value": value});
    index.record_read(&id(), Some(object(10, 1)), Some(1), None);
    index.on_event(&id(), Revision::of(&object(11, 2)), None, None);
    assert_eq!(index.lookup(&id(), 1), CachedState::Unknown);
    assert_eq!(news(&index).await, Some(ChangeKind::Content));
}

#[tokio::test]
async fn a_reading_that_differs_from_what_is_wanted_is_news_at_any_version() {
    let index = index();
    index.record_read(&id(), Some(object(10, 1, "x")), Some(1), None);
    index.on_list(&id(), object(10, 1, "x"), Some(1), None);
    assert_eq!((index.lookup(&id(), 1), news(&index).await), (CachedState::AsDesired, None));
    for (rv, generation) in [(10, 1), (11, 1)] {
        index.record_read(&id(), Some(object(rv, generation, "x")), Some(1), None);
        index.on_list(&id(), object(rv, generation, "x"), None, None);
        assert_eq!(index.lookup(&id(), 1), CachedState::Unknown, "version {rv}");
        assert_eq!(news(&index).await, Some(ChangeKind::Content), "version {rv}");
    }
    index.record_read(&id(), Some(object(20, 1, "x")), Some(1), None);
    index.on_list(&id(), object(19, 1, "x"), None, None);
    assert_eq!(
        (index.lookup(&id(), 1), news(&index).await),
        (CachedState::AsDesired, None),
        "read before it was written"
    );
}

#[tokio::test]
async fn a_relist_reports_deletions_that_a_broken_watch_missed() {
    let index = index();
    index.on_list(&id(), object(10, 1, "x"), Some(1), None);
    assert_eq!(news(&index).await, None, "the first reading is no news");
    let mut changed = index.subscribe(&id());
    changed.mark_unchanged();
    index.on_missing_from_list(&id(), "9");
    assert_eq!(index.lookup(&id(), 1), CachedState::AsDesired, "created after that reading");
    index.on_missing_from_list(&id(), "11");
    assert_eq!(index.lookup(&id(), 1), CachedState::Absent);
    assert_eq!(news(&index).await, Some(ChangeKind::Content));
    assert!(changed.has_changed().unwrap());
}
