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
