//! Fault injection: a proxy between a client and the API server that fails as API servers and networks do, a balancer whose
//! servers leave, a clock that is ahead, and checks by the audit log: of the order in which an update wrote, and that only the
//! holder of the lease did.

pub mod balancer;
pub mod clock;
pub mod leadership;
pub mod order;
pub mod proxy;
pub mod source;
