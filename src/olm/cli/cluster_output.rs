//! The output of commands that read a cluster.

use clap::ValueEnum;
use serde::Serialize;
use serde_json::Value;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ClusterOutput {
    /// For people
    Text,
    /// For programs: one object, `schema` 1
    Json,
    /// The same as YAML
    Yaml,
}

/// What programs read.
pub(super) fn written(output: ClusterOutput, value: &Value) -> anyhow::Result<String> {
    Ok(match output {
        ClusterOutput::Yaml => serde_yaml::to_string(value)?,
        ClusterOutput::Json | ClusterOutput::Text => format!("{value:#}\n"),
    })
}

/// A word as the API spells it; empty for anything else.
pub(super) fn word(value: &impl Serialize) -> String {
    let value = serde_json::to_value(value).ok();
    value.and_then(|value| value.as_str().map(ToOwned::to_owned)).unwrap_or_default()
}
