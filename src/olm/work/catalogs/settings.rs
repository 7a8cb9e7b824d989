//! What the controller of catalogs is configured by.

use crate::net::proxy::Proxies;
use crate::olm::source::pod::ImageAccess;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::sync::Arc;

#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// The release of this process.
    pub version: String,
    /// Its namespace.
    pub namespace: String,
    /// Catalogs of this namespace are visible in all of them.
    pub global_namespace: String,
    /// The address of this process.
    pub address: Option<IpAddr>,
    /// Of which each catalog gets one.
    pub ports: RangeInclusive<u16>,
    pub operators: Operators,
    pub pods: Arc<PodSettings>,
    /// For servers of catalogs outside of the cluster.
    pub proxies: Arc<Proxies>,
}

/// How catalogs are served by pods.
#[derive(Clone, Debug, Default)]
pub(crate) struct PodSettings {
    /// Each catalog of an image is.
    pub always: bool,
    pub access: ImageAccess,
    /// Pods have a user of our own.
    pub set_user: bool,
    /// The image of this process.
    pub server_image: String,
}

/// Names of the ClusterOperators that are reported; empty for none.
#[derive(Clone, Debug, Default)]
pub(crate) struct Operators {
    pub lifecycle: String,
    pub catalog: String,
    pub packages: String,
    pub marketplace: String,
}

impl Operators {
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        let all = [&self.lifecycle, &self.catalog, &self.packages, &self.marketplace];
        all.into_iter().map(String::as_str).filter(|name| !name.is_empty())
    }
}
