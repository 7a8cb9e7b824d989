//! `cvo status --watch`: keeps a [`State`] up to date with watches and shows it whenever it changes.

use super::view::View;
use super::{Output, Source, State, StatusArgs, lines, render};
use crate::api::machine_config::MachineConfigPool;
use crate::api::progress::CONFIG_MAP;
use crate::api::{ClusterOperator, ClusterVersion};
use crate::cli::layout::{colours, terminal};
use crate::cli::output::print;
use crate::cli::reach;
use crate::cluster::Clients;
use futures::{Stream, StreamExt, stream};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Node};
use kube::api::Api;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use std::collections::BTreeMap;
use std::pin::Pin;
use std::time::Duration;
use tokio::time::Instant;

/// Events that arrive within this time are shown together.
const DEBOUNCE: Duration = Duration::from_millis(200);
/// A terminal is redrawn this often, because it shows durations; nothing is read from the cluster for it.
const TICK: Duration = Duration::from_secs(1);

/// An event of one of the watches.
enum WatchEvent {
    Version(Box<watcher::Result<Event<ClusterVersion>>>),
    Operator(watcher::Result<Event<ClusterOperator>>),
    Record(watcher::Result<Event<ConfigMap>>),
    Pool(Box<watcher::Result<Event<MachineConfigPool>>>),
    Node(Box<watcher::Result<Event<Node>>>),
}

pub(crate) async fn run(clients: &Clients, args: &StatusArgs) -> anyhow::Result<()> {
    let mut follower = Follower::new(clients, &args.source)?;
    let mut screen = Screen::new(args.output);
    let mut state: Option<State> = None;
    loop {
        tokio::select! {
            interrupted = tokio::signal::ctrl_c() => return interrupted.map_err(Into::into),
            next = follower.next() => {
                screen.show(&next, Timestamp::now())?;
                state = Some(next);
            }
            () = tokio::time::sleep(TICK), if screen.redraws() && state.is_some() => {
                if let Some(state) = &state {
                    screen.show(state, Timestamp::now())?;
                }
            }
        }
    }
}

/// Follows the objects that describe an update.
pub(crate) struct Follower {
    events: Pin<Box<dyn Stream<Item = WatchEvent> + Send>>,
    known: Known,
    /// URL of the API server, for errors.
    server: String,
    /// When the state is told next.
    due: Option<Instant>,
    failing_since: Option<Timestamp>,
}

impl Follower {
    pub(crate) fn new(clients: &Clients, source: &Source) -> anyhow::Result<Follower> {
        let events = Box::pin(watches(clients, source)?);
        Ok(Follower { events, known: Known::default(), server: clients.server(), due: None, failing_since: None })
    }

    /// The next state. Nothing is told until each watch has reported, so that the first state is complete. Cancel safe.
    pub(crate) async fn next(&mut self) -> State {
        loop {
            tokio::select! {
                Some(event) = self.events.next() => {
                    self.known.on_event(event, &self.server);
                    self.failing_since = self.known.failing().then(|| self.failing_since.unwrap_or_else(Timestamp::now));
                    self.due = self.due.or_else(|| Some(Instant::now() + DEBOUNCE));
                }
                () = at(self.due), if self.due.is_some() && self.known.is_complete() => {
                    self.due = None;
                    return self.known.state();
                }
            }
        }
    }

    /// Since when what is known is not up to date.
    pub(crate) fn failing_since(&self) -> Option<Timestamp> {
        self.failing_since
    }
}

async fn at(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}

fn watches(clients: &Clients, source: &Source) -> anyhow::Result<impl Stream<Item = WatchEvent> + use<>> {
    let named = |name: &str| watcher::Config::default().fields(&format!("metadata.name={name}"));
    let versions: Api<ClusterVersion> = Api::all(clients.for_watch()?);
    let operators: Api<ClusterOperator> = Api::all(clients.for_watch()?);
    let records: Api<ConfigMap> = Api::namespaced(clients.for_watch()?, &source.namespace);
    let pools: Api<MachineConfigPool> = Api::all(clients.for_watch()?);
    let nodes: Api<Node> = Api::all(clients.for_watch()?);
    let everything = watcher::Config::default;
    let of_nodes = stream::select(
        watcher(pools, everything()).default_backoff().map(|event| WatchEvent::Pool(Box::new(event))),
        watcher(nodes, everything()).default_backoff().map(|event| WatchEvent::Node(Box::new(event))),
    );
    let of_update = stream::select(
        stream::select(
            watcher(versions, named(&source.name)).default_backoff().map(|event| WatchEvent::Version(Box::new(event))),
            watcher(operators, everything()).default_backoff().map(WatchEvent::Operator),
        ),
        watcher(records, named(CONFIG_MAP)).default_backoff().map(WatchEvent::Record),
    );
    Ok(stream::select(of_update, of_nodes))
}

/// The objects of one watch.
#[derive(Debug)]
struct Watched<T> {
    objects: BTreeMap<String, T>,
    /// The list being read, which replaces `objects` when it is complete.
    listing: BTreeMap<String, T>,
    error: Option<String>,
    /// It has listed its objects or failed.
    reported: bool,
}

impl<T> Default for Watched<T> {
    fn default() -> Self {
        Watched { objects: BTreeMap::new(), listing: BTreeMap::new(), error: None, reported: false }
    }
}

impl<T: kube::Resource> Watched<T> {
    /// `server`: the URL of the API server, for errors.
    fn on_event(&mut self, event: watcher::Result<Event<T>>, server: &str) {
        let name = |object: &T| object.meta().name.clone().unwrap_or_default();
        match event {
            Err(error) => {
                // Before the installation the kinds do not exist, which is not an error.
                self.error = (!missing(&error)).then(|| reach::explain_watch(server, &error));
                self.reported = true;
                return;
            }
            Ok(Event::Init) => self.listing = BTreeMap::new(),
            Ok(Event::InitApply(object)) => drop(self.listing.insert(name(&object), object)),
            Ok(Event::InitDone) => {
                self.objects = std::mem::take(&mut self.listing);
                self.reported = true;
            }
            Ok(Event::Apply(object)) => drop(self.objects.insert(name(&object), object)),
            Ok(Event::Delete(object)) => drop(self.objects.remove(&name(&object))),
        }
        self.error = None;
    }
}

fn missing(error: &watcher::Error) -> bool {
    let code = |error: &kube::Error| matches!(error, kube::Error::Api(status) if status.code == 404);
    match error {
        watcher::Error::InitialListFailed(error) | watcher::Error::WatchStartFailed(error) => code(error),
        watcher::Error::WatchError(status) => status.code == 404,
        _ => false,
    }
}

#[derive(Debug, Default)]
struct Known {
    versions: Watched<ClusterVersion>,
    operators: Watched<ClusterOperator>,
    records: Watched<ConfigMap>,
    pools: Watched<MachineConfigPool>,
    nodes: Watched<Node>,
}

impl Known {
    fn on_event(&mut self, event: WatchEvent, server: &str) {
        match event {
            WatchEvent::Version(event) => self.versions.on_event(*event, server),
            WatchEvent::Operator(event) => self.operators.on_event(event, server),
            WatchEvent::Record(event) => self.records.on_event(event, server),
            WatchEvent::Pool(event) => self.pools.on_event(*event, server),
            WatchEvent::Node(event) => self.nodes.on_event(*event, server),
        }
    }

    fn is_complete(&self) -> bool {
        let of_update = self.versions.reported && self.operators.reported && self.records.reported;
        of_update && self.pools.reported && self.nodes.reported
    }

    fn failing(&self) -> bool {
        let of_update = self.versions.error.is_some() || self.operators.error.is_some() || self.records.error.is_some();
        of_update || self.pools.error.is_some() || (!self.pools.objects.is_empty() && self.nodes.error.is_some())
    }

    fn state(&self) -> State {
        let mut state = State {
            cluster_version: self.versions.objects.values().next().cloned(),
            operators: self.operators.objects.values().cloned().collect(),
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
            return print(&frame(&render(state, width, colours(), now), height));
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
                for line in lines::lines(self.before.as_ref().unwrap_or(&nothing), &view, now) {
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

/// Draws over the last frame: clears each line to its end, and the screen below. Lines that do not fit are counted.
fn frame(text: &str, height: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let room = height.saturating_sub(1).max(1);
    let mut out = String::from("\u{1b}[H");
    let fits = if lines.len() > room { room.saturating_sub(1) } else { lines.len() };
    for line in lines.iter().take(fits) {
        out.push_str(line);
        out.push_str("\u{1b}[K\n");
    }
    if fits < lines.len() {
        out.push_str(&format!("… {} more lines (cvo status shows all)\u{1b}[K\n", lines.len() - fits));
    }
    out.push_str("\u{1b}[J");
    out
}
