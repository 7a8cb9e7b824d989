use super::*;
use base64::Engine;
use serde_json::{Value, json};

/// What is wrong with a blob by itself.
fn reasons(blob: &Value) -> Vec<String> {
    let text = blob.to_string();
    Record::parse(&text).unwrap().reasons.iter().map(ToString::to_string).collect()
}

/// A bundle that is right, with these members instead of its own ones. `null` removes one.
fn bundle(members: Value) -> Value {
    let mut blob = json!({
        "schema": "olm.bundle", "package": "a", "name": "a.v1.0.0", "image": "quay.io/a/b:1",
        "properties": [{"type": "olm.package", "value": {"packageName": "a", "version": "1.0.0"}}],
    });
    for (name, value) in members.as_object().unwrap() {
        blob[name] = value.clone();
    }
    blob
}

fn with_property(property: Value) -> Value {
    let own = json!({"type": "olm.package", "value": {"packageName": "a", "version": "1.0.0"}});
    bundle(json!({"properties": [own, property]}))
}

fn refused(blob: &Value, expected: &str) {
    let reasons = reasons(blob);
    assert!(reasons.len() == 1 && reasons[0].contains(expected), "{blob}: {reasons:?} instead of {expected:?}");
}

#[test]
fn right_blobs_have_no_faults() {
    for blob in [
        bundle(json!({})),
        json!({"schema": "olm.package", "name": "a-1", "defaultChannel": "x", "description": "d",
            "icon": {"base64data": "YWJj", "mediatype": "image/png"}, "properties": [{"type": "x", "value": 1}]}),
        json!({"schema": "olm.package", "name": "a", "icon": {"base64data": "", "mediatype": ""}, "properties": null}),
        json!({"schema": "olm.channel", "package": "a", "name": "x", "entries": [
            {"name": "b", "replaces": "a", "skips": ["c"], "skipRange": "<1.0.0"}]}),
        json!({"schema": "olm.deprecations", "package": "a", "entries": [
            {"reference": {"schema": "olm.package"}, "message": "m"},
            {"reference": {"schema": "olm.channel", "name": "x"}, "message": "m"},
            {"reference": {"schema": "olm.bundle", "name": "x"}, "message": "m"}]}),
        json!({"schema": "example.com/anything", "properties": 1, "entries": {}, "name": "", "image": []}),
    ] {
        assert_eq!(reasons(&blob), Vec::<String>::new(), "{blob}");
    }
}

#[test]
fn schema_package_and_name_are_found_in_any_case() {
    let record =
        Record::parse(r#"{"SCHEMA": "olm.deprecations", "Package": "p", "nAME": "n", "Entries": []}"#).unwrap();
    assert_eq!((&*record.schema, &*record.package, &*record.name), ("olm.deprecations", "p", "n"));
    assert!(record.reasons.is_empty());
}

#[test]
fn two_spellings_of_a_key_are_refused() {
    for blob in [
        json!({"schema": "x", "Schema": "x"}),
        json!({"schema": "x", "package": "a", "PACKAGE": "a"}),
        json!({"schema": "x", "name": "a", "Name": "a"}),
        json!({"schema": "x", "anything": "a", "Anything": "a"}),
    ] {
        refused(&blob, "two spellings");
    }
}

#[test]
fn missing_schema_is_refused() {
    refused(&json!({"name": "a", "package": "b"}), "schema is missing");
    refused(&json!({"schema": "", "name": "a"}), "schema is missing");
    refused(&json!({"schema": null, "name": "a"}), "schema is missing");
    refused(&json!({"schema": 1, "package": "b"}), "schema: invalid type: integer");
}

#[test]
fn unknown_schema_is_kept_as_it_is() {
    let text =
        r#"{ "schema": "example.com/x", "package": "p", "name": 	"n", "what": [ever] }"#.replace("[ever]", "[1]");
    let record = Record::parse(&text).unwrap();
    assert!(matches!(record.content, Content::Custom));
    assert_eq!((record.json, &*record.package, &*record.name), (text.as_str(), "p", "n"));
}

#[test]
fn blob_of_a_known_schema_needs_name_and_package() {
    refused(&json!({"schema": "olm.package"}), "no name");
    refused(&json!({"schema": "olm.channel", "name": "x", "entries": [{"name": "a"}]}), "no package");
    refused(&bundle(json!({"name": ""})), "no name");
    refused(&json!({"schema": "olm.deprecations"}), "no package");
}

#[test]
fn name_of_a_package_is_a_label() {
    let long = "a".repeat(64);
    for name in ["A", "a.b", "a_b", "-a", "a-", long.as_str()] {
        refused(&json!({"schema": "olm.package", "name": name}), "is not the name of a package");
    }
}

#[test]
fn icon_must_be_base64() {
    let icon = |icon: Value| json!({"schema": "olm.package", "name": "a", "icon": icon});
    refused(&icon(json!({"base64data": "%", "mediatype": "image/png"})), "icon: base64data: it is not base64");
    refused(&icon(json!({"base64data": 1})), "icon: base64data");
    refused(&icon(json!("x")), "icon: invalid type: string");
}

#[test]
fn icon_and_description_are_left_where_they_are() {
    let text = r#"{"schema": "olm.package", "name": "a", "description": "d", "icon": {"base64data": "YWJj"}}"#;
    let record = Record::parse(text).unwrap();
    let stored: Vec<_> = record.stored.iter().map(|it| (it.kind, it.json)).collect();
    assert_eq!(stored, [(StoredKind::Description, "\"d\""), (StoredKind::Icon, "{\"base64data\": \"YWJj\"}")]);
}

#[test]
fn bundle_has_exactly_one_property_with_its_package() {
    refused(&bundle(json!({"properties": []})), "has 0 properties of type olm.package");
    refused(&bundle(json!({"properties": null})), "has 0 properties of type olm.package");
    let again = json!({"type": "olm.package", "value": {"packageName": "a", "version": "1.0.0"}});
    refused(&with_property(again), "has 2 properties of type olm.package");
}

#[test]
fn package_of_the_property_is_that_of_the_bundle() {
    refused(&bundle(json!({"package": "b"})), "names the package \"a\", but it belongs to \"b\"");
}

#[test]
fn version_of_a_bundle_is_strict() {
    for version in ["v1.0.0", "1.0", "01.0.0", "", "1.0.0.0", "1.0.0-01"] {
        let property = json!([{"type": "olm.package", "value": {"packageName": "a", "version": version}}]);
        refused(&bundle(json!({"properties": property})), "is not MAJOR.MINOR.PATCH");
    }
}

#[test]
fn image_of_a_bundle_is_a_pull_spec_or_it_has_objects() {
    refused(&bundle(json!({"image": "https://quay.io/a"})), "is not a pull spec");
    refused(&bundle(json!({"image": ""})), "neither an image nor");
    let mut blob = with_property(json!({"type": "olm.bundle.object", "value": {"data": "e30="}}));
    blob["image"] = Value::Null;
    assert_eq!(reasons(&blob), Vec::<String>::new());
}

#[test]
fn release_decides_the_name_and_excludes_build_metadata() {
    let released = |name: &str, version: &str, release: Value| {
        let value = json!({"packageName": "a", "version": version, "release": release});
        bundle(json!({"name": name, "properties": [{"type": "olm.package", "value": value}]}))
    };
    assert_eq!(reasons(&released("a-v1.0.0-2", "1.0.0", json!("2"))), Vec::<String>::new());
    assert_eq!(reasons(&released("a-v1.0.0-rc.1-2.b", "1.0.0-rc.1", json!("2.b"))), Vec::<String>::new());
    refused(&released("a.v1.0.0", "1.0.0", json!("2")), "its name must be a-v1.0.0-2");
    refused(&released("a-v1.0.0+b-2", "1.0.0+b", json!("2")), "must have no build metadata");
    for release in ["02", "a..b", "a b", "a_b", &"1".repeat(21)] {
        refused(&released("a-v1.0.0-2", "1.0.0", json!(release)), "its release");
    }
    let number = reasons(&released("a-v1.0.0-2", "1.0.0", json!(2)));
    assert!(number[0].contains("properties[0] of type olm.package: release: invalid type"), "{number:?}");
}

#[test]
fn property_has_a_value_and_its_type_is_a_text() {
    assert_eq!(reasons(&with_property(json!({"value": 1}))), Vec::<String>::new());
    refused(&with_property(json!({"type": "x"})), "properties[1] has no value");
    assert_eq!(reasons(&with_property(json!({"type": "x", "value": null}))), Vec::<String>::new());
    refused(&with_property(json!({"type": 1, "value": 1})), "properties[1].type: invalid type: integer");
    refused(&with_property(json!("x")), "properties[1]: invalid type: string");
}

#[test]
fn property_in_the_nested_form_is_refused_with_the_way_out() {
    refused(&with_property(json!({"property": {"type": "x", "value": 1}})), "write its type and value directly");
}

/// A bundle with this property: whether it is right, and then what it keeps in memory and what not.
fn property(kind: &str, value: Value) -> Result<(Vec<String>, Vec<String>), String> {
    let text = with_property(json!({"type": kind, "value": value})).to_string();
    let record = Record::parse(&text).unwrap();
    if let Some(reason) = record.reasons.first() {
        return Err(reason.to_string());
    }
    let Content::Bundle { properties, .. } = &record.content else { panic!("{record:?}") };
    let kept = properties.iter().skip(1).map(|it| format!("{} {}", it.kind, it.compact())).collect();
    Ok((kept, record.stored.iter().map(|it| format!("{:?} {}", it.kind, it.json)).collect()))
}

fn kept(kind: &str, value: Value) {
    assert_eq!(property(kind, value.clone()), Ok((vec![format!("{kind} {value}")], vec![])));
}

#[test]
fn property_olm_gvk_is_an_api() {
    kept("olm.gvk", json!({"group": "g", "kind": "K", "version": "v1"}));
    assert!(
        property("olm.gvk", json!("K")).unwrap_err().contains("properties[1] of type olm.gvk: value: invalid type")
    );
    assert!(property("olm.gvk", json!({"group": "g", "version": 1})).unwrap_err().contains("version: invalid type"));
}

#[test]
fn property_olm_gvk_required_is_an_api() {
    kept("olm.gvk.required", json!({"group": "etcd.database.coreos.com", "kind": "EtcdCluster", "version": "v1beta2"}));
    assert!(property("olm.gvk.required", json!([])).is_err());
}

#[test]
fn property_olm_package_required_is_a_package_and_a_range() {
    kept("olm.package.required", json!({"packageName": "prometheus", "versionRange": ">0.27.0"}));
    assert!(property("olm.package.required", json!({"packageName": 1})).is_err());
}

#[test]
fn properties_olm_label_olm_constraint_and_all_others_are_kept_as_they_are() {
    for kind in
        ["olm.label", "olm.label.required", "olm.constraint", "olm.maxOpenShiftVersion", "olm.deprecated", "color"]
    {
        for value in [json!({"label": "x"}), json!("4.9"), json!(4.9), json!({}), json!([{"a": [null]}])] {
            kept(kind, value);
        }
    }
    kept("olm.kubeversion", json!({"version": "1.16.0"}));
}

#[test]
fn property_olm_csv_metadata_is_left_where_it_is() {
    let value = json!({"displayName": "A", "installModes": []});
    assert_eq!(property("olm.csv.metadata", value.clone()), Ok((vec![], vec![format!("Metadata {value}")])));
    assert!(property("olm.csv.metadata", json!("x")).is_err());
}

#[test]
fn property_olm_bundle_object_is_base64_and_left_where_it_is() {
    let value = json!({"data": "e30=\n"});
    assert_eq!(property("olm.bundle.object", value.clone()), Ok((vec![], vec![format!("Object {value}")])));
    let object = |text: &str| json!({"data": base64::engine::general_purpose::STANDARD.encode(text)});
    assert!(property("olm.bundle.object", object("kind: A\nmetadata: {name: a}\n")).is_ok());
    let error = property("olm.bundle.object", object("a: 'b")).unwrap_err();
    assert!(error.contains("type olm.bundle.object: data: it is no manifest: line"), "{error}");
    for value in [json!({"data": "%"}), json!({"ref": "objects/a.json"}), json!({"data": {}}), json!(null)] {
        assert!(property("olm.bundle.object", value).unwrap_err().contains("data: "));
    }
}

#[test]
fn blanks_of_a_kept_property_are_removed() {
    let text = r#"{"schema": "olm.bundle", "package": "a", "name": "a.v1.0.0", "image": "a", "properties": [
        {"type": "olm.package", "value": {"packageName": "a", "version": "1.0.0"}}, {"type": "x", "value": [ 1, " 2 " ]}]}"#;
    let record = Record::parse(text).unwrap();
    let Content::Bundle { properties, .. } = &record.content else { panic!("{record:?}") };
    assert_eq!(properties[1].compact(), r#"[1," 2 "]"#);
}

#[test]
fn related_images_are_left_where_they_are() {
    let images = json!([{"name": "x", "image": "y"}]);
    let text = bundle(json!({"relatedImages": images})).to_string();
    let stored = Record::parse(&text).unwrap().stored;
    assert_eq!(
        stored.iter().map(|it| (it.kind, it.json)).collect::<Vec<_>>(),
        [(StoredKind::RelatedImages, images.to_string().as_str())]
    );
    refused(&bundle(json!({"relatedImages": {}})), "relatedImages: invalid type");
    refused(
        &bundle(json!({"relatedImages": [{"image": ""}, {"image": "A"}]})),
        "relatedImages[1]: its image \"A\" is not",
    );
    refused(&bundle(json!({"relatedImages": ["x"]})), "relatedImages[0]: invalid type");
}

#[test]
fn channel_with_a_faulty_graph_is_refused() {
    let channel = |entries: Value| json!({"schema": "olm.channel", "package": "a", "name": "x", "entries": entries});
    refused(&channel(json!([{"name": "a"}, {"name": "b"}])), "2 heads");
    refused(&channel(json!({})), "entries: invalid type");
    refused(&channel(json!(["a"])), "entries[0]: invalid type");
    refused(&channel(json!([{"name": "a", "skips": "b"}])), "skips: invalid type");
}

fn deprecations(entries: Value) -> Value {
    json!({"schema": "olm.deprecations", "package": "a", "entries": entries})
}

#[test]
fn deprecation_needs_a_message() {
    let entry = json!({"reference": {"schema": "olm.package"}, "message": ""});
    refused(&deprecations(json!([entry])), "entries[0]: its message is empty");
}

#[test]
fn deprecation_refers_to_package_channel_or_bundle() {
    for (reference, expected) in [
        (json!({"schema": "olm.package", "name": "a"}), "has no name; remove it"),
        (json!({"schema": "olm.channel"}), "reference to an olm.channel has no name"),
        (json!({"schema": "olm.bundle", "name": ""}), "reference to an olm.bundle has no name"),
        (json!({"schema": "olm.other", "name": "x"}), "schema \"olm.other\""),
        (Value::Null, "schema \"\""),
        (json!("x"), "reference: invalid type"),
    ] {
        refused(&deprecations(json!([{"reference": reference, "message": "m"}])), expected);
    }
}

#[test]
fn nothing_is_deprecated_twice() {
    let entry = json!({"reference": {"schema": "olm.bundle", "name": "x"}, "message": "m"});
    refused(&deprecations(json!([entry, entry])), "entries[1]: olm.bundle x is deprecated twice");
    let package = json!({"reference": {"schema": "olm.package"}, "message": "m"});
    refused(&deprecations(json!([package, package])), "entries[1]: the olm.package is deprecated twice");
}

#[test]
fn blob_is_named_by_schema_and_name() {
    let label = |blob: Value| {
        let text = blob.to_string();
        Record::parse(&text).unwrap().label()
    };
    assert_eq!(label(bundle(json!({}))), "olm.bundle a.v1.0.0");
    assert_eq!(label(deprecations(json!([]))), "olm.deprecations a");
    assert_eq!(label(json!({"schema": "x"})), "x");
}
