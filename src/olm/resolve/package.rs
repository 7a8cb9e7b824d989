//! A package of a catalog as a resolver knows it, and the order in which the entries of a channel are preferred.

use super::operator::Operator;
use super::rule::ClusterVersions;
use crate::olm::catalog::index;
use crate::olm::version_range::VersionRange;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct Package {
    pub name: String,
    pub default_channel: String,
    /// By name.
    pub channels: BTreeMap<String, Vec<Entry>>,
}

/// A bundle in a channel.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub operator: Arc<Operator>,
    pub replaces: Option<String>,
    pub skips: Vec<String>,
    /// One that cannot be read counts as none.
    pub skip_range: Option<VersionRange>,
}

/// Why a channel has no order. Only those who use the channel are concerned.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum OrderError {
    #[error(
        "no channel heads (entries not replaced by another entry) found in channel {channel:?} of package {package:?}"
    )]
    NoHead { package: String, channel: String },
    #[error(
        "a cycle exists in the chain of replacement beginning with {head:?} in channel {channel:?} of package {package:?}"
    )]
    Cycle { package: String, channel: String, head: String },
    #[error(
        "a unique replacement chain within a channel is required to determine the relative order between channel entries, but \
         {} replacement chains were found in channel {channel:?} of package {package:?}: {}",
        .chains.len(), .chains.join(", ")
    )]
    Chains { package: String, channel: String, chains: Vec<String> },
}

impl Package {
    pub(crate) fn of(package: index::Package<'_>, cluster: &ClusterVersions) -> Self {
        let operators: BTreeMap<&str, Arc<Operator>> =
            package.bundles().map(|bundle| (bundle.name(), Arc::new(operator(bundle, cluster)))).collect();
        let entry = |entry: index::Entry<'_>| {
            Some(Entry {
                operator: operators.get(entry.name())?.clone(),
                replaces: entry.replaces().map(ToOwned::to_owned),
                skips: entry.skips().map(ToOwned::to_owned).collect(),
                skip_range: entry.skip_range().and_then(|range| VersionRange::parse(range).ok()),
            })
        };
        let channels = package.channels().map(|it| (it.name().to_owned(), it.entries().filter_map(entry).collect()));
        let default_channel = package.default_channel().map(index::Channel::name).unwrap_or_default();
        Package {
            name: package.name().to_owned(),
            default_channel: default_channel.to_owned(),
            channels: channels.collect(),
        }
    }

    /// The default channel, and then the others by name.
    pub(crate) fn channels_in_order(&self) -> impl Iterator<Item = (&str, &[Entry])> {
        let all = || self.channels.iter().map(|(name, entries)| (name.as_str(), entries.as_slice()));
        let default = all().filter(|(name, _)| *name == self.default_channel);
        default.chain(all().filter(|(name, _)| *name != self.default_channel))
    }

    /// The entries of a channel from its head down what each replaces, without those that another one skips. Only entries that
    /// `counts` are seen at all.
    pub(crate) fn in_order(&self, channel: &str, counts: impl Fn(&Entry) -> bool) -> Result<Vec<&Entry>, OrderError> {
        let all = self.channels.get(channel).map(Vec::as_slice).unwrap_or_default();
        let entries: BTreeMap<&str, &Entry> =
            all.iter().filter(|it| counts(it)).map(|it| (it.operator.name.as_str(), it)).collect();
        let skipped: BTreeSet<&str> = entries.values().flat_map(|it| it.skips.iter().map(String::as_str)).collect();
        let replaced: BTreeSet<&str> = entries.values().filter_map(|it| it.replaces.as_deref()).collect();
        let is_head = |name: &&str| !skipped.contains(name) && !replaced.contains(name);
        let heads: Vec<&str> = entries.keys().copied().filter(is_head).collect();
        let [package, channel] = [&self.name, channel].map(ToOwned::to_owned);
        let mut chains = Vec::new();
        for head in heads {
            let (mut chain, mut visited, mut at) = (Vec::new(), BTreeSet::new(), entries.get(head));
            while let Some(entry) = at {
                let name = entry.operator.name.as_str();
                if !visited.insert(name) {
                    return Err(OrderError::Cycle { package, channel, head: head.to_owned() });
                }
                chain.extend((!skipped.contains(name)).then_some(*entry));
                at = entry.replaces.as_deref().and_then(|replaced| entries.get(replaced));
            }
            chains.push(chain);
        }
        match (chains.pop(), chains.is_empty()) {
            (None, _) if entries.is_empty() => Ok(Vec::new()),
            (None, _) => Err(OrderError::NoHead { package, channel }),
            (Some(only), true) => Ok(only),
            (Some(last), false) => {
                chains.push(last);
                let chains = chains.iter().map(|chain| ends(chain)).collect();
                Err(OrderError::Chains { package, channel, chains })
            }
        }
    }
}

impl Entry {
    /// Whether an operator with this name and version can be updated to it.
    pub(crate) fn follows(&self, installed: &Operator) -> bool {
        let in_range = |range: &VersionRange| installed.version.as_ref().is_some_and(|version| range.contains(version));
        self.skip_range.as_ref().is_some_and(in_range)
            || self.replaces.as_deref() == Some(&installed.name)
            || self.skips.contains(&installed.name)
    }
}

/// First and last of a chain.
fn ends(chain: &[&Entry]) -> String {
    match chain {
        [] => String::new(),
        [only] => only.operator.name.clone(),
        [first, .., last] => format!("{}...{}", first.operator.name, last.operator.name),
    }
}

fn operator(bundle: index::Bundle<'_>, cluster: &ClusterVersions) -> Operator {
    // The index has only JSON that was read before; more than 128 levels of it are not.
    let value = |json: &str| serde_json::from_str(json);
    let mut unreadable = None;
    let mut read = |property: index::Property<'_>| match value(property.value()) {
        Ok(value) => Some((property.kind().to_owned(), value)),
        Err(error) => {
            unreadable.get_or_insert_with(|| format!("parse {}: {error}", property.kind()));
            None
        }
    };
    let properties = bundle.properties().filter_map(&mut read).collect();
    let mut operator = Operator::new(bundle.name(), properties, cluster);
    operator.unreadable = unreadable.or(operator.unreadable);
    operator
}

#[cfg(test)]
pub(super) mod tests;
