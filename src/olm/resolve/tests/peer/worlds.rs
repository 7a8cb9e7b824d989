//! Worlds with more of what catalogs, channels, constraints and namespaces have than those of which all sets can be tried.

use super::*;
use proptest::prelude::RngExt;
use proptest::test_runner::{RngAlgorithm, TestRng};

const PACKAGES: [&str; 5] = ["a", "b", "c", "d", "e"];
/// One for each package, and one that several provide.
const KINDS: [&str; 6] = ["A", "B", "C", "D", "E", "Shared"];
/// Two of the namespace, and two that all namespaces see.
const CATALOGS: [&str; 4] = ["main", "other", "global/main", "global/third"];
const MOST_VERSIONS: usize = 5;
const RANGES: [&str; 8] =
    [">=1.0.0", "<2.0.0", ">1.0.0 <4.0.0", ">=3.0.0", "2.0.0", "!2.0.0", "1.x || >=4.0.0", ">=2.0.0 !3.0.0"];
/// Of a key that constraints do not have.
const UNREADABLE: &str = "unknown";

struct Draw(TestRng);

impl Draw {
    fn below(&mut self, limit: usize) -> usize {
        self.0.random_range(0..limit)
    }

    fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }
}

/// The world of this number; the same seed has the same worlds.
pub(super) fn world(seed: u64, number: u64) -> Written {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    bytes[8..16].copy_from_slice(&number.to_le_bytes());
    let draw = &mut Draw(TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));
    let mut catalogs = Vec::new();
    for place in CATALOGS {
        if place == "main" || draw.chance(50) {
            catalogs.push(catalog(draw, place));
        }
    }
    let installed = installed(draw, &catalogs);
    let subscriptions = subscriptions(draw, &catalogs, &installed);
    Written { catalogs, installed, subscriptions }
}

fn catalog(draw: &mut Draw, place: &str) -> WrittenCatalog {
    let often = if place == "main" { 80 } else { 40 };
    let offered: Vec<usize> = (0..PACKAGES.len()).filter(|_| draw.chance(often)).collect();
    WrittenCatalog {
        place: place.to_owned(),
        priority: draw.pick(&[0, 0, 5, 100, -5]),
        bundles: offered.into_iter().flat_map(|package| bundles(draw, package)).collect(),
    }
}

/// The versions of a package. Each replaces the one before, or skips it and replaces the one before that; `stable` has all of them,
/// `fast` the last ones, `old` the first ones.
fn bundles(draw: &mut Draw, package: usize) -> Vec<Bundle> {
    let name = |number: usize| format!("{}.v{}", PACKAGES[package], number + 1);
    let count = 1 + draw.below(MOST_VERSIONS);
    let fast = draw.chance(40).then(|| draw.below(count));
    let old = draw.chance(25).then(|| draw.below(count));
    let channels_of = |number: usize| {
        let mut channels = vec!["stable"];
        channels.extend(fast.filter(|first| number >= *first).map(|_| "fast"));
        channels.extend(old.filter(|last| number <= *last).map(|_| "old"));
        channels
    };
    let mut channels = vec!["stable"];
    channels.extend(fast.map(|_| "fast"));
    channels.extend(old.map(|_| "old"));
    let default = draw.pick(&channels);
    let (mut versions, mut skips) = (Vec::new(), false);
    for number in 0..count {
        let mut bundle = bundle(&name(number)).channels(&channels_of(number));
        bundle.default = Some(default.to_owned());
        // One that was skipped itself skips nothing: else what it has skipped would lead nowhere.
        skips = number > 0 && !skips && draw.chance(25);
        let mut skipped = if skips { vec![name(number - 1)] } else { Vec::new() };
        if draw.chance(10) {
            skipped.push(format!("{}.v0", PACKAGES[package]));
        }
        if !skipped.is_empty() {
            bundle = bundle.skips(&skipped.iter().map(String::as_str).collect::<Vec<_>>());
        }
        if let Some(before) = number.checked_sub(if skips { 2 } else { 1 }) {
            bundle = bundle.replaces(&name(before));
        }
        match draw.below(10) {
            0 => bundle = bundle.range(&format!("<{}.0.0", number + 1)),
            1 => bundle = bundle.range(&format!(">=1.0.0 <{}.0.0", number + 1)),
            _ => {}
        }
        versions.push(with_properties(draw, bundle, package));
    }
    versions
}

fn with_properties(draw: &mut Draw, mut bundle: Bundle, package: usize) -> Bundle {
    if draw.chance(85) {
        bundle = bundle.provides(KINDS[package]);
    }
    if draw.chance(20) {
        let kind = draw.pick(&KINDS);
        let is_own = kind == KINDS[package];
        bundle = if is_own { bundle } else { bundle.provides(kind) };
    }
    if draw.chance(20) {
        bundle = bundle.with("olm.label", json!({"label": draw.pick(&["certified", "stable"])}));
    }
    if draw.chance(20) {
        bundle = bundle.with("color", json!(draw.pick(&["red", "blue"])));
    }
    if draw.chance(4) {
        bundle = bundle.with("olm.deprecated", json!({}));
    }
    for _ in 0..draw.pick(&[0, 0, 0, 1, 1, 2]) {
        let (kind, value) = requirement(draw, package);
        bundle = bundle.with(kind, value);
    }
    if draw.below(400) == 0 {
        bundle = bundle.constraint(json!({"gvk": gvk("A"), UNREADABLE: 1}));
    }
    bundle
}

/// Of another package or its kind, most often.
fn requirement(draw: &mut Draw, package: usize) -> (&'static str, Value) {
    let mut other = || if draw.chance(95) { (package + 1 + draw.below(4)) % PACKAGES.len() } else { package };
    let (first, second) = (other(), other());
    let kind = |draw: &mut Draw, of: usize| if draw.chance(10) { "Shared" } else { KINDS[of] };
    let by_kind = json!({"gvk": gvk(kind(draw, first))});
    let range = draw.pick(&RANGES);
    let by_package = json!({"package": {"packageName": PACKAGES[second], "versionRange": range}});
    let next = json!({"gvk": gvk(kind(draw, second))});
    let rule = |rule: &str| json!({"cel": {"rule": rule}});
    let mut value = match draw.below(100) {
        0..30 => return ("olm.gvk.required", by_kind["gvk"].clone()),
        30..50 => return ("olm.package.required", by_package["package"].clone()),
        50..55 => return ("olm.label.required", json!({"label": draw.pick(&["certified", "stable"])})),
        55..60 => by_kind,
        60..65 => by_package,
        65..73 => json!({"any": {"constraints": [by_package, by_kind]}}),
        73..80 => json!({"all": {"constraints": [next, by_package]}}),
        80..86 => json!({"all": {"constraints": [by_kind, {"not": {"constraints": [by_package]}}]}}),
        86..90 => json!({"any": {"constraints": [{"all": {"constraints": [next, by_package]}}, by_kind]}}),
        90..95 => {
            rule(draw.pick(&["properties.exists(p, p.type == 'color' && p.value == 'red')", "properties.size() > 3"]))
        }
        _ => rule(&format!(
            "properties.exists(p, p.type == 'olm.package' && p.value.packageName == '{}' && \
             semver_compare(p.value.version, '3.0.0') < 0)",
            PACKAGES[first]
        )),
    };
    if draw.chance(50) {
        value["failureMessage"] = json!("something else is needed");
    }
    ("olm.constraint", value)
}

/// Operators of some packages: as a catalog has them, most often.
fn installed(draw: &mut Draw, catalogs: &[WrittenCatalog]) -> Vec<Bundle> {
    let mut all = Vec::new();
    for (package, name) in PACKAGES.iter().enumerate() {
        if !draw.chance(30) {
            continue;
        }
        let mut own = bundle(&format!("{name}.v{}", draw.below(MOST_VERSIONS + 1)));
        let known = catalogs.iter().flat_map(|it| &it.bundles).find(|it| it.name == own.name);
        match known.filter(|_| draw.chance(85)) {
            Some(known) => own.properties.clone_from(&known.properties),
            None => own = with_properties(draw, own, package),
        }
        // One of these could not stay, and nothing could be done in its namespace.
        own.properties.retain(|(kind, value)| kind != "olm.deprecated" && value.get(UNREADABLE).is_none());
        all.push(own);
    }
    all
}

fn subscriptions(draw: &mut Draw, catalogs: &[WrittenCatalog], installed: &[Bundle]) -> Vec<Subscription> {
    let mut all: Vec<Subscription> = Vec::new();
    let count = 1 + draw.below(4);
    for number in 0..count {
        let mut package = draw.pick(&PACKAGES);
        if draw.chance(90) && all.iter().any(|it| it.package == package) {
            continue;
        }
        if let Some(own) =
            installed.iter().find(|it| draw.chance(40) && all.iter().all(|sub| sub.package != it.package))
        {
            package = PACKAGES.iter().find(|it| **it == own.package).unwrap();
        }
        let offering = catalogs.iter().filter(|it| draw.chance(2) || it.bundles.iter().any(|it| it.package == package));
        let offering: Vec<&str> = offering.map(|it| it.place.as_str()).collect();
        let Some(place) = offering.get(draw.below(offering.len().max(1))) else { continue };
        let channels = catalogs.iter().filter(|it| it.place == *place).flat_map(|it| &it.bundles);
        let channels = channels.filter(|it| it.package == package).flat_map(|it| &it.channels).map(String::as_str);
        let mut channels: BTreeSet<&str> = channels.collect();
        channels.extend(["", "stable"]);
        channels.extend(draw.chance(3).then_some("none"));
        let (namespace, catalog) = place.split_once('/').unwrap_or(("ns", place));
        let mut subscription = Subscription {
            name: format!("{}{number}", draw.pick(&["x", "y", "z"])),
            channel: draw.pick(&channels.into_iter().collect::<Vec<_>>()).to_owned(),
            catalog: (namespace.to_owned(), catalog.to_owned()),
            ..subscription(package)
        };
        if draw.chance(15) {
            subscription.starting_csv = format!("{package}.v{}", 1 + draw.below(MOST_VERSIONS));
        }
        subscription.installed_csv = installed_for(draw, package, installed);
        all.push(subscription);
    }
    all
}

/// Of its package, most often, where there is one; or of another one that was renamed, or one that is gone.
fn installed_for(draw: &mut Draw, package: &str, installed: &[Bundle]) -> String {
    let own = installed.iter().find(|it| it.package == package).filter(|_| draw.chance(80));
    let other = installed.first().filter(|_| draw.chance(3));
    let gone = draw.chance(3).then(|| format!("{package}.v7"));
    own.or(other).map(|it| it.name.clone()).or(gone).unwrap_or_default()
}

/// With what cannot be read as something that nobody may install.
pub(super) fn readable(world: &Written) -> Written {
    let mut world = world.clone();
    for bundle in world.catalogs.iter_mut().flat_map(|it| &mut it.bundles) {
        for (kind, value) in &mut bundle.properties {
            if value.get(UNREADABLE).is_some() {
                (*kind, *value) = ("olm.deprecated".to_owned(), json!({}));
            }
        }
    }
    world
}

/// What worlds should have, and how many of these have it.
pub(super) fn richness(worlds: &[Written]) -> BTreeMap<&'static str, usize> {
    let mut counts = BTreeMap::new();
    for world in worlds {
        let bundles = || world.catalogs.iter().flat_map(|it| &it.bundles);
        let entry = |key: &str| bundles().any(|it| it.entry.get(key).is_some());
        let property = |wanted: &str| bundles().any(|it| it.properties.iter().any(|(kind, _)| kind == wanted));
        let constraint = |wanted: &str| {
            let has = |(_, value): &(String, Value)| value.get(wanted).is_some();
            bundles().any(|it| it.properties.iter().any(has))
        };
        let priorities: BTreeSet<i64> = world.catalogs.iter().map(|it| it.priority).collect();
        let named = |it: &&Bundle| world.subscriptions.iter().any(|sub| sub.installed_csv == it.name);
        let any_sub = |has: fn(&Subscription) -> bool| world.subscriptions.iter().any(has);
        for (what, has) in [
            ("several catalogs", world.catalogs.len() > 1),
            ("priorities", priorities.len() > 1),
            ("skips", entry("skips")),
            ("skipRange", entry("skipRange")),
            ("several channels", bundles().any(|it| it.channels.len() > 1)),
            ("API", property("olm.gvk.required")),
            ("package", property("olm.package.required")),
            ("label", property("olm.label.required")),
            ("deprecated", property("olm.deprecated")),
            ("all", constraint("all")),
            ("any", constraint("any")),
            ("rule", constraint("cel")),
            ("unreadable", constraint(UNREADABLE)),
            ("updates", world.installed.iter().any(|it| named(&it))),
            ("by hand", world.installed.iter().any(|it| !named(&it))),
            ("several Subscriptions", world.subscriptions.len() > 1),
            ("startingCSV", any_sub(|it| !it.starting_csv.is_empty())),
            ("any channel", any_sub(|it| it.channel.is_empty())),
        ] {
            *counts.entry(what).or_default() += usize::from(has);
        }
    }
    counts
}
