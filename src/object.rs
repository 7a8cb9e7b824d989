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
pub(crate) mod yaml;

/// Namespace of the verification ConfigMap and of the in-cluster signature store.
pub const MANAGED_NAMESPACE: &str = "openshift-config-managed";
