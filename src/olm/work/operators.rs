//! The controller of operators: looks at ClusterServiceVersions and all that they depend on, decides by [`crate::olm::operator`], and
//! writes. Only the holder of the lease writes.

mod certificates;
mod components;
mod copies;
mod figures;
mod groups;
mod idle;
mod known;
mod live;
mod made;
mod memory;
mod perform;
mod planned;
mod roles;
mod room;
mod served;
mod settled;
mod views;
mod whole;

use crate::cluster::writer::Writer;
use crate::cluster::{Clients, Objects};
use crate::olm::operator::tenancy::{Tenancy, Tenant};
use crate::olm::operator::{self, Decision, Facts, Group, compatibility, component, condition, decide, group};
use crate::olm::source::operators::Fit;
use crate::olm::work::scoped::Accounts;
use crate::olm::work::version::ServerVersion;
use crate::process::events::Events;
use crate::process::turns::{due, until};
use certificates::Certificates;
use components::Components;
use copies::Copies;
pub(crate) use figures::OperatorFigures;
use idle::{Around, Idle};
use jiff::Timestamp;
use known::{Known, Namespace};
use live::Live;
use memory::Memory;
use perform::{Key, Perform};
use planned::Planned;
use room::Room;
use served::Served;
use settled::Settled;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;
use views::CsvView;

/// What is configured.
#[derive(Clone, Debug, Default)]
pub(crate) struct OperatorSettings {
    /// Namespaces in which operators for all namespaces are copied even if they are not elsewhere.
    pub protected: BTreeSet<String>,
    /// Of the cluster.
    pub release: String,
}

pub(crate) struct OperatorController {
    settings: OperatorSettings,
    objects: Objects,
    changed: Arc<Notify>,
    leading: watch::Receiver<bool>,
    live: Live,
    version: ServerVersion,
    served: Served,
    certificates: Certificates,
    writer: Arc<Writer<Key>>,
    memory: Arc<Memory>,
    accounts: Accounts,
    settled: Settled,
    copies: Copies,
    components: Components,
    planned: Option<Planned>,
    idle: Idle,
    /// uids of operators that are told not to be copied; `None` before it is known whether they are.
    not_copied: Option<BTreeSet<String>>,
    events: Events,
    figures: Arc<OperatorFigures>,
    /// The ClusterServiceVersions that were looked at last.
    seen: Option<BTreeMap<String, Arc<CsvView>>>,
}

impl OperatorController {
    /// `objects` writes while the lease is held. `leading` says whether it is.
    pub(crate) fn new(
        settings: OperatorSettings,
        (clients, objects): (&Arc<Clients>, Objects),
        leading: watch::Receiver<bool>,
        (events, figures): (Events, Arc<OperatorFigures>),
        stop: &CancellationToken,
    ) -> OperatorController {
        let changed = Arc::new(Notify::new());
        let copies = Copies::start(clients, objects.clone(), leading.clone(), changed.clone(), stop);
        let live = Live::start(clients, &changed, stop);
        let components = Components::start(clients, objects.clone(), leading.clone(), live.clone(), stop);
        figures.show(live.clone());
        OperatorController {
            version: ServerVersion::new(clients, changed.clone(), stop.clone()),
            served: Served::new(clients, changed.clone(), stop.clone()),
            certificates: Certificates::new(clients, changed.clone(), stop.clone()),
            writer: Writer::new(changed.clone()),
            memory: Arc::default(),
            accounts: Accounts::new(clients),
            settled: Settled::default(),
            copies,
            components,
            planned: None,
            idle: Idle::default(),
            not_copied: None,
            settings,
            live,
            objects,
            changed,
            leading,
            events,
            figures,
            seen: None,
        }
    }

    /// Runs until `stop`.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        while !stop.is_cancelled() {
            let leading = *self.leading.borrow_and_update();
            self.look_at_versions();
            let deadline = if leading { self.turn(Timestamp::now()) } else { None };
            self.components.on_change();
            tokio::select! {
                () = due(&self.changed, deadline, &stop) => {}
                Ok(()) = self.leading.changed() => {}
            }
        }
        self.writer.end().await;
    }

    /// Tells whether all fit the next minor version of the cluster: whoever reports that need not be who keeps operators.
    fn look_at_versions(&mut self) {
        let Some(all) = self.live.csvs.all() else { return };
        if self.seen.as_ref().is_some_and(|seen| roles::is_same(seen, &all)) {
            return;
        }
        let installed = all.values().map(|view| compatibility::Installed::of(&view.0));
        let fit = match compatibility::hindrance(Ok(&self.settings.release), installed) {
            None => Fit::All,
            Some(hindrance) => Fit::Hindered(hindrance.reason, hindrance.message),
        };
        self.figures.on_fit(fit);
        self.seen = Some(all);
    }

    /// Does what is due, and returns when something is although nothing has changed.
    fn turn(&mut self, now: Timestamp) -> Option<Instant> {
        let at = Instant::now();
        self.version.on_round(self.live.csvs.rounds());
        // Before everything is known, something could be taken for missing.
        let known = Known::of(&self.live, &self.memory, &self.version)?;
        self.served.want(known.natives(), known.kinds_version());
        let served = self.served.known();
        self.certificates.want(known.csvs(), &self.live);
        let namespaces: Vec<Namespace<'_>> = known.namespaces().collect();
        let tenants: Vec<Tenant<'_>> = namespaces.iter().flat_map(Namespace::tenants).collect();
        let tenancy = Tenancy::new(&tenants);
        let refused = self.writer.rejections();
        let mut room = Room::of(known.csvs(), now);
        let mut idle = std::mem::take(&mut self.idle);
        let around = Around { known: &known, served: &served, refused: &refused };
        idle.begin(around, at);
        let bring = |namespace| self.bring(around, namespace, (&tenancy, &mut idle, &mut room), (now, at));
        let next = namespaces.iter().filter_map(bring).min();
        self.bring_groups(&known, &namespaces, (&tenancy, &served), &self.perform(at));
        let copied = self.bring_copies(&known, at, now);
        idle.end(known, served, refused, at);
        self.idle = idle;
        let next = next.into_iter().chain(copied).min();
        next.map(|next| until(next, now)).into_iter().chain(self.writer.next()).min()
    }

    /// Does what is due in a namespace, and returns when something is although nothing has changed.
    fn bring(
        &self,
        around: Around<'_>,
        namespace: &Namespace<'_>,
        (tenancy, idle, room): (&Tenancy<'_>, &mut Idle, &mut Room),
        (now, at): (Timestamp, Instant),
    ) -> Option<Timestamp> {
        let Around { known, served, refused } = around;
        let certificates = self.certificates.known(namespace.name, &self.live);
        let tenants = namespace.csvs.values().map(|csv| self.tenant(known, (namespace, csv), tenancy));
        let tenants: Vec<operator::Tenant<'_>> = tenants.collect();
        // Nothing tells of a certificate as long as it is only made here.
        if certificates.is_empty()
            && let Some(next) = idle.is_idle(known, (namespace.name, &tenants), now)
        {
            return next;
        }
        let perform = self.perform(at);
        let mut acts = !certificates.is_empty();
        acts |= write_groups(known, namespace, &perform, now);
        let (world, failing) = (known.world(served), failing(namespace, refused));
        let mut next: Option<Timestamp> = None;
        for (csv, tenant) in namespace.csvs.values().zip(&tenants) {
            if !room.has_for(csv, now) {
                acts = true;
                next = next.into_iter().chain(room.until()).min();
                continue;
            }
            let facts = Facts {
                csv,
                tenant,
                siblings: &namespace.csvs,
                groups: &namespace.groups,
                world: &world,
                deployments: &namespace.deployments,
                subscribers: namespace.subscribers,
                proxy: known.proxy(),
                conditions: &namespace.conditions,
                failing: &failing,
                components: known.components(),
                refused,
                certificates: &certificates,
            };
            let mut decision = decide(&facts, now);
            next = next.into_iter().chain(decision.next).min();
            let does = decision != Decision { next: decision.next, ..Decision::default() };
            acts |= does;
            room.take(csv, does);
            for step in std::mem::take(&mut decision.certificates) {
                self.certificates.step(namespace.name, step, &perform, now);
            }
            do_decided(&perform, csv, account(&namespace.groups), decision);
            if csv.metadata.deletion_timestamp.is_none() {
                acts |= bring_condition(namespace, csv, &perform);
            }
        }
        acts |= write_conditions(known, namespace, &perform);
        match acts {
            true => idle.forget(namespace.name),
            false => idle.keep(namespace.name, tenants, next),
        }
        next
    }

    fn perform(&self, at: Instant) -> Perform<'_> {
        Perform {
            objects: &self.objects,
            live: &self.live,
            writer: &self.writer,
            memory: &self.memory,
            accounts: &self.accounts,
            events: &self.events,
            figures: &self.figures,
            at,
        }
    }
}

/// Why the server does not take Deployments of a namespace, by name. `refused`: why it does not take objects, by kind and name.
fn failing(namespace: &Namespace<'_>, refused: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let prefix = Key::Deployment((namespace.name.to_owned(), String::new())).to_string();
    let of = refused.range(prefix.clone()..).map_while(|(key, error)| Some((key.strip_prefix(&prefix)?, error)));
    of.map(|(name, error)| (name.to_owned(), error.clone())).collect()
}

/// The account whose rights count for what is installed in a namespace with these groups; empty for none.
fn account<'a>(groups: &[Group<'a>]) -> &'a str {
    let [group] = groups else { return "" };
    &group.object.spec.service_account_name
}

fn do_decided(perform: &Perform<'_>, csv: &views::Csv, account: &str, decision: Decision) {
    decision.components.into_iter().for_each(|write| perform.component(write));
    decision.conversions.into_iter().for_each(|write| perform.conversion(write));
    decision.deployments.into_iter().for_each(|write| perform.deployment(csv, write, account));
    if let Some(patch) = decision.patch {
        perform.patch(csv, patch);
    } else if let Some((states, status)) = decision.status {
        perform.status(csv, states, *status, decision.is_replaced);
    } else if decision.delete {
        perform.delete(csv);
    }
}

/// The status of its groups. Whether one of them has to be written.
fn write_groups(known: &Known, namespace: &Namespace<'_>, perform: &Perform<'_>, now: Timestamp) -> bool {
    let mut acts = false;
    for group in &namespace.groups {
        let name = &group.object.spec.service_account_name;
        let facts = group::GroupFacts {
            group: group.object,
            targets: &group.targets,
            has_others: namespace.groups.len() > 1,
            account_exists: known.has_account(namespace.name, name),
        };
        if let Some(status) = group::status_patch(&facts, now) {
            perform.group(group.object, status);
            acts = true;
        }
    }
    acts
}

/// The OperatorCondition. Whether it has to be written.
fn bring_condition(namespace: &Namespace<'_>, csv: &views::Csv, perform: &Perform<'_>) -> bool {
    // What brings it may still be writing.
    if operator::is_new(csv) {
        return false;
    }
    let name = csv.metadata.name.as_deref().unwrap_or_default();
    let live = namespace.conditions.get(name).copied();
    let object = condition::object(csv, live);
    let acts = object.is_some();
    object.into_iter().for_each(|object| perform.condition(csv, live.is_some(), object));
    acts
}

/// What lets operators write their OperatorConditions, and what these say. Whether something of it has to be written.
fn write_conditions(known: &Known, namespace: &Namespace<'_>, perform: &Perform<'_>) -> bool {
    let mut acts = false;
    for condition in namespace.conditions.values() {
        // Whatever is there by these names.
        match component::writes(condition::components(condition).into(), [], known.components()) {
            Ok(writes) => {
                acts |= !writes.is_empty();
                writes.into_iter().for_each(|write| perform.component(write));
            }
            Err(error) => {
                acts = true;
                tracing::warn!(%error, "an OperatorCondition cannot be written by its operator");
            }
        }
        if let Some(status) = condition::status(condition) {
            acts = true;
            perform.condition_status(condition, status);
        }
    }
    acts
}
