use super::*;
use prost::Message;
use prost_types::Struct;
use prost_types::value::Kind;

#[test]
fn all_packages_are_listed() {
    let names = |content: &Content| {
        let all = ask(ListPackageRequest {}, content).unwrap();
        all.into_iter().map(|it| it.name).collect::<Vec<_>>()
    };
    assert_eq!(names(&content(&widgets())), ["gears", "widgets"]);
    assert_eq!(names(&empty()), Vec::<String>::new());
}

#[test]
fn package_has_channels_by_name_their_heads_the_default_and_deprecations() {
    let content = content(&widgets());
    let get = |name: &str| GetPackageRequest { name: name.into() };
    let deprecation = |schema: &str| Some(Deprecation { message: format!("no {schema}") });
    let channel = |name: &str, deprecation| Channel { name: name.into(), csv_name: "widgets.v3".into(), deprecation };
    assert_eq!(
        ask(get("widgets"), &content).unwrap(),
        [Package {
            name: "widgets".into(),
            channels: vec![channel("fast", deprecation("olm.channel")), channel("stable", None)],
            default_channel_name: "stable".into(),
            deprecation: deprecation("olm.package"),
        }]
    );
    assert_eq!(ask(get("gears"), &content).unwrap()[0].deprecation, None);
    assert_eq!(refusal(get("none"), &content), r#"package "none" not found"#);
}

#[test]
fn bundles_are_listed_once_for_each_channel_they_are_in() {
    let all = ask(ListBundlesRequest {}, &content(&widgets())).unwrap();
    let mut names: Vec<_> = all.iter().map(|it| (it.channel_name.as_str(), it.csv_name.as_str())).collect();
    names.sort_unstable();
    assert_eq!(
        names,
        [
            ("fast", "widgets.v3"),
            ("main", "gears.v1"),
            ("old", "gears.v0"),
            ("stable", "widgets.v1"),
            ("stable", "widgets.v2"),
            ("stable", "widgets.v3"),
        ]
    );
    assert!(ask(ListBundlesRequest {}, &empty()).unwrap().is_empty());
}

/// A catalog with one package and so many bundles.
fn large(bundles: usize, text: &str, image: bool) -> Content {
    let name = |at: usize| format!("a.v{at}");
    let entry = |at: usize| match at {
        0 => json!({"name": name(at)}),
        at => json!({"name": name(at), "replaces": name(at - 1)}),
    };
    let mut blobs = vec![package("a", "x"), channel("a", "x", (0..bundles).map(entry).collect())];
    let more = [property("text", json!(text)), object(SERVICE)];
    blobs.extend((0..bundles).map(|at| bundle("a", &name(at), &format!("{at}.0.0"), image, &more)));
    content(&blobs)
}

#[test]
fn part_of_an_answer_is_bounded_by_its_size() {
    let content = large(200, &"x".repeat(1000), true);
    let first = part(&ListBundlesRequest {}, &content, 0).unwrap();
    let size: usize = first.messages.iter().map(Message::encoded_len).sum();
    assert!((60_000..70_000).contains(&size), "{size}");
    assert_eq!(first.next, Some(first.messages.len()));
    assert_eq!(ask(ListBundlesRequest {}, &content).unwrap().len(), 200);
}

#[test]
fn part_of_an_answer_is_bounded_by_the_rows_that_are_looked_at() {
    let content = large(1200, "", true);
    let query = GetAllReplacementsRequest { csv_name: "a.v1100".into() };
    let first = part(&query, &content, 0).unwrap();
    assert_eq!((first.messages.len(), first.next), (0, Some(512)));
    assert_eq!(ask(query, &content).unwrap().len(), 1);
}

#[test]
fn bundle_with_manifests_is_a_part_of_its_own_and_has_a_weight() {
    let (with, without) = (large(3, "", false), large(3, "", true));
    let query = ListBundlesRequest {};
    assert_eq!(part(&query, &with, 0).unwrap().next, Some(1));
    assert_eq!(part(&query, &without, 0).unwrap().next, None);
    let single = get_bundle("a", "x", "a.v1");
    let weights = |content: &Content| (query.weight(content, 0), single.weight(content, 0));
    assert_eq!(weights(&without).0, 0);
    assert!(weights(&with).0 > SERVICE.len() && weights(&without).1 > SERVICE.len());
    assert_eq!((query.weight(&with, 3), get_bundle("b", "x", "").weight(&with, 0)), (0, 0));
}

fn custom(schema: &str, package: &str) -> ExperimentalListPackageCustomSchemasRequest {
    ExperimentalListPackageCustomSchemasRequest { schema: schema.into(), package_name: package.into() }
}

#[test]
fn blobs_of_other_schemas_are_listed_for_a_package_and_for_none() {
    let content = content(&widgets());
    let name = |it: &Struct| match it.fields["name"].kind.clone() {
        Some(Kind::StringValue(name)) => name,
        other => panic!("{other:?}"),
    };
    let names = |package: &str| {
        ask(custom("example.com.notes", package), &content).unwrap().iter().map(name).collect::<Vec<_>>()
    };
    assert_eq!(
        (names("widgets"), names("gears"), names("")),
        (vec!["one".into()], vec!["two".into()], vec!["three".into()])
    );
    assert!(names("other").is_empty());
    assert!(ask(custom("olm.package", "widgets"), &content).unwrap().is_empty());
}

#[test]
fn blob_of_another_schema_is_told_as_it_is() {
    let blob = ask(custom("example.com.notes", "widgets"), &content(&widgets())).unwrap().pop().unwrap();
    let Some(Kind::ListValue(list)) = blob.fields["list"].kind.clone() else { panic!("{blob:?}") };
    let kinds: Vec<Kind> = list.values.into_iter().filter_map(|it| it.kind).collect();
    assert_eq!(kinds[..2], [Kind::NumberValue(1.0), Kind::NullValue(0)]);
    let Kind::StructValue(inner) = &kinds[2] else { panic!("{kinds:?}") };
    assert_eq!(inner.fields["a"].kind, Some(Kind::BoolValue(true)));
    assert_eq!(blob.fields.len(), 4);
}

#[test]
fn names_of_schemas_and_packages_are_checked() {
    let content = content(&widgets());
    for (schema, package, field) in
        [("", "", "schema"), ("a/b", "", "schema"), ("../a", "", "schema"), ("a", "-b", "packageName")]
    {
        let refused = ask(custom(schema, package), &content);
        assert!(matches!(refused, Err(QueryError::Invalid { field: found, .. }) if found == field), "{refused:?}");
    }
}

#[test]
fn blob_of_another_schema_that_is_large_is_refused() {
    let blob = |length: usize| json!({"schema": "notes", "name": "large", "text": "x".repeat(length)});
    let ask_for = |length: usize| ask(custom("notes", ""), &content(&[blob(length)]));
    assert_eq!(ask_for((1 << 20) - 100).unwrap().len(), 1);
    let refused = ask_for(1 << 20).unwrap_err().to_string();
    assert_eq!(
        refused,
        r#""large" of schema "notes" has more than 1048576 bytes; read it from the image of the catalog"#
    );
}
