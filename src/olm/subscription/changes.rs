//! What an InstallPlan changes, in a few lines that are read before it is approved: versions, rights that the operators have not had
//! before, and definitions of kinds.

use crate::error::listed;
use crate::olm::api::cluster_service_version::StrategyDetails;
use crate::olm::bundle::Bundle;
use crate::olm::operator::rights::{MAX_SINGLE, beyond, count};
use crate::olm::resolve::answer::New;
use crate::olm::steps::strategy;
use k8s_openapi::api::rbac::v1::PolicyRule;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Bytes of the lines together, and of the names in one.
const MAX_TEXT: usize = 8 << 10;
const MAX_LINE: usize = 1 << 10;

/// What two versions of an operator differ in.
#[derive(Clone, Debug, Default)]
struct Version {
    version: String,
    namespaced: Vec<PolicyRule>,
    of_cluster: Vec<PolicyRule>,
    /// Names of the definitions that it owns.
    owned: BTreeSet<String>,
}

impl Version {
    fn of(csv: &Value) -> Version {
        let StrategyDetails { permissions, cluster_permissions, .. } =
            strategy(csv).ok().and_then(|it| it.spec).unwrap_or_default();
        let owned = csv.pointer("/spec/customresourcedefinitions/owned").and_then(Value::as_array);
        let name = |it: &Value| it.get("name").and_then(Value::as_str).map(ToOwned::to_owned);
        Version {
            version: csv.pointer("/spec/version").and_then(Value::as_str).unwrap_or_default().to_owned(),
            namespaced: permissions.into_iter().flat_map(|it| it.rules).collect(),
            of_cluster: cluster_permissions.into_iter().flat_map(|it| it.rules).collect(),
            owned: owned.into_iter().flatten().filter_map(name).collect(),
        }
    }
}

/// `before`: the ClusterServiceVersions that are replaced, by name, as far as they exist.
pub(crate) fn summary(bundles: &[(New, Arc<Bundle>)], before: &BTreeMap<String, Value>) -> String {
    let (mut versions, mut rights, mut definitions) = (Vec::new(), Vec::new(), Vec::new());
    for (new, bundle) in bundles {
        let csv: Value = serde_json::from_slice(&bundle.csv_object().raw.bytes()).unwrap_or_default();
        let (next, old) = (Version::of(&csv), before.get(&new.replaces).map(Version::of));
        versions.push(version(new, &next, old.as_ref()));
        let old = old.unwrap_or_default();
        let of_cluster: Vec<&PolicyRule> = old.of_cluster.iter().collect();
        let all: Vec<&PolicyRule> = old.of_cluster.iter().chain(&old.namespaced).collect();
        rights.extend(told(&new.name, "in the whole cluster", &next.of_cluster, &of_cluster));
        rights.extend(told(&new.name, "in the namespaces of its OperatorGroup", &next.namespaced, &all));
        let brought: Vec<&str> = bundle.crds().map(|object| object.id.name.as_str()).collect();
        let (kept, added): (Vec<&str>, Vec<&str>) = brought.into_iter().partition(|name| old.owned.contains(*name));
        for (which, names) in [("new", added), ("as before or changed", kept)] {
            if !names.is_empty() {
                definitions.push(format!("{}: definitions, {which}: {}", new.name, together(&names)));
            }
        }
    }
    let lines: Vec<String> = versions.into_iter().chain(rights).chain(definitions).collect();
    listed(&lines, "\n", MAX_TEXT, |rest| format!("and {rest} more lines"))
}

fn version(new: &New, next: &Version, old: Option<&Version>) -> String {
    let (name, version) = (&new.name, &next.version);
    match old {
        Some(old) => format!("{name}: {} -> {version}, in the place of {}", old.version, new.replaces),
        None if new.subscriptions.is_empty() => format!("{name}: {version} is new, because others depend on it"),
        None => format!("{name}: {version} is new"),
    }
}

/// One line for what shares its verbs.
fn told(name: &str, place: &str, rules: &[PolicyRule], given: &[&PolicyRule]) -> Vec<String> {
    let mut rights: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut is_large = false;
    for rule in rules {
        if count(rule) > MAX_SINGLE {
            is_large = true;
            continue;
        }
        for (what, verbs) in beyond(rule, given) {
            rights.entry(what).or_default().extend(verbs);
        }
    }
    let mut by_verbs: BTreeMap<BTreeSet<String>, Vec<String>> = BTreeMap::new();
    for (what, verbs) in rights {
        by_verbs.entry(verbs).or_default().push(what);
    }
    let line = |(verbs, what): (BTreeSet<String>, Vec<String>)| {
        let verbs: Vec<String> = verbs.into_iter().collect();
        format!("{name}: new rights {place}: {} of {}", together(&verbs), together(&what))
    };
    let large = is_large.then(|| format!("{name}: new rights {place}: by rules that are too large to be shown here"));
    by_verbs.into_iter().map(line).chain(large).collect()
}

fn together<S: AsRef<str>>(names: &[S]) -> String {
    listed(names, ", ", MAX_LINE, |rest| format!("and {rest} more"))
}
