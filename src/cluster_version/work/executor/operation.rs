//! The commands of a rollout, each as one asynchronous operation. Writes under way are never cut off.

use crate::cluster::Kind;
use crate::cluster::apply::{ApplyError, namespace_id};
use crate::cluster::index::View;
use crate::cluster_version::graph::Mode;
use crate::cluster_version::rollout::{Command, Delay, Event, Judged, Outcome, Purpose, Reconcile, Wake, verdict};
use crate::cluster_version::work::apply::{Applier, failure};
use crate::gate::{self, Observed, Verdict};
use crate::merge::Applied;
use crate::object::manifest::{Manifest, ObjectId};
use futures::future::FutureExt;
use futures::stream::{FuturesUnordered, StreamExt};
use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// A definition that could not be read is read again after longer and longer pauses.
const READ_AGAIN: Duration = Duration::from_millis(500);
const READ_AGAIN_CAP: Duration = Duration::from_secs(30);

/// What all operations of a rollout share.
#[derive(Clone, Debug)]
pub(crate) struct Operations {
    pub applier: Arc<Applier>,
    pub manifests: Arc<[Arc<Manifest>]>,
    pub cancel: CancellationToken,
    pub logged: Logged,
    pub namespaces: Namespaces,
}

/// The namespaces that manifests wait for, by position, from the first wait until the manifest is applied: what happens to one
/// during an attempt ends the next wait.
#[derive(Clone, Debug, Default)]
pub(crate) struct Namespaces(Arc<Mutex<HashMap<usize, Waited>>>);

/// The name, and its changes.
type Waited = (String, watch::Receiver<u64>);

impl Namespaces {
    fn take(&self, position: usize, name: &str) -> Option<watch::Receiver<u64>> {
        let (of, changed) = self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&position)?;
        (of == name).then_some(changed)
    }

    fn keep(&self, position: usize, name: &str, changed: watch::Receiver<u64>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(position, (name.to_owned(), changed));
    }

    fn forget(&self, position: usize) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&position);
    }
}

/// What the log has of failures: all that the server says, once for as long as it says the same. Everywhere else long texts
/// are shortened.
#[derive(Clone, Debug, Default)]
pub(crate) struct Logged(Arc<Mutex<HashMap<usize, u64>>>);

impl Logged {
    fn failure(&self, position: usize, object: &ObjectId, error: &ApplyError) {
        // A conflict is over with the next attempt.
        let ApplyError::Api(error) = error else { return };
        let text = error.whole();
        let said = in_any_order(&text);
        let mut logged = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !error.is_conflict() && logged.insert(position, said) != Some(said) {
            tracing::warn!(%object, error = text, "cannot apply a manifest; trying again");
        }
    }

    fn success(&self, position: usize) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&position);
    }
}

/// Is the same for a text with the same words: the server lists what is wrong with a definition in any order.
fn in_any_order(text: &str) -> u64 {
    let hash = |word: &str| {
        let mut hasher = DefaultHasher::new();
        word.trim_matches(['[', ']', ',']).hash(&mut hasher);
        hasher.finish()
    };
    text.split_whitespace().map(hash).fold(0, u64::wrapping_add)
}

impl Operations {
    /// `None`: there is nothing to report, or the rollout was cancelled before the operation began.
    pub(crate) async fn perform(self, command: Command) -> Option<Event> {
        match command {
            Command::CreatePrerequisite(position) => {
                let applied = self.apply_once(position).await;
                Some(Event::PrerequisiteDone { position, applied })
            }
            Command::Precreate { node, position } => {
                self.precreate(position).await;
                Some(Event::Precreated { node })
            }
            Command::ServeKinds(position) => {
                self.serve_kinds(position).await;
                None
            }
            Command::Reconcile(request) => {
                self.wait(request.position, &request.delay).await?;
                let outcome = self.reconcile(&request).await?;
                Some(Event::Reconciled(request, Box::new(outcome)))
            }
            Command::HandOverTimer { node, after } => {
                self.cancel.run_until_cancelled(tokio::time::sleep(after)).await?;
                Some(Event::HandOverExpired { node })
            }
        }
    }

    /// Applies without retry; a failure is left to the manifest's own turn.
    async fn apply_once(&self, position: usize) -> Option<Applied> {
        let manifest = self.manifests.get(position).filter(|_| !self.cancel.is_cancelled())?;
        let applied = self.applier.apply(manifest).await;
        applied.inspect_err(|error| tracing::debug!(object = %manifest.id, ?error, "not created in advance")).ok()
    }

    async fn precreate(&self, position: usize) {
        let resolved = self.manifests.get(position).and_then(|manifest| self.applier.resolve(manifest));
        let Some((kind, id)) = resolved else { return };
        if self.applier.wait_until_listed(&kind).await.is_ok() && !self.applier.index().is_present(&id) {
            self.apply_once(position).await;
        }
    }

    /// Lets the kinds of a definition be used the moment it is established, wherever its own node stands: that node may be
    /// waiting for something that needs the kind.
    async fn serve_kinds(&self, position: usize) {
        let Some(manifest) = self.manifests.get(position) else { return };
        let Some((kind, id)) = self.applier.resolve(manifest) else { return };
        let Ok(desired) = Observed::of_manifest(manifest) else { return };
        let mut changed = self.applier.index().subscribe(&id);
        let mut failures = 0;
        loop {
            changed.mark_unchanged();
            let pause = match self.applier.view(&kind, &id).await {
                Ok(view) if gate::judge(&desired, view.as_deref()) == Verdict::Ready => {
                    return self.applier.crd_established(&id, manifest, &self.manifests);
                }
                Ok(_) => {
                    failures = 0;
                    None
                }
                // It may be established already, so that nothing changes any more.
                Err(error) => {
                    failures += 1;
                    tracing::debug!(object = %id, %error, "not read; trying again");
                    Some(crate::cluster::jittered(READ_AGAIN, failures, READ_AGAIN_CAP))
                }
            };
            let moved = async {
                match pause {
                    // The end of the pause is a reason to look, too.
                    Some(pause) => !matches!(tokio::time::timeout(pause, changed.changed()).await, Ok(Err(_))),
                    None => changed.changed().await.is_ok(),
                }
            };
            if self.cancel.run_until_cancelled(moved).await != Some(true) {
                return;
            }
        }
    }

    /// Waits before an attempt; `None` when cancelled.
    async fn wait(&self, position: usize, delay: &Delay) -> Option<()> {
        if !delay.pause.is_zero() {
            let waiting = self.wait_for(position, delay);
            self.cancel.run_until_cancelled(waiting).await?;
        }
        (!self.cancel.is_cancelled()).then_some(())
    }

    async fn wait_for(&self, position: usize, Delay { pause, until }: &Delay) {
        let pause = crate::cluster::with_jitter(*pause);
        let Some(manifest) = self.manifests.get(position) else { return };
        let (index, kinds) = (self.applier.index(), self.applier.kinds());
        match until {
            Wake::NamespaceChanged(name) => {
                let namespace = namespace_id(name);
                // One that the release does not contain is seen by the feed of the others.
                index.track([&namespace]);
                let known = self.namespaces.take(position, name);
                let mut changed = known.unwrap_or_else(|| index.subscribe(&namespace));
                // Not for ever: it may be there without being known, or not be known to be gone.
                let _elapsed = tokio::time::timeout(pause, changed.changed()).await;
                self.namespaces.keep(position, name, changed);
            }
            Wake::ObjectChanged => {
                let Some((_, id)) = kinds.resolve(manifest) else { return };
                let mut changed = index.subscribe(&id);
                if index.view(&id) != View::Absent {
                    let _elapsed = tokio::time::timeout(pause, changed.changed()).await;
                }
            }
            Wake::ObjectDeleted => {
                let _elapsed = tokio::time::timeout(pause, self.deleted(manifest)).await;
            }
            Wake::ServerReady => {
                if !self.applier.clients().wait_until_ready().await {
                    let _elapsed = tokio::time::timeout(pause, self.deleted(manifest)).await;
                }
            }
            Wake::AnyChanged(positions) => {
                let _elapsed = tokio::time::timeout(pause, self.any_changed(positions)).await;
            }
            Wake::KindServed { refresh } => {
                let served = kinds.served(&manifest.api_version, &manifest.id.kind);
                let served = tokio::time::timeout(pause, served).await.is_ok();
                if !served && *refresh {
                    self.refresh_kinds().await;
                }
                self.applier.add_desired([manifest]);
            }
            Wake::Refresh => {
                tokio::time::sleep(pause).await;
                self.refresh_kinds().await;
            }
            Wake::Timeout => tokio::time::sleep(pause).await,
        }
    }

    /// Waits for the object to be deleted. One that is not there has to be created first.
    async fn deleted(&self, manifest: &Manifest) {
        let index = self.applier.index();
        let Some((_, id)) = self.applier.kinds().resolve(manifest) else { return std::future::pending().await };
        let mut changed = index.subscribe(&id);
        let mut there = index.view(&id) != View::Absent;
        while !(there && index.view(&id) == View::Absent) {
            if changed.changed().await.is_err() {
                return std::future::pending().await;
            }
            there |= index.view(&id) != View::Absent;
        }
    }

    /// Waits for a change of one of these manifests' objects.
    async fn any_changed(&self, positions: &[usize]) {
        let manifests = positions.iter().filter_map(|position| self.manifests.get(*position));
        let ids = manifests.filter_map(|manifest| self.applier.kinds().resolve(manifest)).map(|(_, id)| id);
        let changes = ids.map(|id| {
            let mut changed = self.applier.index().subscribe(&id);
            async move { changed.changed().await }.boxed()
        });
        let mut changes: FuturesUnordered<_> = changes.collect();
        if changes.next().await.is_none() {
            std::future::pending().await
        }
    }

    async fn refresh_kinds(&self) {
        if let Err(error) = self.applier.kinds().refresh(self.applier.objects().client()).await {
            tracing::warn!(%error, "kinds not refreshed");
        }
    }

    async fn reconcile(&self, request: &Reconcile) -> Option<Outcome> {
        let manifest = self.manifests.get(request.position)?;
        let mut outcome = Outcome::default();
        let failed = |error: &ApplyError| {
            self.logged.failure(request.position, &manifest.id, error);
            let failure = failure(error, manifest);
            tracing::debug!(object = %manifest.id, error = %failure.error, "cannot apply yet");
            Some(failure)
        };
        let mut before = None;
        if let (true, Some(mode)) = (request.contested, request.gate)
            && let Some((kind, id)) = self.applier.resolve(manifest)
        {
            before = self.judge(manifest, &kind, &id, mode).await.ok();
        }
        match self.applier.apply(manifest).await {
            Ok(applied) => {
                log(request.purpose, manifest, &applied);
                outcome.applied = Some(applied);
            }
            Err(error) => outcome.failure = failed(&error),
        }
        let resolved = self.applier.resolve(manifest);
        if let (None, Some(mode), Some((kind, id))) = (&outcome.failure, request.gate, &resolved) {
            let judged = match before.filter(|_| outcome.applied != Some(Applied::Unchanged)) {
                // As what it was, which is not what is desired.
                Some(before) => Ok(Judged { as_desired: true, ..before }),
                None => self.judge(manifest, kind, id, mode).await,
            };
            match judged {
                Ok(judged) => {
                    if judged.as_desired && judged.unready.is_none() {
                        self.gate_passed(request.purpose, manifest, id);
                    }
                    outcome.judged = Some(judged);
                }
                Err(error) => outcome.failure = failed(&error),
            }
        }
        if outcome.failure.is_none() {
            self.logged.success(request.position);
            self.namespaces.forget(request.position);
        }
        outcome.id = resolved.map(|(_, id)| id);
        Some(outcome)
    }

    async fn judge(
        &self,
        manifest: &Arc<Manifest>,
        kind: &Kind,
        id: &ObjectId,
        mode: Mode,
    ) -> Result<Judged, ApplyError> {
        let desired = Observed::of_manifest(manifest).map_err(|error| ApplyError::Manifest(error.to_string()))?;
        let view = self.applier.view(kind, id).await?;
        let unready = verdict::judge(&desired, view.as_deref(), mode);
        Ok(Judged { unready, as_desired: self.applier.is_as_desired(id, manifest) })
    }

    /// What follows a definition in its node may use its kinds.
    fn gate_passed(&self, purpose: Purpose, manifest: &Manifest, id: &ObjectId) {
        let in_turn = matches!(purpose, Purpose::Apply { .. } | Purpose::Gate { .. });
        if in_turn && id.kind == "CustomResourceDefinition" {
            self.applier.crd_established(id, manifest, &self.manifests);
        }
    }
}

fn log(purpose: Purpose, manifest: &Manifest, applied: &Applied) {
    let object = &manifest.id;
    match (purpose, applied) {
        (_, Applied::Unchanged) => {}
        (Purpose::Apply { .. } | Purpose::Ahead { .. }, applied) => tracing::info!(%object, ?applied, "applied"),
        (Purpose::Configuration, Applied::Updated { fields, .. }) => {
            tracing::info!(%object, ?fields, "follows the cluster configuration");
        }
        (_, Applied::Updated { fields, by }) => {
            tracing::info!(%object, ?fields, by = by.as_deref().unwrap_or("unknown"), "drift repaired");
        }
        (_, Applied::Created) => tracing::info!(%object, "deleted object restored"),
        (_, Applied::Deleted) => tracing::info!(%object, "object that must not be there deleted again"),
    }
}

#[cfg(test)]
mod tests;
