//! What the ClusterOperator `machine-config` says, each time from all that is known: nothing is waited for inside.

use super::estimate::left;
use super::status::Counts;
use crate::error::{shortened, together};
use crate::machine_config::api::machine_config::{GENERATED_BY, MachineConfig, OS_IMAGE_OVERRIDDEN, RELEASE_VERSION};
use crate::object::cluster_operator::{ClusterOperatorStatus, OperandVersion};
use crate::object::condition::{Condition, ConditionStatus, find};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use std::collections::BTreeMap;

/// The name of the ClusterOperator.
pub const NAME: &str = "machine-config";
/// How long a pool that an update waits for may be degraded before the operator is: nodes often recover by themselves.
pub const PATIENCE: SignedDuration = SignedDuration::from_mins(10);

/// Most bytes of what is said of one pool, which says more itself.
const OF_POOL: usize = 1000;

/// A condition that is there only while it is True. Nothing waits for it: a cluster may leave its nodes alone.
pub(crate) const NODES_WITHOUT_POOL: &str = "NodesWithoutPool";

/// What the operator of a release knows.
#[derive(Clone, Debug, Default)]
pub struct OperatorFacts {
    /// The release of this process, and its image.
    pub version: String,
    pub image: String,
    pub pools: Vec<PoolSummary>,
    /// What could not be done, by a word for what was attempted, such as `RenderConfig`. Each stays until it succeeds.
    pub errors: BTreeMap<String, String>,
    /// What is to be said of nodes that no pool selects.
    pub without_pool: Vec<String>,
}

#[derive(Clone, Debug, Default)]
pub struct PoolSummary {
    pub name: String,
    /// An update of the cluster waits for it.
    pub required: bool,
    pub paused: bool,
    pub counts: Counts,
    /// All its nodes have its configuration, as of the newest generation of its spec.
    pub updated: bool,
    /// Why its configuration is not one of this release.
    pub invalid: Option<String>,
    /// Why it is degraded, and since when.
    pub degraded: Option<(String, Timestamp)>,
    /// Why its rollout is blocked.
    pub blocked: Option<String>,
    /// How long the rest of its rollout takes, by what was learned.
    pub remaining: Option<SignedDuration>,
}

impl PoolSummary {
    fn is_done(&self) -> bool {
        self.updated && self.invalid.is_none()
    }

    fn trouble(&self) -> Option<String> {
        let (cause, _) = self.degraded.as_ref()?;
        Some(format!("{}: {}", self.name, shortened(cause, OF_POOL)))
    }

    /// Such as `master 1/3 (paused)`.
    fn progress(&self) -> String {
        let Counts { updated, total, .. } = self.counts;
        let remaining = self.remaining.filter(|_| !self.paused).map(left);
        let paused = self.paused.then(|| "paused".to_owned());
        let blocked = self.blocked.as_ref().map(|cause| shortened(cause, OF_POOL).into_owned());
        let notes: Vec<String> = paused.into_iter().chain(remaining).chain(blocked).collect();
        match notes.is_empty() {
            true => format!("{} {updated}/{total}", self.name),
            false => format!("{} {updated}/{total} ({})", self.name, notes.join("; ")),
        }
    }
}

/// Why a rendered MachineConfig is not one of this release, if it is not. `images`: those of the release's operating systems.
pub fn invalid(rendered: &MachineConfig, controller: &str, release: &str, images: &[String]) -> Option<String> {
    let name = rendered.metadata.name.as_deref().unwrap_or_default();
    let annotation = |key: &str| rendered.metadata.annotations.as_ref()?.get(key).map(String::as_str);
    let by = annotation(GENERATED_BY).unwrap_or_default();
    let of = annotation(RELEASE_VERSION).unwrap_or_default();
    let (image, overridden) = (&rendered.spec.os_image_url, annotation(OS_IMAGE_OVERRIDDEN) == Some("true"));
    match () {
        () if by != controller => {
            Some(format!("MachineConfig {name} was rendered by version {by:?}, not by {controller:?}"))
        }
        () if of != release => {
            Some(format!("MachineConfig {name} was rendered for release {of:?}, not for {release:?}"))
        }
        () if !overridden && !images.contains(image) => Some(format!(
            "MachineConfig {name} has the operating system {image:?}, which is not that of release {release:?}"
        )),
        () => None,
    }
}

pub fn status(before: &ClusterOperatorStatus, facts: &OperatorFacts, now: Timestamp) -> ClusterOperatorStatus {
    let wanted = [("operator", &facts.version), ("operator-image", &facts.image)];
    let published = |versions: &[OperandVersion]| {
        wanted.iter().all(|(name, version)| versions.iter().any(|v| v.name == *name && v.version == **version))
    };
    let degraded = degraded(facts, now);
    let required = || facts.pools.iter().filter(|pool| pool.required);
    // Without any such pool nothing would ever be waited for: that is how it is before the pools are there.
    let reached = required().next().is_some() && required().all(PoolSummary::is_done) && degraded.is_none();
    let was_published = published(&before.versions);
    let mut versions = before.versions.clone();
    if reached && !was_published {
        let others = versions.into_iter().filter(|version| wanted.iter().all(|(name, _)| *name != version.name));
        let ours = wanted.map(|(name, version)| OperandVersion { name: name.to_owned(), version: version.clone() });
        versions = ours.into_iter().chain(others).collect();
    }
    let mut conditions = before.conditions.clone();
    let (progressing, reason, message) = progressing(facts, was_published);
    // The installation of a cluster waits for this alone, not for versions. Later one release after the other is configured.
    let (available, why, text) = match versions.iter().any(|version| version.name == "operator") {
        true => (true, "AsExpected", format!("Nodes are configured for {}", facts.version)),
        false => (false, "FirstConfiguration", "Nodes do not have their first configuration yet".to_owned()),
    };
    set(&mut conditions, "Available", available, why, text, now);
    set(&mut conditions, "Progressing", progressing, reason, message, now);
    let (reason, message) = degraded.clone().unwrap_or_else(|| ("AsExpected".into(), String::new()));
    set(&mut conditions, "Degraded", degraded.is_some(), &reason, message, now);
    let troubled: Vec<String> = facts.pools.iter().filter_map(PoolSummary::trouble).collect();
    let (reason, message) = match troubled.is_empty() {
        true => ("AsExpected", String::new()),
        false => ("DegradedPool", format!("One or more pools are degraded: {}", together(&troubled, "; "))),
    };
    set(&mut conditions, "Upgradeable", troubled.is_empty(), reason, message, now);
    match facts.without_pool.is_empty() {
        true => conditions.retain(|condition| condition.type_ != NODES_WITHOUT_POOL),
        false => {
            let message = together(&facts.without_pool, "; ");
            set(&mut conditions, NODES_WITHOUT_POOL, true, "NoPoolSelectsThem", message, now);
        }
    }
    ClusterOperatorStatus { conditions, versions, ..before.clone() }
}

/// From the first moment on at which the release is not reached. It ends with the pools that the update waits for; the others
/// are told of.
fn progressing(facts: &OperatorFacts, published: bool) -> (bool, &'static str, String) {
    let rest: Vec<String> = facts.pools.iter().filter(|pool| !pool.is_done()).map(PoolSummary::progress).collect();
    let pools = together(&rest, ", ");
    let version = &facts.version;
    match (published, rest.is_empty()) {
        (true, true) => (false, "AsExpected", format!("Cluster version is {version}")),
        (true, false) => (false, "AsExpected", format!("Cluster version is {version}; still rolling out: {pools}")),
        (false, _) => {
            let paused = facts.pools.iter().any(|pool| pool.required && pool.paused && !pool.is_done());
            let reason = if paused { "PausedPool" } else { "RollingOut" };
            (true, reason, format!("Working towards {version}: {pools}"))
        }
    }
}

/// What failed, or a pool that the update waits for and that does not recover.
fn degraded(facts: &OperatorFacts, now: Timestamp) -> Option<(String, String)> {
    let lasting = |pool: &&PoolSummary| {
        pool.required && pool.degraded.as_ref().is_some_and(|(_, since)| now.duration_since(*since) >= PATIENCE)
    };
    let pools = facts.pools.iter().filter(lasting);
    let pools: Vec<String> = pools.filter_map(PoolSummary::trouble).collect();
    let errors = facts.errors.iter().map(|(attempt, error)| format!("{attempt}: {}", shortened(error, OF_POOL)));
    let errors: Vec<String> = errors.collect();
    let first = facts.errors.keys().next().map(|attempt| format!("{attempt}Failed"));
    let reason = first.or_else(|| (!pools.is_empty()).then(|| "RequiredPoolsFailed".to_owned()))?;
    Some((reason, together(&[errors, pools].concat(), "; ")))
}

fn set(conditions: &mut Vec<Condition>, type_: &str, holds: bool, reason: &str, message: String, now: Timestamp) {
    let status = if holds { ConditionStatus::True } else { ConditionStatus::False };
    let now = Timestamp::from_second(now.as_second()).unwrap_or(now);
    let since = find(conditions, type_).filter(|condition| condition.status == status);
    let last_transition_time = since.map_or(Time(now), |condition| condition.last_transition_time.clone());
    let condition =
        Condition { type_: type_.to_owned(), status, last_transition_time, reason: reason.to_owned(), message };
    match conditions.iter_mut().find(|condition| condition.type_ == type_) {
        Some(place) => *place = condition,
        None => conditions.push(condition),
    }
}

#[cfg(test)]
mod tests;
