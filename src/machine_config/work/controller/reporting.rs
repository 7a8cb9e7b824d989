//! What pools and the ClusterOperator `machine-config` say.

use super::Settings;
use super::followed::{Followed, View};
use super::views::ConfigView;
use super::writer::{Key, Writer};
use crate::cluster::watcher::{Selection, Selector};
use crate::cluster::{ApiError, Clients, Kind, Objects};
use crate::machine_config::api::machine_config::{MachineConfigPool, MachineConfigPoolStatus, REQUIRED_FOR_UPGRADE};
use crate::machine_config::operator::{NAME, OperatorFacts, PoolSummary, invalid};
use crate::machine_config::rollout::{PoolFacts, Round};
use crate::machine_config::status::{Counts, Subject, is_updated};
use crate::machine_config::{operator, status};
use crate::object::cluster_operator::{ClusterOperator, ClusterOperatorStatus};
use crate::object::condition::ConditionStatus;
use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// The status of a pool is written at most this often: that of a large one changes all the time.
const PERIOD: Duration = Duration::from_secs(1);

#[derive(Clone, Debug, PartialEq)]
pub(super) struct OperatorView {
    pub uid: String,
    version: String,
    pub status: ClusterOperatorStatus,
}

impl View for OperatorView {
    type Object = ClusterOperator;

    fn of(object: ClusterOperator) -> Self {
        OperatorView {
            uid: object.metadata.uid.unwrap_or_default(),
            version: object.metadata.resource_version.unwrap_or_default(),
            status: object.status.unwrap_or_default(),
        }
    }

    fn version(&self) -> &str {
        &self.version
    }
}

fn kind() -> Kind {
    Kind::known("config.openshift.io", "v1", "ClusterOperator", "clusteroperators", false)
}

pub(super) struct Reporting {
    operator: Arc<Followed<OperatorView>>,
    /// When the status of each pool was written last.
    reported: Arc<Mutex<BTreeMap<String, Instant>>>,
}

impl Reporting {
    pub(super) fn new(clients: &Clients, changed: Arc<Notify>, stop: &CancellationToken) -> Self {
        let selection = Selection::new(kind(), "", Selector::Name(NAME.to_owned()));
        Reporting { operator: Followed::start(clients, selection, changed, stop.clone()), reported: Arc::default() }
    }

    /// Whether the status of the pool may be written now, or when it may be.
    pub(super) fn may_report(&self, pool: &str) -> Result<(), Instant> {
        let reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        match reported.get(pool).map(|last| *last + PERIOD) {
            Some(next) if next > Instant::now() => Err(next),
            _ => Ok(()),
        }
    }

    /// To be called when the status of the pool has been written.
    pub(super) fn reported(&self, pool: &str) -> impl FnOnce() + Send + 'static {
        let (reported, pool) = (self.reported.clone(), pool.to_owned());
        move || {
            reported.lock().unwrap_or_else(PoisonError::into_inner).insert(pool, Instant::now());
        }
    }

    /// The ClusterOperator as it was seen last.
    pub(super) fn seen(&self) -> Option<Arc<OperatorView>> {
        self.operator.all()?.get(NAME).cloned()
    }

    /// Writes the status of the ClusterOperator if it changes. `overlaps`: nodes that several pools claim; `without_pool`: what is
    /// to be said of nodes that none does.
    pub(super) fn operator(
        &self,
        settings: &Settings,
        (pools, overlaps, without_pool): (Vec<PoolSummary>, Vec<String>, Vec<String>),
        failures: &BTreeMap<String, String>,
        (objects, writer): (&Objects, &Arc<Writer>),
        now: Timestamp,
    ) {
        let seen = Instant::now();
        let Some(views) = self.operator.all() else { return };
        let live = views.get(NAME).cloned();
        let mut errors = BTreeMap::new();
        let mut add = |attempt: &str, texts: Vec<String>| {
            if !texts.is_empty() {
                errors.insert(attempt.to_owned(), texts.join("; "));
            }
        };
        add("NodeMembership", overlaps);
        add("Write", failures.iter().map(|(what, error)| format!("{what}: {error}")).collect());
        let (version, image) = (settings.version.clone(), settings.image.clone());
        let facts = OperatorFacts { version, image, pools, errors, without_pool };
        let before = live.as_ref().map(|live| live.status.clone()).unwrap_or_default();
        let status = operator::status(&before, &facts, now);
        if live.as_ref().is_some_and(|live| live.status == status) {
            return;
        }
        let (objects, followed, exists) = (objects.clone(), self.operator.clone(), live.is_some());
        let version = live.map(|live| live.version.clone());
        let write = async move { write(&objects, &followed, exists, version, &status).await };
        writer.begin(Key::Operator, seen, PERIOD, write);
    }
}

async fn write(
    objects: &Objects,
    followed: &Followed<OperatorView>,
    exists: bool,
    version: Option<String>,
    status: &ClusterOperatorStatus,
) -> Result<(), ApiError> {
    if !exists {
        let object = json!(ClusterOperator::new(NAME, Default::default()));
        if let Err(error) = objects.create(&kind(), "", &object).await
            && !error.is_already_exists()
        {
            return Err(error);
        }
    }
    let metadata = version.map_or_else(|| json!({}), |version| json!({"resourceVersion": version}));
    let patch = json!({"metadata": metadata, "status": status});
    followed.on_written(objects.merge_patch_status(&kind(), "", NAME, &patch).await?);
    Ok(())
}

pub(super) fn pool_status(
    pool: &MachineConfigPool,
    facts: &PoolFacts,
    round: &Round,
    (error, remaining): (Option<&str>, Option<SignedDuration>),
    quorum: Option<String>,
    now: Timestamp,
) -> MachineConfigPoolStatus {
    let before = pool.status.clone().unwrap_or_default();
    let subject = Subject {
        generation: pool.metadata.generation.unwrap_or_default(),
        configuration: pool.spec.configuration.clone(),
        render_error: error,
        remaining,
        quorum,
    };
    status::status(&before, &subject, facts, round, now)
}

/// What the ClusterOperator has to know of a pool.
pub(super) fn summary(
    pool: &MachineConfigPool,
    facts: &PoolFacts,
    status: &MachineConfigPoolStatus,
    rendered: Option<&Arc<ConfigView>>,
    remaining: Option<SignedDuration>,
    settings: &Settings,
) -> PoolSummary {
    let condition = |type_: &str| {
        let holds = |condition: &&crate::machine_config::api::machine_config::PoolCondition| {
            condition.type_ == type_ && condition.status == ConditionStatus::True
        };
        status.conditions.iter().find(holds)
    };
    let degraded = condition("Degraded").map(|condition| {
        let since = condition.last_transition_time.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0);
        (condition.message.clone(), since)
    });
    let images = [settings.defaults.os_image.clone()];
    let invalid = match rendered {
        Some(rendered) => invalid(&rendered.0, &settings.defaults.controller_version, &settings.version, &images),
        None => Some("its configuration has not been rendered".to_owned()),
    };
    PoolSummary {
        name: facts.name.clone(),
        required: pool.metadata.labels.as_ref().is_some_and(|labels| labels.contains_key(REQUIRED_FOR_UPGRADE)),
        paused: pool.spec.paused,
        counts: Counts::of(facts),
        updated: is_updated(facts),
        invalid,
        degraded,
        blocked: condition("RolloutBlocked").map(|condition| condition.message.clone()),
        remaining,
    }
}
