//! The controllers and executors. Each controller has one shape: wait for an event, a deadline or a stop; take in what
//! happened; decide; perform.

pub(crate) mod advice;
pub(crate) mod apply;
pub(crate) mod attempts;
pub(crate) mod cluster_configuration;
pub(crate) mod config_maps;
pub(crate) mod controller;
pub(crate) mod drained;
pub(crate) mod dropped;
pub(crate) mod executor;
pub(crate) mod health;
pub(crate) mod monitoring;
pub(crate) mod operator_configuration;
pub(crate) mod operators;
pub(crate) mod record;
pub(crate) mod retrieve;
pub(crate) mod settings;
pub(crate) mod silence;
pub(crate) mod stand_in;
