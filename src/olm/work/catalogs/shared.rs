//! How images are reached from this cluster, whatever the catalog: the proxy and its authorities, mirrors, and what is allowed.

use super::access::Shared;
use super::cluster_images::ClusterImages;
use super::watched::{Name, Seen, Watched, What};
use crate::cluster::{Clients, Kind, Kinds, named, task};
use crate::images::cluster::authorities;
use crate::object::read::Read;
use crate::process::egress::{self, ProxyState, Way};
use futures::StreamExt;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

/// Namespace of the ConfigMap with authorities of registries.
const CONFIG: &str = "openshift-config";

pub(super) struct FollowedShared {
    way: Way,
    images: ClusterImages,
    /// As it was told last, so that whoever compares it has the same one.
    last: Option<Result<Arc<Shared>, String>>,
}

impl FollowedShared {
    pub(super) fn start(clients: &Arc<Clients>, changed: &Arc<Notify>, stop: &CancellationToken) -> FollowedShared {
        let kinds = Arc::new(Kinds::default());
        let (told, proxy) = watch::channel::<ProxyState>(None);
        let kind = Kind::known("config.openshift.io", "v1", "Proxy", "proxies", false);
        let mut proxies = named::follow(clients, kinds.clone(), kind, "", "cluster");
        task::spawn("proxy", stop, async move {
            while let Some(state) = proxies.next().await {
                told.send_replace(Some(state));
            }
        });
        let way = egress::follow(clients, &kinds, proxy, stop);
        let (mut ways, woken) = (way.clone(), changed.clone());
        task::spawn("way to registries", stop, async move {
            while ways.changed().await.is_ok() {
                woken.notify_one();
            }
        });
        FollowedShared { way, images: ClusterImages::start(clients, changed, stop), last: None }
    }

    /// The object with authorities of registries, if the cluster names one.
    pub(super) fn names(&self) -> Option<Name> {
        let trusted = self.images.known()?.ok()?.trusted?;
        Some(Name::new(What::Authorities, CONFIG, &trusted))
    }

    /// `None` before it is known.
    pub(super) fn known(&mut self, watched: &Watched) -> Option<Result<Arc<Shared>, String>> {
        let now = self.look(watched)?;
        if let (Some(Ok(last)), Ok(now)) = (&self.last, &now)
            && **last == *now
        {
            return self.last.clone();
        }
        self.last = Some(now.map(Arc::new));
        self.last.clone()
    }

    fn look(&self, watched: &Watched) -> Option<Result<Shared, String>> {
        let (way, images) = (self.way.borrow().clone()?, self.images.known()?);
        let registry_ca = match self.names() {
            None => BTreeMap::new(),
            Some(name) => match &*watched.get(&name)?.0 {
                Read::Value(Seen::Authorities(data)) => authorities(data),
                Read::Value(_) | Read::Absent | Read::Failed(_) => BTreeMap::new(),
            },
        };
        Some(way.and_then(|egress| {
            let images = images?;
            Ok(Shared { egress, mirrors: images.mirrors, policy: images.policy, registry_ca })
        }))
    }
}
