//! Ignition configurations as MachineConfigs contain them: versions 2.0 to 2.2 and 3.0 to 3.5 are read as version 3.5.0,
//! validated, and merged as the Ignition specification says.
//!
//! A configuration is kept as JSON beside its typed form. A table of all fields of the specification ([`schema`]) says how
//! each is read and merged, also those that this project does not act upon.

mod contents;
mod merge;
mod model;
mod normalize;
mod schema;
mod validate;
mod version2;

pub use contents::{ContentsError, MAX_FILE_BYTES};
pub use model::{Config, Directory, DropIn, File, Link, Owner, Passwd, Resource, Storage, Systemd, Unit, User};

use serde::Deserialize;
use serde_json::{Map, Value, json};

/// Every configuration is converted to this version.
pub const VERSION: &str = "3.5.0";

/// A valid configuration in version 3.5.0. Fields that are not set, empty objects and empty lists are left out, so that
/// two configurations that mean the same in this respect are equal.
#[derive(Clone, Debug, PartialEq)]
pub struct Ignition {
    value: Value,
    config: Config,
}

/// A configuration, and what about it does not keep it from being used.
#[derive(Clone, Debug, PartialEq)]
pub struct Read {
    pub ignition: Ignition,
    /// Fields that the version of the configuration does not have. Like Ignition itself, reading leaves them out.
    pub warnings: Vec<String>,
}

/// Why a configuration is not accepted. Messages begin with the field, and never show contents of files.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IgnitionError {
    #[error("config is {found}, and an Ignition configuration is a JSON object; write one, or leave config out")]
    NotAnObject { found: &'static str },
    #[error(
        "ignition.version is {found}, and this program reads 2.0.0, 2.1.0, 2.2.0 and 3.0.0 to 3.5.0; \
         write the configuration in one of these versions"
    )]
    Version { found: String },
    #[error("{field} is {found} and has to be {expected}; correct its value")]
    Type { field: String, found: &'static str, expected: &'static str },
    #[error("{field} is missing; set it, or remove the entry")]
    Missing { field: String },
    #[error("{field} contains {key:?} twice; keep one of the entries")]
    Duplicate { field: String, key: String },
    #[error("{field} is the path {path:?}, {problem}")]
    Path { field: String, path: String, problem: String },
    #[error(
        "{field} is {mode} (0{mode:o}), and only 0 to 511 (0777) can be set, without setuid, setgid and sticky bit; \
         JSON has decimal numbers only, so that 420 means 0644"
    )]
    Mode { field: String, mode: i64 },
    #[error("{field} is {name:?}, {problem}")]
    Name { field: String, name: String, problem: &'static str },
    #[error("{field}: {problem}")]
    Invalid { field: String, problem: String },
    #[error("{field} {source}")]
    Contents { field: String, source: ContentsError },
    #[error("{field} cannot be converted from Ignition 2 to 3: {problem}")]
    Conversion { field: String, problem: &'static str },
}

impl Ignition {
    /// The configuration that sets nothing.
    pub fn empty() -> Self {
        let ignition = Map::from_iter([("version".to_owned(), Value::from(VERSION))]);
        let config = Config { ignition: ignition.clone(), ..Config::default() };
        Ignition { value: json!({"ignition": ignition}), config }
    }

    /// Reads `MachineConfigSpec.config`. Null and `{}` are the empty configuration.
    pub fn read(value: &Value) -> Result<Read, IgnitionError> {
        let fields = match value {
            Value::Null => return Ok(Read { ignition: Ignition::empty(), warnings: Vec::new() }),
            Value::Object(fields) => fields,
            other => return Err(IgnitionError::NotAnObject { found: kind(other) }),
        };
        if fields.is_empty() {
            return Ok(Read { ignition: Ignition::empty(), warnings: Vec::new() });
        }
        let found = value.pointer("/ignition/version").unwrap_or(&Value::Null);
        let (value, warnings) = match version(found)? {
            Version::Two => normalize::normalize(&version2::convert(fields)?, 0)?,
            Version::Three { minor } => normalize::normalize(value, minor)?,
        };
        let ignition = Ignition::of(value)?;
        validate::validate(&ignition.config)?;
        Ok(Read { ignition, warnings })
    }

    /// What this configuration and then the child say. Fails if they contradict each other, as by a file below a path that
    /// is itself a file.
    pub fn merge(&self, child: &Ignition) -> Result<Ignition, IgnitionError> {
        let merged = Ignition::of(merge::merge(&self.value, &child.value))?;
        validate::conflicts(&merged.config)?;
        Ok(merged)
    }

    /// Sets what a rendered configuration states and its inputs need not: a file that is there before is overwritten.
    pub fn overwriting(&self) -> Result<Ignition, IgnitionError> {
        let mut value = self.value.clone();
        let files = value.pointer_mut("/storage/files").and_then(Value::as_array_mut);
        for file in files.into_iter().flatten().filter_map(Value::as_object_mut) {
            if !file.contains_key("overwrite") {
                file.insert("overwrite".to_owned(), Value::Bool(true));
            }
            // Ignition refuses to overwrite a file without being told its contents. None are an empty file.
            if file.get("overwrite") == Some(&Value::Bool(true))
                && file.get("contents").is_none_or(|contents| contents.get("source").is_none())
            {
                file.insert("contents".to_owned(), json!({"source": ""}));
            }
        }
        Ignition::of(value)
    }

    /// All files of this configuration together have the size that a node can be asked to keep in memory.
    pub fn check_size(&self) -> Result<(), IgnitionError> {
        validate::contents(&self.config)
    }

    /// Nodes that run can be given all of it, as far as names say.
    pub fn check_names(&self) -> Result<(), IgnitionError> {
        validate::written(&self.config)
    }

    /// As JSON, for `MachineConfigSpec.config`.
    pub fn value(&self) -> &Value {
        &self.value
    }

    pub fn config(&self) -> &Config {
        &self.config
    }

    /// From JSON of the schema.
    fn of(value: Value) -> Result<Self, IgnitionError> {
        match Config::deserialize(&value) {
            Ok(config) => Ok(Ignition { value, config }),
            Err(error) => Err(IgnitionError::Invalid { field: "config".to_owned(), problem: error.to_string() }),
        }
    }
}

enum Version {
    Two,
    Three { minor: u64 },
}

fn version(found: &Value) -> Result<Version, IgnitionError> {
    let parsed = found.as_str().and_then(|text| semver::Version::parse(text).ok());
    match parsed {
        Some(version) if version == semver::Version::new(version.major, version.minor, 0) => {
            match (version.major, version.minor) {
                (2, 0..=2) => Ok(Version::Two),
                (3, minor @ 0..=5) => Ok(Version::Three { minor }),
                _ => Err(IgnitionError::Version { found: format!("{:?}", version.to_string()) }),
            }
        }
        _ => {
            let found = found.as_str().map_or_else(|| kind(found).to_owned(), |text| format!("{text:?}"));
            Err(IgnitionError::Version { found })
        }
    }
}

/// What a value is, in words for messages.
fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "not set",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests;
