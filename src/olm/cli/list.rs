//! `cvo olm list`: the Subscriptions of a cluster, what each has installed, and what is wrong.

use super::cluster_output::{ClusterOutput, word, written};
use super::objects::listed;
use crate::cli::exit::Exit;
use crate::cli::layout::{self, Colour, Page, clean};
use crate::cli::output::print;
use crate::cluster::Clients;
use crate::object::condition::ConditionStatus;
use crate::olm::api::subscription::{Subscription, SubscriptionCondition, SubscriptionStatus, condition};
use clap::Args;
use serde::Serialize;
use std::path::PathBuf;

/// Conditions that say what keeps a Subscription from what it asks for.
pub(super) const PROBLEMS: [&str; 5] = [
    condition::CATALOG_SOURCES_UNHEALTHY,
    condition::RESOLUTION_FAILED,
    condition::BUNDLE_UNPACK_FAILED,
    condition::INSTALL_PLAN_FAILED,
    condition::INSTALL_PLAN_MISSING,
];

/// The name of the InstallPlan that somebody has to approve.
pub(super) fn plan_to_approve(status: &SubscriptionStatus) -> Option<&str> {
    let waits = |it: &SubscriptionCondition| {
        let is_so = it.status == ConditionStatus::True && it.type_ == condition::INSTALL_PLAN_PENDING;
        is_so && it.reason == "RequiresApproval"
    };
    status.conditions.iter().find(|it| waits(it))?;
    status.install_plan_ref.as_ref()?.name.as_deref()
}

/// List the Subscriptions of the cluster
///
/// Shows for each what is installed and what is to come, which plan waits for an approval, and what is in its way.
#[derive(Args, Debug)]
pub(crate) struct ListArgs {
    /// Only this namespace
    #[arg(short, long, value_name = "NAMESPACE")]
    pub namespace: Option<String>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = ClusterOutput::Text)]
    pub output: ClusterOutput,
    /// Kubeconfig of the cluster [default: $KUBECONFIG, else ~/.kube/config, else the pod's service account]
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
}

pub(super) async fn run(args: &ListArgs) -> anyhow::Result<Exit> {
    let clients = Clients::connect(args.kubeconfig.as_deref()).await?;
    let all: Vec<Subscription> = listed(&clients, args.namespace.as_deref()).await?;
    let mut rows: Vec<Row> = all.iter().map(Row::of).collect();
    rows.sort_by(|one, other| (&one.namespace, &one.name).cmp(&(&other.namespace, &other.name)));
    match args.output {
        ClusterOutput::Text => print(&text(&rows, &layout::page()))?,
        other => print(&written(other, &serde_json::json!({"schema": 1, "subscriptions": rows}))?)?,
    }
    Ok(if rows.iter().any(|row| !row.problems.is_empty()) { Exit::Found } else { Exit::Success })
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    namespace: String,
    name: String,
    package: String,
    channel: String,
    /// Namespace and name of the catalog.
    catalog: String,
    state: String,
    installed: String,
    /// What is to come; empty if that is installed.
    next: String,
    /// The plan that somebody has to approve.
    #[serde(skip_serializing_if = "String::is_empty")]
    approval: String,
    /// Type and message of each.
    problems: Vec<(String, String)>,
}

impl Row {
    fn of(subscription: &Subscription) -> Row {
        let (metadata, spec) = (&subscription.metadata, &subscription.spec);
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let mut row = Row {
            namespace: text(&metadata.namespace),
            name: text(&metadata.name),
            package: spec.name.clone(),
            channel: spec.channel.clone(),
            catalog: format!("{}/{}", spec.source_namespace, spec.source),
            ..Row::default()
        };
        let Some(status) = &subscription.status else { return row };
        row.state = word(&status.state);
        row.installed.clone_from(&status.installed_csv);
        if status.current_csv != status.installed_csv {
            row.next.clone_from(&status.current_csv);
        }
        row.approval = plan_to_approve(status).unwrap_or_default().to_owned();
        for it in status.conditions.iter().filter(|it| it.status == ConditionStatus::True) {
            if PROBLEMS.contains(&it.type_.as_str()) {
                row.problems.push((it.type_.clone(), it.message.clone()));
            }
        }
        row
    }
}

fn text(all: &[Row], page: &Page) -> String {
    let mut out = String::new();
    if all.is_empty() {
        return "there are no Subscriptions\n".to_owned();
    }
    let cell = |text: &str| (clean(if text.is_empty() { "-" } else { text }).into_owned(), Colour::Plain);
    let mut rows = vec![["NAMESPACE", "NAME", "PACKAGE", "CHANNEL", "CATALOG", "INSTALLED", "NEXT"].map(cell).to_vec()];
    for row in all {
        let texts = [&row.namespace, &row.name, &row.package, &row.channel, &row.catalog, &row.installed, &row.next];
        rows.push(texts.map(|text| cell(text)).to_vec());
    }
    layout::table(page, &mut out, &rows);
    for row in all {
        let (namespace, name) = (&row.namespace, &row.name);
        if !row.approval.is_empty() {
            let text =
                format!("{namespace}/{name} waits for an approval: cvo olm approve {} -n {namespace}", row.approval);
            layout::paragraph(page, &mut out, "", &text, Colour::Busy);
        }
        for (type_, message) in &row.problems {
            layout::line(page, &mut out, &clean(&format!("{namespace}/{name}: {type_}")), Colour::Bad);
            message.lines().for_each(|line| layout::paragraph(page, &mut out, "  ", line, Colour::Plain));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn row(status: Value) -> Row {
        let object = json!({"metadata": {"namespace": "shop", "name": "x"}, "status": status,
            "spec": {"name": "widgets", "channel": "stable", "source": "main", "sourceNamespace": "market"}});
        Row::of(&serde_json::from_value(object).unwrap())
    }

    #[test]
    fn subscriptions_are_listed_with_what_is_in_their_way() {
        let condition = |type_: &str, reason: &str, message: &str| json!({"type": type_, "status": "True", "reason": reason, "message": message});
        let waits = row(json!({"currentCSV": "widgets.v2", "installedCSV": "widgets.v1", "state": "UpgradePending",
            "lastUpdated": "2026-01-01T00:00:00Z", "installPlanRef": {"name": "install-abcde"},
            "conditions": [condition("InstallPlanPending", "RequiresApproval", "")]}));
        let fails = row(json!({"lastUpdated": "2026-01-01T00:00:00Z",
            "conditions": [condition("ResolutionFailed", "ConstraintsNotSatisfiable", "constraints not satisfiable: a\n1. b")]}));
        let page = Page { width: usize::MAX, colours: false, now: jiff::Timestamp::UNIX_EPOCH };
        insta::assert_snapshot!(text(&[waits.clone(), fails.clone(), row(Value::Null)], &page), @r"
        NAMESPACE  NAME  PACKAGE  CHANNEL  CATALOG      INSTALLED   NEXT
        shop       x     widgets  stable   market/main  widgets.v1  widgets.v2
        shop       x     widgets  stable   market/main  -           -
        shop       x     widgets  stable   market/main  -           -
        shop/x waits for an approval: cvo olm approve install-abcde -n shop
        shop/x: ResolutionFailed
          constraints not satisfiable: a
          1. b
        ");
        assert!(waits.problems.is_empty() && fails.problems.len() == 1);
        assert_eq!(text(&[], &page), "there are no Subscriptions\n");
    }
}
