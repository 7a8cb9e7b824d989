//! Whether the operators that are installed fit another release of the cluster, whether its catalogs will still have them, and which of
//! their versions would fit.

mod in_the_way;

pub(crate) use in_the_way::{in_the_way, next_minor};

use super::api::cluster_service_version::ClusterServiceVersion;
use super::api::subscription::{Approval, Subscription};
use super::catalog::served::Content;
use super::names::property::MAX_CLUSTER_VERSION;
use super::operator::compatibility::{Installed, Minor, maximum, minor};
use super::resolve::operator::Operator;
use super::resolve::package::{Entry, Package};
use super::resolve::rule::ClusterVersions;
use crate::version::parse_tolerant;
use semver::Version;
use serde::Serialize;
use std::collections::BTreeSet;

/// Another release of the cluster.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target<'a> {
    /// The release that runs.
    pub from: &'a str,
    pub to: &'a str,
    /// The version of Kubernetes that the release brings.
    pub kubernetes: Option<&'a Version>,
    /// CustomResourceDefinitions that it deletes.
    pub deletes: &'a BTreeSet<String>,
}

impl Target<'_> {
    /// The minor version, if it is a later one: patches of a release are for all operators.
    fn later(&self) -> Option<Minor> {
        let of = |text: &str| parse_tolerant(text).ok().map(|version| Minor(version.major, version.minor));
        let (from, to) = (of(self.from)?, of(self.to)?);
        (!from.reaches(to)).then_some(to)
    }
}

/// An operator, and what the update means for it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PlannedOperator {
    pub namespace: String,
    /// The ClusterServiceVersion.
    pub name: String,
    /// The Subscription that has installed it; all of these are empty without one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub subscription: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub package: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub channel: String,
    /// Namespace and name of the catalog.
    #[serde(skip)]
    pub catalog: (String, String),
    #[serde(skip)]
    pub version: Option<Version>,
    #[serde(skip)]
    pub is_manual: bool,
    /// The last minor version of the cluster that it supports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub maximum: Option<String>,
    /// Why it cannot run there.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hindrances: Vec<String>,
    /// What it will miss there.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// What would help.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub help: String,
}

/// All operators. `csvs`: without copies.
pub(crate) fn operators(
    target: &Target<'_>,
    csvs: &[ClusterServiceVersion],
    subscriptions: &[Subscription],
) -> Vec<PlannedOperator> {
    let mut all: Vec<PlannedOperator> = csvs.iter().map(|csv| operator(target, csv, subscriptions)).collect();
    all.sort_by(|one, other| (&one.namespace, &one.name).cmp(&(&other.namespace, &other.name)));
    all
}

fn operator(target: &Target<'_>, csv: &ClusterServiceVersion, subscriptions: &[Subscription]) -> PlannedOperator {
    let Installed { namespace, name, properties } = Installed::of(csv);
    let mut planned = PlannedOperator {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        version: parse_tolerant(&csv.spec.version).ok(),
        ..PlannedOperator::default()
    };
    let of = subscriptions.iter().find(|it| {
        let installed = it.status.as_ref().map(|status| status.installed_csv.as_str());
        it.metadata.namespace.as_deref() == Some(namespace) && installed == Some(name)
    });
    if let Some(subscription) = of {
        let spec = &subscription.spec;
        planned.subscription = subscription.metadata.name.clone().unwrap_or_default();
        planned.package.clone_from(&spec.name);
        planned.channel.clone_from(&spec.channel);
        planned.catalog = (spec.source_namespace.clone(), spec.source.clone());
        planned.is_manual = spec.install_plan_approval == Some(Approval::Manual);
    }
    match maximum(properties) {
        Ok(maximum) => {
            planned.maximum = maximum.map(|it| it.to_string());
            let too_low = maximum.zip(target.later()).filter(|(maximum, wanted)| !maximum.reaches(*wanted));
            if let Some((maximum, wanted)) = too_low {
                planned
                    .hindrances
                    .push(format!("the last version of the cluster that it supports is {maximum}, not {wanted}"));
            }
        }
        Err(cause) if target.later().is_some() => {
            planned
                .hindrances
                .push(format!("whether it supports {} cannot be told from {MAX_CLUSTER_VERSION}: {cause}", target.to));
        }
        Err(_) => {}
    }
    let least = parse_tolerant(&csv.spec.min_kube_version).ok();
    if let Some((least, kubernetes)) = least.zip(target.kubernetes).filter(|(least, brought)| least > *brought) {
        planned.hindrances.push(format!("it needs Kubernetes {least}, and the release brings {kubernetes}"));
    }
    let definitions = &csv.spec.custom_resource_definitions;
    let used: BTreeSet<&String> = definitions.required.iter().chain(&definitions.owned).map(|it| &it.name).collect();
    for name in used.into_iter().filter(|name| target.deletes.contains(*name)) {
        planned.hindrances.push(format!("the release deletes CustomResourceDefinition {name}, which it needs"));
    }
    planned
}

impl PlannedOperator {
    /// Whether a later version of it may be what helps.
    pub(crate) fn is_held(&self) -> bool {
        !self.hindrances.is_empty()
    }

    /// `content`: of its catalog after the update.
    pub(crate) fn will_have(&mut self, content: &Content) {
        let Self { package: name, channel, subscription, .. } = &*self;
        let (namespace, catalog) = &self.catalog;
        let Some(package) = read(content, name) else {
            self.warnings.push(format!(
                "catalog {namespace}/{catalog} will have no package {name}, so that it gets no updates: have Subscription \
                 {subscription} name a catalog that has it"
            ));
            return;
        };
        let channel = if channel.is_empty() { &package.default_channel } else { channel };
        let Some(found) = package.channels.get(channel) else {
            let others: Vec<&str> = package.channels.keys().map(String::as_str).collect();
            self.warnings.push(format!(
                "catalog {namespace}/{catalog} will have no channel {channel} of package {name}, so that it gets no updates: have \
                 Subscription {subscription} name another one of {}",
                others.join(", ")
            ));
            return;
        };
        let mut installed = Operator::new(&self.name, Vec::new(), &ClusterVersions::default());
        installed.version.clone_from(&self.version);
        let is_known = |entry: &Entry| entry.operator.name == installed.name || entry.follows(&installed);
        if !found.iter().any(is_known) {
            self.warnings.push(format!(
                "channel {channel} of package {name} in catalog {namespace}/{catalog} will neither have this version nor one that \
                 replaces it, so that it gets no updates: update it before, or install it anew afterwards"
            ));
        }
    }

    /// Looks for a version that fits in the catalog as it is now.
    pub(crate) fn look_for_help(&mut self, target: &Target<'_>, content: &Content) {
        let Some(wanted) = target.later() else { return };
        let (namespace, catalog) = &self.catalog;
        let package = read(content, &self.package);
        let own = |name: &str| match (self.channel.is_empty(), &package) {
            (true, Some(package)) => package.default_channel == name,
            _ => self.channel == name,
        };
        // The own channel first, then the smallest step.
        let channels = package.iter().flat_map(|package| &package.channels);
        let all = channels.flat_map(|(name, entries)| entries.iter().map(move |entry| (name, &entry.operator)));
        let later = all.filter_map(|(channel, operator)| {
            let version = operator.version.as_ref()?;
            let is_later = self.version.as_ref().is_none_or(|before| version > before);
            (is_later && supports(operator, wanted)).then(|| (!own(channel), version, &operator.name, channel))
        });
        self.help = match later.min() {
            None => format!(
                "no later version in catalog {namespace}/{catalog} supports {wanted}: ask who provides it for one, or remove it"
            ),
            Some((false, _, name, channel)) => {
                let approval = if self.is_manual { ", once its plans are approved" } else { "" };
                format!("{name} of channel {channel} supports {wanted}: let it be updated to that first{approval}")
            }
            Some((true, _, name, channel)) => format!(
                "{name} of channel {channel} supports {wanted}: have Subscription {} follow that channel first",
                self.subscription
            ),
        };
    }
}

fn read(content: &Content, package: &str) -> Option<Package> {
    Some(Package::of(content.index.package(package)?, &ClusterVersions::default()))
}

/// Whether a version in a catalog supports this minor version of the cluster.
fn supports(operator: &Operator, wanted: Minor) -> bool {
    let mut all = operator.values(MAX_CLUSTER_VERSION);
    match (all.next(), all.next()) {
        (None, _) => true,
        (Some(value), None) => minor(value).is_ok_and(|maximum| maximum.reaches(wanted)),
        (Some(_), Some(_)) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::olm::catalog::builder::tests::{bundle, channel, package};
    use crate::olm::catalog::served::tests::content;
    use serde_json::{Value, json};
    use std::collections::BTreeMap;

    fn csv(name: &str, maximum: Option<&str>) -> ClusterServiceVersion {
        let property = |it: &str| json!({"properties": [{"type": MAX_CLUSTER_VERSION, "value": it}]}).to_string();
        let version = name.rsplit_once(".v").unwrap().1;
        let annotations: BTreeMap<&str, String> =
            maximum.map(|it| ("operatorframework.io/properties", property(it))).into_iter().collect();
        let needed = json!([{"name": "gears.example.com", "version": "v1", "kind": "Gear"}]);
        serde_json::from_value(json!({
            "metadata": {"name": name, "namespace": "n", "annotations": annotations},
            "spec": {"version": version, "minKubeVersion": "1.30.0", "customresourcedefinitions": {"required": needed}},
        }))
        .unwrap()
    }

    fn subscription(channel: &str, installed: &str) -> Subscription {
        let spec = json!({"name": "a", "source": "main", "sourceNamespace": "m", "channel": channel,
            "installPlanApproval": "Manual"});
        let status = json!({"installedCSV": installed, "lastUpdated": "2026-01-01T00:00:00Z"});
        serde_json::from_value(json!({"metadata": {"name": "a", "namespace": "n"}, "spec": spec, "status": status}))
            .unwrap()
    }

    /// Versions of package `a` in channels, with the last version of the cluster that each supports.
    fn catalog(channels: &[(&str, &[&str])], maxima: &[(&str, &str)]) -> Content {
        let mut blobs: Vec<Value> = vec![package("a", channels[0].0)];
        blobs.extend(channels.iter().map(|(name, entries)| channel("a", name, entries)));
        let names: BTreeSet<&str> = channels.iter().flat_map(|(_, entries)| entries.iter().copied()).collect();
        for name in names {
            let mut blob = bundle("a", name, name.rsplit_once(".v").unwrap().1);
            let maxima = maxima.iter().filter(|(of, _)| *of == name);
            let all = maxima.map(|(_, maximum)| json!({"type": MAX_CLUSTER_VERSION, "value": maximum}));
            blob["properties"].as_array_mut().unwrap().extend(all);
            blobs.push(blob);
        }
        content(&blobs).0
    }

    fn planned(to: &str, csv: ClusterServiceVersion, channel: &str) -> PlannedOperator {
        let kubernetes = Version::new(1, 34, 0);
        let target = Target { from: "1.0.3", to, kubernetes: Some(&kubernetes), deletes: &BTreeSet::new() };
        let of = subscription(channel, csv.metadata.name.as_deref().unwrap());
        operators(&target, &[csv], &[of]).pop().unwrap()
    }

    #[test]
    fn operator_does_not_fit_a_later_minor_version_than_its_maximum() {
        for (to, maximum, expected) in [
            ("1.1.0", Some("1.0"), "the last version of the cluster that it supports is 1.0, not 1.1"),
            ("1.2.0", Some("1.1"), "the last version of the cluster that it supports is 1.1, not 1.2"),
            ("2.0.0", Some("1.9"), "the last version of the cluster that it supports is 1.9, not 2.0"),
            (
                "1.1.0",
                Some("x"),
                "whether it supports 1.1.0 cannot be told from olm.maxOpenShiftVersion: \"x\" is no version",
            ),
            ("1.1.0", Some("1.1"), ""),
            ("1.1.0", None, ""),
            ("1.0.4", Some("1.0"), ""),
            ("1.0.4", Some("x"), ""),
        ] {
            let planned = planned(to, csv("a.v1.0.0", maximum), "stable");
            let said = planned.hindrances.join("|");
            assert!(said.starts_with(expected) && said.is_empty() == expected.is_empty(), "{to} {maximum:?}: {said}");
        }
    }

    #[test]
    fn operator_does_not_fit_where_something_goes_that_it_needs() {
        let (kubernetes, deletes) = (Version::new(1, 29, 0), BTreeSet::from(["gears.example.com".to_owned()]));
        let target = Target { from: "1.0.0", to: "1.0.1", kubernetes: Some(&kubernetes), deletes: &deletes };
        let found = operators(&target, &[csv("a.v1.0.0", None)], &[]);
        assert_eq!(
            found[0].hindrances,
            [
                "it needs Kubernetes 1.30.0, and the release brings 1.29.0",
                "the release deletes CustomResourceDefinition gears.example.com, which it needs"
            ]
        );
    }

    #[test]
    fn what_its_catalog_will_not_have_any_more_is_a_warning() {
        let warned = |channel: &str, content: &Content| {
            let mut planned = planned("1.1.0", csv("a.v1.0.0", None), channel);
            planned.will_have(content);
            planned.warnings.join("|")
        };
        let next = catalog(&[("stable", &["a.v1.0.0", "a.v2.0.0"]), ("fast", &["a.v3.0.0"])], &[]);
        assert_eq!(warned("stable", &next), "");
        assert_eq!(warned("", &next), "");
        let other = warned("old", &next);
        assert!(other.contains("will have no channel old of package a") && other.ends_with("fast, stable"), "{other}");
        assert!(warned("fast", &next).contains("neither have this version nor one that replaces it"));
        let pruned = content(&[
            package("a", "stable"),
            json!({"schema": "olm.channel", "package": "a", "name": "stable",
                "entries": [{"name": "a.v2.0.0", "skipRange": "<2.0.0"}]}),
            bundle("a", "a.v2.0.0", "2.0.0"),
        ]);
        assert_eq!(warned("stable", &pruned.0), "");
        let gone = content(&[package("b", "x"), channel("b", "x", &["b.v1"]), bundle("b", "b.v1", "1.0.0")]).0;
        assert!(warned("stable", &gone).contains("will have no package a"));
    }

    #[test]
    fn version_that_would_fit_is_named() {
        let help = |channel: &str, content: &Content| {
            let target = Target { from: "1.0.0", to: "1.1.0", kubernetes: None, deletes: &BTreeSet::new() };
            let mut planned = planned("1.1.0", csv("a.v1.0.0", Some("1.0")), channel);
            planned.look_for_help(&target, content);
            planned.help
        };
        let (stable, fast): (&[&str], &[&str]) = (&["a.v1.0.0", "a.v1.5.0", "a.v2.0.0"], &["a.v1.6.0"]);
        let channels = [("stable", stable), ("fast", fast)];
        let content = catalog(&channels, &[("a.v1.5.0", "1.0"), ("a.v2.0.0", "1.1")]);
        assert_eq!(
            help("stable", &content),
            "a.v2.0.0 of channel stable supports 1.1: let it be updated to that first, once its plans are approved"
        );
        assert_eq!(
            help("fast", &content),
            "a.v1.6.0 of channel fast supports 1.1: let it be updated to that first, once its plans are approved"
        );
        let content = catalog(&channels, &[("a.v1.5.0", "1.0"), ("a.v2.0.0", "1.0")]);
        assert_eq!(
            help("stable", &content),
            "a.v1.6.0 of channel fast supports 1.1: have Subscription a follow that channel first"
        );
        let content = catalog(&channels, &[("a.v1.5.0", "1.0"), ("a.v2.0.0", "1.0"), ("a.v1.6.0", "1.0")]);
        assert!(help("stable", &content).starts_with("no later version in catalog m/main supports 1.1"));
    }
}
