//! What an administrator's wish means for the spec of the ClusterVersion, or why it is refused: by the rules that `oc adm upgrade`
//! follows, and with the same patches. The daemon decides again, by more than these.

use super::choose::MULTI;
use super::risks::to_accept;
use super::validate::unforceable;
use crate::cluster_version::api::HistoryState;
use crate::cluster_version::api::{ClusterVersion, ClusterVersionStatus, Update};
use crate::cluster_version::status::release::{label, same_digest};
use crate::error::{CAUSE, listed};
use crate::object::condition::{Condition, ConditionStatus, find};
use crate::release::api::{ConditionalUpdate, Release};
use crate::version::{self, precedence};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition as MetaCondition;
use serde_json::{Map, Value, json};
use std::cmp::Ordering;

/// The release that somebody wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    Version(String),
    /// A pull spec.
    Image(String),
    /// The newest of the available updates.
    Latest,
    /// The present version for all architectures.
    MultiArch,
}

/// A wish, with what is to be done in spite of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ask {
    pub wanted: Wanted,
    /// Although the release is not verified, or preconditions are not met.
    pub force: bool,
    /// Although it is not recommended for this cluster.
    pub not_recommended: bool,
    /// Although the update service does not know the image.
    pub explicit: bool,
    /// Although the cluster does not do well, or another update is under way.
    pub with_warnings: bool,
    /// Names of risks that are accepted from now on, beside those that are.
    pub accept: Vec<String>,
}

impl Ask {
    pub(crate) fn new(wanted: Wanted) -> Ask {
        Ask { wanted, force: false, not_recommended: false, explicit: false, with_warnings: false, accept: Vec::new() }
    }
}

/// What comes of a wish.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Change {
    /// A JSON merge patch of the ClusterVersion; `None` if there is nothing to change.
    pub patch: Option<Value>,
    pub said: String,
    pub warnings: Vec<String>,
    /// What is requested by the patch.
    pub target: Option<Release>,
}

impl Change {
    fn none(said: String) -> Change {
        Change { said, ..Change::default() }
    }
}

/// Why a wish is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refused {
    #[error(
        "{version} is not recommended for this cluster: {advice}; --allow-not-recommended requests it all the same{}",
        .daemon.as_ref().map(|daemon| format!(", and {daemon}")).unwrap_or_default()
    )]
    NotRecommended { version: String, advice: String, daemon: Option<String> },
    #[error("the available updates are not known: {why}; {}", ways(*.image))]
    Unknown { why: String, image: bool },
    #[error("there are no {kind} updates: change the channel, or {}", ways(*.image))]
    NoUpdates { kind: &'static str, image: bool },
    #[error("{wanted} is not one of the possible updates, which are {}; {}", .possible.join(", "), ways(*.image))]
    Impossible { wanted: String, possible: Vec<String>, image: bool },
    #[error("{}; --allow-upgrade-with-warnings requests the update all the same", .0.join("; "))]
    Warnings(Vec<String>),
    #[error("the update to all architectures has been requested already")]
    MultiArch,
    #[error(
        "the version of the release that is being applied is not known: name the wanted release by --to or --to-image"
    )]
    NoVersion,
    #[error("{0}")]
    Unforceable(&'static str),
    #[error("cannot go back: {0}")]
    Rollback(String),
    #[error("the channel {channel:?} is not one of those that contain {version}: {}; --allow-explicit-channel sets it all the same", .known.join(", "))]
    Channel { channel: String, version: String, known: Vec<String> },
    #[error("without a channel no updates are found; --allow-explicit-channel clears it all the same")]
    ClearChannel,
}

fn ways(image: bool) -> &'static str {
    match image {
        true => "--allow-explicit-upgrade requests an image that is not among them",
        false => "--to-image requests a release by its image",
    }
}

fn status(object: &ClusterVersion) -> ClusterVersionStatus {
    object.status.clone().unwrap_or_default()
}

/// The update that is asked for.
pub(crate) fn update(object: &ClusterVersion, ask: &Ask) -> Result<Change, Refused> {
    let status = status(object);
    let mut warnings = Vec::new();
    let target = match &ask.wanted {
        Wanted::MultiArch => {
            let requested = object.spec.desired_update.as_ref();
            if requested.is_some_and(|update| update.architecture == MULTI) {
                return Err(Refused::MultiArch);
            }
            if status.desired.version.is_empty() {
                return Err(Refused::NoVersion);
            }
            let version = status.desired.version.clone();
            Release { version, architecture: MULTI.to_owned(), ..Release::default() }
        }
        Wanted::Version(version) if *version == status.desired.version => {
            return Ok(Change::none(format!("The cluster is already at version {version}")));
        }
        Wanted::Image(image) if *image == status.desired.image => {
            return Ok(Change::none(format!("The cluster is already at {image}")));
        }
        _ => match find_target(object, &status, ask, &mut warnings)? {
            Some(target) => target,
            None => {
                let said = format!("The cluster is already at the latest available version {}", label(&status.desired));
                return Ok(Change::none(said));
            }
        },
    };
    let concerns = concerns(&status);
    if !concerns.is_empty() {
        if !ask.with_warnings {
            return Err(Refused::Warnings(concerns));
        }
        warnings.extend(concerns);
    }
    if ask.force {
        let Release { version, image, architecture, .. } = target.clone();
        if let Some(problem) = unforceable(&Update { version, image, architecture, ..Update::default() }) {
            return Err(Refused::Unforceable(problem));
        }
        warnings.push("The release is requested by force: that it is not signed, or that preconditions are not met, does not stop it".to_owned());
    }
    let said = match (target.architecture.is_empty(), target.version.is_empty()) {
        (false, _) => "Requested the update to all architectures".to_owned(),
        (true, false) => format!("Requested the update to {}", target.version),
        (true, true) => format!("Requested the update to the release image {}", target.image),
    };
    let patch = patch(object.spec.desired_update.as_ref(), &target, ask);
    Ok(Change { patch: Some(patch), said, warnings, target: Some(target) })
}

/// All four fields always, as other clients write them.
fn patch(before: Option<&Update>, target: &Release, ask: &Ask) -> Value {
    let mut update = json!({
        "architecture": target.architecture, "version": target.version, "image": target.image, "force": ask.force,
    });
    let mut risks: Vec<&str> =
        before.iter().flat_map(|update| &update.accept_risks).map(|risk| risk.name.as_str()).collect();
    for risk in &ask.accept {
        if !risks.contains(&risk.as_str()) {
            risks.push(risk);
        }
    }
    if let Some(update) = update.as_object_mut().filter(|_| !risks.is_empty()) {
        update.insert("acceptRisks".to_owned(), risks.iter().map(|name| json!({"name": name})).collect());
    }
    // It asks for something else than an update, and would stay in a merge patch.
    if let Some(update) = update.as_object_mut().filter(|_| before.is_some_and(|before| !before.mode.is_empty())) {
        update.insert("mode".to_owned(), Value::Null);
    }
    json!({"spec": {"desiredUpdate": update}})
}

/// `None`: there is no newer one.
fn find_target(
    object: &ClusterVersion,
    status: &ClusterVersionStatus,
    ask: &Ask,
    warnings: &mut Vec<String>,
) -> Result<Option<Release>, Refused> {
    let available: Vec<&Release> = status.available_updates.iter().flatten().collect();
    let conditional: Vec<&ConditionalUpdate> =
        status.conditional_updates.iter().filter(|update| not_recommended(update).is_some()).collect();
    let known = available.iter().find(|release| is_wanted(release, &ask.wanted));
    let risky = || conditional.iter().copied().find(|update| is_wanted(&update.release, &ask.wanted));
    let chosen = match (known, &ask.wanted) {
        // The image is pulled from where the administrator says.
        (Some(known), Wanted::Image(image)) => Some((Release { image: image.clone(), ..(*known).clone() }, None)),
        (Some(known), _) => Some(((*known).clone(), None)),
        (None, Wanted::Latest) => newest(&available, &conditional, ask),
        (None, _) => risky().map(|update| (update.release.clone(), Some(update))),
    };
    if let Some((chosen, risky)) = chosen {
        if let Some((update, advice)) = risky.and_then(|update| Some((update, not_recommended(update)?))) {
            let (version, daemon) = (label(&chosen).to_owned(), what_the_daemon_demands(object, update, ask));
            if !ask.not_recommended {
                return Err(Refused::NotRecommended { version, advice, daemon });
            }
            warnings.push(format!("{version} is not recommended for this cluster: {advice}"));
            warnings.extend(daemon);
        }
        let Release { version, image, .. } = chosen;
        return Ok(Some(Release { version, image, ..Release::default() }));
    }
    if let (Wanted::Image(image), true) = (&ask.wanted, ask.explicit) {
        warnings.push("The image is not one of the available updates".to_owned());
        return Ok(Some(Release { image: image.clone(), ..Release::default() }));
    }
    none_found(status, ask, &available, &conditional)
}

fn none_found(
    status: &ClusterVersionStatus,
    ask: &Ask,
    available: &[&Release],
    conditional: &[&ConditionalUpdate],
) -> Result<Option<Release>, Refused> {
    let image = matches!(ask.wanted, Wanted::Image(_));
    let retrieved = find(&status.conditions, "RetrievedUpdates").filter(|it| it.status != ConditionStatus::True);
    if let Some(retrieved) = retrieved {
        return Err(Refused::Unknown { why: told(retrieved), image });
    }
    let mut possible: Vec<&Release> = available.to_vec();
    if ask.not_recommended {
        possible.extend(conditional.iter().map(|update| &update.release));
    }
    possible.sort_by(|a, b| newer(a, b));
    match (possible.is_empty(), &ask.wanted) {
        (true, Wanted::Latest) if !ask.not_recommended => Ok(None),
        (true, _) if ask.not_recommended => Err(Refused::NoUpdates { kind: "recommended or conditional", image }),
        (true, _) => Err(Refused::NoUpdates { kind: "recommended", image }),
        (false, wanted) => Err(Refused::Impossible {
            wanted: match wanted {
                Wanted::Version(text) | Wanted::Image(text) => text.clone(),
                Wanted::Latest | Wanted::MultiArch => "what is wanted".to_owned(),
            },
            possible: possible.into_iter().map(|release| label(release).to_owned()).collect(),
            image,
        }),
    }
}

fn is_wanted(release: &Release, wanted: &Wanted) -> bool {
    match wanted {
        Wanted::Version(version) => release.version == *version,
        Wanted::Image(image) => same_digest(&release.image, image),
        Wanted::Latest | Wanted::MultiArch => false,
    }
}

/// With the conditional update, if it is not recommended.
fn newest<'a>(
    available: &[&'a Release],
    conditional: &[&'a ConditionalUpdate],
    ask: &Ask,
) -> Option<(Release, Option<&'a ConditionalUpdate>)> {
    let risky = conditional.iter().filter(|_| ask.not_recommended);
    let risky = risky.map(|update| (&update.release, Some(*update)));
    let mut all: Vec<(&Release, Option<&ConditionalUpdate>)> =
        available.iter().map(|release| (*release, None)).chain(risky).collect();
    all.sort_by(|(a, _), (b, _)| newer(a, b));
    all.into_iter().next().map(|(release, update)| (release.clone(), update))
}

/// What the daemon wants besides, before it begins an update that is not recommended; `None` if it has that.
fn what_the_daemon_demands(object: &ClusterVersion, update: &ConditionalUpdate, ask: &Ask) -> Option<String> {
    const FORCE: &str = "it is forced by --force, which overrides the check of its signature, too";
    if ask.force {
        return None;
    }
    let accepted = object.spec.desired_update.iter().flat_map(|update| &update.accept_risks).map(|risk| &risk.name);
    let accepted: Vec<&String> = accepted.chain(&ask.accept).collect();
    let Some(risks) = to_accept(update) else {
        return Some(format!("the daemon does not begin it as long as that is so, unless {FORCE}"));
    };
    let missing = risks.into_iter().filter(|risk| accepted.iter().all(|known| known != risk));
    let missing: Vec<String> = missing.map(|risk| format!("--accept-risk {risk}")).collect();
    let flags = listed(&missing, " ", CAUSE, |n| format!("and {n} more"));
    let text = format!("the daemon does not begin it unless its risks are accepted by {flags}, or {FORCE}");
    (!missing.is_empty()).then_some(text)
}

/// Descending; what is no version comes last.
fn newer(a: &Release, b: &Release) -> Ordering {
    match (version::parse(&a.version), version::parse(&b.version)) {
        (Ok(a), Ok(b)) => precedence(&b, &a),
        (Ok(_), Err(_)) => Ordering::Less,
        (Err(_), Ok(_)) => Ordering::Greater,
        (Err(_), Err(_)) => a.version.cmp(&b.version),
    }
}

/// Why an update is not recommended, if that has been evaluated and it is not.
fn not_recommended(update: &ConditionalUpdate) -> Option<String> {
    let recommended: &MetaCondition = update.conditions.iter().find(|it| it.type_ == "Recommended")?;
    let is_not = recommended.status != "True";
    is_not.then(|| format!("Recommended={} ({}): {}", recommended.status, recommended.reason, recommended.message))
}

/// What speaks against an update now. What is unknown does not.
fn concerns(status: &ClusterVersionStatus) -> Vec<String> {
    let holds = |type_: &str| find(&status.conditions, type_).filter(|it| it.status == ConditionStatus::True);
    let sentences: [(&str, String); 3] = [
        ("Invalid", "the ClusterVersion is invalid".to_owned()),
        ("Failing", format!("{} is failing", label(&status.desired))),
        ("Progressing", "an update is under way".to_owned()),
    ];
    let told = |(type_, sentence): &(&str, String)| Some(format!("{sentence}: {}", told(holds(type_)?)));
    sentences.iter().filter_map(told).collect()
}

fn told(condition: &Condition) -> String {
    match (condition.reason.as_str(), condition.message.as_str()) {
        ("", message) => message.to_owned(),
        (reason, message) => format!("{message} ({reason})"),
    }
}

/// Withdraws what is requested. What risks are accepted stays.
pub(crate) fn clear(object: &ClusterVersion) -> Change {
    let Some(requested) = &object.spec.desired_update else { return Change::none("No update is requested".to_owned()) };
    let ClusterVersionStatus { desired, history, .. } = status(object);
    let same = match (requested.image.is_empty(), desired.image.is_empty()) {
        (false, false) => requested.image == desired.image,
        _ => requested.version == desired.version,
    };
    let cleared = match requested.accept_risks.as_slice() {
        [] => Value::Null,
        risks => {
            let mut fields = Map::new();
            for key in ["architecture", "version", "image"] {
                fields.insert(key.to_owned(), json!(""));
            }
            fields.insert("force".to_owned(), json!(false));
            // It would stay in a merge patch.
            if !requested.mode.is_empty() {
                fields.insert("mode".to_owned(), Value::Null);
            }
            fields.insert("acceptRisks".to_owned(), json!(risks));
            Value::Object(fields)
        }
    };
    let requested =
        Release { version: requested.version.clone(), image: requested.image.clone(), ..Release::default() };
    let completed = history.first().is_some_and(|entry| entry.state == HistoryState::Completed);
    let said = match (same, completed) {
        (true, true) => format!("Withdrew the request, and the cluster stays at {}", label(&desired)),
        (true, false) => {
            let before = history.iter().find(|entry| entry.image != desired.image).map(|entry| entry.version.as_str());
            let back = before.map_or_else(String::new, |before| format!(" to {before}"));
            format!(
                "Withdrew the request for {}, which has begun: it goes on if its own daemon has taken over, and otherwise the \
                 cluster goes back{back}",
                label(&desired)
            )
        }
        (false, _) => format!("Withdrew the request for {}", label(&requested)),
    };
    Change { patch: Some(json!({"spec": {"desiredUpdate": cleared}})), said, ..Change::default() }
}

/// Back to the release before the present one, which has to be of the same minor version.
pub(crate) fn rollback(object: &ClusterVersion) -> Result<Change, Refused> {
    let status = status(object);
    let refused = |why: String| Err(Refused::Rollback(why));
    let now = match version::parse(&status.desired.version) {
        Ok(now) => now,
        Err(error) => return refused(format!("the present version is not known: {error}")),
    };
    let other = |entry: &&crate::cluster_version::api::HistoryEntry| {
        entry.version != status.desired.version || entry.image != status.desired.image
    };
    let Some(previous) = status.history.iter().find(other) else {
        return refused("status.history has no other release".to_owned());
    };
    let before = match version::parse(&previous.version) {
        Ok(before) => before,
        Err(error) => return refused(format!("the version of the previous release is not known: {error}")),
    };
    if precedence(&before, &now) != Ordering::Less {
        return refused(format!("the previous release {before} is not older than {now}"));
    }
    if (before.major, before.minor) != (now.major, now.minor) {
        return refused(format!("the previous release {before} has another minor version than {now}"));
    }
    match find(&status.conditions, "Progressing") {
        None => return refused("nothing tells whether an update is under way".to_owned()),
        Some(progressing) if progressing.status != ConditionStatus::False => {
            return refused(format!("an update is under way: {}", told(progressing)));
        }
        Some(_) => {}
    }
    let target = Release { version: previous.version.clone(), image: previous.image.clone(), ..Release::default() };
    let patch = patch(object.spec.desired_update.as_ref(), &target, &Ask::new(Wanted::Latest));
    let said = format!("Requested the way back from {now} to {before}");
    Ok(Change { patch: Some(patch), said, target: Some(target), ..Change::default() })
}

/// Another channel; an empty one clears it. `explicit`: whether or not it is known.
pub(crate) fn channel(object: &ClusterVersion, wanted: &str, explicit: bool) -> Result<Change, Refused> {
    let (now, desired) = (&object.spec.channel, status(object).desired);
    if now == wanted {
        return Ok(Change::none(match wanted {
            "" => "The channel is already cleared".to_owned(),
            _ => format!("The channel is already {wanted}"),
        }));
    }
    let known = &desired.channels;
    let mut warnings = Vec::new();
    match (wanted.is_empty(), known.is_empty()) {
        (true, _) if known.contains(now) && !explicit => return Err(Refused::ClearChannel),
        (true, _) => warnings.push("Without a channel no updates are found".to_owned()),
        (false, true) => warnings.push(format!("Which channels contain {} is not known", label(&desired))),
        (false, false) if known.iter().any(|known| known == wanted) => {}
        (false, false) if explicit => {
            warnings.push(format!("The channel {wanted} does not contain {}", label(&desired)));
        }
        (false, false) => {
            let (channel, version) = (wanted.to_owned(), label(&desired).to_owned());
            return Err(Refused::Channel { channel, version, known: known.clone() });
        }
    }
    let said = match wanted {
        "" => format!("Cleared the channel, which was {now}"),
        _ => format!("The channel is {wanted} now"),
    };
    Ok(Change { patch: Some(json!({"spec": {"channel": wanted}})), said, warnings, target: None })
}

#[cfg(test)]
mod tests;
