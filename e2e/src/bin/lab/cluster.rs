//! `lab cluster`: test clusters for people (`hack/cluster` calls it).

use std::{
    io::{self, Write as _},
    time::Instant,
};

use anyhow::{Context, bail};
use clap::{Args, Subcommand};

use super::interrupt::interrupted;
use e2e::harness::{self, Cluster, Options, Toolbox};

/// What to do with a cluster.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start a cluster and leave it running.
    Up(Up),
    /// End a cluster and remove everything it had.
    Down { name: Option<String> },
    /// Print shell lines that select a cluster.
    Env { name: Option<String> },
    /// Print the names of all clusters.
    List,
    /// Remove clusters whose owner was killed, as the next `up` does (for hack/test and hack/soak when they end).
    #[command(hide = true)]
    Sweep,
}

/// What the cluster has.
#[derive(Debug, Args)]
pub(crate) struct Up {
    /// Its name; derived from its slot when absent.
    #[arg(long)]
    name: Option<String>,
    /// With a real node: containerd and kubelet (needs root).
    #[arg(long)]
    node: bool,
    /// With an image registry on loopback.
    #[arg(long)]
    registry: bool,
    /// With kwok, which simulates nodes with the annotation kwok.x-k8s.io/node=fake.
    #[arg(long)]
    kwok: bool,
    /// With an audit log.
    #[arg(long)]
    audit: bool,
    /// The controller-manager's --controllers.
    #[arg(long)]
    controllers: Option<String>,
    /// Stay, and end the cluster on interrupt, instead of leaving it running.
    #[arg(long)]
    foreground: bool,
}

/// Runs the command.
pub(crate) async fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Up(up) => start(up).await,
        Command::Down { name } => Ok(Cluster::attach(&pick(name)?)?.down().await?),
        Command::Env { name } => {
            print!("{}", environment(&Cluster::attach(&pick(name)?)?));
            Ok(())
        }
        Command::List => {
            Cluster::list()?.iter().for_each(|id| println!("{id}"));
            Ok(())
        }
        Command::Sweep => tokio::task::spawn_blocking(sweep).await?,
    }
}

async fn start(up: Up) -> anyhow::Result<()> {
    let begun = Instant::now();
    let (registry, foreground) = (up.registry, up.foreground);
    let options = Options {
        name: up.name,
        node: up.node,
        registry: up.registry,
        kwok: up.kwok,
        audit: up.audit,
        controllers: up.controllers,
        feature_gates: None,
        ..Options::default()
    };
    let cluster = tokio::select! {
        up = Cluster::up(options) => up?,
        heard = interrupted() => {
            heard?;
            bail!("interrupted; the cluster is removed")
        }
    };
    println!(
        "# cluster {} is up after {:.1} s; files and logs are in {}",
        cluster.id(),
        begun.elapsed().as_secs_f32(),
        cluster.dir().display()
    );
    if registry {
        println!("# registry: {} (plain http)", cluster.registry());
    }
    println!("# to use it:  eval \"$(hack/cluster env {0})\"      to end it:  hack/cluster down {0}", cluster.id());
    print!("{}", environment(&cluster));
    if !foreground {
        return Ok(cluster.detach()?);
    }
    interrupted().await?;
    Ok(cluster.down().await?)
}

/// Blocks.
fn sweep() -> anyhow::Result<()> {
    for id in harness::sweep(&Toolbox::find()?)? {
        // The reader of the output may have been interrupted as well.
        let _ = writeln!(io::stdout(), "# cluster {id}, left by a killed process, is removed");
    }
    Ok(())
}

/// Lines for `eval`.
fn environment(cluster: &Cluster) -> String {
    let kubectl = cluster.kubectl_program();
    let tools = kubectl.parent().map(|dir| dir.display().to_string()).unwrap_or_default();
    format!("export KUBECONFIG={}\nexport PATH={tools}:$PATH\n", cluster.kubeconfig().display())
}

/// The named cluster, or the only one there is.
fn pick(name: Option<String>) -> anyhow::Result<String> {
    if let Some(name) = name {
        return Ok(name);
    }
    let mut all = Cluster::list()?;
    if all.len() > 1 {
        bail!("there are several clusters, name one of: {}", all.join(", "));
    }
    all.pop().context("no cluster is running: start one with `hack/cluster up`")
}
