//! The controller of InstallPlans: carries out the steps of those that are approved, and deletes old ones. Only the holder of the lease
//! runs it to an effect.

mod attempt;
mod contents;
pub(crate) mod existing;
mod live;
mod views;

use crate::cluster::writer::Writer;
use crate::cluster::{ApiError, Clients, Kinds, Objects};
use crate::olm::api::install_plan::{InstallPlan, InstallPlanStatus};
use crate::olm::plan::group::Group;
use crate::olm::plan::surplus::{Known, surplus};
use crate::olm::plan::{Decision, Facts, decide};
use crate::olm::work::bundles::Bundles;
use crate::olm::work::catalogs::{self, Figures};
use crate::olm::work::scoped::Accounts;
use crate::process::events::Events;
use crate::process::turns::due;
use attempt::{Attempt, Retries};
use contents::Contents;
use jiff::{SignedDuration, Timestamp};
use live::{Live, plan_kind};
use serde_json::json;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// Of this process: pull secrets of catalogs are copied from there.
    pub namespace: String,
    /// How long steps that fail are tried again, from the first attempt on.
    pub retried: SignedDuration,
}

/// What is written, one at a time for each.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    namespace: String,
    name: String,
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "InstallPlan {}/{}", self.namespace, self.name)
    }
}

pub(crate) struct PlanController {
    settings: Settings,
    objects: Objects,
    kinds: Arc<Kinds>,
    changed: Arc<Notify>,
    leading: watch::Receiver<bool>,
    live: Live,
    writer: Arc<Writer<Key>>,
    retries: Arc<Retries>,
    accounts: Accounts,
    contents: Contents,
    events: Events,
    figures: Arc<Figures>,
}

impl PlanController {
    /// `objects` writes while the lease is held. `leading` says whether it is. `known`: how images are reached, for the `bundles` that
    /// plans refer to.
    pub(crate) fn new(
        settings: Settings,
        clients: &Arc<Clients>,
        objects: Objects,
        leading: watch::Receiver<bool>,
        (known, bundles): (watch::Receiver<Arc<catalogs::Known>>, Arc<Bundles>),
        (events, figures): (Events, Arc<Figures>),
        stop: &CancellationToken,
    ) -> PlanController {
        let changed = Arc::new(Notify::new());
        PlanController {
            settings,
            objects,
            kinds: Arc::default(),
            leading,
            live: Live::start(clients, &changed, stop),
            writer: Writer::new(changed.clone()),
            retries: Arc::default(),
            accounts: Accounts::new(clients),
            contents: Contents { known, bundles },
            changed,
            events,
            figures,
        }
    }

    /// Runs until `stop`.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        while !stop.is_cancelled() {
            let leading = *self.leading.borrow_and_update();
            let deadline = if leading { self.turn(Timestamp::now()) } else { None };
            tokio::select! {
                () = due(&self.changed, deadline, &stop) => {}
                Ok(()) = self.leading.changed() => {}
            }
        }
        self.writer.end().await;
    }

    /// Does what is due, and returns when something is although nothing has changed.
    fn turn(&self, now: Timestamp) -> Option<Instant> {
        let at = Instant::now();
        let (plans, groups) = self.live.all()?;
        for (namespace, plans) in &plans {
            let groups = groups.get(namespace).map(Vec::as_slice).unwrap_or_default();
            for plan in plans.iter().filter_map(|view| view.open.as_ref()) {
                self.decide(namespace, plan, groups, (at, now));
            }
            for plan in surplus(plans.iter().map(|view| &view.known)) {
                let write = delete(self.objects.clone(), namespace.clone(), plan.clone());
                self.writer.begin(key(namespace, &plan.name), at, Duration::ZERO, write);
            }
        }
        self.retries.next(at).into_iter().chain(self.writer.next()).min()
    }

    fn decide(&self, namespace: &str, plan: &Arc<InstallPlan>, groups: &[Group], (at, now): (Instant, Timestamp)) {
        let is_judged = |name: &str| {
            let served = self.live.served(name);
            served.is_served || served.refused.is_some()
        };
        let account =
            if plan.spec.approved { self.live.account(groups) } else { crate::olm::plan::group::Account::None };
        let facts = Facts { plan, groups, account, is_judged: &is_judged };
        let key = key(namespace, plan.metadata.name.as_deref().unwrap_or_default());
        match decide(&facts, now) {
            Decision::Nothing => {}
            Decision::Write(status) => {
                let write = write_status(self.objects.clone(), self.live.clone(), plan.clone(), *status);
                self.writer.begin(key, at, Duration::ZERO, write);
            }
            Decision::CarryOut if self.retries.rests(&key, at) => {}
            Decision::CarryOut => {
                let attempt = Attempt {
                    objects: self.objects.clone(),
                    accounts: self.accounts.clone(),
                    account: groups.first().map(|group| group.account.clone()).unwrap_or_default(),
                    kinds: self.kinds.clone(),
                    live: self.live.clone(),
                    events: self.events.clone(),
                    figures: self.figures.clone(),
                    retries: self.retries.clone(),
                    contents: self.contents.clone(),
                    plan: plan.clone(),
                    own_namespace: self.settings.namespace.clone(),
                    retried: self.settings.retried,
                };
                self.writer.begin(key.clone(), at, Duration::ZERO, attempt.run(key));
            }
        }
    }
}

fn key(namespace: &str, name: &str) -> Key {
    Key { namespace: namespace.to_owned(), name: name.to_owned() }
}

async fn write_status(
    objects: Objects,
    live: Live,
    plan: Arc<InstallPlan>,
    status: InstallPlanStatus,
) -> Result<(), ApiError> {
    let mut object = (*plan).clone();
    object.status = Some(status);
    let metadata = &object.metadata;
    let [namespace, name] = [&metadata.namespace, &metadata.name].map(|it| it.clone().unwrap_or_default());
    let written = objects.replace_status(&plan_kind(), &namespace, &name, &json!(object)).await?;
    live.plans.on_answer(written);
    Ok(())
}

/// Unless somebody has changed it since.
async fn delete(objects: Objects, namespace: String, plan: Known) -> Result<(), ApiError> {
    tracing::info!(namespace, plan = plan.name, "an old InstallPlan is deleted");
    objects.delete_version(&plan_kind(), &namespace, &plan.name, (&plan.uid, &plan.resource_version)).await.map(drop)
}
