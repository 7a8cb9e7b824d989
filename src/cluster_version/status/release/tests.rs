use super::*;

#[test]
fn digests_match_across_registries_but_tags_do_not() {
    let table = [
        ("a/r@sha256:1", "b/m@sha256:1", true),
        ("a/r@sha256:1", "a/r@sha256:2", false),
        ("a/r:tag", "a/r:tag", true),
        ("a/r:tag", "b/r:tag", false),
        ("a@x@sha256:1", "b@sha256:1", false),
        ("a@", "b@", false),
        ("", "", false),
    ];
    for (a, b, want) in table {
        assert_eq!(same_digest(a, b), want, "{a} {b}");
    }
}
