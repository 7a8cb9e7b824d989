//! The default catalogs of the release, and what OperatorHub says of them.

use super::live::{Live, all, only};
use super::perform::{DEFAULT, Default, Key, write_default, write_hub};
use super::settings::Settings;
use super::views::SourceView;
use crate::cluster::Objects;
use crate::cluster::writer::Writer;
use crate::olm::endpoints::Id;
use crate::olm::source::hub::{HubDecision, HubFacts, decide};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a catalog that was deleted may still be seen.
const DELETION: Duration = Duration::from_secs(5);

/// Writes what differs. Returns what keeps failing, and whether everything is as it should be; `None` before it is known what that is.
pub(super) fn bring(
    sources: &BTreeMap<Id, Arc<SourceView>>,
    settings: &Settings,
    (objects, live): (&Objects, &Live),
    writer: &Arc<Writer<Key>>,
    seen: Instant,
) -> Option<(Vec<String>, bool)> {
    let namespace = settings.global_namespace.as_str();
    let (hub, release) = (only(&live.hub)?, only(&live.defaults)?);
    all(&live.hub)?;
    let live_sources: Vec<_> =
        sources.iter().filter(|((of, _), _)| of == namespace).map(|(_, source)| (*source.0).clone()).collect();
    let failures = writer.failures();
    let failed =
        failures.iter().filter_map(|(key, error)| Some((key.strip_prefix(DEFAULT)?.to_owned(), error.clone())));
    let failed: BTreeMap<String, String> = failed.collect();
    let facts = HubFacts {
        release: release.as_ref().map(|view| &view.data),
        hub: hub.as_ref().map(|view| &view.0),
        live: &live_sources,
        namespace,
        failed: &failed,
    };
    let HubDecision { create, repair, delete, status, errors } = decide(&facts);
    let done = create.is_empty() && repair.is_empty() && delete.is_empty();
    let begin = |name: String, pause: Duration, change: Default| {
        let write = write_default(objects.clone(), live.clone(), change);
        writer.begin(Key::Default(name), seen, pause, write);
    };
    for source in create {
        let name = source.metadata.name.clone().unwrap_or_default();
        begin(name, Duration::ZERO, Default::Create(Box::new(source)));
    }
    for source in repair {
        let name = source.metadata.name.clone().unwrap_or_default();
        begin(name, Duration::ZERO, Default::Repair(Box::new(source)));
    }
    for (name, uid) in delete {
        begin(name.clone(), DELETION, Default::Delete { namespace: namespace.to_owned(), name, uid });
    }
    if let (Some(status), Some(hub)) = (status, &hub) {
        let write = write_hub(objects.clone(), live.clone(), hub.0.clone(), status);
        writer.begin(Key::Hub, seen, Duration::ZERO, write);
    }
    Some((errors, done))
}
