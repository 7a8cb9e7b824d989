//! The controllers that run beside the one of catalogs.

use super::settings::{Loop, Settings};
use crate::cluster::{Clients, Objects, task};
use crate::olm::api::MANAGER;
use crate::olm::net::store::Store;
use crate::olm::serve::packages::CsvSource;
use crate::olm::work::bundles::{Bundles, NodePods};
use crate::olm::work::catalogs::{Figures, Outputs};
use crate::olm::work::operators::{OperatorController, OperatorFigures};
use crate::olm::work::plans::PlanController;
use crate::olm::work::subscriptions::{Means, SubscriptionController, SubscriptionFigures};
use crate::process::events::Events;
use crate::process::settings::SettingsError;
use std::sync::Arc;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// What they have in common.
pub(super) struct Common<'a> {
    pub settings: &'a Settings,
    /// Clients, what writes while the lease is held, and whether it is.
    pub parts: (&'a Arc<Clients>, &'a Objects, &'a watch::Receiver<bool>),
    pub figures: (Arc<Figures>, Arc<SubscriptionFigures>, Arc<OperatorFigures>),
    pub stop: &'a CancellationToken,
}

/// Those that run.
pub(super) struct Started {
    pub tasks: Vec<JoinHandle<()>>,
    /// What the server of packages tells of ClusterServiceVersions, if it does.
    pub csvs: Option<Arc<dyn CsvSource>>,
}

impl Common<'_> {
    /// Whether the process holds the lease, for who does this part of its work; never if it does not do that.
    pub(super) fn leads(&self, part: Loop) -> watch::Receiver<bool> {
        match self.settings.loops.contains(&part) {
            true => self.parts.2.clone(),
            false => watch::channel(false).1,
        }
    }

    /// Starts all of them; they run until `stop`.
    pub(super) fn start(&self, outputs: &Outputs, store: Arc<Store>) -> Result<Started, SettingsError> {
        let ((clients, writes, _), stop) = (self.parts, self.stop);
        let objects = || writes.clone();
        let settings = self.settings.of_subscriptions()?;
        let leads = self.leads(Loop::Subscriptions);
        let nodes = NodePods::start(clients, objects(), leads, stop);
        let bundles = Arc::new(Bundles::new(store, Some(nodes)));
        // It ends when the last of those who publish has ended.
        let (reporter, identity) = (MANAGER, self.settings.lease.identity());
        let (events, publishing) =
            Events::start(writes.client_for_writes(), reporter, &self.settings.namespace, &identity, stop);
        let means = Means {
            clients,
            objects: objects(),
            bundles: bundles.clone(),
            events: events.clone(),
            figures: self.figures.1.clone(),
        };
        let leads = self.leads(Loop::Subscriptions);
        let subscriptions = SubscriptionController::new(settings, means, leads, outputs, stop);
        let leads = self.leads(Loop::Subscriptions);
        let told = (events.clone(), self.figures.0.clone());
        let contents = (outputs.known.clone(), bundles);
        let plans = PlanController::new(self.settings.of_plans()?, clients, objects(), leads, contents, told, stop);
        let (leads, figures) = (self.leads(Loop::Operators), self.figures.2.clone());
        let operators =
            OperatorController::new(self.settings.of_operators(), (clients, objects()), leads, (events, figures), stop);
        let csvs = operators.csvs();
        let tasks = vec![
            tokio::spawn(task::guarded("subscriptions", stop, subscriptions.run(stop.clone()))),
            tokio::spawn(task::guarded("plans", stop, plans.run(stop.clone()))),
            tokio::spawn(task::guarded("operators", stop, operators.run(stop.clone()))),
            publishing,
        ];
        Ok(Started { tasks, csvs })
    }
}
