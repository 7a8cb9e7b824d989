//! The answer for a written world by trying all sets of bundles and installed operators, from the rules as administrators know them.

use super::*;
use std::cmp::Reverse;
use std::collections::VecDeque;

/// A bundle in a channel, or an installed operator, which has neither catalog nor channel.
struct Member<'a> {
    of: &'a Bundle,
    catalog: Option<usize>,
    channel: &'a str,
}

impl Member<'_> {
    fn has(&self, property: &str, kind: &str) -> bool {
        self.of.properties.iter().any(|(found, value)| found == property && value["kind"] == kind)
    }

    fn is_deprecated(&self) -> bool {
        self.of.properties.iter().any(|(kind, _)| kind == "olm.deprecated")
    }
}

struct Brute<'a> {
    world: &'a Written,
    members: Vec<Member<'a>>,
}

fn text<'a>(bundle: &'a Bundle, key: &str) -> &'a str {
    bundle.entry[key].as_str().unwrap_or_default()
}

fn skips(bundle: &Bundle, name: &str) -> bool {
    bundle.entry["skips"].as_array().into_iter().flatten().any(|it| it == name)
}

fn bits(members: impl IntoIterator<Item = usize>) -> u32 {
    members.into_iter().fold(0, |all, it| all | 1 << it)
}

/// Catalog, channel and name of what is installed.
pub(super) fn answer(world: &Written) -> Option<BTreeSet<[String; 3]>> {
    let bundles = world.catalogs.iter().enumerate().flat_map(|(at, it)| it.bundles.iter().map(move |of| (at, of)));
    let in_channels =
        bundles.flat_map(|(at, of)| of.channels.iter().map(move |channel| Member { of, catalog: Some(at), channel }));
    let installed = world.installed.iter().map(|of| Member { of, catalog: None, channel: "" });
    let brute = Brute { world, members: in_channels.chain(installed).collect() };
    let chosen = brute.chosen()?;
    let new = brute.members.iter().enumerate().filter(|(at, it)| chosen >> at & 1 == 1 && it.catalog.is_some());
    let place = |(_, it): (usize, &Member<'_>)| {
        [world.catalogs[it.catalog.unwrap()].place.clone(), it.channel.to_owned(), it.of.name.clone()]
    };
    Some(new.map(place).collect())
}

impl Brute<'_> {
    fn all(&self, which: impl Fn(&Member<'_>) -> bool) -> Vec<usize> {
        (0..self.members.len()).filter(|at| which(&self.members[*at])).collect()
    }

    /// Of a package in a channel of a catalog, from the head down. Only names that `counts` are there at all.
    fn in_order(&self, catalog: usize, package: &str, channel: &str, counts: impl Fn(&str) -> bool) -> Vec<usize> {
        let all = self.all(|it| {
            it.catalog == Some(catalog) && it.of.package == package && it.channel == channel && counts(&it.of.name)
        });
        let of = |at: &usize| self.members[*at].of;
        let is_skipped = |at: &usize| all.iter().any(|other| skips(of(other), &of(at).name));
        let is_replaced = |at: &usize| all.iter().any(|other| text(of(other), "replaces") == of(at).name);
        let (mut found, mut at) = (Vec::new(), all.iter().find(|at| !is_skipped(at) && !is_replaced(at)));
        while let Some(member) = at {
            found.extend((!is_skipped(member)).then_some(*member));
            at = all.iter().find(|next| of(next).name == text(of(member), "replaces"));
        }
        found
    }

    /// The default channel of a package first.
    fn channels(&self, catalog: usize, package: &str) -> Vec<&str> {
        let of = || self.world.catalogs[catalog].bundles.iter().filter(|it| it.package == package);
        let default = of().find_map(|it| it.default.as_deref()).unwrap_or_default();
        let mut channels: Vec<&str> = of().flat_map(|it| &it.channels).map(String::as_str).collect();
        channels.sort_by_key(|channel| (*channel != default, *channel));
        channels.dedup();
        channels
    }

    /// `None`: what it names is not there.
    fn candidates(&self, subscription: &Subscription) -> Option<Vec<usize>> {
        let Subscription { package, channel, starting_csv, installed_csv, .. } = subscription;
        let catalog = self.world.catalogs.iter().position(|it| it.place == subscription.catalog.1)?;
        let channels = self.channels(catalog, package).into_iter().filter(|it| channel.is_empty() || it == channel);
        let current = self.all(|it| it.catalog.is_none() && it.of.name == *installed_csv).pop();
        let counts = |name: &str| current.is_some() || starting_csv.is_empty() || name == starting_csv;
        let all: Vec<usize> = channels.flat_map(|channel| self.in_order(catalog, package, channel, counts)).collect();
        if all.is_empty() {
            return None;
        }
        let follows = |at: &usize| {
            let of = self.members[*at].of;
            current.is_none() || text(of, "replaces") == installed_csv || skips(of, installed_csv)
        };
        Some(all.into_iter().filter(follows).chain(current).collect())
    }

    fn providers(&self, of: usize, kind: &str) -> Vec<usize> {
        let mut found = self.all(|it| it.catalog.is_none() && it.has("olm.gvk", kind));
        found.sort_by_key(|at| &self.members[*at].of.name);
        let mut catalogs: Vec<usize> = (0..self.world.catalogs.len()).collect();
        let own = self.members[of].catalog;
        catalogs.sort_by_key(|at| {
            let catalog = &self.world.catalogs[*at];
            (own != Some(*at), Reverse(catalog.priority), &catalog.place)
        });
        for catalog in catalogs {
            let of_package = |package: &&'static str| {
                let channels = self.channels(catalog, package);
                let place = |(at, channel)| (at > 0, *package, channel);
                channels.into_iter().enumerate().map(place).collect::<Vec<_>>()
            };
            let mut channels: Vec<(bool, &str, &str)> = PACKAGES.iter().flat_map(of_package).collect();
            channels.sort_unstable();
            let all = channels
                .into_iter()
                .flat_map(|(_, package, channel)| self.in_order(catalog, package, channel, |_| true));
            found.extend(all.filter(|at| self.members[*at].has("olm.gvk", kind)));
        }
        found
    }

    fn requirements(&self, member: usize) -> Vec<Vec<usize>> {
        let required = KINDS[1..].iter().filter(|kind| self.members[member].has("olm.gvk.required", kind));
        required.map(|kind| self.providers(member, kind)).collect()
    }

    /// What can be together: one operator of a package, one provider of an API, nothing that is deprecated, what no Subscription names
    /// as it is, and nothing beside what it takes the place of.
    fn together(&self, choices: &[(Vec<usize>, Option<usize>)]) -> impl Fn(u32) -> bool + use<> {
        let of_package = |package: &str| bits(self.all(|it| it.of.package == package));
        let of_api = |kind: &str| bits(self.all(|it| it.has("olm.gvk", kind)));
        let single: Vec<u32> =
            PACKAGES.iter().map(|it| of_package(it)).chain(KINDS[1..].iter().map(|it| of_api(it))).collect();
        let is_named = |name: &str| self.world.subscriptions.iter().any(|it| it.installed_csv == name);
        let stays = bits(self.all(|it| it.catalog.is_none() && !is_named(&it.of.name)));
        let never = bits(self.all(|it| it.is_deprecated()));
        let mut apart = Vec::new();
        for (all, current) in choices.iter().filter_map(|(all, current)| Some((all, (*current)?))) {
            apart.push((bits(all.iter().copied().filter(|it| *it != current)), bits([current])));
        }
        move |set| {
            single.iter().all(|one| (set & one).count_ones() <= 1)
                && set & stays == stays
                && set & never == 0
                && apart.iter().all(|(new, old)| set & new == 0 || set & old == 0)
        }
    }

    fn chosen(&self) -> Option<u32> {
        let mut subscriptions: Vec<&Subscription> = self.world.subscriptions.iter().collect();
        subscriptions.sort_by_key(|it| &it.name);
        let mut choices = Vec::new();
        for subscription in subscriptions {
            let current = self.all(|it| it.catalog.is_none() && it.of.name == subscription.installed_csv).pop();
            choices.push((self.candidates(subscription)?, current));
        }
        let required: Vec<Vec<u32>> =
            (0..self.members.len()).map(|at| self.requirements(at).into_iter().map(bits).collect()).collect();
        let wanted: Vec<u32> = choices.iter().map(|(all, _)| bits(all.iter().copied())).collect();
        let together = self.together(&choices);
        let is_whole = |set: u32| {
            let is_met = |at: usize| required[at].iter().all(|some| set & some != 0);
            together(set)
                && wanted.iter().all(|some| set & some != 0)
                && (0..self.members.len()).all(|at| set >> at & 1 == 0 || is_met(at))
        };
        let sets: Vec<u32> = (0..1_u32 << self.members.len()).filter(|set| is_whole(*set)).collect();
        sets.first()?;
        Some(self.preferred(&sets, choices))
    }

    /// The first of each choice with which there still is a set; first the Subscriptions, then what has to stay, and then what each
    /// chosen one requires.
    fn preferred(&self, sets: &[u32], choices: Vec<(Vec<usize>, Option<usize>)>) -> u32 {
        let mut open: VecDeque<Vec<usize>> = choices.into_iter().map(|(all, _)| all).collect();
        let is_named = |name: &str| self.world.subscriptions.iter().any(|it| it.installed_csv == name);
        let mut stays = self.all(|it| it.catalog.is_none() && !is_named(&it.of.name));
        stays.sort_by_key(|at| &self.members[*at].of.name);
        let mut chosen = 0;
        for member in stays {
            chosen |= 1 << member;
            open.extend(self.requirements(member));
        }
        while let Some(choice) = open.pop_front() {
            if choice.iter().any(|it| chosen >> it & 1 == 1) {
                continue;
            }
            let with = |it: usize| chosen | 1 << it;
            let first = choice.into_iter().find(|it| sets.iter().any(|set| set & with(*it) == with(*it))).unwrap();
            chosen = with(first);
            open.extend(self.requirements(first));
        }
        chosen
    }
}
