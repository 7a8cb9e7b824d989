//! What this repository ships, checked as a release would be.
