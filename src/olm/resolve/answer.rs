//! The answer for a namespace in a form that outlives the catalogs it was made of.

use super::candidates::{Candidate, bundle_identifier};
use super::explain::explain;
use super::problem::{Problem, Variable, What};
use super::world::{Subscription, World};
use super::{Resolution, Verdict, resolve};
use crate::error::listed;
use crate::olm::solve::{Constraint, Limits};
use serde_json::Value;
use std::collections::BTreeSet;

/// Bytes of the bundles that would have been preferred.
const MAX_PASSED: usize = 500;

/// Namespace and name.
pub(crate) type Id = (String, String);

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Answer {
    pub parts: Vec<Part>,
}

/// Subscriptions that have to do with each other, and what is found for them.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Part {
    /// Names of Subscriptions.
    pub subscriptions: BTreeSet<String>,
    pub outcome: Outcome,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Outcome {
    /// By name; none if all is as it should be.
    Install(Vec<New>),
    Impossible(Failure),
    /// There are more possibilities than can be tried.
    GaveUp,
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Failure {
    /// In one line: `constraints not satisfiable: …`.
    pub message: String,
    /// As a chain of lines, with ways out.
    pub explanation: String,
    /// The Subscriptions that take part in it.
    pub subscriptions: BTreeSet<String>,
}

/// A bundle that is to be installed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct New {
    /// Of its ClusterServiceVersion.
    pub name: String,
    pub package: String,
    pub channel: String,
    pub catalog: Id,
    /// Empty if the catalog itself has its manifests.
    pub image: String,
    /// The ClusterServiceVersion whose place it takes, or that the catalog names; empty if there is none.
    pub replaces: String,
    /// Type and value of each property that the catalog says of it.
    pub properties: Vec<(String, Value)>,
    /// Names of the Subscriptions that it is for; none if only others depend on it.
    pub subscriptions: BTreeSet<String>,
    /// Who wants it, and what would have been preferred.
    pub reasons: Vec<String>,
}

impl Answer {
    /// Whether there is one for each part.
    pub(crate) fn is_whole(&self) -> bool {
        self.parts.iter().all(|part| matches!(part.outcome, Outcome::Install(_)))
    }
}

impl Part {
    /// What is to be installed; nothing where that cannot be.
    pub(crate) fn installs(&self) -> &[New] {
        match &self.outcome {
            Outcome::Install(new) => new,
            Outcome::Impossible(_) | Outcome::GaveUp => &[],
        }
    }
}

/// What is to be installed in a world.
pub(crate) fn answer(world: &World, limits: &Limits) -> Answer {
    let resolution = resolve(world, limits);
    let parts = resolution.parts.iter().map(|part| Part {
        subscriptions: part.subscriptions.iter().filter_map(|at| name(world, *at)).collect(),
        outcome: match &part.verdict {
            Verdict::Install(candidates) => {
                let reasons = Reasons { world, problem: &resolution.problem, chosen: identifiers(world, candidates) };
                Outcome::Install(candidates.iter().map(|it| new(world, it, &reasons)).collect())
            }
            Verdict::Impossible(core) => Outcome::Impossible(Failure {
                message: resolution.problem.message(core),
                explanation: explain(world, &resolution.problem, core),
                subscriptions: concerned(world, &resolution, core.iter().map(|place| place.variable)),
            }),
            Verdict::GaveUp => Outcome::GaveUp,
        },
    });
    Answer { parts: parts.collect() }
}

fn name(world: &World, at: usize) -> Option<String> {
    world.subscriptions.get(at).map(|it| it.name.clone())
}

fn concerned(world: &World, resolution: &Resolution, core: impl Iterator<Item = usize>) -> BTreeSet<String> {
    let subscription = |at: usize| match resolution.problem.variables.get(at)?.what {
        What::Subscription(at) => name(world, at),
        _ => None,
    };
    core.filter_map(subscription).collect()
}

/// Why bundles are chosen.
struct Reasons<'a> {
    world: &'a World,
    problem: &'a Problem,
    /// Identifiers of the variables of chosen bundles.
    chosen: BTreeSet<String>,
}

fn identifier(world: &World, candidate: &Candidate) -> String {
    let catalog = world.catalogs.get(candidate.catalog);
    let (name, namespace) = catalog.map(|it| (it.name.as_str(), it.namespace.as_str())).unwrap_or_default();
    bundle_identifier((namespace, name), &candidate.channel, &candidate.entry.operator.name)
}

fn identifiers(world: &World, candidates: &[Candidate]) -> BTreeSet<String> {
    candidates.iter().map(|candidate| identifier(world, candidate)).collect()
}

impl Reasons<'_> {
    /// Whoever needs one of several has the first of them that is chosen.
    fn of(&self, candidate: &Candidate) -> Vec<String> {
        let identifier = identifier(self.world, candidate);
        let variables = || self.problem.variables.iter();
        let is_true = |it: &&Variable| !matches!(it.what, What::Candidate(_)) || self.chosen.contains(&it.identifier);
        let mut reasons = Vec::new();
        for variable in variables().filter(is_true) {
            for (constraint, text) in &variable.constraints {
                let Constraint::Dependency(options) = constraint else { continue };
                let options: Vec<&Variable> = options.iter().filter_map(|at| self.problem.variables.get(*at)).collect();
                let first = options.iter().position(|it| self.chosen.contains(&it.identifier));
                let Some((before, [chosen, ..])) = first.and_then(|at| options.split_at_checked(at)) else { continue };
                if chosen.identifier == identifier {
                    reasons.push(self.told(variable, text, before));
                }
            }
        }
        reasons
    }

    fn told(&self, variable: &Variable, text: &str, before: &[&Variable]) -> String {
        let wanted = match &variable.what {
            What::Subscription(at) => format!("subscription {} asks for it", name(self.world, *at).unwrap_or_default()),
            _ => text.to_owned(),
        };
        if before.is_empty() {
            return wanted;
        }
        let names: Vec<&str> = before.iter().map(|it| it.identifier.as_str()).collect();
        let names = listed(&names, ", ", MAX_PASSED, |rest| format!("and {rest} more"));
        format!("{wanted}; preferred to it would have been {names}, which cannot be together with the others")
    }
}

fn new(world: &World, candidate: &Candidate, reasons: &Reasons<'_>) -> New {
    let Candidate { catalog, package, channel, entry } = candidate;
    let catalog = world.catalogs.get(*catalog);
    let name = &entry.operator.name;
    let image = catalog.and_then(|it| it.bundle(&package.name, name)?.image().map(ToOwned::to_owned));
    let of = catalog.map(|it| (it.namespace.clone(), it.name.clone())).unwrap_or_default();
    let is_for = |it: &&Subscription| {
        let of_channel = it.channel.is_empty() || it.channel == *channel;
        it.package == package.name && of_channel && (it.other_catalogs || it.catalog == of)
    };
    let subscriptions = world.subscriptions.iter().filter(is_for).map(|it| it.name.clone()).collect();
    New {
        name: name.clone(),
        package: package.name.clone(),
        channel: channel.clone(),
        catalog: of,
        image: image.unwrap_or_default(),
        replaces: entry.replaces.clone().unwrap_or_default(),
        properties: entry.operator.properties().to_vec(),
        subscriptions,
        reasons: reasons.of(candidate),
    }
}
