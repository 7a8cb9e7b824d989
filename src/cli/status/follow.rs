//! `cvo status --watch`: keeps a [`State`] up to date by watches and shows it whenever it changes.

use super::view::View;
use super::{Output, Source, State, StatusArgs, colours, lines, render, terminal};
use crate::api::progress::CONFIG_MAP;
use crate::api::{ClusterOperator, ClusterVersion};
use crate::cli::output::say;
use crate::cli::reach;
use crate::cluster::Clients;
use futures::{Stream, StreamExt, stream};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::Api;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::Instant;

/// Events that come within this are shown at once together.
const SETTLE: Duration = Duration::from_millis(200);
/// A terminal shows how long things last: it is drawn again this often from what is known, without asking anybody.
const TICK: Duration = Duration::from_secs(1);

/// News of one of the three watches.
enum News {
    Version(Box<watcher::Result<Event<ClusterVersion>>>),
    Operator(watcher::Result<Event<ClusterOperator>>),
    Record(watcher::Result<Event<ConfigMap>>),
}

pub async fn run(clients: &Clients, args: &StatusArgs) -> anyhow::Result<()> {
    let server = clients.server();
    let mut news = Box::pin(watches(clients, &args.source)?);
    let mut known = Known::default();
    let mut screen = Screen::new(args.output);
    // Nothing is shown before each watch has said something, so that the first picture is whole.
    let mut due: Option<Instant> = None;
    loop {
        tokio::select! {
            interrupted = tokio::signal::ctrl_c() => return interrupted.map_err(Into::into),
            Some(happened) = news.next() => {
                known.take(happened, &server);
                due = due.or_else(|| Some(Instant::now() + SETTLE));
            }
            () = at(due), if due.is_some() && known.whole() => {
                due = None;
                screen.show(&known.state(), Timestamp::now())?;
            }
            () = tokio::time::sleep(TICK), if screen.redraws() && known.whole() => {
                screen.show(&known.state(), Timestamp::now())?;
            }
        }
    }
}

async fn at(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}

fn watches(clients: &Clients, source: &Source) -> anyhow::Result<impl Stream<Item = News> + use<>> {
    let named = |name: &str| watcher::Config::default().fields(&format!("metadata.name={name}"));
    let versions: Api<ClusterVersion> = Api::all(clients.for_watch()?);
    let operators: Api<ClusterOperator> = Api::all(clients.for_watch()?);
    let records: Api<ConfigMap> = Api::namespaced(clients.for_watch()?, &source.namespace);
    Ok(stream::select(
        stream::select(
            watcher(versions, named(&source.name)).default_backoff().map(|event| News::Version(Box::new(event))),
            watcher(operators, watcher::Config::default()).default_backoff().map(News::Operator),
        ),
        watcher(records, named(CONFIG_MAP)).default_backoff().map(News::Record),
    ))
}

/// What a watch has told so far.
#[derive(Debug)]
struct Watched<T> {
    held: BTreeMap<String, T>,
    /// A list being read; takes the place of `held` when it is whole.
    fresh: BTreeMap<String, T>,
    trouble: Option<String>,
    heard: bool,
}

impl<T> Default for Watched<T> {
    fn default() -> Self {
        Watched { held: BTreeMap::new(), fresh: BTreeMap::new(), trouble: None, heard: false }
    }
}

impl<T: kube::Resource> Watched<T> {
    /// `server`: where it should be, for what is said when it is not.
    fn take(&mut self, event: watcher::Result<Event<T>>, server: &str) {
        let name = |object: &T| object.meta().name.clone().unwrap_or_default();
        match event {
            Err(error) => {
                // Before the install the kinds are not there yet, which is nothing to complain about.
                self.trouble = (!missing(&error)).then(|| reach::explain_watch(server, &error));
                self.heard = true;
                return;
            }
            Ok(Event::Init) => self.fresh = BTreeMap::new(),
            Ok(Event::InitApply(object)) => drop(self.fresh.insert(name(&object), object)),
            Ok(Event::InitDone) => {
                self.held = std::mem::take(&mut self.fresh);
                self.heard = true;
            }
            Ok(Event::Apply(object)) => drop(self.held.insert(name(&object), object)),
            Ok(Event::Delete(object)) => drop(self.held.remove(&name(&object))),
        }
        self.trouble = None;
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
}

impl Known {
    fn take(&mut self, news: News, server: &str) {
        match news {
            News::Version(event) => self.versions.take(*event, server),
            News::Operator(event) => self.operators.take(event, server),
            News::Record(event) => self.records.take(event, server),
        }
    }

    fn whole(&self) -> bool {
        self.versions.heard && self.operators.heard && self.records.heard
    }

    fn state(&self) -> State {
        let mut state = State {
            cluster_version: self.versions.held.values().next().cloned(),
            operators: self.operators.held.values().cloned().collect(),
            ..State::default()
        };
        let troubles = [&self.versions.trouble, &self.operators.trouble, &self.records.trouble];
        let mut troubles: Vec<&String> = troubles.into_iter().flatten().collect();
        troubles.dedup();
        state.remarks = troubles.iter().map(|trouble| format!("Not up to date, trying again: {trouble}")).collect();
        if let Some(map) = self.records.held.values().next() {
            state.take_record(map);
        }
        state
    }
}

/// Where states go.
struct Screen {
    output: Output,
    before: Option<View>,
}

impl Screen {
    fn new(output: Output) -> Self {
        Screen { output, before: None }
    }

    /// Whether time alone changes what is seen.
    fn redraws(&self) -> bool {
        self.output == Output::Text && terminal().is_some()
    }

    fn show(&mut self, state: &State, now: Timestamp) -> anyhow::Result<()> {
        if let (Output::Text, Some((width, height))) = (self.output, terminal()) {
            return say(&frame(&render(state, width, colours(), now), height));
        }
        let mut view = View::of(state, now);
        match self.output {
            Output::Json => {
                // The estimate moves by itself; that is no news.
                let still = |view: &View| View { remaining_seconds: None, ..view.clone() };
                let silent = |view: &View| View { components: Vec::new(), ..still(view) };
                let told = match &self.before {
                    Some(before) if view.components.is_empty() => silent(before) == silent(&view),
                    Some(before) => still(before) == still(&view),
                    None => false,
                };
                if !told {
                    say(&(serde_json::to_string(&view)? + "\n"))?;
                }
            }
            Output::Text => {
                let nothing = View::default();
                for line in lines::lines(self.before.as_ref().unwrap_or(&nothing), &view, now) {
                    say(&(line + "\n"))?;
                }
            }
        }
        // While the record is behind the status, what it said last still counts: the next one tells the rest.
        if let Some(before) = self.before.take().filter(|before| before.target.image == view.target.image)
            && view.components.is_empty()
        {
            view.components = before.components;
        }
        self.before = Some(view);
        Ok(())
    }
}

/// Draws over the last frame: each line is cleared to its end, and the rest of the screen below. What does not fit is
/// counted.
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
