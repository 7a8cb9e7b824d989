//! Fault injection: a proxy between a client and the API server that fails as API servers and networks do, and a check of
//! the order in which an update wrote, by the audit log.

pub mod order;
pub mod proxy;
pub mod source;
