//! Catalogs that stand in for the one that a Subscription names, where it allows that.

use super::written::{Row, check, fails, installs};
use super::*;

const STAND_IN: [Row; 9] = [
    installs(
        "own catalog first, although another one has a later head",
        "catalog main
             a.v1 stable
             a.v2 stable replaces a.v1
             catalog x 100
             a.v9 stable replaces a.v1
             installed a.v1
             sub a/stable at a.v1 elsewhere",
        "a.v2",
    ),
    installs(
        "own catalog has nothing newer",
        "catalog main
             a.v1 stable
             catalog x
             a.v2 stable replaces a.v1
             installed a.v1
             sub a/stable at a.v1 elsewhere",
        "a.v2@x",
    ),
    installs(
        "a head before what replaces it in a catalog of a higher priority",
        "catalog main
             a.v1 stable
             catalog x 100
             a.v2 stable replaces a.v1
             a.v3 stable replaces a.v2
             catalog y
             a.v4 stable skips a.v1
             installed a.v1
             sub a/stable at a.v1 elsewhere",
        "a.v4@y",
    ),
    installs(
        "what replaces it, where no head can",
        "catalog main
             a.v1 stable
             catalog x
             a.v2 stable replaces a.v1
             a.v3 stable replaces a.v2
             catalog y 100
             a.v2 stable replaces a.v1
             a.v3 stable replaces a.v2
             installed a.v1
             sub a/stable at a.v1 elsewhere",
        "a.v2@y",
    ),
    installs(
        "own catalog does not have the package",
        "catalog main
             b.v1 stable
             catalog x
             a.v1 stable
             sub a/stable elsewhere",
        "a.v1@x",
    ),
    installs(
        "own catalog is not there",
        "catalog x
             a.v1 stable
             sub a/stable in main elsewhere",
        "a.v1@x",
    ),
    fails(
        "nobody has the package",
        "catalog main
             b.v1 stable
             catalog x
             b.v1 stable
             sub a/stable elsewhere",
        "no operators found in package a in the catalog referenced by subscription a-stable",
    ),
    fails(
        "nothing allows another catalog",
        "catalog main
             b.v1 stable
             catalog x
             a.v1 stable
             sub a/stable",
        "no operators found in package a in the catalog referenced by subscription a-stable",
    ),
    installs(
        "the version that is asked for by name",
        "catalog main
             a.v2 stable
             catalog x
             a.v1 stable
             a.v2 stable replaces a.v1
             sub a/stable from a.v1 elsewhere",
        "a.v1@x",
    ),
];

#[test]
fn other_catalogs_come_after_the_own_one_their_heads_first() {
    check(&STAND_IN);
}

#[test]
fn bundle_of_another_catalog_is_for_the_subscription_that_allows_it() {
    let of = |text: &str| {
        let found = answer::answer(&written::written(text).world(), &Limits::default());
        let new: Vec<_> = found.parts.iter().flat_map(answer::Part::installs).cloned().collect();
        let [only] = new.as_slice() else { panic!("{new:?}") };
        (only.catalog.1.clone(), only.subscriptions.iter().cloned().collect::<Vec<_>>().join(" "))
    };
    let text = "catalog main\n b.v1 stable\n catalog x\n a.v1 stable\n sub a/stable elsewhere";
    assert_eq!(of(text), ("x".to_owned(), "a-stable".to_owned()));
}

#[test]
fn explanation_says_that_other_catalogs_count() {
    let text = "catalog main\n b.v1 stable\n sub a/stable elsewhere";
    let text = explained(&written::written(text).world());
    assert!(text.contains("asks for package a, channel stable of catalog ns/main or another one."), "{text}");
}
