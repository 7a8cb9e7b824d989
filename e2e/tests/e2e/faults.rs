//! The daemon under trouble: updates in order and by two processes, killed processes, drift, fights, bad input.

mod bad_input;
mod choices;
mod drift;
mod killed;
mod requests;
mod restored;
mod settings;
mod uninstall;
pub mod update;
mod waiting;
