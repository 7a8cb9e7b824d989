use super::*;
use serde_json::{Value, json};

const BEGUN: &str = "2026-01-01T00:00:10Z";

fn came_back(created: &str, tolerations: &Value) -> bool {
    let pod = serde_json::from_value(json!({
        "metadata": {"name": "a", "creationTimestamp": created},
        "spec": {"containers": [], "tolerations": tolerations},
    }));
    facts(&pod.unwrap(), true, None, Some(BEGUN.parse().unwrap())).came_back
}

#[test]
fn pod_that_tolerates_the_cordon_is_evicted_once() {
    let (before, after) = ("2026-01-01T00:00:09Z", "2026-01-01T00:00:10Z");
    for tolerations in [
        json!([{"operator": "Exists"}]),
        json!([{"key": CORDONED, "operator": "Exists", "effect": "NoSchedule"}]),
        json!([{"key": "a"}, {"key": CORDONED}]),
    ] {
        assert!(came_back(after, &tolerations), "{tolerations}");
        assert!(!came_back(before, &tolerations), "{tolerations}: it was there before");
    }
    for tolerations in [
        json!([]),
        json!([{"operator": "Exists", "effect": "NoExecute"}]),
        json!([{"key": CORDONED, "value": "a"}]),
        json!([{"key": "node.kubernetes.io/not-ready", "operator": "Exists"}]),
    ] {
        assert!(!came_back(after, &tolerations), "{tolerations}: only the node's name can have brought it here");
    }
}
