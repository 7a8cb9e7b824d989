//! `cvo page`: a live page of an update in the administrator's own browser. Only reads, with the rights of the kubeconfig.

use super::output::{line, remark};
use super::status::{Follower, Source, State, View};
use crate::cluster::Clients;
use crate::serve::page::Page;
use anyhow::Context;
use clap::Args;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Show the update in a browser: what is done, what waits and why, what to do about it, and the history
///
/// Serves one page on the loopback interface of this machine, until it is interrupted, and prints its address. The page follows the
/// ClusterVersion, the ClusterOperators, pools and nodes, and the progress record with the rights of the kubeconfig, one watch of each
/// however many browsers look at it. It changes nothing. The address holds a token that is new at each start: who has it can read the page.
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

pub(crate) async fn run(args: PageArgs) -> anyhow::Result<()> {
    let (states, received) = watch::channel::<Arc<str>>("".into());
    let stop = CancellationToken::new();
    let page = Page::bind(args.port).await.with_context(|| format!("cannot listen on 127.0.0.1:{}", args.port))?;
    let url = page.url();
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
                let clients = Clients::connect(args.kubeconfig.as_deref()).await?;
                line(&url)?;
                remark(&format!("follows {}; stop it with Ctrl-C", clients.server()));
                follow(&clients, &args.source, &states).await
            }
        }
    };
    tokio::select! {
        served = served => served.context("cannot serve the page"),
        told = told => told,
        interrupted = tokio::signal::ctrl_c() => interrupted.map_err(Into::into),
    }
}

async fn follow(clients: &Clients, source: &Source, states: &watch::Sender<Arc<str>>) -> anyhow::Result<()> {
    let server = clients.server();
    let mut follower = Follower::new(clients, source).with_context(|| format!("cannot follow {server}"))?;
    let mut state: Option<State> = None;
    loop {
        let under_way = state.as_ref().is_some_and(is_under_way);
        tokio::select! {
            next = follower.next() => state = Some(next),
            () = tokio::time::sleep(TICK), if under_way => {}
        }
        let (now, since) = (Timestamp::now(), follower.failing_since());
        if let Some(state) = &state {
            let text = message(state, &server, now, true, since);
            states.send_if_modified(|told| {
                let changed = without_time(told) != without_time(&text);
                *told = text.into();
                changed
            });
        }
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
