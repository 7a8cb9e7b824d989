use super::*;
use crate::olm::catalog::blobs::{Blobs, BlobsError};
use crate::olm::catalog::index::Package;
use proptest::prelude::*;
use serde_json::{Value, json};

/// Reads files as a server does.
pub(crate) fn read(files: &[(&str, &str)]) -> Catalog<Vec<u8>> {
    read_by(Rules::Files, files)
}

fn read_by(rules: Rules, files: &[(&str, &str)]) -> Catalog<Vec<u8>> {
    let (mut builder, mut json) = (CatalogBuilder::by(rules, Vec::new()), Vec::new());
    for (name, text) in files {
        let file = builder.file((*name).to_owned()).unwrap();
        let mut blobs = Blobs::new(text.as_bytes());
        loop {
            match blobs.next_document() {
                Ok(Some(document)) => builder.add(file, document.decode(&mut json)).unwrap(),
                Ok(None) => break,
                Err(BlobsError::TooLarge { line }) => builder.unreadable(file, line, Reason::TooLarge { limit: 0 }),
                Err(BlobsError::Io(error)) => panic!("{error}"),
            }
        }
    }
    builder.finish().unwrap()
}

pub(crate) fn package(name: &str, default: &str) -> Value {
    json!({"schema": "olm.package", "name": name, "defaultChannel": default})
}

/// Entries as a list of names, each replacing the one before it.
pub(crate) fn channel(package: &str, name: &str, entries: &[&str]) -> Value {
    let entry = |at: usize| match at.checked_sub(1) {
        Some(before) => json!({"name": entries[at], "replaces": entries[before]}),
        None => json!({"name": entries[at]}),
    };
    let entries: Vec<Value> = (0..entries.len()).map(entry).collect();
    json!({"schema": "olm.channel", "package": package, "name": name, "entries": entries})
}

pub(crate) fn bundle(package: &str, name: &str, version: &str) -> Value {
    let identity = json!({"type": "olm.package", "value": {"packageName": package, "version": version}});
    json!({"schema": "olm.bundle", "package": package, "name": name, "image": "a/b", "properties": [identity]})
}

fn deprecations(package: &str, targets: &[(&str, &str)]) -> Value {
    let entry = |(schema, name): &(&str, &str)| json!({"reference": {"schema": schema, "name": name}, "message": format!("no {name}")});
    json!({"schema": "olm.deprecations", "package": package, "entries": targets.iter().map(entry).collect::<Vec<_>>()})
}

/// A package `a` without faults: `a1` and `a2` in the channel `x`.
fn right() -> Vec<Value> {
    vec![package("a", "x"), channel("a", "x", &["a1", "a2"]), bundle("a", "a1", "1.0.0"), bundle("a", "a2", "2.0.0")]
}

fn lines(blobs: &[Value]) -> String {
    blobs.iter().map(|blob| blob.to_string() + "\n").collect()
}

/// Reads the blobs, one a line, beside a healthy package `z`, which must stay. The faults as `line: blob: package: message`.
fn faults(blobs: &[Value]) -> Vec<String> {
    let other = lines(&[package("z", "x"), channel("z", "x", &["z1"]), bundle("z", "z1", "1.0.0")]);
    let catalog = read(&[("a.json", &lines(blobs)), ("other/z.json", &other)]);
    let mut packages: Vec<&str> = catalog.index.packages().map(Package::name).collect();
    assert_eq!(packages.pop(), Some("z"), "a fault of one package leaves the others alone");
    let sick: Vec<&str> = catalog.sick.iter().map(|sick| sick.package.as_str()).collect();
    assert!(packages.iter().all(|package| !sick.contains(package)));
    assert_eq!(catalog.fault_count, catalog.faults.len());
    let fault = |it: &Fault| {
        assert_eq!(it.file, "a.json");
        format!("{}: {}: {}: {}", it.line, it.blob, it.package, it.reason)
    };
    catalog.faults.iter().map(fault).collect()
}

/// The package `a` is refused by exactly one fault.
fn refused(blobs: &[Value], expected: &str) {
    let found = faults(blobs);
    assert!(found.len() == 1 && found[0].contains(expected), "{found:#?} instead of {expected:?}");
    assert!(read(&[("a.json", &lines(blobs))]).index.package("a").is_none());
}

/// The right package with more blobs.
fn with(more: Vec<Value>) -> Vec<Value> {
    let mut blobs = right();
    blobs.extend(more);
    blobs
}

#[test]
fn package_without_faults_is_served_whatever_the_order_of_its_blobs() {
    let forward = read(&[("a.json", &lines(&right()))]);
    assert_eq!((forward.fault_count, forward.sick_count), (0, 0));
    let mut reversed = right();
    reversed.reverse();
    let backward = read(&[("1.json", &lines(&reversed[..2])), ("2.json", &lines(&reversed[2..]))]);
    assert_eq!(forward.index, backward.index);
    assert_eq!((backward.files, backward.index.counts().bundles), (2, 2));
}

#[test]
fn fault_is_told_with_file_line_blob_and_package() {
    let mut blobs = right();
    blobs[3]["image"] = "A".into();
    assert_eq!(faults(&blobs), ["4: olm.bundle a2: a: its image \"A\" is not a pull spec"]);
}

/// All of it is in ConfigMaps that work elsewhere.
#[test]
fn what_is_only_untidy_is_a_note_where_the_rules_are_tolerant_and_a_fault_in_files() {
    let blobs = [
        package("A", "x"),
        channel("A", "x", &["a1", "a2"]),
        bundle("A", "a1", "1.0.0"),
        bundle("A", "a2", "1.0.0"),
        package("b c", "x"),
        channel("b c", "x", &["b1"]),
        bundle("b c", "b1", "1.0.0"),
        package("d", "none"),
        channel("d", "x", &["d1"]),
        channel("d", "y", &["d1"]),
        bundle("d", "d1", "1.0.0"),
    ];
    let text = lines(&blobs);
    let told = |all: &[Fault]| all.iter().map(|it| format!("{}: {}", it.line, it.blob)).collect::<Vec<_>>();
    let untidy = ["1: olm.package A", "4: olm.bundle a2", "8: olm.package d"];
    let tolerant = read_by(Rules::Tolerant, &[("a.json", &text)]);
    assert_eq!(
        (told(&tolerant.notes), told(&tolerant.faults)),
        (untidy.map(String::from).into(), vec!["5: olm.package b c".into()])
    );
    assert_eq!(tolerant.sick, [Sick { package: "b c".to_owned(), faults: 1 }]);
    let found = tolerant.index.package("A").unwrap();
    assert_eq!(
        found.bundles().map(|it| (it.name(), it.version())).collect::<Vec<_>>(),
        [("a1", "1.0.0"), ("a2", "1.0.0")]
    );
    let default = tolerant.index.package("d").unwrap().default_channel().unwrap();
    assert_eq!(default.name(), "x", "the first one by name");
    let strict = read(&[("a.json", &text)]);
    assert_eq!((strict.notes.len(), strict.fault_count, strict.index.counts().packages), (0, 4, 0));
}

#[test]
fn two_packages_of_one_name_are_refused() {
    refused(
        &with(vec![package("a", "x")]),
        "5: olm.package a: a: there is another one of this name for this package, in line 1 of a.json",
    );
}

#[test]
fn two_channels_of_one_name_are_refused() {
    refused(&with(vec![channel("a", "x", &["a1"])]), "5: olm.channel x: a: there is another one");
}

#[test]
fn two_bundles_of_one_name_are_refused() {
    refused(&with(vec![bundle("a", "a1", "1.0.0")]), "5: olm.bundle a1: a: there is another one");
}

#[test]
fn equal_names_in_different_packages_are_no_fault() {
    let other = [package("b", "x"), channel("b", "x", &["a1"]), bundle("b", "a1", "1.0.0")];
    assert_eq!(faults(&with(other.to_vec())), Vec::<String>::new());
}

#[test]
fn channels_bundles_and_deprecations_name_an_existing_package() {
    refused(&[channel("a", "x", &["a1"])], "1: olm.channel x: a: there is no olm.package a");
    refused(&[bundle("a", "a1", "1.0.0")], "1: olm.bundle a1: a: there is no olm.package a");
    refused(&[deprecations("a", &[("olm.bundle", "a1")])], "1: olm.deprecations a: a: there is no olm.package a");
}

#[test]
fn every_bundle_is_in_a_channel() {
    refused(&with(vec![bundle("a", "a3", "3.0.0")]), "5: olm.bundle a3: a: it is in no channel");
    let in_another = with(vec![bundle("a", "a3", "3.0.0"), channel("a", "y", &["a1", "a3"])]);
    assert_eq!(faults(&in_another), Vec::<String>::new());
}

#[test]
fn every_entry_of_every_channel_has_a_bundle() {
    for (name, entries) in [("b", ["gone", "a1"]), ("y", ["a1", "gone"])] {
        let expected = format!("5: olm.channel {name}: a: its entry gone has no olm.bundle");
        refused(&with(vec![channel("a", name, &entries)]), &expected);
    }
}

#[test]
fn default_channel_is_set_and_exists() {
    let mut blobs = right();
    blobs[0] = package("a", "");
    refused(&blobs, "1: olm.package a: a: its defaultChannel is not set");
    blobs[0] = package("a", "y");
    refused(&blobs, "1: olm.package a: a: its defaultChannel \"y\" does not exist");
}

#[test]
fn package_has_a_channel() {
    refused(&[package("a", "x")], "1: olm.package a: a: it has no channels");
}

#[test]
fn channel_has_one_head() {
    let mut blobs = right();
    blobs[1]["entries"] = json!([{"name": "a1"}, {"name": "a2"}]);
    refused(&blobs, "2: olm.channel x: a: it has 2 heads: a1, a2");
}

#[test]
fn no_two_bundles_of_a_package_have_one_version() {
    let mut blobs = right();
    blobs[3] = bundle("a", "a2", "1.0.0");
    refused(&blobs, "4: olm.bundle a2: a: it has the same version 1.0.0 as a1");
}

#[test]
fn releases_of_one_version_differ() {
    let released = |name: &str, release: &str| {
        let mut blob = bundle("a", name, "1.0.0");
        blob["properties"][0]["value"]["release"] = release.into();
        blob
    };
    let names = ["a-v1.0.0-1", "a-v1.0.0-2"];
    let blobs = [package("a", "x"), channel("a", "x", &names), released(names[0], "1"), released(names[1], "2")];
    assert_eq!(faults(&blobs), Vec::<String>::new());
    let catalog = read(&[("a.json", &lines(&blobs))]);
    assert_eq!(catalog.index.bundles().map(|it| it.release()).collect::<Vec<_>>(), [Some("1"), Some("2")]);
    let names = ["a1", "a-v1.0.0-1"];
    let blobs = [package("a", "x"), channel("a", "x", &names), bundle("a", "a1", "1.0.0-1"), released(names[1], "1")];
    refused(&blobs, "3: olm.bundle a1: a: it has the same version 1.0.0-1 as a-v1.0.0-1");
    let names = ["a-v1.0.0-1", "a-v1.0.0-1b"];
    let blobs = [package("a", "x"), channel("a", "x", &names), released(names[0], "1"), released(names[1], "1")];
    let found = faults(&blobs);
    assert!(found.iter().any(|it| it.contains("it has the same version 1.0.0-1 as a-v1.0.0-1")), "{found:?}");
}

#[test]
fn package_has_one_blob_of_deprecations() {
    let one = || deprecations("a", &[("olm.bundle", "a1")]);
    assert_eq!(faults(&with(vec![one()])), Vec::<String>::new());
    refused(&with(vec![one(), one()]), "6: olm.deprecations a: a: there is another one");
}

#[test]
fn what_is_deprecated_exists() {
    for target in ["channel", "bundle"] {
        let blobs = with(vec![deprecations("a", &[(&format!("olm.{target}"), "gone")])]);
        refused(&blobs, &format!("5: olm.deprecations a: a: it deprecates olm.{target} gone, which does not exist"));
    }
}

#[test]
fn blob_that_cannot_be_read_makes_no_faults_of_what_it_would_have_said() {
    let mut blobs = right();
    blobs[3]["properties"] = "x".into();
    refused(&blobs, "4: olm.bundle a2: a: properties: invalid type");
    blobs[3] = json!({"schema": "olm.bundle", "package": "a", "name": "a2", "Name": "a2"});
    refused(&blobs, "4: olm.bundle a2: a: the keys");
}

/// A file with the right package, and another one with these texts before and after a healthy package `b`.
fn beside(name: &str, before: &str, after: &str) -> Vec<String> {
    let other = lines(&[package("b", "x"), channel("b", "x", &["b1"]), bundle("b", "b1", "1.0.0")]);
    let catalog = read(&[("a/a.json", &lines(&right())), (name, &format!("{before}{other}{after}"))]);
    let served = catalog.index.packages().map(|it| format!("served: {}", it.name()));
    let fault = |it: &Fault| format!("{}:{}: {}: {}", it.file, it.line, it.package, it.reason);
    served.chain(catalog.faults.iter().map(fault)).collect()
}

#[test]
fn file_that_is_not_understood_keeps_only_the_packages_in_it_from_being_served() {
    let found = beside("b/b.json", "", "{\"schema\": \"olm.deprecations\", \"package\": [\n");
    assert_eq!(found.len(), 3, "{found:#?}");
    assert_eq!(found[0], "served: a");
    assert!(found[1].starts_with("b/b.json:4: : neither JSON (line 5: EOF while parsing"), "{found:#?}");
    let expected = "b/b.json:4: b: not all of the file could be read, see its line 4, so what it says of this package is not known";
    assert_eq!(found[2], expected);
}

#[test]
fn yaml_document_that_is_not_understood_is_passed_over() {
    let found = beside("b/b.yaml", "a: 'b\n---\n", "");
    assert_eq!(found.len(), 3, "{found:#?}");
    assert!(found[1].starts_with("b/b.yaml:1: : line "), "{found:#?}");
    assert!(found[2].starts_with("b/b.yaml:1: b: not all of the file"), "{found:#?}");
}

#[test]
fn file_of_which_nothing_is_understood_counts_for_its_folder() {
    let catalog = |name: &str| {
        let other = lines(&[package("b", "x"), channel("b", "x", &["b1"]), bundle("b", "b1", "1.0.0")]);
        read(&[("a/a.json", &lines(&right())), ("b/b.json", &other), (name, "[1, 2]\n")])
    };
    let served =
        |catalog: &Catalog<Vec<u8>>| catalog.index.packages().map(|it| it.name().to_owned()).collect::<Vec<_>>();
    let found = catalog("b/c.json");
    assert_eq!(served(&found), ["a"]);
    assert_eq!(found.faults[0].reason.to_string(), "a blob must be an object with the key schema, not a list");
    let found = catalog("c.json");
    assert_eq!((served(&found), found.fault_count), (vec!["a".to_owned(), "b".to_owned()], 1));
}

#[test]
fn blob_without_a_schema_counts_for_its_package_or_else_its_file() {
    let found = beside("b/b.json", "", "{\"package\": \"b\", \"name\": \"x\"}\n");
    assert_eq!(found[1..], ["b/b.json:4: b: the key schema is missing; write one, such as olm.bundle"]);
    let found = beside("b/b.json", "", "{\"name\": \"x\"}\n");
    assert_eq!(found.len(), 3, "{found:#?}");
}

#[test]
fn faults_are_bounded_and_all_are_counted() {
    let one = |package: &str| lines(&vec![json!({"schema": "olm.bundle", "package": package, "name": ""}); 400]);
    let catalog = read(&[("a.json", &one("a")), ("b.json", &one("b"))]);
    assert_eq!((catalog.faults.len(), catalog.fault_count), (200, 2400));
    let many: String = (0..3000).map(|number| lines(&[package(&format!("a{number}"), "")])).collect();
    let catalog = read(&[("a.json", &many)]);
    assert_eq!((catalog.faults.len(), catalog.fault_count), (MAX_KEPT, 3000));
    assert_eq!((catalog.sick.len(), catalog.sick_count), (MAX_KEPT, 3000));
}

#[test]
fn faults_of_a_package_with_a_long_name_stay_small() {
    let entry = |number: usize| json!({"name": format!("a{number}"), "skips": [""]});
    let entries: Vec<Value> = (0..50).map(entry).collect();
    let blob = json!({"schema": "olm.channel", "package": "a".repeat(1 << 20), "name": "x", "entries": entries});
    let catalog = read(&[("a.json", &blob.to_string())]);
    assert_eq!((catalog.fault_count, catalog.sick_count), (52, 1));
    let names = catalog.faults.iter().map(|it| it.package.len()).chain(catalog.sick.iter().map(|it| it.package.len()));
    assert_eq!(names.max(), Some(256));
}

#[test]
fn first_line_that_is_not_understood_is_told_whichever_is_read_first() {
    let (mut builder, mut json) = (CatalogBuilder::new(Vec::new()), Vec::new());
    let file = builder.file("a.json".to_owned()).unwrap();
    for line in [9, 4, 7] {
        builder.unreadable(file, line, Reason::NoSchema);
    }
    let text = lines(&right());
    let mut blobs = Blobs::new(text.as_bytes());
    while let Some(document) = blobs.next_document().unwrap() {
        builder.add(file, document.decode(&mut json)).unwrap();
    }
    let faults = builder.finish().unwrap().faults;
    assert!(faults.iter().any(|it| it.reason == Reason::FileNotRead { line: 4 }), "{faults:?}");
}

#[test]
fn catalog_that_needs_too_much_memory_is_refused() {
    let (mut builder, mut json) = (CatalogBuilder::new(io::sink()), Vec::new());
    let file = builder.file("a.json".to_owned()).unwrap();
    let mut added = Ok(());
    for number in 0..200 {
        let text = package(&format!("a{number}"), &"x".repeat(number + (1 << 20))).to_string();
        let mut blobs = Blobs::new(text.as_bytes());
        added = builder.add(file, blobs.next_document().unwrap().unwrap().decode(&mut json));
        if added.is_err() {
            break;
        }
    }
    assert!(added.unwrap_err().to_string().contains("more than 50331648 bytes"));
}

/// Reading ends before all of them are there, and what is kept until then stays below the limit.
#[test]
fn million_channels_are_too_many_for_a_catalog() {
    let (mut builder, mut json) = (CatalogBuilder::new(io::sink()), Vec::new());
    let file = builder.file("a.json".to_owned()).unwrap();
    let channel = |number| {
        format!(
            "{{\"schema\":\"olm.channel\",\"package\":\"a\",\"name\":\"c{number}\",\"entries\":[{{\"name\":\"a.v1\"}}]}}"
        )
    };
    let mut added = Ok(());
    for thousand in 0..1_000 {
        let text: String = (0..1_000).map(|number| channel(thousand * 1_000 + number)).collect();
        let mut blobs = Blobs::new(text.as_bytes());
        while let (Ok(()), Some(document)) = (&added, blobs.next_document().unwrap()) {
            added = builder.add(file, document.decode(&mut json));
        }
    }
    assert!(matches!(added, Err(CatalogError::TooMuch)), "{added:?}");
    assert!(builder.collected.size() < MAX_SIZE + (1 << 10));
}

#[test]
fn data_that_cannot_be_written_is_an_error() {
    #[derive(Debug)]
    struct Full;
    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::Error::other("the disk is full"))
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let (mut builder, mut json) = (CatalogBuilder::new(Full), Vec::new());
    let file = builder.file("a.json".to_owned()).unwrap();
    let mut blobs = Blobs::new(&br#"{"schema": "x"}"#[..]);
    let added = builder.add(file, blobs.next_document().unwrap().unwrap().decode(&mut json));
    assert_eq!(added.unwrap_err().to_string(), "cannot write the data of the catalog: the disk is full");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_blobs_are_read_without_a_panic(
        texts in prop::collection::vec(prop::sample::select(vec![
            "{", "}", "[", "]", "\"", ":", ",", "\n", "---\n", "- ", "schema", "olm.package", "olm.bundle", "olm.channel",
            "olm.deprecations", "package", "name", "a", "entries", "properties", "{\"schema\": \"olm.channel\", \"name\": \"a\"",
            "schema: olm.package\nname: a\n", "null", "1", "\\u12", "value", "type", "skips", "replaces", "  ",
        ]), 0..60),
    ) {
        let text = texts.concat();
        let catalog = read(&[("a", &text)]);
        prop_assert!(catalog.fault_count >= catalog.faults.len());
    }
}
