//! What the processes of this program have in common: flags, the lease they work under, signals, turns, servers, events, the way out of
//! the cluster and the queries of a Prometheus API.

pub(crate) mod durations;
pub(crate) mod egress;
pub(crate) mod events;
pub(crate) mod leader;
pub(crate) mod prometheus;
pub(crate) mod serving;
pub(crate) mod settings;
pub(crate) mod signals;
pub(crate) mod turns;
