//! Why a ClusterServiceVersion is not, or not yet, what a Subscription gets, in sentences, and what could be changed.

use super::forecast::{GAVE_UP, Hypothesis, Rounds};
use super::{Gate, Standing};
use crate::error::listed;
use crate::olm::api::subscription::{Approval, Subscription};
use crate::olm::resolve::rule::ClusterVersions;
use crate::olm::resolve::why_not::{Demanded, Place, demanded, place};
use crate::olm::resolve::world;
use crate::olm::solve::Limits;
use serde::Serialize;
use std::sync::Arc;

/// Rounds that are tried.
const ROUNDS: usize = 100;
/// Bytes of names that are listed.
const NAMES: usize = 1000;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WhyNot {
    /// It is installed, or it is what comes next and nobody has to do anything.
    pub is_coming: bool,
    /// What is so, a line each.
    pub lines: Vec<String>,
    /// What could be changed.
    pub ways: Vec<String>,
}

impl WhyNot {
    fn of(line: String, ways: impl IntoIterator<Item = String>) -> WhyNot {
        WhyNot { is_coming: false, lines: vec![line], ways: ways.into_iter().collect() }
    }
}

fn names<'a>(all: impl IntoIterator<Item = &'a String>) -> String {
    let all: Vec<&str> = all.into_iter().map(String::as_str).collect();
    listed(&all, ", ", NAMES, |rest| format!("and {rest} more"))
}

struct Question<'a> {
    hypothesis: &'a Hypothesis,
    name: &'a str,
    csv: &'a str,
    cluster: &'a ClusterVersions,
    limits: &'a Limits,
}

impl Hypothesis {
    /// Why a Subscription does not get this ClusterServiceVersion; `None` if there is no such Subscription.
    pub(crate) fn why_not(&self, name: &str, csv: &str, cluster: &ClusterVersions, limits: &Limits) -> Option<WhyNot> {
        let subscription = self.subscription(name)?;
        let question = Question { hypothesis: self, name, csv, cluster, limits };
        Some(question.answer(subscription, &self.facts().standing(subscription)))
    }
}

impl Question<'_> {
    fn answer(&self, subscription: &Subscription, standing: &Standing<'_>) -> WhyNot {
        let (csv, name, namespace) = (self.csv, self.name, &self.hypothesis.namespace);
        if standing.installed == csv {
            let line = format!("{csv} is installed for Subscription {name}.");
            return WhyNot { is_coming: true, lines: vec![line], ways: Vec::new() };
        }
        let waiting = standing.plan.filter(|plan| plan.is_open() && plan.csvs.contains(csv));
        if let Some(plan) = waiting {
            let line = format!("InstallPlan {} has {csv}, and waits for an approval.", plan.name);
            return WhyNot::of(line, [format!("approve it: cvo olm approve {} -n {namespace}", plan.name)]);
        }
        let inputs = match self.hypothesis.facts().gate() {
            Gate::Open(inputs) => inputs,
            Gate::Closed(cause) => return WhyNot::of(format!("Nothing is looked for: {cause}."), [repaired()]),
            Gate::Waiting => {
                let cause = self.hypothesis.round(self.cluster, self.limits).held.unwrap_or_default();
                return WhyNot::of(
                    format!("Nothing is looked for: {cause}."),
                    ["wait until that has ended".to_owned()],
                );
            }
        };
        let world = match inputs.world(self.cluster) {
            Ok(world) => world,
            Err(cause) => return WhyNot::of(format!("Nothing is looked for: {cause}."), [repaired()]),
        };
        let Some(of_world) = world.subscriptions.iter().find(|it| it.name == name) else { return WhyNot::default() };
        match place(&world, of_world, csv) {
            Place::Candidate => self.candidate(&world, of_world, subscription),
            Place::Later => self.later(of_world),
            place => self.placed(&place, of_world),
        }
    }

    /// What the catalog alone says.
    fn placed(&self, place: &Place, of: &world::Subscription) -> WhyNot {
        let (csv, name, package) = (self.csv, self.name, &of.package);
        let catalog = format!("{}/{}", of.catalog.0, of.catalog.1);
        let channel = match of.channel.as_str() {
            "" => format!("the channels of package {package}"),
            channel => format!("channel {channel}"),
        };
        match place {
            Place::NoCatalog => WhyNot::of(
                format!("Subscription {name} names catalog {catalog}, of which there is no content in this namespace."),
                [format!("correct spec.source and spec.sourceNamespace of Subscription {name}")],
            ),
            Place::NoPackage => WhyNot::of(
                format!("Catalog {catalog} has no package {package}."),
                [format!("correct spec.name or spec.source of Subscription {name}")],
            ),
            Place::Unknown(has) => WhyNot::of(
                format!("Package {package} of catalog {catalog} has no {csv}: it has {}.", names(has)),
                ["name one of these, or wait until the catalog has it".to_owned()],
            ),
            Place::OtherChannels(channels) => WhyNot::of(
                format!("Subscription {name} follows {channel}, and {csv} is only in {}.", names(channels)),
                channels.iter().map(|it| format!("set spec.channel of Subscription {name} to {it}")),
            ),
            Place::Disordered(cause) => WhyNot::of(
                format!("Nothing of {channel} can be chosen: {cause}."),
                [format!("correct the channel in catalog {catalog}")],
            ),
            Place::Skipped(by) => WhyNot::of(
                format!(
                    "{csv} is skipped by {} in {channel}: nobody is led to a version that another one skips.",
                    names(by)
                ),
                [self.anew(of)],
            ),
            Place::Apart => WhyNot::of(
                format!("No version of {channel} leads to {csv}."),
                [format!("correct the channel in catalog {catalog}"), self.anew(of)],
            ),
            Place::Older if of.installed_csv.is_empty() => WhyNot::of(
                format!("Subscription {name} begins with {}, which {csv} does not follow.", of.starting_csv),
                [format!("delete Subscription {name}, and subscribe with spec.startingCSV {csv}")],
            ),
            Place::Older => WhyNot::of(
                format!("{} is installed, which follows {csv}: no update leads back.", of.installed_csv),
                [self.anew(of)],
            ),
            Place::Unreachable => WhyNot::of(
                format!("{} is installed, and no update of {channel} leads from it to {csv}.", of.installed_csv),
                [self.anew(of)],
            ),
            Place::Installed | Place::Candidate | Place::Later => WhyNot::default(),
        }
    }

    /// How to begin with it.
    fn anew(&self, of: &world::Subscription) -> String {
        let (name, csv) = (self.name, self.csv);
        match of.installed_csv.as_str() {
            "" => format!("delete Subscription {name}, and subscribe with spec.startingCSV {csv}"),
            installed => format!(
                "delete Subscription {name} and ClusterServiceVersion {installed}, and subscribe with spec.startingCSV {csv} and \
                 installPlanApproval Manual; whether the objects of the operator fit the other version is for its author to say"
            ),
        }
    }

    /// Its channel leads to it.
    fn candidate(&self, world: &world::World, of: &world::Subscription, subscription: &Subscription) -> WhyNot {
        let (csv, name) = (self.csv, self.name);
        let round = self.hypothesis.round(self.cluster, self.limits);
        if round.installs().iter().any(|new| new.name == csv) {
            let next = format!("{csv} is what Subscription {name} gets next.");
            return self.comes(next);
        }
        if of.waits {
            let line =
                format!("{csv} follows {}, which is not ready yet: nothing follows it before that.", of.installed_csv);
            return WhyNot::of(line, [format!("see what ClusterServiceVersion {} waits for", of.installed_csv)]);
        }
        match demanded(world, name, csv, self.limits) {
            Demanded::Impossible(chain) => {
                let lines = std::iter::once(format!("{csv} cannot be together with what else is wanted or installed:"));
                // The ways out are part of the chain.
                WhyNot {
                    is_coming: false,
                    lines: lines.chain(chain.lines().map(ToOwned::to_owned)).collect(),
                    ways: Vec::new(),
                }
            }
            Demanded::GaveUp => {
                WhyNot::of(format!("{GAVE_UP}."), ["subscribe to fewer packages in the namespace".to_owned()])
            }
            Demanded::NoCandidate => self.later(of),
            Demanded::Possible => self.passed_over(&round, of, subscription),
        }
    }

    /// It comes by itself, unless a Subscription of the namespace asks for approvals.
    fn comes(&self, line: String) -> WhyNot {
        let is_manual = |it: &&Arc<Subscription>| it.spec.install_plan_approval == Some(Approval::Manual);
        let Some(manual) = self.hypothesis.subscriptions.iter().find(is_manual) else {
            return WhyNot { is_coming: true, lines: vec![line], ways: Vec::new() };
        };
        let manual = manual.metadata.name.as_deref().unwrap_or_default();
        let line = format!("{line} Somebody has to approve each InstallPlan, because Subscription {manual} says so.");
        let namespace = &self.hypothesis.namespace;
        WhyNot::of(line, [format!("approve the plan once it is there: cvo olm list -n {namespace}")])
    }

    /// It could be, and something else is preferred.
    fn passed_over(
        &self,
        round: &super::forecast::Round,
        of: &world::Subscription,
        subscription: &Subscription,
    ) -> WhyNot {
        let (csv, name) = (self.csv, self.name);
        let chosen = round.installs().into_iter().find(|new| new.subscriptions.contains(name));
        let Some(chosen) = chosen else {
            let line =
                format!("{csv} could be, but not together with what other Subscriptions of the namespace prefer.");
            return WhyNot::of(
                line,
                [format!("cvo olm why {name} -n {} says what they get", self.hypothesis.namespace)],
            );
        };
        let line = format!(
            "{csv} could be, and {} is preferred to it: of all that may follow, the nearest to the head of the channel is taken.",
            chosen.name
        );
        let is_new = of.installed_csv.is_empty() && subscription.spec.starting_csv.is_empty();
        let way = if is_new {
            self.anew(of)
        } else {
            format!("nothing has to be done: {} has what {csv} brings", chosen.name)
        };
        WhyNot::of(line, [way])
    }

    /// Others come before it.
    fn later(&self, of: &world::Subscription) -> WhyNot {
        let (csv, name) = (self.csv, self.name);
        let (mut rounds, mut path) = (Rounds::of(self.hypothesis.clone(), ROUNDS), Vec::new());
        while let Some(round) = rounds.next(self.cluster, self.limits) {
            let of_this = round.installs().into_iter().find(|new| new.subscriptions.contains(name));
            path.extend(of_this.map(|new| new.name.clone()));
            if path.last().is_some_and(|last| last == csv) {
                let count = path.len();
                let line = format!(
                    "{csv} comes in round {count}, each of which begins once the version before is ready: {}.",
                    names(&path)
                );
                return self.comes(line);
            }
        }
        let from = if of.installed_csv.is_empty() { &of.starting_csv } else { &of.installed_csv };
        let line = match path.as_slice() {
            [] => format!("{csv} follows {from} by others in between, and none of these can be installed."),
            path => format!("The updates of Subscription {name} lead by {} past {csv}.", names(path)),
        };
        WhyNot::of(line, [format!("cvo olm plan --to-head -n {} says what is in the way", self.hypothesis.namespace)])
    }
}

fn repaired() -> String {
    "repair that: nothing else counts before".to_owned()
}
