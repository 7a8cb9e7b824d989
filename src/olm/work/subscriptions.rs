//! The controller of Subscriptions: looks at what each namespace asks for, finds what is to be installed, fetches it, and makes an
//! InstallPlan of it. Only the holder of the lease runs it to an effect.

mod figures;
mod idle;
mod live;
mod perform;
mod resolving;
mod unpack;
mod views;

use super::bundles::Bundles;
use super::catalogs::{Known, Outputs};
use crate::cluster::writer::Writer;
use crate::cluster::{Clients, Objects};
use crate::olm::resolve::answer::Answer;
use crate::olm::resolve::rule::ClusterVersions;
use crate::olm::subscription::labels::Labelled;
use crate::olm::subscription::news::{About, news};
use crate::olm::subscription::plan::Plan;
use crate::olm::subscription::{ByHand, Decision, Facts, Gate, Wanted};
use crate::process::events::Events;
use crate::process::turns::due;
pub(crate) use figures::SubscriptionFigures;
use idle::Judged;
use jiff::Timestamp;
use live::{All, Live};
use perform::{Key, Of, create, give_up, label, refuse, write_status};
use resolving::Resolving;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;
use unpack::Unpacker;

/// How long no other plan is made in a namespace, so that the first one is seen.
const PAUSE: Duration = Duration::from_millis(200);

#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// The release of this process, which rules of constraints can ask for.
    pub version: String,
    /// Catalogs of this namespace are visible in all of them.
    pub global_namespace: String,
    /// How long fetching a bundle may take; zero for as long as it takes.
    pub unpack_timeout: Duration,
}

/// What it works with.
pub(crate) struct Means<'a> {
    pub clients: &'a Clients,
    /// Writes while the lease is held.
    pub objects: Objects,
    pub bundles: Arc<Bundles>,
    pub events: Events,
    pub figures: Arc<SubscriptionFigures>,
}

pub(crate) struct SubscriptionController {
    settings: Settings,
    objects: Objects,
    changed: Arc<Notify>,
    leading: watch::Receiver<bool>,
    live: Live,
    known: watch::Receiver<Arc<Known>>,
    writer: Arc<Writer<Key>>,
    /// By namespace and, for a plan that somebody has written, its name.
    resolving: BTreeMap<(String, String), Resolving>,
    lanes: resolving::Lanes,
    /// Namespaces in which there was nothing to do, and by what that was judged.
    idle: BTreeMap<String, Judged>,
    unpacker: Unpacker,
    events: Events,
    figures: Arc<SubscriptionFigures>,
}

impl SubscriptionController {
    /// `leading` says whether the lease is held. `outputs`: of the controller of catalogs.
    pub(crate) fn new(
        settings: Settings,
        means: Means<'_>,
        leading: watch::Receiver<bool>,
        outputs: &Outputs,
        stop: &CancellationToken,
    ) -> SubscriptionController {
        let Means { clients, objects, bundles, events, figures } = means;
        let changed = Arc::new(Notify::new());
        let live = Live::start(clients, &changed, stop);
        figures.show(live.clone());
        let unpacker = Unpacker::new(bundles, settings.unpack_timeout, changed.clone(), stop.clone());
        SubscriptionController {
            settings,
            objects,
            leading,
            live,
            known: outputs.known.clone(),
            writer: Writer::new(changed.clone()),
            resolving: BTreeMap::new(),
            lanes: resolving::Lanes::new(changed.clone(), figures.resolutions()),
            idle: BTreeMap::new(),
            unpacker,
            events,
            figures,
            changed,
        }
    }

    /// Runs until `stop`.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        while !stop.is_cancelled() {
            let leading = *self.leading.borrow_and_update();
            let known = self.known.borrow_and_update().clone();
            let deadline = if leading { self.turn(&known, Timestamp::now()) } else { None };
            tokio::select! {
                () = due(&self.changed, deadline, &stop) => {}
                Ok(()) = self.known.changed() => {}
                Ok(()) = self.leading.changed() => {}
            }
        }
        self.writer.end().await;
    }

    /// Does what is due, and returns when something is although nothing has changed.
    fn turn(&mut self, known: &Arc<Known>, now: Timestamp) -> Option<Instant> {
        let at = Instant::now();
        let (Some(all), Some(catalogs)) = (self.live.all(), known.catalogs.as_ref()) else { return None };
        self.figures.on_look(&all.subscriptions);
        let mut asked = BTreeSet::new();
        let cluster = ClusterVersions { kubernetes: known.kubernetes.clone(), release: self.settings.version.clone() };
        let refused = self.writer.rejections();
        let mut wanted = Vec::new();
        for namespace in all.subscriptions.keys() {
            let refused_plan = refused.get(&Key::NewPlan(namespace.clone()).to_string()).map(String::as_str);
            let facts = Facts { refused: refused_plan, ..facts(namespace, &all, catalogs, &self.settings) };
            let key = (namespace.clone(), String::new());
            if self.idle.get(namespace).is_some_and(|judged| judged.holds(&facts, known)) {
                asked.insert(key);
                continue;
            }
            let (labelled, labels) = self.label(&facts, &refused, at);
            let gate = facts.gate();
            let found = answer(&mut self.resolving, &self.lanes, &key, (&gate, &cluster));
            asked.insert(key);
            let unpacker = &self.unpacker;
            let decision = facts.decide(&gate, found.as_deref(), &|new| unpacker.look(new), now);
            let is_answered = found.is_some() || !matches!(gate, Gate::Open(_));
            if is_answered && !labels && decision.is_nothing() {
                self.idle.insert(namespace.clone(), Judged::by(&facts, known));
            } else {
                self.idle.remove(namespace);
            }
            self.perform((&facts, &labelled), decision, &mut wanted, at);
        }
        self.idle.retain(|namespace, _| all.subscriptions.contains_key(namespace));
        for namespace in all.plans.keys() {
            let of_namespace = facts(namespace, &all, catalogs, &self.settings);
            for plan in of_namespace.by_hand() {
                let refused = refused.get(&Key::Plan(namespace.clone(), plan.name.clone()).to_string());
                let facts = Facts { refused: refused.map(String::as_str), ..of_namespace };
                let gate = facts.gate_by_hand(plan);
                let key = (namespace.clone(), plan.name.clone());
                let found = answer(&mut self.resolving, &self.lanes, &key, (&gate, &cluster));
                asked.insert(key);
                let unpacker = &self.unpacker;
                let decision = facts.decide_by_hand(plan, &gate, found.as_deref(), &|new| unpacker.look(new));
                self.perform_by_hand(plan, namespace, decision, &mut wanted, at);
            }
        }
        self.resolving.retain(|key, _| asked.contains(key));
        let next = self.unpacker.want(&wanted, known);
        next.into_iter().chain(self.writer.next()).min()
    }

    /// For a plan that somebody has written.
    fn perform_by_hand(
        &self,
        plan: &Arc<Plan>,
        namespace: &str,
        decision: ByHand,
        wanted: &mut Vec<Wanted>,
        at: Instant,
    ) {
        wanted.extend(decision.wanted);
        let key = Key::Plan(namespace.to_owned(), plan.name.clone());
        let parts = (self.objects.clone(), self.live.clone());
        if let Some(new) = decision.resolve {
            self.writer.begin(key, at, PAUSE, create(parts.0, parts.1, vec![new]));
        } else if let Some(cause) = decision.refuse {
            let write = refuse(parts, namespace.to_owned(), plan.clone(), cause);
            self.writer.begin(key, at, PAUSE, write);
        }
    }

    /// Returns the Subscriptions that are being labelled: the one write would make another one a conflict. One whose label is refused does
    /// not wait for it. `refused`: what the server turns down, by key. And whether anything at all is to be labelled.
    fn label(&self, facts: &Facts<'_>, refused: &BTreeMap<String, String>, at: Instant) -> (BTreeSet<String>, bool) {
        let (mut waiting, mut any) = (BTreeSet::new(), false);
        for (of, patch) in facts.labels() {
            any = true;
            let of = match of {
                Labelled::Subscription(it) => Of::Subscription(it.metadata.name.clone().unwrap_or_default()),
                Labelled::Plan(plan) => Of::Plan(plan.name.clone()),
            };
            let namespace = facts.namespace.to_owned();
            let key = Key::Labels(namespace.clone(), of.clone());
            if let Of::Subscription(name) = &of
                && !refused.contains_key(&key.to_string())
            {
                waiting.insert(name.clone());
            }
            let parts = (self.objects.clone(), self.live.clone());
            self.writer.begin(key, at, Duration::ZERO, label(parts, namespace, of, patch));
        }
        (waiting, any)
    }

    /// `labelled`: Subscriptions whose statuses wait.
    fn perform(
        &self,
        (facts, labelled): (&Facts<'_>, &BTreeSet<String>),
        decision: Decision,
        wanted: &mut Vec<Wanted>,
        at: Instant,
    ) {
        let Decision { statuses, wanted: bundles, create: new, superseded } = decision;
        wanted.extend(bundles);
        let namespace = facts.namespace.to_owned();
        let mut told = BTreeSet::new();
        for (place, status) in statuses {
            let Some(subscription) = facts.subscriptions.get(place).cloned() else { continue };
            let name = subscription.metadata.name.clone().unwrap_or_default();
            if labelled.contains(&name) {
                continue;
            }
            let mut news = news(subscription.status.as_ref(), &status);
            // One answer is looked for in a namespace, so that it fails once.
            news.retain(|it| it.about == About::Subscription || told.insert(it.message.clone()));
            let events = (self.events.clone(), news);
            let key = Key::Subscription(namespace.clone(), name);
            let write = write_status(self.objects.clone(), self.live.clone(), subscription, status, events);
            self.writer.begin(key, at, Duration::ZERO, write);
        }
        for plan in superseded {
            let key = Key::Plan(namespace.clone(), plan.name.clone());
            self.writer.begin(key, at, PAUSE, give_up(self.objects.clone(), namespace.clone(), plan));
        }
        if !new.is_empty() {
            let write = create(self.objects.clone(), self.live.clone(), new);
            self.writer.begin(Key::NewPlan(namespace), at, PAUSE, write);
        }
    }
}

fn answer(
    resolving: &mut BTreeMap<(String, String), Resolving>,
    lanes: &resolving::Lanes,
    key: &(String, String),
    (gate, cluster): (&Gate, &ClusterVersions),
) -> Option<Arc<Result<Answer, String>>> {
    let resolving = resolving.entry(key.clone()).or_default();
    match gate {
        Gate::Open(inputs) => resolving.answer(inputs, cluster, lanes),
        Gate::Closed(_) | Gate::Waiting => None,
    }
}

fn facts<'a>(
    namespace: &'a str,
    all: &'a All,
    catalogs: &'a BTreeMap<(String, String), crate::olm::subscription::Visible>,
    settings: &'a Settings,
) -> Facts<'a> {
    fn of<'a, T>(all: &'a BTreeMap<String, Vec<Arc<T>>>, namespace: &str) -> &'a [Arc<T>] {
        all.get(namespace).map(Vec::as_slice).unwrap_or_default()
    }
    Facts {
        namespace,
        subscriptions: of(&all.subscriptions, namespace),
        csvs: of(&all.csvs, namespace),
        groups: of(&all.groups, namespace),
        plans: of(&all.plans, namespace),
        catalogs,
        global: &settings.global_namespace,
        refused: None,
    }
}
