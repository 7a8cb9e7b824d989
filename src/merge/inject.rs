//! What of the cluster goes into manifests (payload-and-apply §5.10): its proxy into the environment of operators, the
//! address of its API server into our own Deployment, its TLS settings into configurations.
//!
//! Pure: who reads the three objects hands them in as [`ClusterConfiguration`].

mod address;
mod edit;
mod environment;
mod tls;

#[cfg(test)]
mod tests;

pub use address::Address;
pub use environment::Proxy;
pub use tls::Tls;

use crate::api::{NAMESPACE, OWN_DEPLOYMENT};
use crate::payload::{Manifest, ObjectId};
use serde_json::Value;
use std::hash::Hash;

/// Names of the containers that are told of the proxy, separated by commas.
const INJECT_PROXY: &str = "config.openshift.io/inject-proxy";
/// `true`: the configurations in this ConfigMap are told of the TLS settings.
const INJECT_TLS: &str = "config.openshift.io/inject-tls";

/// An object, named `cluster`, whose content goes into manifests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Source {
    Proxy,
    Infrastructure,
    ApiServer,
}

impl Source {
    pub const ALL: [Source; 3] = [Source::Proxy, Source::Infrastructure, Source::ApiServer];
    pub const API_VERSION: &str = "config.openshift.io/v1";
    pub const NAME: &str = "cluster";

    pub fn kind(self) -> &'static str {
        match self {
            Source::Proxy => "Proxy",
            Source::Infrastructure => "Infrastructure",
            Source::ApiServer => "APIServer",
        }
    }

    /// What a manifest needs to know before it can be compared or applied.
    pub fn of(manifest: &Manifest) -> Vec<Source> {
        let ObjectId { group, kind, namespace, name } = &manifest.id;
        let mut sources = Vec::new();
        match (group.as_str(), kind.as_str()) {
            ("apps", "Deployment" | "DaemonSet") => {
                if manifest.annotation(INJECT_PROXY).is_some() {
                    sources.push(Source::Proxy);
                }
                if kind == "Deployment" && namespace == NAMESPACE && name == OWN_DEPLOYMENT {
                    sources.push(Source::Infrastructure);
                }
            }
            ("", "ConfigMap") if manifest.annotation(INJECT_TLS) == Some("true") => sources.push(Source::ApiServer),
            _ => {}
        }
        sources
    }
}

/// The part of the cluster's configuration that goes into manifests. The default is a cluster that has none of the
/// three objects.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ClusterConfiguration {
    /// `None`: the cluster needs no proxy.
    pub proxy: Option<Proxy>,
    /// `None`: not known; pods find the API server by the service network.
    pub address: Option<Address>,
    pub tls: Tls,
}

impl ClusterConfiguration {
    /// Takes in what was read of one object (`None`: it is not there); true if that changes anything.
    pub fn take(&mut self, source: Source, object: Option<&Value>) -> bool {
        let before = self.clone();
        match source {
            Source::Proxy => self.proxy = object.and_then(Proxy::of),
            Source::Infrastructure => self.address = object.and_then(Address::of),
            Source::ApiServer => self.tls = Tls::of(object),
        }
        *self != before
    }

    /// What of it manifests take from one object, as a fingerprint takes it in.
    pub fn part(&self, source: Source) -> impl Hash + PartialEq + '_ {
        let is = |other| source == other;
        (
            self.proxy.as_ref().filter(|_| is(Source::Proxy)),
            self.address.as_ref().filter(|_| is(Source::Infrastructure)),
            is(Source::ApiServer).then_some(&self.tls),
        )
    }

    /// The objects in whose part the two differ.
    pub fn differences(&self, other: &ClusterConfiguration) -> Vec<Source> {
        Source::ALL.into_iter().filter(|source| self.part(*source) != other.part(*source)).collect()
    }

    /// Puts into `object`, the decoded manifest, what belongs there. Doing it again changes nothing.
    ///
    /// # Errors
    /// The cluster has a proxy and the manifest names a container that it has not.
    pub fn inject(&self, manifest: &Manifest, object: &mut Value) -> Result<(), InjectError> {
        for source in Source::of(manifest) {
            match (source, &self.proxy, &self.address) {
                (Source::Proxy, Some(proxy), _) => {
                    let names = manifest.annotation(INJECT_PROXY).unwrap_or_default();
                    environment::inject(object, names, proxy)
                        .map_err(|container| InjectError { object: manifest.id.to_string(), container })?;
                }
                (Source::Infrastructure, _, Some(address)) => address::inject(object, address),
                (Source::ApiServer, ..) => tls::inject(object, &self.tls),
                _ => {}
            }
        }
        Ok(())
    }
}

/// A manifest cannot be told of the proxy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{object}: annotation {INJECT_PROXY} names container {container:?}, which the pod does not have; correct the \
     annotation in the release"
)]
pub struct InjectError {
    pub object: String,
    pub container: String,
}
