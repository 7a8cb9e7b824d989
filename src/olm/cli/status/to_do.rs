//! What is to be done about an operator: one line.

use super::view::{Row, Unmet, Version};
use crate::olm::api::cluster_service_version::{Phase, Requirement, reason};
use crate::olm::api::install_plan::InstallPlanPhase;
use crate::olm::api::subscription::{condition, reason as told};
use crate::olm::api::{DEPLOYMENT, NAMESPACE};
use crate::olm::operator::is_of_group;

/// The line, and whether something is wrong that somebody has to mend.
pub(super) fn to_do(row: &Row) -> (String, bool) {
    let versions = || [&row.next, &row.installed].into_iter().flatten().find_map(|it| version(row, it));
    match catalogs(row).or_else(|| plan(row)).or_else(|| resolution(row)).or_else(versions) {
        Some(text) => (text, true),
        None => (otherwise(row), false),
    }
}

fn catalogs(row: &Row) -> Option<String> {
    row.condition(condition::CATALOG_SOURCES_UNHEALTHY)?;
    let names: Vec<&str> = row.unhealthy_catalogs.iter().map(|it| it.name.as_str()).collect();
    Some(match names.is_empty() {
        true => {
            let catalog = row.subscription.as_ref().map(|it| it.catalog.as_str()).unwrap_or_default();
            format!("create the CatalogSource {catalog}, or name another one in the Subscription")
        }
        false => format!("mend or remove the CatalogSource {}: cvo olm catalogs says more of it", names.join(", ")),
    })
}

fn plan(row: &Row) -> Option<String> {
    let plan = row.plan.as_ref().filter(|plan| !plan.is_complete())?;
    if plan.phase == InstallPlanPhase::Failed {
        let (name, namespace) = (&plan.name, &row.namespace);
        return Some(format!(
            "mend what its message says, then delete the InstallPlan, so that another one is made: \
             kubectl delete installplan {name} -n {namespace}"
        ));
    }
    let is_stuck = plan.approved && !plan.message.is_empty();
    is_stuck.then(|| format!("mend what the message of InstallPlan {} says: it is tried again by itself", plan.name))
}

fn resolution(row: &Row) -> Option<String> {
    if row.condition(condition::INSTALL_PLAN_FAILED).is_some() {
        return Some(format!("mend what the condition {} says", condition::INSTALL_PLAN_FAILED));
    }
    if let Some(failed) = row.condition(condition::BUNDLE_UNPACK_FAILED) {
        return Some(match failed.reason.as_str() {
            told::ENSURE_INSTALL_PLAN_FAILED => "mend what keeps the InstallPlan from being made".to_owned(),
            _ => "mend what keeps the bundle from being read: it is tried again by itself".to_owned(),
        });
    }
    let failed = row.condition(condition::RESOLUTION_FAILED)?;
    Some(match failed.reason.as_str() {
        told::CONSTRAINTS_NOT_SATISFIABLE => {
            format!("change what stands against it: cvo olm why {} -n {} says what would help", row.name, row.namespace)
        }
        _ => format!("mend what the condition {} says", condition::RESOLUTION_FAILED),
    })
}

/// What is wrong with a version that does not pass by itself.
fn version(row: &Row, version: &Version) -> Option<String> {
    let failing = version.deployments.iter().find(|it| it.fails);
    let deployment = || {
        let namespace = &row.namespace;
        failing.map(|it| {
            format!(
                "mend what keeps Deployment {} from being ready: kubectl describe deployment {} -n {namespace}",
                it.name, it.name
            )
        })
    };
    // What is required comes with the plan.
    let comes = row.plan.as_ref().is_some_and(|plan| plan.phase == InstallPlanPhase::Installing);
    let lacks =
        || version.requirements.first().filter(|_| !comes).map(|it| requirement(row, it, version.requirements.len()));
    match version.phase {
        Phase::Pending if version.reason == reason::REQUIREMENTS_NOT_MET => lacks(),
        Phase::Installing => deployment(),
        Phase::Failed if is_of_group(&version.reason) => {
            Some(format!("mend the OperatorGroup of namespace {}, as {} says", row.namespace, version.name))
        }
        Phase::Failed if version.reason == reason::REQUIREMENTS_NOT_MET => lacks(),
        Phase::Failed => {
            Some(deployment().unwrap_or_else(|| {
                format!("mend what the message of {} says: it is tried again by itself", version.name)
            }))
        }
        _ => None,
    }
}

fn requirement(row: &Row, unmet: &Unmet, count: usize) -> String {
    let Unmet { kind, name, message, .. } = unmet;
    let namespace = &row.namespace;
    let text = match (kind.as_str(), &unmet.status) {
        ("CustomResourceDefinition" | "APIService", Requirement::NotPresent) if !message.contains("version") => {
            format!("install what brings {kind} {name}")
        }
        ("ServiceAccount", Requirement::NotPresent) => format!("create ServiceAccount {namespace}/{name}"),
        ("ServiceAccount", _) if !unmet.parts.is_empty() => {
            format!("give ServiceAccount {namespace}/{name} the rights that it lacks")
        }
        _ => format!("mend {kind} {name}: {message}"),
    };
    match count {
        1 => text,
        _ => format!("{text} (and {} more)", count - 1),
    }
}

/// Nothing is wrong: somebody may want to do something all the same.
fn otherwise(row: &Row) -> String {
    let namespace = &row.namespace;
    if let Some(hold) = &row.hold {
        let edit = format!("kubectl edit operatorcondition {} -n {namespace}", hold.name);
        return match hold.by_override {
            true => format!("wait until its override lets {} be replaced, or change that: {edit}", hold.name),
            false => format!("wait until {} says that it may be replaced, or override that: {edit}", hold.name),
        };
    }
    let plan = row.plan.as_ref().filter(|plan| !plan.is_complete());
    if let Some(plan) = plan.filter(|plan| plan.waits_for_approval()) {
        return format!("approve the InstallPlan: cvo olm approve {} -n {namespace}", plan.name);
    }
    if row.subscription.as_ref().is_some_and(|it| !it.is_read) {
        return unseen("the Subscription");
    }
    if row.condition(condition::BUNDLE_UNPACKING).is_some() {
        return "wait: the bundle is being read".to_owned();
    }
    if plan.is_some() {
        return "wait: the InstallPlan is being carried out".to_owned();
    }
    match (&row.next, &row.installed) {
        (Some(next), _) if next.exists && next.phase == Phase::None => unseen(&next.name),
        (Some(next), _) if next.exists => format!("wait: {} is being installed", next.name),
        (Some(next), _) => format!("wait: {} is planned", next.name),
        (None, Some(it)) if it.is_being_deleted || it.phase == Phase::Deleting => {
            format!("wait: {} is being deleted", it.name)
        }
        (None, Some(it)) if it.phase == Phase::Succeeded => "nothing".to_owned(),
        (None, Some(it)) => format!("wait: {} is being installed again", it.name),
        (None, None) => "wait: it is being looked for what can be installed".to_owned(),
    }
}

fn unseen(what: &str) -> String {
    format!(
        "wait: nobody has looked at {what} yet; if that lasts, see whether Deployment {NAMESPACE}/{DEPLOYMENT} runs"
    )
}
