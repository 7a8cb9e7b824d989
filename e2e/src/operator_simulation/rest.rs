//! What must hold once everybody is at rest.

use super::checks::{Namespaces, Seen, names, provided};
use super::specs::CRASHES;
use super::store::{Store, annotation, is_going, label, owners, text};
use super::tally::Tally;
use super::world::World;
use anyhow::ensure;
use serde_json::Value;
use std::collections::BTreeSet;

const CSV: &str = "ClusterServiceVersion";
/// Reasons of what must not run, or cannot belong to its group.
const OF_APIS: [&str; 2] = ["InterOperatorGroupOwnerConflict", "CannotModifyStaticOperatorGroupProvidedAPIs"];
const OF_GROUPS: [&str; 5] = [
    "NoOperatorGroup",
    "TooManyOperatorGroups",
    "NoTargetNamespaces",
    "UnsupportedOperatorGroup",
    "InvalidInstallModes",
];

fn reason(csv: &Value) -> &str {
    text(csv, "/status/reason")
}

/// No two groups name an API in one namespace, and none names what nobody provides.
pub(super) fn groups(seen: &Seen) -> anyhow::Result<()> {
    for group in seen.groups.iter().filter(|group| !group.is_static()) {
        let alone = seen.groups_in(group.namespace()).len() == 1;
        for other in group.near(&seen.groups).filter(|other| !other.is_static()) {
            let shared: Vec<_> = group.apis().intersection(other.apis()).collect();
            let is_other_alone = seen.groups_in(other.namespace()).len() == 1;
            // What groups name that are not alone in their namespace stays until they are.
            ensure!(!alone || !is_other_alone || shared.is_empty(), "{group:?} and {other:?} both name {shared:?}");
        }
        let here = || seen.csvs.iter().filter(|csv| text(csv, "/metadata/namespace") == group.namespace());
        let is_new = |csv: &Value| matches!(text(csv, "/status/phase"), "" | "Pending");
        if alone && !here().any(is_new) {
            let all: BTreeSet<String> = here().flat_map(provided).collect();
            ensure!(group.apis().is_subset(&all), "{group:?} names what nobody provides");
        }
    }
    Ok(())
}

fn name(csv: &Value) -> String {
    format!("{}/{}", text(csv, "/metadata/namespace"), text(csv, "/metadata/name"))
}

/// Those that must not run do not, and those that can do.
pub(super) fn operators(world: &World, seen: &Seen, tally: &mut Tally) -> anyhow::Result<()> {
    let is_admitted = |csv: &&Value| {
        let reason = reason(csv);
        !OF_APIS.contains(&reason)
            && !OF_GROUPS.contains(&reason)
            && reason != "InstallComponentFailedNoRetry"
            && !is_going(csv)
    };
    let admitted: Vec<&Value> = seen.csvs.iter().filter(is_admitted).collect();
    for csv in &admitted {
        let Some(group) = seen.groups_in(text(csv, "/metadata/namespace")).first().copied() else { continue };
        let near: BTreeSet<&str> = group.near(&seen.groups).map(|it| it.namespace()).collect();
        let rival = admitted.iter().find(|other| {
            near.contains(text(other, "/metadata/namespace")) && !provided(csv).is_disjoint(&provided(other))
        });
        ensure!(
            rival.is_none(),
            "{} and {:?} both provide an API in one namespace",
            name(csv),
            rival.map(|it| name(it))
        );
    }
    for csv in &seen.csvs {
        let phase = text(csv, "/status/phase");
        let runs = phase == "Succeeded" && !is_going(csv);
        tally.running += usize::from(runs);
        tally.waiting += usize::from(!runs);
        tally.conflicts += usize::from(OF_APIS.contains(&reason(csv)));
        let is_healthy = is_healthy(world, seen, csv);
        tally.healthy += usize::from(is_healthy);
        ensure!(runs || !is_healthy, "{} could run, and is {}", name(csv), csv["status"]);
        deployments(&world.store, csv, runs)?;
    }
    Ok(())
}

fn deployments(store: &Store, csv: &Value, runs: bool) -> anyhow::Result<()> {
    let namespace = text(csv, "/metadata/namespace");
    let all = csv.pointer("/spec/install/spec/deployments").and_then(Value::as_array).into_iter().flatten();
    for entry in all.filter(|_| runs) {
        let found = store.get("Deployment", namespace, text(entry, "/name"));
        ensure!(found.is_some(), "{} runs without its Deployment {}", name(csv), text(entry, "/name"));
    }
    let owned = store.of_namespace("Deployment", namespace).into_iter().filter(|it| {
        owners(it).any(|uid| uid == text(csv, "/metadata/uid"))
            && label(it, "olm.owner") == Some(text(csv, "/metadata/name"))
            && label(it, "olm.managed") == Some("true")
            && !is_going(it)
    });
    let owned: Vec<&str> = owned.map(|it| text(it, "/metadata/name")).collect();
    ensure!(!OF_APIS.contains(&reason(csv)) || owned.is_empty(), "{} must not run, and has {owned:?}", name(csv));
    ensure!(!runs || owned.iter().all(|it| names(csv, it)), "{} does not name all of {owned:?}", name(csv));
    Ok(())
}

/// Whether nothing keeps it from running. What stands alone is enough here; more is not found again by other means.
fn is_healthy(world: &World, seen: &Seen, csv: &Value) -> bool {
    let namespace = text(csv, "/metadata/namespace");
    let of = seen.groups_in(namespace);
    let [group] = of.as_slice() else { return false };
    let spec = |pointer: &str| csv.pointer(pointer).and_then(Value::as_array).into_iter().flatten();
    let definitions =
        || spec("/spec/customresourcedefinitions/owned").chain(spec("/spec/customresourcedefinitions/required"));
    let own: BTreeSet<&str> = definitions().map(|it| text(it, "/name")).collect();
    let is_related = |other: &&Value| {
        let theirs = other.pointer("/spec/customresourcedefinitions/owned").and_then(Value::as_array);
        let package = |it: &Value| text(it, "/metadata/name").split('.').next().unwrap_or_default().to_owned();
        let replaces = |one: &Value, other: &Value| text(one, "/spec/replaces") == text(other, "/metadata/name");
        text(other, "/metadata/namespace") == namespace
            && text(other, "/metadata/uid") != text(csv, "/metadata/uid")
            && (package(other) == package(csv)
                || replaces(csv, other)
                || replaces(other, csv)
                || theirs.into_iter().flatten().any(|it| own.contains(text(it, "/name"))))
    };
    // Two of the same name cannot both have copies in one namespace.
    let is_twin =
        |other: &&Value| name(other) != name(csv) && text(other, "/metadata/name") == text(csv, "/metadata/name");
    let has_twin = || seen.csvs.iter().any(|other| is_twin(&other));
    let account =
        world.store.get("OperatorGroup", namespace, group.name()).map(|it| text(it, "/spec/serviceAccountName"));
    let has_image = |it: &Value| it.pointer("/spec/template/spec/containers/0/image").is_some_and(|it| it != CRASHES);
    !is_going(csv)
        && world.is_planned(csv)
        && world.store.is_active(namespace)
        && account == Some("")
        && fits(csv, namespace, group.targets.as_ref())
        && !seen.is_expelled(csv)
        && text(csv, "/spec/install/strategy") == "deployment"
        && csv.pointer("/spec/minKubeVersion").is_none()
        && csv.pointer("/spec/apiservicedefinitions").is_none()
        && spec("/spec/install/spec/deployments").all(has_image)
        && own.iter().all(|name| world.is_defined(name))
        && !seen.csvs.iter().any(|other| is_related(&other))
        && (csv.pointer("/spec/install/spec/permissions").is_none() || !has_twin())
}

/// Whether its install modes fit these targets; `None` for all namespaces.
fn fits(csv: &Value, own: &str, targets: Option<&BTreeSet<String>>) -> bool {
    let modes = csv.pointer("/spec/installModes").and_then(Value::as_array).cloned().unwrap_or_default();
    let has = |name: &str| modes.iter().any(|mode| text(mode, "/type") == name && mode["supported"] == true);
    let known: BTreeSet<&str> = modes.iter().map(|mode| text(mode, "/type")).collect();
    let fits = match targets {
        None => has("AllNamespaces"),
        Some(targets) if targets.is_empty() => false,
        Some(targets) if targets.len() == 1 && targets.contains(own) => has("OwnNamespace"),
        Some(targets) if targets.len() == 1 => has("SingleNamespace"),
        Some(targets) => has("MultiNamespace") && (!targets.contains(own) || has("OwnNamespace")),
    };
    fits && known.len() == modes.len()
}

/// Copies are where an operator works, and nowhere else, and say the same as it.
pub(super) fn copies(world: &World, seen: &Seen, namespaces: &Namespaces) -> anyhow::Result<()> {
    let store = &world.store;
    let disabled =
        store.get("OLMConfig", "", "cluster").is_some_and(|it| it["spec"]["features"]["disableCopiedCSVs"] == true);
    let works_in = |csv: &Value, namespace: &str| match annotation(csv, "olm.targetNamespaces") {
        None => false,
        Some("") => !disabled && namespace != text(csv, "/metadata/namespace"),
        Some(all) => all.split(',').any(|it| it == namespace) && namespace != text(csv, "/metadata/namespace"),
    };
    for (namespace, name, copy) in store.all(CSV) {
        let Some(from) = label(copy, "olm.copiedFrom").filter(|_| store.is_active(namespace)) else { continue };
        let original = store.get(CSV, from, name).filter(|it| label(it, "olm.copiedFrom").is_none() && !is_going(it));
        let Some(original) = original else { anyhow::bail!("a copy {namespace}/{name} of nothing in {from}") };
        ensure!(works_in(original, namespace), "a copy {namespace}/{name} where {from}/{name} does not work");
        // Whoever changes a copy while nobody looks is not found out by its metadata.
        if text(original, "/status/phase") == "Succeeded" && !world.touched.contains(text(copy, "/metadata/uid")) {
            ensure!(
                copy["spec"] == original["spec"]
                    && reason(copy) == "Copied"
                    && text(copy, "/status/phase") == "Succeeded"
                    && annotation(copy, "olm.targetNamespaces").is_none(),
                "a copy {namespace}/{name} is not as its original in {from}"
            );
        }
    }
    for csv in seen.csvs.iter().filter(|csv| text(csv, "/status/phase") == "Succeeded" && !is_going(csv)) {
        let missing =
            namespaces.keys().find(|it| works_in(csv, it) && store.get(CSV, it, text(csv, "/metadata/name")).is_none());
        ensure!(missing.is_none(), "{} has no copy in {missing:?}", name(csv));
    }
    Ok(())
}
