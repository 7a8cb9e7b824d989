//! ClusterServiceVersions, OperatorGroups and OperatorConditions of any form in a small cluster.

use super::{Verdict, property};
use crate::fuzz::fixture::Fixture;
use cvo::testing::api::olm::cluster_service_version::{ClusterServiceVersion, Phase};
use cvo::testing::api::olm::operator_condition::OperatorCondition;
use cvo::testing::api::olm::operator_group::OperatorGroup;
use e2e::operator_simulation::settle;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Bytes of a message, and of a whole status without what requirements say.
const MAX_MESSAGE: usize = 32 << 10;
/// Phases that are remembered.
const REMEMBERED: usize = 20;

pub(in crate::fuzz) fn csv(fixture: &Fixture, input: &[u8]) -> Verdict {
    let Some(object) = decoded::<ClusterServiceVersion>(input, "a.v1")? else { return Ok(false) };
    let labels = object.pointer("/metadata/labels").and_then(Value::as_object);
    let is_copy = labels.is_some_and(|labels| labels.contains_key("olm.copiedFrom"));
    beside(fixture, &object, "").map(|ran| ran && !is_copy)
}

pub(in crate::fuzz) fn group(fixture: &Fixture, input: &[u8]) -> Verdict {
    let Some(object) = decoded::<OperatorGroup>(input, "g")? else { return Ok(false) };
    beside(fixture, &object, "OperatorGroup")
}

pub(in crate::fuzz) fn condition(fixture: &Fixture, input: &[u8]) -> Verdict {
    let Some(object) = decoded::<OperatorCondition>(input, "b.v1")? else { return Ok(false) };
    beside(fixture, &object, "")
}

/// As it is kept by the API server: with a name, in a namespace. `None` for what is no such object, which the API server turns down.
fn decoded<T: DeserializeOwned + Serialize>(input: &[u8], name: &str) -> Result<Option<Value>, String> {
    let Ok(mut object) = serde_json::from_slice::<Value>(input) else { return Ok(None) };
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else { return Ok(None) };
    metadata.insert("name".to_owned(), name.into());
    metadata.insert("namespace".to_owned(), "n0".into());
    for set in [
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "deletionTimestamp",
        "ownerReferences",
        "managedFields",
    ] {
        metadata.remove(set);
    }
    let Ok(read) = serde_json::from_value::<T>(object) else { return Ok(None) };
    let written = serde_json::to_value(&read).map_err(|e| e.to_string())?;
    let again =
        serde_json::from_value::<T>(written.clone()).map_err(|e| format!("it is not read as it is written: {e}"))?;
    property(serde_json::to_value(&again).ok().as_ref() == Some(&written), "it is read differently")?;
    Ok(Some(written))
}

/// In place of the object of its kind and name, or of all of the kind `instead` in its namespace. Whether an operator runs.
fn beside(fixture: &Fixture, object: &Value, instead: &str) -> Verdict {
    let key = |it: &Value| {
        (it.get("kind").cloned(), it.pointer("/metadata/namespace").cloned(), it.pointer("/metadata/name").cloned())
    };
    let is_replaced = |it: &&Value| {
        key(it) == key(object) || it.get("kind").and_then(Value::as_str) == Some(instead) && key(it).1 == key(object).1
    };
    let others = fixture.lifecycle.around.iter().filter(|it| !is_replaced(it)).cloned();
    let all: Vec<Value> = others.chain([object.clone()]).collect();
    let settled = settle(&all).map_err(|error| format!("{error:#}"))?;
    let mut runs = false;
    for (kind, it) in &settled {
        match *kind {
            "ClusterServiceVersion" => runs |= said(it)?,
            "OperatorGroup" => conditions(it, "OperatorGroup")?,
            "OperatorCondition" => conditions(it, "OperatorCondition")?,
            _ => {}
        }
    }
    Ok(runs)
}

/// What it says of itself has a reason and a message, and is not too long.
fn said(csv: &Value) -> Result<bool, String> {
    let csv: ClusterServiceVersion =
        serde_json::from_value(csv.clone()).map_err(|e| format!("it is not read as it was written: {e}"))?;
    let Some(status) = &csv.status else { return Ok(false) };
    let is_copy = csv.metadata.labels.iter().flatten().any(|(key, _)| key == "olm.copiedFrom");
    property(is_copy || status.phase == Phase::None || !status.reason.is_empty(), "a phase without a reason")?;
    property(status.reason.is_empty() || !status.message.is_empty(), "a reason without a message")?;
    property(status.message.len() <= MAX_MESSAGE, &format!("a message of {} bytes", status.message.len()))?;
    property(status.conditions.len() <= REMEMBERED, &format!("{} phases are remembered", status.conditions.len()))?;
    Ok(status.phase == Phase::Succeeded && !is_copy)
}

fn conditions(object: &Value, kind: &str) -> Result<(), String> {
    let all = object.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten();
    for condition in all {
        let length = json!(condition).to_string().len();
        property(length <= MAX_MESSAGE, &format!("a condition of an {kind} has {length} bytes"))?;
    }
    Ok(())
}
