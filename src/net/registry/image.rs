//! Builds config and manifest of an image, from scratch or on a base image. The same arguments always give the same bytes
//! and so the same digest.

use super::layer::{Layer, Packing, sha256};
use jiff::Timestamp;
use oci_client::manifest::{
    IMAGE_CONFIG_MEDIA_TYPE, IMAGE_DOCKER_LAYER_GZIP_MEDIA_TYPE, IMAGE_DOCKER_LAYER_TAR_MEDIA_TYPE,
    IMAGE_MANIFEST_MEDIA_TYPE, OCI_IMAGE_MEDIA_TYPE, OciDescriptor, OciImageManifest,
};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// An image cannot be built.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ImageError {
    #[error("the image config of {place} is unusable: {cause}")]
    Config { place: String, cause: String },
}

/// An image as a registry stores it, without the content of its layers.
#[derive(Clone, Debug)]
pub(crate) struct Image {
    /// `sha256:…` of `manifest_bytes`.
    pub digest: String,
    /// The digest of what was named: of the index that it was chosen from, if there is one.
    pub named: String,
    pub manifest: OciImageManifest,
    pub manifest_bytes: Vec<u8>,
    pub media_type: String,
    /// The config as it is stored. Unknown fields of a base image are kept.
    pub config: Value,
    pub config_bytes: Vec<u8>,
}

impl Image {
    /// A label from `config.Labels`.
    pub(crate) fn label(&self, key: &str) -> Option<&str> {
        self.config.pointer("/config/Labels")?.get(key)?.as_str()
    }
}

/// The configuration of an image without a base.
#[derive(Clone, Debug, Default)]
pub(crate) struct Start {
    pub entrypoint: Vec<String>,
    pub labels: BTreeMap<String, String>,
    /// `NAME=VALUE`.
    pub env: Vec<String>,
    /// A number; root without one.
    pub user: Option<u32>,
    /// As Go names it: `amd64`, `arm64`.
    pub architecture: String,
}

/// An image with these layers and no base, lowest layer first.
pub(crate) fn scratch(layers: &[Layer], start: &Start, created: Timestamp) -> Result<Image, ImageError> {
    let mut config = json!({
        "architecture": start.architecture,
        "os": "linux",
        "created": seconds(created),
        "config": { "Entrypoint": start.entrypoint, "Env": start.env, "Labels": start.labels, "WorkingDir": "/" },
        "rootfs": { "type": "layers", "diff_ids": layers.iter().map(|l| l.diff_id.clone()).collect::<Vec<_>>() },
        "history": layers.iter().map(|_| history(created, "files")).collect::<Vec<_>>(),
    });
    if let Some(run) = config.get_mut("config").and_then(Value::as_object_mut) {
        run.extend(start.user.map(|user| ("User".to_owned(), json!(user.to_string()))));
    }
    finish(config, OCI_IMAGE_MEDIA_TYPE, IMAGE_CONFIG_MEDIA_TYPE, layers.iter().map(|l| descriptor(l, false)).collect())
}

/// What an image has besides those of its base.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Top<'a> {
    pub layer: &'a Layer,
    /// What is in the layer, for the history of the image.
    pub content: &'a str,
    /// Instead of the labels of the base.
    pub labels: &'a BTreeMap<String, String>,
    /// Instead of the entry point and the command of the base, unless it is empty.
    pub entrypoint: &'a [String],
}

/// `base` with one more layer, these labels instead of its own, and this time of creation. Entry point, environment and
/// everything else stay those of the base.
pub(crate) fn append(
    base: &Image,
    layer: &Layer,
    labels: &BTreeMap<String, String>,
    created: Timestamp,
) -> Result<Image, ImageError> {
    on_top(base, &Top { layer, content: "release manifests", labels, entrypoint: &[] }, created)
}

/// The same with all that may be changed.
pub(crate) fn on_top(base: &Image, top: &Top<'_>, created: Timestamp) -> Result<Image, ImageError> {
    let Top { layer, content, labels, entrypoint } = *top;
    let wrong = |cause: &str| ImageError::Config { place: format!("base image {}", base.digest), cause: cause.into() };
    let mut config = base.config.clone();
    let top = config.as_object_mut().ok_or_else(|| wrong("it is not a JSON object"))?;
    top.insert("created".into(), json!(seconds(created)));
    let run = top.entry("config").or_insert_with(|| Value::Object(Map::new()));
    let run = run.as_object_mut().ok_or_else(|| wrong("\"config\" is not an object"))?;
    run.insert("Labels".into(), json!(labels));
    if !entrypoint.is_empty() {
        run.insert("Entrypoint".into(), json!(entrypoint));
        run.remove("Cmd");
    }
    let diff_ids = top.get_mut("rootfs").and_then(|r| r.get_mut("diff_ids")).and_then(Value::as_array_mut);
    let diff_ids = diff_ids.ok_or_else(|| wrong("\"rootfs.diff_ids\" is not a list"))?;
    if diff_ids.len() != base.manifest.layers.len() {
        return Err(wrong("it does not list as many layers as the manifest"));
    }
    diff_ids.push(json!(layer.diff_id));
    if let Some(list) = top.get_mut("history").and_then(Value::as_array_mut) {
        list.push(history(created, content));
    }
    let mut layers = base.manifest.layers.clone();
    layers.push(descriptor(layer, base.media_type == IMAGE_MANIFEST_MEDIA_TYPE));
    finish(config, &base.media_type, &base.manifest.config.media_type, layers)
}

fn finish(config: Value, media_type: &str, config_type: &str, layers: Vec<OciDescriptor>) -> Result<Image, ImageError> {
    let wrong = |e: serde_json::Error| ImageError::Config { place: "the new image".into(), cause: e.to_string() };
    let config_bytes = serde_json::to_vec(&config).map_err(wrong)?;
    let manifest = OciImageManifest {
        schema_version: 2,
        media_type: Some(media_type.into()),
        config: OciDescriptor {
            media_type: config_type.into(),
            digest: sha256(&config_bytes),
            size: size(&config_bytes),
            ..OciDescriptor::default()
        },
        layers,
        subject: None,
        artifact_type: None,
        annotations: None,
    };
    let manifest_bytes = serde_json::to_vec(&manifest).map_err(wrong)?;
    let digest = sha256(&manifest_bytes);
    Ok(Image {
        named: digest.clone(),
        digest,
        manifest,
        manifest_bytes,
        media_type: media_type.into(),
        config,
        config_bytes,
    })
}

/// Manifests in Docker's format must name Docker's layer types.
fn descriptor(layer: &Layer, docker: bool) -> OciDescriptor {
    let media_type = match (docker, layer.packing) {
        (false, packing) => packing.media_type(),
        (true, Packing::Gzip(_)) => IMAGE_DOCKER_LAYER_GZIP_MEDIA_TYPE,
        (true, Packing::Plain) => IMAGE_DOCKER_LAYER_TAR_MEDIA_TYPE,
    };
    OciDescriptor {
        media_type: media_type.into(),
        digest: layer.digest.clone(),
        size: i64::try_from(layer.bytes.len()).unwrap_or(i64::MAX),
        ..OciDescriptor::default()
    }
}

fn size(bytes: &[u8]) -> i64 {
    i64::try_from(bytes.len()).unwrap_or(i64::MAX)
}

fn history(created: Timestamp, content: &str) -> Value {
    json!({ "created": seconds(created), "created_by": format!("cvo: {content}") })
}

/// Whole seconds: `2026-01-02T03:04:05Z`, as image tools print it.
pub(crate) fn seconds(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

#[cfg(test)]
mod tests;
