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

#[test]
fn what_is_wrong_with_json_is_told_without_its_place_and_short() {
    let error = |text: &str| of_json(&serde_json::from_str::<u8>(text).unwrap_err());
    assert_eq!(error("\"x at line y\""), "invalid type: string \"x at line y\", expected u8");
    assert_eq!(error(""), "EOF while parsing a value");
    assert!(error(&format!("\"{}\"", "x".repeat(5000))).len() <= CAUSE);
}

#[test]
fn long_text_keeps_its_beginning_and_end() {
    assert_eq!(shortened("as it is", 8), "as it is");
    let long = format!("spec.rules[0] {} is invalid", "ü".repeat(5000));
    let short = shortened(&long, CAUSE);
    assert!(short.starts_with("spec.rules[0] üü") && short.ends_with("üü is invalid"), "{short}");
    let left_out: usize =
        short.split_once("… (").unwrap().1.split_once(" bytes left out) …").unwrap().0.parse().unwrap();
    let note = format!(" … ({left_out} bytes left out) … ");
    assert_eq!(left_out + short.len() - note.len(), long.len());
    assert_eq!(shortened("üü", 3), "ü", "no room for more");
}

#[test]
fn items_that_do_not_fit_are_counted() {
    let rest = |n| format!("and {n} more");
    assert_eq!(listed(&["a", "b", "c"], ", ", 7, rest), "a, b, c");
    assert_eq!(listed(&["a", "b", "c", "d", "e", "f"], ", ", 15, rest), "a, and 5 more");
    assert_eq!(listed(&["a".repeat(30)], ", ", 20, rest), "and 1 more");
    assert_eq!(listed::<&str>(&[], ", ", 20, rest), "");
}

proptest::proptest! {
    #[test]
    fn bounds_hold(items in proptest::collection::vec(".{0,60}", 0..40), limit in 0usize..900, one in ".{0,1500}") {
        assert!(shortened(&one, limit).len() <= limit);
        assert!(listed(&items, "\n* ", limit, |n| format!("and {n} more")).len() <= limit);
    }
}

#[test]
fn user_and_password_of_a_url_are_not_shown() {
    for (url, shown) in [
        ("https://example.com/graph", "https://example.com/graph"),
        ("https://me:secret@example.com:8443/graph?a=b@c", "https://***@example.com:8443/graph?a=b@c"),
        ("http://me@example.com", "http://***@example.com"),
        ("http://me:p@ss@example.com#x", "http://***@example.com#x"),
        ("https://example.com/a@b", "https://example.com/a@b"),
        ("me:secret@example.com", "me:secret@example.com"),
        ("/folder/a@b", "/folder/a@b"),
    ] {
        assert_eq!(without_password(url), shown);
    }
}
