//! `cvo wait`: until the cluster has the release that was asked for.

use super::exit::Exit;
use super::output::{print, remark};
use super::reach;
use super::request::{Output, RequestArgs};
use crate::api::ClusterVersion;
use crate::cluster::{Clients, WatchBackoff};
use crate::updates::arrival::{Arrival, arrival};
use anyhow::{Context, bail};
use clap::Args;
use futures::StreamExt;
use jiff::SignedDuration;
use kube::api::Api;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use serde_json::json;
use std::time::Duration;

/// Wait until the cluster has the release that was asked for
///
/// Follows the ClusterVersion and writes each change of what is done to standard error.
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

/// A value parser for times.
fn time(text: &str) -> Result<Duration, String> {
    let time: SignedDuration = text.parse().map_err(|_| "write a time such as 90m or 2h".to_owned())?;
    Duration::try_from(time).map_err(|_| "a time cannot be negative".to_owned())
}

pub(crate) async fn run(args: WaitArgs) -> anyhow::Result<Exit> {
    // An error at once if there is nothing to wait for.
    args.request.read().await?;
    let mut said = String::new();
    match tokio::time::timeout(args.timeout, follow(&args, &mut said)).await {
        Ok(ended) => ended,
        Err(_) => {
            show(&args, "late", &format!("The time is up: {said}"))?;
            Ok(Exit::Late)
        }
    }
}

async fn follow(args: &WaitArgs, said: &mut String) -> anyhow::Result<Exit> {
    let clients = Clients::connect(args.request.kubeconfig.as_deref()).await?;
    let api: Api<ClusterVersion> = Api::all(clients.for_watch()?);
    let named = watcher::Config::default().fields(&format!("metadata.name={}", args.request.source.name));
    let mut events = watcher(api, named).backoff(WatchBackoff::default()).boxed();
    let mut remark_once = |text: String| {
        if *said != text {
            remark(&text);
            *said = text;
        }
    };
    // Whether a list that is being read contains it: it may have been deleted while there was no watch.
    let mut listed = false;
    loop {
        let event = events.next().await.context("the watch has ended")?;
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
                remark_once(format!("trying again: {}", reach::explain_watch(&clients.server(), &error)));
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
            Arrival::Waiting(text) => remark_once(text),
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
    fn times_are_read() {
        assert_eq!(time("90m"), Ok(Duration::from_secs(5400)));
        assert_eq!(time("2h"), Ok(Duration::from_secs(7200)));
        for text in ["", "2", "soon", "-1h"] {
            assert!(time(text).is_err(), "{text}");
        }
    }
}
