//! What a ClusterServiceVersion requires of the cluster, and whether it is there.

use super::chain;
use super::component::Owner;
use super::given::Given;
use super::mode::ALL;
use super::rights::Rights;
use crate::olm::api::GROUP;
use crate::olm::api::cluster_service_version::{
    ClusterServiceVersion, CrdDescription, DependentStatus, NativeApi, Requirement, RequirementStatus, StrategyDetails,
    StrategyPermissions,
};
use crate::olm::permissions::rule_text;
use crate::version;
use jiff::Timestamp;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// So many namespaces are named where rights are missing.
const TOLD: usize = 3;

/// What requirements depend on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct World<'a> {
    /// The version of the API server, or why it is not known.
    pub kubernetes: Result<&'a semver::Version, &'a str>,
    /// By name.
    pub definitions: &'a BTreeMap<String, Definition>,
    /// APIServices by name.
    pub services: &'a BTreeMap<String, ApiService>,
    /// Group, version and kind of what the API server serves, as far as somebody has asked.
    pub served: &'a BTreeSet<(String, String, String)>,
    /// By namespace and name.
    pub accounts: &'a BTreeMap<(String, String), Account>,
    pub rights: &'a Rights,
}

impl World<'_> {
    /// uid of a CustomResourceDefinition.
    pub(crate) fn defined(&self, name: &str) -> Option<String> {
        Some(self.definitions.get(name)?.uid.clone())
    }

    /// uid of an APIService for which a Service answers.
    pub(crate) fn answered(&self, name: &str) -> Option<String> {
        Some(self.services.get(name).filter(|it| it.has_service)?.uid.clone())
    }
}

/// A CustomResourceDefinition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Definition {
    pub uid: String,
    /// The resourceVersion.
    pub version: String,
    pub served: BTreeSet<String>,
    /// It is established, and its names are accepted.
    pub is_available: bool,
    /// Namespace and name of the ClusterServiceVersions that brought it.
    pub alongside: BTreeSet<(String, String)>,
    /// How its objects become those of another version: `spec.conversion`.
    pub conversion: Value,
    /// The server keeps fields that no schema knows, and converts nothing.
    pub keeps_unknown_fields: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ApiService {
    pub uid: String,
    pub is_available: bool,
    /// Why it is not, and since when.
    pub message: String,
    pub since: Option<Timestamp>,
    /// Whom its labels name.
    pub owner: Option<Owner>,
    /// A Service answers for it, and not the API server itself.
    pub has_service: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Account {
    /// uids of the ClusterServiceVersions that own it.
    pub owners: BTreeSet<String>,
}

/// A line for each requirement.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Verdict {
    pub met: bool,
    pub lines: Vec<RequirementStatus>,
}

impl RequirementStatus {
    pub(crate) fn is_met(&self) -> bool {
        matches!(self.status, Requirement::Present | Requirement::DeploymentFound)
    }
}

/// Whether everything is there that is required. `siblings`: all of the namespace by name.
pub(crate) fn check(
    csv: &ClusterServiceVersion,
    strategy: &StrategyDetails,
    siblings: &BTreeMap<&str, &ClusterServiceVersion>,
    (world, given): (&World<'_>, &Given),
) -> Verdict {
    let mut lines = of_cluster(csv, strategy, siblings, world);
    lines.extend(accounts(csv, strategy, (world, given)));
    Verdict { met: lines.iter().all(RequirementStatus::is_met), lines }
}

/// The same without the accounts of the operator and their rights, which its own plan brings.
pub(crate) fn of_cluster(
    csv: &ClusterServiceVersion,
    strategy: &StrategyDetails,
    siblings: &BTreeMap<&str, &ClusterServiceVersion>,
    world: &World<'_>,
) -> Vec<RequirementStatus> {
    let spec = &csv.spec;
    let mut lines: Vec<RequirementStatus> = kubernetes(csv, world).into_iter().collect();
    let owned = spec.custom_resource_definitions.owned.iter().map(|it| (it, true));
    let required = spec.custom_resource_definitions.required.iter().map(|it| (it, false));
    // Sorted, and once each.
    let all: BTreeMap<(&str, &str), (&CrdDescription, bool)> =
        required.chain(owned).map(|(it, owned)| ((it.name.as_str(), it.version.as_str()), (it, owned))).collect();
    lines.extend(all.into_values().map(|(it, owned)| definition(csv, (it, owned), siblings, world)));
    lines.extend(spec.api_service_definitions.required.iter().map(|it| {
        let name = format!("{}.{}", it.version, it.group);
        let known = world.services.get(&name);
        let is_there = serves(world, &it.group, &it.version, &it.kind) && known.is_some_and(|it| it.is_available);
        RequirementStatus {
            status: if is_there { Requirement::Present } else { Requirement::NotPresent },
            uuid: known.filter(|_| is_there).map(|it| it.uid.clone()).unwrap_or_default(),
            ..line("apiregistration.k8s.io", "v1", "APIService", &name)
        }
    }));
    lines.extend(spec.api_service_definitions.owned.iter().map(|it| {
        let found = strategy.deployments.iter().any(|deployment| deployment.name == it.deployment_name);
        RequirementStatus {
            status: if found { Requirement::DeploymentFound } else { Requirement::DeploymentNotFound },
            ..line("apiregistration.k8s.io", "v1", "APIService", &format!("{}.{}", it.version, it.group))
        }
    }));
    lines.extend(spec.native_apis.iter().map(|it| native(it, world)));
    lines
}

fn line(group: &str, version: &str, kind: &str, name: &str) -> RequirementStatus {
    RequirementStatus {
        group: group.to_owned(),
        version: version.to_owned(),
        kind: kind.to_owned(),
        name: name.to_owned(),
        ..RequirementStatus::default()
    }
}

fn kubernetes(csv: &ClusterServiceVersion, world: &World<'_>) -> Option<RequirementStatus> {
    let wanted = csv.spec.min_kube_version.as_str();
    let name = csv.metadata.name.as_deref().unwrap_or_default();
    let line = || line(GROUP, "v1alpha1", "ClusterServiceVersion", name);
    let missing = |message: String| RequirementStatus { status: Requirement::NotPresent, message, ..line() };
    if wanted.is_empty() {
        return None;
    }
    Some(match (world.kubernetes, version::parse_tolerant(wanted)) {
        (Err(error), _) => missing(format!("the version of the API server is not known: {error}")),
        (_, Err(error)) => missing(format!("CSV version parsing error: minKubeVersion {error}; correct the field")),
        (Ok(server), Ok(lowest)) if version::precedence(&lowest, server).is_gt() => {
            missing(format!("CSV version requirement not met: minKubeVersion ({wanted}) > server version ({server})"))
        }
        (Ok(server), Ok(_)) => RequirementStatus {
            status: Requirement::Present,
            message: format!("CSV minKubeVersion ({wanted}) less than server version ({server})"),
            ..line()
        },
    })
}

fn definition(
    csv: &ClusterServiceVersion,
    (wanted, owned): (&CrdDescription, bool),
    siblings: &BTreeMap<&str, &ClusterServiceVersion>,
    world: &World<'_>,
) -> RequirementStatus {
    let line = line("apiextensions.k8s.io", "v1", "CustomResourceDefinition", &wanted.name);
    let said = |status, message: &str, uuid: &str| RequirementStatus {
        status,
        message: message.to_owned(),
        uuid: uuid.to_owned(),
        ..line.clone()
    };
    let Some(found) = world.definitions.get(&wanted.name) else {
        return said(Requirement::NotPresent, "CRD is not present", "");
    };
    let others = if owned { brought_by_others(csv, found, siblings) } else { Vec::new() };
    if !others.is_empty() {
        let message = format!("CRD installed alongside other CSV(s): {}", others.join(", "));
        return said(Requirement::PresentNotSatisfied, &message, "");
    }
    if !found.served.contains(&wanted.version) {
        return said(Requirement::NotPresent, "CRD version not served", "");
    }
    match found.is_available {
        true => said(Requirement::Present, "CRD is present and Established condition is true", &found.uid),
        false => {
            let message = "CRD is present but the Established condition is False (not available)";
            said(Requirement::PresentNotAvailable, message, "")
        }
    }
}

/// The ClusterServiceVersions that brought the definition, where this one did not and takes their place: its plan has not
/// updated the definition yet.
fn brought_by_others(
    csv: &ClusterServiceVersion,
    definition: &Definition,
    siblings: &BTreeMap<&str, &ClusterServiceVersion>,
) -> Vec<String> {
    let (namespace, own) = (csv.metadata.namespace.as_deref(), csv.metadata.name.as_deref());
    let here = definition.alongside.iter().filter(|(of, _)| Some(of.as_str()) == namespace);
    let names: BTreeSet<&str> = here.map(|(_, name)| name.as_str()).collect();
    if own.is_some_and(|own| names.contains(own)) {
        return Vec::new();
    }
    let before = chain::before(csv, siblings);
    before.into_iter().filter(|name| names.contains(name)).map(str::to_owned).collect()
}

fn serves(world: &World<'_>, group: &str, version: &str, kind: &str) -> bool {
    world.served.contains(&(group.to_owned(), version.to_owned(), kind.to_owned()))
}

fn native(wanted: &NativeApi, world: &World<'_>) -> RequirementStatus {
    let NativeApi { group, version, kind } = wanted;
    let line = line(group, version, kind, &format!("{version}.{group}"));
    let (status, message) = match serves(world, group, version, kind) {
        true => (Requirement::Present, "Native API exists"),
        false => (Requirement::NotPresent, "Native API does not exist"),
    };
    RequirementStatus { status, message: message.to_owned(), ..line }
}

/// A line for each account that the operator runs as, with a part for each of its rules.
fn accounts(
    csv: &ClusterServiceVersion,
    strategy: &StrategyDetails,
    (world, given): (&World<'_>, &Given),
) -> Vec<RequirementStatus> {
    let namespace = csv.metadata.namespace.as_deref().unwrap_or_default();
    let mut lines: BTreeMap<&str, RequirementStatus> = BTreeMap::new();
    let namespaced = strategy.permissions.iter().enumerate().map(|(at, it)| (it, given.places(at, namespace)));
    for (permission, places) in namespaced.chain(strategy.cluster_permissions.iter().map(|it| (it, vec![ALL]))) {
        let name = permission.service_account_name.as_str();
        let fresh = || RequirementStatus { status: Requirement::Present, ..line("", "v1", "ServiceAccount", name) };
        let entry = lines.entry(name).or_insert_with(fresh);
        let (status, message) = match world.accounts.get(&(namespace.to_owned(), name.to_owned())) {
            None => (Requirement::NotPresent, "Service account does not exist".to_owned()),
            Some(account) if !account.owners.is_empty() && !is_owner(csv, account) => {
                let message = "Service account is owned by another ClusterServiceVersion";
                (Requirement::PresentNotSatisfied, message.to_owned())
            }
            Some(_) => {
                let (parts, lacking) = rules(permission, namespace, &places, world);
                entry.dependents.extend(parts);
                if lacking.is_empty() {
                    continue;
                }
                (Requirement::PresentNotSatisfied, unsatisfied(namespace, &lacking))
            }
        };
        entry.status = status;
        entry.message = message;
    }
    lines.into_values().collect()
}

/// Other namespaces than its own are named.
fn unsatisfied(own: &str, lacking: &BTreeSet<&str>) -> String {
    let message = "Policy rule not satisfied for service account";
    let others: Vec<&str> = lacking.iter().copied().filter(|it| *it != own && *it != ALL).collect();
    let named = others.iter().copied().take(TOLD).collect::<Vec<_>>().join(", ");
    match others.len() {
        0 => message.to_owned(),
        1 => format!("{message} in namespace {named}"),
        count if count <= TOLD => format!("{message} in namespaces {named}"),
        count => format!("{message} in {count} namespaces, such as {named}"),
    }
}

fn is_owner(csv: &ClusterServiceVersion, account: &Account) -> bool {
    csv.metadata.uid.as_ref().is_some_and(|uid| account.owners.contains(uid))
}

/// `places`: the namespaces of the rules; an empty one for all of them. Returns those where a rule is missing as well.
fn rules<'a>(
    permission: &StrategyPermissions,
    namespace: &str,
    places: &[&'a str],
    world: &World<'_>,
) -> (Vec<DependentStatus>, BTreeSet<&'a str>) {
    let account = (namespace, permission.service_account_name.as_str());
    let scope = if places.contains(&ALL) { "cluster" } else { "namespaced" };
    let mut lacking = BTreeSet::new();
    let mut part = |rule| {
        let missing: Vec<&str> = places.iter().copied().filter(|at| !world.rights.allow(account, at, rule)).collect();
        let status = if missing.is_empty() { Requirement::Satisfied } else { Requirement::NotSatisfied };
        lacking.extend(missing);
        DependentStatus {
            group: "rbac.authorization.k8s.io".to_owned(),
            version: "v1".to_owned(),
            kind: "PolicyRule".to_owned(),
            status,
            message: format!("{scope} rule:{}", rule_text(rule)),
            uuid: String::new(),
        }
    };
    let parts = permission.rules.iter().map(&mut part).collect();
    (parts, lacking)
}
