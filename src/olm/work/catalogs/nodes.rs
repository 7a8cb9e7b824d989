//! How the images of bundles are read through nodes: what a pod of a catalog is made of.

use super::settings::PodSettings;
use super::views::NamespaceView;
use crate::olm::api::catalog_source::CatalogSource;
use crate::olm::api::keys::annotation::PRIORITY_CLASS;
use crate::olm::source::pod::bundle::pod;
use crate::olm::source::pod::{ImageAccess, PodInput, Pods};
use crate::olm::source::spec::Why;
use serde_json::Value;
use std::sync::Arc;

/// When nodes are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ToTry {
    /// Where the registry refuses this process, or cannot be reached.
    Second,
    /// At once, and nothing else.
    Only,
}

/// For the bundles of one catalog.
#[derive(Clone, Debug)]
pub(crate) struct Nodes {
    source: Arc<CatalogSource>,
    enforced: Option<String>,
    has_users: bool,
    settings: Arc<PodSettings>,
}

/// Whether a pod is made of the same.
impl PartialEq for Nodes {
    fn eq(&self, other: &Nodes) -> bool {
        fn key(nodes: &Nodes) -> impl PartialEq + '_ {
            let metadata = &nodes.source.metadata;
            let priority = metadata.annotations.as_ref().and_then(|all| all.get(PRIORITY_CLASS));
            (&metadata.uid, metadata.generation, priority, &nodes.enforced, nodes.has_users)
        }
        key(self) == key(other)
    }
}

impl Nodes {
    /// `None` where images are never read so.
    pub(super) fn of(
        source: &Arc<CatalogSource>,
        namespace: &NamespaceView,
        settings: &Arc<PodSettings>,
    ) -> Option<Nodes> {
        let wanted = settings.access != ImageAccess::Direct && !settings.server_image.is_empty();
        wanted.then(|| Nodes {
            source: source.clone(),
            enforced: namespace.enforced.clone(),
            has_users: namespace.has_users,
            settings: settings.clone(),
        })
    }

    pub(crate) fn to_try(&self) -> ToTry {
        if self.settings.access == ImageAccess::Pod { ToTry::Only } else { ToTry::Second }
    }

    /// The pod of this name that reads this image.
    pub(crate) fn pod(&self, name: &str, image: &str) -> Value {
        let pods = Pods {
            access: self.settings.access,
            enforced: self.enforced.as_deref(),
            has_users: self.has_users,
            set_user: self.settings.set_user,
            server_image: &self.settings.server_image,
            ..Pods::default()
        };
        pod(&PodInput { source: &self.source, named: image, image, why: Why::Access, pods: &pods }, name)
    }
}
