use super::*;

/// Entries such as `c>b -a,x ~<1.0.0`: `c` replaces `b`, skips `a` and `x` and the range.
fn entries(text: &'static str) -> Vec<Entry<'static>> {
    let entry = |line: &'static str| {
        let mut entry = Entry::default();
        for (at, part) in line.split(' ').filter(|part| !part.is_empty()).enumerate() {
            match (at, part.split_at(1)) {
                (_, ("-", skips)) => entry.skips = skips.split(',').map(Cow::Borrowed).collect(),
                (_, ("~", range)) => entry.skip_range = Cow::Owned(range.replace('_', " ")),
                _ => {
                    let (name, replaces) = part.split_once('>').unwrap_or((part, ""));
                    (entry.name, entry.replaces) = (name.into(), replaces.into());
                }
            }
        }
        entry
    };
    text.split(';').map(entry).collect()
}

fn head(text: &'static str) -> &'static str {
    let entries = entries(text);
    let (head, reasons) = check(&entries);
    assert_eq!(reasons, [], "{text}");
    match &entries[head].name {
        Cow::Borrowed(name) => name,
        Cow::Owned(_) => panic!("{text}"),
    }
}

fn reasons(text: &'static str) -> String {
    let reasons = check(&if text.is_empty() { Vec::new() } else { entries(text) }).1;
    reasons.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

#[test]
fn head_is_the_entry_that_no_other_replaces_or_skips() {
    for (text, expected) in [
        ("a", "a"),
        ("a;b>a;c>b", "c"),
        ("c>b;b>a;a", "c"),
        ("a;b>a;c>a -b", "c"),
        ("a;b;c -a,b", "c"),
        ("b>a -x;a", "b"),
    ] {
        assert_eq!(head(text), expected, "{text}");
    }
}

#[test]
fn tail_may_replace_what_is_absent() {
    assert_eq!(head("b>a;c>b"), "c");
    assert_eq!(head("c>b -a"), "c");
}

#[test]
fn channel_without_entries_is_refused() {
    assert_eq!(reasons(""), "it has no entries");
}

#[test]
fn two_heads_are_named() {
    assert!(reasons("a;b>a;c>a").starts_with("it has 2 heads: b, c. "));
    assert!(reasons("a;b;c;d;e;f;g").starts_with("it has 7 heads: a, b, c, d, e and 2 more. "));
}

#[test]
fn channel_without_a_head_is_refused() {
    for text in ["a>b;b>a", "a>a", "a -a"] {
        assert!(reasons(text).contains("no head"), "{text}");
    }
}

#[test]
fn replaces_in_a_circle_below_the_head_are_refused() {
    assert_eq!(reasons("d>c;c>b;b>a;a>c"), "its entries replace each other in a circle: c, b, a, c");
}

#[test]
fn entry_that_nobody_gets_to_from_the_head_is_refused_unless_skipped() {
    let said = reasons("d>c;c>a;a;x>y;y>x");
    let expected =
        "its head d is not reached from x, y: no entry that is not skipped itself replaces them, and none skips them";
    assert_eq!(said, expected);
    assert_eq!(reasons("d>c -x,y;c>a;a;x>y;y>x"), "");
}

#[test]
fn way_from_the_head_ends_at_a_skipped_entry_because_that_is_never_installed() {
    assert!(reasons("c>b -b;b>a;a").starts_with("its head c is not reached from a: "));
    assert_eq!(reasons("c>b -b,a;b>a;a"), "");
    assert_eq!(reasons("c>a -b;b>a;a"), "");
}

#[test]
fn two_entries_of_one_name_are_refused() {
    assert!(reasons("b>a;a;a").contains("two entries a"));
}

#[test]
fn entry_without_a_name_is_refused() {
    assert!(reasons(";a").contains("entries[0] has no name"));
}

#[test]
fn empty_skip_is_refused() {
    assert!(reasons("b>a -x,;a").contains("entry b: skips[1] is empty"));
}

#[test]
fn skip_range_must_parse() {
    assert_eq!(reasons("b>a ~>=1.0.0_<2.0.0;a"), "");
    assert!(reasons("b>a ~>=1.0;a").contains("entry b: its skipRange \">=1.0\" is no range"));
}
