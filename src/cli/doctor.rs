//! `cvo doctor`: what in a cluster would keep an update from starting or ending. Only reads.

use super::layout::{Colour, Page, line, page, paragraph};
use super::output::print;
use super::reach;
use super::request::{Output, RequestArgs};
use super::status::{State, View};
use crate::api::OWN_DEPLOYMENT;
use crate::cluster::{ApiError, Clients, Kind, Objects, access};
use crate::plan::{Parts, Trouble, troubles};
use crate::work::health;
use clap::Args;
use jiff::Timestamp;
use kube::Client;
use serde_json::{Value, json};
use std::process::ExitCode;
use std::sync::Arc;

/// Look for what would keep an update from starting or ending
///
/// Looks at the daemon and its rights, the ClusterVersion, operators, pools, nodes and the room on them, clocks, images that cannot be
/// pulled, PodDisruptionBudgets that never allow a pod to leave, webhooks behind which nobody answers, certificates that end, and kinds that
/// are not served. Each finding has its cause and what to do. Changes nothing. What one release would meet in this cluster `cvo plan` says,
/// with the same checks.
///
/// Exit code 0: nothing was found; 1: the cluster cannot be read; 2: wrong usage; 3: something was found.
#[derive(Args, Debug)]
pub(crate) struct DoctorArgs {
    #[command(flatten)]
    pub request: RequestArgs,
}

/// Exit code if something was found.
const FOUND: u8 = 3;

pub(crate) async fn run(args: DoctorArgs) -> anyhow::Result<ExitCode> {
    let clients = Clients::connect(args.request.kubeconfig.as_deref()).await?;
    let state = State::gather(&clients.call, &args.request.source).await;
    let state = state.map_err(|error| reach::explain(&clients.server(), error))?;
    let mut unknown = state.remarks.clone();
    let view = View::of(&state, Timestamp::now());
    let mut found = of_status(&view);
    if state.cluster_version.is_none() {
        found.push(Trouble {
            object: format!("clusterversion {}", args.request.source.name),
            message: "it does not exist".to_owned(),
            next_step: "Install the daemon: cvo render writes what has to be applied".to_owned(),
        });
    }
    found.extend(troubles(&read(&clients, &args.request.source.namespace, &mut unknown).await));
    match args.request.output {
        Output::Json => print(&format!("{:#}\n", json!({"schema": 1, "findings": found, "unknown": unknown})))?,
        Output::Text => print(&text(&found, &unknown, &page()))?,
    }
    Ok(if found.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(FOUND) })
}

/// What `cvo status` shows as trouble.
fn of_status(view: &View) -> Vec<Trouble> {
    let concerns = view.concerns.iter().map(|concern| Trouble {
        object: format!("clusterversion: {}{}", concern.type_, concern.status_text()),
        message: concern.message.clone(),
        next_step: concern.next_step.to_owned(),
    });
    let operators = view.operators.iter().map(|operator| Trouble {
        object: format!("clusteroperator {}", operator.name),
        message: format!("{}: {} {}", operator.state, operator.reason, operator.message),
        next_step: operator.next_step.clone(),
    });
    let pools = view.pools.iter().filter_map(|pool| {
        let blocked = pool.blocked.as_ref()?;
        let (object, message) = (format!("machineconfigpool {}", pool.name), blocked.message.clone());
        Some(Trouble { object, message, next_step: blocked.next_step.to_owned() })
    });
    let quorum = view.pools.iter().filter_map(|pool| {
        let message = pool.quorum_risk.clone()?;
        let next_step = "Change spec.maxUnavailable of the pool as the message says".to_owned();
        Some(Trouble { object: format!("machineconfigpool {}", pool.name), message, next_step })
    });
    concerns.chain(operators).chain(pools).chain(quorum).collect()
}

/// What the checks need. `namespace`: of the daemon. What cannot be read is told.
pub(crate) async fn read(clients: &Clients, namespace: &str, unknown: &mut Vec<String>) -> Parts {
    let client = &clients.call;
    let objects = Objects::new(client.clone(), Arc::new(|| false));
    let deployments = Kind::known("apps", "v1", "Deployment", "deployments", true);
    let (deployment, known) =
        tokio::join!(objects.get(&deployments, namespace, OWN_DEPLOYMENT), health::read(client, unknown));
    let deployment = deployment.map_err(|error| unknown.push(error.to_string())).ok().flatten();
    let denied = denied(client, namespace, deployment.as_ref(), unknown).await;
    Parts { denied, deployment, ..known }
}

/// What the daemon does whatever is in the release: verb, group, resource, subresource, and whether in its namespace only.
const NEEDED: [(&str, &str, &str, &str, bool); 9] = [
    ("watch", "config.openshift.io", "clusterversions", "", false),
    ("update", "config.openshift.io", "clusterversions", "status", false),
    ("watch", "config.openshift.io", "clusteroperators", "", false),
    ("update", "coordination.k8s.io", "leases", "", true),
    ("update", "", "configmaps", "", true),
    ("create", "batch", "jobs", "", true),
    ("list", "", "pods", "", true),
    ("create", "", "events", "", true),
    ("list", "", "namespaces", "", false),
];

/// What of it the daemon may not do.
async fn denied(
    client: &Client,
    namespace: &str,
    deployment: Option<&Value>,
    unknown: &mut Vec<String>,
) -> Vec<String> {
    let Some(deployment) = deployment else { return Vec::new() };
    let account =
        deployment.pointer("/spec/template/spec/serviceAccountName").and_then(Value::as_str).unwrap_or("default");
    let user = format!("system:serviceaccount:{namespace}:{account}");
    let questions = NEEDED.into_iter().map(|(verb, group, resource, subresource, own)| {
        let (user, place) = (&user, if own { namespace } else { "" });
        async move {
            let allowed = access::may_user(client, user, verb, (group, resource, subresource), place).await?;
            let slash = if subresource.is_empty() { "" } else { "/" };
            let dot = if group.is_empty() { "" } else { "." };
            Ok::<_, ApiError>((!allowed).then(|| format!("{verb} {resource}{dot}{group}{slash}{subresource}")))
        }
    });
    match futures::future::try_join_all(questions).await {
        Ok(answers) => answers.into_iter().flatten().collect(),
        Err(error) => {
            unknown.push(format!("Whether the daemon has the rights that it needs: {error}"));
            Vec::new()
        }
    }
}

fn text(found: &[Trouble], unknown: &[String], page: &Page) -> String {
    let mut out = String::new();
    for trouble in found {
        line(page, &mut out, &trouble.object, Colour::Bad);
        for part in trouble.message.lines().filter(|part| !part.trim().is_empty()) {
            paragraph(page, &mut out, "  ", part, Colour::Plain);
        }
        paragraph(page, &mut out, "  ", &format!("→ {}", trouble.next_step), Colour::Strong);
    }
    if found.is_empty() {
        line(page, &mut out, "Nothing was found that would keep an update from starting or ending", Colour::Good);
    }
    for remark in unknown {
        paragraph(page, &mut out, "", remark, Colour::Faint);
    }
    out
}
