use super::*;
use crate::cluster_version::forecast::{LiveObject, Severity};
use crate::object::manifest::Origin;
use crate::release::api::Release;
use crate::release::load::manifests_of;
use serde_json::json;
use std::collections::BTreeSet;

fn payload(kubernetes: &[&str]) -> Payload {
    let versions: BTreeSet<String> = kubernetes.iter().map(|version| (*version).to_owned()).collect();
    Payload {
        release: Release::default(),
        built: None,
        major: 1,
        images: BTreeMap::new(),
        versions: BTreeMap::from([(KUBERNETES.to_owned(), versions)]),
        manifests: Vec::new(),
        excluded: Vec::new(),
        hash: String::new(),
        warnings: Vec::new(),
    }
}

#[test]
fn kubernetes_of_a_release_is_what_its_images_say() {
    let version = kubernetes(&payload(&["1.36.2"])).unwrap();
    assert_eq!((version.major, version.minor, version.patch.as_deref()), ("1".into(), "36".into(), Some("2")));
    for (said, words) in [(&[][..], BUILD_VERSIONS), (&["next"], "next"), (&["1.36.2", "1.37.0"], "1.36.2, 1.37.0")] {
        let cause = kubernetes(&payload(said)).unwrap_err();
        assert!(cause.contains(words), "{cause}");
    }
}

#[test]
fn default_catalogs_are_those_of_the_object_that_will_be_written() {
    let manifest = |data: Value| {
        let metadata = json!({"name": CONFIG_MAP, "namespace": GLOBAL_CATALOG_NAMESPACE});
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})
    };
    let of_release = manifest(json!({"a": "new"})).to_string();
    let manifests = manifests_of(Origin::Release, "f.yaml", of_release.as_bytes()).unwrap();
    let id = manifests[0].id.clone();
    let planned = |manifests: &[Arc<Manifest>], state: LiveState| {
        let live = LiveObjects::from([(id.clone(), LiveObject { id: id.clone(), state, has_status: true })]);
        let prepared = |manifest: &Manifest| Ok(manifest.object().unwrap());
        default_catalogs(manifests, &live, &prepared)
    };
    let new = Read::Value(BTreeMap::from([("a".to_owned(), "new".to_owned())]));
    assert_eq!(planned(&manifests, LiveState::Absent), new);
    let live = |data: Value| LiveState::Exists(Arc::new(manifest(data)));
    assert_eq!(planned(&manifests, live(json!({"a": "old"}))), new);
    assert_eq!(planned(&manifests, live(json!({"a": "new"}))), new);
    assert_eq!(planned(&[], live(json!({"a": "old"}))), Read::Absent, "the release does not write it");
    let failed = planned(&manifests, LiveState::Unreadable("no answer".to_owned()));
    assert_eq!(failed, Read::Failed("no answer".to_owned()));
}

fn catalog(to: Option<&str>, available: Option<bool>, template: bool) -> Catalog {
    let planned = PlannedCatalog {
        namespace: "m".to_owned(),
        name: "c".to_owned(),
        default: !template,
        template: template.then(|| "r/c:v{kube_minor_version}".to_owned()),
        from: Some("r/c:1".to_owned()),
        to: to.map(str::to_owned),
        problem: String::new(),
    };
    Catalog { planned, available, unasked: String::new() }
}

#[test]
fn missing_image_is_a_warning_with_the_way_out() {
    let said = |catalog: &Catalog| {
        warning(catalog).map(|warning| {
            assert_eq!(
                (warning.severity, warning.cause),
                (Severity::Warns, Cause::Image),
                "it does not stop the update"
            );
            format!("{} {}", warning.object, warning.message)
        })
    };
    let missing = said(&catalog(Some("r/c:2"), Some(false), false)).unwrap();
    for words in ["catalogsource.operators.coreos.com \"m/c\"", "no image r/c:2", "OperatorHub cluster"] {
        assert!(missing.contains(words), "{missing}");
    }
    assert!(said(&catalog(Some("r/c:2"), Some(false), true)).unwrap().contains("correct the template"));
    for fine in [catalog(Some("r/c:2"), Some(true), false), catalog(None, None, false)] {
        assert_eq!((said(&fine), unknown(&fine)), (None, None));
    }
    let unable = Catalog {
        planned: PlannedCatalog { problem: "no".into(), ..catalog(None, None, true).planned },
        ..catalog(None, None, true)
    };
    assert!(said(&unable).unwrap().ends_with(" no"));
}

#[test]
fn registry_that_could_not_be_asked_is_not_taken_for_one_that_has_the_image() {
    let away = Catalog { unasked: "no route.".to_owned(), ..catalog(Some("r/c:2"), None, false) };
    let text = unknown(&away).unwrap();
    assert!(text.contains("r/c:2") && text.ends_with("could not be asked: no route."), "{text}");
    assert_eq!(warning(&away), None);
}
