//! `cvo olm plan`, `cvo olm why` and `cvo olm why-not`: what would be installed in a namespace, what that would write, and why, by the
//! functions of the controllers.

mod dot;
mod foretold;
mod reader;
mod restore;
mod state;
mod text;

use super::cluster_output::{ClusterOutput, written};
use crate::cli::exit::Exit;
use crate::cli::layout;
use crate::cli::output::print;
use crate::cli::release::ImageSource;
use crate::olm::api::GLOBAL_CATALOG_NAMESPACE;
use crate::olm::forecast::Forecast;
use crate::olm::forecast::restore::Since;
use crate::olm::resolve::answer::{Outcome, Part};
use crate::olm::solve::Limits;
use crate::olm::subscription::forecast::{Round, Rounds};
use clap::{Args, ValueEnum};
use foretold::{Foretold, Showing, foretell};
use reader::CLUSTER;
use serde_json::{Value, json};
use state::{State, given, read, supposed};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Rounds of one command.
const ROUNDS: usize = 100;

/// Show what would be installed in a namespace, what that would write, and why
///
/// Reads the Subscriptions of the namespace, what is installed there and the catalogs that it sees, and looks for what would be
/// installed next, by the functions of the controller. Shows each object that would be created, changed or deleted, with the fields that
/// differ; the rights that nobody has today; whether definitions may change, and the objects that would not fit them; which approvals are
/// needed, what will hold the operators, such as something that they require and the cluster does not have, and what cannot be known. The
/// API server is asked by a dry run whether it takes the objects of the first round, as far as who asks may write them. Nothing is
/// written, and the cluster may run another controller. Images of catalogs and bundles are pulled from here: where that is not possible,
/// give the content of catalogs by --catalog.
#[derive(Args, Debug)]
pub(crate) struct PlanArgs {
    /// The namespace
    #[arg(short, long, value_name = "NAMESPACE", default_value = "default")]
    pub namespace: String,
    /// As if somebody had subscribed to this package; without CHANNEL to any
    #[arg(long, value_name = "CATALOG/PACKAGE[:CHANNEL]")]
    pub subscribe: Vec<String>,
    /// As if this Subscription were deleted
    #[arg(long, value_name = "SUBSCRIPTION")]
    pub remove: Vec<String>,
    /// As if this were the content of a catalog of the namespace, or of the global one: there need not be such a catalog yet
    #[arg(long, value_name = "NAME=DIR|IMAGE")]
    pub catalog: Vec<String>,
    /// Show all rounds until the heads of all channels are reached, as if each were carried out
    #[arg(long)]
    pub to_head: bool,
    /// Show what it would take to go back to what this InstallPlan has installed, and whether something forbids it
    #[arg(long, value_name = "INSTALLPLAN", conflicts_with_all = ["subscribe", "remove", "catalog", "to_head"])]
    pub restore: Option<String>,
    /// What the plan starts from: `cluster`, or a folder with the objects of one, as kubectl get -o yaml writes them
    #[arg(long, value_name = "cluster|DIR", default_value = CLUSTER)]
    pub from: String,
    /// Show the values of fields before and after, not only which fields differ. Values of Secrets are never shown, but other objects
    /// may contain secrets, too
    #[arg(long)]
    pub values: bool,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = PlanOutput::Text)]
    pub output: PlanOutput,
    #[command(flatten)]
    pub cluster: ClusterArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PlanOutput {
    /// For people
    Text,
    /// For programs: one object, `schema` 1
    Json,
    /// The same as YAML
    Yaml,
    /// For Graphviz
    Dot,
}

/// Show why a Subscription has what it has, or what is in its way
#[derive(Args, Debug)]
pub(crate) struct WhyArgs {
    /// Name of the Subscription
    #[arg(value_name = "SUBSCRIPTION")]
    pub subscription: String,
    /// Its namespace
    #[arg(short, long, value_name = "NAMESPACE", default_value = "default")]
    pub namespace: String,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = ClusterOutput::Text)]
    pub output: ClusterOutput,
    #[command(flatten)]
    pub cluster: ClusterArgs,
}

/// Show why a Subscription does not get a version, or not yet, and what could be changed
#[derive(Args, Debug)]
pub(crate) struct WhyNotArgs {
    /// Name of the Subscription
    #[arg(value_name = "SUBSCRIPTION")]
    pub subscription: String,
    /// Name of the ClusterServiceVersion
    #[arg(value_name = "CSV")]
    pub csv: String,
    /// The namespace of the Subscription
    #[arg(short, long, value_name = "NAMESPACE", default_value = "default")]
    pub namespace: String,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = ClusterOutput::Text)]
    pub output: ClusterOutput,
    #[command(flatten)]
    pub cluster: ClusterArgs,
}

#[derive(Args, Debug)]
pub(crate) struct ClusterArgs {
    /// Namespace whose catalogs are visible in all others
    #[arg(long, value_name = "NAMESPACE", default_value = GLOBAL_CATALOG_NAMESPACE)]
    pub global_namespace: String,
    /// Kubeconfig of the cluster [default: $KUBECONFIG, else ~/.kube/config, else the pod's service account]
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    #[command(flatten)]
    pub source: ImageSource,
}

/// Rounds, what each would write, and what cannot be known.
#[derive(Debug)]
struct Plan {
    rounds: Vec<Foretold>,
    unknown: Vec<String>,
}

/// What it would take to go back to what a plan has installed.
#[derive(Debug)]
struct Restored {
    plan: String,
    /// The ClusterServiceVersions of the plan.
    csvs: Vec<String>,
    since: Since,
    forecast: Forecast,
    /// What somebody would do, one after the other.
    steps: Vec<String>,
    unknown: Vec<String>,
}

impl Restored {
    /// Each version of the plan, with those that have come since.
    fn versions(&self) -> impl Iterator<Item = (&str, String)> {
        self.csvs.iter().map(|csv| {
            let since = self.since.iter().filter(|(_, origin)| *origin == csv).map(|(name, _)| name.as_str());
            (csv.as_str(), since.collect::<Vec<_>>().join(", "))
        })
    }
}

pub(super) async fn run(args: &PlanArgs) -> anyhow::Result<Exit> {
    if let Some(plan) = &args.restore {
        return restore::run(plan, args).await;
    }
    let given = given(&args.catalog)?;
    let mut state = read((&args.namespace, &args.from), Some(&given), &args.cluster).await?;
    supposed(&mut state.hypothesis, args)?;
    let plan = plan(&state, args).await?;
    let page = layout::page();
    print(&match args.output {
        PlanOutput::Text => text::text(&plan, &page),
        PlanOutput::Dot => dot::dot(&plan.rounds),
        PlanOutput::Json => written(ClusterOutput::Json, &of_plan(&plan))?,
        PlanOutput::Yaml => written(ClusterOutput::Yaml, &of_plan(&plan))?,
    })?;
    Ok(exit(&plan))
}

async fn plan(state: &State, args: &PlanArgs) -> anyhow::Result<Plan> {
    let most = if args.to_head { ROUNDS } else { 1 };
    let mut next = Rounds::of(state.hypothesis.clone(), most);
    let (mut known, mut rounds) = (state.known.clone(), Vec::<Foretold>::new());
    while let Some(round) = next.next(&state.cluster, &Limits::default()) {
        let showing = Showing { values: args.values, is_first: rounds.is_empty(), images: &args.cluster.source };
        let forecast = foretell(state, (&next.now, &round), &mut known, showing).await?;
        let is_held = !forecast.held.is_empty();
        rounds.push(Foretold { round, forecast });
        // What would follow depends on what somebody does about that.
        if is_held {
            break;
        }
    }
    let mut unknown: Vec<String> = rounds.iter().flat_map(|it| &it.forecast.unknown).cloned().collect();
    unknown.append(&mut known.unread);
    if !state.reader.is_cluster() {
        unknown.push(
            "What the folder does not have: objects that are not in it count as absent, and all kinds as served."
                .to_owned(),
        );
    }
    if rounds.iter().any(|it| !it.forecast.changes.is_empty()) {
        unknown.extend(always(state.reader.is_cluster()));
    }
    Ok(Plan { rounds, unknown })
}

/// What no plan can know. `is_tried`: the API server was asked about objects.
fn always(is_tried: bool) -> [String; 2] {
    let refused = match is_tried {
        true => {
            "Whether quotas, policies and webhooks of the cluster refuse what could not be tried: what later rounds write, what needs a \
             kind, a role or an object that the plan itself brings, and pods."
        }
        false => "Whether quotas, policies and webhooks of the cluster refuse an object: nothing is tried.",
    };
    [
        refused.to_owned(),
        "What operators do once they run in their new version: which objects they create, change and delete."
            .to_owned(),
    ]
}

pub(super) async fn why(args: &WhyArgs) -> anyhow::Result<Exit> {
    let state = read((&args.namespace, CLUSTER), Some(&BTreeMap::new()), &args.cluster).await?;
    let name = args.subscription.as_str();
    if state.hypothesis.subscription(name).is_none() {
        return Err(no_subscription(&args.namespace, name));
    }
    let rounds = state.hypothesis.clone().rounds(&state.cluster, &Limits::default(), 1);
    print(&match args.output {
        ClusterOutput::Text => text::answers(&rounds, Some(name), &layout::page()),
        other => {
            let rounds: Vec<Value> = rounds.iter().map(Round::told).collect();
            written(other, &json!({"schema": 1, "rounds": rounds}))?
        }
    })?;
    let fails = rounds.iter().any(|round| fails(round, Some(name)));
    Ok(if fails { Exit::Blocked } else { Exit::Success })
}

pub(super) async fn why_not(args: &WhyNotArgs) -> anyhow::Result<Exit> {
    let state = read((&args.namespace, CLUSTER), Some(&BTreeMap::new()), &args.cluster).await?;
    let found = state.hypothesis.why_not(&args.subscription, &args.csv, &state.cluster, &Limits::default());
    let Some(found) = found else { return Err(no_subscription(&args.namespace, &args.subscription)) };
    print(&match args.output {
        ClusterOutput::Text => text::why_not(&found, &layout::page()),
        other => written(other, &json!({"schema": 1, "whyNot": found}))?,
    })?;
    Ok(if found.is_coming { Exit::Success } else { Exit::Waits })
}

fn no_subscription(namespace: &str, name: &str) -> anyhow::Error {
    anyhow::anyhow!("there is no Subscription {namespace}/{name}: kubectl get subscriptions -n {namespace}")
}

/// The parts that have this Subscription; all of them without one.
fn parts<'a>(round: &'a Round, only: Option<&'a str>) -> impl Iterator<Item = &'a Part> {
    round.answer.parts.iter().filter(move |part| only.is_none_or(|name| part.subscriptions.contains(name)))
}

fn fails(round: &Round, only: Option<&str>) -> bool {
    round.held.is_some() || parts(round, only).any(|part| !matches!(part.outcome, Outcome::Install(_)))
}

fn exit(plan: &Plan) -> Exit {
    let is_blocked = |it: &Foretold| fails(&it.round, None) || !it.forecast.held.is_empty();
    if plan.rounds.iter().any(is_blocked) { Exit::Blocked } else { Exit::Success }
}

/// Adds what a forecast says.
fn add_forecast(told: &mut Value, forecast: &Forecast) {
    if let Some(told) = told.as_object_mut() {
        let Forecast { changes, unchanged, rights, definitions, held, unknown: _, trials: _ } = forecast;
        told.insert("changes".to_owned(), json!(changes));
        told.insert("unchanged".to_owned(), json!(unchanged));
        told.insert("rights".to_owned(), json!(rights));
        told.insert("definitions".to_owned(), json!(definitions));
        told.insert("hindrances".to_owned(), json!(held));
    }
}

fn of_plan(plan: &Plan) -> Value {
    let round = |Foretold { round, forecast }: &Foretold| {
        let mut told = round.told();
        add_forecast(&mut told, forecast);
        told
    };
    json!({"schema": 1, "rounds": plan.rounds.iter().map(round).collect::<Vec<_>>(), "unknown": plan.unknown})
}

#[cfg(test)]
mod tests;
