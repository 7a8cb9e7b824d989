//! Who takes no part although the release was loaded with it: capabilities and overrides, as the engine decides
//! (payload-and-apply §2.7-§2.9).

use super::{Found, Sight};
use crate::payload::{ApplyFilter, Manifest, Payload, filter, takes_part};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Why a manifest takes no part when it would be its turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hiding {
    pub by_override: bool,
    pub reason: String,
}

/// By position in the payload's manifests.
pub fn hidden(payload: &Payload, by: &ApplyFilter) -> Vec<Option<Hiding>> {
    let hiding = |manifest: &Arc<Manifest>| {
        let reason = takes_part(manifest, by).err()?;
        Some(Hiding { by_override: filter::overridden(manifest, &by.overrides), reason })
    };
    payload.manifests.iter().map(hiding).collect()
}

/// What a ClusterVersion owns of what was found, as manifests of the release it came from: their annotations are those of
/// the objects, which the daemon has put there. For what needs the release before where that is not at hand.
pub fn managed(found: &[Found], manifests: &[Arc<Manifest>]) -> Vec<Arc<Manifest>> {
    let owned = |live: &Value| {
        let owners = live.pointer("/metadata/ownerReferences").and_then(Value::as_array).into_iter().flatten();
        owners.into_iter().any(|owner| owner.get("kind").and_then(Value::as_str) == Some("ClusterVersion"))
    };
    let as_manifest = |(found, manifest): (&Found, &Arc<Manifest>)| match &found.sight {
        Sight::There(live) if owned(live) => {
            Some(Arc::new(Manifest { annotations: annotations(live), ..Manifest::clone(manifest) }))
        }
        _ => None,
    };
    found.iter().zip(manifests).filter_map(as_manifest).collect()
}

fn annotations(live: &Value) -> BTreeMap<String, String> {
    let all = live.pointer("/metadata/annotations").and_then(Value::as_object).into_iter().flatten();
    all.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
}
