//! `cvo doctor`: what in a cluster would keep an update from starting or ending. Only reads.

use super::exit::Exit;
use super::layout::{Colour, Page, line, page, paragraph};
use super::output::print;
use super::reach;
use super::status::{Concern, State, View};
use crate::cluster::access::{self, Attributes};
use crate::cluster::{ApiError, Clients};
use crate::cluster_version::cli::request::Source;
use crate::cluster_version::cli::request::{Output, RequestArgs};
use crate::cluster_version::health::{daemon, troubles};
use crate::cluster_version::status::conditions::RELEASE_ACCEPTED;
use crate::cluster_version::work::{attempts, health, silence};
use crate::diagnosis::Trouble;
use crate::diagnosis::parts::{Deployment, Parts};
use crate::diagnosis::refusals;
use crate::object::condition::ConditionStatus;
use clap::Args;
use jiff::Timestamp;
use kube::Client;
use serde_json::{Value, json};

/// Look for what would keep an update from starting or ending
///
/// Looks at the daemon and its rights, the ClusterVersion, operators, pools, nodes and the room on them, clocks, images that cannot be
/// pulled, PodDisruptionBudgets that never allow a pod to leave, webhooks behind which nobody answers, certificates that end, and kinds that
/// are not served. Tries what the daemon writes (dry run, as the daemon where that is allowed), so that the API server itself says who
/// refuses it. Each finding has its cause and what to do. Changes nothing. What one release would meet in this cluster `cvo plan` says, with
/// the same checks.
#[derive(Args, Debug)]
pub(crate) struct DoctorArgs {
    #[command(flatten)]
    pub request: RequestArgs,
}

pub(crate) async fn run(args: DoctorArgs) -> anyhow::Result<Exit> {
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
    found.extend(troubles(&read(&clients, &args.request.source, &state, &mut unknown).await));
    match args.request.output {
        Output::Json => print(&format!("{:#}\n", json!({"schema": 1, "findings": found, "unknown": unknown})))?,
        Output::Text => print(&text(&found, &unknown, &page()))?,
    }
    Ok(exit(&found, &unknown))
}

fn exit(found: &[Trouble], unknown: &[String]) -> Exit {
    match (found.is_empty(), unknown.is_empty()) {
        (false, _) => Exit::Found,
        (true, false) => Exit::Incomplete,
        (true, true) => Exit::Success,
    }
}

/// What `cvo status` shows as trouble.
pub(super) fn of_status(view: &View) -> Vec<Trouble> {
    // A release that is being retrieved or checked is no trouble.
    let under_way =
        |concern: &&Concern| concern.type_ == RELEASE_ACCEPTED && concern.status == ConditionStatus::Unknown;
    let concerns = view.concerns.iter().filter(|concern| !under_way(concern)).map(|concern| Trouble {
        object: format!("clusterversion: {}{}", concern.type_, concern.status_text()),
        message: concern.message.clone(),
        next_step: concern.next_step.clone(),
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

/// What the checks need, and what the daemon writes, tried. What cannot be read is told.
pub(crate) async fn read(clients: &Clients, source: &Source, state: &State, unknown: &mut Vec<String>) -> Parts {
    let client = &clients.call;
    let mut of_deployment = Vec::new();
    let (deployment, known) = tokio::join!(
        silence::own_deployment(client, &source.namespace, &mut of_deployment),
        health::read(client, unknown)
    );
    unknown.append(&mut of_deployment);
    // Where nothing is installed that is told, and nothing else is missed.
    let installed = state.cluster_version.is_some() || deployment.found().is_some();
    let deployment = if installed { deployment } else { Deployment::Unknown };
    let denied = denied(client, &source.namespace, deployment.found(), unknown).await;
    let attempts = attempts::all(clients, &source.namespace, &source.name, deployment.found()).await;
    unknown.extend(refusals::unknown(&attempts));
    Parts { denied, deployment, attempts, silences: state.silences.clone(), ..known }
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
    let user = daemon::user(namespace, Some(deployment));
    let questions = NEEDED.into_iter().map(|(verb, group, resource, subresource, own)| {
        let (user, namespace) = (&user, if own { namespace } else { "" });
        async move {
            let what = Attributes { verb, group, resource, subresource, namespace, name: "" };
            let allowed = access::may_user(client, user, &what).await?;
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
    match (found.is_empty(), unknown.len()) {
        (false, _) => {}
        (true, 0) => {
            line(page, &mut out, "Nothing was found that would keep an update from starting or ending", Colour::Good);
        }
        (true, n) => {
            let text = format!("Nothing was found in what could be read; what is not known ({n}):");
            line(page, &mut out, &text, Colour::Busy);
        }
    }
    for remark in unknown {
        paragraph(page, &mut out, "", remark, Colour::Faint);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_was_found_is_not_the_same_as_nothing_that_could_be_read() {
        let page = Page { width: usize::MAX, colours: false, now: Timestamp::UNIX_EPOCH };
        let trouble = || Trouble { object: "node a".into(), message: "it is full".into(), next_step: "Add one".into() };
        let unknown = ["Pods cannot be listed: forbidden".to_owned()];
        let all_is_well = "Nothing was found that would keep an update from starting or ending\n";
        let said =
            "Nothing was found in what could be read; what is not known (1):\nPods cannot be listed: forbidden\n";
        let found = "node a\n  it is full\n  \u{2192} Add one\n";
        for (troubles, unknown, expected, number, words) in [
            (vec![], &[][..], Exit::Success, 0, all_is_well.to_owned()),
            (vec![], &unknown[..], Exit::Incomplete, 4, said.to_owned()),
            (vec![trouble()], &[][..], Exit::Found, 3, found.to_owned()),
            (vec![trouble()], &unknown[..], Exit::Found, 3, format!("{found}{}\n", unknown[0])),
        ] {
            let code = exit(&troubles, unknown);
            assert_eq!((code, code.number()), (expected, number));
            assert_eq!(text(&troubles, unknown, &page), words);
        }
    }
}
