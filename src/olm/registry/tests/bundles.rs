use super::*;

fn told(package: &str, channel: &str, bundle: &str) -> Bundle {
    ask(get_bundle(package, channel, bundle), &content(&widgets())).unwrap().pop().unwrap()
}

fn listed(channel: &str, bundle: &str) -> Bundle {
    let all = ask(ListBundlesRequest {}, &content(&widgets())).unwrap();
    all.into_iter().find(|it| it.channel_name == channel && it.csv_name == bundle).unwrap()
}

#[test]
fn bundle_has_identity_image_and_version() {
    let it = told("widgets", "stable", "widgets.v3");
    assert_eq!(
        (it.csv_name.as_str(), it.package_name.as_str(), it.channel_name.as_str()),
        ("widgets.v3", "widgets", "stable")
    );
    assert_eq!((it.bundle_path.as_str(), it.version.as_str()), ("registry.example.com/widgets:3.0.0", "3.0.0"));
}

#[test]
fn bundle_has_provided_and_required_apis() {
    let it = told("widgets", "stable", "widgets.v3");
    let api = |kind: &str| GroupVersionKind {
        group: "example.com".into(),
        version: "v1".into(),
        kind: kind.into(),
        plural: String::new(),
    };
    assert_eq!(it.provided_apis, [api("Widget"), api("Gadget")]);
    assert_eq!(it.required_apis, [api("Gear")]);
}

#[test]
fn properties_are_json_without_manifests_and_metadata() {
    let properties = told("widgets", "stable", "widgets.v3").properties;
    let kinds: Vec<&str> = properties.iter().map(|it| it.r#type.as_str()).collect();
    assert_eq!(
        kinds,
        ["olm.package", "olm.gvk", "olm.gvk", "olm.gvk.required", "olm.package.required", "olm.constraint", "color"]
    );
    assert_eq!(properties[0].value, r#"{"packageName":"widgets","version":"3.0.0"}"#);
    assert_eq!(properties[6].value, r#""red""#);
    let kinds = told("widgets", "stable", "widgets.v2").properties;
    assert_eq!(kinds.iter().map(|it| it.r#type.as_str()).collect::<Vec<_>>(), ["olm.package", "olm.gvk"]);
}

#[test]
fn dependencies_are_required_apis_and_packages_in_their_older_form() {
    let dependencies = told("widgets", "stable", "widgets.v3").dependencies;
    let dependencies: Vec<(&str, &str)> =
        dependencies.iter().map(|it| (it.r#type.as_str(), it.value.as_str())).collect();
    assert_eq!(
        dependencies,
        [
            ("olm.gvk", r#"{"group":"example.com","kind":"Gear","version":"v1"}"#),
            ("olm.package", r#"{"packageName":"gears","version":">=1.0.0"}"#),
        ]
    );
}

#[test]
fn listed_bundle_has_skip_range_replaces_and_skips() {
    let it = listed("stable", "widgets.v3");
    assert_eq!((it.skip_range.as_str(), it.replaces.as_str()), ("<3.0.0", "widgets.v2"));
    assert_eq!(it.skips, ["widgets.v1", "widgets.v2", "widgets.v2.5"]);
    let it = listed("fast", "widgets.v3");
    assert_eq!((it.skip_range.as_str(), it.replaces.as_str(), it.skips.len()), ("", "widgets.v2", 0));
}

#[test]
fn single_bundle_has_no_replaces_and_skips() {
    let it = told("widgets", "stable", "widgets.v3");
    assert_eq!((it.skip_range.as_str(), it.replaces.as_str(), it.skips.len()), ("<3.0.0", "", 0));
}

#[test]
fn listed_bundle_in_an_image_has_no_manifests() {
    let it = listed("stable", "widgets.v3");
    assert_eq!((it.csv_json.as_str(), it.object.len()), ("", 0));
}

#[test]
fn bundle_without_an_image_has_its_manifests_as_json_also_in_the_list() {
    for it in [told("widgets", "stable", "widgets.v2"), listed("stable", "widgets.v2")] {
        assert_eq!(it.bundle_path, "");
        assert_eq!(it.csv_json, CSV);
        let service: Value = serde_json::from_str(&it.object[0]).unwrap();
        assert_eq!(service, json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "widgets"}}));
        assert_eq!((it.object[1].as_str(), it.object.len()), (CSV, 2));
    }
}

#[test]
fn cluster_service_version_is_made_of_metadata_and_what_the_catalog_says_besides() {
    let it = told("widgets", "stable", "widgets.v3");
    let csv: Value = serde_json::from_str(&it.csv_json).unwrap();
    assert_eq!(
        csv,
        json!({
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
            "metadata": {"name": "widgets.v3", "annotations": {"categories": "Tools"}, "labels": {"tier": "gold"}},
            "spec": {
                "displayName": "Widgets", "description": "Of the package.", "version": "3.0.0", "provider": {"name": "Example"},
                "install": {"strategy": "deployment", "spec": {"deployments": null}}, "cleanup": {"enabled": false},
                "customresourcedefinitions": {"owned": [{"name": "widgets.example.com", "version": "v1", "kind": "Widget"}]},
                "apiservicedefinitions": {}, "installModes": [{"type": "AllNamespaces", "supported": true}],
                "icon": [{"base64data": "YWJj", "mediatype": "image/png"}],
                "relatedImages": [{"name": "operand", "image": "registry.example.com/operand:3"}],
            },
        })
    );
    assert_eq!(it.object, std::slice::from_ref(&it.csv_json));
}

#[test]
fn cluster_service_version_without_anything_is_still_one() {
    let blobs = [
        package("a", "x"),
        channel("a", "x", json!([{"name": "a1"}])),
        bundle("a", "a1", "1.0.0", true, &[property("olm.csv.metadata", json!({}))]),
    ];
    let it = ask(get_bundle("a", "x", "a1"), &content(&blobs)).unwrap().pop().unwrap();
    let csv: Value = serde_json::from_str(&it.csv_json).unwrap();
    assert_eq!(
        csv["spec"],
        json!({
            "displayName": "", "version": "1.0.0", "provider": {}, "customresourcedefinitions": {}, "apiservicedefinitions": {},
            "install": {"strategy": "deployment", "spec": {"deployments": null}}, "cleanup": {"enabled": false},
        })
    );
}

#[test]
fn own_text_of_a_version_counts_before_that_of_its_package() {
    let mut blobs = widgets();
    blobs[5]["properties"][6]["value"]["description"] = json!("Its own.");
    let it = ask(get_bundle("widgets", "stable", "widgets.v3"), &content(&blobs)).unwrap().pop().unwrap();
    let csv: Value = serde_json::from_str(&it.csv_json).unwrap();
    assert_eq!(csv["spec"]["description"], "Its own.");
}

#[test]
fn bundle_of_which_the_catalog_knows_nothing_for_people_has_no_cluster_service_version() {
    let it = told("widgets", "stable", "widgets.v1");
    assert_eq!((it.csv_json.as_str(), it.object.len()), ("", 0));
}

#[test]
fn bundle_says_why_it_is_deprecated() {
    assert_eq!(
        told("widgets", "stable", "widgets.v1").deprecation,
        Some(Deprecation { message: "no olm.bundle".into() })
    );
    assert_eq!(told("widgets", "stable", "widgets.v3").deprecation, None);
}

#[test]
fn unknown_package_channel_and_bundle_are_named() {
    let content = content(&widgets());
    assert_eq!(refusal(get_bundle("none", "stable", "widgets.v3"), &content), r#"package "none" not found"#);
    assert_eq!(
        refusal(get_bundle("widgets", "none", "widgets.v3"), &content),
        r#"package "widgets", channel "none" not found"#
    );
    let expected = r#"package "widgets", channel "fast", bundle "widgets.v1" not found"#;
    assert_eq!(refusal(get_bundle("widgets", "fast", "widgets.v1"), &content), expected);
    let long = refusal(get_bundle(&"x".repeat(60_000), "", ""), &content);
    assert!(long.len() < 300, "{}", long.len());
}

#[test]
fn head_of_a_channel_is_told() {
    let content = content(&widgets());
    let head = |channel: &str| GetBundleInChannelRequest { pkg_name: "widgets".into(), channel_name: channel.into() };
    let it = ask(head("fast"), &content).unwrap().pop().unwrap();
    assert_eq!((it.csv_name.as_str(), it.channel_name.as_str()), ("widgets.v3", "fast"));
    assert_eq!(refusal(head("none"), &content), r#"package "widgets", channel "none" not found"#);
}

#[test]
fn what_replaces_a_bundle_counts_before_what_skips_it() {
    let content = content(&widgets());
    let replacing =
        |bundle: &str| ask(get_replacement("widgets", "stable", bundle), &content).unwrap().pop().unwrap().csv_name;
    assert_eq!(replacing("widgets.v2"), "widgets.v3");
    assert_eq!(replacing("widgets.v1"), "widgets.v2");
    assert_eq!(replacing("widgets.v2.5"), "widgets.v3");
    for nothing in ["widgets.v3", "", "other"] {
        let expected = format!("no entry of package \"widgets\", channel \"stable\" replaces {nothing:?}");
        assert_eq!(refusal(get_replacement("widgets", "stable", nothing), &content), expected);
    }
    assert_eq!(refusal(get_replacement("none", "stable", "widgets.v1"), &content), r#"package "none" not found"#);
}

#[test]
fn highest_version_is_told_of_several_that_skip_a_bundle() {
    let entries = json!([
        {"name": "a.v9", "skips": ["a.v0"]}, {"name": "a.v10", "replaces": "a.v9", "skips": ["a.v0"]},
    ]);
    let blobs = [
        package("a", "x"),
        channel("a", "x", entries),
        bundle("a", "a.v9", "9.0.0", true, &[]),
        bundle("a", "a.v10", "10.0.0", true, &[]),
    ];
    let it = ask(get_replacement("a", "x", "a.v0"), &content(&blobs)).unwrap().pop().unwrap();
    assert_eq!(it.csv_name, "a.v10");
}

#[test]
fn of_equal_versions_that_skip_a_bundle_the_last_by_name_is_told_in_whichever_order_they_come() {
    let mut entries = vec![
        json!({"name": "a.v2", "replaces": "a.v1", "skips": ["a.v0"]}),
        json!({"name": "a.v1", "skips": ["a.v0"]}),
    ];
    for _ in 0..2 {
        let blobs = [
            package("a", "x"),
            channel("a", "x", json!(entries)),
            bundle("a", "a.v1", "1.0.0", true, &[]),
            bundle("a", "a.v2", "1.0.0", true, &[]),
        ];
        let content = content_by(Rules::Tolerant, &blobs);
        let it = ask(get_replacement("a", "x", "a.v0"), &content).unwrap().pop().unwrap();
        assert_eq!(it.csv_name, "a.v2", "{entries:?}");
        entries.reverse();
    }
}

#[test]
fn default_bundle_for_an_api_is_the_head_of_a_default_channel() {
    let content = content(&widgets());
    let provider = |kind: &str| GetDefaultProviderRequest {
        group: "example.com".into(),
        version: "v1".into(),
        kind: kind.into(),
        plural: String::new(),
    };
    // The first package by name, of two.
    let it = ask(provider("Widget"), &content).unwrap().pop().unwrap();
    assert_eq!((it.csv_name.as_str(), it.channel_name.as_str()), ("gears.v1", "main"));
    let it = ask(provider("Gadget"), &content).unwrap().pop().unwrap();
    assert_eq!((it.csv_name.as_str(), it.channel_name.as_str()), ("widgets.v3", "stable"));
    let expected = r#"no channel entries found that provide group "example.com", version "v1", kind "Cog""#;
    assert_eq!(refusal(provider("Cog"), &content), expected, "only another channel has it");
}
