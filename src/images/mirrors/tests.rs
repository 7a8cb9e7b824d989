use super::super::reference::tests::image;
use super::*;

const DIGEST: &str = "sha256:0123";

fn rule(by: By, source: &str, mirrors: &[&str]) -> Rule {
    let mirrors = mirrors.iter().map(|mirror| mirror.to_string()).collect();
    Rule { source: source.to_owned(), mirrors, by, contact_source: true, origin: format!("set of {source}") }
}

fn never(rule: Rule) -> Rule {
    Rule { contact_source: false, ..rule }
}

fn places(name: &str, rules: &[Rule]) -> String {
    match candidates(&image(&name.replace("DIGEST", DIGEST)), rules) {
        Ok(found) => {
            let text = |found: &Candidate| {
                format!(
                    "{}{}",
                    found.image.to_string().replace(DIGEST, "DIGEST"),
                    if found.mirror { "" } else { " (source)" }
                )
            };
            found.iter().map(text).collect::<Vec<_>>().join(", ")
        }
        Err(error) => error.to_string(),
    }
}

#[test]
fn mirrors_of_the_most_specific_source_come_before_the_source() {
    let rules = [
        rule(By::Digest, "quay.io", &["m1.example", "m2.example/quay/"]),
        rule(By::Digest, "quay.io/org", &["m3.example:5000/org"]),
        rule(By::Tag, "quay.io/org/tags", &["m4.example/t"]),
        rule(By::Any, "*.example.org", &["m5.example/all"]),
        rule(By::Any, "a.example.org", &["m6.example/a"]),
    ];
    for (name, expected) in [
        ("docker.io/library/x:1", "docker.io/library/x:1 (source)"),
        (
            "quay.io/other/app@DIGEST",
            "m1.example/other/app@DIGEST, m2.example/quay/other/app@DIGEST, quay.io/other/app@DIGEST (source)",
        ),
        ("quay.io/org/app@DIGEST", "m3.example:5000/org/app@DIGEST, quay.io/org/app@DIGEST (source)"),
        (
            "quay.io/orga/app@DIGEST",
            "m1.example/orga/app@DIGEST, m2.example/quay/orga/app@DIGEST, quay.io/orga/app@DIGEST (source)",
        ),
        // Rules by digest say nothing of a tag, and the other way round.
        ("quay.io/org/app:1", "quay.io/org/app:1 (source)"),
        ("quay.io/org/tags:1", "m4.example/t:1, quay.io/org/tags:1 (source)"),
        ("quay.io/org/tags@DIGEST", "quay.io/org/tags@DIGEST (source)"),
        // A digest counts more than a tag beside it, and a mirror is asked for the digest alone.
        ("quay.io/org/app:1@DIGEST", "m3.example:5000/org/app@DIGEST, quay.io/org/app:1@DIGEST (source)"),
        ("b.example.org:5000/x/y:1", "m5.example/all/x/y:1, b.example.org:5000/x/y:1 (source)"),
        ("a.example.org/x/y:1", "m6.example/a/x/y:1, a.example.org/x/y:1 (source)"),
    ] {
        assert_eq!(places(name, &rules), expected, "{name}");
    }
}

#[test]
fn rules_of_several_objects_keep_the_order_of_each() {
    for (lists, expected) in [
        (vec![vec!["a", "b", "c"], vec!["c", "d", "e"]], "a b c d e"),
        (vec![vec!["c", "d"], vec!["a", "b", "c"]], "a b c d"),
        (vec![vec!["a", "b"], vec!["b", "a"]], "a b"),
        (vec![vec!["a", "a"], vec![]], "a"),
        (vec![], ""),
    ] {
        let rules: Vec<Rule> = lists.iter().map(|list| rule(By::Any, "s.example/x", list)).collect();
        let found = merged(rules.iter().map(|rule| rule.mirrors.as_slice()).collect());
        assert_eq!(found.join(" "), expected);
        let found = places("s.example/x/y:1", &rules);
        assert_eq!(found.matches("/y:1").count(), if lists.is_empty() { 1 } else { found.matches(',').count() + 1 });
    }
}

#[test]
fn source_that_must_not_be_contacted_is_left_out() {
    let rules = [never(rule(By::Digest, "quay.io", &["m.example"])), rule(By::Tag, "quay.io", &[])];
    assert_eq!(places("quay.io/a/b@DIGEST", &rules), "m.example/a/b@DIGEST");
    let error = places("quay.io/a/b:1", &rules);
    for words in
        ["image quay.io/a/b:1", "set of quay.io forbids", "no rule names a mirror for images by tag", "by digest"]
    {
        assert!(error.contains(words), "{words}: {error}");
    }
    // A mirror without a path for an image that the source names whole is no place.
    let whole = [never(rule(By::Tag, "quay.io/a/b", &["m.example"]))];
    assert!(places("quay.io/a/b:1", &whole).contains("NeverContactSource"));
}
