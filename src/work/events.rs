//! Events on the ClusterVersion: the steps of loading a release, why one failed, and that the daemon was switched off. A
//! separate task publishes them; an event that cannot be published is dropped, so that nothing waits for it.

use crate::cluster::objects::FIELD_MANAGER;
use crate::error::shortened;
use crate::payload::ObjectId;
use crate::status::facts::{LoadStatus, LoadStep};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Most events that wait to be published; others are dropped.
const QUEUE: usize = 32;
/// The API's limit on a note, in bytes.
const MAX_NOTE: usize = 1024;

/// An event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Notice {
    warning: bool,
    reason: &'static str,
    note: String,
}

/// The notice of a step. The reasons are those of the upstream operator.
pub(crate) fn notice(status: &LoadStatus) -> Notice {
    let (warning, reason) = match (&status.outcome, status.step) {
        (None, step) => (false, step.reason()),
        (Some(Ok(())), _) => (false, LoadStep::PayloadLoaded.reason()),
        (Some(Err(_)), LoadStep::RetrievePayload) => (true, "RetrievePayloadFailed"),
        (Some(Err(_)), LoadStep::LoadPayload | LoadStep::PayloadLoaded) => (true, "LoadPayloadFailed"),
        (Some(Err(_)), LoadStep::VerifyPayloadVersion) => (true, "VerifyPayloadVersionFailed"),
        (Some(Err(_)), LoadStep::PreconditionChecks) => (true, "PreconditionBlock"),
    };
    let note = status.text().replace('\n', " // ");
    Notice { warning, reason, note: shortened(&note, MAX_NOTE).into_owned() }
}

/// Another client has scaled the own Deployment to zero.
pub(crate) fn scaled_to_zero(deployment: &ObjectId) -> Notice {
    let note = format!(
        "{deployment} was scaled to 0 by another client: nothing is reconciled or updated until it is scaled to 1 again"
    );
    Notice { warning: true, reason: "ScaledToZero", note }
}

/// Publishes notices.
#[derive(Clone, Debug)]
pub(crate) struct Events {
    queue: mpsc::Sender<(Notice, ObjectReference)>,
    namespace: String,
}

impl Events {
    /// Starts the task that publishes until `stop`.
    pub(crate) fn start(client: Client, namespace: &str, identity: &str, stop: CancellationToken) -> Self {
        let (queue, mut waiting) = mpsc::channel::<(Notice, ObjectReference)>(QUEUE);
        let reporter = Reporter { controller: FIELD_MANAGER.to_owned(), instance: Some(identity.to_owned()) };
        let recorder = Recorder::new(client, reporter);
        tokio::spawn(async move {
            while let Some(Some((notice, regarding))) = stop.run_until_cancelled(waiting.recv()).await {
                let event = Event {
                    type_: if notice.warning { EventType::Warning } else { EventType::Normal },
                    reason: notice.reason.to_owned(),
                    note: Some(notice.note),
                    action: "Update".to_owned(),
                    secondary: None,
                };
                if let Err(error) = recorder.publish(&event, &regarding).await {
                    tracing::debug!(%error, "cannot publish an event");
                }
            }
        });
        Events { queue, namespace: namespace.to_owned() }
    }

    /// Publishes a notice about a ClusterVersion. The event is in the daemon's namespace, where tools expect it.
    pub(crate) fn publish(&self, notice: Notice, name: &str, uid: &str) {
        let regarding = ObjectReference {
            api_version: Some("config.openshift.io/v1".to_owned()),
            kind: Some("ClusterVersion".to_owned()),
            name: Some(name.to_owned()),
            namespace: Some(self.namespace.clone()),
            uid: Some(uid.to_owned()),
            ..ObjectReference::default()
        };
        if self.queue.try_send((notice, regarding)).is_err() {
            tracing::debug!("event dropped: too many are waiting");
        }
    }
}

#[cfg(test)]
mod tests;
