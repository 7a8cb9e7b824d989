//! What is read of constraints and rules, and what is decided for the objects that ask for operators, by functions of plain types: for
//! inputs that nobody has written by hand.

use crate::olm::api::cluster_service_version::ClusterServiceVersion;
use crate::olm::api::install_plan::{InstallPlan, InstallPlanSpec, InstallPlanStatus, StepStatus};
use crate::olm::api::operator_group::OperatorGroup;
use crate::olm::api::subscription::{Subscription, SubscriptionStatus};
use crate::olm::bundle::{Bundle, read};
use crate::olm::catalog::index::Index;
use crate::olm::catalog::served::{Content, Data};
use crate::olm::plan::group::{self, Account};
use crate::olm::plan::{self, Decision, Outcome, Trouble};
use crate::olm::resolve::constraint::Constraint;
use crate::olm::resolve::operator::Operator;
use crate::olm::resolve::rule::{ClusterVersions, Properties, Rule};
use crate::olm::solve::Limits;
use crate::olm::subscription::installed::Csv;
use crate::olm::subscription::plan::{Group, NewPlan, Plan};
use crate::olm::subscription::{Facts, Gate, Unpacked, Visible};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

/// Type and value of each property.
pub type AllProperties = Vec<(String, Value)>;

/// A constraint, asked of operators.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// In the words of administrators.
    pub text: String,
    /// Of each operator whether it meets the constraint.
    pub met: Vec<bool>,
    /// Of each operator whether it meets all dependencies that the constraint comes to where several may meet it, and how many
    /// those are. `None` if they are too many.
    pub parts: Option<(Vec<bool>, usize)>,
}

/// Errors and warnings about the value of an `olm.constraint`.
pub fn judge_constraint(value: &Value) -> (Vec<String>, Vec<String>) {
    let found = Constraint::judge(value);
    (found.errors, found.warnings)
}

/// Asks operators with these properties. An error: all that is wrong with the value of the `olm.constraint`.
pub fn ask_constraint(value: &Value, operators: &[AllProperties]) -> Result<Asked, Vec<String>> {
    let constraint = Constraint::parse(value)?;
    let operator = |all: &AllProperties| Operator::new("a.v1", all.clone(), &ClusterVersions::default());
    let operators: Vec<Operator> = operators.iter().map(operator).collect();
    let met = operators.iter().map(|it| it.meets(&constraint)).collect();
    let all = |parts: &[Constraint]| operators.iter().map(|it| parts.iter().all(|part| it.meets(part))).collect();
    let parts = constraint.parts().ok().map(|parts| (all(&parts), parts.len()));
    Ok(Asked { text: constraint.to_string(), met, parts })
}

/// Whether a rule holds for a bundle with these properties, or why it has no verdict. The outer error: it is no rule.
pub fn ask_rule(text: &str, properties: &AllProperties) -> Result<Result<bool, String>, String> {
    let rule = Rule::compile(text).map_err(|error| error.to_string())?;
    let all = properties.iter().map(|(kind, value)| (kind.as_str(), value));
    Ok(rule.holds(&Properties::new(all, &ClusterVersions::default())).map_err(|error| error.to_string()))
}

/// What is done for an InstallPlan.
#[derive(Clone, Debug, PartialEq)]
pub enum PlanDecision {
    Nothing,
    Write(Box<InstallPlanStatus>),
    CarryOut,
}

/// Decides for a plan in a namespace with these groups, of which none names an account.
pub fn decide_plan(plan: &InstallPlan, groups: &[OperatorGroup], now: Timestamp) -> PlanDecision {
    let groups: Vec<group::Group> = groups.iter().map(group::Group::of).collect();
    let account = match groups.as_slice() {
        [only] if !only.account.is_empty() => Account::Missing,
        _ => Account::None,
    };
    let facts = plan::Facts { plan, groups: &groups, account, is_judged: &|_| true };
    match plan::decide(&facts, now) {
        Decision::Nothing => PlanDecision::Nothing,
        Decision::Write(status) => PlanDecision::Write(status),
        Decision::CarryOut => PlanDecision::CarryOut,
    }
}

/// The status after all steps were created, or after one at this place failed; and whether there is to be another attempt.
pub fn carried_out(status: &InstallPlanStatus, fails: Option<usize>, now: Timestamp) -> (InstallPlanStatus, bool) {
    let until = fails.unwrap_or(usize::MAX).min(status.plan.len());
    let steps = (0..until).map(|at| (at, StepStatus::Created)).collect();
    let trouble = fails.map(|at| Trouble { text: format!("step {at}"), is_forbidden: false });
    plan::after(status, Outcome { steps, trouble }, SignedDuration::from_mins(1), now)
}

/// A namespace `ns`, and a catalog in it that is called `main`.
#[derive(Clone, Debug, Default)]
pub struct Namespace {
    pub subscriptions: Vec<Subscription>,
    pub csvs: Vec<ClusterServiceVersion>,
    pub groups: Vec<OperatorGroup>,
    pub plans: Vec<InstallPlan>,
    /// Why the catalog is not healthy.
    pub sick: Option<String>,
}

/// What is done for a namespace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decided {
    /// By the place of the Subscription.
    pub statuses: Vec<(usize, SubscriptionStatus)>,
    /// Plans that are made, with their steps.
    pub plans: Vec<(InstallPlanSpec, InstallPlanStatus)>,
    /// Names of plans whose place another one takes.
    pub superseded: Vec<String>,
    /// Whether an answer was looked for.
    pub looked: bool,
}

/// The content of a catalog, of which nothing but the index is read.
#[derive(Debug)]
pub struct Offered(Arc<Content>);

struct Nothing;

impl Data for Nothing {
    fn read(&self, _: u64, _: usize) -> io::Result<Vec<u8>> {
        Err(io::ErrorKind::NotFound.into())
    }
}

impl Offered {
    pub fn new(index: Index) -> Self {
        Offered(Arc::new(Content::new(index, Box::new(Nothing))))
    }

    /// Decides, where every bundle can be fetched.
    pub fn decide(&self, given: &Namespace, now: Timestamp) -> Result<Decided, String> {
        let subscriptions: Vec<Arc<Subscription>> = given.subscriptions.iter().cloned().map(Arc::new).collect();
        let csvs: Vec<Arc<Csv>> = given.csvs.iter().map(Csv::of).map(Arc::new).collect();
        let groups: Vec<Arc<Group>> = given.groups.iter().map(Group::of).map(Arc::new).collect();
        let plans: Vec<Arc<Plan>> = given.plans.iter().map(Plan::of).map(Arc::new).collect();
        let health = Some(given.sick.clone().map_or(Ok(()), Err));
        let main = Visible { health, content: Some(self.0.clone()), ..Visible::default() };
        let catalogs = BTreeMap::from([(("ns".to_owned(), "main".to_owned()), main)]);
        let facts = Facts {
            namespace: "ns",
            subscriptions: &subscriptions,
            csvs: &csvs,
            groups: &groups,
            plans: &plans,
            catalogs: &catalogs,
            global: "global",
            refused: None,
        };
        let gate = facts.gate();
        let found = match &gate {
            Gate::Open(inputs) => Some(inputs.answer(&ClusterVersions::default(), &Limits::default())),
            Gate::Closed(_) | Gate::Waiting => None,
        };
        let bundle = any_bundle()?;
        let decision = facts.decide(&gate, found.as_ref(), &|_| Unpacked::Done(bundle.clone()), now);
        let object = |new: NewPlan| new.object(&BTreeMap::new()).map_err(|error| error.to_string());
        let plans = decision.create.into_iter().map(|new| object(new).map(|(plan, status)| (plan.spec, status)));
        let plans = plans.collect::<Result<_, _>>()?;
        let superseded = decision.superseded.iter().map(|plan| plan.name.clone()).collect();
        Ok(Decided { statuses: decision.statuses, plans, superseded, looked: found.is_some() })
    }
}

fn any_bundle() -> Result<Arc<Bundle>, String> {
    let csv = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion", "metadata": {"name": "any"},
        "spec": {"install": {"strategy": "deployment", "spec": {"deployments": []}}}});
    read::manifests("any", &[csv.to_string()]).map(Arc::new).map_err(|error| error.to_string())
}
