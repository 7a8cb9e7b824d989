//! The controller of operators: looks at ClusterServiceVersions and all that they depend on, decides by [`crate::olm::operator`], and
//! writes. Only the holder of the lease writes.

mod certificates;
mod components;
pub(crate) mod copies;
mod derived;
mod figures;
mod idle;
pub(crate) mod known;
pub(crate) mod live;
mod made;
pub(crate) mod memory;
mod olm_config;
mod perform;
pub(crate) mod planned;
pub(crate) mod roles;
pub(crate) mod seen;
pub(crate) mod served;
mod shown;
pub(crate) mod turns;
mod unlabelled;
pub(crate) mod views;
pub(crate) mod whole;

use crate::cluster::followed::Views;
use crate::cluster::writer::Writer;
use crate::cluster::{Clients, Objects};
use crate::olm::operator::compatibility;
use crate::olm::operator::turn::Action;
use crate::olm::serve::packages::CsvSource;
use crate::olm::source::operators::{Fit, Progress};
use crate::olm::work::scoped::Accounts;
use crate::olm::work::version::ServerVersion;
use crate::process::events::Events;
use crate::process::turns::{due, until};
use certificates::Certificates;
use components::Components;
use copies::Copies;
pub(crate) use figures::OperatorFigures;
use jiff::Timestamp;
use known::Known;
use live::Live;
use memory::Memory;
use perform::{Key, Perform};
use planned::Planned;
use seen::Seen;
use served::Served;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;
use turns::{Beside, Turns};
use views::CsvView;

/// What is configured.
#[derive(Clone, Debug, Default)]
pub(crate) struct OperatorSettings {
    /// This process keeps operators while it leads. Otherwise it only knows of them.
    pub keeps: bool,
    /// Namespaces in which operators for all namespaces are copied even if they are not elsewhere.
    pub protected: BTreeSet<String>,
    /// Copies of operators for all namespaces are not written: they are served beside packages.
    pub virtual_copies: bool,
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
    copies: Copies,
    components: Components,
    planned: Option<Planned>,
    turns: Turns,
    /// uids of operators that are told not to be copied; `None` before it is known whether they are.
    not_copied: Option<BTreeSet<String>>,
    events: Events,
    figures: Arc<OperatorFigures>,
    /// The ClusterServiceVersions that were looked at last.
    seen: Option<Views<CsvView>>,
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
        unlabelled::start(objects.clone(), leading.clone(), stop);
        figures.show(live.clone());
        if settings.keeps {
            figures.on_progress(Progress::default());
        }
        OperatorController {
            version: ServerVersion::new(clients, changed.clone(), stop.clone()),
            served: Served::new(clients, changed.clone(), stop.clone()),
            certificates: Certificates::new(clients, changed.clone(), stop.clone()),
            writer: Writer::new(changed.clone()),
            memory: Arc::default(),
            accounts: Accounts::new(clients),
            copies,
            components,
            planned: None,
            turns: Turns::default(),
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

    /// For the server of packages: what namespaces see of ClusterServiceVersions, where copies are not written.
    pub(crate) fn csvs(&self) -> Option<Arc<dyn CsvSource>> {
        let OperatorSettings { protected, virtual_copies, .. } = &self.settings;
        let objects = Objects::reader(self.objects.client().clone());
        let source =
            || -> Arc<dyn CsvSource> { Arc::new(shown::Operators::new(self.live.clone(), objects, protected.clone())) };
        virtual_copies.then(source)
    }

    /// Runs until `stop`.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        while !stop.is_cancelled() {
            let leading = *self.leading.borrow_and_update();
            self.look_at_versions();
            let deadline = if leading { self.turn(Timestamp::now()) } else { None };
            if leading {
                self.figures.on_progress(self.progress());
            }
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
        self.figures.on_fit(fit(&self.settings.release, &all));
        self.seen = Some(all);
    }

    /// Does what is due, and returns when something is although nothing has changed.
    fn turn(&mut self, now: Timestamp) -> Option<Instant> {
        let at = Instant::now();
        self.version.on_round(self.live.csvs.rounds());
        // Before everything is known, something could be taken for missing.
        let (seen, version) = (Seen::of(&self.live)?, self.version.known()?);
        let known = Known::of(seen, &self.memory, version.map(|version| version.number()));
        self.served.want(known.natives(), known.kinds_version());
        let (served, refused) = (self.served.known(), self.writer.rejections());
        self.certificates.want(known.secrets(), &self.live);
        let beside = Beside {
            served: &served,
            refused: &refused,
            certificates: &|namespace| self.certificates.known(namespace, &self.live),
            copies: &|original, namespaces| self.copies.of(original, namespaces.iter()),
        };
        let mut turns = std::mem::take(&mut self.turns);
        let perform = self.perform(at);
        let next = turns.turn(&known, beside, (now, at), &mut |action| match action {
            Action::Certificate { namespace, step } => self.certificates.step(namespace, step, &perform, now),
            action => perform.act(action),
        });
        let copied = self.bring_copies(&known, at, now);
        turns.end(known, served, refused, at);
        self.turns = turns;
        let next = next.into_iter().chain(copied).min();
        next.map(|next| until(next, now)).into_iter().chain(self.writer.next()).min()
    }

    /// What the cluster is told of this loop. What keeps a single operator from being installed is told by that.
    fn progress(&self) -> Progress {
        let unread = self.live.unread();
        let failing = self.writer.failures();
        let of_all = failing.iter().filter(|(key, _)| perform::is_of_all(key));
        let errors = unread.iter().cloned().chain(of_all.map(|(key, error)| format!("{key}: {error}"))).collect();
        let is_awaited = |key: &Key| {
            let named = key.to_string();
            perform::is_of_all(&named) && !failing.contains_key(&named)
        };
        // It stays so: what comes later is no part of beginning.
        let done = self.is_begun() || self.turns.have_been() && !self.writer.busy().1.iter().any(is_awaited);
        Progress { done, errors }
    }

    fn is_begun(&self) -> bool {
        self.figures.lifecycle().borrow().progress.as_ref().is_some_and(|progress| progress.done)
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

/// Whether all operators fit the next minor version of the cluster. A copy says what its original says.
fn fit(release: &str, all: &BTreeMap<String, Arc<CsvView>>) -> Fit {
    let originals = all.values().filter(|view| !view.0.is_copy());
    let installed = originals.map(|view| compatibility::Installed::of(&view.0));
    match compatibility::hindrance(Ok(release), installed) {
        None => Fit::All,
        Some(hindrance) => Fit::Hindered(hindrance.reason, hindrance.message),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::olm::work::operators::seen::tests::put;
    use serde_json::{Value, json};

    /// An operator that holds the next minor version is named once, wherever it has been copied to, and by whom.
    #[test]
    fn operator_that_does_not_fit_is_named_without_its_copies() {
        let properties = json!({"properties": [{"type": "olm.maxOpenShiftVersion", "value": "1.0"}]}).to_string();
        let version = |labels: Value, reason: &str| {
            let annotations = json!({"olm.operatorNamespace": "shop", "operatorframework.io/properties": properties});
            json!({"metadata": {"labels": labels, "annotations": annotations}, "spec": {},
                "status": {"phase": "Succeeded", "reason": reason}})
        };
        let mut seen = Seen::default();
        put(&mut seen.csvs, "mall/a", version(json!({"olm.copiedFrom": "shop"}), "Copied"));
        put(&mut seen.csvs, "park/a", version(json!({}), "Copied"));
        assert_eq!(fit("1.0.0", &seen.csvs), Fit::All);
        put(&mut seen.csvs, "shop/a", version(json!({}), "InstallSucceeded"));
        let Fit::Hindered(reason, message) = fit("1.0.0", &seen.csvs) else { panic!("it does not fit") };
        assert_eq!(reason, "IncompatibleOperatorsInstalled");
        assert!(message.contains("shop/a") && !message.contains("mall/a") && !message.contains("park/a"), "{message}");
        assert_eq!(fit("0.9.0", &seen.csvs), Fit::All, "it fits the next one");
    }
}
