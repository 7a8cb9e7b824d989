//! Why a manifest cannot be applied now, and how conditions report it.

use crate::cluster::{ApiError, Cause};
use crate::merge::MergeError;
use crate::payload::Manifest;
use crate::status::failure::{Reason, UpdateError, classify};

#[derive(Debug)]
pub(crate) enum ApplyError {
    /// The server does not serve the kind (yet).
    KindNotServed,
    /// The server was said to serve the kind, and its answer to a POST is that there is no such thing.
    KindGone(ApiError),
    /// The namespace does not exist (yet).
    NamespaceMissing(String),
    /// The namespace is being deleted.
    NamespaceTerminating(String),
    Api(ApiError),
    /// The ClusterVersion does not exist or is being deleted, so nothing may be given to it as its owner.
    OwnerGone,
    /// The object has to be deleted and created again, and these finalizers keep the old one.
    Terminating(Vec<String>),
    /// The object has to be deleted and created again, and gives rights to this process, by its name.
    OwnRights(String),
    /// Other clients create and delete the object all the time.
    Unsteady,
    /// The manifest itself is wrong.
    Manifest(String),
}

impl From<MergeError> for ApplyError {
    fn from(error: MergeError) -> Self {
        ApplyError::Manifest(error.to_string())
    }
}

impl From<ApiError> for ApplyError {
    fn from(error: ApiError) -> Self {
        ApplyError::Api(error)
    }
}

impl ApplyError {
    /// As conditions report it.
    pub(crate) fn update_error(&self, manifest: &Manifest) -> UpdateError {
        let (reason, cause) = match self {
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
}

fn reason(error: &ApiError) -> Reason {
    match &error.cause {
        Cause::Server { code, reason, .. } => classify(*code, reason),
        Cause::Transport(_) | Cause::Timeout => Reason::ClusterDown,
        Cause::Answer(_) | Cause::NotLeader(_) => Reason::Failed,
    }
}
