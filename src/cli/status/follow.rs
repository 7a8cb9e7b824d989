//! `cvo status --watch`: keeps a [`State`] up to date with watches and shows it whenever it changes.

use super::view::View;
use super::{OF_NODES, Operators, Output, State, StatusArgs, lines, render};
use crate::cli::layout::{colours, frame, terminal};
use crate::cli::output::{print, reader_is_gone};
use crate::cli::watched::{DEBOUNCE, TICK, Told, Watched, at};
use crate::cluster::watcher::{Selection, Selector, events};
use crate::cluster::{Clients, Kind};
use crate::cluster_version::api::ClusterVersion;
use crate::cluster_version::cli::request::Source;
use crate::cluster_version::progress::CONFIG_MAP;
use crate::cluster_version::work::silence;
use crate::diagnosis::lease::{Holder, Renewal, Silence};
use crate::machine_config::api::machine_config::MachineConfigPool;
use crate::object::cluster_operator::ClusterOperator;
use crate::object::read::Read;
use crate::olm::cli::status as olm;
use crate::olm::cli::status::What;
use futures::stream::{BoxStream, SelectAll, Stream, StreamExt};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Node};
use serde::de::DeserializeOwned;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// As long as a Lease is not renewed, it is looked at this often, and why.
const LOOK_AGAIN: Duration = Duration::from_secs(30);
/// Not sooner: a clock of this machine that is wrong must not make requests of each renewal.
const SOON: Duration = Duration::from_secs(1);

/// An event of one of the watches.
enum WatchEvent {
    Version(Box<Told<ClusterVersion>>),
    Operator(Told<ClusterOperator>),
    Record(Told<ConfigMap>),
    Pool(Box<Told<MachineConfigPool>>),
    Node(Box<Told<Node>>),
    Lease(Box<Told<Lease>>),
    LeaseOfNodes(Box<Told<Lease>>),
    Installed(olm::Event),
}

pub(crate) async fn run(clients: Arc<Clients>, args: &StatusArgs) -> anyhow::Result<()> {
    let mut follower = Follower::new(clients, &args.source, &What::FEW)?;
    let mut screen = Screen::new(args.output);
    let mut state: Option<State> = None;
    loop {
        tokio::select! {
            interrupted = tokio::signal::ctrl_c() => return interrupted.map_err(Into::into),
            next = follower.next() => {
                screen.show(&next, Timestamp::now())?;
                state = Some(next);
                if reader_is_gone() {
                    return Ok(());
                }
            }
            () = tokio::time::sleep(TICK), if screen.redraws() && state.is_some() => {
                if let Some(state) = &state {
                    screen.show(state, Timestamp::now())?;
                }
            }
        }
    }
}

/// Follows the objects that describe an update, and whether those who write them still do.
pub(crate) struct Follower {
    clients: Arc<Clients>,
    source: Source,
    events: SelectAll<BoxStream<'static, WatchEvent>>,
    known: Known,
    /// When the state is told next.
    due: Option<Instant>,
    failing_since: Option<Timestamp>,
    /// When a Lease should have been renewed again, or is to be looked at again.
    look_at: Option<Instant>,
    looking: Option<JoinHandle<Option<Looked>>>,
}

/// Who does not renew, and what could not be found out about that.
type Looked = (Vec<Silence>, Vec<String>);

impl Follower {
    /// `kinds`: of those that say where installed operators stand.
    pub(crate) fn new(clients: Arc<Clients>, source: &Source, kinds: &[What]) -> anyhow::Result<Follower> {
        let mut events = watches(&clients, source)?;
        events.push(olm::watches(&clients, "", kinds)?.map(WatchEvent::Installed).boxed());
        let source = source.clone();
        let known = Known::new(kinds);
        Ok(Follower { clients, source, events, known, due: None, failing_since: None, look_at: None, looking: None })
    }

    /// The next state. Nothing is told until each watch has reported, so that the first state is complete. Cancel safe.
    pub(crate) async fn next(&mut self) -> State {
        loop {
            let complete = self.known.is_complete();
            tokio::select! {
                Some(event) = self.events.next() => self.on_event(event),
                looked = ended(&mut self.looking) => self.on_looked(looked),
                () = at(self.look_at), if self.look_at.is_some() && self.looking.is_none() && complete => self.look(),
                () = at(self.due), if self.due.is_some() && complete => {
                    self.due = None;
                    return self.known.state();
                }
            }
        }
    }

    fn on_event(&mut self, event: WatchEvent) {
        let of_lease = matches!(event, WatchEvent::Lease(_) | WatchEvent::LeaseOfNodes(_));
        let before = self.known.leases_are_read();
        self.known.on_event(event, &self.clients.server());
        if of_lease {
            let silent = !self.known.looked.0.is_empty() || self.known.is_noted();
            self.look_at = if silent { Some(Instant::now()) } else { self.known.look_at() };
            // A renewal alone changes nothing that is shown.
            if self.known.leases_are_read() == before {
                return;
            }
        }
        if !self.known.pools.objects.is_empty() && !std::mem::replace(&mut self.known.follows_nodes, true) {
            let of_nodes = lease(&self.clients, OF_NODES).map(|it| it.map(WatchEvent::LeaseOfNodes).boxed());
            self.events.extend(of_nodes.ok());
        }
        self.failing_since = self.known.failing().then(|| self.failing_since.unwrap_or_else(Timestamp::now));
        self.due = self.due.or_else(|| Some(Instant::now() + DEBOUNCE));
    }

    fn look(&mut self) {
        self.look_at = None;
        let (clients, source) = (self.clients.clone(), self.source.clone());
        let (version, pools) = (!self.known.versions.objects.is_empty(), !self.known.pools.objects.is_empty());
        self.looking = Some(tokio::spawn(async move {
            let mut silences = silence::look(&clients.call, &source.holders(version, pools)).await.ok()?;
            let mut unknown = Vec::new();
            silence::explain(&clients, &source.namespace, &source.name, &mut silences, &mut unknown).await;
            Some((silences, unknown))
        }));
    }

    fn on_looked(&mut self, looked: Option<Looked>) {
        self.looking = None;
        // What cannot be reached says nothing; the watches tell that.
        let Some(looked) = looked else { return self.look_at = Some(Instant::now() + LOOK_AGAIN) };
        self.look_at = if looked.0.is_empty() { self.known.look_at() } else { Some(Instant::now() + LOOK_AGAIN) };
        if self.known.looked != looked {
            self.known.looked = looked;
            self.due = self.due.or_else(|| Some(Instant::now()));
        }
    }

    /// Since when what is known is not up to date.
    pub(crate) fn failing_since(&self) -> Option<Timestamp> {
        self.failing_since
    }
}

/// What the look has found; never without one.
async fn ended(looking: &mut Option<JoinHandle<Option<Looked>>>) -> Option<Looked> {
    match looking {
        Some(looking) => looking.await.ok().flatten(),
        None => std::future::pending().await,
    }
}

fn watches(clients: &Clients, source: &Source) -> anyhow::Result<SelectAll<BoxStream<'static, WatchEvent>>> {
    let named = |name: &str| Selector::Name(name.to_owned());
    let of_version = |event| WatchEvent::Version(Box::new(event));
    let of_pool = |event| WatchEvent::Pool(Box::new(event));
    let of_node = |event| WatchEvent::Node(Box::new(event));
    Ok(futures::stream::select_all([
        told(clients, "", named(&source.name))?.map(of_version).boxed(),
        told(clients, "", Selector::All)?.map(WatchEvent::Operator).boxed(),
        told(clients, &source.namespace, named(CONFIG_MAP))?.map(WatchEvent::Record).boxed(),
        told(clients, "", Selector::All)?.map(of_pool).boxed(),
        told(clients, "", Selector::All)?.map(of_node).boxed(),
        lease(clients, silence::of_daemon(&source.namespace, &source.name))?.map(WatchEvent::Lease).boxed(),
    ]))
}

/// The objects of a kind, in a namespace, or of a kind that has none.
fn told<T>(
    clients: &Clients,
    namespace: &str,
    selector: Selector,
) -> anyhow::Result<impl Stream<Item = Told<T>> + Send + 'static + use<T>>
where
    T: kube::Resource<DynamicType = ()> + Clone + DeserializeOwned + Send + 'static,
{
    let selection = Selection::new(Kind::of::<T>(!namespace.is_empty()), namespace, selector);
    Ok(events(clients.for_watch()?, selection))
}

fn lease(clients: &Clients, holder: Holder<'_>) -> anyhow::Result<BoxStream<'static, Box<Told<Lease>>>> {
    Ok(told(clients, holder.namespace, Selector::Name(holder.name.to_owned()))?.map(Box::new).boxed())
}

#[derive(Debug)]
struct Known {
    versions: Watched<ClusterVersion>,
    operators: Watched<ClusterOperator>,
    records: Watched<ConfigMap>,
    pools: Watched<MachineConfigPool>,
    nodes: Watched<Node>,
    lease: Watched<Lease>,
    lease_of_nodes: Watched<Lease>,
    /// The latter is followed.
    follows_nodes: bool,
    /// What the leases have come to, when they were looked at last.
    looked: Looked,
    installed: olm::Known,
}

impl Known {
    fn new(kinds: &[What]) -> Known {
        Known {
            versions: Watched::default(),
            operators: Watched::default(),
            records: Watched::default(),
            pools: Watched::default(),
            nodes: Watched::default(),
            lease: Watched::default(),
            lease_of_nodes: Watched::default(),
            follows_nodes: false,
            looked: Looked::default(),
            installed: olm::Known::new(kinds),
        }
    }

    fn on_event(&mut self, event: WatchEvent, server: &str) {
        match event {
            WatchEvent::Version(event) => self.versions.on_event(*event, server),
            WatchEvent::Operator(event) => self.operators.on_event(event, server),
            WatchEvent::Record(event) => self.records.on_event(event, server),
            WatchEvent::Pool(event) => self.pools.on_event(*event, server),
            WatchEvent::Node(event) => self.nodes.on_event(*event, server),
            WatchEvent::Lease(event) => self.lease.on_event(*event, server),
            WatchEvent::LeaseOfNodes(event) => self.lease_of_nodes.on_event(*event, server),
            WatchEvent::Installed(event) => self.installed.on_event(event, server),
        }
    }

    /// When a Lease should have been renewed again. By this machine's clock, which may be wrong: it only says when to look.
    fn look_at(&self) -> Option<Instant> {
        if self.lease.error.is_some() || !self.lease.reported {
            return None;
        }
        // One that is missing is looked at soon: whoever begins creates it.
        let missing = self.lease.objects.is_empty() && !self.versions.objects.is_empty();
        let leases = self.lease.objects.values().chain(self.lease_of_nodes.objects.values()).map(Renewal::of);
        let left = leases.filter_map(|renewal| {
            let age = Timestamp::now().duration_since(renewal.last()?).max(SignedDuration::ZERO);
            Duration::try_from(renewal.period - age).ok().or(Some(Duration::ZERO))
        });
        let left = left.min().into_iter().chain(missing.then_some(Duration::ZERO)).min()?;
        Some(Instant::now() + left.max(SOON))
    }

    /// A lease says that its holder cannot write.
    fn is_noted(&self) -> bool {
        let mut leases = self.lease.objects.values().chain(self.lease_of_nodes.objects.values());
        leases.any(|lease| Renewal::of(lease).not_written.is_some())
    }

    fn leases_are_read(&self) -> (bool, bool) {
        let read = |lease: &Watched<Lease>| lease.reported && lease.error.is_none();
        (read(&self.lease), read(&self.lease_of_nodes))
    }

    fn is_complete(&self) -> bool {
        let of_update = self.versions.reported && self.operators.reported && self.records.reported;
        let of_others = self.nodes.reported && self.lease.reported && self.installed.is_complete();
        of_update && self.pools.reported && of_others
    }

    fn failing(&self) -> bool {
        let of_update = self.versions.error.is_some() || self.operators.error.is_some() || self.records.error.is_some();
        of_update || self.pools.error.is_some() || (!self.pools.objects.is_empty() && self.nodes.error.is_some())
    }

    /// Those that were known before an error stay.
    fn operators(&self) -> Operators {
        let found: Vec<ClusterOperator> = self.operators.objects.values().cloned().collect();
        match &self.operators.error {
            Some(error) if found.is_empty() => Operators::Failed(error.clone()),
            _ => Operators::Value(found),
        }
    }

    fn state(&self) -> State {
        let mut state = State {
            cluster_version: self.versions.objects.values().next().cloned(),
            operators: self.operators(),
            installed: match self.installed.failure(What::Versions) {
                Some(error) => Read::Failed(error.to_owned()),
                None => Read::Value(self.installed.objects()),
            },
            silences: self.looked.0.clone(),
            pools: self.pools.objects.values().cloned().collect(),
            ..State::default()
        };
        let errors = [&self.versions.error, &self.operators.error, &self.records.error, &self.pools.error];
        let mut errors: Vec<&String> = errors.into_iter().flatten().collect();
        // Nodes matter only where pools configure them.
        if !state.pools.is_empty() {
            state.nodes = self.nodes.objects.values().cloned().collect();
            errors.extend(&self.nodes.error);
        }
        errors.dedup();
        state.remarks = errors.iter().map(|error| format!("Not up to date, retrying: {error}")).collect();
        // Whoever may not read Leases sees the rest.
        let leases = self.lease.error.iter().chain(&self.lease_of_nodes.error);
        state.remarks.extend(leases.map(|error| format!("Whether what is shown is up to date is not known: {error}")));
        state.remarks.extend(self.looked.1.iter().cloned());
        if let Some(map) = self.records.objects.values().next() {
            state.take_record(map);
        }
        state
    }
}

/// Writes states to standard output.
struct Screen {
    output: Output,
    before: Option<View>,
}

impl Screen {
    fn new(output: Output) -> Self {
        Screen { output, before: None }
    }

    /// Whether the output changes as time passes.
    fn redraws(&self) -> bool {
        self.output == Output::Text && terminal().is_some()
    }

    fn show(&mut self, state: &State, now: Timestamp) -> anyhow::Result<()> {
        if let (Output::Text, Some((width, height))) = (self.output, terminal()) {
            return print(&frame(&render(state, width, colours(), now), height, "cvo status"));
        }
        let mut view = View::of(state, now);
        match self.output {
            Output::Json => {
                // The estimate changes by itself, which is not a change of the state.
                let timeless = |view: &View| View { remaining_seconds: None, ..view.clone() };
                let without_components = |view: &View| View { components: Vec::new(), ..timeless(view) };
                let unchanged = match &self.before {
                    Some(before) if view.components.is_empty() => {
                        without_components(before) == without_components(&view)
                    }
                    Some(before) => timeless(before) == timeless(&view),
                    None => false,
                };
                if !unchanged {
                    print(&(serde_json::to_string(&view)? + "\n"))?;
                }
            }
            Output::Text => {
                let nothing = View::default();
                for line in lines::lines(self.before.as_ref().unwrap_or(&nothing), &view, state, now) {
                    print(&(line + "\n"))?;
                }
            }
        }
        // While the record is older than the status, its last content remains, so that the next one shows only changes.
        if let Some(before) = self.before.take().filter(|before| before.target.image == view.target.image)
            && view.components.is_empty()
        {
            view.components = before.components;
        }
        self.before = Some(view);
        Ok(())
    }
}
