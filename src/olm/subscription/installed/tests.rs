use super::*;
use crate::olm::resolve::constraint::Api;

mod published;

fn csv(name: &str, phase: Phase, replaces: &str) -> Arc<Csv> {
    Arc::new(Csv { name: name.to_owned(), phase, replaces: replaces.to_owned(), ..Csv::default() })
}

fn names(csvs: &[Arc<Csv>]) -> Vec<String> {
    counting("ns", csvs, false).unwrap().into_iter().map(|csv| csv.name.clone()).collect()
}

#[test]
fn what_another_version_takes_the_place_of_does_not_count() {
    let chain = |last| [csv("a", Phase::Replacing, ""), csv("b", Phase::Replacing, "a"), csv("c", last, "b")];
    assert_eq!(names(&chain(Phase::Installing)), ["c"]);
    assert_eq!(names(&chain(Phase::Failed)), ["a", "b", "c"]);
    assert_eq!(counting("ns", &chain(Phase::Failed), true).unwrap().len(), 1);
    assert_eq!(names(&[csv("a", Phase::Deleting, "")]), [""; 0]);
    let copy = Csv { is_copy: true, ..Csv::default() };
    let gone = Csv { is_deleted: true, ..Csv::default() };
    assert_eq!(names(&[Arc::new(copy), Arc::new(gone), csv("a", Phase::Succeeded, "a")]), ["a"]);
}

#[test]
fn versions_that_replace_each_other_in_a_circle_all_count() {
    assert_eq!(names(&[csv("a", Phase::Succeeded, "b"), csv("b", Phase::Succeeded, "a")]), ["a", "b"]);
}

#[test]
fn operator_without_annotation_is_what_its_spec_provides_and_requires() {
    let spec = json!({"displayName": "", "version": "1.2.0", "install": {"strategy": ""},
        "customresourcedefinitions": {"owned": [{"name": "widgets.example.com", "version": "v1", "kind": "Widget"}],
            "required": [{"name": "gears.example.com", "version": "v2", "kind": "Gear"}]},
        "apiservicedefinitions": {"owned": [{"name": "wheels", "group": "w.example.com", "version": "v1", "kind": "Wheel"}]}});
    let object = json!({"metadata": {"name": "widgets.v1"}, "spec": spec});
    let csv = Csv::of(&serde_json::from_value(object).unwrap());
    let of = |installed: &[(&str, &str)]| operator("ns", &csv, installed, &ClusterVersions::default()).unwrap();
    let found = of(&[("widgets", "widgets.v1"), ("other", "other.v1")]);
    let provided: Vec<String> = found.provides.iter().map(Api::to_string).collect();
    assert_eq!(provided, ["Wheel (w.example.com/v1)", "Widget (example.com/v1)"]);
    assert_eq!(found.requires.len(), 1);
    assert_eq!((found.package.as_str(), found.version.map(|it| it.to_string()).as_deref()), ("widgets", Some("1.2.0")));
    assert_eq!(of(&[("a", "widgets.v1"), ("b", "widgets.v1")]).package, "", "it may be either");
    let annotated = Csv {
        properties: Some(
            r#"{"properties":[{"type":"olm.gvk","value":{"group":"g","version":"v1","kind":"K"}}]}"#.to_owned(),
        ),
        ..csv
    };
    let found = operator("ns", &annotated, &[("a", "widgets.v1")], &ClusterVersions::default()).unwrap();
    assert_eq!(
        (found.provides.len(), found.requires.len(), found.package.as_str()),
        (1, 0, ""),
        "the annotation comes first"
    );
}
