//! Why nothing can be installed, as a chain that an administrator can follow from what is asked for to what is in its way, and what
//! could be changed.

use super::constraint::{Constraint as Requirement, Demand};
use super::operator::Operator;
use super::package::Entry;
use super::problem::{Problem, Variable, What};
use super::world::{Catalog, Subscription, World};
use crate::error::shortened;
use crate::olm::solve::{Constraint, Place};
use std::collections::BTreeSet;
use std::fmt::Write;

/// Bytes of an explanation.
const MAX_BYTES: usize = 32 * 1024;
/// Candidates that a line names.
const MAX_NAMES: usize = 8;

struct Explanation<'a> {
    world: &'a World,
    problem: &'a Problem,
    core: &'a BTreeSet<Place>,
    lines: Vec<String>,
    told: BTreeSet<Place>,
    /// What could be changed, each once.
    ways: BTreeSet<String>,
}

/// The constraints that cannot hold together as numbered lines, each once, and below them the ways out.
pub(crate) fn explain(world: &World, problem: &Problem, core: &BTreeSet<Place>) -> String {
    let (lines, told, ways) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
    let mut explanation = Explanation { world, problem, core, lines, told, ways };
    let variables: BTreeSet<usize> = core.iter().map(|place| place.variable).collect();
    let is_subscription =
        |at: &&usize| matches!(explanation.variable(**at), Some(Variable { what: What::Subscription(_), .. }));
    let (subscriptions, others): (Vec<&usize>, Vec<&usize>) = variables.iter().partition(is_subscription);
    for variable in subscriptions.into_iter().chain(others) {
        explanation.tell(*variable);
    }
    let mut text = String::new();
    for (number, line) in explanation.lines.iter().enumerate() {
        let _ = writeln!(text, "{}. {line}", number + 1);
    }
    text.push_str("What would help, one of:\n");
    for way in &explanation.ways {
        let _ = writeln!(text, "- {way}");
    }
    shortened(text.trim_end(), MAX_BYTES).into_owned()
}

impl<'a> Explanation<'a> {
    fn variable(&self, at: usize) -> Option<&'a Variable> {
        self.problem.variables.get(at)
    }

    /// Tells all constraints of a variable that count, and then of those that it leads to.
    fn tell(&mut self, first: usize) {
        let mut open = vec![first];
        while let Some(at) = open.pop() {
            let Some(variable) = self.variable(at) else { continue };
            let mut next = Vec::new();
            for (constraint, (what, text)) in variable.constraints.iter().enumerate() {
                let place = Place { variable: at, constraint };
                if self.core.contains(&place) && self.told.insert(place) {
                    next.extend(self.constraint((at, variable), what, text));
                }
            }
            open.extend(next.into_iter().rev());
        }
    }

    /// Tells a constraint; the variables that it leads to.
    fn constraint(&mut self, (at, variable): (usize, &Variable), what: &Constraint, text: &str) -> Vec<usize> {
        match what {
            Constraint::Mandatory => self.wanted(variable),
            Constraint::Prohibited => self.prohibited(variable, text),
            Constraint::Dependency(candidates) => {
                self.dependency(variable, candidates, text);
                return candidates.clone();
            }
            Constraint::Conflict(other) => {
                let [new, old] = [at, *other].map(|it| self.named(it));
                self.lines.push(format!("{new} would take the place of {old} so that both cannot be."));
                return vec![*other];
            }
            Constraint::AtMost(_, all) => self.at_most_one(variable, all),
        }
        Vec::new()
    }

    fn subscription(&self, at: usize) -> Option<&'a Subscription> {
        self.world.subscriptions.get(at)
    }

    fn named(&self, at: usize) -> String {
        match self.variable(at).map(|it| (&it.what, it)) {
            Some((What::Installed(operator), _)) => format!("{} (installed)", operator.name),
            Some((What::Candidate(candidate), _)) => {
                let catalog = self.world.catalogs.get(candidate.catalog).map(|it| it.name.as_str()).unwrap_or_default();
                format!("{} (channel {} of {catalog})", candidate.entry.operator.name, candidate.channel)
            }
            Some((_, variable)) => variable.identifier.clone(),
            None => String::new(),
        }
    }

    fn all_named(&self, variables: &[usize]) -> String {
        let mut names: Vec<String> = variables.iter().take(MAX_NAMES).map(|it| self.named(*it)).collect();
        if let Some(more) = variables.len().checked_sub(MAX_NAMES).filter(|more| *more > 0) {
            names.push(format!("and {more} more"));
        }
        names.join(", ")
    }

    fn wanted(&mut self, variable: &Variable) {
        match &variable.what {
            What::Subscription(at) => {
                let Some(subscription) = self.subscription(*at) else { return };
                let Subscription { name, package, channel, catalog, installed_csv, .. } = subscription;
                let channel = if channel.is_empty() { String::new() } else { format!(", channel {channel}") };
                let installed = if installed_csv.is_empty() {
                    String::new()
                } else {
                    format!(" {installed_csv} is installed for it.")
                };
                let others = if subscription.other_catalogs { " or another one" } else { "" };
                let place = format!("of catalog {}/{}{others}", catalog.0, catalog.1);
                self.lines.push(format!("Subscription {name} asks for package {package}{channel} {place}.{installed}"));
                self.ways.insert(format!("change or delete Subscription {name}"));
            }
            What::Installed(operator) => {
                let name = &operator.name;
                let (why, way) = match self.world.subscriptions.iter().find(|it| it.installed_csv == *name) {
                    None => ("no Subscription names it".to_owned(), "make a Subscription for it".to_owned()),
                    Some(Subscription { name, .. }) => {
                        (format!("its Subscription {name} cannot be met"), format!("correct Subscription {name}"))
                    }
                };
                self.lines.push(format!("{name} is installed and {why}, so that it stays as it is."));
                self.ways.insert(format!("delete ClusterServiceVersion {name}, or {way}"));
            }
            _ => {}
        }
    }

    fn prohibited(&mut self, variable: &Variable, text: &str) {
        self.lines.push(format!("{text}."));
        match &variable.what {
            What::Subscription(at) => {
                let Some(Subscription { name, catalog: (namespace, catalog), .. }) = self.subscription(*at) else {
                    return;
                };
                self.ways
                    .insert(format!("correct Subscription {name}, or what CatalogSource {namespace}/{catalog} offers"));
            }
            _ => {
                self.ways.insert(format!("another version than {} in its catalog", variable.identifier));
            }
        }
    }

    fn dependency(&mut self, variable: &Variable, candidates: &[usize], text: &str) {
        match (&variable.what, candidates) {
            (What::Subscription(_), []) => self.lines.push(format!("{text}.")),
            (What::Subscription(_), some) => self.lines.push(format!("For it there is {}.", self.all_named(some))),
            (_, some) => {
                let name = variable.operator().map(|it| it.name.as_str()).unwrap_or_default();
                let requirement =
                    text.split_once(" requires an operator ").map_or(text, |(_, requirement)| requirement);
                let met = match some {
                    [] => format!("no catalog offers one: {}", self.near(variable, text)),
                    some => format!("there is {}", self.all_named(some)),
                };
                self.lines.push(format!("{name} requires an operator {requirement}; {met}."));
                if some.is_empty() {
                    self.ways.insert(format!("a catalog that offers an operator {requirement}"));
                }
            }
        }
    }

    /// What the catalogs have that is close to what is required, and what the author of the requirement says.
    fn near(&self, variable: &Variable, text: &str) -> String {
        let written = |it: &&Requirement| text.ends_with(&it.to_string());
        let Some(required) = variable.operator().and_then(|operator| operator.requires.iter().find(written)) else {
            return String::new();
        };
        let mut found: Vec<String> = self.world.catalogs.iter().flat_map(|it| close(it, required)).collect();
        found.sort();
        if found.is_empty() {
            let names = self.world.catalogs.iter().map(|it| format!("{}/{}", it.namespace, it.name));
            found.push(format!("looked at {}", Vec::from_iter(names.collect::<BTreeSet<_>>()).join(", ")));
        }
        let more = found.len().saturating_sub(MAX_NAMES);
        found.truncate(MAX_NAMES);
        found.extend((more > 0).then(|| format!("and {more} more")));
        let found = found.join("; ");
        required.failure_message.as_ref().map_or(found.clone(), |message| format!("{message:?} ({found})"))
    }

    fn at_most_one(&mut self, variable: &Variable, all: &[usize]) {
        // Only those that the rest is about.
        let of_core: BTreeSet<usize> = self.core.iter().flat_map(|place| self.variables(*place)).collect();
        let mut named: Vec<usize> = all.iter().copied().filter(|it| of_core.contains(it)).collect();
        if named.is_empty() {
            named = all.to_vec();
        }
        let names = self.all_named(&named);
        self.lines.push(match &variable.what {
            What::Api(api) => format!("Only one operator can provide {api}, and these do: {names}."),
            What::Package(package) => format!("Only one operator of package {package} can be: {names}."),
            What::Name(name, packages) => {
                let packages = packages.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
                format!(
                    "Only one ClusterServiceVersion {name} can be, and packages {packages} each have one of that name."
                )
            }
            _ => format!("Only one of these can be: {names}."),
        });
    }

    /// The variable of a constraint and those that it may choose.
    fn variables(&self, place: Place) -> Vec<usize> {
        let constraint = self.variable(place.variable).and_then(|it| it.constraints.get(place.constraint));
        let mut found = vec![place.variable];
        if let Some((Constraint::Dependency(candidates), _)) = constraint {
            found.extend(candidates);
        }
        found
    }
}

/// What a catalog has that would do, but for one thing.
fn close(catalog: &Catalog, required: &Requirement) -> Vec<String> {
    let place = format!("{}/{}", catalog.namespace, catalog.name);
    let mut found = Vec::new();
    for package in catalog.that_meet(required) {
        for (channel, entries) in &package.channels {
            let meets = |entry: &&Entry| entry.operator.meets(required);
            match package.in_order(channel, |_| true) {
                Err(error) => found.push(format!("{place}: {error}")),
                Ok(order) if order.iter().any(meets) => {}
                Ok(_) => found.extend(entries.iter().filter(meets).map(|entry| {
                    let name = &entry.operator.name;
                    let skips = entries.iter().find(|other| other.skips.contains(name));
                    let by = skips.map_or("nothing leads to it", |_| "it is skipped");
                    let by = skips.map_or_else(|| by.to_owned(), |other| format!("{by} by {}", other.operator.name));
                    format!("{place} has {name} in channel {channel}, but {by}")
                })),
            }
        }
    }
    for package in packages(required).iter().filter_map(|name| catalog.package(name)) {
        let mut all: Vec<&Operator> = package.channels.values().flatten().map(|it| &*it.operator).collect();
        all.sort_by(|a, b| b.version.cmp(&a.version));
        all.dedup_by(|a, b| a.version == b.version);
        let versions: Vec<String> = all.into_iter().take(MAX_NAMES).map(version).collect();
        found.push(format!("{place} has {} {}", package.name, versions.join(", ")));
    }
    found
}

/// The packages that a requirement names.
fn packages(requirement: &Requirement) -> BTreeSet<String> {
    match &requirement.demand {
        Demand::Package { name, .. } => [name.clone()].into(),
        Demand::All(list) | Demand::Any(list) => list.iter().flat_map(packages).collect(),
        _ => BTreeSet::new(),
    }
}

fn version(operator: &Operator) -> String {
    operator.version.as_ref().map_or_else(|| operator.name.clone(), ToString::to_string)
}
