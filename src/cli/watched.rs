//! Objects that a command follows by watches, to show them whenever they change.

use super::reach;
use crate::cluster::ApiError;
use crate::cluster::watcher::Event;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::Instant;

/// Events that arrive within this time are shown together.
pub(crate) const DEBOUNCE: Duration = Duration::from_millis(200);
/// A terminal is redrawn this often, because it shows durations; nothing is read from the cluster for it.
pub(crate) const TICK: Duration = Duration::from_secs(1);

/// What a watch tells.
pub(crate) type Told<T> = Result<Event<T>, ApiError>;

/// At this time; never without one.
pub(crate) async fn at(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}

/// The objects of one watch.
#[derive(Debug)]
pub(crate) struct Watched<T> {
    /// By namespace and name.
    pub objects: BTreeMap<(String, String), T>,
    /// The list being read, which replaces `objects` when it is complete.
    listing: BTreeMap<(String, String), T>,
    pub error: Option<String>,
    /// It has listed its objects or failed.
    pub reported: bool,
}

impl<T> Default for Watched<T> {
    fn default() -> Self {
        Watched { objects: BTreeMap::new(), listing: BTreeMap::new(), error: None, reported: false }
    }
}

impl<T: kube::Resource> Watched<T> {
    /// `server`: the URL of the API server, for errors.
    pub(crate) fn on_event(&mut self, event: Told<T>, server: &str) {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let name = |object: &T| (text(&object.meta().namespace), text(&object.meta().name));
        match event {
            Err(error) => {
                // Before the installation the kinds do not exist, which is not an error, nor do they after the end of one.
                if error.is_not_found() {
                    self.objects.clear();
                    self.error = None;
                } else {
                    self.error = Some(reach::explain(server, error).to_string());
                }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::error::Cause;
    use k8s_openapi::api::core::v1::ConfigMap;

    fn answer(code: u16, reason: &str) -> ApiError {
        let cause = Cause::Server { code, reason: reason.into(), message: "as the server says".into() };
        ApiError { attempt: "watch configmaps".into(), cause }
    }

    #[test]
    fn objects_of_a_kind_that_is_gone_are_shown_no_more() {
        let mut watched = Watched::<ConfigMap>::default();
        let mut map = ConfigMap::default();
        map.metadata.name = Some("a".to_owned());
        watched.on_event(Ok(Event::Apply(map.clone())), "https://api");
        watched.on_event(Err(answer(500, "InternalError")), "https://api");
        assert!(watched.error.is_some() && watched.objects.len() == 1, "what was known stays, with the error");
        watched.on_event(Err(answer(404, "NotFound")), "https://api");
        assert_eq!((watched.objects.len(), watched.error, watched.reported), (0, None, true));
    }
}
