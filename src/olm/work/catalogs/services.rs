//! Services and EndpointSlices of catalogs: which port each catalog has, and how others get there.

use super::live::{Live, all};
use super::perform::{Key, write_service, write_slice};
use super::settings::Settings;
use super::views::SourceView;
use crate::cluster::Objects;
use crate::cluster::writer::Writer;
use crate::olm::catalog::served;
use crate::olm::endpoints::{self, Exposed, Id, Ports, Seen};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;

pub(super) struct Services {
    /// Those that were given out by this process.
    given: Ports,
    ports: watch::Sender<Arc<served::Ports>>,
    /// Catalogs without a port, which was told.
    without: Vec<Id>,
}

impl Services {
    pub(super) fn new(ports: watch::Sender<Arc<served::Ports>>) -> Services {
        Services { given: Ports::default(), ports, without: Vec::new() }
    }

    /// Tells at which port each catalog is asked for, as the Services say it. Nothing changes before they are known.
    pub(super) fn tell(&self, sources: &BTreeMap<Id, Arc<SourceView>>, settings: &Settings, live: &Live) {
        let Some(services) = all(&live.services) else { return };
        let port = |source: &SourceView| {
            let exposed = Exposed::of(&source.0)?;
            let port = services.get(&(exposed.namespace, exposed.service))?.0.target?;
            settings.ports.contains(&port).then_some(port)
        };
        let ports: served::Ports =
            sources.iter().filter_map(|(id, source)| Some((id.clone(), port(source)?))).collect();
        self.ports.send_if_modified(|known| {
            let differs = **known != ports;
            if differs {
                *known = Arc::new(ports);
            }
            differs
        });
    }

    /// Writes what differs.
    pub(super) fn bring(
        &mut self,
        (sources, of_pods): (&BTreeMap<Id, Arc<SourceView>>, &BTreeMap<Id, Value>),
        settings: &Settings,
        (objects, live): (&Objects, &Live),
        writer: &Arc<Writer<Key>>,
        seen: Instant,
    ) {
        let (Some(services), Some(slices), Some(pods)) = (all(&live.services), all(&live.slices), all(&live.pods))
        else {
            return;
        };
        let exposed = |(id, source): (&Id, &Arc<SourceView>)| {
            Some(Exposed { pod: of_pods.get(id).cloned(), ..Exposed::of(&source.0)? })
        };
        let exposed: Vec<Exposed> = sources.iter().filter_map(exposed).collect();
        let services: BTreeMap<Id, Seen> = services.into_iter().map(|(id, view)| (id, view.0.clone())).collect();
        let slices: BTreeMap<Id, Seen> = slices.into_iter().map(|(id, view)| (id, view.0.clone())).collect();
        let without = self.given.give(&exposed, &services, &settings.ports);
        if self.without != without {
            for (namespace, name) in &without {
                let ports = format!("{}-{}", settings.ports.start(), settings.ports.end());
                tracing::warn!(namespace, name, ports, "a catalog has no port, and no Service: raise --catalog-ports");
            }
            self.without = without;
        }
        let known: BTreeSet<IpAddr> = pods.values().flat_map(|pod| pod.addresses.iter().copied()).collect();
        let ready = pods.values().filter(|pod| pod.ready).flat_map(|pod| pod.addresses.iter().copied());
        // A process that is in no pod is one of them all the same.
        let own = settings.address.filter(|address| !known.contains(address));
        let addresses: BTreeSet<IpAddr> = ready.chain(own).collect();
        let writes = endpoints::writes(&exposed, &self.given, &addresses, &services, &slices);
        for change in writes.services {
            let write = write_service(objects.clone(), live.clone(), change.clone());
            writer.begin(Key::Service(change.id().clone()), seen, Duration::ZERO, write);
        }
        for change in writes.slices {
            let write = write_slice(objects.clone(), live.clone(), change.clone());
            writer.begin(Key::Slice(change.id().clone()), seen, Duration::ZERO, write);
        }
    }
}
