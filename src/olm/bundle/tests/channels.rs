//! Entries of channels, along the edges of ClusterServiceVersions.

use super::*;
use crate::olm::bundle::channels::{Entry, entries};
use serde_json::json;

/// A bundle of a name, what it replaces, and what it skips.
fn version((name, replaces, skips): (&str, &str, &[&str])) -> Bundle {
    let csv = json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
        "metadata": {"name": name, "annotations": {"olm.skipRange": "<1.0.0"}}, "spec": {"replaces": replaces, "skips": skips},
    });
    let mut reader = read::Reader::default();
    reader.object(&"a".into(), 1, csv).unwrap();
    Contents { objects: reader.objects, ..Contents::default() }.bundle().unwrap()
}

fn names(versions: &[(&str, &str, &[&str])], head: &str) -> Vec<String> {
    let bundles: Vec<Bundle> = versions.iter().copied().map(version).collect();
    let bundles = bundles.iter().map(|bundle| (&*bundle.csv.metadata.name, bundle)).collect();
    entries(head, &bundles).into_iter().map(|entry| entry.name).collect()
}

#[test]
fn channel_goes_from_the_head_along_what_each_replaces() {
    let versions: [(&str, &str, &[&str]); 4] =
        [("c", "b", &[]), ("b", "a", &[]), ("a", "gone", &[]), ("other", "", &[])];
    assert_eq!(names(&versions, "c"), ["c", "b", "a"]);
    assert_eq!(names(&versions, "b"), ["b", "a"]);
    assert_eq!(names(&versions, "gone"), Vec::<String>::new());
}

#[test]
fn skipped_versions_are_entries_but_not_what_they_replace() {
    let versions: [(&str, &str, &[&str]); 4] =
        [("d", "a", &["c", "gone"]), ("c", "b", &[]), ("b", "", &[]), ("a", "", &[])];
    assert_eq!(names(&versions, "d"), ["d", "a", "c"]);
}

/// A catalog with more would not be served: whatever is not skipped must be reached from the head.
#[test]
fn channel_ends_at_a_version_that_is_replaced_and_skipped() {
    let versions: [(&str, &str, &[&str]); 4] = [("d", "c", &["b"]), ("c", "b", &[]), ("b", "a", &[]), ("a", "", &[])];
    assert_eq!(names(&versions, "d"), ["d", "c", "b"]);
    let versions: [(&str, &str, &[&str]); 3] = [("c", "b", &["b"]), ("b", "a", &[]), ("a", "", &[])];
    assert_eq!(names(&versions, "c"), ["c", "b"]);
}

#[test]
fn versions_that_replace_each_other_come_once() {
    assert_eq!(names(&[("b", "a", &["a"]), ("a", "b", &["b"])], "b"), ["b", "a"]);
}

#[test]
fn entry_has_all_edges_and_leaves_out_what_is_empty() {
    let bundle = version(("b", "a", &["x", "y"]));
    let [entry] = entries("b", &BTreeMap::from([("b", &bundle)])).try_into().unwrap();
    let skips = ["x", "y"].map(str::to_owned).to_vec();
    assert_eq!(entry, Entry { name: "b".into(), replaces: "a".into(), skips, skip_range: "<1.0.0".into() });
    assert_eq!(
        serde_json::to_string(&entry).unwrap(),
        r#"{"name":"b","replaces":"a","skips":["x","y"],"skipRange":"<1.0.0"}"#
    );
    let bare = Entry { name: "b".into(), ..Entry::default() };
    assert_eq!(serde_json::to_string(&bare).unwrap(), r#"{"name":"b"}"#);
}
