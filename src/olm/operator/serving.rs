//! Webhooks and APIs of an operator: what makes the API server reach its Deployments, and believe them.
//!
//! Each Deployment that answers has a Service, a certificate in a Secret, and the roles that its pods need. What leads the API server
//! to it (webhook configurations, APIServices, and the conversion of definitions) is written once its pods are ready, so that nothing
//! is refused meanwhile; what leads there already only gets the authorities of the certificate before.

pub(crate) mod certificate;
pub(crate) mod conversion;
mod description;
pub(crate) mod endpoint;
mod left_over;
mod live;
mod object;
pub(crate) mod pod;
mod registration;

use super::component::{self, Owner};
use super::requirements::{ApiService, Definition};
use super::{Facts, Group, chain};
use crate::olm::api::cluster_service_version::{ClusterServiceVersion, StrategyDeployment, StrategyDetails};
use certificate::{Known, Stage, Step};
pub(crate) use description::refusal;
use endpoint::{Endpoint, endpoints};
use jiff::{SignedDuration, Timestamp};
pub(super) use left_over::left_over;
use live::Live;
use serde_json::Value;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// An APIService whose pods are moved to another node is away for no longer than this.
const DISRUPTED: SignedDuration = SignedDuration::from_mins(5);
/// How long API servers need to notice that the pods of an APIService are ready.
const NOTICED: SignedDuration = SignedDuration::from_secs(30);

/// How all of that is, and what has to be written.
#[derive(Debug)]
pub(super) struct Serving<'a> {
    /// The Deployments, with certificates in those that answer.
    pub entries: Vec<Cow<'a, StrategyDeployment>>,
    answering: Vec<Answering<'a>>,
    /// What leads the API server to the Deployments, as it has to be.
    pub registrations: Vec<component::Write>,
    pub conversions: Vec<conversion::Write>,
    /// They only lose authorities that are not used any more.
    forgets: bool,
}

/// A Deployment that answers.
#[derive(Debug)]
struct Answering<'a> {
    endpoint: Endpoint<'a>,
    secret: String,
    serves_apis: bool,
    known: Option<&'a Known>,
    stage: Stage,
    supports: Vec<component::Write>,
    /// What leads to it now.
    live: Live<'a>,
}

/// What is done before the Deployments are looked at.
#[derive(Debug, Default)]
pub(super) struct Before {
    pub steps: Vec<Step>,
    pub components: Vec<component::Write>,
    pub conversions: Vec<conversion::Write>,
    /// A certificate is not there yet.
    pub waits: bool,
    pub next: Option<Timestamp>,
}

impl Before {
    pub(super) fn is_done(&self) -> bool {
        !self.waits && self.steps.is_empty() && self.components.is_empty() && self.conversions.is_empty()
    }
}

/// Something that is not as it has to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub what: String,
    /// It concerns an API, and not a webhook.
    pub of_api: bool,
}

/// An API of the operator that the API server cannot ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Unavailable {
    pub what: String,
    /// Until then it may come back by itself.
    pub until: Timestamp,
}

/// # Errors
/// Why an object cannot become what is wanted.
pub(super) fn look<'a>(
    facts: &Facts<'a>,
    group: &Group<'_>,
    strategy: &'a StrategyDetails,
    now: Timestamp,
) -> Result<Serving<'a>, String> {
    let owners = owners(facts);
    let mut answering = Vec::new();
    for endpoint in endpoints(facts.csv, strategy) {
        answering.push(Answering::of(facts, &owners, endpoint, now)?);
    }
    let entries = strategy.deployments.iter().map(|entry| match answering.iter().find(|it| it.is_of(&entry.name)) {
        None => Cow::Borrowed(entry),
        Some(it) => Cow::Owned(pod::with_certificate(entry, &it.secret, &it.hash())),
    });
    let mut serving = Serving {
        entries: entries.collect(),
        answering,
        registrations: Vec::new(),
        conversions: Vec::new(),
        forgets: false,
    };
    serving.register(facts, group, &owners)?;
    Ok(serving)
}

/// Whose registrations are taken over: those of the version, and those of the versions before.
fn owners(facts: &Facts<'_>) -> Vec<Owner> {
    let before = chain::before(facts.csv, facts.siblings).into_iter().filter_map(|name| facts.siblings.get(name));
    [Owner::csv(facts.csv)].into_iter().chain(before.map(|csv| Owner::csv(csv))).collect()
}

/// Objects of the version that do not go with it by themselves, and definitions that its webhooks convert.
pub(super) fn ends<'a>(facts: &Facts<'a>) -> (Vec<(&'a component::Id, &'a Value)>, Vec<conversion::Write>) {
    let namespace = facts.csv.metadata.namespace.as_deref().unwrap_or_default();
    let owner = Owner::csv(facts.csv);
    let left = facts.components.of_owner(&owner).filter(|(id, _)| id.namespace != namespace).collect();
    let stays = |csv: &&&ClusterServiceVersion| {
        csv.metadata.deletion_timestamp.is_none() && csv.metadata.name != facts.csv.metadata.name
    };
    let others = facts.siblings.values().filter(stays).copied();
    (left, conversion::ended(facts.csv, others, facts.world.definitions))
}

/// The APIService of the version that belongs to somebody else.
pub(super) fn foreign_api(facts: &Facts<'_>) -> Option<String> {
    let owners = owners(facts);
    let going: Vec<Owner> =
        facts.siblings.values().filter(|csv| chain::is_going(csv)).map(|csv| Owner::csv(csv)).collect();
    facts.csv.spec.api_service_definitions.owned.iter().find_map(|api| {
        let name = registration::api_name(api);
        let service = facts.world.services.get(&name)?;
        let is_ours = service.owner.as_ref().is_some_and(|owner| owners.contains(owner) || going.contains(owner));
        (!is_ours).then(|| {
            let whose = service.owner.as_ref().map_or_else(
                || "it does not belong to an operator".to_owned(),
                |owner| format!("it belongs to {} {}/{}", owner.kind, owner.namespace, owner.name),
            );
            format!("unable to adopt APIService {name}: {whose}; delete that, or this ClusterServiceVersion")
        })
    })
}

impl<'a> Answering<'a> {
    fn of(
        facts: &Facts<'a>,
        owners: &[Owner],
        endpoint: Endpoint<'a>,
        now: Timestamp,
    ) -> Result<Answering<'a>, String> {
        let name = &endpoint.entry.name;
        let secret = endpoint::secret(name);
        let live = Live::of(facts, owners, &endpoint::service(name));
        let known = facts.certificates.get(&secret);
        let objects = object::objects(facts.csv, &endpoint, facts.components).into();
        Ok(Answering {
            stage: certificate::stage(known, &live.bundles(), now),
            serves_apis: facts.csv.spec.api_service_definitions.owned.iter().any(|api| api.deployment_name == *name),
            supports: component::writes(objects, [], facts.components)?,
            endpoint,
            secret,
            known,
            live,
        })
    }

    fn is_of(&self, deployment: &str) -> bool {
        self.endpoint.entry.name == deployment
    }

    fn hash(&self) -> String {
        self.stage.bundle().map(certificate::hash).unwrap_or_default()
    }
}

impl Serving<'_> {
    /// What leads the API server to the Deployments.
    fn register(&mut self, facts: &Facts<'_>, group: &Group<'_>, owners: &[Owner]) -> Result<(), String> {
        let csv = facts.csv;
        let bundles: BTreeMap<&str, &str> = self
            .answering
            .iter()
            .filter_map(|it| Some((it.endpoint.entry.name.as_str(), it.stage.bundle()?)))
            .collect();
        let mut wanted = Vec::new();
        for webhook in &csv.spec.webhook_definitions {
            let (Some(kind), Some(bundle)) =
                (registration::kind(webhook), bundles.get(webhook.deployment_name.as_str()))
            else {
                continue;
            };
            let known = live::configuration(facts, owners, kind, &registration::description_label(webhook));
            let name = known.unwrap_or_else(|| registration::generated_name(csv, webhook));
            wanted.push(registration::configuration(csv, group, webhook, (kind, &name), bundle));
        }
        for api in &csv.spec.api_service_definitions.owned {
            let bundle = bundles.get(api.deployment_name.as_str());
            wanted.extend(bundle.map(|bundle| registration::api_service(csv, api, bundle)));
        }
        let (definitions, mut conversions) = (facts.world.definitions, Vec::new());
        for (webhook, name) in conversion::described(csv) {
            let bundle = bundles.get(webhook.deployment_name.as_str());
            let Some((bundle, definition)) = bundle.zip(definitions.get(name)) else { continue };
            conversions.extend(conversion::write(name, definition, &conversion::wanted(csv, webhook, bundle)));
        }
        conversions.extend(conversion::surplus(csv, definitions));
        // As long as a certificate is missing, it cannot be said what is surplus.
        let is_whole = bundles.len() == self.answering.len();
        let surplus = live::of_owner(facts, owners).filter(|_| is_whole);
        self.registrations = component::writes(wanted, surplus, facts.components)?;
        self.forgets = live::lose_bundles_alone(&self.registrations)
            && conversions.iter().all(|write| conversion::is_of_bundle(write, definitions))
            && self.answering.iter().all(|it| it.live.have(it.stage.bundle()));
        self.conversions = conversions;
        Ok(())
    }

    /// What comes before the Deployments while the version is installed.
    pub(super) fn before(&self, csv: &ClusterServiceVersion, now: Timestamp) -> Before {
        let namespace = csv.metadata.namespace.as_deref().unwrap_or_default();
        let mut before = Before::default();
        for it in &self.answering {
            before.components.extend(it.supports.iter().cloned());
            let Some(bundle) = it.stage.bundle().filter(|_| !matches!(it.stage, Stage::Due { .. })) else {
                before.waits = true;
                if it.stage != Stage::Unknown {
                    let (secret, hosts) = (it.secret.clone(), endpoint::hosts(namespace, &it.endpoint.entry.name));
                    before.steps.push(Step::Make { secret, hosts, organization: csv.spec.provider.name.clone() });
                }
                continue;
            };
            let (components, conversions) = it.live.with(bundle);
            let is_told = (!it.live.is_empty()).then_some(components.is_empty() && conversions.is_empty());
            before.components.extend(components);
            before.conversions.extend(conversions);
            let (step, next) = certificate::step(csv, &it.secret, (&it.stage, it.known), is_told, now);
            before.steps.extend(step);
            before.next = before.next.into_iter().chain(next).min();
            before.waits |= !matches!(it.stage, Stage::Ready { .. });
        }
        before
    }

    /// The Secrets have not been read yet.
    pub(super) fn is_unknown(&self) -> bool {
        self.answering.iter().any(|it| it.stage == Stage::Unknown)
    }

    /// A certificate that is missing or cannot be used.
    pub(super) fn spoilt(&self) -> Option<Fault> {
        self.answering.iter().find_map(|it| {
            let Stage::Wanted(why) = &it.stage else { return None };
            Some(Fault { what: format!("Secret {}: {why}", it.secret), of_api: it.serves_apis })
        })
    }

    /// A certificate that ends soon, or makes room for the next one already.
    pub(super) fn due(&self) -> Option<String> {
        self.answering.iter().find_map(|it| match &it.stage {
            Stage::Due { why, .. } => Some(format!("Secret {}: {why}", it.secret)),
            Stage::Telling { .. } => Some(format!("Secret {}: another certificate is under way", it.secret)),
            Stage::Unknown | Stage::Wanted(_) | Stage::Ready { .. } => None,
        })
    }

    /// What the Deployments need that is missing, or that somebody has changed.
    pub(super) fn unsupported(&self) -> Option<Fault> {
        let supports = self.answering.iter().flat_map(|it| it.supports.iter().map(|write| (write, it.serves_apis)));
        supports.map(|(write, of_api)| Fault { what: told(write), of_api }).next()
    }

    /// What leads the API server to the Deployments and is missing, or has been changed.
    pub(super) fn unregistered(&self) -> Option<Fault> {
        let of = |write: &component::Write| Fault {
            what: told(write),
            of_api: write.id().kind == component::Kind::ApiService,
        };
        let conversion = || {
            let what = format!("CustomResourceDefinition {} differs: spec.conversion", self.conversions.first()?.name);
            Some(Fault { what, of_api: false })
        };
        self.registrations.first().map(of).or_else(conversion)
    }

    /// Whether that only loses authorities of certificates that are not used any more.
    pub(super) fn forgets(&self) -> bool {
        self.forgets
    }

    /// What is done once all pods have the present certificates: authorities of those before go.
    pub(super) fn forgotten(&self) -> Vec<Step> {
        self.answering.iter().filter_map(|it| certificate::forgotten(&it.secret, it.known)).collect()
    }

    /// When the next certificate has to be made anew, where all of them are there.
    pub(super) fn rotation(&self) -> Option<Timestamp> {
        self.answering.iter().filter_map(|it| it.stage.rotation()).min()
    }
}

/// The first API that cannot be asked.
pub(super) fn unavailable(facts: &Facts<'_>, now: Timestamp) -> Option<Unavailable> {
    facts.csv.spec.api_service_definitions.owned.iter().find_map(|api| {
        let name = registration::api_name(api);
        let service = facts.world.services.get(&name).filter(|service| !service.is_available)?;
        let ApiService { message, since, .. } = service;
        let since = since.unwrap_or(now);
        let until = match ready_since(facts, &api.deployment_name) {
            Some(ready) => ready.max(since).checked_add(NOTICED),
            None => since.checked_add(DISRUPTED),
        };
        let what = format!("APIService {name} is not available: {message}");
        Some(Unavailable { what, until: until.unwrap_or(Timestamp::MAX) })
    })
}

/// Since when the pods of a Deployment are ready, if they are.
fn ready_since(facts: &Facts<'_>, deployment: &str) -> Option<Timestamp> {
    let conditions = facts.deployments.get(deployment)?.object.pointer("/status/conditions")?.as_array()?;
    let text = |it: &Value, key: &str| it.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let available = conditions.iter().find(|it| text(it, "type") == "Available" && text(it, "status") == "True")?;
    Some(text(available, "lastTransitionTime").parse().unwrap_or(Timestamp::MIN))
}

fn told(write: &component::Write) -> String {
    match write {
        component::Write::Create { id, .. } => format!("{id} is missing"),
        component::Write::Replace { id, fields, .. } => format!("{id} differs: {}", fields.join(", ")),
        component::Write::Delete { id, .. } => format!("{id} is left over"),
    }
}

/// The Secrets of these versions by namespace and name, each with the hosts that its certificate is for; and those that may be left over,
/// without hosts.
pub(crate) fn secrets<'a>(
    csvs: impl Iterator<Item = &'a ClusterServiceVersion>,
    components: &component::Known,
) -> BTreeMap<(String, String), Vec<String>> {
    let mut secrets = BTreeMap::new();
    for csv in csvs {
        let namespace = csv.metadata.namespace.as_deref().unwrap_or_default();
        for it in csv.spec.install.spec.iter().flat_map(|strategy| endpoints(csv, strategy)) {
            let name = &it.entry.name;
            secrets.insert((namespace.to_owned(), endpoint::secret(name)), endpoint::hosts(namespace, name));
        }
    }
    for role in components.certificate_roles().filter(|role| object::service_of_role(role, components).is_some()) {
        secrets.entry((role.namespace.clone(), role.name.clone())).or_default();
    }
    secrets
}

/// The Deployments of a version as they are installed, where it is not known which certificates they have. `hash`: what is known of the
/// authority in the pods of a Deployment.
pub(crate) fn foretold<'a>(
    csv: &ClusterServiceVersion,
    strategy: &'a StrategyDetails,
    hash: impl Fn(&str) -> Option<String>,
) -> Vec<Cow<'a, StrategyDeployment>> {
    let endpoints = endpoints(csv, strategy);
    let with = |entry: &'a StrategyDeployment| match endpoints.iter().any(|it| it.entry.name == entry.name) {
        false => Cow::Borrowed(entry),
        true => {
            let hash = hash(&entry.name).unwrap_or_default();
            Cow::Owned(pod::with_certificate(entry, &endpoint::secret(&entry.name), &hash))
        }
    };
    strategy.deployments.iter().map(with).collect()
}

/// Why the webhooks of a version are refused, as far as definitions do not matter.
pub(super) fn obstacle(csv: &ClusterServiceVersion) -> Option<String> {
    let none = BTreeMap::<String, Definition>::new();
    refusal(csv, csv.spec.install.spec.as_ref()?, &none)
}
