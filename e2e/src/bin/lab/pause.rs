//! `lab pause`: the process that holds a pod's namespaces.

use tokio::signal::unix::{SignalKind, signal};

/// Sleeps until it is told to end. As process 1 of a container it gets only the signals it asks for.
pub async fn run() -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::select! {
        _ = terminate.recv() => Ok(()),
        _ = interrupt.recv() => Ok(()),
    }
}
