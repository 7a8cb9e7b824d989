//! `cvo olm status --watch`: keeps the objects up to date with watches, and shows what they say whenever that changes.

use super::objects::Objects;
use super::text::{changes, text};
use super::view::View;
use super::{StatusArgs, Wanted};
use crate::cli::exit::Exit;
use crate::cli::layout::{Page, frame, page, terminal};
use crate::cli::output::{line, print, reader_is_gone};
use crate::cli::watched::{DEBOUNCE, TICK, Watched, at};
use crate::cluster::Clients;
use crate::cluster::watcher::{Selection, Selector, events};
use crate::olm::cli::cluster_output::ClusterOutput;
use crate::olm::cli::objects::typed;
use futures::stream::{StreamExt, select_all};
use jiff::Timestamp;
use kube::api::DynamicObject;
use tokio::time::Instant;

/// The objects of one kind.
struct Followed {
    wanted: Wanted,
    watched: Watched<DynamicObject>,
}

pub(super) async fn run(clients: &Clients, args: &StatusArgs) -> anyhow::Result<Exit> {
    let namespace = args.namespace.as_deref().unwrap_or_default();
    let mut known = Wanted::all().map(|wanted| Followed { wanted, watched: Watched::default() });
    let mut watches = Vec::new();
    for (number, Followed { wanted, .. }) in known.iter().enumerate() {
        let labels = wanted.labels.clone();
        let selector = if labels.is_empty() { Selector::All } else { Selector::Labels(labels) };
        let selection = Selection::new(wanted.kind.clone(), namespace, selector);
        let told = events::<DynamicObject>(clients.for_watch()?, selection);
        watches.push(told.map(move |event| (number, event)).boxed());
    }
    let (mut told, server) = (select_all(watches), clients.server());
    let mut screen = Screen { output: args.output, view: None };
    let mut due = None;
    loop {
        let complete = known.iter().all(|it| it.watched.reported);
        tokio::select! {
            interrupted = tokio::signal::ctrl_c() => {
                interrupted?;
                return Ok(Exit::Success);
            }
            Some((number, event)) = told.next() => {
                if let Some(followed) = known.get_mut(number) {
                    followed.watched.on_event(event, &server);
                }
                due = due.or_else(|| Some(Instant::now() + DEBOUNCE));
            }
            // Nothing is told until each watch has reported, so that the first look is complete.
            () = at(due), if due.is_some() && complete => {
                due = None;
                screen.show(View::of(&objects(&known), args.subscription.as_deref()), Timestamp::now())?;
                if reader_is_gone() {
                    return Ok(Exit::Success);
                }
            }
            () = tokio::time::sleep(TICK), if screen.redraws() => screen.draw()?,
        }
    }
}

/// Those that were known before an error stay, and the error is told.
fn objects(known: &[Followed; 5]) -> Objects {
    let lists = known.each_ref().map(|Followed { wanted, watched }| match &watched.error {
        Some(error) if watched.objects.is_empty() => Err(error.clone()),
        _ => Ok(watched.objects.values().map(|object| typed(object.clone(), &wanted.resource)).collect()),
    });
    let mut objects = Objects::of(lists);
    let errors = known.iter().filter(|it| !it.watched.objects.is_empty()).filter_map(|it| it.watched.error.as_ref());
    objects.unread.extend(errors.map(|error| format!("Not up to date, retrying: {error}")));
    objects
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
