//! The parts of a configuration that this project acts upon, and the others as JSON.

use super::contents::{self, ContentsError};
use serde::Deserialize;
use serde_json::{Map, Value};

/// A configuration of version 3.5.0.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Config {
    /// `version`, and what matters only when a machine is first booted.
    pub ignition: Map<String, Value>,
    pub storage: Storage,
    pub systemd: Systemd,
    pub passwd: Passwd,
    pub kernel_arguments: Map<String, Value>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Storage {
    pub files: Vec<File>,
    pub directories: Vec<Directory>,
    pub links: Vec<Link>,
    /// `disks`, `filesystems`, `luks` and `raid`.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct File {
    pub path: String,
    pub contents: Resource,
    /// What is appended to the contents.
    pub append: Vec<Resource>,
    pub mode: Option<i64>,
    pub overwrite: Option<bool>,
    pub user: Owner,
    pub group: Owner,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Directory {
    pub path: String,
    pub mode: Option<i64>,
    pub overwrite: Option<bool>,
    pub user: Owner,
    pub group: Owner,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Link {
    pub path: String,
    pub target: Option<String>,
    /// A hard link.
    pub hard: Option<bool>,
    pub overwrite: Option<bool>,
    pub user: Owner,
    pub group: Owner,
}

/// A user or a group, by number or by name. Neither means root.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Owner {
    pub id: Option<i64>,
    pub name: Option<String>,
}

/// Where contents come from.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Resource {
    /// A `data:` URL. Without one, or with an empty one, the contents are empty.
    pub source: Option<String>,
    /// `gzip`, or empty.
    pub compression: Option<String>,
    pub verification: Verification,
    pub http_headers: Vec<Value>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Verification {
    /// `sha256-` or `sha512-` and the hexadecimal digest of the decompressed contents.
    pub hash: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Systemd {
    pub units: Vec<Unit>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Unit {
    pub name: String,
    /// Without a value the presets of the operating system decide.
    pub enabled: Option<bool>,
    pub mask: Option<bool>,
    pub contents: Option<String>,
    pub dropins: Vec<DropIn>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct DropIn {
    pub name: String,
    pub contents: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Passwd {
    pub users: Vec<User>,
    pub groups: Vec<Map<String, Value>>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct User {
    pub name: String,
    pub password_hash: Option<String>,
    pub ssh_authorized_keys: Vec<String>,
    /// What cannot be changed on a running node.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

impl File {
    /// Without a mode files have 0644.
    pub fn permissions(&self) -> u32 {
        self.mode.and_then(|mode| u32::try_from(mode).ok()).unwrap_or(0o644)
    }
}

impl Resource {
    /// The bytes, decoded, decompressed and compared with the hash, if there is one.
    pub fn decode(&self) -> Result<Vec<u8>, ContentsError> {
        let source = self.source.as_deref().unwrap_or_default();
        let bytes = contents::decode(source, self.compression.as_deref().unwrap_or_default())?;
        if let Some(hash) = &self.verification.hash {
            contents::verify(&bytes, hash)?;
        }
        Ok(bytes)
    }
}
