//! What the ClusterOperators say.

use super::live::{Live, only};
use super::perform::{Key, write_operator};
use super::settings::Settings;
use crate::cluster::Objects;
use crate::cluster::writer::Writer;
use crate::object::cluster_operator::ClusterOperatorStatus;
use crate::olm::source::operators::{self, Lifecycle, Packages, Progress, Subject};
use jiff::{SignedDuration, Timestamp};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a ClusterOperator rests after it was written.
const PERIOD: Duration = Duration::from_secs(1);
/// An API that is not reached for so long does not only begin.
const PATIENCE: SignedDuration = SignedDuration::from_mins(5);

/// Of this controller.
#[derive(Clone, Debug, Default)]
pub(super) struct Outlook {
    pub catalogs: Progress,
    /// `None` before it is known which default catalogs there are.
    pub defaults: Option<Progress>,
    /// Of what is installed.
    pub lifecycle: Lifecycle,
}

/// Writes what differs. Returns when it has to be looked again although nothing changes.
pub(super) fn bring(
    outlook: &Outlook,
    settings: &Settings,
    (objects, live): (&Objects, &Live),
    writer: &Arc<Writer<Key>>,
    (seen, now): (Instant, Timestamp),
) -> Option<Timestamp> {
    let own = Subject { version: &settings.version, namespace: &settings.namespace };
    let global = Subject { version: &settings.version, namespace: &settings.global_namespace };
    let report = |name: &str, of: &dyn Fn(&ClusterOperatorStatus) -> ClusterOperatorStatus| {
        let Some(followed) = live.operators.get(name).filter(|followed| !followed.is_absent()) else { return };
        let Some(known) = only(followed) else { return };
        let before = known.as_ref().and_then(|view| view.0.status.clone());
        let status = of(&before.clone().unwrap_or_default());
        if before.as_ref() == Some(&status) {
            return;
        }
        let version = known.as_ref().and_then(|view| view.0.metadata.resource_version.clone());
        let write = write_operator(objects.clone(), live.clone(), name.to_owned(), version, status);
        writer.begin(Key::Operator(name.to_owned()), seen, PERIOD, write);
    };
    let names = &settings.operators;
    report(&names.catalog, &|before| operators::catalog(before, own, &outlook.catalogs, now));
    let Lifecycle { progress, fit } = &outlook.lifecycle;
    // Where another process keeps operators, this one tells of itself.
    let progress = progress.as_ref().unwrap_or(&outlook.catalogs);
    report(&names.lifecycle, &|before| operators::lifecycle(before, own, (progress, fit), now));
    if let Some(defaults) = &outlook.defaults {
        report(&names.marketplace, &|before| operators::marketplace(before, global, defaults, now));
    }
    let (packages, again) = packages(live, now)?;
    report(&names.packages, &|before| operators::package_server(before, own, &packages, now));
    again
}

/// Whether the API server reaches the API of packages, and when that is judged anew; `None` before it is known.
fn packages(live: &Live, now: Timestamp) -> Option<(Packages, Option<Timestamp>)> {
    let api = only(&live.packages)?;
    let Some((available, since, message)) = api.and_then(|api| api.available.clone()) else {
        return Some((Packages::Starting, None));
    };
    let until = since.unwrap_or(now).checked_add(PATIENCE).unwrap_or(Timestamp::MAX);
    Some(match (available, until > now) {
        (true, _) => (Packages::Served, None),
        (false, true) => (Packages::Starting, Some(until)),
        (false, false) => {
            (Packages::Failed(format!("the API server does not reach the API of packages: {message}")), None)
        }
    })
}
