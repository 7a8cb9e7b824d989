//! The fields of ClusterVersion and ClusterOperators that `oc` relies on, one by one, as a live cluster has them.

use std::collections::BTreeMap;

use futures::StreamExt;
use kube::runtime::watcher;
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use cvo::testing::{api, version};
use e2e::simulator::releases::Release;
use e2e::until::changes;

use super::scenario::{CHANNELS, Scenario, url};

/// What the ClusterVersion has to say.
#[derive(Debug, Clone, Copy)]
pub(super) struct Situation<'a> {
    pub name: &'a str,
    /// What runs or is being applied.
    pub release: &'a Release,
    /// Status of these conditions.
    pub progressing: &'a str,
    pub failing: &'a str,
    pub accepted: &'a str,
    pub retrieved: &'a str,
    /// Versions that can be updated to, and all with risks, as they are published; `None` if they are not known.
    pub updates: Option<(&'a [&'a str], &'a [&'a str])>,
}

/// Conditions that are always there.
const CONDITIONS: [&str; 5] = ["Available", "Failing", "Progressing", "RetrievedUpdates", "ReleaseAccepted"];
/// Conditions that are printed with reason and message unless they are as they should be.
const PRINTED: [&str; 5] = ["Failing", "RetrievedUpdates", "ReleaseAccepted", "Upgradeable", "Invalid"];

impl Situation<'_> {
    /// Every line of the list, except what takes several states to see.
    pub(super) async fn check(&self, scenario: &Scenario) {
        let object = scenario.version().await;
        println!("{}: {}", self.name, summary(&object));
        let status = &object["status"];
        scenario.recording.check_agreement();
        self.desired(status);
        self.history(status);
        self.updates(status);
        self.conditions(status);
    }

    /// The message of an assertion about a field.
    fn of(&self, field: &str, value: &Value) -> String {
        format!("{}: {field} is {value}", self.name)
    }

    fn desired(&self, status: &Value) {
        let desired = &status["desired"];
        let of = |field: &str| self.of(&format!("status.desired.{field}"), &desired[field]);
        assert_eq!(desired["version"], json!(self.release.version), "{}", of("version"));
        assert!(version::parse(text(&desired["version"])).is_ok(), "{}", of("version"));
        assert_eq!(desired["image"], json!(self.release.image), "{}", of("image"));
        assert!(is_by_digest(text(&desired["image"])), "{}", of("image"));
        if self.updates.is_some() {
            assert_eq!(desired["channels"], json!(CHANNELS), "{}", of("channels"));
            assert_eq!(desired["url"], json!(url(&self.release.version)), "{}", of("url"));
        }
    }

    fn history(&self, status: &Value) {
        let history = list(&status["history"]);
        let newest = history.first().unwrap_or_else(|| panic!("{}: status.history is empty", self.name));
        for field in ["version", "image"] {
            let of = self.of(&format!("status.history[0].{field}"), &newest[field]);
            assert_eq!(newest[field], status["desired"][field], "{of}");
        }
        for (at, entry) in history.iter().enumerate() {
            let of = |field: &str| self.of(&format!("status.history[{at}].{field}"), &entry[field]);
            assert!(["Completed", "Partial"].contains(&text(&entry["state"])), "{}", of("state"));
            let ended = entry["completionTime"].is_string();
            let current = at == 0 && entry["state"] == "Partial";
            assert!(ended != current && entry.get("completionTime").is_some(), "{}", of("completionTime"));
            let older = history.get(at + 1).map_or("", |older| text(&older["startedTime"]));
            assert!(text(&entry["startedTime"]) >= older, "{}", of("startedTime"));
            assert!(
                !ended || entry["completionTime"].as_str() >= entry["startedTime"].as_str(),
                "{}",
                of("startedTime")
            );
        }
        let state = if self.progressing == "True" { "Partial" } else { "Completed" };
        assert_eq!(newest["state"], state, "{}", self.of("status.history[0].state", &newest["state"]));
    }

    fn updates(&self, status: &Value) {
        let (available, conditional) = (list(&status["availableUpdates"]), list(&status["conditionalUpdates"]));
        let Some((updates, risky)) = self.updates else {
            let of = |field: &str| self.of(&format!("status.{field}"), &status[field]);
            assert_eq!(status["availableUpdates"], Value::Null, "{}", of("availableUpdates"));
            assert!(conditional.is_empty(), "{}", of("conditionalUpdates"));
            return;
        };
        let versions =
            |releases: &[&Value]| releases.iter().map(|r| text(&r["version"]).to_owned()).collect::<Vec<_>>();
        let releases: Vec<&Value> = available.iter().collect();
        assert_eq!(versions(&releases), updates, "{}: status.availableUpdates", self.name);
        let of_conditional: Vec<&Value> = conditional.iter().map(|update| &update["release"]).collect();
        assert_eq!(versions(&of_conditional), risky, "{}: status.conditionalUpdates", self.name);
        for release in releases.iter().chain(&of_conditional) {
            let name = format!("an update to {}", release["version"]);
            assert!(is_by_digest(text(&release["image"])), "{}", self.of(&format!("{name}: image"), &release["image"]));
            let expected = json!(url(text(&release["version"])));
            assert_eq!(release["url"], expected, "{}", self.of(&format!("{name}: url"), &release["url"]));
            let channels = &release["channels"];
            assert_eq!(channels, &json!(CHANNELS), "{}", self.of(&format!("{name}: channels"), channels));
        }
        for update in conditional {
            self.recommended(update, available);
        }
    }

    /// Every conditional update says whether it is recommended, and is an available one exactly if it is.
    fn recommended(&self, update: &Value, available: &[Value]) {
        let place = format!("{}: conditional update to {}", self.name, update["release"]["version"]);
        let condition = find(&update["conditions"], "Recommended");
        let condition = condition.unwrap_or_else(|| panic!("{place}: there is no condition Recommended"));
        let status = text(&condition["status"]);
        assert!(["True", "False", "Unknown"].contains(&status), "{place}: status of Recommended is {status:?}");
        assert!(is_camel_case(text(&condition["reason"])), "{place}: reason of Recommended is {}", condition["reason"]);
        assert_ne!(text(&condition["message"]), "", "{place}: message of Recommended");
        let same_image = available.iter().any(|release| release["image"] == update["release"]["image"]);
        assert_eq!(same_image, status == "True", "{place}: whether status.availableUpdates has its image");
    }

    fn conditions(&self, status: &Value) {
        let conditions = &status["conditions"];
        for type_ in CONDITIONS {
            assert!(find(conditions, type_).is_some(), "{}: there is no condition {type_}", self.name);
        }
        let expected = [
            ("Progressing", self.progressing),
            ("ReleaseAccepted", self.accepted),
            ("RetrievedUpdates", self.retrieved),
            ("Failing", self.failing),
            ("Available", "True"),
        ];
        for (type_, status) in expected {
            let condition = find(conditions, type_).unwrap_or(&Value::Null);
            assert_eq!(condition["status"], status, "{}", self.of(type_, condition));
        }
        let progressing = find(conditions, "Progressing").unwrap_or(&Value::Null);
        assert_ne!(text(&progressing["message"]), "", "{}", self.of("Progressing", progressing));
        assert_eq!(find(conditions, "Invalid"), None, "{}: the spec is valid", self.name);
        let upgradeable = find(conditions, "Upgradeable").unwrap_or(&Value::Null);
        let reason = if self.progressing == "True" { json!("ClusterVersionUpdating") } else { Value::Null };
        assert_eq!(upgradeable["reason"], reason, "{}", self.of("Upgradeable", upgradeable));
        // These are printed with reason and message.
        for condition in list(conditions) {
            let type_ = text(&condition["type"]);
            let quiet = if ["Failing", "Invalid"].contains(&type_) { "False" } else { "True" };
            let printed = PRINTED.contains(&type_) && condition["status"] != quiet;
            let explained = is_camel_case(text(&condition["reason"])) && !text(&condition["message"]).is_empty();
            assert!(!printed || explained, "{}", self.of(type_, condition));
            let message = text(&condition["message"]);
            assert_eq!(message.trim(), message, "{}", self.of(type_, condition));
        }
    }
}

fn summary(object: &Value) -> String {
    let conditions = list(&object["status"]["conditions"]).iter();
    let lines = conditions
        .map(|c| format!("\n    {}={} {}: {}", text(&c["type"]), text(&c["status"]), c["reason"], c["message"]));
    lines.collect()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn find<'a>(conditions: &'a Value, type_: &str) -> Option<&'a Value> {
    list(conditions).iter().find(|condition| condition["type"] == type_)
}

fn is_by_digest(image: &str) -> bool {
    let hex = |digest: &str| digest.len() == 64 && digest.bytes().all(|b| b.is_ascii_hexdigit());
    image.split_once("@sha256:").is_some_and(|(name, digest)| name.contains('/') && hex(digest))
}

fn is_camel_case(reason: &str) -> bool {
    reason.starts_with(|c: char| c.is_ascii_uppercase()) && reason.chars().all(|c| c.is_ascii_alphanumeric())
}

/// Every state of the ClusterVersion since it began, in order.
pub(super) struct Recording {
    states: watch::Receiver<Vec<Value>>,
    _watching: AbortOnDropHandle<()>,
}

impl Recording {
    pub(super) fn start(client: Client) -> Self {
        let (sender, states) = watch::channel(Vec::new());
        let versions: Api<api::ClusterVersion> = Api::all(client);
        let config = watcher::Config::default().fields(&format!("metadata.name={}", api::NAME));
        let mut changes = changes(versions, config);
        let watching = tokio::spawn(async move {
            while let Some(change) = changes.next().await {
                let state = serde_json::to_value(change.status).ok();
                sender.send_modify(|states| states.extend(state));
            }
        });
        Self { states, _watching: AbortOnDropHandle::new(watching) }
    }

    /// Conditions that are written together agree. For recordings in which there was an update.
    pub(super) fn check_agreement(&self) {
        let mut updates = 0;
        for state in self.states.borrow().iter() {
            let [progressing, upgradeable] = ["Progressing", "Upgradeable"].map(|t| find(&state["conditions"], t));
            let updating = upgradeable.is_some_and(|c| c["reason"] == "ClusterVersionUpdating");
            let done = progressing.is_some_and(|c| c["status"] == "False");
            assert!(!(updating && done), "{progressing:?}\n{upgradeable:?}");
            updates += usize::from(updating);
        }
        assert!(updates > 0, "no state says that there is an update");
    }

    /// The time of a condition changes exactly when its status does.
    pub(super) fn check_times(&self) {
        let states = self.states.borrow();
        let (mut before, mut changed) = (BTreeMap::new(), 0);
        for state in states.iter() {
            let mut now = BTreeMap::new();
            let mut note = |place: String, conditions: &Value| {
                for condition in list(conditions) {
                    let key = format!("{place}{}", text(&condition["type"]));
                    now.insert(key, (condition["status"].clone(), condition["lastTransitionTime"].clone()));
                }
            };
            note(String::new(), &state["conditions"]);
            for update in list(&state["conditionalUpdates"]) {
                let of = format!("{} to {}: ", state["desired"]["version"], update["release"]["version"]);
                note(of, &update["conditions"]);
            }
            for (type_, (status, time)) in &now {
                let Some((status_before, time_before)) = before.get(type_) else { continue };
                if status == status_before {
                    assert_eq!(time, time_before, "lastTransitionTime of {type_}, which is {status} as before");
                } else {
                    // Both may have been within one second.
                    assert!(text(time) >= text(time_before), "lastTransitionTime of {type_}: {time_before}, {time}");
                    changed += 1;
                }
            }
            before = now;
        }
        assert!(changed >= 2, "{changed} conditions changed in {} states", states.len());
        println!("{} states, {changed} conditions changed", states.len());
    }
}
