//! `cvo olm plan` and `cvo olm why`: what would be installed in a namespace and why, by the functions of the controller.

use super::cluster_output::{ClusterOutput, written};
use super::input;
use super::objects::listed;
use crate::cli::exit::Exit;
use crate::cli::layout::{self, Colour, Page, clean};
use crate::cli::output::print;
use crate::cli::release::ImageSource;
use crate::cluster::Clients;
use crate::olm::api::GLOBAL_CATALOG_NAMESPACE;
use crate::olm::api::catalog_source::{CatalogSource, condition};
use crate::olm::api::cluster_service_version::ClusterServiceVersion;
use crate::olm::api::install_plan::InstallPlan;
use crate::olm::api::operator_group::OperatorGroup;
use crate::olm::api::subscription::Subscription;
use crate::olm::catalog::served::Content;
use crate::olm::net::store;
use crate::olm::resolve::answer::{Id, New, Outcome, Part};
use crate::olm::resolve::rule::ClusterVersions;
use crate::olm::solve::Limits;
use crate::olm::source::template::KubeVersion;
use crate::olm::subscription::Visible;
use crate::olm::subscription::forecast::{Hypothesis, Round};
use crate::olm::subscription::installed::Csv;
use crate::olm::subscription::plan::{Group, Plan};
use anyhow::{Context, bail};
use clap::Args;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

/// Rounds of one command.
const ROUNDS: usize = 100;

/// Show what would be installed in a namespace, and why
///
/// Reads the Subscriptions of the namespace, what is installed there and the catalogs that it sees, and looks for what would be
/// installed next, by the functions of the controller. Nothing is written, and the cluster may run another controller. Images of
/// catalogs are pulled from here: where that is not possible, give their content by --catalog.
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
    #[command(flatten)]
    pub cluster: ClusterArgs,
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
    #[command(flatten)]
    pub cluster: ClusterArgs,
}

#[derive(Args, Debug)]
pub(crate) struct ClusterArgs {
    /// Namespace whose catalogs are visible in all others
    #[arg(long, value_name = "NAMESPACE", default_value = GLOBAL_CATALOG_NAMESPACE)]
    pub global_namespace: String,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = ClusterOutput::Text)]
    pub output: ClusterOutput,
    /// Kubeconfig of the cluster [default: $KUBECONFIG, else ~/.kube/config, else the pod's service account]
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    #[command(flatten)]
    pub source: ImageSource,
}

pub(super) async fn run(args: &PlanArgs) -> anyhow::Result<Exit> {
    let given = args.catalog.iter().map(|it| it.split_once('=').context("--catalog must be NAME=DIR or NAME=IMAGE"));
    let given: BTreeMap<&str, &str> = given.collect::<anyhow::Result<_>>()?;
    let (mut hypothesis, cluster) = read(&args.namespace, &given, &args.cluster).await?;
    for name in &args.remove {
        if !hypothesis.remove(name) {
            bail!("there is no Subscription {}/{name}: kubectl get subscriptions -n {0}", args.namespace);
        }
    }
    for wanted in &args.subscribe {
        let (catalog, package) = wanted.split_once('/').context("--subscribe must be CATALOG/PACKAGE[:CHANNEL]")?;
        let (package, channel) = package.split_once(':').unwrap_or((package, ""));
        let own = (args.namespace.clone(), catalog.to_owned());
        let global = (args.cluster.global_namespace.clone(), catalog.to_owned());
        let place = if hypothesis.catalogs.contains_key(&own) { own } else { global };
        hypothesis.subscribe(&place, package, channel);
    }
    let most = if args.to_head { ROUNDS } else { 1 };
    let rounds = hypothesis.rounds(&cluster, &Limits::default(), most);
    show(&rounds, None, args.cluster.output)
}

pub(super) async fn why(args: &WhyArgs) -> anyhow::Result<Exit> {
    let (hypothesis, cluster) = read(&args.namespace, &BTreeMap::new(), &args.cluster).await?;
    let name = args.subscription.as_str();
    if hypothesis.subscriptions.iter().all(|it| it.metadata.name.as_deref() != Some(name)) {
        bail!("there is no Subscription {}/{name}: kubectl get subscriptions -n {0}", args.namespace);
    }
    let rounds = hypothesis.rounds(&cluster, &Limits::default(), 1);
    show(&rounds, Some(name), args.cluster.output)
}

/// `only`: the Subscription that was asked about.
fn show(rounds: &[Round], only: Option<&str>, output: ClusterOutput) -> anyhow::Result<Exit> {
    print(&match output {
        ClusterOutput::Text => text(rounds, only, &layout::page()),
        other => written(other, &json!({"schema": 1, "rounds": rounds.iter().map(of_round).collect::<Vec<_>>()}))?,
    })?;
    Ok(exit(rounds, only))
}

/// The namespace as it is. `given`: contents of catalogs by name.
async fn read(
    namespace: &str,
    given: &BTreeMap<&str, &str>,
    args: &ClusterArgs,
) -> anyhow::Result<(Hypothesis, ClusterVersions)> {
    let clients = Clients::connect(args.kubeconfig.as_deref()).await?;
    let here = Some(namespace);
    let subscriptions: Vec<Subscription> = listed(&clients, here).await?;
    let csvs: Vec<ClusterServiceVersion> = listed(&clients, here).await?;
    let groups: Vec<OperatorGroup> = listed(&clients, here).await?;
    let plans: Vec<InstallPlan> = listed(&clients, here).await?;
    let mut sources: Vec<CatalogSource> = listed(&clients, here).await?;
    if namespace != args.global_namespace {
        sources.extend(listed(&clients, Some(&args.global_namespace)).await?);
    }
    let info = clients.call.apiserver_version().await?;
    let kubernetes = KubeVersion::of(&info.major, &info.minor, &info.git_version).map(|it| it.to_string());
    let mut hypothesis = Hypothesis {
        namespace: namespace.to_owned(),
        global: args.global_namespace.clone(),
        subscriptions: subscriptions.into_iter().map(Arc::new).collect(),
        csvs: csvs.iter().map(|csv| Arc::new(Csv::of(csv))).collect(),
        groups: groups.iter().map(|group| Arc::new(Group::of(group))).collect(),
        plans: plans.iter().map(|plan| Arc::new(Plan::of(plan))).collect(),
        catalogs: BTreeMap::new(),
    };
    for source in &sources {
        let (id, visible) = visible(source, given, &args.source).await;
        hypothesis.catalogs.insert(id, visible);
    }
    for (name, place) in given {
        if !hypothesis.catalogs.keys().any(|(_, known)| known == name) {
            let id = (namespace.to_owned(), (*name).to_owned());
            let content = content(place, &args.source).await?;
            let visible = Visible { health: Some(Ok(())), content: Some(content), ..Visible::default() };
            hypothesis.catalogs.insert(id, visible);
        }
    }
    Ok((hypothesis, ClusterVersions { kubernetes: kubernetes.unwrap_or_default(), release: String::new() }))
}

/// A catalog with its content, as far as that can be read from here.
async fn visible(source: &CatalogSource, given: &BTreeMap<&str, &str>, images: &ImageSource) -> (Id, Visible) {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let id = (text(&source.metadata.namespace), text(&source.metadata.name));
    let loaded = source.status.iter().flat_map(|status| &status.conditions);
    let loaded =
        loaded.filter(|it| it.type_ == condition::CONTENT_LOADED && it.status == "True").map(|it| it.message.as_str());
    let image =
        loaded.filter(|it| it.contains("@sha256:")).chain([source.spec.image.as_str()]).find(|it| !it.is_empty());
    let place = given.get(id.1.as_str()).copied().or(image);
    let read = match place {
        Some(place) => content(place, images)
            .await
            .map_err(|error| format!("{error:#}; give its content by --catalog {}=DIR", id.1)),
        None => {
            Err(format!("it has no image that could be read from here: give its content by --catalog {}=DIR", id.1))
        }
    };
    let visible = Visible {
        uid: text(&source.metadata.uid),
        priority: source.spec.priority,
        health: Some(read.as_ref().map(drop).map_err(Clone::clone)),
        content: read.ok(),
        ..Visible::default()
    };
    (id, visible)
}

async fn content(place: &str, images: &ImageSource) -> anyhow::Result<Arc<Content>> {
    let catalog = input::catalog(place, images).await?;
    Ok(store::content(&catalog.folder, None)?.content)
}

/// The parts that have this Subscription; all of them without one.
fn parts<'a>(round: &'a Round, only: Option<&'a str>) -> impl Iterator<Item = &'a Part> {
    round.answer.parts.iter().filter(move |part| only.is_none_or(|name| part.subscriptions.contains(name)))
}

fn exit(rounds: &[Round], only: Option<&str>) -> Exit {
    let fails = |round: &Round| {
        round.held.is_some() || parts(round, only).any(|part| !matches!(part.outcome, Outcome::Install(_)))
    };
    if rounds.iter().any(fails) { Exit::Blocked } else { Exit::Success }
}

fn of_round(round: &Round) -> Value {
    let new = |it: &New| {
        json!({"name": it.name, "package": it.package, "channel": it.channel, "replaces": it.replaces, "image": it.image,
            "catalog": {"namespace": it.catalog.0, "name": it.catalog.1}, "subscriptions": it.subscriptions,
            "reasons": it.reasons})
    };
    let failures = round.answer.parts.iter().filter_map(|part| match &part.outcome {
        Outcome::Install(_) => None,
        Outcome::GaveUp => Some(json!({"subscriptions": part.subscriptions, "message": GAVE_UP})),
        Outcome::Impossible(failure) => {
            Some(json!({"subscriptions": failure.subscriptions, "message": failure.message,
            "explanation": failure.explanation}))
        }
    });
    json!({"held": round.held, "install": round.installs().into_iter().map(new).collect::<Vec<_>>(),
        "failures": failures.collect::<Vec<_>>(), "manual": round.manual})
}

const GAVE_UP: &str = "gave up: there are more combinations of versions than can be tried";

/// `only`: the parts that have this Subscription.
fn text(rounds: &[Round], only: Option<&str>, page: &Page) -> String {
    let mut out = String::new();
    for (number, round) in rounds.iter().enumerate() {
        if rounds.len() > 1 {
            layout::line(page, &mut out, &format!("round {}", number + 1), Colour::Strong);
        }
        if let Some(cause) = &round.held {
            layout::paragraph(page, &mut out, "", &format!("nothing is looked for: {cause}"), Colour::Bad);
        }
        let mut is_empty = true;
        for part in parts(round, only) {
            match &part.outcome {
                Outcome::Install(new) => {
                    is_empty &= new.is_empty();
                    new.iter().for_each(|new| told(new, &mut out, page));
                }
                Outcome::GaveUp => layout::paragraph(page, &mut out, "", GAVE_UP, Colour::Bad),
                Outcome::Impossible(failure) => {
                    is_empty = false;
                    layout::paragraph(page, &mut out, "", &failure.message, Colour::Bad);
                    for line in failure.explanation.lines() {
                        layout::paragraph(page, &mut out, "  ", line, Colour::Plain);
                    }
                }
            }
        }
        if is_empty && round.held.is_none() {
            out.push_str("nothing is to be installed\n");
        } else if !round.manual.is_empty() && !round.installs().is_empty() {
            let names = round.manual.join(", ");
            let text = format!("somebody has to approve it, because of the Subscriptions {names}");
            layout::paragraph(page, &mut out, "", &text, Colour::Busy);
        }
    }
    out
}

fn told(new: &New, out: &mut String, page: &Page) {
    let replaces = if new.replaces.is_empty() { String::new() } else { format!(", in the place of {}", new.replaces) };
    let (namespace, catalog) = &new.catalog;
    let line = format!("{}{replaces}: channel {} of catalog {namespace}/{catalog}", new.name, new.channel);
    layout::line(page, out, &clean(&line), Colour::Good);
    for reason in &new.reasons {
        layout::paragraph(page, out, "  ", reason, Colour::Plain);
    }
}

#[cfg(test)]
mod tests;
