//! The objects that say where operators stand: read once, or kept up to date by watches.

use super::kinds::{Lists, What};
use super::objects::Objects;
use crate::cli::watched::{Told, Watched};
use crate::cluster::watcher::{Selection, Selector, events};
use crate::cluster::{ApiError, Clients};
use crate::olm::cli::objects::typed;
use futures::future::join_all;
use futures::stream::{self, BoxStream, SelectAll, Stream, StreamExt, select_all};
use kube::api::DynamicObject;
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;

/// Objects in one page of a list: a ClusterServiceVersion may have a megabyte.
const PAGE: u32 = 100;

/// Pause before a kind is asked for again that may not be read.
const REFUSED: Duration = Duration::from_secs(300);

/// An event of the watch of a kind.
pub(crate) type Event = (What, Box<Told<DynamicObject>>);
pub(crate) type Events = SelectAll<BoxStream<'static, Event>>;

/// Reads these kinds of a namespace, or of all. What the server does not have is missing.
pub(crate) async fn read(
    clients: &Clients,
    namespace: &str,
    kinds: &[What],
) -> BTreeMap<What, Result<Vec<Value>, ApiError>> {
    let each = kinds.iter().map(|what| async move { (*what, list(clients, namespace, *what).await) });
    let read = join_all(each).await;
    read.into_iter().filter(|(_, list)| !matches!(list, Err(error) if error.is_not_found())).collect()
}

async fn list(clients: &Clients, namespace: &str, what: What) -> Result<Vec<Value>, ApiError> {
    let objects = crate::cluster::Objects::reader(clients.call.clone());
    objects.selected(&what.kind(), (namespace, &what.labels()), PAGE, |object| Some(kept(what, object))).await
}

/// One that does not fit its type stays as it is, so that it can be told why.
fn kept(what: What, mut object: Value) -> Value {
    what.kept(&object).unwrap_or_else(|_| {
        if let Some(fields) = object.as_object_mut() {
            fields.insert("kind".to_owned(), what.resource().kind.into());
        }
        object
    })
}

/// Watches of these kinds. A server that does not have them is asked again after a while.
pub(crate) fn watches(clients: &Clients, namespace: &str, kinds: &[What]) -> anyhow::Result<Events> {
    let mut watches = Vec::new();
    for what in kinds.iter().copied() {
        let labels = what.labels();
        let selector = if labels.is_empty() { Selector::All } else { Selector::Labels(labels) };
        let selection = Selection::new(what.kind(), namespace, selector).optional();
        let told = events::<DynamicObject>(clients.for_watch()?, selection);
        watches.push(patient(told.boxed()).map(move |event| (what, Box::new(event))).boxed());
    }
    Ok(select_all(watches))
}

/// Whoever may not read a kind asks for it again only after a while: most people never may.
fn patient(told: BoxStream<'static, Told<DynamicObject>>) -> impl Stream<Item = Told<DynamicObject>> + Send {
    let next = |(mut told, is_refused): (BoxStream<'static, Told<DynamicObject>>, bool)| async move {
        if is_refused {
            tokio::time::sleep(REFUSED).await;
        }
        let event = told.next().await?;
        let is_refused = event.as_ref().is_err_and(ApiError::is_forbidden);
        Some((event, (told, is_refused)))
    };
    stream::unfold((told, false), next)
}

/// What watches have told.
#[derive(Debug)]
pub(crate) struct Known {
    watched: BTreeMap<What, Watched<DynamicObject>>,
}

impl Known {
    pub(crate) fn new(kinds: &[What]) -> Known {
        Known { watched: kinds.iter().map(|what| (*what, Watched::default())).collect() }
    }

    /// `server`: the URL of the API server, for errors.
    pub(crate) fn on_event(&mut self, (what, event): Event, server: &str) {
        if let Some(watched) = self.watched.get_mut(&what) {
            watched.on_event(event.map(|event| event.modify(|object| shrink(what, object))), server);
        }
    }

    /// Each watch has reported.
    pub(crate) fn is_complete(&self) -> bool {
        self.watched.values().all(|watched| watched.reported)
    }

    /// Why a kind cannot be read, of which nothing is known.
    pub(crate) fn failure(&self, what: What) -> Option<&str> {
        let watched = self.watched.get(&what)?;
        watched.error.as_deref().filter(|_| watched.objects.is_empty())
    }

    /// Those that were known before an error stay, and the error is told.
    pub(crate) fn objects(&self) -> Objects {
        let list = |what: &What, watched: &Watched<DynamicObject>| match self.failure(*what) {
            Some(error) => Err(error.to_owned()),
            None => Ok(watched.objects.values().map(|object| typed(object.clone(), &what.resource())).collect()),
        };
        let lists: Lists = self.watched.iter().map(|(what, watched)| (*what, list(what, watched))).collect();
        let mut objects = Objects::of(lists);
        let stale = self.watched.values().filter(|it| !it.objects.is_empty()).filter_map(|it| it.error.as_ref());
        objects.unread.extend(stale.map(|error| format!("Not up to date, retrying: {error}")));
        objects
    }
}

/// The same as [`kept`] for objects as watches tell them.
fn shrink(what: What, object: &mut DynamicObject) {
    let kept = what.kept(&typed(object.clone(), &what.resource())).ok();
    if let Some(kept) = kept.and_then(|kept| serde_json::from_value(kept).ok()) {
        *object = kept;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::error::Cause;
    use crate::cluster::watcher::Event as Change;
    use serde_json::json;
    use tokio::time::Instant;

    fn answer(code: u16, reason: &str) -> ApiError {
        let cause = Cause::Server { code, reason: reason.into(), message: "as the server says".into() };
        ApiError { attempt: "watch subscriptions".into(), cause }
    }

    #[tokio::test(start_paused = true)]
    async fn kind_that_may_not_be_read_is_asked_for_again_after_a_while() {
        let told =
            [Ok(Change::Init), Err(answer(403, "Forbidden")), Err(answer(500, "InternalError")), Ok(Change::Init)];
        let mut told = patient(stream::iter(told).boxed()).boxed();
        let begun = Instant::now();
        for (is_error, waited) in [(false, 0), (true, 0), (true, 300), (false, 300)] {
            assert_eq!(told.next().await.unwrap().is_err(), is_error);
            assert_eq!(begun.elapsed().as_secs(), waited);
        }
    }

    #[test]
    fn objects_are_known_without_what_is_not_shown_and_stay_when_a_watch_fails() {
        let (mut known, server) = (Known::new(&What::FEW), "https://api");
        let object = |spec: Value| -> DynamicObject {
            serde_json::from_value(json!({"metadata": {"namespace": "n", "name": "a.v1"}, "spec": spec})).unwrap()
        };
        let told =
            |known: &mut Known, what: What, told: Told<DynamicObject>| known.on_event((what, Box::new(told)), server);
        told(&mut known, What::Subscriptions, Err(answer(404, "NotFound")));
        assert!(!known.is_complete());
        told(&mut known, What::Versions, Err(answer(403, "Forbidden")));
        assert!(known.is_complete() && known.failure(What::Subscriptions).is_none());
        assert!(known.failure(What::Versions).unwrap().contains("as the server says"));
        told(&mut known, What::Versions, Ok(Change::Apply(object(json!({"version": "1.0.0", "description": "long"})))));
        let objects = known.objects();
        assert_eq!((objects.versions.len(), objects.unread.len(), objects.odd.len()), (1, 0, 0));
        assert_eq!(
            (objects.versions[0].spec.version.as_str(), objects.versions[0].spec.description.as_str()),
            ("1.0.0", "")
        );
        told(&mut known, What::Versions, Err(answer(500, "InternalError")));
        let objects = known.objects();
        assert!(known.failure(What::Versions).is_none() && objects.versions.len() == 1);
        assert!(objects.unread[0].starts_with("Not up to date, retrying: "), "{:?}", objects.unread);
        // One that does not fit its type is told of, and is none of those.
        told(&mut known, What::Versions, Ok(Change::Apply(object(json!({"installModes": 7})))));
        let objects = known.objects();
        assert_eq!((objects.versions.len(), objects.odd.len()), (0, 1));
        assert!(
            objects.odd[0].starts_with("ClusterServiceVersion n/a.v1 is left out: spec.installModes"),
            "{:?}",
            objects.odd
        );
    }
}
