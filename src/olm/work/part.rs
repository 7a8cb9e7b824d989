//! What counts of an object, as what is kept of it. Changes of the rest are none.

use crate::cluster::followed::View;
use kube::Resource;
use serde::de::DeserializeOwned;
use std::sync::Arc;

/// A part of an object of a kind.
pub(super) trait Reduced: PartialEq + Send + Sync + 'static {
    type Object: Resource<DynamicType = ()> + Clone + DeserializeOwned + Send + 'static;

    fn reduced(object: &Self::Object) -> Self;
}

/// The part, and the resourceVersion of its object.
#[derive(Debug)]
pub(super) struct Part<T> {
    version: String,
    pub part: Arc<T>,
}

impl<T> Clone for Part<T> {
    fn clone(&self) -> Self {
        Part { version: self.version.clone(), part: self.part.clone() }
    }
}

impl<T: PartialEq> PartialEq for Part<T> {
    fn eq(&self, other: &Self) -> bool {
        self.part == other.part
    }
}

impl<T: Reduced> View for Part<T> {
    type Object = T::Object;

    fn of(object: T::Object) -> Self {
        let version = object.meta().resource_version.clone().unwrap_or_default();
        Part { version, part: Arc::new(T::reduced(&object)) }
    }

    fn version(&self) -> &str {
        &self.version
    }
}
