//! Kubernetes objects as such: identity, manifests, YAML and compact JSON, definitions of kinds, conditions, selectors, and the
//! API types that several products use.

pub(crate) mod budgets;
pub(crate) mod built_in;
pub(crate) mod cluster_operator;
pub(crate) mod condition;
pub(crate) mod definition;
pub(crate) mod manifest;
pub(crate) mod metadata;
pub(crate) mod packed;
pub(crate) mod read;
pub(crate) mod selector;
pub(crate) mod writers;
pub(crate) mod yaml;

use serde::{Deserialize, Deserializer};

/// For a field that may be `null`, as the API server writes lists that are empty.
pub(crate) fn null_is_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    from: D,
) -> Result<T, D::Error> {
    Option::deserialize(from).map(Option::unwrap_or_default)
}

/// Namespace of the verification ConfigMap and of the in-cluster signature store.
pub const MANAGED_NAMESPACE: &str = "openshift-config-managed";
