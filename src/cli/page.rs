//! `cvo page`: a live page of an update in the administrator's own browser. Only reads, with the rights of the kubeconfig.

use super::output::{line, remark};
use super::status::{Follower, State, View};
use crate::cluster::Clients;
use crate::cluster_version::cli::request::Source;
use crate::diagnosis::pods::Detail;
use crate::object::read::Read;
use crate::olm::cli::status::{What, shown};
use crate::serve::page::Page;
use anyhow::Context;
use clap::Args;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Show the update in a browser: what is done, what waits and why, what to do about it, and the history
///
/// Serves one page on the loopback interface of this machine, until it is interrupted, and prints its address. The page follows the
/// ClusterVersion, the ClusterOperators, pools and nodes, the progress record, the Lease of who writes them, and the operators that were
/// installed with their plans and catalogs, with the rights of the kubeconfig, one watch of each however many browsers look at it. While
/// somebody looks and something is waited for, it reads the pods behind that. It changes nothing. The address holds a token that is new at
/// each start: who has it can read the page.
#[derive(Args, Debug)]
pub(crate) struct PageArgs {
    /// Port on 127.0.0.1; 0 for any that is free
    #[arg(long, default_value_t = 0, value_name = "PORT")]
    pub port: u16,
    /// Show what `cvo collect` has written instead of a cluster
    #[arg(long, value_name = "FILE", conflicts_with = "kubeconfig")]
    pub from: Option<PathBuf>,
    /// Kubeconfig of the cluster [default: $KUBECONFIG, else ~/.kube/config, else the pod's service account]
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    #[command(flatten)]
    pub source: Source,
}

/// What follows from the time alone, such as that a component is slow, is told this often during an update. Nothing is read for it.
const TICK: Duration = Duration::from_secs(15);
/// What is waited for longer than this is looked behind.
const LONG: SignedDuration = SignedDuration::from_secs(30);
/// Pods are looked at again after this, and after at most 16 times this while they stay the same.
const AGAIN: SignedDuration = SignedDuration::from_secs(30);

pub(crate) async fn run(args: PageArgs) -> anyhow::Result<()> {
    let (states, received) = watch::channel::<Arc<str>>("".into());
    let stop = CancellationToken::new();
    let page = Page::bind(args.port).await.with_context(|| format!("cannot listen on 127.0.0.1:{}", args.port))?;
    let (url, viewers) = (page.url(), page.viewers());
    let served = page.serve(received, stop.clone());
    let told = async {
        match &args.from {
            Some(file) => {
                let (state, at) = State::recorded(file)?;
                let source = format!("{}, collected {at}", file.display());
                states.send_replace(message(&state, &source, at, false, None).into());
                line(&url)?;
                std::future::pending::<anyhow::Result<()>>().await
            }
            None => {
                let clients = Arc::new(Clients::connect(args.kubeconfig.as_deref()).await?);
                line(&url)?;
                remark(&format!("follows {}; stop it with Ctrl-C", clients.server()));
                follow(clients, &args.source, &states, viewers).await
            }
        }
    };
    tokio::select! {
        served = served => served.context("cannot serve the page"),
        told = told => told,
        interrupted = tokio::signal::ctrl_c() => interrupted.map_err(Into::into),
    }
}

async fn follow(
    clients: Arc<Clients>,
    source: &Source,
    states: &watch::Sender<Arc<str>>,
    mut viewers: watch::Receiver<usize>,
) -> anyhow::Result<()> {
    let server = clients.server();
    let mut follower =
        Follower::new(clients.clone(), source, &What::ALL).with_context(|| format!("cannot follow {server}"))?;
    let mut behind = Behind { clients, known: (Vec::new(), Vec::new()), plan: Looks::default(), looking: None };
    let mut state: Option<State> = None;
    loop {
        let under_way = state.as_ref().is_some_and(is_under_way);
        let looks = *viewers.borrow_and_update() > 0;
        let due = state.as_ref().filter(|_| looks).and_then(|state| behind.due(state));
        tokio::select! {
            next = follower.next() => state = Some(next),
            () = tokio::time::sleep(TICK), if under_way => {}
            looked = ended(&mut behind.looking) => behind.take(looked),
            () = tokio::time::sleep(due.unwrap_or_default()), if due.is_some() => {
                if let Some(state) = &state {
                    behind.look(state);
                }
            }
            // Who looks decides whether anything is read.
            Ok(()) = viewers.changed() => {}
        }
        let (now, since) = (Timestamp::now(), follower.failing_since());
        if let Some(state) = &state {
            let text = message(&behind.added_to(state), &server, now, true, since);
            states.send_if_modified(|told| {
                let changed = without_time(told) != without_time(&text);
                *told = text.into();
                changed
            });
        }
    }
}

/// The pods behind what is waited for. They are read only while somebody looks, and only if it is waited for a while.
struct Behind {
    clients: Arc<Clients>,
    known: Found,
    plan: Looks,
    looking: Option<JoinHandle<Found>>,
}

/// What was found, and what could not be read.
type Found = (Vec<Detail>, Vec<String>);

impl Behind {
    /// How long until the next look; `None`: there is nothing to look for, or it is being looked for.
    fn due(&mut self, state: &State) -> Option<Duration> {
        let now = Timestamp::now();
        let awaited = state.awaited(now);
        self.plan.of(&awaited);
        if awaited.is_empty() {
            self.known = (Vec::new(), Vec::new());
        }
        self.looking.is_none().then(|| self.plan.due(&awaited, now))?
    }

    fn look(&mut self, state: &State) {
        let (clients, mut state) = (self.clients.clone(), state.clone());
        state.remarks.clear();
        self.looking = Some(tokio::spawn(async move {
            state.look_behind(&clients.call, false, Timestamp::now()).await;
            (state.details, state.remarks)
        }));
    }

    fn take(&mut self, found: Option<Found>) {
        self.looking = None;
        let found = found.unwrap_or_default();
        self.plan.looked(Timestamp::now(), found == self.known);
        self.known = found;
    }

    fn added_to(&self, state: &State) -> State {
        let (details, remarks) = self.known.clone();
        let remarks = state.remarks.iter().cloned().chain(remarks).collect();
        State { details, remarks, ..state.clone() }
    }
}

/// What the look has found; never without one.
async fn ended(looking: &mut Option<JoinHandle<Found>>) -> Option<Found> {
    match looking {
        Some(looking) => looking.await.ok(),
        None => std::future::pending().await,
    }
}

/// When pods are looked at: soon after something is waited for, and then less and less often as long as the same is found.
#[derive(Debug, Default)]
struct Looks {
    awaited: BTreeSet<String>,
    last: Option<Timestamp>,
    /// So often in a row the same was found.
    same: u32,
}

impl Looks {
    /// Something else is waited for than before.
    fn of(&mut self, awaited: &[(String, Option<Timestamp>)]) {
        let names: BTreeSet<String> = awaited.iter().map(|(name, _)| name.clone()).collect();
        if !names.is_subset(&self.awaited) {
            self.same = 0;
        }
        self.awaited = names;
    }

    fn looked(&mut self, now: Timestamp, same: bool) {
        self.last = Some(now);
        self.same = if same { self.same.saturating_add(1) } else { 0 };
    }

    /// How long until the next look.
    fn due(&self, awaited: &[(String, Option<Timestamp>)], now: Timestamp) -> Option<Duration> {
        // What says not since when has been there before.
        let first = awaited.iter().map(|(_, since)| since.map_or(now, |since| since + LONG)).min()?;
        let pause = AGAIN * 2_i32.pow(self.same.min(4));
        let next = self.last.map_or(first, |last| first.max(last + pause));
        Some(Duration::try_from(next.duration_since(now)).unwrap_or_default())
    }
}

fn is_under_way(state: &State) -> bool {
    let progress = state.progress.as_ref();
    progress
        .is_some_and(|progress| progress.rollout.mode != "reconcile" && progress.rollout.done < progress.rollout.total)
}

/// What the script of the page reads.
fn message(state: &State, source: &str, at: Timestamp, live: bool, unreachable_since: Option<Timestamp>) -> String {
    let view = View::of(state, at);
    let message: Value = json!({
        "schema": 1,
        "at": at,
        "source": source,
        "live": live,
        "connected": unreachable_since.is_none(),
        "unreachableSince": unreachable_since,
        "view": view,
        "installed": if let Read::Value(objects) = &state.installed { shown(objects) } else { Value::Null },
    });
    message.to_string()
}

/// A message without what changes with every moment.
fn without_time(message: &str) -> Value {
    let mut value: Value = serde_json::from_str(message).unwrap_or_default();
    for pointer in ["/at", "/view/remainingSeconds"] {
        if let Some(time) = value.pointer_mut(pointer) {
            time.take();
        }
    }
    let slow = value.pointer_mut("/view/slow").and_then(Value::as_array_mut).into_iter().flatten();
    for component in slow.filter_map(|component| component.get_mut("seconds")) {
        component.take();
    }
    value
}

#[cfg(test)]
mod tests;
