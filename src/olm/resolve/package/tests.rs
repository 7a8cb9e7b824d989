use super::*;
use crate::olm::catalog::served::tests::content;
use serde_json::json;

/// An entry as `name replaces skip skip`, with `-` where there is nothing to replace.
fn entry(text: &str) -> Entry {
    let mut words = text.split(' ').map(ToOwned::to_owned);
    let name = words.next().unwrap();
    let replaces = words.next().filter(|replaces| replaces != "-");
    let operator = Arc::new(Operator::new(&name, Vec::new(), &ClusterVersions::default()));
    Entry { operator, replaces, skips: words.collect(), skip_range: None }
}

/// Package `p` with these entries in channel `c`.
pub(in crate::olm::resolve) fn package(entries: &[&str]) -> Package {
    let entries = entries.iter().map(|text| entry(text)).collect();
    Package { name: "p".to_owned(), default_channel: "c".to_owned(), channels: [("c".to_owned(), entries)].into() }
}

fn order(entries: &[&str]) -> Result<String, String> {
    let package = package(entries);
    let entries = package.in_order("c", |_| true).map_err(|error| error.to_string())?;
    Ok(entries.iter().map(|it| it.operator.name.as_str()).collect::<Vec<_>>().join(" "))
}

#[test]
fn entries_come_from_the_head_down_what_each_replaces() {
    for (entries, expected) in [
        (&["v1", "v2 v1", "v3 v2"][..], "v3 v2 v1"),
        (&["v3 v2", "v1", "v2 v1"], "v3 v2 v1"),
        (&["v1"], "v1"),
        (&["v2 v1"], "v2"),
        (&[], ""),
        (&["v1", "v2 v1", "v3 v1 v2"], "v3 v1"),
        (&["v1", "v2", "v3 - v1 v2"], "v3"),
        (&["v1", "v2 v1", "v3 v2 v2"], "v3 v1"),
        // As they are published: in no order, replaced and skipped at once, skipped at the end.
        (&["b", "a b"], "a b"),
        (&["a b b", "b"], "a"),
        (&["a b c", "b c", "c"], "a b"),
    ] {
        assert_eq!(order(entries), Ok(expected.to_owned()), "{entries:?}");
    }
    assert!(package(&[]).in_order("other", |_| true).unwrap().is_empty());
}

#[test]
fn channel_without_a_single_chain_has_no_order() {
    for (entries, expected) in [
        (
            &["v1 v2", "v2 v1"][..],
            "no channel heads (entries not replaced by another entry) found in channel \"c\" of package \"p\"",
        ),
        (
            &["v1 v2", "v2 v1", "v3 v2"],
            "a cycle exists in the chain of replacement beginning with \"v3\" in channel \"c\" of package \"p\"",
        ),
        (
            &["a b", "b a"],
            "no channel heads (entries not replaced by another entry) found in channel \"c\" of package \"p\"",
        ),
        (
            &["a b", "b c", "c b"],
            "a cycle exists in the chain of replacement beginning with \"a\" in channel \"c\" of package \"p\"",
        ),
        (
            &["a", "b c", "c"],
            "a unique replacement chain within a channel is required to determine the relative order between channel entries, \
             but 2 replacement chains were found in channel \"c\" of package \"p\": a, b...c",
        ),
        (
            &["a1", "a2 a1", "b1"],
            "a unique replacement chain within a channel is required to determine the relative order between channel entries, \
             but 2 replacement chains were found in channel \"c\" of package \"p\": a2...a1, b1",
        ),
    ] {
        assert_eq!(order(entries), Err(expected.to_owned()), "{entries:?}");
    }
}

#[test]
fn entries_that_do_not_count_are_not_seen_at_all() {
    let package = package(&["v1", "v2 v1", "v3 - v1 v2"]);
    let only = package.in_order("c", |it| it.operator.name == "v1").unwrap();
    assert_eq!(only.iter().map(|it| it.operator.name.as_str()).collect::<Vec<_>>(), ["v1"], "although it is skipped");
}

#[test]
fn entry_follows_what_it_replaces_skips_or_has_in_its_range() {
    let properties = vec![("olm.package".to_owned(), json!({"packageName": "p", "version": "0.9.0"}))];
    let installed = Operator::new("v1", properties, &ClusterVersions::default());
    let range = |range: &str| Entry { skip_range: VersionRange::parse(range).ok(), ..entry("v3") };
    for (entry, expected) in [
        (entry("v2 v1"), true),
        (entry("v3 v2 v1"), true),
        (entry("v3 v2"), false),
        (entry("v3"), false),
        (range("<1.0.0"), true),
        (range("<0.9.0"), false),
        (range("no range"), false),
    ] {
        assert_eq!(entry.follows(&installed), expected, "{entry:?}");
    }
    let unknown = Operator::new("v1", Vec::new(), &ClusterVersions::default());
    assert!(!range("<1.0.0").follows(&unknown), "without a version no range counts");
}

#[test]
fn default_channel_comes_first_and_then_the_others_by_name() {
    let mut package = package(&[]);
    package.channels.extend(["a", "z", "b"].map(|name| (name.to_owned(), Vec::new())));
    assert_eq!(package.channels_in_order().map(|(name, _)| name).collect::<Vec<_>>(), ["c", "a", "b", "z"]);
}

#[test]
fn package_of_an_index_has_channels_entries_and_operators() {
    let bundle = |version: &str| {
        json!({"schema": "olm.bundle", "name": format!("p.v{version}"), "package": "p", "image": format!("quay.io/p@sha256:{}", "0".repeat(64)), "properties": [
            {"type": "olm.package", "value": {"packageName": "p", "version": version}},
            {"type": "olm.gvk", "value": {"group": "g", "version": "v1", "kind": "K"}}]})
    };
    let (content, _) = content(&[
        json!({"schema": "olm.package", "name": "p", "defaultChannel": "stable"}),
        json!({"schema": "olm.channel", "name": "stable", "package": "p", "entries": [
            {"name": "p.v1.0.0"}, {"name": "p.v1.0.1", "replaces": "p.v1.0.0", "skips": ["p.v0.9.0"], "skipRange": "<1.0.0"}]}),
        bundle("1.0.0"),
        bundle("1.0.1"),
    ]);
    let found = Package::of(content.index.package("p").unwrap(), &ClusterVersions::default());
    assert_eq!((found.name.as_str(), found.default_channel.as_str()), ("p", "stable"));
    let entries = found.in_order("stable", |_| true).unwrap();
    let [head, first] = entries.as_slice() else { panic!("{entries:?}") };
    assert_eq!((head.operator.name.as_str(), head.replaces.as_deref()), ("p.v1.0.1", Some("p.v1.0.0")));
    assert_eq!((head.skips.as_slice(), head.skip_range.is_some()), (&["p.v0.9.0".to_owned()][..], true));
    assert_eq!((first.operator.package.as_str(), first.operator.provides.len()), ("p", 1));
}
