//! What the controller writes to nodes and pools, as JSON merge patches. Each is based on a resourceVersion, so that what was
//! decided of an older state is refused.

use super::drain::Request;
use super::estimate::RECORD as DURATIONS;
use super::facts::CLAIMED;
use super::node::{NodeFacts, Target, said};
use super::rollout::etcd::RECORD as MEMBERS;
use super::rollout::{PoolFacts, Round};
use crate::machine_config::api::machine_config::{GROUP, annotation as key};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Taint;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The key of the taint of nodes that still wait for their turn: pods that have to move prefer those that are done.
pub(crate) const WAITING: &str = "UpdateInProgress";
/// An annotation holds no more than 256 KiB, together with all others.
const MOST_CLAIMS: usize = 500;

/// Annotations of this API, `None` to remove one.
fn annotations<const N: usize>(entries: [(&str, Option<String>); N]) -> Value {
    entries
        .into_iter()
        .map(|(key, value)| (format!("{GROUP}/{key}"), value.map_or(Value::Null, Value::String)))
        .collect()
}

/// The node should have this configuration. It waits no longer for its turn.
pub(crate) fn tell(
    version: &str,
    (node, taints): (&NodeFacts, &[Taint]),
    target: &Target,
    claim: Option<&String>,
    topology: Option<&str>,
) -> Value {
    let mut annotations = annotations([
        (key::DESIRED_CONFIG, Some(target.config.clone())),
        (key::DESIRED_IMAGE, target.image.clone()),
        (key::TOLD_FOR, claim.cloned().or_else(|| node.told_for.clone())),
        (key::DONE_SINCE, None),
        (key::STAGE_AHEAD, None),
    ]);
    if let (Some(topology), Some(map)) = (topology, annotations.as_object_mut()) {
        map.insert(format!("{GROUP}/{}", key::CONTROL_PLANE_TOPOLOGY), topology.into());
    }
    let mut patch = json!({"metadata": {"resourceVersion": version, "annotations": annotations}});
    if let (true, Some(map)) = (waits(taints), patch.as_object_mut()) {
        let others: Vec<&Taint> = taints.iter().filter(|taint| taint.key != WAITING).collect();
        map.insert("spec".to_owned(), json!({"taints": others}));
    }
    patch
}

/// Whether the node has the taint of those that wait.
pub(crate) fn waits(taints: &[Taint]) -> bool {
    taints.iter().any(|taint| taint.key == WAITING)
}

/// The node waits for its turn, or no longer.
pub(crate) fn taint(version: &str, taints: &[Taint], waiting: bool) -> Value {
    let others = taints.iter().filter(|taint| taint.key != WAITING).cloned();
    let own = Taint { key: WAITING.to_owned(), effect: "PreferNoSchedule".to_owned(), ..Taint::default() };
    let taints: Vec<Taint> = others.chain(waiting.then_some(own)).collect();
    json!({"metadata": {"resourceVersion": version}, "spec": {"taints": taints}})
}

/// The claims of a pool after this round, if they change. Claims that are over are removed together with new ones, or once
/// nobody is left who could act on any. `durations`: what was learned of how long nodes take, which is written with them.
pub(crate) fn claims(version: &str, pool: &PoolFacts, round: &Round, durations: Option<String>) -> Option<Value> {
    let open = pool.claimed.iter().filter(|(name, _)| !round.settled.contains(name));
    let open: BTreeMap<&String, &str> = open.map(|(name, claim)| (name, claim.as_str())).collect();
    let room = MOST_CLAIMS.saturating_sub(open.len());
    let new = round.claim.iter().take(room).map(|name| (name, version));
    let all_over = open.is_empty() && !pool.claimed.is_empty();
    if new.len() == 0 && !all_over {
        return None;
    }
    let claimed: BTreeMap<&String, &str> = open.into_iter().chain(new).collect();
    let text = (!claimed.is_empty()).then(|| json!(claimed).to_string());
    let members = pool.etcd.record.clone();
    let annotations = annotations([(CLAIMED, text), (DURATIONS, durations), (MEMBERS, members)]);
    Some(json!({"metadata": {"resourceVersion": version, "annotations": annotations}}))
}

/// No new pods come to the node, because of this MachineConfig. Its drain begins.
pub(crate) fn cordon(version: &str, config: &str, now: Timestamp) -> Value {
    let annotations =
        annotations([(key::CORDONED_FOR, Some(config.to_owned())), (key::DRAIN_STARTED, Some(seconds(now)))]);
    json!({"metadata": {"resourceVersion": version, "annotations": annotations}, "spec": {"unschedulable": true}})
}

/// It was not this controller that cordons it, should anybody.
pub(crate) fn not_cordoned(version: &str) -> Value {
    json!({"metadata": {"resourceVersion": version, "annotations": annotations([(key::CORDONED_FOR, None)])}})
}

/// Its drain begins; somebody else has cordoned it.
pub(crate) fn drain_started(version: &str, now: Timestamp) -> Value {
    let annotations = annotations([(key::DRAIN_STARTED, Some(seconds(now)))]);
    json!({"metadata": {"resourceVersion": version, "annotations": annotations}})
}

/// What keeps it from being drained, and when an attempt ended in vain, if one has.
pub(crate) fn drain_blocked(blocked: Option<&str>, failed: Option<Timestamp>) -> Value {
    let mut patch = annotations([(key::DRAIN_BLOCKED, blocked.map(said))]);
    if let (Some(failed), Some(map)) = (failed, patch.as_object_mut()) {
        map.insert(format!("{GROUP}/{}", key::DRAIN_FAILED), seconds(failed).into());
    }
    json!({"metadata": {"annotations": patch}})
}

/// The request is fulfilled. That a node is drained may be said over any version: it is said of this request alone, and
/// Kubernetes itself changes a node that was just cordoned.
pub(crate) fn answer(
    version: &str,
    asked: &str,
    id: Option<&String>,
    uncordon: bool,
    done: Option<Timestamp>,
) -> Value {
    let mut annotations = annotations([
        (key::LAST_APPLIED_DRAIN, Some(asked.to_owned())),
        (key::LAST_APPLIED_DRAIN_ID, id.cloned()),
        (key::DRAIN_FAILED, None),
        (key::DRAIN_BLOCKED, None),
    ]);
    if let Some(map) = annotations.as_object_mut() {
        // While it is cordoned, pods that came later than this are not to go.
        if !matches!(Request::parse(asked), Ok(Request::Drain(_))) {
            map.insert(format!("{GROUP}/{}", key::DRAIN_STARTED), Value::Null);
            map.insert(format!("{GROUP}/{}", key::CORDONED_FOR), Value::Null);
        }
        if let Some(done) = done {
            map.insert(format!("{GROUP}/{}", key::DONE_SINCE), seconds(done).into());
        }
    }
    match uncordon {
        true => json!({
            "metadata": {"resourceVersion": version, "annotations": annotations},
            "spec": {"unschedulable": null},
        }),
        false => json!({"metadata": {"annotations": annotations}}),
    }
}

/// The node is to prepare for this MachineConfig before it is told to take it, or no longer for any.
pub(crate) fn stage_ahead(version: &str, config: Option<&str>) -> Value {
    let annotations = annotations([(key::STAGE_AHEAD, config.map(str::to_owned))]);
    json!({"metadata": {"resourceVersion": version, "annotations": annotations}})
}

/// The node has its configuration since now.
pub(crate) fn done_since(version: &str, now: Timestamp) -> Value {
    json!({"metadata": {"resourceVersion": version, "annotations": annotations([(key::DONE_SINCE, Some(seconds(now)))])}})
}

fn seconds(time: Timestamp) -> String {
    Timestamp::from_second(time.as_second()).unwrap_or(time).to_string()
}

#[cfg(test)]
mod tests;
