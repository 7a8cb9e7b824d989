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
    index.own([&id()]);
    index
}

async fn news(index: &Index) -> Option<Touched> {
    tokio::select! { biased;
        touched = index.news() => touched.get(&id()).copied(),
        () = std::future::ready(()) => None,
    }
}

#[tokio::test]
async fn the_echo_of_our_own_write_is_no_news() {
    let index = index();
    assert_eq!(index.sight(&id(), 1), Sight::Unknown);
    index.begin_write(&id());
    index.seen(&id(), Mark::of(&object(10, 1, "x")), None, None);
    index.saw(&id(), Some(object(10, 1, "x")), Some(1), None);
    index.end_write(&id());
    assert_eq!(index.sight(&id(), 1), Sight::AsWanted);
    assert_eq!(news(&index).await, None);
    assert_eq!(index.sight(&id(), 2), Sight::Unknown, "other content is not what was confirmed");
}

#[tokio::test]
async fn a_change_held_during_our_write_counts_if_it_is_later() {
    let index = index();
    index.begin_write(&id());
    index.seen(&id(), Mark::of(&object(11, 2, "x")), None, None);
    index.saw(&id(), Some(object(10, 1, "x")), Some(1), None);
    index.end_write(&id());
    assert_eq!(index.sight(&id(), 1), Sight::Unknown);
    assert_eq!(news(&index).await, Some(Touched::Content));
}

#[tokio::test]
async fn a_status_change_leaves_the_content_known_but_the_view_stale() {
    let index = index();
    index.saw(&id(), Some(object(10, 1, "x")), Some(1), Some(json!({})));
    assert!(matches!(index.view(&id()), View::Fresh(_)));
    index.seen(&id(), Mark::of(&object(12, 1, "x")), None, None);
    assert_eq!(index.sight(&id(), 1), Sight::AsWanted);
    assert_eq!(index.view(&id()), View::Stale);
    assert_eq!(news(&index).await, Some(Touched::Status));
    index.seen(&id(), Mark::of(&object(13, 1, "y")), None, None);
    assert_eq!(index.sight(&id(), 1), Sight::Unknown, "a label moved");
}

#[tokio::test]
async fn an_old_answer_does_not_hide_what_the_watch_saw() {
    let index = index();
    index.saw(&id(), Some(object(10, 1, "x")), Some(1), None);
    index.seen(&id(), Mark::of(&object(20, 2, "x")), None, None);
    index.saw(&id(), Some(object(15, 1, "x")), Some(1), None);
    assert_eq!(index.sight(&id(), 1), Sight::Unknown);
    index.gone(&id(), "21");
    assert_eq!(index.sight(&id(), 1), Sight::Absent);
    index.seen(&id(), Mark::of(&object(19, 2, "x")), None, None);
    assert_eq!(index.sight(&id(), 1), Sight::Absent, "an event from before the deletion");
    index.saw(&id(), Some(object(20, 2, "x")), Some(1), None);
    assert_eq!(index.sight(&id(), 1), Sight::Absent, "an answer from before the deletion");
    index.saw(&id(), Some(object(22, 1, "x")), Some(1), None);
    assert_eq!(index.sight(&id(), 1), Sight::AsWanted, "made anew");
}

#[tokio::test]
async fn what_was_found_out_holds_although_the_status_has_moved_since() {
    let index = index();
    let raw = |object: &Value| Some(serde_json::value::to_raw_value(object).unwrap());
    index.saw(&id(), Some(object(10, 1, "x")), Some(1), None);
    let (changed, moved) = (object(11, 2, "x"), object(12, 2, "x"));
    index.seen(&id(), Mark::of(&changed), None, raw(&changed));
    index.seen(&id(), Mark::of(&moved), Some(json!({"moved": true})), raw(&moved));
    assert_eq!(index.sight(&id(), 1), Sight::Differs(Arc::new(changed.clone())));
    index.saw(&id(), Some(changed), Some(1), Some(json!({"moved": false})));
    assert_eq!(index.sight(&id(), 1), Sight::AsWanted);
    assert_eq!(index.view(&id()), View::Fresh(Arc::new(json!({"moved": true}))), "of the status the watch knows more");
    assert_eq!(news(&index).await, Some(Touched::Content));
    index.seen(&id(), Mark::of(&object(12, 2, "x")), None, None);
    assert_eq!(news(&index).await, None, "the mark is the one of the watch");
}

#[tokio::test]
async fn a_generation_that_nobody_counts_hides_no_change() {
    let index = index();
    let object =
        |rv: u64, value: u64| json!({"metadata": {"resourceVersion": rv.to_string(), "generation": 1}, "value": value});
    index.saw(&id(), Some(object(10, 1)), Some(1), None);
    index.seen(&id(), Mark::of(&object(11, 2)), None, None);
    assert_eq!(index.sight(&id(), 1), Sight::Unknown);
    assert_eq!(news(&index).await, Some(Touched::Content));
}

#[tokio::test]
async fn a_reading_that_differs_from_what_is_wanted_is_news_at_any_version() {
    let index = index();
    index.saw(&id(), Some(object(10, 1, "x")), Some(1), None);
    index.listed(&id(), object(10, 1, "x"), Some(1), None);
    assert_eq!((index.sight(&id(), 1), news(&index).await), (Sight::AsWanted, None));
    for (rv, generation) in [(10, 1), (11, 1)] {
        index.saw(&id(), Some(object(rv, generation, "x")), Some(1), None);
        index.listed(&id(), object(rv, generation, "x"), None, None);
        assert_eq!(index.sight(&id(), 1), Sight::Unknown, "version {rv}");
        assert_eq!(news(&index).await, Some(Touched::Content), "version {rv}");
    }
    index.saw(&id(), Some(object(20, 1, "x")), Some(1), None);
    index.listed(&id(), object(19, 1, "x"), None, None);
    assert_eq!((index.sight(&id(), 1), news(&index).await), (Sight::AsWanted, None), "read before it was written");
}

#[tokio::test]
async fn a_relist_reports_deletions_that_a_broken_watch_missed() {
    let index = index();
    index.listed(&id(), object(10, 1, "x"), Some(1), None);
    assert_eq!(news(&index).await, None, "the first reading is no news");
    let mut changed = index.changed(&id());
    changed.mark_unchanged();
    index.unlisted(&id(), "9");
    assert_eq!(index.sight(&id(), 1), Sight::AsWanted, "created after that reading");
    index.unlisted(&id(), "11");
    assert_eq!(index.sight(&id(), 1), Sight::Absent);
    assert_eq!(news(&index).await, Some(Touched::Content));
    assert!(changed.has_changed().unwrap());
}
