//! Why a bundle is not what a Subscription gets now: what its catalog says of it, and what could not be if it were demanded.

use super::explain::explain;
use super::operator::Operator;
use super::package::{Entry, Package};
use super::problem::{Problem, What};
use super::world::{Subscription, World};
use crate::olm::solve::{self, Constraint, Limits, Outcome};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// How a bundle stands to a Subscription.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    NoCatalog,
    NoPackage,
    /// The package has these and not that one.
    Unknown(BTreeSet<String>),
    /// It is only in these.
    OtherChannels(BTreeSet<String>),
    /// The channel has no order.
    Disordered(String),
    /// By these, and nothing is led to it.
    Skipped(BTreeSet<String>),
    /// Nothing leads to it, although nobody skips it.
    Apart,
    /// It is installed.
    Installed,
    /// What is installed follows it, directly or not.
    Older,
    /// The Subscription could have it now, as far as its channel says.
    Candidate,
    /// It follows what is installed, or what the Subscription begins with, by others in between.
    Later,
    /// It is in the channel, and what is installed leads to others only.
    Unreachable,
}

/// By the catalog alone.
pub(crate) fn place(world: &World, subscription: &Subscription, csv: &str) -> Place {
    let (namespace, catalog) = &subscription.catalog;
    let offers = world.catalogs.iter().find(|it| it.namespace == *namespace && it.name == *catalog);
    let Some(offers) = offers.filter(|it| !it.is_empty()) else { return Place::NoCatalog };
    let Some(package) = offers.package(&subscription.package) else { return Place::NoPackage };
    let all = || package.channels.values().flatten();
    if subscription.installed_csv == csv {
        return Place::Installed;
    }
    if !all().any(|entry| entry.operator.name == csv) {
        return Place::Unknown(all().map(|entry| entry.operator.name.clone()).collect());
    }
    let has = |entries: &[Entry]| entries.iter().any(|entry| entry.operator.name == csv);
    let with: Vec<(&str, &[Entry])> = package.channels_in_order().filter(|(_, entries)| has(entries)).collect();
    let followed = |channel: &str| subscription.channel.is_empty() || subscription.channel == channel;
    let of_subscription: Vec<(&str, &[Entry])> = with.iter().copied().filter(|(name, _)| followed(name)).collect();
    if of_subscription.is_empty() {
        return Place::OtherChannels(with.iter().map(|(name, _)| (*name).to_owned()).collect());
    }
    let installed = world.installed.iter().find(|it| it.name == subscription.installed_csv);
    let places = of_subscription
        .iter()
        .map(|(channel, entries)| in_channel(&package, (channel, entries), (subscription, installed), csv));
    // Of several channels the one counts that comes nearest.
    places.min_by_key(nearness).unwrap_or(Place::Apart)
}

fn nearness(place: &Place) -> usize {
    match place {
        Place::Installed | Place::Candidate => 0,
        Place::Later => 1,
        Place::Older => 2,
        Place::Skipped(_) => 3,
        Place::Unreachable => 4,
        Place::Apart | Place::Disordered(_) => 5,
        Place::OtherChannels(_) | Place::Unknown(_) | Place::NoPackage | Place::NoCatalog => 6,
    }
}

fn in_channel(
    package: &Package,
    (channel, entries): (&str, &[Entry]),
    (subscription, installed): (&Subscription, Option<&Arc<Operator>>),
    csv: &str,
) -> Place {
    let order = match package.in_order(channel, |_| true) {
        Ok(order) => order,
        Err(error) => return Place::Disordered(error.to_string()),
    };
    let wanted = entries.iter().find(|entry| entry.operator.name == csv);
    let Some(wanted) = wanted else { return Place::Apart };
    let starts = &subscription.starting_csv;
    if installed.is_none() && starts == csv {
        return Place::Candidate;
    }
    if let Some(installed) = installed
        && leads(entries, &wanted.operator).contains(installed.name.as_str())
    {
        return Place::Older;
    }
    if !order.iter().any(|entry| entry.operator.name == csv) {
        let by = entries.iter().filter(|entry| entry.skips.iter().any(|skipped| skipped == csv));
        let by: BTreeSet<String> = by.map(|entry| entry.operator.name.clone()).collect();
        return if by.is_empty() { Place::Apart } else { Place::Skipped(by) };
    }
    match installed {
        Some(installed) if wanted.follows(installed) => Place::Candidate,
        Some(installed) if leads(entries, installed).contains(csv) => Place::Later,
        Some(_) => Place::Unreachable,
        None if starts.is_empty() => Place::Candidate,
        None => {
            let first = entries.iter().find(|entry| entry.operator.name == *starts);
            match first {
                Some(first) if leads(entries, &first.operator).contains(csv) => Place::Later,
                _ => Place::Older,
            }
        }
    }
}

/// All that follows an operator, directly or not.
fn leads<'a>(entries: &'a [Entry], from: &Operator) -> BTreeSet<&'a str> {
    let mut found: BTreeMap<&str, &Operator> = BTreeMap::new();
    let mut open: Vec<&Operator> = entries.iter().filter(|it| it.follows(from)).map(|it| &*it.operator).collect();
    while let Some(at) = open.pop() {
        if at.name != from.name && found.insert(&at.name, at).is_none() {
            open.extend(entries.iter().filter(|it| it.follows(at)).map(|it| &*it.operator));
        }
    }
    found.into_keys().collect()
}

/// What comes of it if a Subscription gets this bundle and no other one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Demanded {
    Possible,
    /// Why not, as a chain of lines with ways out.
    Impossible(String),
    GaveUp,
    /// It is none of those that the Subscription could have.
    NoCandidate,
}

/// Solves again, with the bundle demanded.
pub(crate) fn demanded(world: &World, subscription: &str, csv: &str, limits: &Limits) -> Demanded {
    let mut problem = Problem::of(world, limits);
    let is = |what: &What| match what {
        What::Subscription(at) => world.subscriptions.get(*at).is_some_and(|it| it.name == subscription),
        _ => false,
    };
    let names = |at: &usize| {
        let operator = problem.variables.get(*at).and_then(|it| it.operator());
        operator.is_some_and(|operator| operator.name == csv)
    };
    let Some(at) = problem.variables.iter().position(|variable| is(&variable.what)) else {
        return Demanded::NoCandidate;
    };
    let choices = problem.variables.get(at).into_iter().flat_map(|it| &it.constraints);
    let mut choice = choices.filter_map(|(constraint, _)| match constraint {
        Constraint::Dependency(choice) => Some(choice.iter().copied().filter(names).collect::<Vec<usize>>()),
        _ => None,
    });
    let Some(only) = choice.next().filter(|only| !only.is_empty()) else { return Demanded::NoCandidate };
    if let Some(variable) = problem.variables.get_mut(at) {
        for (constraint, _) in &mut variable.constraints {
            if let Constraint::Dependency(choice) = constraint {
                choice.clone_from(&only);
            }
        }
    }
    let parts = solve::solve(&problem.constraints(), limits);
    match parts.into_iter().find(|part| part.variables.contains(&at)).map(|part| part.outcome) {
        Some(Outcome::Chosen(_)) | None => Demanded::Possible,
        Some(Outcome::Impossible(core)) => Demanded::Impossible(explain(world, &problem, &core)),
        Some(Outcome::GaveUp) => Demanded::GaveUp,
    }
}
