//! Small worlds and what is installed in them.

use super::operator::Operator;
use super::rule::ClusterVersions;
use super::world::{Catalog, Subscription};
use super::*;
use crate::olm::catalog::served::tests::content;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

mod dependencies;
mod examples;
mod explanations;
mod failures;
mod generated;
mod hostile;
mod other_catalogs;
mod peer;
mod published;
mod updates;
pub(in crate::olm) mod written;

/// A bundle, or an operator that is installed.
#[derive(Clone, Debug)]
pub(in crate::olm) struct Bundle {
    pub name: String,
    pub package: String,
    pub channels: Vec<String>,
    /// The default channel of its package; without it the first one of the first bundle is.
    pub default: Option<String>,
    pub version: String,
    pub entry: Value,
    pub properties: Vec<(String, Value)>,
    /// Of its ClusterServiceVersion; it has succeeded if nothing is said.
    pub phase: Option<String>,
}

/// `a.v1` is version 1.0.0 of package `a`, in channel `stable`.
fn bundle(name: &str) -> Bundle {
    let (package, version) = name.split_once(".v").unwrap();
    let missing = 2 - version.matches('.').count();
    Bundle {
        name: name.to_owned(),
        package: package.to_owned(),
        channels: vec!["stable".to_owned()],
        default: None,
        version: format!("{version}{}", ".0".repeat(missing)),
        entry: json!({"name": name}),
        properties: Vec::new(),
        phase: None,
    }
}

fn gvk(kind: &str) -> Value {
    json!({"group": "g", "version": "v1", "kind": kind})
}

impl Bundle {
    fn with(mut self, kind: &str, value: Value) -> Self {
        self.properties.push((kind.to_owned(), value));
        self
    }

    fn entry(mut self, key: &str, value: Value) -> Self {
        self.entry[key] = value;
        self
    }

    fn replaces(self, name: &str) -> Self {
        self.entry("replaces", json!(name))
    }

    fn skips(self, names: &[&str]) -> Self {
        self.entry("skips", json!(names))
    }

    fn range(self, range: &str) -> Self {
        self.entry("skipRange", json!(range))
    }

    fn provides(self, kind: &str) -> Self {
        self.with("olm.gvk", gvk(kind))
    }

    fn requires(self, kind: &str) -> Self {
        self.with("olm.gvk.required", gvk(kind))
    }

    fn requires_package(self, package: &str, range: &str) -> Self {
        self.with("olm.package.required", json!({"packageName": package, "versionRange": range}))
    }

    fn constraint(self, value: Value) -> Self {
        self.with("olm.constraint", value)
    }

    fn version(mut self, version: &str) -> Self {
        version.clone_into(&mut self.version);
        self
    }

    /// The first one of the first bundle of a package is its default channel.
    fn channels(mut self, channels: &[&str]) -> Self {
        self.channels = channels.iter().map(|it| (*it).to_owned()).collect();
        self
    }

    pub(in crate::olm) fn all_properties(&self) -> Vec<(String, Value)> {
        let identity = json!({"packageName": self.package, "version": self.version});
        [("olm.package".to_owned(), identity)].into_iter().chain(self.properties.clone()).collect()
    }

    fn installed(&self) -> Arc<Operator> {
        Arc::new(Operator::new(&self.name, self.all_properties(), &versions()))
    }
}

fn versions() -> ClusterVersions {
    ClusterVersions { kubernetes: "1.36.1".to_owned(), release: "5.0.0".to_owned() }
}

/// In namespace `ns` if nothing else is said, as `namespace/name`.
fn catalog(name: &str, priority: i64, bundles: &[Bundle]) -> Catalog {
    let place = name.split_once('/').unwrap_or(("ns", name));
    Catalog::new(place, priority, Arc::new(content(&blobs(bundles)).0), &versions())
}

/// A catalog with these bundles, as a stream.
pub(in crate::olm) fn blobs(bundles: &[Bundle]) -> Vec<Value> {
    let mut blobs: Vec<Value> = Vec::new();
    let mut channels: BTreeMap<(String, String), Vec<Value>> = BTreeMap::new();
    for bundle in bundles {
        if !blobs.iter().any(|blob| blob["schema"] == "olm.package" && blob["name"] == json!(bundle.package)) {
            let of_package = bundles.iter().filter(|it| it.package == bundle.package);
            let default = of_package.filter_map(|it| it.default.as_ref()).next().unwrap_or(&bundle.channels[0]);
            blobs.push(json!({"schema": "olm.package", "name": bundle.package, "defaultChannel": default}));
        }
        for channel in &bundle.channels {
            channels.entry((bundle.package.clone(), channel.clone())).or_default().push(bundle.entry.clone());
        }
        let properties: Vec<Value> =
            bundle.all_properties().into_iter().map(|(kind, value)| json!({"type": kind, "value": value})).collect();
        blobs.push(json!({"schema": "olm.bundle", "name": bundle.name, "package": bundle.package,
            "image": format!("quay.io/test/{}@sha256:{}", bundle.package, "0".repeat(64)), "properties": properties}));
    }
    blobs.extend(channels.into_iter().map(|((package, name), entries)| {
        json!({"schema": "olm.channel", "package": package, "name": name, "entries": entries})
    }));
    blobs
}

/// To a package of catalog `main`, in channel `stable`.
fn subscription(package: &str) -> Subscription {
    Subscription {
        name: format!("sub-{package}"),
        package: package.to_owned(),
        channel: "stable".to_owned(),
        catalog: ("ns".to_owned(), "main".to_owned()),
        ..Subscription::default()
    }
}

fn following(package: &str, installed: &str) -> Subscription {
    Subscription { installed_csv: installed.to_owned(), ..subscription(package) }
}

fn world(bundles: &[Bundle], installed: &[Bundle], subscriptions: &[Subscription]) -> World {
    World {
        namespace: "ns".to_owned(),
        catalogs: vec![catalog("main", 0, bundles)],
        installed: installed.iter().map(Bundle::installed).collect(),
        subscriptions: subscriptions.to_vec(),
    }
}

/// What is installed, or what cannot be.
fn answer(world: &World) -> Result<Vec<String>, String> {
    let resolution = resolve(world, &Limits::default());
    let (mut installed, mut failures) = (Vec::new(), Vec::new());
    for part in &resolution.parts {
        match &part.verdict {
            Verdict::Install(candidates) => {
                installed.extend(candidates.iter().map(|it| it.entry.operator.name.clone()))
            }
            Verdict::Impossible(core) => failures.push(resolution.problem.message(core)),
            Verdict::GaveUp => failures.push("gave up".to_owned()),
        }
    }
    installed.sort();
    if failures.is_empty() { Ok(installed) } else { Err(failures.join("; ")) }
}

#[track_caller]
fn installs(world: &World, expected: &[&str]) {
    assert_eq!(answer(world).as_deref(), Ok(&expected.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>()[..]));
}

#[track_caller]
fn fails(world: &World, texts: &[&str]) {
    let message = answer(world).unwrap_err();
    for text in texts {
        assert!(message.contains(text), "{text:?} is not in: {message}");
    }
}

/// The explanations of all parts that have none.
fn explained(world: &World) -> String {
    let resolution = resolve(world, &Limits::default());
    let of = |part: &Part| match &part.verdict {
        Verdict::Impossible(core) => Some(explain::explain(world, &resolution.problem, core)),
        _ => None,
    };
    resolution.parts.iter().filter_map(of).collect::<Vec<_>>().join("\n\n")
}
