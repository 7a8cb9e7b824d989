//! Events. A separate task publishes them; an event that cannot be published is dropped, so that nothing waits for it.

use crate::cluster::task;
use crate::error::shortened;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Most events that wait to be published; others are dropped.
const QUEUE: usize = 32;
/// A server that does not answer delays the events that follow by at most this.
const PUBLISH: Duration = Duration::from_secs(10);
/// The API's limit on a note, in bytes.
pub(crate) const MAX_NOTE: usize = 1024;

/// An event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Notice {
    pub warning: bool,
    pub reason: &'static str,
    pub note: String,
}

impl Notice {
    pub(crate) fn new(warning: bool, reason: &'static str, note: &str) -> Notice {
        Notice { warning, reason, note: shortened(&note.replace('\n', " // "), MAX_NOTE).into_owned() }
    }
}

/// Publishes notices.
#[derive(Clone, Debug)]
pub(crate) struct Events {
    queue: mpsc::Sender<(Notice, ObjectReference)>,
    namespace: String,
}

impl Events {
    /// Starts the task that publishes, as `reporter`. It ends when the last clone of these is dropped and nothing is left to
    /// be published; a panic in it cancels `stop`.
    pub(crate) fn start(
        client: Client,
        reporter: &str,
        namespace: &str,
        identity: &str,
        stop: &CancellationToken,
    ) -> (Self, JoinHandle<()>) {
        let (queue, mut waiting) = mpsc::channel::<(Notice, ObjectReference)>(QUEUE);
        let reporter = Reporter { controller: reporter.to_owned(), instance: Some(identity.to_owned()) };
        let recorder = Recorder::new(client, reporter);
        let publishing = async move {
            while let Some((notice, regarding)) = waiting.recv().await {
                let event = Event {
                    type_: if notice.warning { EventType::Warning } else { EventType::Normal },
                    reason: notice.reason.to_owned(),
                    note: Some(notice.note),
                    action: "Update".to_owned(),
                    secondary: None,
                };
                match tokio::time::timeout(PUBLISH, recorder.publish(&event, &regarding)).await {
                    Ok(Ok(())) => {}
                    Ok(Err(error)) => tracing::debug!(%error, "cannot publish an event"),
                    Err(error) => tracing::debug!(%error, "cannot publish an event"),
                }
            }
        };
        let publishing = tokio::spawn(task::guarded("events", stop, publishing));
        (Events { queue, namespace: namespace.to_owned() }, publishing)
    }

    /// Publishes a notice about an object without a namespace. The event is in the namespace of this process.
    pub(crate) fn publish_of(&self, notice: Notice, api_version: &str, kind: &str, name: &str, uid: Option<String>) {
        let regarding = ObjectReference {
            api_version: Some(api_version.to_owned()),
            kind: Some(kind.to_owned()),
            name: Some(name.to_owned()),
            namespace: Some(self.namespace.clone()),
            uid,
            ..ObjectReference::default()
        };
        self.publish_at(notice, regarding);
    }

    /// Publishes a notice about any object. The event is in the namespace of the object.
    pub(crate) fn publish_at(&self, notice: Notice, regarding: ObjectReference) {
        if self.queue.try_send((notice, regarding)).is_err() {
            tracing::debug!("event dropped: too many are waiting");
        }
    }
}
