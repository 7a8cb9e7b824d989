//! The controllers and executors. Each controller has one shape: wait for an event, a deadline or a stop; take in what
//! happened; decide; perform.

pub mod apply;
pub mod cluster_configuration;
pub mod cluster_version;
pub mod events;
pub mod features;
pub mod feeds;
pub mod payload_dir;
pub mod record;
pub mod retrieve;
pub mod rollout;
pub mod update_service;
