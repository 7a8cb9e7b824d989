//! How a process is told to end.

use tokio_util::sync::CancellationToken;

#[derive(Debug, thiserror::Error)]
#[error("cannot listen for signals: {0}")]
pub(crate) struct SignalsError(std::io::Error);

/// Exit code after the second signal: that of a process that an interrupt has ended, as shells have it.
pub(crate) const AT_ONCE: u8 = 130;

/// The first signal stops the daemon in order, the second one ends the process at once.
pub(crate) fn on_signal(stop: CancellationToken) -> Result<(), SignalsError> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate()).map_err(SignalsError)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(SignalsError)?;
    tokio::spawn(async move {
        loop {
            tokio::select! { _ = terminate.recv() => {}, _ = interrupt.recv() => {} }
            if stop.is_cancelled() {
                tracing::warn!("second signal: exiting at once");
                std::process::exit(AT_ONCE.into());
            }
            tracing::info!("stopping on a signal");
            stop.cancel();
        }
    });
    Ok(())
}
