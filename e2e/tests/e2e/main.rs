//! End-to-end tests, one file a theme. Each starts the cluster it needs (see `e2e::harness`) and says what it skips when
//! the machine lacks something.

// Allowed in the tests themselves by clippy.toml; these are the functions that they share.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod advice;
mod attacks;
mod bad_input;
mod broken;
mod causes;
mod chaos;
mod cluster_configuration;
mod clusters;
mod configured_node;
mod control_plane;
mod doctor;
mod drains;
mod drift;
mod dropped;
mod dropped_fields;
mod fault_injection;
mod filters;
mod gaps;
mod gates;
mod ipv6;
mod killed;
mod kubelet_config;
mod least_privilege;
mod life;
mod long_answers;
mod merge;
mod metrics;
mod metrics_access;
mod node_agent;
mod node_plan;
mod obstinate;
mod oc;
mod older_definition;
mod page;
mod plan;
mod platform;
mod pools;
mod preconditions;
mod readme;
mod real_payload;
mod restored;
mod retrieval;
mod secrets;
mod spec_changes;
mod stand_in;
mod tools;
mod uninstall;
mod update;
mod waiting;
