//! `cvo start`: the daemon.

use crate::cluster_version::daemon;
use crate::cluster_version::work::operator_configuration::SetLogLevel;
use crate::cluster_version::work::settings::Settings;
use tokio_util::sync::CancellationToken;

pub(crate) async fn run(settings: Settings, set_log_level: SetLogLevel, stop: CancellationToken) -> anyhow::Result<()> {
    Ok(daemon::run(settings, set_log_level, stop).await?)
}
