//! The bundles that Subscriptions and dependencies can be met by, the most preferred first.

use super::constraint::Constraint as Requirement;
use super::operator::Operator;
use super::package::{Entry, Package};
use super::world::{Catalog, Subscription, World};
use std::cmp::Reverse;
use std::sync::Arc;

/// A bundle in a channel of a catalog.
#[derive(Clone, Debug)]
pub(crate) struct Candidate {
    /// By its place in the world.
    pub catalog: usize,
    pub package: Arc<Package>,
    pub channel: String,
    pub entry: Entry,
}

/// By which a bundle of a catalog is known in texts.
pub(super) fn bundle_identifier((namespace, catalog): (&str, &str), channel: &str, name: &str) -> String {
    format!("{catalog}/{namespace}/{channel}/{name}")
}

/// By what a catalog comes before others: that it is `own`, its priority, that it is of the same namespace, its name.
pub(super) fn preference(world: &World, catalog: usize, own: Option<usize>) -> impl Ord + use<> {
    let of = world.catalogs.get(catalog);
    let here = of.is_some_and(|it| it.namespace == world.namespace);
    let name = of.map(|it| (it.name.clone(), it.namespace.clone()));
    (own != Some(catalog), Reverse(of.map(|it| it.priority)), !here, name)
}

/// The bundles that a Subscription can be met by; why there are none by the text of a constraint. Where other catalogs may stand in
/// for its own, heads of channels in them come after what its own has, and then the rest.
pub(super) fn offered(
    world: &World,
    subscription: &Subscription,
    installed: Option<&Operator>,
) -> Result<Vec<Candidate>, String> {
    let (namespace, name) = &subscription.catalog;
    let own = world.catalogs.iter().position(|it| it.namespace == *namespace && it.name == *name);
    let of_own = offered_by(world, own, subscription, installed);
    if !subscription.other_catalogs {
        return of_own.map(|found| found.into_iter().map(|(_, candidate)| candidate).collect());
    }
    let mut others: Vec<usize> = (0..world.catalogs.len()).filter(|at| Some(*at) != own).collect();
    others.sort_by_key(|at| preference(world, *at, own));
    let of_others = others.into_iter().filter_map(|at| offered_by(world, Some(at), subscription, installed).ok());
    let (heads, rest): (Vec<_>, Vec<_>) = of_others.flatten().partition(|(is_head, _)| *is_head);
    let found = match of_own {
        Err(text) if heads.is_empty() && rest.is_empty() => return Err(text),
        found => found.unwrap_or_default(),
    };
    Ok(found.into_iter().chain(heads).chain(rest).map(|(_, candidate)| candidate).collect())
}

/// Those of a catalog, and whether each is the head of its channel.
fn offered_by(
    world: &World,
    catalog: Option<usize>,
    subscription: &Subscription,
    installed: Option<&Operator>,
) -> Result<Vec<(bool, Candidate)>, String> {
    let Subscription { name, package: wanted, channel, starting_csv, .. } = subscription;
    let found = catalog.and_then(|at| world.catalogs.get(at).map(|it| (at, it)));
    let (at, offers) = found.filter(|(_, it)| !it.is_empty()).ok_or_else(|| {
        let (namespace, catalog) = &subscription.catalog;
        format!("no operators found from catalog {catalog} in namespace {namespace} referenced by subscription {name}")
    })?;
    let of_catalog = format!("in the catalog referenced by subscription {name}");
    let package = offers.package(wanted);
    let package = package.ok_or_else(|| format!("no operators found in package {wanted} {of_catalog}"))?;
    let channels = || package.channels_in_order().filter(|(it, _)| channel.is_empty() || channel == it);
    if channels().all(|(_, entries)| entries.is_empty()) {
        return Err(format!("no operators found in channel {channel} of package {wanted} {of_catalog}"));
    }
    let starts = |entry: &Entry| installed.is_some() || starting_csv.is_empty() || entry.operator.name == *starting_csv;
    if !channels().any(|(_, entries)| entries.iter().any(starts)) {
        let place = format!("with name {starting_csv} in channel {channel} of package {wanted}");
        return Err(format!("no operators found {place} {of_catalog}"));
    }
    let mut candidates = Vec::new();
    for (channel, _) in channels() {
        let entries = package.in_order(channel, starts).map_err(|error| error.to_string())?;
        let follows = |entry: &Entry| installed.is_none_or(|installed| entry.follows(installed));
        for (place, entry) in entries.into_iter().enumerate().filter(|(_, entry)| follows(entry)) {
            let (package, channel) = (package.clone(), channel.to_owned());
            candidates.push((place == 0, Candidate { catalog: at, package, channel, entry: entry.clone() }));
        }
    }
    Ok(candidates)
}

/// The bundles of a catalog that meet a requirement: those in default channels first, then by package and channel, from the head
/// of each down. A channel without an order has none.
pub(super) fn meeting(catalog: usize, offers: &Catalog, requirement: &Requirement) -> Vec<Candidate> {
    let packages = offers.that_meet(requirement);
    let mut channels: Vec<(bool, &str, &str, &Arc<Package>)> = packages
        .iter()
        .flat_map(|package| {
            let other = |channel: &str| channel != package.default_channel;
            package
                .channels
                .keys()
                .map(move |channel| (other(channel), package.name.as_str(), channel.as_str(), package))
        })
        .collect();
    channels.sort_by_key(|(other, package, channel, _)| (*other, *package, *channel));
    let mut found = Vec::new();
    for (_, _, channel, package) in channels {
        let entries = package.in_order(channel, |_| true).unwrap_or_default();
        found.extend(entries.into_iter().filter(|entry| entry.operator.meets(requirement)).map(|entry| Candidate {
            catalog,
            package: package.clone(),
            channel: channel.to_owned(),
            entry: entry.clone(),
        }));
    }
    found
}
