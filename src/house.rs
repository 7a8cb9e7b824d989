//! The dependency rule.
