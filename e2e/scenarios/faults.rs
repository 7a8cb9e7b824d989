//! The daemon under trouble: updates in order and by two processes, killed processes, drift, fights, bad input.

mod killed;
mod update;
