//! `cvo ack`: the gates that the release sets before the next minor version, and their acknowledgement by an administrator.

use super::request::{Output, RequestArgs};
use crate::cli::exit::Exit;
use crate::cli::output::{print, remark};
use crate::cli::reach;
use crate::cluster::{ApiError, Clients};
use crate::cluster_version::updates::upgradeable;
use crate::cluster_version::updates::upgradeable::Gate;
use crate::object::MANAGED_NAMESPACE;
use crate::object::read::Read;
use anyhow::bail;
use clap::Args;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::json;
use std::collections::BTreeMap;

const GATES: &str = "admin-gates";
const ACKS: &str = "admin-acks";
const CONFIGURATION: &str = "openshift-config";

/// Show what the release wants to be acknowledged before the next minor version, or acknowledge it
///
/// A release can ask administrators to have done something before an update to the next minor version, such as to replace an API that
/// goes away. Read the text of a gate, do what it says, and then acknowledge it by its name.
#[derive(Args, Debug)]
pub(crate) struct AckArgs {
    /// Names of gates to acknowledge
    #[arg(value_name = "GATE")]
    pub gates: Vec<String>,
    #[command(flatten)]
    pub request: RequestArgs,
}

struct Maps {
    server: String,
    gates: Api<ConfigMap>,
    acks: Api<ConfigMap>,
}

impl Maps {
    fn explained(&self, attempt: &str, error: kube::Error) -> anyhow::Error {
        reach::explain(&self.server, ApiError::of(attempt, error))
    }

    async fn read(&self, api: &Api<ConfigMap>, name: &str) -> anyhow::Result<Read<BTreeMap<String, String>>> {
        let found =
            api.get_opt(name).await.map_err(|error| self.explained(&format!("read ConfigMap {name}"), error))?;
        Ok(found.map_or(Read::Absent, |map| Read::Value(map.data.unwrap_or_default())))
    }

    async fn acknowledge(&self, names: &[String], exists: bool) -> anyhow::Result<()> {
        let data: BTreeMap<String, String> = names.iter().map(|name| (name.clone(), "true".to_owned())).collect();
        let field_manager = Some("cvo".to_owned());
        let written = if exists {
            let params = PatchParams { field_manager, ..PatchParams::default() };
            self.acks.patch(ACKS, &params, &Patch::Merge(json!({"data": data}))).await
        } else {
            let metadata = ObjectMeta { name: Some(ACKS.to_owned()), ..ObjectMeta::default() };
            let map = ConfigMap { metadata, data: Some(data), ..ConfigMap::default() };
            self.acks.create(&PostParams { field_manager, ..PostParams::default() }, &map).await
        };
        written.map(|_| ()).map_err(|error| self.explained(&format!("change ConfigMap {CONFIGURATION}/{ACKS}"), error))
    }
}

pub(crate) async fn run(args: AckArgs) -> anyhow::Result<Exit> {
    let requested = args.request.read().await?;
    let status = requested.object.status.clone().unwrap_or_default();
    let clients = Clients::connect(args.request.kubeconfig.as_deref()).await?;
    let maps = Maps {
        server: clients.server(),
        gates: Api::namespaced(clients.call.clone(), MANAGED_NAMESPACE),
        acks: Api::namespaced(clients.call.clone(), CONFIGURATION),
    };
    let (given, acks) = (maps.read(&maps.gates, GATES).await?, maps.read(&maps.acks, ACKS).await?);
    let gates = upgradeable::gates(&status.desired.version, &given, &acks).map_err(anyhow::Error::msg)?;
    if args.gates.is_empty() {
        show(&gates, args.request.output)?;
        let open = gates.iter().any(|gate| !gate.acknowledged);
        return Ok(if open { Exit::Found } else { Exit::Success });
    }
    check(&gates, &args.gates, &status.desired.version)?;
    let is_open = |name: &&String| gates.iter().any(|gate| gate.name == **name && !gate.acknowledged);
    let (open, done): (Vec<&String>, Vec<&String>) = args.gates.iter().partition(is_open);
    for name in done {
        remark(&format!("{name} is acknowledged already"));
    }
    if !open.is_empty() {
        let open: Vec<String> = open.into_iter().cloned().collect();
        maps.acknowledge(&open, !matches!(acks, Read::Absent)).await?;
    }
    let (given, acks) = (maps.read(&maps.gates, GATES).await?, maps.read(&maps.acks, ACKS).await?);
    show(
        &upgradeable::gates(&status.desired.version, &given, &acks).map_err(anyhow::Error::msg)?,
        args.request.output,
    )?;
    Ok(Exit::Success)
}

/// Fails if one of the names is that of no gate, or of one that no acknowledgement opens.
fn check(gates: &[Gate], names: &[String], version: &str) -> anyhow::Result<()> {
    for name in names {
        let Some(gate) = gates.iter().find(|gate| gate.name == *name) else {
            let known: Vec<&str> = gates.iter().map(|gate| gate.name.as_str()).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            bail!("{name:?} is no gate of {version}: there are {known}");
        };
        if let Some(problem) = &gate.invalid {
            bail!("{problem}: no acknowledgement opens it, the release has to be corrected");
        }
    }
    Ok(())
}

fn show(gates: &[Gate], output: Output) -> anyhow::Result<()> {
    match output {
        Output::Json => print(&format!("{:#}\n", json!({"schema": 1, "gates": gates}))),
        Output::Text if gates.is_empty() => print("The release asks for no acknowledgement\n"),
        Output::Text => print(&gates.iter().map(line).collect::<String>()),
    }
}

fn line(gate: &Gate) -> String {
    let (state, text) = match &gate.invalid {
        Some(problem) => ("invalid", problem),
        None if gate.acknowledged => ("acknowledged", &gate.text),
        None => ("open", &gate.text),
    };
    format!("{} ({state}): {text}\n", gate.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gate_that_nobody_can_pass_is_shown_as_such_and_not_acknowledged() {
        let gate = |name: &str, invalid: Option<&str>| Gate {
            name: name.to_owned(),
            text: "Old APIs go away.".to_owned(),
            acknowledged: false,
            invalid: invalid.map(str::to_owned),
        };
        let gates = [gate("ack-4.1-apis", None), gate("ack-4.1", Some("its key is malformed"))];
        let lines: String = gates.iter().map(line).collect();
        assert_eq!(lines, "ack-4.1-apis (open): Old APIs go away.\nack-4.1 (invalid): its key is malformed\n");
        let checked = |name: &str| check(&gates, &[name.to_owned()], "4.1.0").map_err(|error| error.to_string());
        assert_eq!(checked("ack-4.1-apis"), Ok(()));
        assert!(checked("ack-4.1").unwrap_err().starts_with("its key is malformed: no acknowledgement opens it"));
        assert!(checked("ack-4.1-x").unwrap_err().ends_with("there are ack-4.1-apis, ack-4.1"));
    }
}
