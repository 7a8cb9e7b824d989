//! Builds everything, leads, stops in order.
