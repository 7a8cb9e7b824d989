use super::*;
use crate::olm::catalog::served::tests::{broken, content};
use crate::olm::packages::tests::blobs;
use std::sync::atomic::Ordering;

pub(crate) fn served(namespace: &str, name: &str, content: &Arc<Content>) -> ((String, String), Served) {
    let about =
        Catalog { namespace: namespace.into(), name: name.into(), display_name: name.into(), ..Catalog::default() };
    ((namespace.to_owned(), name.to_owned()), Served { about: Arc::new(about), content: content.clone() })
}

fn names(state: &State) -> Vec<String> {
    state.listed.iter().map(|it| format!("{}/{}", it.catalog.name, it.name())).collect()
}

#[test]
fn content_is_read_once_for_all_catalogs_that_have_it() {
    let (one, reads) = content(&[blobs("a"), blobs("b")].concat());
    let one = Arc::new(one);
    let first = State::of(Arc::new([served("x", "one", &one), served("y", "two", &one)].into()), &State::default());
    assert_eq!(names(&first), ["one/a", "one/b", "two/a", "two/b"]);
    let read = reads.load(Ordering::SeqCst);
    assert!(read > 0);
    // What is said of a catalog changes, and another one comes.
    let (other, _) = content(&blobs("c"));
    let next = State::of(Arc::new([served("x", "new", &one), served("z", "three", &Arc::new(other))].into()), &first);
    assert_eq!(names(&next), ["new/a", "new/b", "three/c"]);
    assert_eq!(reads.load(Ordering::SeqCst), read);
    // It is forgotten with its last catalog.
    let empty = State::of(Arc::default(), &next);
    assert!(empty.labels.is_empty() && empty.listed.is_empty());
}

#[test]
fn package_of_a_state_is_written_from_the_content_of_that_state() {
    let (one, _) = content(&blobs("a"));
    let state = State::of(Arc::new([served("x", "one", &Arc::new(one))].into()), &State::default());
    let mut out = Vec::new();
    state.write(&state.listed[0], "team", &[], &mut out).unwrap();
    let object: serde_json::Value = serde_json::from_slice(&out).unwrap();
    assert_eq!((&object["metadata"]["name"], &object["status"]["catalogSource"]), (&"a".into(), &"one".into()));
    assert_eq!(state.icon(&state.listed[0]).unwrap().media_type, "image/png");
}

#[test]
fn what_cannot_be_read_any_more_is_named() {
    let blobs = blobs("a");
    let whole = State::of(Arc::new([served("x", "one", &Arc::new(content(&blobs).0))].into()), &State::default());
    let damaged = Arc::new([served("x", "one", &Arc::new(broken(&blobs)))].into());
    let damaged = State { catalogs: damaged, ..State::of(Arc::default(), &whole) };
    let error = damaged.write(&whole.listed[0], "", &[], &mut Vec::new()).unwrap_err().to_string();
    assert!(error.contains("package a of catalog x/one cannot be read"), "{error}");
    let gone = State::default().write(&whole.listed[0], "", &[], &mut Vec::new()).unwrap_err().to_string();
    assert!(gone.contains("the catalog is gone"), "{gone}");
}

#[tokio::test]
async fn state_follows_the_catalogs() {
    let (catalogs, received) = watch::channel(Arc::new(Catalogs::new()));
    let (told, mut state) = watch::channel(None);
    tokio::spawn(follow(received, told));
    let empty = state.wait_for(|state: &Option<Arc<State>>| state.is_some()).await.unwrap().clone().unwrap();
    assert!(empty.listed.is_empty());
    catalogs.send_replace(Arc::new([served("x", "one", &Arc::new(content(&blobs("a")).0))].into()));
    state.wait_for(|state| state.as_ref().is_some_and(|state| !state.listed.is_empty())).await.unwrap();
}
