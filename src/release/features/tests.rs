use super::*;
use serde_json::json;

#[test]
fn first_version_with_an_entry_decides() {
    let object = json!({"spec": {"featureSet": "TechPreviewNoUpgrade"}, "status": {"featureGates": [
        {"version": "5.0.0", "enabled": [{"name": "A"}, {"name": "B"}], "disabled": [{"name": "C"}]},
        {"version": "5.0.1"},
        {"version": "5.0.0", "enabled": [{"name": "Late"}]},
        {"enabled": [{"name": "Nobody"}]},
    ]}});
    let features = Features::of(&object);
    let enabled = |versions: &[&str]| {
        let gates = features.enabled(versions.iter().copied());
        gates.map(|gates| gates.iter().map(String::as_str).collect::<Vec<_>>().join(","))
    };
    assert_eq!(features.set, "TechPreviewNoUpgrade");
    assert_eq!(enabled(&["5.0.0"]).as_deref(), Some("A,B"));
    assert_eq!(enabled(&["5.0.1", "5.0.0"]).as_deref(), Some(""), "an entry without gates counts as well");
    assert_eq!(enabled(&["5.0.2", "5.0.0"]).as_deref(), Some("A,B"));
    assert_eq!(enabled(&["5.0.2"]), None);
}

#[test]
fn other_content_gives_the_default_set_without_entries() {
    for object in [json!(null), json!({}), json!({"spec": {"featureSet": 7}, "status": {"featureGates": "x"}})] {
        assert_eq!(Features::of(&object), Features::default(), "{object}");
    }
}
