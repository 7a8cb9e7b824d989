use super::*;

#[test]
fn crd_adds_its_served_versions_and_wakes_waiters() {
    let kinds = Kinds::default();
    let added = kinds.added();
    let crd = serde_json::json!({"spec": {"group": "example.org", "scope": "Namespaced",
        "names": {"kind": "Widget", "plural": "widgets"},
        "versions": [{"name": "v1", "served": true}, {"name": "v0", "served": false}]}});
    kinds.add(Kinds::of_definition(&DefinedKind::read(crd.to_string().as_bytes()).unwrap()));
    let kind = kinds.get("example.org/v1", "Widget").unwrap();
    assert_eq!(kind.path("ns"), "/apis/example.org/v1/namespaces/ns/widgets");
    assert_eq!(kind.path(""), "/apis/example.org/v1/widgets");
    assert!(kinds.get("example.org/v0", "Widget").is_none());
    assert!(added.has_changed().unwrap());
    // Some groups have two resources of one kind: adding them again changes nothing.
    let twice = ["templates", "processedtemplates"].map(|plural| Kind::known("t.io", "v1", "Template", plural, true));
    kinds.add(twice.clone());
    let added = kinds.added();
    kinds.add(twice);
    assert!(!added.has_changed().unwrap());
    let core = Kind::known("", "v1", "Node", "nodes", false);
    assert_eq!(core.path("ignored"), "/api/v1/nodes");
}

#[test]
fn preferred_version_counts_and_one_that_is_gone_is_forgotten() {
    let kinds = Kinds::default();
    let version = |version: &str| Kind::known("example.org", version, "Widget", "widgets", true);
    kinds.add(["v1alpha1", "v1beta1", "v2beta1", "v1", "v2"].map(version));
    let id = ObjectId::new("example.org", "Widget", "ns", "a");
    let preferred = |kinds: &Kinds| kinds.resolve_id(&id).map(|(kind, _)| kind.version);
    assert_eq!(preferred(&kinds).as_deref(), Some("v2"));
    for (gone, next) in [("v2", "v1"), ("v1", "v2beta1"), ("v2beta1", "v1beta1"), ("v1beta1", "v1alpha1")] {
        assert!(kinds.forget(&version(gone)), "it is served in others");
        assert_eq!(preferred(&kinds).as_deref(), Some(next));
    }
    assert!(!kinds.forget(&version("v1alpha1")));
    assert_eq!(preferred(&kinds), None);
    // Another kind of the group is another matter.
    kinds.add([version("v1"), Kind::known("example.org", "v1", "Gadget", "gadgets", true)]);
    assert!(!kinds.forget(&version("v1")));
}
