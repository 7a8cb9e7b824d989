//! The label of what another implementation has left without it: looked for once, when the process leads for the first time, and written
//! object by object, slowly. What has it already is seen by the watches, and what is written by its name gets it then. A process that
//! comes later finds nothing.

use super::live::{component_kind, deployment_kind, secret_kind};
use crate::cluster::{ApiError, Kind, Objects, jittered, task};
use crate::olm::api::keys::label;
use crate::olm::operator::component;
use crate::olm::operator::unlabelled::patch;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;
use std::time::Duration;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Objects in one page of a list, of each of which there is nothing but metadata, and how long it is waited for the next one.
const PAGE: (u32, Duration) = (500, Duration::from_millis(200));
/// Between two writes.
const PAUSE: Duration = Duration::from_millis(250);
/// After failures.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(600));

/// An object that gets the label.
struct Unlabelled {
    namespace: String,
    name: String,
    patch: Value,
}

impl Unlabelled {
    /// `None` for one that has it, or was not made for an operator.
    fn of(mut object: Value) -> Option<Unlabelled> {
        let metadata: ObjectMeta = serde_json::from_value(object.get_mut("metadata")?.take()).ok()?;
        let patch = patch(&metadata)?;
        Some(Unlabelled { namespace: metadata.namespace.unwrap_or_default(), name: metadata.name?, patch })
    }
}

struct Labels {
    objects: Objects,
    /// The same for writes.
    written: Objects,
    leading: watch::Receiver<bool>,
}

/// Begins once `leading` says that the lease is held, and ends when every object has the label, or at `stop`.
pub(super) fn start(objects: Objects, leading: watch::Receiver<bool>, stop: &CancellationToken) {
    let labels = Labels { written: objects.answered_by_metadata(), objects, leading };
    task::spawn("labels of what others have made", stop, labels.run(kinds()));
}

/// First those that are followed by the label.
fn kinds() -> Vec<Kind> {
    use component::Kind::{
        ApiService, ClusterRole, ClusterRoleBinding, MutatingWebhookConfiguration, Role, RoleBinding, Service,
        ValidatingWebhookConfiguration,
    };
    let followed = [Service, MutatingWebhookConfiguration, ValidatingWebhookConfiguration].map(component_kind);
    let others = [Role, RoleBinding, ClusterRole, ClusterRoleBinding, ApiService].map(component_kind);
    let accounts = Kind::known("", "v1", "ServiceAccount", "serviceaccounts", true);
    [deployment_kind(), secret_kind()].into_iter().chain(followed).chain([accounts]).chain(others).collect()
}

impl Labels {
    async fn run(mut self, mut left: Vec<Kind>) {
        let mut failures: u32 = 0;
        loop {
            if self.leading.wait_for(|leading| *leading).await.is_err() {
                return;
            }
            left = self.label(left).await;
            if left.is_empty() {
                return;
            }
            tokio::time::sleep(jittered(PAUSES.0, failures, PAUSES.1)).await;
            failures = failures.saturating_add(1);
        }
    }

    /// Returns the kinds of which some may lack the label still.
    async fn label(&self, kinds: Vec<Kind>) -> Vec<Kind> {
        let mut left = Vec::new();
        for kind in kinds {
            if let Err(error) = self.label_all(&kind).await {
                tracing::warn!(%error, "objects of operators may lack the label olm.managed; trying again");
                left.push(kind);
            }
        }
        left
    }

    /// One that the API server turns down keeps no other one from its label, and is not tried again. Of others the last error is that of
    /// all of them.
    async fn label_all(&self, kind: &Kind) -> Result<(), ApiError> {
        // Of Secrets and accounts a reference alone may name the owner.
        let by_reference = ["Secret", "ServiceAccount"].contains(&kind.kind.as_str());
        let without = format!("!{}", label::MANAGED);
        let selector = if by_reference { without } else { format!("{},{without}", label::OWNER) };
        let unlabelled = self.objects.selected_metadata(kind, &selector, PAGE, Unlabelled::of).await?;
        let mut outcome = Ok(());
        for Unlabelled { namespace, name, patch } in unlabelled {
            match self.written.merge_patch::<Value>(kind, &namespace, &name, &patch).await {
                Ok(_) => tracing::info!(kind = %kind.kind, namespace, name, "labelled as an object of an operator"),
                Err(error) if error.is_not_found() => {}
                Err(error) if !*self.leading.borrow() => return Err(error),
                Err(error) if error.is_refused() => {
                    tracing::warn!(kind = %kind.kind, namespace, name, %error, "an object of an operator lacks the label olm.managed");
                }
                Err(error) => outcome = Err(error),
            }
            tokio::time::sleep(PAUSE).await;
        }
        outcome
    }
}

#[cfg(test)]
mod tests;
