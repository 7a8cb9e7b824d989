//! `cvo olm status --watch`: shows what the objects say whenever that changes.

use super::StatusArgs;
use super::kinds::What;
use super::known::{Known, watches};
use super::text::{changes, text};
use super::view::View;
use crate::cli::exit::Exit;
use crate::cli::layout::{Page, frame, page, terminal};
use crate::cli::output::{line, print, reader_is_gone};
use crate::cli::watched::{DEBOUNCE, TICK, at};
use crate::cluster::Clients;
use crate::olm::cli::cluster_output::ClusterOutput;
use futures::stream::StreamExt;
use jiff::Timestamp;
use tokio::time::Instant;

pub(super) async fn run(clients: &Clients, args: &StatusArgs) -> anyhow::Result<Exit> {
    let namespace = args.namespace.as_deref().unwrap_or_default();
    let mut known = Known::new(&What::OF_OPERATORS);
    let (mut told, server) = (watches(clients, namespace, &What::OF_OPERATORS)?, clients.server());
    let mut screen = Screen { output: args.output, view: None };
    let mut due = None;
    loop {
        let complete = known.is_complete();
        tokio::select! {
            interrupted = tokio::signal::ctrl_c() => {
                interrupted?;
                return Ok(Exit::Success);
            }
            Some(event) = told.next() => {
                known.on_event(event, &server);
                due = due.or_else(|| Some(Instant::now() + DEBOUNCE));
            }
            // Nothing is told until each watch has reported, so that the first look is complete.
            () = at(due), if due.is_some() && complete => {
                due = None;
                screen.show(View::of(&known.objects(), args.subscription.as_deref()), Timestamp::now())?;
                if reader_is_gone() {
                    return Ok(Exit::Success);
                }
            }
            () = tokio::time::sleep(TICK), if screen.redraws() => screen.draw()?,
        }
    }
}

/// Writes views to standard output.
struct Screen {
    output: ClusterOutput,
    view: Option<View>,
}

impl Screen {
    /// Whether the output changes as time passes.
    fn redraws(&self) -> bool {
        self.view.is_some() && self.output == ClusterOutput::Text && terminal().is_some()
    }

    fn show(&mut self, view: View, now: Timestamp) -> anyhow::Result<()> {
        if self.view.as_ref() == Some(&view) {
            return Ok(());
        }
        let before = self.view.replace(view);
        let Some(view) = &self.view else { return Ok(()) };
        match self.output {
            ClusterOutput::Text if terminal().is_some() => self.draw(),
            ClusterOutput::Text => changes(before.as_ref(), view, now).iter().try_for_each(|text| line(text)),
            ClusterOutput::Json => line(&serde_json::to_string(view)?),
            ClusterOutput::Yaml => print(&format!("---\n{}", serde_yaml::to_string(view)?)),
        }
    }

    fn draw(&self) -> anyhow::Result<()> {
        let (Some(view), Some((width, height))) = (&self.view, terminal()) else { return Ok(()) };
        print(&frame(&text(view, &Page { width, ..page() }), height, "cvo olm status"))
    }
}
