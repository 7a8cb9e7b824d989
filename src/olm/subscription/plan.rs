//! The InstallPlan of an answer: what it says of the bundles that are to be installed, and its steps.

use super::changes::summary;
use crate::olm::api::install_plan::{
    BundleLookup, InstallPlan, InstallPlanCondition, InstallPlanPhase, InstallPlanSpec, InstallPlanStatus, condition,
    reason,
};
use crate::olm::api::keys::annotation;
use crate::olm::api::operator_group::{OperatorGroup, UpgradeStrategy};
use crate::olm::api::subscription::{Approval, Subscription};
use crate::olm::api::{API_VERSION, keys};
use crate::olm::bundle::{Bundle, CSV};
use crate::olm::components;
use crate::olm::duration;
use crate::olm::plan::reference::{INLINE, Part, refer};
use crate::olm::plan::set;
use crate::olm::resolve::answer::New;
use crate::olm::steps::{self, Chosen, StepError, ordered, properties_annotation};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What all names of plans begin with.
const PREFIX: &str = "install-";
/// Characters after it.
const LENGTH: usize = 5;
/// Bytes of the status of a plan as JSON. API servers keep at most 1.5 MiB of an object unless they are configured otherwise; the rest
/// of the plan, and who has written what of it, is in that as well.
const MAX_STATUS: usize = 1_400_000;

/// An OperatorGroup, as far as Subscriptions are concerned.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Group {
    /// One that has failed may be replaced.
    pub fail_forward: bool,
    /// The catalogs of the global namespace do not count.
    pub excludes_global: bool,
    /// With whose rights plans are carried out.
    pub account: Option<ObjectReference>,
    /// How long fetching a bundle may take; zero for as long as it takes. Without it the process has its own limit.
    pub unpack_timeout: Option<SignedDuration>,
    /// After which pause a bundle that could not be fetched is tried again, instead of longer and longer ones.
    pub unpack_retry: Option<SignedDuration>,
    /// Operators that have nothing to do with each other have plans of their own.
    pub per_operator: bool,
}

impl Group {
    pub(crate) fn of(group: &OperatorGroup) -> Group {
        let annotations = group.metadata.annotations.as_ref();
        let excludes = annotations.and_then(|all| all.get(annotation::EXCLUDE_GLOBAL_CATALOGS));
        let time = |key: &str| duration::parse(annotations?.get(key)?).ok();
        Group {
            fail_forward: group.spec.upgrade_strategy == UpgradeStrategy::TechPreviewUnsafeFailForward,
            excludes_global: excludes.is_some_and(|text| text == "true"),
            account: group.status.as_ref().and_then(|status| status.service_account_ref.clone()),
            unpack_timeout: time(annotation::BUNDLE_UNPACK_TIMEOUT).filter(|time| !time.is_negative()),
            unpack_retry: time(annotation::BUNDLE_UNPACK_MIN_RETRY_INTERVAL).filter(|time| time.is_positive()),
            per_operator: annotations.and_then(|all| all.get(annotation::PLANS)).is_some_and(|it| it == "per-operator"),
        }
    }
}

/// An InstallPlan, as far as Subscriptions are concerned.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Plan {
    pub name: String,
    pub uid: String,
    pub resource_version: String,
    pub generation: i64,
    pub phase: InstallPlanPhase,
    pub approved: bool,
    /// Names of ClusterServiceVersions.
    pub csvs: BTreeSet<String>,
    /// The ClusterServiceVersion of each package in it.
    pub packages: BTreeMap<String, String>,
    /// uids.
    pub owners: BTreeSet<String>,
    /// Its steps are not written yet.
    pub is_empty: bool,
    /// Reason and message of a failure.
    pub failure: Option<(String, String)>,
    /// Why what it names cannot be installed, as it was told last.
    pub unresolved: Option<String>,
    /// Keys of the labels by which it is a component of operators.
    pub components: BTreeSet<String>,
}

impl Plan {
    pub(crate) fn of(plan: &InstallPlan) -> Plan {
        let metadata = &plan.metadata;
        let status = plan.status.as_ref();
        let owners = metadata.owner_references.iter().flatten().map(|owner| owner.uid.clone());
        let failed = |type_: &str| {
            let is_failure = |it: &&InstallPlanCondition| it.type_ == type_ && it.status == "False";
            status.and_then(|it| it.conditions.iter().find(is_failure))
        };
        let (failure, unresolved) = (failed(condition::INSTALLED), failed(condition::RESOLVED));
        Plan {
            name: metadata.name.clone().unwrap_or_default(),
            uid: metadata.uid.clone().unwrap_or_default(),
            resource_version: metadata.resource_version.clone().unwrap_or_default(),
            generation: plan.spec.generation.unwrap_or_default(),
            phase: status.map(|it| it.phase.clone()).unwrap_or_default(),
            approved: plan.spec.approved,
            csvs: plan.spec.cluster_service_version_names.iter().cloned().collect(),
            packages: status.map(packages).unwrap_or_default(),
            owners: owners.collect(),
            is_empty: status.is_none_or(|it| it.plan.is_empty() && it.bundle_lookups.is_empty()),
            failure: failure.map(|it| (it.reason.clone(), it.message.clone())),
            unresolved: unresolved.map(|it| it.message.clone()),
            components: components::keys(metadata.labels.as_ref()),
        }
    }

    fn has_ended(&self) -> bool {
        matches!(self.phase, InstallPlanPhase::Complete | InstallPlanPhase::Failed)
    }

    /// Whether it exists, and its status is still to come: two requests are needed to make one.
    pub(crate) fn is_unwritten(&self) -> bool {
        self.is_empty && self.phase == InstallPlanPhase::None && self.packages.is_empty()
    }

    /// Whether it is being carried out.
    pub(crate) fn is_running(&self) -> bool {
        !self.is_empty && !self.has_ended() && (self.approved || self.phase == InstallPlanPhase::Installing)
    }

    /// Whether it can still be given up.
    pub(crate) fn is_open(&self) -> bool {
        !self.has_ended() && !self.is_running()
    }

    /// Whether somebody has written which ClusterServiceVersions he wants, and nothing has been found for them yet.
    pub(crate) fn is_by_hand(&self) -> bool {
        let is_new = matches!(self.phase, InstallPlanPhase::None | InstallPlanPhase::Planning);
        is_new && self.is_empty && self.owners.is_empty() && !self.csvs.is_empty()
    }
}

/// By the properties of the ClusterServiceVersions, or of the bundles that were looked up.
fn packages(status: &InstallPlanStatus) -> BTreeMap<String, String> {
    let of_text = |text: &str, name: &str| {
        let properties = steps::properties(text).ok()?;
        let package = steps::package(&properties);
        (!package.is_empty()).then(|| (package.to_owned(), name.to_owned()))
    };
    let of_step = |manifest: &str, name: &str| {
        let object: Value = serde_json::from_str(manifest).ok()?;
        of_text(object.pointer("/metadata/annotations")?.get(annotation::PROPERTIES)?.as_str()?, name)
    };
    let steps = status.plan.iter().filter(|step| (step.resource.group.as_str(), step.resource.kind.as_str()) == CSV);
    let of_steps = steps.filter_map(|step| of_step(&step.resource.manifest, &step.resource.name));
    let of_lookups = status.bundle_lookups.iter().filter_map(|it| of_text(&it.properties, &it.identifier));
    of_lookups.chain(of_steps).collect()
}

/// A plan that is to be written.
#[derive(Clone, Debug)]
pub(crate) struct NewPlan {
    pub namespace: String,
    /// It exists under this name, and only its status is to be written.
    pub begun: Option<String>,
    pub generation: i64,
    pub approval: Approval,
    pub approved: bool,
    /// Somebody has written it: its resourceVersion at that time.
    pub by_hand: Option<String>,
    pub owners: Vec<Arc<Subscription>>,
    pub account: Option<ObjectReference>,
    /// ClusterServiceVersions of it that somebody has made already, and that the plan makes those of the Subscriptions.
    pub existing: BTreeSet<String>,
    pub bundles: Vec<(New, Arc<Bundle>)>,
}

impl NewPlan {
    /// The same for the same plan, so that it is never made twice.
    pub(crate) fn name(&self) -> String {
        if let Some(name) = &self.begun {
            return name.clone();
        }
        let mut hash = Sha256::new();
        hash.update(self.generation.to_be_bytes());
        let owners = self.owners.iter().filter_map(|it| it.metadata.uid.as_deref());
        for text in self.csvs().chain(owners) {
            hash.update(text);
            hash.update([0]);
        }
        const SIGNS: &[u8; 32] = b"bcdfghjklmnpqrstvwxz245678901236";
        let sign = |byte: &u8| SIGNS.get(usize::from(byte % 32)).map(|sign| char::from(*sign));
        let end: String = hash.finalize().iter().take(LENGTH).filter_map(sign).collect();
        format!("{PREFIX}{end}")
    }

    pub(crate) fn csvs(&self) -> impl Iterator<Item = &str> {
        self.bundles.iter().map(|(new, _)| new.name.as_str())
    }

    /// Names of the ClusterServiceVersions whose places others take.
    pub(crate) fn replaced(&self) -> impl Iterator<Item = &str> {
        self.bundles.iter().map(|(new, _)| new.replaces.as_str()).filter(|name| !name.is_empty())
    }

    /// As it is created, and as its status is written after that. `before`: what is replaced, as far as it exists, by name.
    pub(crate) fn object(
        &self,
        before: &BTreeMap<String, Value>,
    ) -> Result<(InstallPlan, InstallPlanStatus), StepError> {
        Ok((self.plan(summary(&self.bundles, before)), self.status()?))
    }

    fn plan(&self, changes: String) -> InstallPlan {
        let mut plan = InstallPlan::new(
            &self.name(),
            InstallPlanSpec {
                cluster_service_version_names: self.csvs().map(ToOwned::to_owned).collect(),
                approval: self.approval.clone(),
                approved: self.approved,
                generation: Some(self.generation),
                ..InstallPlanSpec::default()
            },
        );
        plan.metadata.namespace = Some(self.namespace.clone());
        plan.metadata.owner_references = Some(self.owners.iter().map(|it| owner(it)).collect());
        plan.metadata.labels = Some(self.labels());
        plan.metadata.annotations = Some(BTreeMap::from([(annotation::CHANGES.to_owned(), changes)]));
        plan
    }

    /// It is a component of the operators whose Subscriptions it is made for, and of those that it installs.
    fn labels(&self) -> BTreeMap<String, String> {
        let packages = self.owners.iter().map(|it| it.spec.name.as_str());
        let packages = packages.chain(self.bundles.iter().map(|(new, _)| new.package.as_str()));
        let keys = packages.filter_map(|package| Some((components::key(package, &self.namespace)?, String::new())));
        keys.chain([(keys::label::MANAGED.to_owned(), "true".to_owned())]).collect()
    }

    fn status(&self) -> Result<InstallPlanStatus, StepError> {
        let mut parts = Vec::new();
        for (new, bundle) in &self.bundles {
            let chosen = Chosen {
                bundle,
                namespace: &self.namespace,
                replaces: &new.replaces,
                catalog: (&new.catalog.0, &new.catalog.1),
                properties: &new.properties,
            };
            let mut steps = steps::of_bundle(&chosen)?;
            if new.subscriptions.is_empty() && self.by_hand.is_none() {
                steps.push(steps::subscription(&chosen, &new.package, &new.channel));
            }
            parts.push(Part { package: &new.package, image: &new.image, steps });
        }
        // Whoever reads what they refer to needs the record of each bundle.
        let has_references = refer(&mut parts, INLINE);
        let lookups = self.bundles.iter().filter(|(new, _)| has_references || !new.image.is_empty());
        let catalogs: BTreeSet<&str> = self.bundles.iter().map(|(new, _)| new.catalog.1.as_str()).collect();
        let phase = if self.approved { InstallPlanPhase::Installing } else { InstallPlanPhase::RequiresApproval };
        let status = InstallPlanStatus {
            phase,
            catalog_sources: catalogs.into_iter().map(ToOwned::to_owned).collect(),
            plan: ordered(parts.into_iter().map(|part| part.steps).collect()),
            bundle_lookups: lookups.map(|(new, _)| lookup(new)).collect(),
            attenuated_service_account_ref: self.account.clone(),
            ..InstallPlanStatus::default()
        };
        fits(&status)?;
        Ok(status)
    }
}

/// Whether an API server takes it.
fn fits(status: &InstallPlanStatus) -> Result<(), StepError> {
    let bytes = serde_json::to_string(status).map_or(usize::MAX, |text| text.len());
    if bytes <= MAX_STATUS {
        return Ok(());
    }
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for step in &status.plan {
        *counts.entry(&step.resolving).or_default() += 1;
    }
    let largest = counts.into_iter().max_by_key(|(_, count)| *count).map_or("", |(name, _)| name).to_owned();
    Err(StepError::Large { steps: status.plan.len(), bytes, limit: MAX_STATUS, largest })
}

/// The status of a plan that somebody has written and that has no steps, because of this cause.
pub(crate) fn unresolved(mut status: InstallPlanStatus, cause: &str, now: Timestamp) -> InstallPlanStatus {
    set(&mut status, condition::RESOLVED, ("False", reason::DEPENDENCIES_CONFLICT, cause), now);
    cause.clone_into(&mut status.message);
    status
}

/// The record of a bundle that was fetched.
fn lookup(new: &New) -> BundleLookup {
    BundleLookup {
        path: new.image.clone(),
        identifier: new.name.clone(),
        replaces: new.replaces.clone(),
        catalog_source_ref: ObjectReference {
            namespace: Some(new.catalog.0.clone()),
            name: Some(new.catalog.1.clone()),
            ..ObjectReference::default()
        },
        conditions: Vec::new(),
        properties: properties_annotation(&new.properties),
    }
}

fn owner(subscription: &Subscription) -> OwnerReference {
    OwnerReference {
        api_version: API_VERSION.to_owned(),
        kind: "Subscription".to_owned(),
        name: subscription.metadata.name.clone().unwrap_or_default(),
        uid: subscription.metadata.uid.clone().unwrap_or_default(),
        block_owner_deletion: Some(false),
        controller: Some(false),
    }
}
