//! Generated namespaces: what catalogs offer, and Subscriptions to some of it. Each world has packages and kinds of its own, so that
//! all of them can share catalogs.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use e2e::random::SeededRandom;
use serde_json::{Value, json};

/// Each is at a server of its own.
pub(super) const CATALOGS: [&str; 3] = ["alpha", "beta", "global"];
/// The one that all namespaces see.
pub(super) const GLOBAL: &str = CATALOGS[2];
const PACKAGES: usize = 4;
const MOST_VERSIONS: usize = 4;
const RANGES: [&str; 5] = [">=1.0.0", "<2.0.0", ">1.0.0 <3.0.0", ">=3.0.0", "2.0.0"];

pub(super) struct World {
    pub namespace: String,
    /// What each of `CATALOGS` offers.
    pub offers: Vec<Vec<Package>>,
    pub subscriptions: Vec<Value>,
    /// Of the catalogs of the namespace.
    pub priorities: [i64; 2],
}

/// What a catalog offers of a package.
pub(super) struct Package {
    name: String,
    default_channel: &'static str,
    /// The first version that the channel `fast` has; none without that channel.
    fast: Option<usize>,
    versions: Vec<Version>,
}

struct Version {
    properties: Vec<Value>,
    skips: bool,
    skip_range: bool,
}

impl World {
    pub(super) fn generate(seed: u64, number: usize) -> World {
        let random = SeededRandom::new(seed, number as u64, 0);
        let namespace = format!("w{number}");
        let offer = |catalog: usize| {
            let offered = (0..PACKAGES).filter(|_| catalog == 0 || random.chance(40)).collect::<Vec<_>>();
            offered.into_iter().map(|package| Package::generate(&random, &namespace, package)).collect()
        };
        let offers = (0..CATALOGS.len()).map(offer).collect();
        let mut world = World { namespace, offers, subscriptions: Vec::new(), priorities: [0, 0] };
        world.priorities = [random.pick(&[0, 0, 5, -5]), random.pick(&[0, 0, 5, -5])];
        let mut packages: Vec<usize> = (0..PACKAGES).collect();
        for _ in 0..=random.below(3) {
            let package = packages.remove(random.below(packages.len()));
            let subscription = world.subscription(&random, package);
            world.subscriptions.push(subscription);
        }
        world
    }

    fn subscription(&self, random: &SeededRandom, package: usize) -> Value {
        let name = package_name(&self.namespace, package);
        let offering = (0..CATALOGS.len()).filter(|catalog| self.offers[*catalog].iter().any(|it| it.name == name));
        let catalog = random.pick(&offering.collect::<Vec<_>>());
        let offered = self.offers[catalog].iter().find(|it| it.name == name).unwrap();
        let mut channels = vec!["stable", "stable", ""];
        channels.extend(offered.fast.map(|_| "fast"));
        channels.extend(random.chance(5).then_some("none"));
        let mut spec = json!({"name": name, "source": CATALOGS[catalog], "installPlanApproval": "Manual",
            "sourceNamespace": if CATALOGS[catalog] == GLOBAL { super::GLOBAL_NAMESPACE } else { &self.namespace }});
        let channel = random.pick(&channels);
        if !channel.is_empty() {
            spec["channel"] = json!(channel);
        }
        if random.chance(15) {
            spec["startingCSV"] = json!(format!("{name}.v{}", 1 + random.below(MOST_VERSIONS)));
        }
        json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription",
            "metadata": {"name": name, "namespace": self.namespace}, "spec": spec})
    }

    /// Namespace and CatalogSources. `addresses`: of the servers of `CATALOGS`.
    pub(super) fn sources(&self, addresses: &[String]) -> Vec<Value> {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}});
        let own = self.priorities.iter().zip(CATALOGS).zip(addresses);
        let own = own.map(|((priority, name), address)| source(&self.namespace, name, address, *priority));
        std::iter::once(namespace).chain(own).collect()
    }

    pub(super) fn group(&self) -> Value {
        json!({"apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup",
            "metadata": {"name": "one", "namespace": self.namespace}, "spec": {"targetNamespaces": [self.namespace]}})
    }

    /// By the Subscriptions in the order of their names, the number of the version that was chosen of their package; 0 for none.
    pub(super) fn versions(&self, chosen: &BTreeSet<String>) -> BTreeMap<&str, usize> {
        let number = |name: &str| {
            let of_package = chosen.iter().find_map(|it| it.strip_prefix(name)?.strip_prefix(".v"));
            of_package.and_then(|it| it.split_once(' ')?.0.parse().ok()).unwrap_or(0)
        };
        let names = self.subscriptions.iter().filter_map(|it| it["spec"]["name"].as_str());
        names.map(|name| (name, number(name))).collect()
    }

    /// For people: what is offered, and what is wanted.
    pub(super) fn told(&self) -> String {
        let mut lines = vec![format!("priorities: {:?}", self.priorities)];
        for (catalog, packages) in CATALOGS.iter().zip(&self.offers) {
            let blobs = packages.iter().flat_map(Package::blobs).map(|mut blob| {
                let properties = blob["properties"].as_array_mut();
                properties.into_iter().for_each(|it| it.retain(|property| property["type"] != "olm.bundle.object"));
                format!("  {catalog}: {blob}")
            });
            lines.extend(blobs);
        }
        lines.extend(self.subscriptions.iter().map(|it| format!("  Subscription: {}", it["spec"])));
        lines.join("\n")
    }
}

pub(super) fn source(namespace: &str, name: &str, address: &str, priority: i64) -> Value {
    json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"sourceType": "grpc", "address": address, "priority": priority}})
}

/// All that a catalog offers to all worlds.
pub(super) fn catalog(worlds: &[World], catalog: usize) -> String {
    let blobs = worlds.iter().flat_map(|world| &world.offers[catalog]).flat_map(Package::blobs);
    blobs.map(|blob| blob.to_string() + "\n").collect()
}

fn package_name(namespace: &str, package: usize) -> String {
    format!("{namespace}-p{package}")
}

fn api(namespace: &str, package: usize) -> Value {
    json!({"group": format!("{namespace}.example.com"), "version": "v1", "kind": format!("Kind{package}")})
}

impl Package {
    fn generate(random: &SeededRandom, namespace: &str, package: usize) -> Package {
        let count = 1 + random.below(MOST_VERSIONS);
        let mut versions: Vec<Version> = Vec::new();
        for number in 0..count {
            let mut properties = Vec::new();
            let other = (package + 1 + random.below(PACKAGES - 1)) % PACKAGES;
            let provided = [package].into_iter().filter(|_| random.chance(85));
            let rival = [other].into_iter().filter(|_| random.chance(15));
            let provided: Vec<usize> = provided.chain(rival).collect();
            properties.extend(provided.iter().map(|it| json!({"type": "olm.gvk", "value": api(namespace, *it)})));
            let required = (package + 1 + random.below(PACKAGES - 1)) % PACKAGES;
            properties.extend(requirement(random, namespace, required));
            // One that was skipped itself skips nothing: else what it has skipped would lead nowhere.
            let skips = number > 1 && !versions[number - 1].skips && random.chance(25);
            versions.push(Version { properties, skips, skip_range: random.chance(15) });
        }
        let fast = random.chance(40).then(|| random.below(count));
        let default_channel = if fast.is_some() && random.chance(30) { "fast" } else { "stable" };
        Package { name: package_name(namespace, package), default_channel, fast, versions }
    }

    fn csv(&self, number: usize) -> String {
        format!("{}.v{}", self.name, number + 1)
    }

    fn blobs(&self) -> Vec<Value> {
        let mut blobs =
            vec![json!({"schema": "olm.package", "name": self.name, "defaultChannel": self.default_channel})];
        for (channel, first) in [("stable", Some(0)), ("fast", self.fast)] {
            let Some(first) = first else { continue };
            let entries: Vec<Value> = (first..self.versions.len()).map(|number| self.entry(number)).collect();
            blobs.push(json!({"schema": "olm.channel", "package": self.name, "name": channel, "entries": entries}));
        }
        blobs.extend((0..self.versions.len()).map(|number| self.bundle(number)));
        blobs
    }

    fn entry(&self, number: usize) -> Value {
        let version = &self.versions[number];
        let mut entry = json!({"name": self.csv(number)});
        if version.skips {
            entry["skips"] = json!([self.csv(number - 1)]);
        }
        let before = if version.skips { number.checked_sub(2) } else { number.checked_sub(1) };
        if let Some(before) = before {
            entry["replaces"] = json!(self.csv(before));
        }
        if version.skip_range {
            entry["skipRange"] = json!(format!("<{}.0.0", number + 1));
        }
        entry
    }

    /// With its manifests, so that nothing has to be fetched.
    fn bundle(&self, number: usize) -> Value {
        let (name, version) = (self.csv(number), format!("{}.0.0", number + 1));
        let modes = ["OwnNamespace", "SingleNamespace", "MultiNamespace", "AllNamespaces"];
        let modes = modes.map(|mode| json!({"type": mode, "supported": true}));
        let mut csv = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
            "metadata": {"name": name}, "spec": {"displayName": name, "version": version, "installModes": modes,
            "install": {"strategy": "deployment", "spec": {"deployments": []}}}});
        if let Some(replaced) = self.entry(number).get("replaces") {
            csv["spec"]["replaces"] = replaced.clone();
        }
        let data = STANDARD.encode(csv.to_string());
        let mut properties =
            vec![json!({"type": "olm.package", "value": {"packageName": self.name, "version": version}})];
        properties.extend(self.versions[number].properties.iter().cloned());
        properties.push(json!({"type": "olm.bundle.object", "value": {"data": data}}));
        json!({"schema": "olm.bundle", "package": self.name, "name": name, "properties": properties})
    }
}

/// Of another package or its kind; none, most often.
fn requirement(random: &SeededRandom, namespace: &str, other: usize) -> Option<Value> {
    let by_kind = || json!({"gvk": api(namespace, other)});
    let by_package =
        || json!({"package": {"packageName": package_name(namespace, other), "versionRange": random.pick(&RANGES)}});
    let next = json!({"gvk": api(namespace, (other + 1) % PACKAGES)});
    let (kind, mut value) = match random.below(100) {
        0..25 => ("olm.gvk.required", api(namespace, other)),
        25..45 => ("olm.package.required", by_package()["package"].clone()),
        45..50 => ("olm.constraint", json!({"any": {"constraints": [by_package(), next]}})),
        50..55 => ("olm.constraint", json!({"all": {"constraints": [by_kind(), by_package()]}})),
        55..58 => ("olm.constraint", json!({"all": {"constraints": [by_kind(), {"not": {"constraints": [next]}}]}})),
        _ => return None,
    };
    if kind == "olm.constraint" {
        value["failureMessage"] = json!("something else is needed");
    }
    Some(json!({"type": kind, "value": value}))
}
