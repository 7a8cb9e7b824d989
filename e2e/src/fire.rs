//! An update under fire: a proxy between daemon and API server that misbehaves as API servers and networks do, and the
//! reading of the audit log that proves the order in which an update wrote all the same.

pub mod faults;
pub mod order;
pub mod proxy;
pub mod release;
