//! How a process is told to end.

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::low_level::pipe;
use std::io::Error;
use std::os::unix::net::UnixStream;
use tokio::io::AsyncReadExt;
use tokio_util::sync::CancellationToken;

#[derive(Debug, thiserror::Error)]
#[error("cannot listen for signals: {0}")]
pub(crate) struct SignalsError(Error);

/// Exit code after the second signal: that of a process that an interrupt has ended, as shells have it.
pub(crate) const AT_ONCE: u8 = 130;

/// The first signal stops the daemon in order, the second one ends the process at once.
pub(crate) fn on_signal(stop: CancellationToken) -> Result<(), SignalsError> {
    let mut signals = signals().map_err(SignalsError)?;
    tokio::spawn(async move {
        while signals.read_u8().await.is_ok() {
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

/// A byte for each signal, from the moment on in which signals no longer end the process. The listeners of tokio lose those
/// that come while they are made.
fn signals() -> Result<tokio::net::UnixStream, Error> {
    let (signals, write) = UnixStream::pair()?;
    pipe::register(SIGTERM, write.try_clone()?)?;
    pipe::register(SIGINT, write)?;
    signals.set_nonblocking(true)?;
    tokio::net::UnixStream::from_std(signals)
}
