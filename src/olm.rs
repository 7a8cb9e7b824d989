//! Operators that administrators add to the platform: the catalogs that offer them, what is installed of them, and what keeps it
//! running.

pub(crate) mod affected;
pub(crate) mod api;
pub(crate) mod bundle;
pub(crate) mod catalog;
pub(crate) mod certificate;
pub(crate) mod cli;
pub(crate) mod components;
pub(crate) mod daemon;
pub(crate) mod duration;
pub(crate) mod endpoints;
pub(crate) mod fits;
pub(crate) mod forecast;
pub(crate) mod lint;
pub(crate) mod metrics;
pub(crate) mod names;
pub(crate) mod net;
pub(crate) mod operator;
pub(crate) mod packages;
pub(crate) mod permissions;
pub(crate) mod plan;
pub(crate) mod planned;
pub(crate) mod registry;
pub(crate) mod resolve;
pub(crate) mod serve;
pub(crate) mod servers;
pub(crate) mod solve;
pub(crate) mod source;
pub(crate) mod steps;
pub(crate) mod subscription;
pub(crate) mod version_range;
pub(crate) mod work;
