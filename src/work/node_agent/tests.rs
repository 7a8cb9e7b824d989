use super::*;
use serde_json::json;

#[test]
fn event_of_an_earlier_state_is_outdated() {
    let object = |uid: &str, version: &str| json!({"metadata": {"uid": uid, "resourceVersion": version}});
    assert!(is_outdated(&object("a", "9"), &object("a", "10")));
    assert!(!is_outdated(&object("a", "10"), &object("a", "10")));
    assert!(!is_outdated(&object("b", "9"), &object("a", "10")), "it was created anew");
    assert!(!is_outdated(&object("a", "x"), &object("a", "10")), "versions are only compared where they are numbers");
}
