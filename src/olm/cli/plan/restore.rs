//! `cvo olm plan --restore`: what it would take to go back to what an InstallPlan has installed.

use super::foretold::{contents, look, look_at, look_for_roles, subscribers, try_out};
use super::state::{State, read};
use super::{ClusterOutput, PlanArgs, PlanOutput, Restored, add_forecast, always, text, written};
use crate::cli::exit::Exit;
use crate::cli::layout;
use crate::cli::output::print;
use crate::olm::api::install_plan::{InstallPlan, StepStatus};
use crate::olm::bundle::CSV;
use crate::olm::forecast::restore::{self, Since};
use crate::olm::forecast::{Premise, steps};
use crate::version::parse_tolerant;
use anyhow::bail;
use serde_json::json;
use std::collections::BTreeMap;

pub(super) async fn run(plan: &str, args: &PlanArgs) -> anyhow::Result<Exit> {
    let output = match args.output {
        PlanOutput::Text => ClusterOutput::Text,
        PlanOutput::Json => ClusterOutput::Json,
        PlanOutput::Yaml => ClusterOutput::Yaml,
        PlanOutput::Dot => bail!("--restore has no output dot: use text, json or yaml"),
    };
    let state = read((&args.namespace, &args.from), None, &args.cluster).await?;
    let found = restored(plan, &state, args).await?;
    print(&match output {
        ClusterOutput::Text => text::restored(&found, &layout::page()),
        other => {
            let Restored { plan, csvs, since, forecast, steps, unknown } = &found;
            let mut told = json!({"plan": plan, "versions": csvs, "since": since, "steps": steps});
            add_forecast(&mut told, forecast);
            written(other, &json!({"schema": 1, "restore": told, "unknown": unknown}))?
        }
    })?;
    Ok(if found.forecast.held.is_empty() { Exit::Success } else { Exit::Blocked })
}

async fn restored(name: &str, state: &State, args: &PlanArgs) -> anyhow::Result<Restored> {
    let plan = anew(found(name, state, &args.namespace)?);
    let contents = contents(state, &plan, &BTreeMap::new(), &args.cluster.source).await;
    let mut known = state.known.clone();
    let unfit = look(state, &plan, &contents, &mut known).await?;
    let steps = steps(&plan, &contents);
    let csvs = steps.iter().flatten().filter(|item| item.is(CSV)).map(|item| item.name.clone()).collect();
    let since = restore::since(&steps, &args.namespace, &known);
    for csv in since.keys() {
        look_for_roles(state, csv, &mut known).await;
    }
    look_at(state, restore::looked_at(&since, &args.namespace, &known), &mut known).await;
    let kubernetes = parse_tolerant(&state.cluster.kubernetes)
        .map_err(|_| "the version of the API server is not known from here".to_owned());
    let premise = Premise {
        namespace: &args.namespace,
        plan: &plan,
        contents: &contents,
        is_new: true,
        superseded: &[],
        groups: &state.groups,
        others: &state.others,
        subscribers: &restore::subscribers(&subscribers(&state.hypothesis, &[]), &since),
        unfit: &unfit,
        kubernetes: kubernetes.as_ref().map_err(String::as_str),
        values: args.values,
    };
    let mut forecast = restore::restored(&premise, &since, &mut known);
    if forecast.held.is_empty() {
        try_out(state, &mut forecast).await;
    }
    let mut unknown = std::mem::take(&mut forecast.unknown);
    unknown.append(&mut known.unread);
    if !forecast.changes.is_empty() {
        unknown.extend(always(state.reader.is_cluster()));
        unknown.push(
            "Whether the earlier version works with what the later one has made of its objects: ask its authors."
                .to_owned(),
        );
    }
    let steps = if forecast.held.is_empty() { ways(state, &since, &args.namespace) } else { Vec::new() };
    Ok(Restored { plan: name.to_owned(), csvs, since, forecast, steps, unknown })
}

fn found<'a>(name: &str, state: &'a State, namespace: &str) -> anyhow::Result<&'a InstallPlan> {
    let named = |plan: &&InstallPlan| plan.metadata.name.as_deref() == Some(name);
    let Some(plan) = state.plans.iter().find(named) else {
        bail!("there is no InstallPlan {namespace}/{name}: kubectl get installplans -n {namespace}");
    };
    if plan.status.as_ref().is_none_or(|status| status.plan.is_empty()) {
        bail!("InstallPlan {namespace}/{name} has no steps, so that it has installed nothing: choose another one");
    }
    Ok(plan)
}

/// As it would be made once more: none of its steps is done.
fn anew(plan: &InstallPlan) -> InstallPlan {
    let mut plan = plan.clone();
    for step in plan.status.iter_mut().flat_map(|status| &mut status.plan) {
        step.status = StepStatus::Unknown;
    }
    plan
}

/// What somebody does who goes back: nobody else may bring the later version again meanwhile.
fn ways(state: &State, since: &Since, namespace: &str) -> Vec<String> {
    let mut steps = Vec::new();
    let mut wanted = Vec::new();
    for subscription in &state.hypothesis.subscriptions {
        let Some(status) = &subscription.status else { continue };
        let Some(origin) = since.get(&status.installed_csv) else { continue };
        let name = subscription.metadata.name.as_deref().unwrap_or_default();
        steps.push(format!("kubectl delete subscriptions.operators.coreos.com {name} -n {namespace}"));
        wanted.push(format!(
            "create the Subscription {name} again with spec.startingCSV: {origin} and spec.installPlanApproval: Manual, and approve the \
             InstallPlan of {origin}, and none that follows; `cvo olm plan` shows it before"
        ));
    }
    let csvs: Vec<&str> = since.keys().map(String::as_str).collect();
    if !csvs.is_empty() {
        let csvs = csvs.join(" ");
        steps.push(format!("kubectl delete clusterserviceversions.operators.coreos.com {csvs} -n {namespace}"));
    }
    steps.extend(wanted);
    steps
}
