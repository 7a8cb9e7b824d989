//! `cvo machine-config`: the controller of node configuration.

use crate::daemon::machine_config::{self, Settings};
use tokio_util::sync::CancellationToken;

pub(crate) async fn run(settings: Settings, stop: CancellationToken) -> anyhow::Result<()> {
    Ok(machine_config::run(settings, stop).await?)
}
