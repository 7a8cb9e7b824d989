//! Catalogs of operators for tests: their content, and images of them in a registry.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::Path;

use anyhow::Context;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::json;
use sha2::{Digest, Sha256};

/// A catalog with one package, whose versions each replace the one before.
pub fn catalog(package: &str, versions: &[&str]) -> String {
    let name = |version: &str| format!("{package}.v{version}");
    let entry = |(number, version): (usize, &&str)| {
        let replaced = number.checked_sub(1).and_then(|before| versions.get(before)).map(|version| name(version));
        match replaced {
            Some(replaced) => json!({"name": name(version), "replaces": replaced}),
            None => json!({"name": name(version)}),
        }
    };
    let entries: Vec<_> = versions.iter().enumerate().map(entry).collect();
    let mut blobs = vec![
        json!({"schema": "olm.package", "name": package, "defaultChannel": "stable"}),
        json!({"schema": "olm.channel", "package": package, "name": "stable", "entries": entries}),
    ];
    for version in versions {
        let property = json!({"type": "olm.package", "value": {"packageName": package, "version": version}});
        let metadata = json!({"type": "olm.csv.metadata", "value": {"displayName": package}});
        blobs.push(json!({"schema": "olm.bundle", "package": package, "name": name(version),
            "image": format!("registry.invalid/{package}:{version}"), "properties": [property, metadata]}));
    }
    blobs.into_iter().map(|blob| blob.to_string()).collect::<Vec<_>>().join("\n")
}

/// The files of a catalog that `lab catalog` wrote, a folder for each package, by their paths in an image.
pub fn files_of(folder: &Path) -> anyhow::Result<Vec<(String, Vec<u8>)>> {
    let mut found = Vec::new();
    for package in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        for file in fs::read_dir(package?.path())? {
            let path = file?.path();
            let bytes = fs::read(&path).with_context(|| path.display().to_string())?;
            let inside = path.strip_prefix(folder)?.to_string_lossy().into_owned();
            found.push((format!("configs/{inside}"), bytes));
        }
    }
    found.sort();
    Ok(found)
}

fn digest(bytes: &[u8]) -> String {
    format!("sha256:{}", hex::encode(Sha256::digest(bytes)))
}

/// A file or a folder of an image.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    name: &'a str,
    mode: u32,
    /// None for a folder.
    content: Option<&'a [u8]>,
}

impl<'a> Entry<'a> {
    pub fn file(name: &'a str, mode: u32, content: &'a [u8]) -> Entry<'a> {
        Entry { name, mode, content: Some(content) }
    }

    pub fn folder(name: &'a str, mode: u32) -> Entry<'a> {
        Entry { name, mode, content: None }
    }
}

/// Pushes an image (`repository:tag`) with these files and labels to a registry without TLS, and returns its digest.
pub async fn push(
    registry: &str,
    image: &str,
    files: &[(&str, &[u8])],
    labels: &[(&str, &str)],
) -> anyhow::Result<String> {
    let entries: Vec<Entry<'_>> = files.iter().map(|(name, content)| Entry::file(name, 0o644, content)).collect();
    push_entries(registry, image, &entries, labels).await
}

/// The same with programs and folders.
pub async fn push_entries(
    registry: &str,
    image: &str,
    entries: &[Entry<'_>],
    labels: &[(&str, &str)],
) -> anyhow::Result<String> {
    let (repository, tag) = image.rsplit_once(':').with_context(|| format!("{image} has no tag"))?;
    let archive = archive(entries)?;
    let layer = compressed(&archive)?;
    let labels: BTreeMap<&str, &str> = labels.iter().copied().collect();
    let config = json!({"architecture": "amd64", "os": "linux", "config": {"Labels": labels},
        "rootfs": {"type": "layers", "diff_ids": [digest(&archive)]}});
    let config = config.to_string().into_bytes();
    let part = |kind: &str, bytes: &[u8]| json!({"mediaType": format!("application/vnd.oci.image.{kind}"), "digest": digest(bytes), "size": bytes.len()});
    let kind = "application/vnd.oci.image.manifest.v1+json";
    let manifest = json!({"schemaVersion": 2, "mediaType": kind, "config": part("config.v1+json", &config),
        "layers": [part("layer.v1.tar+gzip", &layer)]});
    let (http, manifest) = (reqwest::Client::new(), manifest.to_string());
    for blob in [layer, config] {
        let begun = http.post(format!("http://{registry}/v2/{repository}/blobs/uploads/")).send().await?;
        let place = begun.headers().get("location").context("no place to upload to")?.to_str()?;
        let place = if place.starts_with('/') { format!("http://{registry}{place}") } else { place.to_owned() };
        http.put(place).query(&[("digest", digest(&blob))]).body(blob).send().await?.error_for_status()?;
    }
    let put = http.put(format!("http://{registry}/v2/{repository}/manifests/{tag}"));
    put.header("Content-Type", kind).body(manifest.clone()).send().await?.error_for_status()?;
    Ok(digest(manifest.as_bytes()))
}

fn compressed(archive: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(archive)?;
    packed.finish()
}

fn archive(entries: &[Entry<'_>]) -> std::io::Result<Vec<u8>> {
    let mut archive = tar::Builder::new(Vec::new());
    for Entry { name, mode, content } in entries {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(if content.is_some() { tar::EntryType::Regular } else { tar::EntryType::Directory });
        header.set_size(content.unwrap_or_default().len() as u64);
        header.set_mode(*mode);
        archive.append_data(&mut header, name, content.unwrap_or_default())?;
    }
    archive.into_inner()
}
