//! `cvo wait`: until the cluster has the release that was asked for.

use crate::cli::exit::Exit;
use crate::cli::layout::clean;
use crate::cli::output::{print, remark};
use crate::cli::reach;
use crate::cli::status::text;
use crate::cluster::watcher::{Event, Selection, Selector, events};
use crate::cluster::{ApiError, Clients, Kind};
use crate::cluster_version::api::ClusterVersion;
use crate::cluster_version::cli::request::Source;
use crate::cluster_version::cli::request::{Output, RequestArgs};
use crate::cluster_version::updates::arrival::{Arrival, arrival};
use crate::cluster_version::work::silence;
use crate::diagnosis::Trouble;
use crate::diagnosis::lease::Silence;
use anyhow::{Context, bail};
use clap::Args;
use futures::StreamExt;
use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use std::time::Duration;
use tokio::time::Instant;

/// Wait until the cluster has the release that was asked for
///
/// Follows the ClusterVersion and writes each change of what is done to standard error, and once that the daemon does not renew its Lease,
/// with the reason as far as it can be found out: then nothing changes until somebody helps, and the command goes on waiting.
#[derive(Args, Debug)]
pub(crate) struct WaitArgs {
    /// Wait for this version; without it, for whatever is asked for
    #[arg(long, value_name = "VERSION")]
    pub to: Option<String>,
    /// For how long, such as 90m or 2h
    #[arg(long, value_name = "TIME", default_value = "2h", value_parser = time)]
    pub timeout: Duration,
    #[command(flatten)]
    pub request: RequestArgs,
}

/// How often it is looked at whether somebody still writes what is waited for.
const LOOK: Duration = Duration::from_secs(30);

/// A value parser for times.
fn time(text: &str) -> Result<Duration, String> {
    let time: SignedDuration = text.parse().map_err(|_| "write a time such as 90m or 2h".to_owned())?;
    Duration::try_from(time).map_err(|_| "a time cannot be negative".to_owned())
}

pub(crate) async fn run(args: WaitArgs) -> anyhow::Result<Exit> {
    // An error at once if there is nothing to wait for.
    args.request.read().await?;
    let mut said = Said::default();
    match tokio::time::timeout(args.timeout, follow(&args, &mut said)).await {
        Ok(ended) => ended,
        Err(_) => {
            show(&args, "late", &format!("The time is up: {}", said.last()))?;
            Ok(Exit::Late)
        }
    }
}

/// What was said last, so that it is said once.
#[derive(Debug, Default)]
struct Said {
    progress: String,
    /// The daemon does not renew its Lease.
    silence: Option<Silence>,
    /// Whether it does cannot be found out.
    unknown: bool,
}

impl Said {
    fn progress(&mut self, text: String) {
        if self.progress != text {
            remark(&text);
            self.progress = text;
        }
    }

    /// For whoever waits no longer.
    fn last(&self) -> String {
        let silence = self.silence.as_ref().map(|silence| format!("; not up to date: {}", silence.message));
        format!("{}{}", self.progress, silence.unwrap_or_default())
    }

    /// Whether this is not what was said last.
    fn is_new(&self, found: Option<&Silence>) -> bool {
        self.silence.as_ref().map(|it| &it.message) != found.map(|it| &it.message)
    }

    /// What is to be said, now that this is found.
    fn news(&mut self, found: Option<Silence>, now: Timestamp) -> Vec<String> {
        let is_new = self.is_new(found.as_ref());
        let before = std::mem::replace(&mut self.silence, found);
        match (&self.silence, before) {
            (Some(silence), _) if is_new => text::of_silence(silence, now).iter().map(line).collect(),
            (None, Some(before)) => vec![format!("{} is renewed again", before.lease)],
            (Some(_) | None, _) => Vec::new(),
        }
    }

    /// Looks whether the daemon renews its Lease.
    async fn look(&mut self, clients: &Clients, source: &Source) {
        let holder = silence::of_daemon(&source.namespace, &source.name);
        let looked = silence::look(&clients.call, &[holder]).await;
        let mut found = match looked {
            Ok(found) => found,
            Err(error) => return self.could_not_look(&error),
        };
        let mut unknown = Vec::new();
        if self.is_new(found.first()) {
            silence::explain(clients, &source.namespace, &source.name, &mut found, &mut unknown).await;
        }
        self.unknown = false;
        let news = self.news(found.pop(), Timestamp::now());
        news.iter().chain(&unknown).for_each(|text| remark(text));
    }

    /// An API server that does not answer is told of by the watch.
    fn could_not_look(&mut self, error: &ApiError) {
        if error.is_answer() && !std::mem::replace(&mut self.unknown, true) {
            remark(&format!("Whether what is shown is up to date is not known: {error}"));
        }
    }
}

fn line(told: &Trouble) -> String {
    let step = if told.next_step.is_empty() { String::new() } else { format!(" → {}", told.next_step) };
    clean(&format!("{}: {}{step}", told.object, told.message)).into_owned()
}

async fn follow(args: &WaitArgs, said: &mut Said) -> anyhow::Result<Exit> {
    let clients = Clients::connect(args.request.kubeconfig.as_deref()).await?;
    let named = Selector::Name(args.request.source.name.clone());
    let selection = Selection::new(Kind::of::<ClusterVersion>(false), "", named);
    let mut events = events::<ClusterVersion>(clients.for_watch()?, selection).boxed();
    said.look(&clients, &args.request.source).await;
    // Whether a list that is being read contains it: it may have been deleted while there was no watch.
    let mut listed = false;
    let mut look_at = Instant::now() + LOOK;
    loop {
        let event = tokio::select! {
            event = events.next() => event.context("the watch has ended")?,
            () = tokio::time::sleep_until(look_at) => {
                said.look(&clients, &args.request.source).await;
                look_at = Instant::now() + LOOK;
                continue;
            }
        };
        let object = match event {
            Ok(Event::InitApply(object)) => {
                listed = true;
                object
            }
            Ok(Event::Apply(object)) => object,
            Ok(Event::Init) => {
                listed = false;
                continue;
            }
            Ok(Event::InitDone) if listed => continue,
            Ok(Event::InitDone) => bail!("the ClusterVersion was deleted"),
            Ok(Event::Delete(_)) => bail!("the ClusterVersion was deleted"),
            // The API server may be restarted in the course of the update.
            Err(error) => {
                said.progress(format!("trying again: {}", reach::explain(&clients.server(), error)));
                continue;
            }
        };
        match arrival(&object, args.to.as_deref()) {
            Arrival::There(text) => {
                show(args, "completed", &text)?;
                return Ok(Exit::Success);
            }
            Arrival::Refused(text) => {
                show(args, "refused", &text)?;
                return Ok(Exit::Refused);
            }
            Arrival::Waiting(text) => said.progress(text),
        }
    }
}

fn show(args: &WaitArgs, result: &str, message: &str) -> anyhow::Result<()> {
    match args.request.output {
        Output::Text => print(&format!("{message}\n")),
        Output::Json => print(&format!("{:#}\n", json!({"schema": 1, "result": result, "message": message}))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_of_the_daemon_is_said_once_and_when_it_is_over() {
        let now = Timestamp::from_second(1_800_000_066).unwrap();
        let silence = |since: i64, causes: Vec<Trouble>| Silence {
            lease: "lease ns/version".to_owned(),
            since: Timestamp::from_second(since).ok(),
            renewed: false,
            message: format!("the daemon has not renewed lease ns/version since {since}"),
            next_step: "read its log".to_owned(),
            causes,
        };
        let first = silence(1_800_000_000, Vec::new());
        let mut said = Said { progress: "Working towards 1.0.1".to_owned(), ..Said::default() };
        assert_eq!(said.news(None, now), Vec::<String>::new());
        let words = "the daemon has not renewed lease ns/version since 1800000000";
        assert_eq!(
            said.news(Some(first.clone()), now),
            [format!("Not up to date (1m 6s ago): {words} → read its log")]
        );
        assert_eq!(said.news(Some(first), now), Vec::<String>::new());
        assert_eq!(said.last(), format!("Working towards 1.0.1; not up to date: {words}"));
        assert_eq!(said.news(None, now), ["lease ns/version is renewed again"]);
        assert_eq!(said.last(), "Working towards 1.0.1");
        let cause =
            Trouble { object: "pod ns/a".to_owned(), message: "it\ncrashes".to_owned(), next_step: "look".to_owned() };
        let again = said.news(Some(silence(1_800_000_006, vec![cause])), now);
        assert_eq!(again.len(), 2, "{again:?}");
        assert_eq!(again[1], "Why, as far as is known: pod ns/a: it crashes → look");
    }

    #[test]
    fn times_are_read() {
        assert_eq!(time("90m"), Ok(Duration::from_secs(5400)));
        assert_eq!(time("2h"), Ok(Duration::from_secs(7200)));
        for text in ["", "2", "soon", "-1h"] {
            assert!(time(text).is_err(), "{text}");
        }
    }
}
