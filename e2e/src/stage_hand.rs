//! The stage hand: plays what a cluster without nodes and operators lacks, so that a whole release can be installed and
//! updated on a bare API server. It gives workloads their status, reports for the ClusterOperators, makes the objects
//! and namespaces that an installer or operators would make, and runs the daemon as a process: when the daemon's own
//! Deployment asks for another release image, it ends the one and starts the other.
//!
//! Everything happens on watch events and signals; nothing polls. `stage_hand/script.rs` knows what the releases say,
//! `stage_hand/roles.rs` what the played objects look like, `stage_hand/props.rs` watches and writes,
//! `stage_hand/daemon.rs` runs the daemon.

mod daemon;
mod props;
mod roles;
pub mod script;

use anyhow::Context;
use daemon::Daemon;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use props::{News, Props};
use script::Script;
use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;
use tokio::time::Instant;

/// `lab stage-hand`. SIGTERM ends the daemon and the play, SIGHUP restarts the daemon with the release it has.
#[derive(clap::Args, Clone, Debug)]
pub struct StageHandArgs {
    /// Kubeconfig of an administrator, for what the stage hand itself does.
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: PathBuf,
    /// Kubeconfig of the daemon: a user of its own lets its requests be told apart.
    #[arg(long, value_name = "FILE")]
    pub daemon_kubeconfig: PathBuf,
    /// The daemon's program.
    #[arg(long, value_name = "FILE")]
    pub cvo: PathBuf,
    /// Folder in which each release lies ready in the folder that the daemon looks for.
    #[arg(long, value_name = "DIR")]
    pub payload_store: PathBuf,
    /// Release image by digest; may be repeated. The first one is started first.
    #[arg(long = "release", value_name = "IMAGE", required = true)]
    pub releases: Vec<String>,
    /// Seconds between a component's Deployments carrying a release and its ClusterOperators reporting it.
    #[arg(long, value_name = "SECONDS", default_value_t = 0.0)]
    pub delay: f64,
    /// Where the daemon's output goes.
    #[arg(long, value_name = "FILE")]
    pub daemon_log: PathBuf,
    /// For each daemon that starts a line of JSON is appended here (release, process, when), and one when it has ended:
    /// what it used.
    #[arg(long, value_name = "FILE")]
    pub report: PathBuf,
}

/// What is scheduled and not yet done.
#[derive(Default)]
struct Pending {
    /// By ClusterOperator: which release to report and when.
    reports: HashMap<String, (usize, Instant)>,
    writes: JoinSet<Result<(), (String, props::Write)>>,
}

/// Before a write that the API server refused is tried again.
const RETRY: Duration = Duration::from_millis(200);

/// Runs until it is told to stop.
pub async fn run(args: StageHandArgs) -> anyhow::Result<()> {
    let script = Script::read(&args.payload_store, &args.releases)?;
    println!("plays {} releases, {} operators", script.releases.len(), script.operators.len());
    let kubeconfig = Kubeconfig::read_from(&args.kubeconfig)
        .with_context(|| format!("cannot read the kubeconfig {}", args.kubeconfig.display()))?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    let client = Client::try_from(config)?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut again = signal(SignalKind::hangup())?;
    let mut props = Props::new(client);
    let mut pending = Pending::default();
    for namespace in &script.namespaces {
        pending.write(&props, roles::namespace(namespace));
    }
    let mut daemon = Some(Daemon::start(&args, 0)?);
    loop {
        let next_report = pending.reports.values().map(|(_, due)| *due).min();
        tokio::select! {
            _ = terminate.recv() => break,
            _ = again.recv() => daemon = replace(daemon, &args, None).await?,
            () = ended(&mut daemon) => {
                println!("the daemon ended by itself");
                tokio::time::sleep(Duration::from_secs(1)).await;
                daemon = replace(daemon, &args, None).await?;
            }
            news = props.next() => {
                if let Some(release) = perform(&script, &mut props, &mut pending, news, args.delay)
                    && daemon.as_ref().is_some_and(|d| d.release != release)
                {
                    daemon = replace(daemon, &args, Some(release)).await?;
                }
            }
            () = tokio::time::sleep_until(next_report.unwrap_or_else(far)), if next_report.is_some() => {
                pending.report(&script, &props);
            }
            Some(written) = pending.writes.join_next() => pending.again(&props, written),
        }
    }
    if let Some(daemon) = daemon {
        daemon.stop(&args.report).await?;
    }
    println!("stopped");
    Ok(())
}

fn far() -> Instant {
    Instant::now() + Duration::from_secs(3600)
}

async fn ended(daemon: &mut Option<Daemon>) {
    match daemon {
        Some(daemon) => daemon.ended().await,
        None => std::future::pending().await,
    }
}

/// Ends the daemon and starts the one of `release`, or of the same release.
async fn replace(
    daemon: Option<Daemon>,
    args: &StageHandArgs,
    release: Option<usize>,
) -> anyhow::Result<Option<Daemon>> {
    let before = daemon.as_ref().map_or(0, |d| d.release);
    if let Some(daemon) = daemon {
        daemon.stop(&args.report).await?;
    }
    Ok(Some(Daemon::start(args, release.unwrap_or(before))?))
}

/// Plays the answer to one piece of news. Returns the release that the daemon's own Deployment asks for.
fn perform(script: &Script, props: &mut Props, pending: &mut Pending, news: News, delay: f64) -> Option<usize> {
    match news {
        News::Definition(name) => {
            for object in roles::installed(&name, &script.versions()) {
                pending.write(props, object);
            }
            props.follow(&name);
        }
        News::Workload(object) => {
            if let Some(status) = roles::workload_status(&object) {
                pending.write(props, status);
            }
            let (namespace, name) = roles::name_of(&object);
            for operator in props.saw_workload(script, &object) {
                pending.schedule(script, props, &operator, delay);
            }
            if (namespace, name) == script::OWN_DEPLOYMENT {
                return script.asked_for(&object);
            }
        }
        News::Operator(name) => pending.schedule(script, props, &name, delay),
    }
    None
}

impl Pending {
    fn write(&mut self, props: &Props, write: props::Write) {
        let client = props.client.clone();
        self.writes.spawn(async move { props::write(&client, &write).await.map_err(|cause| (cause, write)) });
    }

    /// Another try for a write that failed, after a pause.
    fn again(&mut self, props: &Props, ended: Result<Result<(), (String, props::Write)>, tokio::task::JoinError>) {
        let Ok(Err((cause, write))) = ended else { return };
        println!("will try again: {cause}");
        let client = props.client.clone();
        self.writes.spawn(async move {
            tokio::time::sleep(RETRY).await;
            props::write(&client, &write).await.map_err(|cause| (cause, write))
        });
    }

    /// Notes when an operator will report what its Deployments carry, unless it does already.
    fn schedule(&mut self, script: &Script, props: &Props, operator: &str, delay: f64) {
        let Some(release) = props.to_report(script, operator) else {
            self.reports.remove(operator);
            return;
        };
        let due = Instant::now() + Duration::from_secs_f64(delay);
        match self.reports.get(operator) {
            Some((noted, _)) if *noted == release => {}
            _ => _ = self.reports.insert(operator.to_owned(), (release, due)),
        }
    }

    /// Writes all reports that are due.
    fn report(&mut self, script: &Script, props: &Props) {
        let now = Instant::now();
        let due: HashSet<String> =
            self.reports.iter().filter(|(_, (_, due))| *due <= now).map(|(name, _)| name.clone()).collect();
        for name in due {
            if let Some((release, _)) = self.reports.remove(&name)
                && let Some(versions) = script.versions_of(&name, release)
            {
                println!("{name}: reports {}", script.releases.get(release).map_or("", |r| r.version.as_str()));
                self.write(props, roles::operator_status(&name, versions, jiff::Timestamp::now()));
            }
        }
    }
}
