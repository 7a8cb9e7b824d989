//! What it means for a rollout that a manifest cannot be applied now, and how conditions report it.

use crate::cluster::apply::ApplyError;
use crate::cluster::{ApiError, Cause as ApiCause};
use crate::cluster_version::rollout::{Cause, Failure};
use crate::cluster_version::status::failure::{Reason, UpdateError, classify};
use crate::object::manifest::Manifest;

/// For the state machine of the rollout.
pub(crate) fn failure(error: &ApplyError, manifest: &Manifest) -> Failure {
    let cause = match error {
        ApplyError::NamespaceMissing(name) | ApplyError::NamespaceTerminating(name) => {
            Cause::NamespaceMissing(name.clone())
        }
        ApplyError::Terminating(_) => Cause::Terminating,
        ApplyError::KindNotServed => Cause::KindNotServed,
        ApplyError::KindGone(_) => Cause::KindGone,
        ApplyError::Api(error) if error.is_of_webhook() => {
            Cause::WebhookAway(error.webhook_namespace().map(str::to_owned))
        }
        ApplyError::Api(error) if !error.is_answer() => Cause::NoAnswer,
        ApplyError::Api(_)
        | ApplyError::OwnerGone
        | ApplyError::OtherController(_)
        | ApplyError::OwnRights(_)
        | ApplyError::Unsteady
        | ApplyError::Manifest(_) => Cause::Other,
    };
    Failure { error: update_error(error, manifest), cause }
}

/// As conditions report it.
fn update_error(error: &ApplyError, manifest: &Manifest) -> UpdateError {
    let (reason, cause) = match error {
        ApplyError::KindNotServed => (
            Reason::ResourceTypeMissing,
            format!("the API server does not serve {} {}", manifest.api_version, manifest.id.kind),
        ),
        ApplyError::NamespaceMissing(namespace) => {
            (Reason::ResourceNotFound, format!("namespace {namespace:?} does not exist yet"))
        }
        ApplyError::NamespaceTerminating(namespace) => (
            Reason::ResourceConflict,
            format!(
                "namespace {namespace:?} is being deleted, and must be gone first: its conditions say what holds it"
            ),
        ),
        // Whole, because what is too long is shortened once, with what is put before it.
        ApplyError::Api(error) | ApplyError::KindGone(error) => {
            (reason(error), error.whole().replacen(&manifest.id.to_string(), "it", 1))
        }
        ApplyError::OwnerGone => (
            Reason::ResourceConflict,
            "the ClusterVersion that owns it is being deleted, so it is left alone".to_owned(),
        ),
        ApplyError::OtherController(controller) => (Reason::ResourceConflict, format!("{controller} controls it")),
        ApplyError::Unsteady => (
            Reason::ResourceConflict,
            "another client keeps creating and deleting it, so that it could not be written".to_owned(),
        ),
        ApplyError::Terminating(finalizers) => (
            Reason::ResourceConflict,
            format!(
                "it has to be deleted and created again, and the old object still exists; finalizers that keep it: {}",
                if finalizers.is_empty() { "none".to_owned() } else { finalizers.join(", ") }
            ),
        ),
        ApplyError::OwnRights(user) => (
            Reason::ResourceConflict,
            format!(
                "its roleRef is not that of the release, and cannot be changed without deleting it, which could take from \
                 {user} the right to create it again: replace it as an administrator (cvo rbac prints the roles and \
                 bindings of the release), or let it be"
            ),
        ),
        ApplyError::Manifest(problem) => (Reason::Integrity, problem.clone()),
    };
    UpdateError::new(reason, format!("{} from {}: {cause}", manifest.id, manifest.file))
}

fn reason(error: &ApiError) -> Reason {
    match &error.cause {
        ApiCause::Server { code, reason, .. } => classify(*code, reason),
        ApiCause::Transport(_) | ApiCause::Timeout => Reason::ClusterDown,
        ApiCause::Answer(_) | ApiCause::NotLeader(_) => Reason::Failed,
    }
}
