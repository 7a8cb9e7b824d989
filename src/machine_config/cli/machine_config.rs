//! `cvo machine-config`: the controller of node configuration.

use crate::machine_config::daemon;
use crate::machine_config::daemon::Settings;
use tokio_util::sync::CancellationToken;

pub(crate) async fn run(settings: Settings, stop: CancellationToken) -> anyhow::Result<()> {
    Ok(daemon::run(settings, stop).await?)
}
