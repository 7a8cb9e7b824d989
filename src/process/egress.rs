//! Follows how requests leave the cluster: the proxy in the status of `Proxy/cluster`, which the caller follows
//! already, and the bundle of trusted CAs.

use crate::cluster::task;
use crate::cluster::{Clients, Kind, Kinds, named};
use crate::net::http::{Bundle, Egress, Roots};
use crate::net::proxy::ProxySettings;
use crate::object::read::Read;
use futures::stream::{self, StreamExt};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// How requests leave, or why that is not known, which is told after [`FIRST_READ`]. `None` before.
pub(crate) type Way = watch::Receiver<Option<Result<Egress, String>>>;

/// The Proxy, or why it has never been read; `None` before the first attempt. It does not exist either as long as its kind is
/// not served.
pub(crate) type ProxyState = Option<Read<Value>>;

/// How long both objects may take to be read for the first time before it is told that they cannot be.
const FIRST_READ: Duration = Duration::from_secs(10);

/// Namespace and name of the bundle, and its key.
const BUNDLE: (&str, &str) = (crate::object::MANAGED_NAMESPACE, "trusted-ca-bundle");
const BUNDLE_KEY: &str = "ca-bundle.crt";

/// An object that decides about the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Source {
    Proxy,
    TrustBundle,
}

impl Source {
    const ALL: [Source; 2] = [Source::Proxy, Source::TrustBundle];

    fn object(self) -> String {
        match self {
            Source::Proxy => "Proxy cluster".to_owned(),
            Source::TrustBundle => format!("ConfigMap {}/{}", BUNDLE.0, BUNDLE.1),
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
    let (namespace, name) = BUNDLE;
    let origin = format!("ConfigMap {namespace}/{name}, key {BUNDLE_KEY}");
    (!pem.trim().is_empty()).then(|| Bundle { pem: pem.to_owned(), origin })
}

/// What is known of both objects.
#[derive(Debug, Default)]
struct Known {
    egress: Egress,
    read: BTreeSet<Source>,
    /// Why those that were never read were not.
    failed: BTreeMap<Source, String>,
}

impl Known {
    /// A state of one of them. One that cannot be read stays as it was.
    fn on(&mut self, source: Source, state: Read<Value>) {
        let object = match state {
            Read::Value(object) => Some(object),
            Read::Absent => None,
            Read::Failed(error) => {
                if !self.read.contains(&source) {
                    tracing::warn!(%error, "cannot read how requests leave the cluster; trying again");
                    self.failed.insert(source, error);
                }
                return;
            }
        };
        source.update(&mut self.egress, object.as_ref());
        self.read.insert(source);
    }

    /// What is told. Nothing is a way before both have been read: a request would leave directly where a proxy is needed.
    fn way(&self, waiting: bool) -> Option<Result<Egress, String>> {
        let unread: Vec<String> = Source::ALL
            .iter()
            .filter(|source| !self.read.contains(source))
            .map(|source| {
                let cause = self.failed.get(source).map_or("there is no answer yet", String::as_str);
                format!("{} cannot be read: {cause}", source.object())
            })
            .collect();
        match (unread.is_empty(), waiting) {
            (true, _) => Some(Ok(self.egress.clone())),
            (false, true) => None,
            (false, false) => {
                Some(Err(format!("nothing is asked before it is known how requests leave: {}", unread.join("; "))))
            }
        }
    }
}

/// Starts to follow both objects.
pub(crate) fn follow(
    clients: &Clients,
    kinds: &Arc<Kinds>,
    mut proxy: watch::Receiver<ProxyState>,
    stop: &CancellationToken,
) -> Way {
    let (sender, receiver) = watch::channel(None);
    proxy.mark_changed();
    let proxies = stream::unfold(proxy, |mut proxy| async move {
        loop {
            proxy.changed().await.ok()?;
            let state = proxy.borrow_and_update().clone();
            if let Some(state) = state {
                return Some(((Source::Proxy, state), proxy));
            }
        }
    });
    let bundles = named::follow(clients, kinds.clone(), Kind::config_map(), BUNDLE.0, BUNDLE.1);
    let bundles = bundles.map(|state| (Source::TrustBundle, state));
    let mut states = stream::select(proxies.boxed(), bundles);
    task::spawn("way out of the cluster", stop, async move {
        let (mut known, mut waiting) = (Known::default(), true);
        let mut first_read = std::pin::pin!(tokio::time::sleep(FIRST_READ));
        loop {
            tokio::select! {
                Some((source, state)) = states.next() => known.on(source, state),
                () = &mut first_read, if waiting => waiting = false,
                else => return,
            }
            sender.send_if_modified(|last| tell(last, known.way(waiting)));
        }
    });
    receiver
}

/// Whether this is something new.
fn tell(last: &mut Option<Result<Egress, String>>, way: Option<Result<Egress, String>>) -> bool {
    if *last == way {
        return false;
    }
    if let Some(Ok(Egress { proxy, roots })) = &way {
        tracing::info!(proxy = proxy.is_some(), bundle = *roots != Roots::System, "way out of the cluster");
    }
    *last = way;
    true
}

#[cfg(test)]
mod tests;
