//! Hears what asks a program to end: Ctrl-C, and SIGTERM as service managers and `kill` send it.

use std::io;

use tokio::signal::{
    ctrl_c,
    unix::{SignalKind, signal},
};

/// Returns at the first of them. From the first call on, neither ends the process by itself.
pub async fn interrupted() -> io::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        heard = ctrl_c() => heard,
        _ = terminate.recv() => Ok(()),
    }
}
