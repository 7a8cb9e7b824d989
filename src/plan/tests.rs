//! Plans of small releases.
