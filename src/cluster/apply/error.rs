//! Why an object cannot be brought to its desired state now.

use crate::cluster::ApiError;
use crate::merge::DesiredError;

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
    /// The owner does not exist or is being deleted, so nothing may be given to it.
    OwnerGone,
    /// The object has this controller, as kind and name, beside which there is to be no other owner.
    OtherController(String),
    /// The object has to be deleted and created again, and these finalizers keep the old one.
    Terminating(Vec<String>),
    /// The object has to be deleted and created again, and gives rights to the writer, by its name.
    OwnRights(String),
    /// Other clients create and delete the object all the time.
    Unsteady,
    /// The manifest itself is wrong.
    Manifest(String),
}

impl From<DesiredError> for ApplyError {
    fn from(error: DesiredError) -> Self {
        ApplyError::Manifest(error.to_string())
    }
}

impl From<ApiError> for ApplyError {
    fn from(error: ApiError) -> Self {
        ApplyError::Api(error)
    }
}
