//! `lab chaos`: installations and updates of clusters and of operators under faults (`hack/chaos` calls it).

use anyhow::bail;
use clap::Args;

use super::interrupt::interrupted;
use e2e::random::SeededRandom;

/// Which faults happen.
#[derive(Debug, Args)]
pub(crate) struct Chaos {
    /// How often the daemon is killed; the other faults and the clusters follow from it.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=1000))]
    runs: u16,
    /// Makes the same faults happen again.
    #[arg(long)]
    seed: Option<u64>,
    /// Only what is done to operators.
    #[arg(long)]
    operators: bool,
}

/// Runs everything; an interrupt removes the cluster as well.
pub(crate) async fn run(chaos: Chaos) -> anyhow::Result<()> {
    let seed = chaos.seed.unwrap_or_else(SeededRandom::seed);
    let runs = chaos.runs.into();
    let all = async {
        if !chaos.operators {
            e2e::chaos::updates(seed, runs).await?;
        }
        e2e::chaos::operators(seed, runs).await
    };
    tokio::select! {
        ended = all => ended,
        signal = interrupted() => {
            signal?;
            bail!("interrupted; the cluster is removed")
        }
    }
}
