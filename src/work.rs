//! The work loops.
