//! Constraints and rules, and the objects that ask for operators.

use super::{Verdict, property};
use crate::fuzz::fixture::Fixture;
use cvo::testing::api::olm::install_plan::{InstallPlan, InstallPlanPhase, InstallPlanSpec, InstallPlanStatus};
use cvo::testing::api::olm::subscription::Subscription;
use cvo::testing::operators::{
    Decided, Namespace, Offered, PlanDecision, ask_constraint, ask_rule, carried_out, decide_plan, judge_constraint,
};
use jiff::{RoundMode, TimestampRound, Unit};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::BTreeSet;

/// Dependencies that one constraint may come to.
const MAX_PARTS: usize = 100;
/// Bytes of the message of a condition.
const MAX_MESSAGE: usize = 32 << 10;

/// What is wrong with a constraint is told with its place, and one that is accepted has the same verdict each time: of one operator
/// the same whether one or several may meet it.
pub(in crate::fuzz) fn constraint(fixture: &Fixture, input: &[u8]) -> Verdict {
    let Ok(value) = serde_json::from_slice::<Value>(input) else { return Ok(false) };
    let operators = &fixture.resolution.operators;
    let (errors, _) = judge_constraint(&value);
    let asked = match ask_constraint(&value, operators) {
        Ok(asked) => asked,
        Err(found) => {
            let placed = |error: &String| error.starts_with("value") || error.starts_with("it has");
            property(!found.is_empty() && found.iter().all(placed), &format!("an error without a place: {found:?}"))?;
            return property(found == errors, "it is judged by other rules than it is read").map(|()| false);
        }
    };
    property(errors.is_empty(), &format!("it is accepted with errors: {errors:?}"))?;
    let written: Value = serde_json::from_str(&value.to_string()).map_err(|e| e.to_string())?;
    property(
        ask_constraint(&written, operators).as_ref() == Ok(&asked),
        "written and read again it has another verdict",
    )?;
    if let Some((met, parts)) = &asked.parts {
        property(*parts > 0 && *parts <= MAX_PARTS, &format!("it comes to {parts} dependencies"))?;
        property(*met == asked.met, "one operator meets it, and not what it comes to, or the other way round")?;
    }
    Ok(true)
}

/// A rule has one verdict on a bundle, its negation the other one, and what stands in brackets means the same.
pub(in crate::fuzz) fn rule(fixture: &Fixture, input: &[u8]) -> Verdict {
    let text = String::from_utf8_lossy(input);
    let mut useful = false;
    for properties in &fixture.resolution.operators {
        let Ok(verdict) = ask_rule(&text, properties) else { return Ok(false) };
        // Why there is none may name maps, whose members have no order.
        let again = ask_rule(&text, properties).map(Result::ok);
        property(again == Ok(verdict.clone().ok()), "asked twice, it has two verdicts")?;
        let Ok(holds) = verdict else { continue };
        useful = true;
        // A comment would end with them; more signs may be too many.
        for (other, expected) in [(format!("!({text}\n)"), !holds), (format!("({text}\n) && true"), holds)] {
            if let Ok(Ok(found)) = ask_rule(&other, properties) {
                property(found == expected, &format!("{other:?} is {found}"))?;
            }
        }
    }
    Ok(useful)
}

fn each<T: DeserializeOwned>(given: &Value, key: &str) -> Vec<T> {
    let list = given.get(key).and_then(Value::as_array).into_iter().flatten();
    list.filter_map(|object| serde_json::from_value(object.clone()).ok()).collect()
}

/// A plan is written as it was read, is carried out only where it is approved, and once its status is written, it is not written again.
pub(in crate::fuzz) fn install_plan(fixture: &Fixture, input: &[u8]) -> Verdict {
    let Ok(given) = serde_json::from_slice::<Value>(input) else { return Ok(false) };
    let Some(Ok(mut plan)) = given.get("plan").cloned().map(serde_json::from_value::<InstallPlan>) else {
        return Ok(false);
    };
    let groups = each(&given, "groups");
    let written = serde_json::to_value(&plan).map_err(|e| e.to_string())?;
    let again: InstallPlan =
        serde_json::from_value(written).map_err(|e| format!("it is not read as it is written: {e}"))?;
    let before = plan.status.clone().map(in_whole_seconds);
    property((&again.spec, &again.status) == (&plan.spec, &before), "it is read differently")?;
    let mut decision = decide_plan(&plan, &groups, fixture.now);
    property(decision == decide_plan(&plan, &groups, fixture.now), "it is judged differently the second time")?;
    if let PlanDecision::Write(status) = decision {
        property(plan.spec.approved, "something is done for a plan that is not approved")?;
        plan.status = Some(*status);
        decision = decide_plan(&plan, &groups, fixture.now);
        property(!matches!(decision, PlanDecision::Write(_)), "its status is written twice")?;
    }
    let is_carried_out = decision == PlanDecision::CarryOut;
    property(
        !is_carried_out || plan.spec.approved && groups.len() == 1,
        "it is carried out without approval or group",
    )?;
    let Some(status) = plan.status.clone().filter(|_| is_carried_out) else { return Ok(false) };
    let (complete, again) = carried_out(&status, None, fixture.now);
    property(complete.phase == InstallPlanPhase::Complete && !again, "with all steps done it goes on")?;
    plan.status = Some(complete);
    property(decide_plan(&plan, &groups, fixture.now) == PlanDecision::Nothing, "it goes on after it is complete")?;
    let (failed, again) = carried_out(&status, Some(0), fixture.now);
    property(again || failed.phase == InstallPlanPhase::Failed, "it neither fails nor goes on")?;
    Ok(true)
}

/// Times as Kubernetes writes them; others may write fractions.
fn in_whole_seconds(mut status: InstallPlanStatus) -> InstallPlanStatus {
    let conditions = status.conditions.iter_mut();
    let of_plan = conditions.flat_map(|it| [&mut it.last_update_time, &mut it.last_transition_time]);
    let conditions = status.bundle_lookups.iter_mut().flat_map(|it| &mut it.conditions);
    let of_lookups = conditions.flat_map(|it| [&mut it.last_update_time, &mut it.last_transition_time]);
    for time in of_plan.chain(of_lookups).chain([&mut status.start_time]).flatten() {
        let seconds = TimestampRound::new().smallest(Unit::Second).mode(RoundMode::Floor);
        time.0 = time.0.round(seconds).unwrap_or(time.0);
    }
    status
}

/// Whatever is in a namespace, it is decided once: after the statuses are written nothing is written again, and no plan has what is
/// there already or takes the place of one that somebody has approved.
pub(in crate::fuzz) fn subscriptions(fixture: &Fixture, input: &[u8]) -> Verdict {
    let Ok(given) = serde_json::from_slice::<Value>(input) else { return Ok(false) };
    let mut namespace = Namespace {
        subscriptions: each(&given, "subscriptions"),
        csvs: each(&given, "csvs"),
        groups: each(&given, "groups"),
        plans: each(&given, "plans"),
        sick: given.get("sick").and_then(Value::as_str).map(ToOwned::to_owned),
    };
    unique(&mut namespace);
    let offered = &fixture.resolution.offered;
    let decided = offered.decide(&namespace, fixture.now)?;
    property(
        offered.decide(&namespace, fixture.now).as_ref() == Ok(&decided),
        "it is decided differently the second time",
    )?;
    planned(&namespace, &decided)?;
    for (at, status) in &decided.statuses {
        for condition in &status.conditions {
            let length = condition.message.len();
            property(length <= MAX_MESSAGE, &format!("{} has a message of {length} bytes", condition.type_))?;
        }
        if let Some(subscription) = namespace.subscriptions.get_mut(*at) {
            subscription.status = Some(status.clone());
        }
    }
    settles(offered, namespace, fixture)?;
    Ok(decided.looked)
}

/// Names are unique and uids are there, as the API server sees to it.
fn unique(namespace: &mut Namespace) {
    let mut names = BTreeSet::new();
    namespace.subscriptions.retain(|it| it.metadata.name.as_ref().is_some_and(|name| names.insert(name.clone())));
    namespace.subscriptions.sort_by(|one, other| one.metadata.name.cmp(&other.metadata.name));
    let mut names = BTreeSet::new();
    namespace.csvs.retain(|it| it.metadata.name.as_ref().is_some_and(|name| names.insert(name.clone())));
    let mut names = BTreeSet::new();
    namespace.plans.retain(|it| it.metadata.name.as_ref().is_some_and(|name| names.insert(name.clone())));
    for subscription in &mut namespace.subscriptions {
        subscription.metadata.uid = subscription.metadata.name.as_ref().map(|name| format!("uid-{name}"));
    }
}

fn planned(namespace: &Namespace, decided: &Decided) -> Result<(), String> {
    for name in &decided.superseded {
        let is_approved = |plan: &&InstallPlan| plan.metadata.name.as_ref() == Some(name) && plan.spec.approved;
        let has_steps = |plan: &InstallPlan| plan.status.as_ref().is_some_and(|it| !it.plan.is_empty());
        let running = namespace.plans.iter().find(is_approved).is_some_and(has_steps);
        property(!running, "a plan is given up that is being carried out")?;
    }
    for plan in &decided.plans {
        made(namespace, decided, plan)?;
    }
    let generations: BTreeSet<Option<i64>> = decided.plans.iter().map(|(spec, _)| spec.generation).collect();
    property(generations.len() == decided.plans.len(), "two plans have one generation")
}

fn made(
    namespace: &Namespace,
    decided: &Decided,
    (spec, status): &(InstallPlanSpec, InstallPlanStatus),
) -> Result<(), String> {
    property(decided.looked && namespace.groups.len() == 1, "a plan is made without an answer or a group")?;
    let names = &spec.cluster_service_version_names;
    property(!names.is_empty() && names.is_sorted(), &format!("it has {names:?}"))?;
    let is_there = |name: &String| {
        let of_name = |it: &&cvo::testing::api::olm::cluster_service_version::ClusterServiceVersion| {
            it.metadata.name.as_ref() == Some(name)
        };
        let is_copy = |labels: &std::collections::BTreeMap<String, String>| labels.contains_key("olm.copiedFrom");
        namespace.csvs.iter().find(of_name).is_some_and(|it| !it.metadata.labels.as_ref().is_some_and(is_copy))
    };
    property(!names.iter().any(is_there), "a plan has what is installed")?;
    property(status.bundle_lookups.len() <= names.len(), "it has more lookups than bundles")
}

/// Once statuses are written the same facts write nothing; whatever a status says, that is so after a few rounds.
fn settles(offered: &Offered, mut namespace: Namespace, fixture: &Fixture) -> Result<(), String> {
    for _ in 0..3 {
        let decided = offered.decide(&namespace, fixture.now)?;
        if decided.statuses.is_empty() {
            return Ok(());
        }
        for (at, status) in decided.statuses {
            if let Some(Subscription { status: before, .. }) = namespace.subscriptions.get_mut(at) {
                *before = Some(status);
            }
        }
    }
    Err("statuses are written again and again".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn plan_with_fractions_of_seconds_is_read_as_it_is_written() {
        let folder = std::env::temp_dir().join(format!("cvo-fuzz-seconds-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let fixture = Fixture::read(&folder).unwrap();
        for time in ["2026-01-01T00:00:00Z", "2026-01-01T00:00:00.1Z", "1969-12-31T23:59:58.9Z"] {
            let condition =
                json!({"type": "Installed", "status": "True", "lastUpdateTime": time, "lastTransitionTime": time});
            let lookup = json!({"path": "i", "identifier": "a.v1", "replaces": "", "catalogSourceRef": {},
                "conditions": [condition]});
            let status = json!({"phase": "Complete", "catalogSources": [], "conditions": [condition],
                "bundleLookups": [lookup], "startTime": time});
            let plan = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "InstallPlan",
                "metadata": {"name": "p", "namespace": "ns"}, "spec": {}, "status": status});
            let verdict = install_plan(&fixture, json!({"plan": plan, "groups": []}).to_string().as_bytes());
            assert_eq!(verdict, Ok(false), "{time}");
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
