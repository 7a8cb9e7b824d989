//! Objects as operators: what of a namespace belongs to which Subscription, and what it says.

use super::objects::Objects;
use super::to_do::to_do;
use super::view::{Asked, Catalog, Hold, Plan, Row, Told, Unmet, Version, View, Workload};
use crate::gate::{self, Observed, Verdict};
use crate::object::condition::ConditionStatus;
use crate::olm::api::cluster_service_version::{ClusterServiceVersion, Phase, Requirement, RequirementStatus, reason};
use crate::olm::api::install_plan::{self, InstallPlan, Step};
use crate::olm::api::keys::annotation;
use crate::olm::api::operator_condition::UPGRADEABLE;
use crate::olm::api::subscription::{Subscription, condition};
use crate::olm::cli::cluster_output::word;
use crate::olm::cli::list::{PROBLEMS, plan_to_approve};
use crate::olm::operator::chain;
use crate::olm::plan::is_final;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Conditions that are told besides those.
const TOLD: [&str; 4] = [
    condition::BUNDLE_UNPACKING,
    condition::PACKAGE_DEPRECATED,
    condition::CHANNEL_DEPRECATED,
    condition::BUNDLE_DEPRECATED,
];

type Versions<'a> = BTreeMap<&'a str, &'a ClusterServiceVersion>;

impl View {
    /// `name`: the only operator that is asked for.
    pub(crate) fn of(objects: &Objects, name: Option<&str>) -> View {
        let mut rows = rows(objects);
        rows.retain(|row| name.is_none_or(|name| row.name == name));
        let mut remarks = objects.unread.clone();
        // What they say stands in the status of who waits, too.
        let error = objects.conditions.as_ref().err().filter(|_| rows.iter().any(|row| row.hold.is_some()));
        remarks.extend(error.map(|error| format!("OperatorConditions are not shown: {error}")));
        View { schema: 1, rows, undecodable: objects.odd.clone(), remarks }
    }
}

/// By namespace and name. Each ClusterServiceVersion belongs to one operator.
fn rows(objects: &Objects) -> Vec<Row> {
    let mut namespaces: BTreeMap<&str, Versions<'_>> = BTreeMap::new();
    for version in objects.versions.iter().filter(|it| !it.is_copy()) {
        let (namespace, name) = id(&version.metadata);
        namespaces.entry(namespace).or_default().insert(name, version);
    }
    for subscription in &objects.subscriptions {
        namespaces.entry(id(&subscription.metadata).0).or_default();
    }
    let mut rows: Vec<Row> = Vec::new();
    for (namespace, versions) in &namespaces {
        rows.extend(Place { namespace, versions, objects }.rows());
    }
    for row in &mut rows {
        (row.what_to_do, row.needs_somebody) = to_do(row);
    }
    rows.sort_by(|one, other| (&one.namespace, &one.name).cmp(&(&other.namespace, &other.name)));
    rows
}

fn id(metadata: &ObjectMeta) -> (&str, &str) {
    (metadata.namespace.as_deref().unwrap_or_default(), metadata.name.as_deref().unwrap_or_default())
}

fn phase(version: &ClusterServiceVersion) -> Phase {
    version.status.as_ref().map(|status| status.phase.clone()).unwrap_or_default()
}

/// A namespace.
#[derive(Clone, Copy)]
struct Place<'a> {
    namespace: &'a str,
    /// All of the namespace by name.
    versions: &'a Versions<'a>,
    objects: &'a Objects,
}

impl<'a> Place<'a> {
    fn rows(self) -> Vec<Row> {
        let mut rows = Vec::new();
        let mut covered: BTreeSet<&str> = BTreeSet::new();
        let is_here = |metadata: &ObjectMeta| id(metadata).0 == self.namespace;
        for subscription in self.objects.subscriptions.iter().filter(|it| is_here(&it.metadata)) {
            rows.push(self.subscribed(subscription));
            let status = subscription.status.as_ref();
            for name in status.iter().flat_map(|it| [it.installed_csv.as_str(), it.current_csv.as_str()]) {
                covered.insert(name);
                covered.extend(self.versions.get(name).iter().flat_map(|it| chain::before(it, self.versions)));
            }
        }
        // Whoever is replaced belongs to what replaces it. In a circle nobody is the last one.
        let is_replaced =
            |name: &str| self.versions.values().any(|it| it.spec.replaces == name && id(&it.metadata).1 != name);
        let (earlier, last): (Vec<&'a str>, Vec<&'a str>) = self.versions.keys().partition(|name| is_replaced(name));
        for name in last.into_iter().chain(earlier) {
            if let Some(version) = self.versions.get(name).filter(|_| covered.insert(name)) {
                covered.extend(chain::before(version, self.versions));
                rows.push(self.by_hand(version));
            }
        }
        rows
    }

    fn subscribed(self, subscription: &Subscription) -> Row {
        let spec = &subscription.spec;
        let mut row = Row {
            namespace: self.namespace.to_owned(),
            name: id(&subscription.metadata).1.to_owned(),
            subscription: Some(Asked {
                package: spec.name.clone(),
                channel: spec.channel.clone(),
                catalog: format!("{}/{}", spec.source_namespace, spec.source),
                is_read: subscription.status.is_some(),
            }),
            ..Row::default()
        };
        let Some(status) = &subscription.status else { return row };
        self.put_versions(&mut row, &status.installed_csv, &status.current_csv);
        let named = status.install_plan_ref.as_ref().and_then(|plan| plan.name.as_deref());
        row.plan = self.plans().find(|it| it.metadata.name.as_deref() == named && named.is_some()).map(plan);
        // What somebody has to do is known without reading the plans, too.
        let to_approve = plan_to_approve(status).filter(|_| self.objects.plans.is_none());
        row.plan = row.plan.or(to_approve.map(Plan::to_approve));
        let is_told = |type_: &str| PROBLEMS.contains(&type_) || TOLD.contains(&type_);
        let true_ones = status.conditions.iter().filter(|it| it.status == ConditionStatus::True && is_told(&it.type_));
        row.conditions = true_ones
            .map(|it| Told {
                type_: it.type_.clone(),
                reason: it.reason.clone(),
                message: it.message.clone(),
                since: time(it.last_transition_time.as_ref()),
            })
            .collect();
        row.unhealthy_catalogs = status
            .catalog_health
            .iter()
            .filter(|it| !it.healthy)
            .map(|it| {
                let text = |text: &Option<String>| text.clone().unwrap_or_default();
                let catalog = &it.catalog_source_ref;
                Catalog {
                    name: format!("{}/{}", text(&catalog.namespace), text(&catalog.name)),
                    since: Some(it.last_updated.0),
                }
            })
            .collect();
        row
    }

    fn by_hand(self, version: &ClusterServiceVersion) -> Row {
        let name = id(&version.metadata).1;
        let mut row = Row { namespace: self.namespace.to_owned(), name: name.to_owned(), ..Row::default() };
        self.put_versions(&mut row, name, name);
        let names_it = |it: &&InstallPlan| it.spec.cluster_service_version_names.iter().any(|it| it == name);
        let newest = self.plans().filter(names_it).max_by_key(|it| it.spec.generation);
        row.plan = newest.map(plan);
        row
    }

    fn plans(self) -> impl Iterator<Item = &'a InstallPlan> {
        self.objects.plans.iter().flatten().filter(move |it| id(&it.metadata).0 == self.namespace)
    }

    /// A version counts as installed as soon as it exists: until it has succeeded, the one that it replaces still works.
    fn put_versions(self, row: &mut Row, installed: &str, current: &str) {
        let Some(head) = self.versions.get(installed).copied() else {
            row.next = (!current.is_empty()).then(|| self.version(current));
            return;
        };
        let before = chain::predecessor(head, self.versions).filter(|_| phase(head) != Phase::Succeeded);
        let has_worked = || {
            let earlier =
                head.status.iter().flat_map(|status| &status.conditions).any(|it| it.phase == Phase::Succeeded);
            earlier || matches!(phase(head), Phase::Succeeded | Phase::Replacing | Phase::Deleting)
        };
        if let Some(before) = before {
            row.installed = Some(self.version(id(&before.metadata).1));
            row.next = Some(self.version(installed));
            row.hold = self.hold(before, head);
        } else if current != installed && !current.is_empty() {
            (row.installed, row.next) = (Some(self.version(installed)), Some(self.version(current)));
        } else if has_worked() {
            row.installed = Some(self.version(installed));
        } else {
            row.next = Some(self.version(installed));
        }
    }

    fn version(self, name: &str) -> Version {
        let Some(version) = self.versions.get(name) else {
            return Version { name: name.to_owned(), ..Version::default() };
        };
        let status = version.status.clone().unwrap_or_default();
        Version {
            name: name.to_owned(),
            exists: true,
            since: time(status.last_transition_time.as_ref()),
            is_being_deleted: version.metadata.deletion_timestamp.is_some(),
            requirements: status.requirement_status.iter().filter(|it| !it.is_met()).map(unmet).collect(),
            deployments: self.deployments(version, &status.phase),
            phase: status.phase,
            reason: status.reason,
            message: status.message,
        }
    }

    /// Those of the version. One of the same name may still belong to the version before.
    fn deployments(self, version: &ClusterServiceVersion, phase: &Phase) -> Vec<Workload> {
        let Some(all) = &self.objects.deployments else { return Vec::new() };
        let uid = version.metadata.uid.as_deref();
        let is_owned = |object: &Value| {
            let mut owners =
                object.pointer("/metadata/ownerReferences").and_then(Value::as_array).into_iter().flatten();
            owners.any(|it| uid.is_some() && it.get("uid").and_then(Value::as_str) == uid)
        };
        let has_to_be = matches!(phase, Phase::Installing | Phase::Succeeded | Phase::Failed);
        let wanted = version.spec.install.spec.iter().flat_map(|strategy| &strategy.deployments);
        let each = wanted.filter_map(|it| {
            let is_named =
                |object: &&Value| [member(object, "namespace"), member(object, "name")] == [self.namespace, &it.name];
            match all.iter().find(is_named).filter(|object| is_owned(object)) {
                Some(live) => Some(workload(&it.name, live)),
                None if !has_to_be => None,
                None => Some(Workload {
                    name: it.name.clone(),
                    in_the_way: "it is not there".to_owned(),
                    ..Workload::default()
                }),
            }
        });
        each.collect()
    }

    fn hold(self, before: &ClusterServiceVersion, head: &ClusterServiceVersion) -> Option<Hold> {
        let status = head.status.as_ref().filter(|it| it.reason == reason::OPERATOR_CONDITION_NOT_UPGRADEABLE)?;
        let (namespace, name) = id(&before.metadata);
        let known = self.objects.conditions.iter().flatten().find(|it| id(&it.metadata) == (namespace, name));
        Some(Hold {
            name: name.to_owned(),
            message: known.and_then(chain::hindrance).unwrap_or_else(|| status.message.clone()),
            by_override: known.is_some_and(|it| it.spec.overrides.iter().any(|it| it.type_ == UPGRADEABLE)),
        })
    }
}

fn time(time: Option<&Time>) -> Option<jiff::Timestamp> {
    time.map(|time| time.0)
}

fn unmet(requirement: &RequirementStatus) -> Unmet {
    let lacking = requirement.dependents.iter().filter(|it| it.status != Requirement::Satisfied);
    Unmet {
        kind: requirement.kind.clone(),
        name: requirement.name.clone(),
        status: requirement.status.clone(),
        message: requirement.message.clone(),
        parts: lacking.map(|it| it.message.clone()).collect(),
    }
}

fn member<'a>(object: &'a Value, key: &str) -> &'a str {
    object.get("metadata").and_then(|it| it.get(key)?.as_str()).unwrap_or_default()
}

/// The gate by which the phase of its version is decided.
fn workload(name: &str, live: &Value) -> Workload {
    let number = |path: &str| live.pointer(path).and_then(Value::as_i64);
    let observed = Observed::of(live);
    let (mut in_the_way, mut fails) = match gate::judge_operator(&observed, Some(&observed)) {
        Verdict::Ready => (String::new(), false),
        Verdict::Waiting { message, .. } => (message, false),
        Verdict::Failing { message, .. } => (message, true),
    };
    // Its pods are refused, which says more than that they are not there.
    if let Some(refused) =
        observed.condition("ReplicaFailure").filter(|it| it.status == "True" && !in_the_way.is_empty())
    {
        (in_the_way, fails) = (refused.text(), true);
    }
    Workload {
        name: name.to_owned(),
        exists: true,
        ready: number("/status/readyReplicas").unwrap_or(0),
        wanted: number("/spec/replicas").unwrap_or(1),
        in_the_way,
        fails,
    }
}

fn plan(plan: &InstallPlan) -> Plan {
    let status = plan.status.clone().unwrap_or_default();
    let step = |step: &Step| format!("{} {}: {}", step.resource.kind, step.resource.name, word(&step.status));
    let failed =
        status.conditions.iter().find(|it| it.type_ == install_plan::condition::INSTALLED && it.status == "False");
    let pending = |type_: &str| {
        [install_plan::condition::BUNDLE_LOOKUP_PENDING, install_plan::condition::BUNDLE_LOOKUP_FAILED].contains(&type_)
    };
    let waits_for = status.bundle_lookups.iter().flat_map(|lookup| {
        let open = lookup.conditions.iter().filter(|it| it.status == ConditionStatus::True && pending(&it.type_));
        open.map(|it| format!("bundle {}: {}", lookup.identifier, it.message))
    });
    let changes = plan.metadata.annotations.as_ref().and_then(|all| all.get(annotation::CHANGES));
    Plan {
        name: id(&plan.metadata).1.to_owned(),
        approved: plan.spec.approved,
        since: time(status.start_time.as_ref().or(plan.metadata.creation_timestamp.as_ref())),
        steps: status.plan.len(),
        open: status.plan.iter().filter(|it| !is_final(&it.status)).map(step).collect(),
        waits_for: waits_for.collect(),
        message: match (status.message.as_str(), failed) {
            ("", Some(failed)) => failed.message.clone(),
            (message, _) => message.to_owned(),
        },
        changes: changes.iter().flat_map(|text| text.lines()).map(str::to_owned).collect(),
        phase: status.phase,
    }
}
