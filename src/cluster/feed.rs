//! A feed reads one kind into the index and keeps it current by one watch with initial events: the server first sends all
//! objects that exist, then what changes. Only objects that the index tracks are decoded, and only those that differ from
//! the desired content are kept.
//!
//! Not every server can do that, and none can always:
//!
//! - Without initial events (servers before 1.32, some extension servers) the kind is listed in pages, then watched.
//! - A kind that can be neither listed nor watched (not allowed, an object that cannot be decoded, a conversion webhook that
//!   does not run) is read object by object, so that the rest of a release does not wait for it; the feed goes on trying.
//! - A kind that is not served any more is waited for until its definition changes or discovery names it again, and asked for now and
//!   then, less and less often.
//!
//! Every half hour, and when the server does not know any more what happened since the watch was cut off, everything is read
//! again, compared with what is known, and the differences are told as changes.
//!
//! One kind may be followed as a whole: then every object of it is told of as well, whether the index tracks it or not.

mod course;
mod session;

use super::client::Clients;
use super::error::ApiError;
use super::index::Index;
use super::kinds::{Kind, Kinds};
use super::objects::Objects;
use crate::gate;
use crate::object::manifest::ObjectId;
use course::{Course, End, Next};
use serde_json::Value;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// A kind without a watch for this long is told of.
const UNWATCHED: Duration = Duration::from_secs(60);

/// Fingerprint of the desired content of an object that was read, if it has that.
type Compare = dyn Fn(&ObjectId, &Value) -> Option<u64> + Send + Sync;

/// What happens to the objects of a kind that is followed as a whole, in the order of the server.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ObjectEvent<'a> {
    /// Everything is read: what is not told of from here to `Complete` does not exist.
    Begin,
    /// It exists, or has changed.
    Applied(&'a Value),
    /// By name.
    Deleted(&'a str),
    Complete,
}

/// A kind that is followed as a whole.
#[derive(Clone)]
pub(crate) struct WholeKind {
    pub group: &'static str,
    pub kind: &'static str,
    pub tell: Arc<dyn Fn(ObjectEvent<'_>) + Send + Sync>,
}

impl WholeKind {
    pub(crate) fn is(&self, kind: &Kind) -> bool {
        (self.group, self.kind) == (kind.group.as_str(), kind.kind.as_str())
    }
}

/// What a feed asks of its user.
#[derive(Clone)]
pub(crate) struct Callbacks {
    pub compare: Arc<Compare>,
    /// The time is over after which everything is read again, whatever the watch has said.
    pub before_relist: Arc<dyn Fn(&Kind) + Send + Sync>,
    pub whole: Option<WholeKind>,
}

/// What a feed tells of itself.
#[derive(Clone, Debug, Default)]
pub(crate) struct FeedState {
    /// Everything that exists is in the index, or every object was read by name.
    pub ready: bool,
    /// Why there is no watch now.
    pub error: Option<ApiError>,
    /// There has been none for more than a minute.
    pub unwatched: bool,
}

/// The feed of one kind. Runs for ever.
pub(crate) struct Feed {
    pub kind: Kind,
    pub objects: Objects,
    pub index: Arc<Index>,
    /// Learns which versions are served.
    pub kinds: Arc<Kinds>,
    pub callbacks: Callbacks,
    /// Lists everything again this often.
    pub relist: Duration,
    pub state: watch::Sender<FeedState>,
    /// Told when `unwatched` of the state changes.
    pub hindrances: watch::Sender<()>,
}

impl std::fmt::Debug for Feed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Feed").field("kind", &self.kind).finish_non_exhaustive()
    }
}

impl Feed {
    pub(crate) async fn run(self, clients: &Clients) {
        let client = match clients.for_watch() {
            Ok(client) => client,
            Err(error) => return tracing::error!(kind = %self.kind.kind, %error, "cannot watch"),
        };
        let mut course = Course::new(self.relist);
        let mut unwatched_since = None;
        let mut definition = None;
        loop {
            let begun = Instant::now();
            let ended = self.session(&client, &course).await;
            if ended.watched.is_some() {
                unwatched_since = None;
            }
            if matches!(ended.end, End::Relist) {
                (self.callbacks.before_relist)(&self.kind);
            }
            if let Some(error) = ended.end.error() {
                if error.is_not_found() && definition.is_none() {
                    definition = Some(self.definition());
                }
                tracing::debug!(kind = %self.kind.kind, %error, "watch failed; trying again");
                self.tell_failure(error, is_unwatched(&mut unwatched_since, error, Instant::now()));
            }
            match course.next(ended, begun.elapsed()) {
                Next::After(pause) => tokio::time::sleep(pause).await,
                Next::Ready(pause) => {
                    if !clients.wait_until_ready().await {
                        tokio::time::sleep(pause).await;
                    }
                }
                Next::Served(pause) => {
                    if self.wait_until_served(definition.take(), pause).await {
                        course.changed();
                    }
                }
            }
        }
    }

    fn tell_failure(&self, error: &ApiError, unwatched: bool) {
        self.tell(Some(error), unwatched && error.is_answer());
    }

    fn tell_watched(&self) {
        self.kinds.add([self.kind.clone()]);
        self.tell(None, false);
    }

    fn tell(&self, error: Option<&ApiError>, unwatched: bool) {
        let before = self.state.borrow().unwatched;
        self.state.send_if_modified(|state| {
            let changed = unwatched != state.unwatched || state.error.as_ref() != error;
            state.error = error.cloned();
            state.unwatched = unwatched;
            changed
        });
        if before != unwatched {
            self.hindrances.send_replace(());
        }
    }

    fn tell_ready(&self) {
        self.state.send_if_modified(|state| !std::mem::replace(&mut state.ready, true));
    }

    /// Changes whenever the definition of this kind does.
    fn definition(&self) -> watch::Receiver<u64> {
        let name = format!("{}.{}", self.kind.plural, self.kind.group);
        self.index.subscribe(&ObjectId::new("apiextensions.k8s.io", "CustomResourceDefinition", "", &name))
    }

    /// The kind is not served in this version. If it is in no other, whose feed knows the same objects, none of it exists. Waits
    /// until its definition has changed since it was missed first, or discovery names it: then something has changed. A kind of an
    /// extension server has no definition, so not for longer than this.
    async fn wait_until_served(&self, definition: Option<watch::Receiver<u64>>, pause: Duration) -> bool {
        let elsewhere = self.kinds.forget(&self.kind);
        if !elsewhere {
            self.tell_whole(ObjectEvent::Begin);
            self.tell_whole(ObjectEvent::Complete);
            self.on_missing(&self.tracked(), "");
        }
        self.tell_ready();
        let Kind { kind, version, .. } = &self.kind;
        tracing::info!(%kind, %version, elsewhere, "not served any more; waiting for its definition");
        let mut definition = definition.unwrap_or_else(|| self.definition());
        let api_version = self.kind.api_version();
        tokio::select! {
            Ok(()) = definition.changed() => true,
            _served = self.kinds.served(&api_version, kind) => true,
            () = tokio::time::sleep(pause) => false,
        }
    }

    fn tracked(&self) -> HashSet<ObjectId> {
        self.index.tracked(&self.kind.group, &self.kind.kind)
    }

    /// If this kind is followed as a whole.
    fn whole(&self) -> Option<&WholeKind> {
        self.callbacks.whole.as_ref().filter(|whole| whole.is(&self.kind))
    }

    fn is_whole(&self) -> bool {
        self.whole().is_some()
    }

    /// Does nothing for all other kinds.
    fn tell_whole(&self, event: ObjectEvent<'_>) {
        if let Some(whole) = self.whole() {
            (whole.tell)(event);
        }
    }

    /// A tracked object, read as a whole.
    fn on_list(&self, id: &ObjectId, object: Value) {
        let (as_desired, view) = ((self.callbacks.compare)(id, &object), gate::observe(id, &object));
        self.index.on_list(id, object, as_desired, view);
    }

    fn on_missing(&self, missing: &HashSet<ObjectId>, version: &str) {
        for id in missing {
            self.index.on_missing_from_list(id, version);
        }
    }
}

/// Whether there has been no watch for so long that it is told of, after an attempt that failed now. `since`: the first of the
/// attempts that failed, in a row. Nothing is missed of a kind that is not served: what needs it says so.
fn is_unwatched(since: &mut Option<Instant>, error: &ApiError, now: Instant) -> bool {
    if error.is_not_found() {
        *since = None;
        return false;
    }
    now.duration_since(*since.get_or_insert(now)) > UNWATCHED
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::error::Cause;

    #[test]
    fn kind_that_is_served_is_told_of_after_a_minute_without_a_watch() {
        let begin = Instant::now();
        let mut since = None;
        let mut failed = |code, second| {
            let cause = Cause::Server { code, reason: String::new(), message: String::new() };
            let error = ApiError { attempt: "watch".into(), cause };
            is_unwatched(&mut since, &error, begin + Duration::from_secs(second))
        };
        assert_eq!([(503, 0), (403, 60), (503, 61)].map(|(code, second)| failed(code, second)), [false, false, true]);
        let gone = [(404, 70), (404, 5000), (503, 5001), (503, 5061), (503, 5062)];
        assert_eq!(
            gone.map(|(code, second)| failed(code, second)),
            [false, false, false, false, true],
            "a server that is restarted says something else for a moment"
        );
    }
}
