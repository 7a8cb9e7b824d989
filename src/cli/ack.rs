//! `cvo ack`: the gates that the release sets before the next minor version, and their acknowledgement by an administrator.

use super::output::{print, remark};
use super::reach;
use super::request::{Output, RequestArgs};
use crate::api::MANAGED_NAMESPACE;
use crate::cluster::{ApiError, Clients};
use crate::updates::upgradeable::{self, Gate, Read};
use anyhow::bail;
use clap::Args;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::json;
use std::collections::BTreeMap;
use std::process::ExitCode;

const GATES: &str = "admin-gates";
const ACKS: &str = "admin-acks";
const CONFIGURATION: &str = "openshift-config";

/// Show what the release wants to be acknowledged before the next minor version, or acknowledge it
///
/// A release can ask administrators to have done something before an update to the next minor version, such as to replace an API that
/// goes away. Read the text of a gate, do what it says, and then acknowledge it by its name.
///
/// Exit code 0: nothing is open, or what was named is acknowledged; 1: failure; 2: wrong usage; 3: without names: gates are open.
#[derive(Args, Debug)]
pub(crate) struct AckArgs {
    /// Names of gates to acknowledge
    #[arg(value_name = "GATE")]
    pub gates: Vec<String>,
    #[command(flatten)]
    pub request: RequestArgs,
}

/// Exit code if gates are open.
const OPEN: u8 = 3;

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

pub(crate) async fn run(args: AckArgs) -> anyhow::Result<ExitCode> {
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
        return Ok(if open { ExitCode::from(OPEN) } else { ExitCode::SUCCESS });
    }
    for name in &args.gates {
        if gates.iter().all(|gate| gate.name != *name) {
            let known: Vec<&str> = gates.iter().map(|gate| gate.name.as_str()).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            bail!("{name:?} is no gate of {}: there are {known}", status.desired.version);
        }
    }
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
    Ok(ExitCode::SUCCESS)
}

fn show(gates: &[Gate], output: Output) -> anyhow::Result<()> {
    match output {
        Output::Json => print(&format!("{:#}\n", json!({"schema": 1, "gates": gates}))),
        Output::Text if gates.is_empty() => print("The release asks for no acknowledgement\n"),
        Output::Text => print(&gates.iter().map(line).collect::<String>()),
    }
}

fn line(gate: &Gate) -> String {
    let state = if gate.acknowledged { "acknowledged" } else { "open" };
    format!("{} ({state}): {}\n", gate.name, gate.text)
}
