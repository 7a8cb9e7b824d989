//! What other programs ask of this product over the network.

pub(crate) mod packages;
pub(crate) mod registry;
