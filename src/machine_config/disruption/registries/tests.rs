use super::is_safe;

const BASE: &str = r#"
unqualified-search-registries = ["a.example", "b.example"]
short-name-mode = "permissive"

[[registry]]
  prefix = ""
  location = "quay.example/one"
  mirror-by-digest-only = true

  [[registry.mirror]]
    location = "mirror.example/one"

[[registry]]
  location = "quay.example/two"

  [[registry.mirror]]
    location = "mirror.example/two"
"#;

/// The base with a text replaced.
fn with(old: &str, new: &str) -> String {
    assert!(BASE.contains(old), "{old}");
    BASE.replacen(old, new, 1)
}

fn plus(text: &str) -> String {
    format!("{BASE}\n{text}")
}

#[test]
fn changes_after_which_every_image_is_still_the_same_are_safe() {
    for (what, new) in [
        ("nothing", BASE.to_owned()),
        ("another way of writing", with("location = \"quay.example/two\"", "location = 'quay.example/two' # two")),
        ("a search registry behind the others", with("\"b.example\"", "\"b.example\", \"c.example\"")),
        (
            "a mirror for digests",
            plus("  [[registry.mirror]]\n    location = \"n.example\"\n    pull-from-mirror = \"digest-only\""),
        ),
        (
            "a mirror of a registry for digests",
            with(
                "  [[registry.mirror]]\n",
                "  [[registry.mirror]]\n    location = \"n.example\"\n  [[registry.mirror]]\n",
            ),
        ),
        ("a registry without mirrors", plus("[[registry]]\nlocation = \"new.example\"")),
        (
            "a registry with mirrors for digests",
            plus(
                "[[registry]]\nlocation = \"new.example\"\nmirror-by-digest-only = true\n[[registry.mirror]]\nlocation = \"m\"",
            ),
        ),
        ("from all to digests", with("\"quay.example/two\"", "\"quay.example/two\"\n  mirror-by-digest-only = true")),
    ] {
        assert!(is_safe(BASE.as_bytes(), new.as_bytes()), "{what}");
    }
    assert!(is_safe(b"", b"unqualified-search-registries = [\"a.example\"]"));
}

#[test]
fn changes_after_which_an_image_can_be_another_or_missing_are_not_safe() {
    let second = BASE.rfind("[[registry]]").unwrap();
    for (what, new) in [
        ("a search registry less", with(", \"b.example\"", "")),
        ("search registries in another order", with("\"a.example\", \"b.example\"", "\"b.example\", \"a.example\"")),
        ("a search registry before the others", with("[\"a.example\"", "[\"c.example\", \"a.example\"")),
        ("short names", with("permissive", "enforcing")),
        ("a registry less", BASE[..second].to_owned()),
        ("a prefix", with("prefix = \"\"", "prefix = \"other.example\"")),
        ("a location", with("quay.example/one", "quay.example/three")),
        ("a blocked registry", with("prefix = \"\"", "blocked = true")),
        ("an insecure registry", with("prefix = \"\"", "insecure = true")),
        ("a mirror less", with("  [[registry.mirror]]\n    location = \"mirror.example/two\"\n", "")),
        ("another mirror", with("mirror.example/two", "mirror.example/three")),
        ("an insecure mirror", with("\"mirror.example/one\"", "\"mirror.example/one\"\n    insecure = true")),
        ("from digests to all", with("  mirror-by-digest-only = true\n", "")),
        (
            "from digests to tags",
            with("\"mirror.example/one\"", "\"mirror.example/one\"\n    pull-from-mirror = \"tag-only\""),
        ),
        ("a mirror for all", plus("  [[registry.mirror]]\n    location = \"n.example\"")),
        (
            "a registry with a mirror for all",
            plus("[[registry]]\nlocation = \"new.example\"\n[[registry.mirror]]\nlocation = \"m\""),
        ),
        ("a new registry that is blocked", plus("[[registry]]\nlocation = \"new.example\"\nblocked = true")),
        (
            "a new registry that leads elsewhere",
            plus("[[registry]]\nprefix = \"docker.io\"\nlocation = \"new.example\""),
        ),
        ("a registry twice", plus("[[registry]]\nlocation = \"quay.example/one\"")),
        ("no TOML", "unqualified-search-registries = [".to_owned()),
        ("another type", with("[\"a.example\", \"b.example\"]", "5")),
        ("no registries at all", String::new()),
    ] {
        assert!(!is_safe(BASE.as_bytes(), new.as_bytes()), "{what}");
    }
    assert!(!is_safe(BASE.as_bytes(), b"\xff"));
    assert!(!is_safe(b"\xff", BASE.as_bytes()));
}
