//! What is chosen for generated namespaces, by this project and by the resolver of operator-lifecycle-manager: each difference has its
//! rule.

use super::written::{Written, WrittenCatalog};
use super::*;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

mod rules;
mod worlds;

/// Names the folder with the peer's programs, how many namespaces are generated, and from which seed.
const PROGRAMS: &str = "OLM_PEER";
const PROGRAM: &str = "resolve";
const COUNT: &str = "OLM_PEER_WORLDS";
const SEED: &str = "CVO_SEED";
const USUAL_COUNT: u64 = 2_000;
const USUAL_SEED: u64 = 1;

/// Namespace and name of the catalog, channel, name and what it replaces, with blanks between them.
type Chosen = BTreeSet<String>;

/// What the peer answers. It iterates over maps, so that there may be several answers to the same.
#[derive(Debug)]
struct PeerAnswer {
    chosen: Result<Chosen, String>,
    /// How often its search went back.
    back: u64,
}

/// The program.
struct Peer {
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    process: Child,
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _gone = self.process.kill().and_then(|()| self.process.wait());
    }
}

impl Peer {
    fn start(program: &Path) -> Peer {
        let mut command = Command::new(program);
        let process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut process = process.unwrap_or_else(|error| panic!("{}: {error}", program.display()));
        let (input, output) = (process.stdin.take().unwrap(), BufReader::new(process.stdout.take().unwrap()));
        Peer { input, output, process }
    }

    /// `expected`: it tries longer as long as this is not among its answers.
    fn answers(&mut self, world: &Written, expected: Option<&Chosen>) -> Vec<PeerAnswer> {
        let mut told = told(world);
        told["expected"] = json!(expected);
        writeln!(self.input, "{told}").unwrap();
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        let read: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
        let answer = |it: &Value| PeerAnswer {
            chosen: match it["error"].as_str() {
                Some(error) => Err(error.to_owned()),
                None => Ok(serde_json::from_value(it["chosen"].clone()).unwrap()),
            },
            back: it["back"].as_u64().unwrap(),
        };
        read["answers"].as_array().unwrap().iter().map(answer).collect()
    }
}

fn of_place(place: &str) -> (&str, &str) {
    place.split_once('/').unwrap_or(("ns", place))
}

fn properties(bundle: &Bundle) -> Vec<Value> {
    bundle.all_properties().into_iter().map(|(kind, value)| json!({"type": kind, "value": value})).collect()
}

/// A world as the program reads it.
fn told(world: &Written) -> Value {
    let bundles = |it: &WrittenCatalog| {
        let in_channel = |bundle: &Bundle, channel: &String| {
            let mut told = json!({"package": bundle.package, "channel": channel, "version": bundle.version,
                "properties": properties(bundle)});
            told.as_object_mut().unwrap().extend(bundle.entry.as_object().unwrap().clone());
            told
        };
        let all = it.bundles.iter().flat_map(|it| it.channels.iter().map(|channel| in_channel(it, channel)));
        all.collect::<Vec<Value>>()
    };
    let catalog = |it: &WrittenCatalog| {
        let (namespace, name) = of_place(&it.place);
        let defaults: BTreeMap<&str, &Option<String>> =
            it.bundles.iter().map(|it| (it.package.as_str(), &it.default)).collect();
        json!({"namespace": namespace, "name": name, "priority": it.priority, "defaults": defaults, "bundles": bundles(it)})
    };
    let installed = |it: &Bundle| json!({"name": it.name, "version": it.version, "properties": properties(it)});
    let subscription = |it: &Subscription| {
        json!({"name": it.name, "package": it.package, "channel": it.channel, "catalogNamespace": it.catalog.0,
            "catalog": it.catalog.1, "startingCSV": it.starting_csv, "installedCSV": it.installed_csv})
    };
    json!({
        "namespaces": ["ns", "global"],
        "catalogs": world.catalogs.iter().map(catalog).collect::<Vec<_>>(),
        "installed": world.installed.iter().map(installed).collect::<Vec<_>>(),
        "subscriptions": world.subscriptions.iter().map(subscription).collect::<Vec<_>>(),
    })
}

fn number(variable: &str, usual: u64) -> u64 {
    std::env::var(variable).map_or(usual, |text| text.parse().unwrap_or_else(|error| panic!("{variable}: {error}")))
}

#[test]
fn generated_namespaces_get_what_the_resolver_of_the_peer_chooses_for_them() {
    let program = std::env::var_os(PROGRAMS).map(|folder| PathBuf::from(folder).join(PROGRAM));
    let Some(program) = program.filter(|it| it.exists()) else {
        return println!("skipped: no peer (set {PROGRAMS} to a folder with its program {PROGRAM}, see e2e/README.md)");
    };
    let (count, seed) = (number(COUNT, USUAL_COUNT), number(SEED, USUAL_SEED));
    let mut peer = Peer::start(&program);
    let (mut installs, mut by_rule, mut unknown) = (0, BTreeMap::<&str, u64>::new(), Vec::new());
    for number in 0..count {
        let world = worlds::world(seed, number);
        installs += u64::from(!rules::Ours::of(&world).chosen.is_empty());
        match rules::compare(&world, &mut peer) {
            Ok(rules) => rules.into_iter().for_each(|it| *by_rule.entry(it).or_default() += 1),
            Err(difference) => unknown.push(format!("world {number}: {difference}")),
        }
    }
    println!(
        "{count} namespaces, seed {seed}: {installs} with a choice, {by_rule:#?}, {} without a rule",
        unknown.len()
    );
    assert!(installs * 3 > count, "too few namespaces with a choice: {installs}");
    assert!(unknown.is_empty(), "differ without a rule: {}", unknown.join("\n\n"));
}

/// Else a comparison would say little.
#[test]
fn generated_namespaces_have_whatever_resolution_knows() {
    let worlds: Vec<Written> = (0..400).map(|number| worlds::world(USUAL_SEED, number)).collect();
    let (mut installs, mut fails) = (0, 0);
    for world in &worlds {
        let ours = rules::Ours::of(world);
        installs += usize::from(!ours.chosen.is_empty());
        fails += usize::from(!ours.failing.is_empty());
    }
    let counts = worlds::richness(&worlds);
    assert!(counts.values().all(|count| *count >= 10), "{counts:#?}");
    assert!(installs > 130 && fails > 40, "{installs} with a choice, {fails} without an answer for all");
}
