use super::*;
use kube::core::Status;

fn not_found() -> watcher::Error {
    let mut status = Status::failure("the server could not find the requested resource", "NotFound");
    status.code = 404;
    watcher::Error::InitialListFailed(kube::Error::Api(status.boxed()))
}

#[test]
fn objects_of_a_kind_that_is_gone_are_shown_no_more() {
    let mut watched = Watched::<ConfigMap>::default();
    let mut map = ConfigMap::default();
    map.metadata.name = Some("a".to_owned());
    watched.on_event(Ok(Event::Apply(map.clone())), "https://api");
    watched.on_event(Err(watcher::Error::NoResourceVersion), "https://api");
    assert!(watched.error.is_some() && watched.objects.len() == 1, "what was known stays, with the error");
    watched.on_event(Err(not_found()), "https://api");
    assert_eq!((watched.objects.len(), watched.error, watched.reported), (0, None, true));
}
