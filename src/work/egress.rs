//! Follows how requests leave the cluster: the proxy in the status of `Proxy/cluster`, and the bundle of trusted CAs.

use crate::cluster::{Clients, Kind, Kinds, named};
use crate::net::http::{Bundle, Egress, Roots};
use crate::net::proxy::ProxySettings;
use crate::updates::upgradeable::Read;
use futures::stream::{self, StreamExt};
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// `None` until both objects have been read.
pub(crate) type Way = watch::Receiver<Option<Egress>>;

const BUNDLE_KEY: &str = "ca-bundle.crt";

/// An object that decides about the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Source {
    Proxy,
    TrustBundle,
}

impl Source {
    const ALL: [Source; 2] = [Source::Proxy, Source::TrustBundle];

    fn kind(self) -> Kind {
        match self {
            Source::Proxy => Kind::known("config.openshift.io", "v1", "Proxy", "proxies", false),
            Source::TrustBundle => Kind::config_map(),
        }
    }

    fn place(self) -> (&'static str, &'static str) {
        match self {
            Source::Proxy => ("", "cluster"),
            Source::TrustBundle => (crate::api::MANAGED_NAMESPACE, "trusted-ca-bundle"),
        }
    }

    /// Takes over what the object says; `None` if it does not exist.
    fn update(self, egress: &mut Egress, object: Option<&Value>) {
        match self {
            Source::Proxy => egress.proxy = object.and_then(proxy),
            Source::TrustBundle => egress.roots = object.and_then(bundle).map_or(Roots::System, Roots::Only),
        }
    }
}

/// The settings in the status, which are the effective ones.
fn proxy(object: &Value) -> Option<ProxySettings> {
    let text = |field: &str| {
        let value = object.pointer(&format!("/status/{field}")).and_then(Value::as_str);
        value.unwrap_or_default().trim().to_owned()
    };
    let settings = ProxySettings { http: text("httpProxy"), https: text("httpsProxy"), none: text("noProxy") };
    (!settings.http.is_empty() || !settings.https.is_empty()).then_some(settings)
}

/// A bundle that is empty counts as absent.
fn bundle(object: &Value) -> Option<Bundle> {
    let pem = object.get("data")?.get(BUNDLE_KEY)?.as_str()?;
    let (namespace, name) = Source::TrustBundle.place();
    let origin = format!("ConfigMap {namespace}/{name}, key {BUNDLE_KEY}");
    (!pem.trim().is_empty()).then(|| Bundle { pem: pem.to_owned(), origin })
}

/// What is known of both objects.
#[derive(Debug, Default)]
struct Known {
    egress: Egress,
    read: BTreeSet<Source>,
}

impl Known {
    /// A state of one of them; `true` if it changes what is told. Nothing is told before both have been read: a request
    /// would leave directly where a proxy is needed. An object that cannot be read stays as it was.
    fn on(&mut self, source: Source, state: &Read<Value>) -> bool {
        let object = match state {
            Read::Value(object) => Some(object),
            Read::Absent => None,
            Read::Failed(error) => {
                if !self.read.contains(&source) {
                    tracing::warn!(%error, "cannot read how requests leave the cluster; retrying");
                }
                return false;
            }
        };
        let before = self.egress.clone();
        source.update(&mut self.egress, object);
        let complete = self.read.insert(source) && self.read.len() == Source::ALL.len();
        complete || self.read.len() == Source::ALL.len() && before != self.egress
    }
}

/// Starts to follow both objects.
pub(crate) fn follow(clients: &Clients, kinds: &Arc<Kinds>, stop: CancellationToken) -> Way {
    let (sender, receiver) = watch::channel(None);
    let states = Source::ALL.map(|source| {
        let (namespace, name) = source.place();
        let states = named::follow(clients, kinds.clone(), source.kind(), namespace, name);
        states.map(move |state| (source, state)).boxed()
    });
    let mut states = stream::select_all(states);
    tokio::spawn(async move {
        let following = async {
            let mut known = Known::default();
            while let Some((source, state)) = states.next().await {
                if known.on(source, &state) {
                    let Egress { proxy, roots } = &known.egress;
                    tracing::info!(proxy = proxy.is_some(), bundle = *roots != Roots::System, "way out of the cluster");
                    sender.send_replace(Some(known.egress.clone()));
                }
            }
        };
        stop.run_until_cancelled(following).await
    });
    receiver
}

#[cfg(test)]
mod tests;
