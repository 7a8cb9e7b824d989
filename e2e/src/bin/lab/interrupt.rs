//! Signals that ask a program to end: SIGINT (Ctrl-C), and SIGTERM as service managers and `kill` send it.

use std::io;

use tokio::signal::{
    ctrl_c,
    unix::{SignalKind, signal},
};

/// Returns at the first signal. After the first call, the signals no longer end the process by themselves.
pub(crate) async fn interrupted() -> io::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        received = ctrl_c() => received,
        _ = terminate.recv() => Ok(()),
    }
}
