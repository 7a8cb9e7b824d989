//! The one way to ask an object for a condition, in the words of `kubectl wait --for=condition=…`: `Failing` is the condition of
//! that type, whatever its status, and `Failing=True` the same where it has that status. It does not matter of which kind the
//! object is.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A condition, as it stands in the object.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Condition {
    #[serde(rename = "type")]
    pub type_: String,
    pub status: String,
    pub reason: String,
    pub message: String,
    pub last_transition_time: Option<Timestamp>,
}

/// Objects with `status.conditions`, and parts of objects with `conditions`.
pub trait Conditions: Serialize {
    /// The condition of that type, or of that type and status (`TYPE=STATUS`).
    fn condition(&self, what: &str) -> Option<Condition> {
        let (type_, status) = what.split_once('=').map_or((what, None), |(type_, status)| (type_, Some(status)));
        let object = serde_json::to_value(self).unwrap_or_default();
        let all = object.pointer("/status/conditions").or_else(|| object.get("conditions"));
        let mut all = all.and_then(Value::as_array).into_iter().flatten();
        let found = all.find(|condition| condition.get("type").is_some_and(|it| it == type_))?;
        let found: Condition = serde_json::from_value(found.clone()).ok()?;
        status.is_none_or(|status| found.status == status).then_some(found)
    }

    /// Whether there is one.
    fn has(&self, what: &str) -> bool {
        self.condition(what).is_some()
    }

    /// Whether there is one whose message has all these words.
    fn says(&self, what: &str, words: &[&str]) -> bool {
        self.condition(what).is_some_and(|it| words.iter().all(|words| it.message.contains(words)))
    }
}

impl<T: Serialize> Conditions for T {}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn condition_is_found_by_its_type_and_by_its_status() {
        let conditions = json!([{"type": "Failing", "status": "True", "message": "it broke"}, {"type": "Idle"}]);
        for object in [json!({"status": {"conditions": conditions}}), json!({"conditions": conditions})] {
            let table = [("Failing", true), ("Failing=True", true), ("Failing=False", false), ("Fail", false)];
            for (what, is) in table.into_iter().chain([("Idle", true), ("Idle=", true), ("Idle=True", false)]) {
                assert_eq!(object.has(what), is, "{what}");
            }
            assert!(object.says("Failing=True", &["it", "broke"]) && !object.says("Failing", &["it", "works"]));
            assert_eq!(object.condition("Failing").unwrap_or_default().message, "it broke");
        }
        assert!(!json!({}).has("Failing") && !json!({"status": {"conditions": 1}}).has("Failing"));
    }
}
