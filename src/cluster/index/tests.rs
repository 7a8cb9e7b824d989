//! Events, lists and answers in whatever order they come.

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

async fn change(index: &Index) -> Option<ChangeKind> {
    tokio::select! { biased;
        changes = index.changes() => changes.get(&id()).copied(),
        () = std::future::ready(()) => None,
    }
}

#[tokio::test]
async fn event_of_our_own_write_is_not_a_change() {
    let index = index();
    assert_eq!(index.lookup(&id(), 1), CachedState::Unknown);
    index.hold_events(&id());
    index.on_event(&id(), Revision::of(&object(10, 1, "x")), None, None);
    index.record_read(&id(), Some(object(10, 1, "x")), Some(1), None);
    index.release_events(&id());
    assert_eq!(index.lookup(&id(), 1), CachedState::AsDesired);
    assert_eq!(change(&index).await, None);
    assert_eq!(index.lookup(&id(), 2), CachedState::Unknown, "it was compared with other content");
}

#[tokio::test]
async fn change_held_during_our_write_counts_if_it_is_newer() {
    let index = index();
    index.hold_events(&id());
    index.on_event(&id(), Revision::of(&object(11, 2, "x")), None, None);
    index.record_read(&id(), Some(object(10, 1, "x")), Some(1), None);
    index.release_events(&id());
    assert_eq!(index.lookup(&id(), 1), CachedState::Unknown);
    assert_eq!(change(&index).await, Some(ChangeKind::Content));
}

#[tokio::test]
async fn status_change_keeps_the_content_and_makes_the_view_stale() {
    let index = index();
    index.record_read(&id(), Some(object(10, 1, "x")), Some(1), Some(Observed::default()));
    assert!(matches!(index.view(&id()), View::Fresh(_)));
    index.on_event(&id(), Revision::of(&object(12, 1, "x")), None, None);
    assert_eq!(index.lookup(&id(), 1), CachedState::AsDesired);
    assert_eq!(index.view(&id()), View::Stale);
    assert_eq!(change(&index).await, Some(ChangeKind::Status));
    index.on_event(&id(), Revision::of(&object(13, 1, "y")), None, None);
    assert_eq!(index.lookup(&id(), 1), CachedState::Unknown, "a label changed");
}

#[tokio::test]
async fn old_answer_does_not_hide_a_newer_event() {
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
    assert_eq!(index.lookup(&id(), 1), CachedState::AsDesired, "created again");
}

#[tokio::test]
async fn comparison_holds_although_the_status_has_changed_since() {
    let index = index();
    let raw = |object: &Value| Some(serde_json::value::to_raw_value(object).unwrap());
    index.record_read(&id(), Some(object(10, 1, "x")), Some(1), None);
    let (changed, with_status) = (object(11, 2, "x"), object(12, 2, "x"));
    let newer_view = Observed::of(&json!({"status": {"replicas": 1}}));
    index.on_event(&id(), Revision::of(&changed), None, raw(&changed));
    index.on_event(&id(), Revision::of(&with_status), Some(newer_view.clone()), raw(&with_status));
    assert_eq!(index.lookup(&id(), 1), CachedState::Differs(Arc::new(changed.clone())));
    index.record_read(&id(), Some(changed), Some(1), Some(Observed::default()));
    assert_eq!(index.lookup(&id(), 1), CachedState::AsDesired);
    assert_eq!(index.view(&id()), View::Fresh(Arc::new(newer_view)), "the watch has a newer status");
    assert_eq!(change(&index).await, Some(ChangeKind::Content));
    index.on_event(&id(), Revision::of(&object(12, 2, "x")), None, None);
    assert_eq!(change(&index).await, None, "the revision is the one of the watch");
}

#[tokio::test]
async fn generation_that_is_never_raised_hides_no_change() {
    let index = index();
    let object =
        |rv: u64, value: u64| json!({"metadata": {"resourceVersion": rv.to_string(), "generation": 1}, "value": value});
    index.record_read(&id(), Some(object(10, 1)), Some(1), None);
    index.on_event(&id(), Revision::of(&object(11, 2)), None, None);
    assert_eq!(index.lookup(&id(), 1), CachedState::Unknown);
    assert_eq!(change(&index).await, Some(ChangeKind::Content));
}

#[tokio::test]
async fn list_that_differs_from_the_desired_content_is_a_change_at_any_version() {
    let index = index();
    index.record_read(&id(), Some(object(10, 1, "x")), Some(1), None);
    index.on_list(&id(), object(10, 1, "x"), Some(1), None);
    assert_eq!((index.lookup(&id(), 1), change(&index).await), (CachedState::AsDesired, None));
    for (rv, generation) in [(10, 1), (11, 1)] {
        index.record_read(&id(), Some(object(rv, generation, "x")), Some(1), None);
        index.on_list(&id(), object(rv, generation, "x"), None, None);
        assert_eq!(index.lookup(&id(), 1), CachedState::Unknown, "version {rv}");
        assert_eq!(change(&index).await, Some(ChangeKind::Content), "version {rv}");
    }
    index.record_read(&id(), Some(object(20, 1, "x")), Some(1), None);
    index.on_list(&id(), object(19, 1, "x"), None, None);
    assert_eq!(
        (index.lookup(&id(), 1), change(&index).await),
        (CachedState::AsDesired, None),
        "listed before it was written"
    );
}

#[tokio::test]
async fn relist_reports_deletions_that_a_broken_watch_missed() {
    let index = index();
    index.on_list(&id(), object(10, 1, "x"), Some(1), None);
    assert_eq!(change(&index).await, None, "the first list is not a change");
    let mut changed = index.subscribe(&id());
    changed.mark_unchanged();
    index.on_missing_from_list(&id(), "9");
    assert_eq!(index.lookup(&id(), 1), CachedState::AsDesired, "created after that list");
    index.on_missing_from_list(&id(), "11");
    assert_eq!(index.lookup(&id(), 1), CachedState::Absent);
    assert_eq!(change(&index).await, Some(ChangeKind::Content));
    assert!(changed.has_changed().unwrap());
}

/// The watch sends metadata only, and did not see the deletion.
#[tokio::test]
async fn object_that_was_created_again_is_not_the_old_one() {
    let index = index();
    let object = |rv: u64, uid: &str| {
        let mut object = object(rv, 1, "x");
        object["metadata"]["uid"] = json!(uid);
        object
    };
    index.record_read(&id(), Some(object(10, "old")), Some(1), None);
    index.on_metadata(&id(), Revision::of(&object(11, "old")));
    assert_eq!((index.lookup(&id(), 1), change(&index).await), (CachedState::AsDesired, Some(ChangeKind::Status)));
    index.on_metadata(&id(), Revision::of(&object(20, "new")));
    assert_eq!((index.lookup(&id(), 1), change(&index).await), (CachedState::Unknown, Some(ChangeKind::Content)));
}
