//! What an API server does with the writes of the controller: merge patches, refused where they are based on another version. A
//! field that the controller does not write is an error.

use anyhow::{Context, bail};
use cvo::testing::api::machine_config::MachineConfigPool;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Map, Value};

/// What has come of a patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The object has been written since.
    Refused,
    /// The object was like that already.
    Same,
    Changed,
}

pub fn patch_node(node: &mut Node, patch: &Value) -> anyhow::Result<Outcome> {
    let Some(mut changed) = patch_metadata(&mut node.metadata, patch)? else { return Ok(Outcome::Refused) };
    let spec = node.spec.get_or_insert_default();
    for (field, value) in fields(patch, "spec") {
        changed |= match field.as_str() {
            "unschedulable" => set(&mut spec.unschedulable, value.as_bool().filter(|it| *it)),
            "taints" => {
                let taints: Vec<_> = serde_json::from_value(value.clone())?;
                set(&mut spec.taints, Some(taints).filter(|taints| !taints.is_empty()))
            }
            _ => bail!("spec.{field} of a Node is written"),
        };
    }
    Ok(if changed { Outcome::Changed } else { Outcome::Same })
}

pub fn patch_pool(pool: &mut MachineConfigPool, patch: &Value) -> anyhow::Result<Outcome> {
    let Some(mut changed) = patch_metadata(&mut pool.metadata, patch)? else { return Ok(Outcome::Refused) };
    for (field, value) in fields(patch, "spec") {
        changed |= match field.as_str() {
            "configuration" => set(&mut pool.spec.configuration, serde_json::from_value(value.clone())?),
            _ => bail!("spec.{field} of a MachineConfigPool is written"),
        };
    }
    Ok(if changed { Outcome::Changed } else { Outcome::Same })
}

fn fields<'a>(patch: &'a Value, part: &str) -> impl Iterator<Item = (&'a String, &'a Value)> {
    patch.get(part).and_then(Value::as_object).into_iter().flat_map(Map::iter)
}

/// Whether anything changes; `None` if the patch is based on another version.
fn patch_metadata(metadata: &mut ObjectMeta, patch: &Value) -> anyhow::Result<Option<bool>> {
    if let Some(part) =
        patch.as_object().and_then(|parts| parts.keys().find(|part| !["metadata", "spec"].contains(&part.as_str())))
    {
        bail!("{part} is written");
    }
    let version = patch.pointer("/metadata/resourceVersion");
    if version.is_some_and(|version| version.as_str() != metadata.resource_version.as_deref()) {
        return Ok(None);
    }
    let mut changed = false;
    for (field, value) in fields(patch, "metadata").filter(|(field, _)| *field != "resourceVersion") {
        if field != "annotations" {
            bail!("metadata.{field} is written");
        }
        let annotations = metadata.annotations.get_or_insert_default();
        for (key, value) in value.as_object().context("annotations are no map")? {
            changed |= match value.as_str() {
                Some(text) => annotations.insert(key.clone(), text.to_owned()).as_deref() != Some(text),
                None => annotations.remove(key).is_some(),
            };
        }
    }
    Ok(Some(changed))
}

fn set<T: PartialEq>(place: &mut T, value: T) -> bool {
    let changed = *place != value;
    *place = value;
    changed
}
