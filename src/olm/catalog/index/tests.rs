use super::*;
use crate::olm::catalog::builder::Catalog;
use crate::olm::catalog::builder::tests::{bundle, channel, package, read};
use crate::olm::catalog::record::StoredKind;
use proptest::prelude::*;
use serde_json::{Value, json};

/// A bundle with APIs, an icon and more.
fn whole() -> Catalog<Vec<u8>> {
    let gvk = |kind: &str| json!({"version": "v1", "group": "g.example.com", "kind": kind});
    let mut first = bundle("a", "a.v1", "1.0.0");
    let properties = first["properties"].as_array_mut().unwrap();
    properties.push(json!({"type": "olm.gvk", "value": gvk("K")}));
    properties.push(json!({"type": "olm.gvk.required", "value": gvk("R")}));
    properties.push(json!({"type": "olm.csv.metadata", "value": {"displayName": "A"}}));
    properties.push(json!({"type": "olm.bundle.object", "value": {"data": "e30="}}));
    first["relatedImages"] = json!([{"name": "x", "image": "y"}]);
    let mut second = bundle("a", "a.v2", "2.0.0");
    // The same API in another order of its keys.
    let api = json!({"type": "olm.gvk", "value": "API"}).to_string();
    second["properties"].as_array_mut().unwrap().push(json!({"type": "color", "value": "red"}));
    let second = second.to_string().replace(
        &json!({"type": "color", "value": "red"}).to_string(),
        &api.replace("\"API\"", r#"{ "kind": "K", "version": "v1", "group": "g.example.com" }"#),
    );
    let icon = json!({"base64data": "YWJj", "mediatype": "image/png"});
    let entries = json!([
        {"name": "a.v2", "replaces": "a.v1", "skips": ["a.v0", "a.v0.5"], "skipRange": "<2.0.0"}, {"name": "a.v1"},
    ]);
    let message =
        |schema: &str, name: &str, text: &str| json!({"reference": {"schema": schema, "name": name}, "message": text});
    let blobs = [
        json!({"schema": "olm.package", "name": "a", "defaultChannel": "stable", "description": "d", "icon": icon,
            "properties": [{"type": "p", "value": 1}]}),
        json!({"schema": "olm.channel", "package": "a", "name": "stable", "entries": entries,
            "properties": [{"type": "c", "value": 2}]}),
        channel("a", "fast", &["a.v2"]),
        first,
        json!({"schema": "olm.deprecations", "package": "a", "entries": [
            message("olm.package", "", "p!"), message("olm.channel", "fast", "c!"), message("olm.bundle", "a.v1", "b!"),
        ]}),
        package("b", "x"),
        channel("b", "x", &["a.v1"]),
        bundle("b", "a.v1", "0.1.0"),
        json!({"schema": "example.com/x", "package": "a", "name": "two", "value": 2}),
        json!({"schema": "example.com/x", "package": "a", "name": "one", "value": 1}),
        json!({"schema": "example.com/y", "name": "three"}),
        // Not served, and no string of it stays.
        package("sick", "nowhere"),
        json!({"schema": "example.com/x", "package": "sick", "name": "four"}),
    ];
    let text: String = blobs.iter().map(Value::to_string).collect();
    read(&[("all.json", &(text + &second))])
}

fn json_of<'a>(catalog: &'a Catalog<Vec<u8>>, stored: Stored<'_>) -> &'a str {
    let start = usize::try_from(stored.offset()).unwrap();
    let bytes = &catalog.data[start..start + stored.length()];
    stored.json(bytes).unwrap();
    std::str::from_utf8(bytes).unwrap()
}

#[test]
fn packages_and_their_channels_are_found() {
    let catalog = whole();
    let index = &catalog.index;
    assert_eq!(index.packages().map(Package::name).collect::<Vec<_>>(), ["a", "b"]);
    assert!(["", "aa", "c", "sick", "stable"].iter().all(|name| index.package(name).is_none()));
    let a = index.package("a").unwrap();
    assert_eq!(a.default_channel().unwrap().name(), "stable");
    assert_eq!(a.channels().map(Channel::name).collect::<Vec<_>>(), ["fast", "stable"]);
    assert_eq!(a.properties().map(|it| (it.kind(), it.value())).collect::<Vec<_>>(), [("p", "1")]);
    let stable = a.channel("stable").unwrap();
    assert_eq!(stable.properties().map(|it| (it.kind(), it.value())).collect::<Vec<_>>(), [("c", "2")]);
    assert_eq!(stable.head().unwrap().name(), "a.v2");
    assert_eq!(stable.package().unwrap().name(), "a");
    assert_eq!(
        index.package("b").unwrap().channels().map(|it| it.head().unwrap().name()).collect::<Vec<_>>(),
        ["a.v1"]
    );
    assert!(a.channel("x").is_none());
}

#[test]
fn entries_say_what_they_replace_and_skip() {
    let catalog = whole();
    let entries: Vec<Entry<'_>> = catalog.index.package("a").unwrap().channel("stable").unwrap().entries().collect();
    assert_eq!(entries.iter().map(|it| it.name()).collect::<Vec<_>>(), ["a.v2", "a.v1"]);
    assert_eq!((entries[0].replaces(), entries[0].skip_range()), (Some("a.v1"), Some("<2.0.0")));
    assert_eq!(entries[0].skips().collect::<Vec<_>>(), ["a.v0", "a.v0.5"]);
    assert_eq!((entries[1].replaces(), entries[1].skip_range(), entries[1].skips().count()), (None, None, 0));
}

#[test]
fn bundles_of_a_package_are_found_by_name() {
    let catalog = whole();
    let a = catalog.index.package("a").unwrap();
    assert_eq!(a.bundles().map(Bundle::name).collect::<Vec<_>>(), ["a.v1", "a.v2"]);
    let second = a.bundle("a.v2").unwrap();
    assert_eq!((second.version(), second.image(), second.release()), ("2.0.0", Some("a/b"), None));
    assert_eq!(catalog.index.package("b").unwrap().bundle("a.v1").unwrap().version(), "0.1.0");
    assert!(a.bundle("a.v3").is_none() && a.bundle("b").is_none());
}

#[test]
fn entries_that_replace_or_skip_a_name_are_found_in_all_channels() {
    let catalog = whole();
    let replacing = |name: &str| {
        let entries = catalog.index.replacing(name);
        entries.map(|it| format!("{} {}", it.channel().unwrap().name(), it.name())).collect::<Vec<_>>()
    };
    assert_eq!(replacing("a.v1"), ["stable a.v2"]);
    assert_eq!(replacing("a.v0.5"), ["stable a.v2"]);
    assert_eq!(replacing("a.v2"), Vec::<String>::new());
    assert_eq!(replacing(""), Vec::<String>::new());
}

#[test]
fn bundles_that_provide_an_api_are_found_however_it_is_written() {
    let catalog = whole();
    let api = |kind| Api { group: "g.example.com", version: "v1", kind };
    let names = |kind| catalog.index.providing(api(kind)).map(Bundle::name).collect::<Vec<_>>();
    assert_eq!(names("K"), ["a.v1", "a.v2"]);
    assert!(names("R").is_empty() && names("").is_empty());
    let first = catalog.index.package("a").unwrap().bundle("a.v1").unwrap();
    assert_eq!(first.provided().collect::<Vec<_>>(), [api("K")]);
    assert_eq!(first.required().collect::<Vec<_>>(), [api("R")]);
}

#[test]
fn deprecations_are_told_of_package_channel_and_bundle() {
    let catalog = whole();
    let a = catalog.index.package("a").unwrap();
    assert_eq!(a.deprecation(), Some("p!"));
    assert_eq!(a.channels().map(Channel::deprecation).collect::<Vec<_>>(), [Some("c!"), None]);
    assert_eq!(a.bundles().map(Bundle::deprecation).collect::<Vec<_>>(), [Some("b!"), None]);
    let b = catalog.index.package("b").unwrap();
    assert_eq!((b.deprecation(), b.bundle("a.v1").unwrap().deprecation()), (None, None));
}

#[test]
fn what_is_large_lies_in_the_data_file() {
    let catalog = whole();
    let a = catalog.index.package("a").unwrap();
    let first = a.bundle("a.v1").unwrap();
    let kinds: Vec<&str> = first.properties().map(Property::kind).collect();
    assert_eq!(kinds, ["olm.package", "olm.gvk", "olm.gvk.required"]);
    for (kind, expected) in [
        (StoredKind::Metadata, r#"{"displayName":"A"}"#),
        (StoredKind::Object, r#"{"data":"e30="}"#),
        (StoredKind::RelatedImages, r#"[{"image":"y","name":"x"}]"#),
    ] {
        let found: Vec<&str> = first.stored(kind).map(|stored| json_of(&catalog, stored)).collect();
        assert_eq!(found, [expected]);
        assert_eq!(a.bundle("a.v2").unwrap().stored(kind).count(), 0);
    }
    assert_eq!(json_of(&catalog, a.stored(StoredKind::Description).unwrap()), "\"d\"");
    let icon = json_of(&catalog, a.stored(StoredKind::Icon).unwrap());
    assert_eq!(icon, r#"{"base64data":"YWJj","mediatype":"image/png"}"#);
    assert_eq!(catalog.index.data_length(), catalog.data.len() as u64);
}

#[test]
fn data_that_was_changed_is_noticed() {
    let catalog = whole();
    let stored = catalog.index.package("a").unwrap().stored(StoredKind::Icon).unwrap();
    let start = usize::try_from(stored.offset()).unwrap();
    let mut bytes = catalog.data[start..start + stored.length()].to_vec();
    assert!(stored.json(&bytes).is_ok() && stored.json(&bytes[1..]).is_err() && stored.json(&[]).is_err());
    bytes[3] ^= 1;
    assert!(matches!(stored.json(&bytes), Err(IndexError::Data)));
}

#[test]
fn blobs_of_unknown_schemas_are_kept_by_schema_and_package() {
    let catalog = whole();
    let names = |schema, package| catalog.index.custom(schema, package).map(Custom::name).collect::<Vec<_>>();
    assert_eq!(names("example.com/x", "a"), ["one", "two"]);
    assert_eq!(names("example.com/x", ""), ["one", "two"], "none of a package that is not served");
    assert_eq!(names("example.com/y", ""), ["three"]);
    assert!(names("example.com/x", "b").is_empty() && names("olm.package", "").is_empty());
    let one = catalog.index.custom("example.com/x", "a").next().unwrap();
    let blob = json!({"schema": "example.com/x", "package": "a", "name": "one", "value": 1});
    assert_eq!(json_of(&catalog, one.blob().unwrap()), blob.to_string());
    assert_eq!(catalog.index.all_custom().count(), 3);
}

#[test]
fn nothing_is_left_of_packages_that_are_not_served() {
    let catalog = whole();
    assert_eq!(catalog.sick.iter().map(|it| it.package.as_str()).collect::<Vec<_>>(), ["sick"]);
    assert!(catalog.index.strings.find("sick").is_none() && catalog.index.strings.find("nowhere").is_none());
}

fn written(index: &Index) -> Vec<u8> {
    let mut bytes = Vec::new();
    index.write(&mut bytes).unwrap();
    bytes
}

#[test]
fn index_is_read_as_it_was_written() {
    for index in [whole().index, Index::default()] {
        assert_eq!(Index::read(written(&index).as_slice()).unwrap(), index);
    }
}

#[test]
fn truncated_index_is_an_error() {
    let bytes = written(&whole().index);
    for length in 0..bytes.len() {
        assert!(Index::read(&bytes[..length]).is_err(), "{length}");
    }
    assert!(Index::read([bytes.as_slice(), &[0]].concat().as_slice()).is_err());
}

#[test]
fn index_with_a_changed_bit_is_an_error() {
    let bytes = written(&whole().index);
    for at in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[at] ^= 1 << (at % 8);
        assert!(Index::read(changed.as_slice()).is_err(), "{at}");
    }
}

#[test]
fn foreign_bytes_are_an_error() {
    for (bytes, expected) in [(&b""[..], "no index"), (b"{}", "no index"), (b"cvo catalog 0000", "no index")] {
        assert!(Index::read(bytes).unwrap_err().to_string().contains(expected));
    }
    assert!(matches!(Index::read(std::io::repeat(b'x')), Err(IndexError::TooLarge)));
}

/// With the checksum of whatever the bytes are.
fn sealed(content: &[u8]) -> Vec<u8> {
    use sha2::{Digest, Sha256};
    [content, &Sha256::digest(content)[..]].concat()
}

/// Asks everything that an index can be asked.
fn ask(index: &Index) {
    let mut seen = 0;
    for package in index.packages() {
        seen += package.name().len() + package.default_channel().map_or(0, |it| it.name().len());
        seen += package.properties().filter(|it| it.api().is_some()).count() + package.bundles().count();
        seen += package.stored(StoredKind::Icon).map_or(0, |it| it.length() + it.json(b"x").map_or(0, str::len));
        for channel in package.channels() {
            seen += channel.head().map_or(0, |it| it.name().len()) + channel.package().map_or(0, |it| it.name().len());
            seen += channel.entries().flat_map(Entry::skips).map(str::len).sum::<usize>();
        }
    }
    for bundle in index.bundles() {
        seen += bundle.provided().chain(bundle.required()).count() + bundle.stored(StoredKind::Metadata).count();
        seen += index.replacing(bundle.name()).count() + bundle.package().map_or(0, |it| it.name().len());
    }
    seen += index.all_custom().filter(|it| it.blob().is_some()).count() + index.custom("x", "y").count();
    std::hint::black_box(seen);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn damaged_tables_never_panic(changes in prop::collection::vec((0..10_000_usize, any::<u8>()), 1..20), cut in 0..10_000_usize) {
        let mut bytes = written(&whole().index);
        bytes.truncate(bytes.len() - 32);
        for (at, byte) in changes {
            let at = 16 + at % (bytes.len() - 16);
            bytes[at] = byte;
        }
        if cut < bytes.len() && cut > 16 {
            bytes.truncate(cut);
        }
        if let Ok(index) = Index::read(sealed(&bytes).as_slice()) {
            ask(&index);
        }
    }

    #[test]
    fn random_bytes_are_no_index(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(Index::read(bytes.as_slice()).is_err());
        let with_format = [b"cvo catalog 0001".as_slice(), &bytes].concat();
        if let Ok(index) = Index::read(sealed(&with_format).as_slice()) {
            ask(&index);
        }
    }

    #[test]
    fn random_catalogs_are_read_as_they_were_written(
        packages in prop::collection::vec(prop::collection::vec((0..4_usize, "[a-z]{0,3}"), 1..6), 0..6),
    ) {
        let mut blobs = Vec::new();
        for (number, bundles) in packages.iter().enumerate() {
            let name = format!("p{number}");
            blobs.push(package(&name, "x"));
            let names: Vec<String> = (0..bundles.len()).map(|at| format!("{name}.v{at}")).collect();
            blobs.push(channel(&name, "x", &names.iter().map(String::as_str).collect::<Vec<_>>()));
            for (at, (apis, text)) in bundles.iter().enumerate() {
                let mut blob = bundle(&name, &names[at], &format!("{at}.0.0"));
                let properties = blob["properties"].as_array_mut().unwrap();
                let api = |api: usize| json!({"type": "olm.gvk", "value": {"group": "g", "version": "v1", "kind": format!("K{api}")}});
                properties.extend((0..*apis).map(api));
                properties.push(json!({"type": "text", "value": text}));
                blobs.push(blob);
            }
            blobs.push(json!({"schema": "own", "package": name, "name": names[0]}));
        }
        let text: String = blobs.iter().map(Value::to_string).collect();
        let catalog = read(&[("a", &text)]);
        prop_assert_eq!(catalog.fault_count, 0);
        let again = Index::read(written(&catalog.index).as_slice()).unwrap();
        prop_assert_eq!(&again, &catalog.index);
        let counts = again.counts();
        prop_assert_eq!((counts.packages, counts.bundles), (packages.len(), packages.iter().map(Vec::len).sum()));
        for (number, bundles) in packages.iter().enumerate() {
            let found = again.package(&format!("p{number}")).unwrap();
            for (at, (apis, text)) in bundles.iter().enumerate() {
                let found = found.bundle(&format!("p{number}.v{at}")).unwrap();
                prop_assert_eq!(found.provided().count(), *apis);
                let value = json!(text).to_string();
                prop_assert_eq!(found.properties().last().map(|it| it.value()), Some(value.as_str()));
            }
        }
        ask(&again);
    }
}
