//! `cvo doctor`: what in a cluster would keep an update from starting or ending. Only reads.

use super::layout::{Colour, Page, line, page, paragraph};
use super::output::print;
use super::reach;
use super::request::{Output, RequestArgs};
use super::status::{State, View};
use crate::api::OWN_DEPLOYMENT;
use crate::cluster::{ApiError, Clients, Kind, Objects, access};
use crate::plan::{Parts, Trouble, troubles};
use crate::work::health::{self, Known};
use clap::Args;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use kube::api::{Api, ListParams};
use kube::client::Body;
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
    let (definitions, deployment, pods, renewed, clocks) = tokio::join!(
        health::all(client, "apiextensions.k8s.io", "CustomResourceDefinition", "customresourcedefinitions"),
        objects.get(&deployments, namespace, OWN_DEPLOYMENT),
        pods(client),
        leases(client),
        clock(client),
    );
    let known = health::read(client, unknown).await;
    let deployment = deployment.map_err(|error| unknown.push(error.to_string())).ok().flatten();
    let denied = denied(client, namespace, deployment.as_ref(), unknown).await;
    let mut told = Known(unknown);
    Parts {
        denied,
        deployment,
        definitions: told.or_default("CustomResourceDefinitions", definitions),
        pods: told.or_default("pods", pods),
        renewed: told.or_default("leases of nodes", renewed),
        clocks: told.or_default("the clock of the API server", clocks.map(Some)),
        ..known
    }
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

/// All pods of the cluster, some hundred at a time.
async fn pods(client: &Client) -> kube::Result<Vec<Pod>> {
    let (api, mut params) = (Api::<Pod>::all(client.clone()), ListParams::default().limit(500));
    let mut pods = Vec::new();
    loop {
        let page = api.list(&params).await?;
        pods.extend(page.items);
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(pods),
        }
    }
}

async fn leases(client: &Client) -> kube::Result<Vec<(String, Timestamp)>> {
    let leases: Api<Lease> = Api::namespaced(client.clone(), "kube-node-lease");
    let renewed = |lease: Lease| Some((lease.metadata.name?, lease.spec?.renew_time?.0));
    Ok(leases.list(&ListParams::default()).await?.items.into_iter().filter_map(renewed).collect())
}

/// That of the API server, and that of this machine.
async fn clock(client: &Client) -> kube::Result<(Timestamp, Timestamp)> {
    let request = http::Request::get("/version").body(Body::empty()).map_err(kube::Error::HttpError)?;
    let response = client.send(request).await?;
    let date = response.headers().get(http::header::DATE).and_then(|value| value.to_str().ok());
    let server = date.and_then(|date| jiff::fmt::rfc2822::parse(date).ok()).map(|time| time.timestamp());
    let now = Timestamp::now();
    // A server that does not say it has no clock that could be compared.
    Ok((server.unwrap_or(now), now))
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
