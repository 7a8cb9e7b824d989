use super::*;
use serde_json::json;

#[test]
fn merge_path_finds_its_value() {
    let object = json!({
        "metadata": {"labels": {"example.com/tier": "a"}},
        "spec": {"containers": [{"name": "x", "image": "i", "args": ["p", "q"]}, {"name": "web", "image": "j"}]},
    });
    let table = [
        ("metadata.labels[example.com/tier]", Some(json!("a"))),
        ("spec.containers[web].image", Some(json!("j"))),
        ("spec.containers[x].args[1]", Some(json!("q"))),
        ("spec.containers[0].image", Some(json!("i"))),
        ("spec.containers[none].image", None),
        ("spec.containers[web", None),
        ("spec.missing", None),
    ];
    for (path, expected) in table {
        assert_eq!(at(&object, path).cloned(), expected, "{path}");
    }
}
