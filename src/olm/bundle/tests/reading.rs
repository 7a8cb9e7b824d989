//! Files to the contents of a bundle.

use super::*;
use crate::olm::bundle::read::{MAX_FINDINGS, MAX_JSON, MAX_OBJECTS};

#[test]
fn bundle_is_read_as_a_whole() {
    let bundle = bundle(&example());
    assert_eq!(bundle.notes, []);
    assert_eq!(bundle.annotations.package(), "widget-operator");
    assert_eq!(bundle.annotations.channels(), ["stable", "fast"]);
    assert_eq!(bundle.annotations.default_channel(), "stable");
    assert_eq!(bundle.annotations.0["com.example.build"], "17");
    let csv = &bundle.csv;
    assert_eq!((&*csv.metadata.name, &*csv.spec.version), ("widget-operator.v1.2.0", "1.2.0"));
    assert_eq!((&*csv.spec.replaces, csv.skip_range()), ("widget-operator.v1.1.0", ">=1.0.0 <1.2.0"));
    assert_eq!(csv.spec.skips, ["widget-operator.v1.1.1"]);
    let crds: Vec<&str> = bundle.crds().map(|crd| &*crd.id.name).collect();
    assert_eq!(crds, ["widgets.example.com"]);
    assert_eq!((bundle.dependencies.len(), bundle.properties.len()), (3, 3));
}

#[test]
fn all_documents_of_a_file_are_installed_with_their_lines() {
    let bundle = bundle(&example());
    let objects: Vec<_> = bundle.objects.iter().map(|it| (&*it.file, it.line, &*it.id.kind)).collect();
    assert_eq!(
        objects,
        [
            ("manifests/monitoring.yaml", 1, "Service"),
            ("manifests/monitoring.yaml", 8, "PodDisruptionBudget"),
            (CSV_FILE, 1, "ClusterServiceVersion"),
            (CRD_FILE, 1, "CustomResourceDefinition"),
        ]
    );
}

#[test]
fn file_of_manifests_that_is_no_object_is_passed_over_with_a_note() {
    for (name, text, line, told) in [
        ("README.md", "# Widgets\n\n: a [b", 0, "cannot be read"),
        ("package.yaml", "packageName: widgets\n", 1, "no apiVersion and kind"),
        ("broken.yaml", "a: [", 0, "cannot be read"),
        ("binary", "\u{0}\u{1}", 0, "cannot be read"),
        ("text.yaml", "just text", 1, "no apiVersion and kind"),
        ("list.yaml", "- apiVersion: v1\n  kind: Secret\n", 1, "no apiVersion and kind"),
    ] {
        let path = format!("manifests/{name}");
        let bundle = bundle(&with(&path, text));
        let [note] = bundle.notes.as_slice() else { panic!("{name}: {:?}", bundle.notes) };
        assert_eq!((note.file.as_str(), note.line), (path.as_str(), line), "{note:?}");
        assert!(note.message.contains(told), "{note:?}");
        assert_eq!(bundle.objects.len(), 4, "{name}");
    }
}

#[test]
fn empty_and_hidden_files_are_passed_over_silently() {
    let mut files = with("manifests/.gitkeep", "[");
    files.push(SourceFile { path: "manifests/empty.yaml".into(), bytes: b"---\n# nothing\n".to_vec() });
    files.push(SourceFile { path: "tests/scorecard/config.yaml".into(), bytes: b"[".to_vec() });
    assert_eq!(bundle(&files).notes, []);
}

#[test]
fn folders_below_the_manifests_are_not_read() {
    let bundle = bundle(&with("manifests/more/secret.yaml", "{apiVersion: v1, kind: Secret, metadata: {name: a}}"));
    assert_eq!(bundle.objects.len(), 4);
    assert_eq!(bundle.notes[0].check, Check::Unread);
    assert_eq!(bundle.notes[0].file, "manifests/more/secret.yaml");
}

#[test]
fn folders_that_annotations_and_labels_name_are_read() {
    let moved = |files: Vec<SourceFile>, from: &str, to: &str| -> Vec<SourceFile> {
        let path = |path: String| path.replacen(from, to, 1);
        files.into_iter().map(|file| SourceFile { path: path(file.path), ..file }).collect()
    };
    let files = replaced(ANNOTATIONS_FILE, "manifests.v1: manifests/", "manifests.v1: ./deploy/olm");
    assert_eq!(bundle(&moved(files, "manifests/", "/deploy/olm/")).objects.len(), 4);
    let files = moved(example(), "metadata/", "info/");
    let labels = BTreeMap::from([(format!("{}metadata.v1", annotations::PREFIX), "info/".to_owned())]);
    let read = read::read(&files, &labels).unwrap();
    assert_eq!((read.annotations.package(), read.findings.len()), ("widget-operator", 0));
    // Without a label they are looked for.
    let read = contents(&files);
    assert_eq!((read.annotations.package(), read.dependencies.len()), ("widget-operator", 3));
    assert_eq!(
        told(&read.findings),
        ["info/annotations.yaml: annotations are expected in metadata/annotations.yaml: move the file there"]
    );
}

#[test]
fn labels_stand_in_for_missing_annotations() {
    let labels = [("package.v1", "widgets"), ("channels.v1", "beta"), ("manifests.v1", "manifests/")];
    let labels = labels.map(|(key, value)| (format!("{}{key}", annotations::PREFIX), value.to_owned()));
    let read = read::read(&without(ANNOTATIONS_FILE), &labels.into()).unwrap();
    assert_eq!((read.annotations.package(), read.annotations.channels()), ("widgets", vec!["beta"]));
    assert_eq!(read.objects.len(), 4);
    assert_eq!(read.findings[0].check, Check::MetadataFile);
}

#[test]
fn metadata_files_are_told_by_their_content() {
    let files = replaced(DEPENDENCIES_FILE, "dependencies:", "dependencies:")
        .into_iter()
        .map(|file| SourceFile { path: file.path.replace("dependencies.yaml", "requirements.yml"), ..file });
    assert_eq!(bundle(&Vec::from_iter(files)).dependencies.len(), 3);
}

#[test]
fn metadata_file_that_cannot_be_used_is_an_error_with_its_place() {
    for (file, text, place) in [
        (DEPENDENCIES_FILE, "dependencies: {}", "metadata/dependencies.yaml:1: dependencies: "),
        (DEPENDENCIES_FILE, "dependencies: [", "metadata/dependencies.yaml: "),
        (DEPENDENCIES_FILE, "dependencies: [{type: olm.gvk}]", "metadata/dependencies.yaml:1: dependencies[0]: "),
        (PROPERTIES_FILE, "properties: [{value: 1}]", "metadata/properties.yaml:1: properties[0]: "),
        (PROPERTIES_FILE, "properties: [a]", "metadata/properties.yaml:1: properties[0]: "),
        (ANNOTATIONS_FILE, "annotations: []", "metadata/annotations.yaml:1: annotations: "),
        (ANNOTATIONS_FILE, "annotations: {a: []}", "metadata/annotations.yaml:1: annotations.a: "),
    ] {
        let bundle = bundle(&with(file, text));
        let errors: Vec<Finding> = bundle.notes.iter().filter(|it| it.weight == Weight::Error).cloned().collect();
        assert!(told(&errors)[0].starts_with(place), "{text}: {:?}", told(&errors));
        assert!(bundle.check_declared().unwrap_err().to_string().starts_with(place.trim_end_matches(": ")));
    }
}

#[test]
fn bundle_has_exactly_one_cluster_service_version() {
    let error = contents(&without(CSV_FILE)).bundle().unwrap_err().to_string();
    assert!(error.starts_with("manifests/: there is no ClusterServiceVersion"), "{error}");
    let mut files = without(CSV_FILE);
    files.push(SourceFile { path: CSV_FILE.to_owned(), bytes: b"kind: [".to_vec() });
    let error = contents(&files).bundle().unwrap_err().to_string();
    assert!(error.contains("; passed over: manifests/widget-operator.clusterserviceversion.yaml (it is"), "{error}");
    let mut files = example();
    let csv = files.iter().find(|file| file.path == CSV_FILE).unwrap().bytes.clone();
    files.push(SourceFile { path: "manifests/a.yaml".into(), bytes: csv });
    let error = contents(&files).bundle().unwrap_err().to_string();
    assert!(
        error.starts_with(&format!("manifests/a.yaml and {CSV_FILE}: each has a ClusterServiceVersion")),
        "{error}"
    );
}

#[test]
fn cluster_service_version_is_known_by_its_kind() {
    for given in ["v1alpha1", "binding.operators.coreos.com/v1alpha1"] {
        let bundle =
            bundle(&replaced(CSV_FILE, "apiVersion: operators.coreos.com/v1alpha1", &format!("apiVersion: {given}")));
        let json: Value = serde_json::from_slice(&bundle.csv_object().raw.bytes()).unwrap();
        assert_eq!(
            (&*bundle.csv_object().api_version, &json["apiVersion"]),
            (CSV_API_VERSION, &Value::from(CSV_API_VERSION))
        );
        assert!(
            bundle.notes[0].message.contains(given) && bundle.notes[0].weight == Weight::Warning,
            "{:?}",
            bundle.notes
        );
    }
}

#[test]
fn cluster_service_version_that_cannot_be_read_is_named_with_field_and_line() {
    let error = contents(&replaced(CSV_FILE, "version: 1.2.0", "version: [1]")).bundle().unwrap_err().to_string();
    assert!(error.contains("clusterserviceversion.yaml, line 1: "), "{error}");
    assert!(error.contains("spec.version: invalid type: sequence, expected a string"), "{error}");
}

#[test]
fn only_one_format_of_bundles_can_be_installed() {
    let error = contents(&replaced(ANNOTATIONS_FILE, "registry+v1", "helm+v1")).bundle().unwrap_err().to_string();
    assert_eq!(
        error,
        "metadata/annotations.yaml: the media type is \"helm+v1\", and only registry+v1 can be installed: build the bundle in that format"
    );
}

#[test]
fn name_that_is_not_the_catalogs_is_refused() {
    let bundle = bundle(&example());
    assert_eq!(bundle.expect_name("widget-operator.v1.2.0"), Ok(()));
    let error = bundle.expect_name("widget-operator.v1.2.1").unwrap_err().to_string();
    assert!(error.contains("\"widget-operator.v1.2.0\"") && error.contains("\"widget-operator.v1.2.1\""), "{error}");
}

#[test]
fn findings_are_bounded() {
    let text = format!("properties: [{}1]\n", "1,".repeat(3_000));
    let file = |number| SourceFile { path: format!("metadata/{number}.yaml"), bytes: text.clone().into_bytes() };
    let found = contents(&Vec::from_iter((0..3).map(file))).findings;
    // That there are no annotations is told besides.
    assert_eq!(found.len(), MAX_FINDINGS + 1);
}

#[test]
fn bundles_are_bounded() {
    let object = "{apiVersion: v1, kind: Secret, metadata: {name: a}}\n---\n";
    let mut files = Vec::new();
    for number in 0..=MAX_OBJECTS / 1_000 {
        files.push(SourceFile { path: format!("manifests/{number}.yaml"), bytes: object.repeat(1_000).into_bytes() });
    }
    let error = read::read(&files, &BTreeMap::new()).unwrap_err();
    assert_eq!(error, BundleError::TooLarge { limit: MAX_OBJECTS, what: "objects" });
    let text = "x".repeat(1 << 20);
    let large = format!(
        "{{apiVersion: v1, kind: ConfigMap, data: {{a: &a {text}, b: *a, c: *a, d: *a, e: *a, f: *a, g: *a}}}}"
    );
    let file = |number| SourceFile { path: format!("manifests/{number}.yaml"), bytes: large.clone().into_bytes() };
    let error = read::read(&Vec::from_iter((0..5).map(file)), &BTreeMap::new()).unwrap_err();
    assert_eq!(error, BundleError::TooLarge { limit: MAX_JSON, what: "bytes of JSON" });
}
