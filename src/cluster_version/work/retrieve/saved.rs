//! Keeps the signatures that have verified a release in the cluster, so that it can be verified again when its store cannot be
//! reached: after a restart in the middle of an update, or on the way back.

use crate::cluster::{ApiError, Kind, Objects};
use crate::object::MANAGED_NAMESPACE;
use crate::verify::{Digest, SIGNATURES_LABEL, canonical};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// The ConfigMap of ours; others are written by administrators and tools.
const NAME: &str = "signatures-managed";
/// Digests whose signatures are kept; each takes one or two kilobytes.
const MAX_DIGESTS: usize = 150;
/// Bytes of all signatures, as the ConfigMap has them. It has room for a megabyte, and others may have put something into it.
const MAX_BYTES: usize = 700 << 10;
/// Bytes of one signature. Real ones have about a thousand; what is valid and larger was inflated on its way.
const MAX_SIGNATURE: usize = 16 << 10;
/// A conflict means that somebody else has written: what they wrote is kept.
const TRIES: usize = 3;

/// Adds the signatures of this digest. `history`: digests of releases that the cluster has run, which are kept longest.
pub(super) async fn save(
    objects: &Objects,
    digest: &Digest,
    signatures: &[Vec<u8>],
    history: &BTreeSet<Digest>,
) -> Result<(), ApiError> {
    let signatures: Vec<Vec<u8>> = signatures.iter().filter_map(|signature| kept(signature)).collect();
    if signatures.is_empty() {
        return Ok(());
    }
    let kind = Kind::config_map();
    let mut tries = 0;
    loop {
        tries += 1;
        let live = objects.get(&kind, MANAGED_NAMESPACE, NAME).await?;
        let Some(next) = with(live.as_ref(), digest, &signatures, history) else { return Ok(()) };
        let written = match live {
            Some(_) => objects.replace(&kind, MANAGED_NAMESPACE, NAME, &next).await,
            None => objects.create(&kind, MANAGED_NAMESPACE, &next).await,
        };
        match written {
            Err(error) if tries < TRIES && (error.is_conflict() || error.is_already_exists()) => {}
            written => return written.map(drop),
        }
    }
}

/// The form in which a signature is kept; `None` if it is too large for that.
fn kept(signature: &[u8]) -> Option<Vec<u8>> {
    let found = canonical(signature).filter(|canonical| canonical.len() <= MAX_SIGNATURE);
    if found.is_none() {
        let bytes = signature.len();
        tracing::warn!(bytes, "a signature is not kept in the cluster: it is larger than {MAX_SIGNATURE} bytes");
    }
    found
}

/// The ConfigMap with these signatures; `None` if it has them all.
fn with(live: Option<&Value>, digest: &Digest, signatures: &[Vec<u8>], history: &BTreeSet<Digest>) -> Option<Value> {
    let mut map = live.cloned().unwrap_or_else(
        || json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": NAME, "namespace": MANAGED_NAMESPACE}}),
    );
    let labelled = map.pointer_mut("/metadata")?.as_object_mut()?.entry("labels").or_insert_with(|| json!({}));
    let label = labelled.as_object_mut()?.insert(SIGNATURES_LABEL.to_owned(), json!(""));
    let data = map.as_object_mut()?.entry("binaryData").or_insert_with(|| json!({})).as_object_mut()?;
    let known: BTreeSet<&str> = data.values().filter_map(Value::as_str).collect();
    let new: Vec<String> = signatures.iter().map(|bytes| STANDARD.encode(bytes)).collect();
    let new: Vec<String> = new.into_iter().filter(|text| !known.contains(text.as_str())).collect();
    if new.is_empty() && label.is_some() {
        return None;
    }
    let prefix = digest.config_map_prefix();
    for text in new {
        let free = (0..=data.len()).map(|number| format!("{prefix}-{number}")).find(|key| !data.contains_key(key));
        data.extend(free.map(|key| (key, Value::from(text))));
    }
    limit(data, &prefix, history);
    Some(map)
}

/// Removes the signatures of the digests that count least, if there are too many or they take too much: first those that the
/// cluster has never run.
fn limit(data: &mut Map<String, Value>, newest: &str, history: &BTreeSet<Digest>) {
    let of = |key: &str| key.rsplit_once('-').map_or(key, |(prefix, _)| prefix).to_owned();
    let history: BTreeSet<String> = history.iter().map(Digest::config_map_prefix).collect();
    let mut sizes: BTreeMap<String, usize> = BTreeMap::new();
    for (key, value) in &*data {
        *sizes.entry(of(key)).or_default() += key.len() + value.as_str().map_or(0, str::len);
    }
    let mut ranked: Vec<(String, usize)> = sizes.into_iter().collect();
    ranked.sort_by_key(|(prefix, _)| (prefix != newest, !history.contains(prefix)));
    let mut total = 0;
    let fitting = ranked.into_iter().take(MAX_DIGESTS).take_while(|(prefix, size)| {
        total += size;
        prefix == newest || total <= MAX_BYTES
    });
    let kept: BTreeSet<String> = fitting.map(|(prefix, _)| prefix).collect();
    data.retain(|key, _| kept.contains(&of(key)));
}

#[cfg(test)]
mod tests;
