use super::*;
use std::io;

#[derive(Debug, thiserror::Error)]
#[error("image {image}: {source}")]
struct Repeating {
    image: &'static str,
    source: io::Error,
}

#[test]
fn each_cause_is_named_once() {
    let error = anyhow::Error::from(Repeating { image: "a", source: io::Error::other("gone") }).context("cannot pull");
    assert_eq!(format!("{error:#}"), "cannot pull: image a: gone: gone", "what this is for");
    assert_eq!(chain(error.as_ref()), "cannot pull: image a: gone");
}
