//! The output of commands that read a cluster.

use clap::ValueEnum;
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
