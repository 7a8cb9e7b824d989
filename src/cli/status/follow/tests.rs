use super::*;
use crate::cluster::error::Cause;

fn answer(code: u16, reason: &str) -> ApiError {
    let cause = Cause::Server { code, reason: reason.into(), message: "as the server says".into() };
    ApiError { attempt: "watch configmaps".into(), cause }
}

#[test]
fn objects_of_a_kind_that_is_gone_are_shown_no_more() {
    let mut watched = Watched::<ConfigMap>::default();
    let mut map = ConfigMap::default();
    map.metadata.name = Some("a".to_owned());
    watched.on_event(Ok(Event::Apply(map.clone())), "https://api");
    watched.on_event(Err(answer(500, "InternalError")), "https://api");
    assert!(watched.error.is_some() && watched.objects.len() == 1, "what was known stays, with the error");
    watched.on_event(Err(answer(404, "NotFound")), "https://api");
    assert_eq!((watched.objects.len(), watched.error, watched.reported), (0, None, true));
}
