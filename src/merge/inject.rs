//! Injects the cluster's configuration into manifests: its proxy into the environment of operators, the address of its API
//! server into the own Deployment, and its TLS settings into configuration files.
//!
//! The caller reads the three objects and passes them as [`ClusterConfiguration`].

mod address;
mod edit;
mod environment;
mod tls;

pub(crate) use address::Address;
pub(crate) use environment::Proxy;
pub(crate) use tls::Tls;

use crate::object::manifest::{Manifest, ObjectId};
use serde_json::Value;
use std::hash::Hash;

/// Names of the containers that get the proxy, separated by commas.
const INJECT_PROXY: &str = "config.openshift.io/inject-proxy";
/// With `true` the configuration files in this ConfigMap get the TLS settings.
const INJECT_TLS: &str = "config.openshift.io/inject-tls";
/// Namespace and name of the Deployment whose container of the same name gets the address of the API server.
const ADDRESSED: (&str, &str) = ("openshift-cluster-version", "cluster-version-operator");

/// An object named `cluster` of which a part is injected into manifests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Source {
    Proxy,
    Infrastructure,
    ApiServer,
}

impl Source {
    pub(crate) const ALL: [Source; 3] = [Source::Proxy, Source::Infrastructure, Source::ApiServer];
    pub(crate) const API_VERSION: &str = "config.openshift.io/v1";
    pub(crate) const NAME: &str = "cluster";

    pub(crate) fn kind(self) -> &'static str {
        match self {
            Source::Proxy => "Proxy",
            Source::Infrastructure => "Infrastructure",
            Source::ApiServer => "APIServer",
        }
    }

    /// The sources from which something is injected into this manifest.
    pub(crate) fn of(manifest: &Manifest) -> Vec<Source> {
        let ObjectId { group, kind, namespace, name } = &manifest.id;
        let mut sources = Vec::new();
        match (group.as_str(), kind.as_str()) {
            ("apps", "Deployment" | "DaemonSet") => {
                if manifest.annotation(INJECT_PROXY).is_some() {
                    sources.push(Source::Proxy);
                }
                if kind == "Deployment" && (namespace.as_str(), name.as_str()) == ADDRESSED {
                    sources.push(Source::Infrastructure);
                }
            }
            ("", "ConfigMap") if manifest.annotation(INJECT_TLS) == Some("true") => sources.push(Source::ApiServer),
            _ => {}
        }
        sources
    }
}

/// The part of the cluster's configuration that is injected. The default is that of a cluster without the three objects.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct ClusterConfiguration {
    /// `None` if the cluster has no proxy.
    pub proxy: Option<Proxy>,
    /// `None` if unknown; pods then reach the API server by the service network.
    pub address: Option<Address>,
    pub tls: Tls,
}

impl ClusterConfiguration {
    /// Updates the part of one object, which is `None` if it does not exist. Returns whether that changes anything.
    pub(crate) fn update(&mut self, source: Source, object: Option<&Value>) -> bool {
        let before = self.clone();
        match source {
            Source::Proxy => self.proxy = object.and_then(Proxy::of),
            Source::Infrastructure => self.address = object.and_then(Address::of),
            Source::ApiServer => self.tls = Tls::of(object),
        }
        *self != before
    }

    /// The part of one object, for comparing and fingerprints.
    pub(crate) fn part(&self, source: Source) -> impl Hash + PartialEq + '_ {
        let is = |other| source == other;
        (
            self.proxy.as_ref().filter(|_| is(Source::Proxy)),
            self.address.as_ref().filter(|_| is(Source::Infrastructure)),
            is(Source::ApiServer).then_some(&self.tls),
        )
    }

    /// The objects whose parts differ.
    pub(crate) fn differences(&self, other: &ClusterConfiguration) -> Vec<Source> {
        Source::ALL.into_iter().filter(|source| self.part(*source) != other.part(*source)).collect()
    }

    /// Injects into `object`, the decoded manifest. A second call changes nothing.
    ///
    /// # Errors
    /// The cluster has a proxy, and the manifest's annotation names a container that does not exist.
    pub(crate) fn inject(&self, manifest: &Manifest, object: &mut Value) -> Result<(), InjectError> {
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

/// The proxy cannot be injected into a manifest.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{object}: annotation {INJECT_PROXY} names container {container:?}, which the pod does not have; correct the \
     annotation in the release"
)]
pub(crate) struct InjectError {
    pub object: String,
    pub container: String,
}

#[cfg(test)]
mod tests;
