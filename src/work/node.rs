//! One node of the graph as a task: its manifests in order, each applied and then gated. A gate that is not open parks
//! the task until the watched object changes; nothing is walked again (architecture §3 step 6). Definitions are gated
//! together, before the first manifest that may need one: the server takes a while for each.

use super::apply::{Applied, Applier, Obstacle, namespace_id};
use super::drift::Repairs;
use crate::api::progress::WaitingFor;
use crate::cluster::index::View;
use crate::gate::{self, Verdict};
use crate::graph::Mode;
use crate::payload::{Manifest, ObjectId};
use crate::status::failure::{Effect, Reason, UpdateError};
use futures::StreamExt;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OnceCell, mpsc, watch};
use tokio_util::sync::CancellationToken;

/// API errors of one manifest in a row before they are reported as a failure: about four seconds of retries.
pub(super) const PATIENCE: u32 = 3;
/// Looks at an object behind its gate that were overtaken by a change, one after the other, before it is said.
const UNSETTLED: u32 = 10;
/// Objects of the foundation on their way at once.
const FOUNDATION: usize = 16;
/// How long the own Deployment may be out without this process being told to stop (architecture §3, "Hand-over").
const HAND_OVER: Duration = Duration::from_secs(300);

/// What a node tells the loop.
#[derive(Debug)]
pub struct Report {
    pub node: usize,
    pub what: What,
}

#[derive(Debug)]
pub enum What {
    /// Parked; with the error that conditions are to report, if there is one.
    Waiting(WaitingFor, Option<UpdateError>),
    /// Goes on in spite of this.
    Remember(ObjectId, UpdateError),
    /// Another hand changed or deleted the object while its gate was waited for; it is as wanted again.
    Restored {
        position: usize,
        applied: Applied,
    },
    /// A manifest is in place and its gate passed.
    Passed {
        position: usize,
        applied: Applied,
        /// How often the object had changed when its gate was judged, if it was.
        judged: Option<u64>,
    },
    Done,
}

/// What all nodes of a pass share.
#[derive(Debug)]
pub struct Context {
    pub applier: Arc<Applier>,
    pub mode: Mode,
    /// Manifests of the release that take part, in load order.
    pub manifests: Vec<Arc<Manifest>>,
    pub own_deployment: ObjectId,
    /// Applying the own Deployment ends this process's part of the update.
    pub hand_over: bool,
    /// Set once the foundation of an install is laid.
    pub foundation: OnceCell<()>,
    pub cancel: CancellationToken,
    pub reports: mpsc::Sender<Report>,
}

impl Context {
    async fn tell(&self, node: usize, what: What) {
        // The receiver goes away only together with the whole pass.
        let _ended = self.reports.send(Report { node, what }).await;
    }

    fn at<'a>(&'a self, positions: &'a [usize]) -> impl Iterator<Item = (usize, &'a Arc<Manifest>)> {
        positions.iter().filter_map(|p| self.manifests.get(*p).map(|m| (*p, m)))
    }
}

/// In an install everything else needs namespaces and definitions, and a server takes its time to serve a new kind: they
/// all come first, whatever the order of their nodes, as ClusterOperators do; but not those behind a Job, which nothing
/// may overtake. No retry: their own turn comes.
async fn lay_foundation(context: &Arc<Context>) {
    for kind in ["Namespace", "CustomResourceDefinition"] {
        let mut creating = Vec::new();
        for manifest in context.manifests.iter().take_while(|manifest| manifest.id.kind != "Job") {
            if manifest.id.kind == kind && manifest.delete() == Ok(false) {
                creating.push(lay(context.clone(), manifest.clone()));
            }
        }
        futures::stream::iter(creating).buffer_unordered(FOUNDATION).collect::<Vec<()>>().await;
    }
}

async fn lay(context: Arc<Context>, manifest: Arc<Manifest>) {
    if context.cancel.is_cancelled() {
        return;
    }
    match context.applier.apply(&manifest).await {
        Ok(Applied::Created) if manifest.id.kind == "CustomResourceDefinition" => {
            tokio::spawn(serve(context, manifest));
        }
        Ok(_) => {}
        Err(obstacle) => tracing::debug!(object = %manifest.id, ?obstacle, "not laid"),
    }
}

/// Runs a node to its end, or until cancelled. Writes under way are never cut off.
pub async fn run(context: Arc<Context>, node: usize, positions: Vec<usize>) {
    if context.mode == Mode::Install {
        context.foundation.get_or_init(|| lay_foundation(&context)).await;
    }
    for (_, manifest) in context.at(&positions) {
        if manifest.id.group == "config.openshift.io" && manifest.id.kind == "ClusterOperator" {
            announce(&context, manifest).await;
        }
    }
    let mut held = Vec::new();
    for (position, manifest) in context.at(&positions) {
        let walk = Walk { context: &context, node, position, manifest };
        let definition = manifest.id.kind == "CustomResourceDefinition";
        // In an install only what is of a kind not served yet has reason to wait.
        let waits = !definition && (context.mode != Mode::Install || context.applier.kinds.resolve(manifest).is_none());
        if waits && pass_gates(&mut held).await.is_none() {
            return;
        }
        let Some(applied) = walk.apply().await else { return };
        if definition && manifest.delete() == Ok(false) {
            // What the foundation has created is waited for already.
            if context.mode != Mode::Install || applied == Applied::Created {
                tokio::spawn(serve(context.clone(), manifest.clone()));
            }
            held.push((walk, applied));
        } else if pass_gates(&mut vec![(walk, applied)]).await.is_none() {
            return;
        }
    }
    if pass_gates(&mut held).await.is_none() {
        return;
    }
    if !context.cancel.is_cancelled() {
        context.tell(node, What::Done).await;
    }
}

/// Lets the kinds of a definition be used the moment it is established, wherever its own node stands: that node may be
/// waiting for something that needs the kind. Its gate tells what keeps it.
async fn serve(context: Arc<Context>, manifest: Arc<Manifest>) {
    let (Some((kind, id)), Ok(want)) = (context.applier.kinds.resolve(&manifest), manifest.outline()) else { return };
    let mut changed = context.applier.index.subscribe(&id);
    loop {
        changed.mark_unchanged();
        let view = context.applier.view(&kind, &id).await.unwrap_or_default();
        if gate::judge(&want, view.as_deref(), context.mode) == Verdict::Ready {
            return context.applier.kind_established(&id, &want, &context.manifests);
        }
        let moved = async { changed.changed().await.is_ok() };
        if context.cancel.run_until_cancelled(moved).await != Some(true) {
            return;
        }
    }
}

/// Waits until the gates of all these are open; `None` when cancelled.
async fn pass_gates(held: &mut Vec<(Walk<'_>, Applied)>) -> Option<()> {
    for (walk, applied) in held.drain(..) {
        let judged = walk.gate().await?;
        walk.context.tell(walk.node, What::Passed { position: walk.position, applied, judged }).await;
    }
    Some(())
}

/// ClusterOperators appear when their node starts, so that dashboards see them before their operator runs (§3.7). No
/// retry: their own turn comes.
async fn announce(context: &Context, manifest: &Manifest) {
    let Some((kind, id)) = context.applier.kinds.resolve(manifest) else { return };
    let unlisted = context.applier.feeds.ensure(&kind).await.is_err();
    let there = context.applier.index.is_present(&id);
    if unlisted || there || manifest.delete() != Ok(false) || context.cancel.is_cancelled() {
        return;
    }
    if let Err(obstacle) = context.applier.apply(manifest).await {
        tracing::debug!(object = %id, ?obstacle, "not announced");
    }
}

struct Walk<'a> {
    context: &'a Arc<Context>,
    node: usize,
    position: usize,
    manifest: &'a Arc<Manifest>,
}

impl Walk<'_> {
    /// Applies with retries; `None` when cancelled.
    async fn apply(&self) -> Option<Applied> {
        let mut failures = 0u32;
        loop {
            if self.context.cancel.is_cancelled() {
                return None;
            }
            match self.context.applier.apply(self.manifest).await {
                Ok(applied) => {
                    if applied != Applied::Left {
                        tracing::info!(object = %self.manifest.id, ?applied, "applied");
                    }
                    return Some(applied);
                }
                Err(obstacle) => {
                    failures += 1;
                    self.overcome(&obstacle, failures).await?;
                }
            }
        }
    }

    /// Says what stands in the way and waits until it may be gone; `None` when cancelled.
    async fn overcome(&self, obstacle: &Obstacle, failures: u32) -> Option<()> {
        let error = obstacle.update_error(self.manifest);
        tracing::debug!(object = %self.manifest.id, %error, failures, "cannot apply yet");
        let reported = (failures >= PATIENCE).then(|| error.clone());
        self.context
            .tell(self.node, What::Waiting(self.waiting(error.reason.as_str(), &error.message), reported))
            .await;
        let pause = crate::cluster::jittered(Duration::from_millis(500), failures, Duration::from_secs(30));
        let applier = &self.context.applier;
        match obstacle {
            Obstacle::NamespaceMissing(name) if applier.index.is_tracked(&namespace_id(name)) => {
                // Later: it may be there without being known, or not be known to be gone.
                let mut changed = applier.index.subscribe(&namespace_id(name));
                self.until_changed(&mut changed, pause).await
            }
            Obstacle::Going(_) => {
                let Some((_, id)) = applier.kinds.resolve(self.manifest) else { return Some(()) };
                let mut changed = applier.index.subscribe(&id);
                if applier.index.view(&id) == View::Absent {
                    return Some(());
                }
                self.until_changed(&mut changed, pause).await
            }
            Obstacle::KindNotServed => {
                let served = applier.kinds.served(&self.manifest.api_version, &self.manifest.id.kind);
                let served = tokio::time::timeout(pause, served);
                let served = self.context.cancel.run_until_cancelled(served).await?.is_ok();
                // Another hand may serve a kind of a group of the release as well: after a while the server is asked.
                if !served
                    && (failures >= PATIENCE || !self.comes_with_the_release())
                    && let Err(error) = applier.kinds.refresh(applier.objects.client()).await
                {
                    tracing::warn!(%error, "kinds not refreshed");
                }
                applier.take_in([self.manifest]);
                Some(())
            }
            _ => self.until(tokio::time::sleep(pause)).await,
        }
    }

    /// A CRD of this group is part of the release (CRDs are named `<plural>.<group>`).
    fn comes_with_the_release(&self) -> bool {
        let group = self.manifest.id.group.as_str();
        let crds = self.context.manifests.iter().filter(|m| m.id.kind == "CustomResourceDefinition");
        crds.filter_map(|m| m.id.name.split_once('.')).any(|(_, g)| g == group)
    }

    /// Waits for an event unless cancelled.
    async fn until(&self, event: impl Future<Output = ()>) -> Option<()> {
        self.context.cancel.run_until_cancelled(event).await
    }

    /// Waits for a change, not longer than `pause`, unless cancelled.
    async fn until_changed(&self, changed: &mut watch::Receiver<u64>, pause: Duration) -> Option<()> {
        self.until(async { drop(tokio::time::timeout(pause, changed.changed()).await) }).await
    }

    fn waiting(&self, reason: &str, message: &str) -> WaitingFor {
        let id = &self.manifest.id;
        WaitingFor {
            kind: id.kind.clone(),
            namespace: id.namespace.clone(),
            name: id.name.clone(),
            reason: reason.to_owned(),
            message: message.to_owned(),
            since: None,
        }
    }

    /// Waits until the gate is open, and returns how often the object had changed then; `None` when cancelled.
    async fn gate(&self) -> Option<Option<u64>> {
        if self.manifest.delete() != Ok(false) {
            return Some(None);
        }
        let (kind, id) = self.context.applier.kinds.resolve(self.manifest)?;
        if id == self.context.own_deployment {
            // Without a hand-over this very process is what it rolled out.
            return if self.context.hand_over { self.hand_over().await.map(|()| None) } else { Some(None) };
        }
        if !gate::gated(&id.group, &id.kind) || self.manifest.create_only() {
            return Some(None);
        }
        let want = self.manifest.outline().ok()?;
        let mut changed = self.context.applier.index.subscribe(&id);
        let mut repairs = Repairs::default();
        let (mut failures, mut unsettled) = (0, 0);
        let mut told = None;
        let judged = loop {
            let times = *changed.borrow_and_update();
            self.restore(&mut repairs).await?;
            let verdict = match self.context.applier.view(&kind, &id).await {
                Ok(view) => gate::judge(&want, view.as_deref(), self.context.mode),
                Err(error) => {
                    failures += 1;
                    self.overcome(&Obstacle::Api(error), failures).await?;
                    continue;
                }
            };
            failures = 0;
            if !self.context.applier.is_as_desired(&id, self.manifest) {
                // Another hand was faster than the look, or something else is wanted now: that was not what to judge.
                unsettled += 1;
                if unsettled == UNSETTLED {
                    let message = format!("{id} is applied, and changes again before it can be looked at");
                    self.context.tell(self.node, What::Waiting(self.waiting("Unsettled", &message), None)).await;
                    told = None;
                }
                let pause = crate::cluster::jittered(Duration::from_millis(10), unsettled, Duration::from_secs(1));
                self.until(tokio::time::sleep(pause)).await?;
                continue;
            }
            unsettled = 0;
            let (waiting, error) = match verdict {
                Verdict::Ready => break times,
                Verdict::Failing(error) if error.effect == Effect::Report => {
                    self.context.tell(self.node, What::Remember(id.clone(), error)).await;
                    break times;
                }
                Verdict::Waiting { reason, message, report } => (self.waiting(&reason, &message), report),
                Verdict::Failing(error) => (self.waiting(error.reason.as_str(), &error.message), Some(error)),
            };
            let news = Some((waiting, error));
            if told != news {
                told.clone_from(&news);
                if let Some((waiting, error)) = news {
                    self.context.tell(self.node, What::Waiting(waiting, error)).await;
                }
            }
            self.until(async { drop(changed.changed().await) }).await?;
        };
        if id.kind == "CustomResourceDefinition" {
            self.context.applier.kind_established(&id, &want, &self.context.manifests);
        }
        Some(Some(judged))
    }

    /// Sees to it that the object is as wanted before its gate is judged: nobody else looks after it as long as it is
    /// waited for. No request if nothing has happened to it. Whoever keeps changing it is answered ever more slowly.
    async fn restore(&self, repairs: &mut Repairs) -> Option<()> {
        loop {
            let applied = self.apply().await?;
            let fields = match &applied {
                Applied::Left => return Some(()),
                Applied::Updated { fields, .. } => fields.as_slice(),
                Applied::Created | Applied::Deleted => &[],
            };
            repairs.wrote(fields, None);
            let pause = repairs.pause();
            self.context.tell(self.node, What::Restored { position: self.position, applied }).await;
            self.until(tokio::time::sleep(pause)).await?;
        }
    }

    /// The own Deployment carries the new release: this process waits to be stopped. The successor goes on.
    async fn hand_over(&self) -> Option<()> {
        let message = "the new release's own Deployment is applied; waiting for this process to be replaced";
        self.context.tell(self.node, What::Waiting(self.waiting("HandOver", message), None)).await;
        self.until(tokio::time::sleep(HAND_OVER)).await?;
        let error = UpdateError::new(
            Reason::HandOverTimedOut,
            format!(
                "{} was applied {} s ago, but this process has not been asked to stop: look at the Deployment's events \
                 and pods; the old release still serves",
                self.manifest.id,
                HAND_OVER.as_secs()
            ),
        );
        let waiting = self.waiting(error.reason.as_str(), &error.message);
        self.context.tell(self.node, What::Waiting(waiting, Some(error))).await;
        self.context.cancel.cancelled().await;
        None
    }
}
