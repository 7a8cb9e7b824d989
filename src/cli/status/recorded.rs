//! What `cvo collect` has written: a tar archive of JSON files, compressed with Zstandard.

use super::{Operators, State, of_lists};
use crate::cluster_version::api::ClusterVersion;
use crate::olm::cli::status::{Lists, What};
use anyhow::{Context, bail, ensure};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use ruzstd::decoding::StreamingDecoder;
use ruzstd::encoding::{CompressionLevel, compress};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Component, Path};

/// Of archives that this program writes and reads.
const SCHEMA: u32 = 1;
/// Most bytes of an archive's content: one that promises more is not read.
const LIMIT: u64 = 512 << 20;

/// What an archive is about.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Recorded {
    pub schema: u32,
    pub collected: Timestamp,
    /// URL of the API server.
    pub server: String,
    /// Name of the ClusterVersion, and namespace of the daemon.
    pub name: String,
    pub namespace: String,
    /// Version of the program that wrote it.
    pub cvo: String,
    /// What could not be read and why.
    pub unknown: Vec<String>,
}

/// The files of an archive by their names.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Archive {
    pub files: BTreeMap<String, Vec<u8>>,
}

impl Archive {
    const ABOUT: &str = "about.json";
    pub(crate) const VERSION: &str = "cluster-version.json";
    pub(crate) const OPERATORS: &str = "cluster-operators.json";
    pub(crate) const SILENCES: &str = "not-renewed.json";
    pub(crate) const RECORD: &str = "progress-record.json";
    pub(crate) const POOLS: &str = "machine-config-pools.json";
    pub(crate) const NODES: &str = "nodes.json";
    pub(crate) const DETAILS: &str = "details.json";

    pub(crate) fn new(about: &Recorded) -> serde_json::Result<Archive> {
        let mut archive = Archive::default();
        archive.put(Archive::ABOUT, &Recorded { schema: SCHEMA, ..about.clone() })?;
        Ok(archive)
    }

    pub(crate) fn put(&mut self, name: &str, content: &impl Serialize) -> serde_json::Result<()> {
        self.files.insert(name.to_owned(), serde_json::to_vec_pretty(content)?);
        Ok(())
    }

    /// As bytes of a file. `folder`: what it unpacks to.
    pub(crate) fn pack(&self, folder: &str) -> std::io::Result<Vec<u8>> {
        let mut tar = tar::Builder::new(Vec::new());
        for (name, bytes) in &self.files {
            let mut header = tar::Header::new_gnu();
            header.set_size(bytes.len() as u64);
            header.set_mode(0o644);
            tar.append_data(&mut header, format!("{folder}/{name}"), bytes.as_slice())?;
        }
        let tar = tar.into_inner()?;
        let mut packed = Vec::new();
        compress(tar.as_slice(), &mut packed, CompressionLevel::Fastest);
        Ok(packed)
    }

    pub(crate) fn read(file: &Path) -> anyhow::Result<Archive> {
        let cannot = || format!("cannot read {}: is it a file that `cvo collect` has written?", file.display());
        let opened = File::open(file).with_context(|| format!("cannot open {}", file.display()))?;
        let unpacked =
            StreamingDecoder::new(BufReader::new(opened)).map_err(std::io::Error::other).with_context(cannot)?;
        Archive::unpack(unpacked.take(LIMIT)).with_context(cannot)
    }

    fn unpack(tar: impl Read) -> std::io::Result<Archive> {
        let mut archive = Archive::default();
        for entry in tar::Archive::new(tar).entries()? {
            let mut entry = entry?;
            // All but the folder.
            let path = entry.path()?.into_owned();
            let name = path.components().skip(1).filter_map(|part| match part {
                Component::Normal(part) => part.to_str().map(str::to_owned),
                _ => None,
            });
            let name = name.collect::<Vec<String>>().join("/");
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes)?;
            archive.files.insert(name, bytes);
        }
        Ok(archive)
    }

    pub(crate) fn about(&self) -> anyhow::Result<Recorded> {
        let about: Value = self.get(Archive::ABOUT)?.with_context(|| format!("{} is missing", Archive::ABOUT))?;
        let schema = about.get("schema").and_then(Value::as_u64).unwrap_or_default();
        ensure!(
            schema == u64::from(SCHEMA),
            "it has schema {schema}, but this cvo reads only schema {SCHEMA}: use the cvo that wrote it"
        );
        serde_json::from_value(about).with_context(|| format!("{} in it", Archive::ABOUT))
    }

    fn get<T: DeserializeOwned>(&self, name: &str) -> anyhow::Result<Option<T>> {
        let Some(bytes) = self.files.get(name) else { return Ok(None) };
        serde_json::from_slice(bytes).map(Some).with_context(|| format!("{name} in it"))
    }
}

impl State {
    /// What `cvo collect` has written, and when.
    pub(crate) fn recorded(file: &Path) -> anyhow::Result<(State, Timestamp)> {
        let archive = Archive::read(file)?;
        State::of_archive(&archive).with_context(|| format!("cannot use {}", file.display()))
    }

    pub(crate) fn of_archive(archive: &Archive) -> anyhow::Result<(State, Timestamp)> {
        let about = archive.about()?;
        let mut state = State {
            // An older program wrote `null` where there is none.
            cluster_version: archive.get::<Option<ClusterVersion>>(Archive::VERSION)?.flatten(),
            operators: match archive.get(Archive::OPERATORS)? {
                Some(operators) => Operators::Value(operators),
                None => Operators::Failed("they are not in the file".to_owned()),
            },
            silences: archive.get(Archive::SILENCES)?.unwrap_or_default(),
            pools: archive.get(Archive::POOLS)?.unwrap_or_default(),
            nodes: archive.get(Archive::NODES)?.unwrap_or_default(),
            details: archive.get(Archive::DETAILS)?.unwrap_or_default(),
            installed: of_lists(installed(archive)?),
            remarks: about.unknown,
            ..State::default()
        };
        if let Some(record) = archive.get::<ConfigMap>(Archive::RECORD)? {
            state.take_record(&record);
        }
        if state.cluster_version.is_none() && state.pools.is_empty() {
            bail!("it has neither a ClusterVersion nor pools");
        }
        Ok((state, about.collected))
    }
}

/// What says where installed operators stand, of the kinds that are in the file.
fn installed(archive: &Archive) -> anyhow::Result<Lists> {
    let mut lists = Lists::new();
    for what in What::ALL {
        if let Some(list) = archive.get(&what.file())? {
            lists.insert(what, Ok(list));
        }
    }
    Ok(lists)
}

#[cfg(test)]
mod tests;
