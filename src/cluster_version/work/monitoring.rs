//! Gathers what the metrics show. Everything is known to the process already, so a scrape costs no request to the API server.

use super::apply::Applier;
use crate::cluster::requests::RequestCounts;
use crate::cluster::{ApiError, Kind, Objects};
use crate::cluster_version::metrics;
use crate::cluster_version::metrics::{Installer, Observation, RetrievalFigures, Snapshot};
use crate::object::metadata;
use crate::release::Payload;
use crate::serve::health::Heartbeat;
use crate::serve::process;
use jiff::Timestamp;
use serde_json::Value;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// Where the installer of the cluster says who it is, and the type of cluster that this tells.
const INSTALLERS: [(&str, &str); 2] =
    [("openshift-install", "openshift-install"), ("openshift-install-manifests", "other")];
const INSTALLER_NAMESPACE: &str = "openshift-config";
const MISSING: &str = "<missing>";

/// Collects from those who know, and is asked at each scrape.
#[derive(Debug)]
pub(crate) struct Monitoring {
    own: Arc<Payload>,
    update_service: Option<String>,
    requests: RequestCounts,
    applier: OnceLock<Arc<Applier>>,
    installer: OnceLock<Installer>,
    observation: Mutex<Option<Arc<Observation>>>,
    retrieval: Mutex<RetrievalFigures>,
    /// Whether the controller is alive.
    pub heartbeat: Arc<Heartbeat>,
}

impl Monitoring {
    pub(crate) fn new(
        own: Arc<Payload>,
        update_service: Option<String>,
        requests: RequestCounts,
        heartbeat: Arc<Heartbeat>,
    ) -> Monitoring {
        Monitoring {
            own,
            update_service,
            requests,
            applier: OnceLock::new(),
            installer: OnceLock::new(),
            observation: Mutex::default(),
            retrieval: Mutex::default(),
            heartbeat,
        }
    }

    /// From here on this process does the leader's work.
    pub(crate) fn set_applier(&self, applier: Arc<Applier>) {
        let _first = self.applier.set(applier);
    }

    pub(crate) fn set_installer(&self, installer: Installer) {
        let _first = self.installer.set(installer);
    }

    /// What the controller knows after a turn.
    pub(crate) fn observe(&self, observation: Observation) {
        *lock(&self.observation) = Some(Arc::new(observation));
    }

    /// An attempt to retrieve updates ended: confirmed by the service, or with the reason of its failure. A request that
    /// has `changed` begins a new hour of patience, and so does the first one.
    pub(crate) fn on_retrieval(&self, failure: Option<&str>, changed: bool, now: Timestamp) {
        let mut figures = lock(&self.retrieval);
        if failure.is_none() || changed || figures.retrieved.is_none() {
            figures.retrieved = Some(now);
        }
        if let Some(reason) = failure {
            *figures.failures.entry(reason.to_owned()).or_default() += 1;
        }
    }

    /// When the process before was answered last: a restart gives no new hour of patience.
    pub(crate) fn on_recorded_retrieval(&self, at: Timestamp) {
        lock(&self.retrieval).retrieved.get_or_insert(at);
    }

    /// The metrics as text.
    pub(crate) fn text(&self) -> String {
        let applier = self.applier.get();
        let operators = applier.map(|applier| applier.operators());
        let snapshot = Snapshot {
            own: self.own.release.clone(),
            built: self.own.built,
            update_service: self.update_service.clone(),
            observation: lock(&self.observation).clone(),
            operators: operators.filter(|operators| operators.are_known()).map(|operators| operators.current()),
            transitions: operators.map(|operators| operators.transitions()).unwrap_or_default(),
            installer: self.installer.get().cloned(),
            kinds: applier.map(|applier| applier.followed_kinds()).unwrap_or_default(),
            requests: self.requests.current(),
            retrieval: lock(&self.retrieval).clone(),
            process: process::read(),
        };
        metrics::text(&snapshot, Timestamp::now())
    }
}

fn lock<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Who installed the cluster. Without any of the ConfigMaps that say so everything is empty.
pub(crate) async fn read_installer(objects: &Objects) -> Result<Installer, ApiError> {
    let kind = Kind::config_map();
    for (name, type_) in INSTALLERS {
        if let Some(map) = objects.get(&kind, INSTALLER_NAMESPACE, name).await? {
            tracing::debug!(name = metadata::name(&map), "the installer of the cluster is known");
            return Ok(installer(type_, &map));
        }
    }
    Ok(Installer::default())
}

fn installer(type_: &str, map: &Value) -> Installer {
    let text = |key: &str| {
        let value = map.get("data").and_then(|data| data.get(key)?.as_str());
        value.unwrap_or(MISSING).to_owned()
    };
    Installer { type_: type_.to_owned(), version: text("version"), invoker: text("invoker") }
}

#[cfg(test)]
pub(crate) mod tests;
