//! `lab pause`: the process that holds a pod's namespaces.

use tokio::signal::unix::{SignalKind, signal};

/// Sleeps until terminated. As process 1 of a container it receives only the signals that it handles.
pub(crate) async fn run() -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::select! {
        _ = terminate.recv() => Ok(()),
        _ = interrupt.recv() => Ok(()),
    }
}
