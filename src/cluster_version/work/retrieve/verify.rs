//! Looks for the signatures of a release digest: in the cluster and in all stores at the same time, each within its own time,
//! until every keyring has one.

use super::store_client;
use crate::cluster::{Kind, Objects};
use crate::cluster_version::api::{ConfigMapName, SignatureStore};
use crate::error::without_password;
use crate::net::http::Egress;
use crate::net::signatures::{self, Found};
use crate::object::MANAGED_NAMESPACE;
use crate::object::metadata;
use crate::process::egress::Way;
use crate::release::Payload;
use crate::verify::{Config, Digest, SIGNATURES_LABEL, Store, Verification, Verifier, VerifyError};
use base64::Engine;
use futures::stream::{self, BoxStream, StreamExt};
use jiff::Timestamp;
use serde_json::Value;
use std::collections::VecDeque;
use std::sync::OnceLock;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// For everything; a forced update then proceeds unverified.
const LIMIT: Duration = Duration::from_secs(120);
/// For one store, or for the ConfigMaps of the cluster.
const STORE_LIMIT: Duration = Duration::from_secs(60);
/// Signatures of one digest in the cluster that are checked; anybody who may write ConfigMaps there can add more.
const MAX_CANDIDATES: usize = 100;
/// ConfigMaps that are in memory at the same time; each may have a megabyte.
const PAGE: u32 = 20;
const IN_CLUSTER: &str = "in-cluster signatures";

/// Where signatures are looked for, and who demands them.
pub(crate) struct Search<'a> {
    pub objects: &'a Objects,
    /// How requests to stores leave.
    pub way: Way,
    /// The running release, whose keyrings must have signed.
    pub own: &'a Payload,
    /// Becomes the resourceVersion of the signatures in the cluster once all of them have been read.
    pub as_of: &'a OnceLock<u64>,
}

impl Search<'_> {
    /// Whether the digest is signed as the running release demands; `stores` are asked in place of its own. When the time is up,
    /// the error names what was found until then. Returns the signatures that counted and are not in the cluster.
    pub(crate) async fn run(
        &self,
        digest: &Digest,
        stores: Option<&[SignatureStore]>,
    ) -> Result<Vec<Vec<u8>>, VerifyError> {
        let manifests = self.own.manifests.iter().map(AsRef::as_ref);
        let config = Config::from_manifests(manifests)?.ok_or(VerifyError::NotConfigured)?;
        let stores: Vec<(Store, Option<ConfigMapName>)> = match stores {
            None => config.stores.iter().map(|store| (store.clone(), None)).collect(),
            Some(given) => given.iter().filter_map(|s| Some((Store::parse(&s.url).ok()?, s.ca.clone()))).collect(),
        };
        let mut verification = Verifier::new(config).begin(digest);
        let end = Instant::now() + LIMIT;
        let in_cluster = in_config_maps(self.objects, digest, self.as_of);
        let in_cluster = signatures::within(in_cluster, STORE_LIMIT, IN_CLUSTER.to_owned());
        let in_cluster = in_cluster.map(|found| (found, false));
        let mut found = stream::select(in_cluster, self.in_stores(stores, digest).map(|found| (found, true)));
        let mut counted = Vec::new();
        while !verification.is_satisfied() {
            match timeout_at(end, found.next()).await {
                Ok(Some((found, of_store))) => {
                    let signature = match &found {
                        Found::Candidate { signature, .. } if of_store => Some(signature.clone()),
                        _ => None,
                    };
                    let before = verification.satisfied();
                    verification = take(verification, found, self.now()).await?;
                    counted.extend(signature.filter(|_| verification.satisfied() > before));
                }
                Ok(None) => break,
                Err(_) => {
                    let cause = format!("the search was ended after {} s", LIMIT.as_secs());
                    verification.record_unread("all stores", cause, self.now());
                    break;
                }
            }
        }
        verification.finish(self.now()).map(|()| counted)
    }

    /// When signatures are judged. The running release was built in the past: a clock that says otherwise would make signatures
    /// and keys valid that have expired.
    fn now(&self) -> Timestamp {
        not_before(Timestamp::now(), self.own.built)
    }

    /// From the stores, once it is known how requests leave the cluster: one that is sent before could go out directly where a
    /// proxy is needed.
    fn in_stores<'a>(
        &'a self,
        stores: Vec<(Store, Option<ConfigMapName>)>,
        digest: &'a Digest,
    ) -> BoxStream<'a, Found> {
        let prepared = async move {
            let mut way = self.way.clone();
            // Not held any longer: it is borrowed from the channel.
            let egress = match way.wait_for(Option::is_some).await {
                Ok(egress) => egress.clone(),
                Err(_) => return stream::empty().boxed(),
            };
            let named = |store: &Store| without_password(&store.location(digest, 1)).into_owned();
            let egress = match egress.unwrap_or_else(|| Ok(Egress::default())) {
                Ok(egress) => egress,
                Err(unknown) => {
                    let failures =
                        stores.iter().map(|(store, _)| Found::Failure { source: named(store), cause: unknown.clone() });
                    return stream::iter(failures.collect::<Vec<_>>()).boxed();
                }
            };
            let version = &self.own.release.version;
            let (mut asked, mut failed) = (Vec::new(), Vec::new());
            for (store, ca) in stores {
                match store_client::build(self.objects, version, &egress, ca.as_ref()).await {
                    Ok(client) => asked.push((store, client)),
                    Err(cause) => {
                        failed.push(Found::Failure { source: named(&store), cause });
                    }
                }
            }
            stream::iter(failed).chain(signatures::from_stores(asked, digest, STORE_LIMIT)).boxed()
        };
        stream::once(prepared).flatten().boxed()
    }
}

fn not_before(clock: Timestamp, built: Option<Timestamp>) -> Timestamp {
    built.map_or(clock, |built| clock.max(built))
}

/// Keys of `binaryData` in labelled ConfigMaps that begin with the digest.
pub(crate) fn in_config_maps<'a>(
    objects: &'a Objects,
    digest: &Digest,
    as_of: &'a OnceLock<u64>,
) -> BoxStream<'a, Found> {
    let pages = Pages { objects, prefix: digest.config_map_prefix(), next: Some(None), candidates: 0, as_of };
    let found = stream::unfold((pages, VecDeque::new()), |(mut pages, mut ready)| async move {
        while ready.is_empty() {
            ready = pages.next().await?;
        }
        Some((ready.pop_front()?, (pages, ready)))
    });
    found.boxed()
}

/// The ConfigMaps with signatures, page by page.
struct Pages<'a> {
    objects: &'a Objects,
    prefix: String,
    /// Where the next page begins; `None` after the last.
    next: Option<Option<String>>,
    candidates: usize,
    as_of: &'a OnceLock<u64>,
}

impl Pages<'_> {
    /// What the next page has; `None` after the last.
    async fn next(&mut self) -> Option<VecDeque<Found>> {
        let token = self.next.take()?;
        let kind = Kind::config_map();
        let failure = |cause: String| Found::Failure { source: IN_CLUSTER.to_owned(), cause };
        let page = match self.objects.labelled_page(&kind, MANAGED_NAMESPACE, SIGNATURES_LABEL, PAGE, token).await {
            Ok(page) => page,
            // The stores may still have one.
            Err(error) => return Some(VecDeque::from([failure(error.to_string())])),
        };
        self.next = page.next().map(Some);
        let mut found: VecDeque<Found> = page.items.iter().flat_map(|map| candidates(map, &self.prefix)).collect();
        self.candidates += found.len();
        if let Some(more) = self.candidates.checked_sub(MAX_CANDIDATES).filter(|more| *more > 0) {
            self.next = None;
            found.truncate(found.len() - more);
            found.push_back(failure(format!(
                "there are more than {MAX_CANDIDATES} signatures of this digest, of which no more are checked: remove those \
                 that are not needed from namespace {MANAGED_NAMESPACE}"
            )));
        }
        // All pages show the same version of the list.
        if let (None, Ok(version)) = (&self.next, page.metadata.resource_version.parse()) {
            let _set_once = self.as_of.set(version);
        }
        Some(found)
    }
}

/// The keys of a ConfigMap that may be signatures.
fn candidates(map: &Value, prefix: &str) -> Vec<Found> {
    let name = metadata::name(map);
    let data = map.get("binaryData").and_then(Value::as_object).into_iter().flatten();
    let found = data.filter(|(key, _)| key.starts_with(prefix)).map(|(key, value)| {
        let source = format!("ConfigMap {MANAGED_NAMESPACE}/{name} key {key}");
        match base64::engine::general_purpose::STANDARD.decode(value.as_str().unwrap_or_default()) {
            Ok(signature) => Found::Candidate { source, signature },
            Err(error) => Found::Failure { source, cause: error.to_string() },
        }
    });
    found.collect()
}

/// Checks a candidate, which takes milliseconds of computing, outside the threads that serve requests.
async fn take(mut verification: Verification, found: Found, now: Timestamp) -> Result<Verification, VerifyError> {
    match found {
        Found::Candidate { source, signature } => {
            let checked = tokio::task::spawn_blocking(move || {
                verification.offer(&source, &signature, now);
                verification
            });
            return checked.await.map_err(|e| VerifyError::Ended(e.to_string()));
        }
        Found::Failure { source, cause } => verification.record_unread(&source, cause, now),
        Found::Nothing { source } => verification.record(&source, "no signature of this digest", now),
    }
    Ok(verification)
}

#[cfg(test)]
mod tests;
