//! Random worlds of at most twelve Subscriptions, bundles in channels and installed operators, against all sets of them that there
//! are, and against the same world in another order.

use super::written::{Written, WrittenCatalog};
use super::*;
use crate::olm::solve::tests::cases;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

mod brute;

const KINDS: [&str; 4] = ["", "K", "L", "M"];
const PACKAGES: [&str; 3] = ["a", "b", "c"];
const CATALOGS: [&str; 3] = ["main", "other", "third"];
/// Bundles in channels and installed operators.
const MOST: usize = 10;

/// What a version provides and requires by the number of the kind, whether it skips the one before, and whether it is deprecated.
type Version = (usize, usize, bool, bool);
/// Its versions, whether all but the last are in a second channel, and whether that one is the default.
type Versions = (Vec<Version>, bool, bool);
/// Package, channel (any, `x` or `y`), catalog, and the number of the version that it starts from.
type Wanted = (usize, usize, usize, Option<usize>);
/// Package, number of the version, what it provides and requires, and whether a Subscription names it.
type Installed = (usize, usize, usize, usize, bool);

fn version() -> impl Strategy<Value = Version> {
    (0..KINDS.len(), 0..KINDS.len(), prop::bool::weighted(0.25), prop::bool::weighted(0.08))
}

fn worlds() -> impl Strategy<Value = Written> {
    let versions = (prop::collection::vec(version(), 1..4), prop::bool::weighted(0.3), any::<bool>());
    let package = prop::option::weighted(0.4, versions).boxed();
    let catalog = || (prop::collection::vec(package.clone(), 3), -1..2_i64);
    let wanted = (0..3_usize, 0..3_usize, 0..2_usize, prop::option::weighted(0.2, 1..4_usize));
    let installed = (0..3_usize, 1..4_usize, 0..KINDS.len(), 0..KINDS.len(), prop::bool::weighted(0.6));
    let all = (
        [catalog(), catalog(), catalog()],
        prop::collection::vec(wanted, 1..3),
        prop::collection::vec(installed, 0..3),
    );
    all.prop_map(|(all, wanted, installed): (_, Vec<Wanted>, Vec<Installed>)| {
        let catalogs = all.into_iter().zip(CATALOGS).map(|((packages, priority), place)| WrittenCatalog {
            place: place.to_owned(),
            priority,
            bundles: packages
                .into_iter()
                .zip(PACKAGES)
                .filter_map(|(it, name)| Some(bundles(name, it?)))
                .flatten()
                .collect(),
        });
        bounded(catalogs.collect(), &wanted, &installed)
    })
}

fn with(mut bundle: Bundle, (provides, requires): (usize, usize)) -> Bundle {
    if provides > 0 {
        bundle = bundle.provides(KINDS[provides]);
    }
    if requires > 0 { bundle.requires(KINDS[requires]) } else { bundle }
}

/// The versions of a package, each of which replaces the one before, or skips it and replaces the one before that.
fn bundles(package: &str, (versions, second, is_default): Versions) -> Vec<Bundle> {
    let last = versions.len();
    let bundle = |(at, (provides, requires, skips, deprecated)): (usize, Version)| {
        let name = |number: usize| format!("{package}.v{number}");
        let channels: &[&str] = if second && at + 1 < last { &["x", "y"] } else { &["x"] };
        let mut bundle = with(bundle(&name(at + 1)).channels(channels), (provides, requires));
        bundle.default = Some(if second && is_default && last > 1 { "y" } else { "x" }.to_owned());
        if skips && at > 0 {
            bundle = bundle.skips(&[&name(at)]);
        }
        if let Some(before) = at.checked_sub(if skips { 2 } else { 1 }) {
            bundle = bundle.replaces(&name(before + 1));
        }
        if deprecated { bundle.with("olm.deprecated", json!({})) } else { bundle }
    };
    versions.into_iter().enumerate().map(bundle).collect()
}

/// The world of these, with so few bundles that all sets can be tried.
fn bounded(mut catalogs: Vec<WrittenCatalog>, wanted: &[Wanted], installed: &[Installed]) -> Written {
    let mut subscriptions: Vec<Subscription> = Vec::new();
    for (number, (package, channel, catalog, starts)) in wanted.iter().enumerate() {
        let package = PACKAGES[*package];
        subscriptions.push(Subscription {
            name: format!("s{number}"),
            channel: ["", "x", "y"][*channel].to_owned(),
            catalog: ("ns".to_owned(), CATALOGS[*catalog].to_owned()),
            starting_csv: starts.map(|number| format!("{package}.v{number}")).unwrap_or_default(),
            ..subscription(package)
        });
    }
    let mut operators: Vec<Bundle> = Vec::new();
    for (package, number, provides, requires, named) in installed {
        let package = PACKAGES[*package];
        let name = format!("{package}.v{number}");
        if operators.iter().any(|it| it.name == name) {
            continue;
        }
        if let Some(of) =
            subscriptions.iter_mut().find(|it| *named && it.package == package && it.installed_csv.is_empty())
        {
            of.installed_csv.clone_from(&name);
        }
        operators.push(with(bundle(&name), (*provides, *requires)));
    }
    let count = |catalogs: &[WrittenCatalog]| {
        catalogs.iter().flat_map(|it| &it.bundles).map(|it| it.channels.len()).sum::<usize>()
    };
    while count(&catalogs) + operators.len() > MOST {
        let largest = catalogs.iter_mut().max_by_key(|it| it.bundles.len()).unwrap();
        let package = largest.bundles[0].package.clone();
        largest.bundles.retain(|it| it.package != package);
    }
    Written { catalogs, installed: operators, subscriptions }
}

/// Catalog, channel and name of what is installed, or that it cannot be.
fn found(world: &World) -> Option<BTreeSet<[String; 3]>> {
    let mut chosen = BTreeSet::new();
    for part in resolve(world, &Limits::default()).parts {
        let Verdict::Install(candidates) = part.verdict else { return None };
        let place =
            |it: Candidate| [world.catalogs[it.catalog].name.clone(), it.channel, it.entry.operator.name.clone()];
        chosen.extend(candidates.into_iter().map(place));
    }
    Some(chosen)
}

/// As lines that `written` reads.
pub(super) fn shown(world: &Written) -> String {
    let bundle = |it: &Bundle| format!("{} {:?} {} {:?}", it.name, it.channels, it.entry, it.properties);
    let catalogs = world.catalogs.iter().flat_map(|it| {
        std::iter::once(format!("{} {}", it.place, it.priority))
            .chain(it.bundles.iter().map(bundle))
            .collect::<Vec<_>>()
    });
    let installed = world.installed.iter().map(|it| format!("installed {}", bundle(it)));
    let subscriptions = world.subscriptions.iter().map(|it| format!("{it:?}"));
    catalogs.chain(installed).chain(subscriptions).collect::<Vec<_>>().join("\n")
}

#[test]
fn answers_are_those_of_all_sets_in_any_order() {
    let mut runner = TestRunner::deterministic();
    let (mut installs, mut fails) = (0, 0);
    for _ in 0..cases(1_000) {
        let world = worlds().new_tree(&mut runner).unwrap().current();
        let expected = brute::answer(&world);
        assert_eq!(found(&world.world()), expected, "{}", shown(&world));
        assert_eq!(found(&world.reversed().world()), expected, "reversed: {}", shown(&world));
        *(if expected.is_some() { &mut installs } else { &mut fails }) += 1;
    }
    assert!(installs > fails / 20 && fails > installs / 20, "{installs} with an answer, {fails} without");
}

/// Worlds without an answer. Of the constraints that are told each one is needed, and each has its line.
#[test]
fn without_any_one_line_of_an_explanation_there_would_be_an_answer() {
    let mut runner = TestRunner::deterministic();
    let mut left = cases(1_000);
    while left > 0 {
        let world = worlds().new_tree(&mut runner).unwrap().current().world();
        let resolution = resolve(&world, &Limits::default());
        for core in resolution.parts.iter().filter_map(|part| match &part.verdict {
            Verdict::Impossible(core) => Some(core),
            _ => None,
        }) {
            left = left.saturating_sub(1);
            assert!(!holds_with(&resolution.problem, core), "{core:?} can hold");
            for line in core {
                let others: BTreeSet<Place> = core.iter().filter(|it| *it != line).copied().collect();
                assert!(holds_with(&resolution.problem, &others), "{line:?} is not needed in {core:?}");
            }
            let text = explain::explain(&world, &resolution.problem, core);
            let lines = text.lines().filter(|line| line.starts_with(|c: char| c.is_ascii_digit())).count();
            assert_eq!(lines, core.len(), "{text}");
            assert!(text.contains("What would help, one of:\n- "), "{text}");
        }
    }
}

/// Whether only these constraints, of all, can hold.
fn holds_with(problem: &Problem, places: &BTreeSet<Place>) -> bool {
    let constraints = problem.constraints().into_iter().enumerate().map(|(variable, all)| {
        let kept = all
            .into_iter()
            .enumerate()
            .filter(|(constraint, _)| places.contains(&Place { variable, constraint: *constraint }));
        kept.map(|(_, constraint)| constraint).collect()
    });
    let parts = solve::solve(&constraints.collect::<solve::Problem>(), &Limits::default());
    parts.iter().all(|part| matches!(part.outcome, Outcome::Chosen(_)))
}
