//! Judges conditional updates: which risks apply to this cluster, and whether an update is therefore recommended.

mod fold;

use super::evaluations::{Evaluations, Known};
use crate::cluster_version::status;
use crate::cluster_version::status::Risk;
use crate::error::{CAUSE, listed, shortened};
use crate::release::api::{ConditionalUpdate, ConditionalUpdateRisk, MatchingRule, Release};
use crate::release::update_graph::response::{MAX_AVAILABLE, MAX_CONDITIONAL, MAX_RISKS, fit};
use crate::version;
use fold::{Fold, Want};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use semver::Version;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

/// The condition of a conditional update.
pub(crate) const RECOMMENDED: &str = "Recommended";
/// Its reason where risks apply and the administrator accepts each of them.
pub(crate) const RISKS_ACCEPTED: &str = "AllExposedRisksAccepted";
/// The condition of a risk.
const APPLIES: &str = "Applies";

/// Most bytes that each published list may have as JSON: with three of them the object stays below what an API server
/// stores.
const MAX_PUBLISHED: usize = 400 << 10;
/// Most bytes of the message of one condition; the schema allows 32768, and each of 500 updates has one.
const MAX_MESSAGE: usize = 8 << 10;

/// What updates are judged by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Basis<'a> {
    /// Version of the running release.
    pub current: &'a str,
    /// Risks that the daemon has found in the cluster itself. They apply to every update to a higher minor or major version.
    pub own_risks: &'a [Risk],
    /// Names of the risks that the administrator accepts; `None` without the feature gate `ClusterUpdateAcceptRisks`.
    pub accepted: Option<&'a BTreeSet<String>>,
    pub evaluations: &'a Evaluations,
    pub now: Timestamp,
}

/// Updates as they are published.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Judged {
    /// Those without risks, and those that are recommended although they have some.
    pub available: Vec<Release>,
    pub conditional: Vec<ConditionalUpdate>,
    /// Each risk once; empty without the feature gate.
    pub risks: Vec<ConditionalUpdateRisk>,
    /// What was left out, and why.
    pub notes: Vec<String>,
}

/// A risk as it concerns this cluster.
#[derive(Clone, Debug, PartialEq)]
enum Exposure {
    No,
    Yes { accepted: bool },
    Unknown,
}

/// Judges the updates that the update graph has for the running release. Both lists are sorted by version, highest first.
///
/// The times of the conditions are those of this evaluation: [`keep_times`] keeps those of conditions that did not change.
pub(crate) fn judge(available: &[Release], conditional: &[ConditionalUpdate], basis: Basis<'_>) -> Judged {
    let mut judged = Judged { available: available.to_vec(), conditional: conditional.to_vec(), ..Judged::default() };
    if basis.accepted.is_some() {
        judged.notes = add_own_risks(&mut judged, basis);
    }
    sort_by_version(&mut judged.conditional, |update| &update.release);
    judged.notes.extend(fit(&mut judged.conditional, MAX_CONDITIONAL, MAX_PUBLISHED, "conditional updates"));
    for update in &mut judged.conditional {
        judge_update(update, basis);
    }
    // Conditions were not counted before they were written.
    judged.notes.extend(fit(&mut judged.conditional, MAX_CONDITIONAL, MAX_PUBLISHED, "conditional updates"));
    let mut images: BTreeSet<String> = judged.available.iter().map(|release| release.image.clone()).collect();
    for update in judged.conditional.iter().filter(|update| is_recommended(update)) {
        if images.insert(update.release.image.clone()) {
            judged.available.push(update.release.clone());
        }
    }
    sort_by_version(&mut judged.available, |release| release);
    judged.notes.extend(fit(&mut judged.available, MAX_AVAILABLE, MAX_PUBLISHED, "updates"));
    if basis.accepted.is_some() {
        judged.risks = each_risk_once(&judged.conditional);
        let beyond = fit(&mut judged.risks, MAX_CONDITIONAL, MAX_PUBLISHED, "risks");
        judged.notes.extend(beyond);
    }
    judged
}

fn is_recommended(update: &ConditionalUpdate) -> bool {
    update.conditions.iter().any(|c| c.type_ == RECOMMENDED && c.status == "True")
}

/// Adds the risks that the daemon has found itself to the updates that they concern. An update without other risks becomes
/// a conditional one.
fn add_own_risks(judged: &mut Judged, basis: Basis<'_>) -> Vec<String> {
    let mut notes = Vec::new();
    for own in basis.own_risks {
        if let Some(problem) = unusable(own) {
            notes.push(format!("risk {:?} of this cluster: {problem}: left out", own.name));
            continue;
        }
        let risk = ConditionalUpdateRisk {
            url: own.url.clone(),
            name: own.name.clone(),
            message: own.message.clone(),
            matching_rules: vec![MatchingRule { type_: "Always".to_owned(), promql: None }],
            conditions: Vec::new(),
        };
        let concerned = |release: &Release| is_ahead(&release.version, basis.current);
        let (moved, kept) = std::mem::take(&mut judged.available).into_iter().partition(concerned);
        judged.available = kept;
        let moved: Vec<Release> = moved;
        judged.conditional.extend(moved.into_iter().map(|release| ConditionalUpdate {
            release,
            risks: Vec::new(),
            conditions: Vec::new(),
            risk_names: Vec::new(),
        }));
        for update in judged.conditional.iter_mut().filter(|update| concerned(&update.release)) {
            let present = update.risks.iter().any(|other| other.name == risk.name);
            if !present && update.risks.len() < MAX_RISKS {
                update.risks.push(risk.clone());
            }
        }
    }
    notes
}

/// Why the API server would refuse a risk, and with it the whole status.
fn unusable(risk: &Risk) -> Option<&'static str> {
    let mut letters = risk.name.chars();
    let named = letters.next().is_some_and(|c| c.is_ascii_uppercase())
        && letters.all(|c| c.is_ascii_alphanumeric() || c == '.' || c == '-')
        && risk.name.len() <= 256;
    if !named {
        Some("its name must begin with an upper-case letter and have only letters, digits, . and -")
    } else if risk.message.is_empty() {
        Some("it has no message")
    } else if !crate::release::update_graph::response::is_uri(&risk.url) {
        Some("it has no valid url")
    } else {
        None
    }
}

/// Whether a version is at least one minor or major version ahead. One that cannot be compared counts as ahead, which is
/// the safe side.
fn is_ahead(version: &str, current: &str) -> bool {
    match (version::minor(version), version::minor(current)) {
        (Some(version), Some(current)) => version > current,
        _ => true,
    }
}

/// Writes the conditions of an update and its risks.
fn judge_update(update: &mut ConditionalUpdate, basis: Basis<'_>) {
    let mut fold = Fold::default();
    let mut paragraphs: Vec<(u8, String)> = Vec::new();
    for risk in &mut update.risks {
        let known = basis.evaluations.of_rules(&risk.matching_rules, basis.now);
        let accepted = basis.accepted.is_some_and(|accepted| accepted.contains(&risk.name));
        let exposure = match &known {
            Known::Verdict { matches: false, .. } => Exposure::No,
            Known::Verdict { matches: true, .. } => Exposure::Yes { accepted },
            Known::Failed(_) | Known::Pending => Exposure::Unknown,
        };
        let (rank, want) = match exposure {
            Exposure::No => (3, None),
            Exposure::Yes { accepted: true } => (2, Some(Want::Accepted)),
            Exposure::Yes { accepted: false } => (0, Some(Want::of_risk(&risk.name))),
            Exposure::Unknown => (1, Some(Want::Unknown)),
        };
        if let Some(want) = want {
            fold.add(want);
        }
        paragraphs.push((rank, paragraph(risk, &known, &exposure)));
        risk.conditions.clear();
        if basis.accepted.is_some() {
            risk.conditions.push(applies(&known, basis.now));
        }
    }
    // What keeps the update from being recommended comes first.
    paragraphs.sort_by_key(|(rank, _)| *rank);
    let lead = match fold.status() {
        "True" if fold.is_exposed() => {
            Some("Recommended: each risk either does not apply to this cluster or is accepted.")
        }
        "True" => Some("Recommended: none of the risks applies to this cluster."),
        _ => None,
    };
    let texts = lead.map(str::to_owned).into_iter().chain(paragraphs.into_iter().map(|(_, text)| text));
    let texts: Vec<String> = texts.collect();
    let message = listed(&texts, "\n\n", MAX_MESSAGE, |n| format!("and {n} more risks"));
    update.conditions = vec![condition(RECOMMENDED, fold.status(), fold.reason(), message, basis.now)];
    update.risk_names = match basis.accepted {
        Some(_) => update.risks.iter().map(|r| r.name.clone()).collect::<BTreeSet<_>>().into_iter().collect(),
        None => Vec::new(),
    };
}

/// What is said of one risk of an update.
fn paragraph(risk: &ConditionalUpdateRisk, known: &Known, exposure: &Exposure) -> String {
    let text = format!("{} {}", shortened(&risk.message, MAX_MESSAGE / 4), risk.url);
    let name = &risk.name;
    match (exposure, known) {
        (Exposure::No, known) => format!("Risk {name} does not apply{}.", evaluated(known)),
        (Exposure::Yes { accepted: true }, known) => {
            format!("Risk {name} applies and is accepted{}: {text}", evaluated(known))
        }
        (Exposure::Yes { accepted: false }, known) => format!("{text} (Risk {name} applies{})", evaluated(known)),
        (Exposure::Unknown, Known::Failed(cause)) => {
            let cause = shortened(cause, CAUSE);
            format!("Whether risk {name} applies is unknown: {cause}. If it applies: {text}")
        }
        (Exposure::Unknown, _) => format!("Whether risk {name} applies is not known yet. If it applies: {text}"),
    }
}

/// When a risk was evaluated, and why it could not be evaluated again since. Without such a cause it was within the hour, and
/// the time is left out: the ClusterVersion would be written for nothing else.
fn evaluated(known: &Known) -> String {
    match known {
        Known::Verdict { evaluated: Some(at), failure: Some(cause), .. } => {
            format!(", as evaluated at {at}, which could not be renewed: {}", shortened(cause, CAUSE))
        }
        _ => String::new(),
    }
}

fn applies(known: &Known, now: Timestamp) -> Condition {
    let (status, reason, message) = match known {
        Known::Verdict { matches: true, .. } => ("True", "Match", format!("The risk applies{}.", evaluated(known))),
        Known::Verdict { matches: false, .. } => {
            ("False", "NotMatch", format!("The risk does not apply{}.", evaluated(known)))
        }
        Known::Failed(cause) => {
            let cause = shortened(cause, CAUSE);
            ("Unknown", "EvaluationFailed", format!("Whether the risk applies is unknown: {cause}."))
        }
        Known::Pending => ("Unknown", "EvaluationFailed", "The risk has not been evaluated yet.".to_owned()),
    };
    condition(APPLIES, status, reason, message, now)
}

fn condition(type_: &str, status: &str, reason: &str, message: String, now: Timestamp) -> Condition {
    Condition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message,
        last_transition_time: status::whole_seconds(now),
        observed_generation: None,
    }
}

/// The risks that have to be accepted for this update, as it was judged, to be recommended; `None` if that is not possible: without the
/// feature gate, or while it is not known whether each of its risks applies.
pub(super) fn to_accept(update: &ConditionalUpdate) -> Option<Vec<&str>> {
    let applies = |risk: &ConditionalUpdateRisk| {
        let condition = risk.conditions.iter().find(|condition| condition.type_ == APPLIES)?;
        match condition.status.as_str() {
            "True" => Some(true),
            "False" => Some(false),
            _ => None,
        }
    };
    // They are named with the gate only.
    if update.risk_names.is_empty() {
        return None;
    }
    let known: Option<Vec<(&str, bool)>> =
        update.risks.iter().map(|risk| Some((risk.name.as_str(), applies(risk)?))).collect();
    Some(known?.into_iter().filter(|(_, applies)| *applies).map(|(name, _)| name).collect())
}

/// The risks of all updates, each name once, sorted by name. Where two have the same name, that of the higher version counts.
fn each_risk_once(conditional: &[ConditionalUpdate]) -> Vec<ConditionalUpdateRisk> {
    let mut risks: BTreeMap<&str, &ConditionalUpdateRisk> = BTreeMap::new();
    for risk in conditional.iter().flat_map(|update| &update.risks) {
        risks.entry(&risk.name).or_insert(risk);
    }
    risks.into_values().cloned().collect()
}

/// Highest version first; equal ones by image, so that the order is stable.
fn sort_by_version<T>(list: &mut [T], release: impl Fn(&T) -> &Release) {
    let parsed = |item: &T| version::parse(&release(item).version).ok();
    let order = |a: &Option<Version>, b: &Option<Version>| match (a, b) {
        (Some(a), Some(b)) => version::precedence(b, a),
        (a, b) => b.is_some().cmp(&a.is_some()),
    };
    let by = |a: &T, b: &T| -> Ordering {
        order(&parsed(a), &parsed(b)).then_with(|| release(a).image.cmp(&release(b).image))
    };
    list.sort_by(by);
}

#[cfg(test)]
mod tests;
