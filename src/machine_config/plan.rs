//! What MachineConfigs would do to the nodes of a cluster, without applying them: rendered, compared and put in order by the
//! functions that the controller and the agents use.

mod controller;
mod course;
mod defaults;
mod drains;
mod sources;
mod transition;

pub(crate) use controller::Controller;
pub(crate) use course::{Held, Rollout, Stuck};
pub(crate) use drains::{DrainPlan, Kept, PodToMove};
pub(crate) use transition::{ChangeLine, Transition};

use super::derived::Source;
use super::disruption::lacking_with;
use super::inputs::is_input;
use super::membership::{MASTER, Membership, without_pool};
use super::node::NodeFacts;
use super::quorum;
use super::reconcile;
use super::render::{Defaults, Rendered, name, render};
use super::rollout::PoolFacts;
use super::settings::Settings;
use crate::machine_config::api::machine_config::{GROUP, MachineConfig, MachineConfigPool, ROLE_LABEL, annotation};
use crate::object::budgets::Budget;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// The version of [`NodePlan`] as JSON.
pub(crate) const SCHEMA: u32 = 1;

/// What was read from the cluster.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cluster {
    pub pools: Vec<MachineConfigPool>,
    /// Those that were rendered included.
    pub configs: Vec<MachineConfig>,
    /// What MachineConfigs are made of.
    pub sources: Vec<Source>,
    pub nodes: Vec<Node>,
    pub settings: Settings,
    /// They could not be read, and are the built-in ones.
    pub settings_unread: bool,
    pub controller: Controller,
    /// The pods that leave a node that is drained, by the node; `None` if they cannot be read.
    pub pods: Option<BTreeMap<String, Vec<PodToMove>>>,
    /// Pods of which it is not known whether they leave, and why.
    pub undecided: Vec<String>,
    /// `None` if they cannot be read.
    pub budgets: Option<Vec<Budget>>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NodePlan {
    pub schema: u32,
    /// By name.
    pub pools: Vec<PoolPlan>,
    /// What is wrong with a given MachineConfig that no pool selects.
    pub unselected: Vec<Unselected>,
    /// What is wrong with a given KubeletConfig or ContainerRuntimeConfig, of which no MachineConfig can be made.
    pub refused: Vec<Unselected>,
    /// Not everything could be read that decides whether nodes would wait; `remarks` say what.
    pub incomplete: bool,
    /// What else an administrator should know, and what is not known.
    pub remarks: Vec<String>,
}

/// What is given and reaches no node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Unselected {
    pub name: String,
    pub message: String,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PoolPlan {
    pub name: String,
    /// Which of the given MachineConfigs it selects.
    pub given: Vec<String>,
    /// The rendered MachineConfig that it has; empty before there is any.
    pub from: String,
    /// The one that it would have; equal to `from` if nothing changes.
    pub to: Option<String>,
    /// Why it would keep what it has.
    pub error: Option<String>,
    pub warnings: Vec<String>,
    /// What changes on its nodes: once for each configuration that nodes have now.
    pub transitions: Vec<Transition>,
    /// `None` if nothing changes, or nothing can.
    pub rollout: Option<Rollout>,
}

/// What the exit code says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verdict {
    Fine,
    /// The same of what could be read, which was not everything.
    Incomplete,
    /// Something waits until somebody does something about it.
    Waits,
    /// A pool cannot be rendered, or its nodes cannot follow.
    Fails,
}

impl PoolPlan {
    pub(crate) fn changes(&self) -> bool {
        self.to.as_ref().is_some_and(|to| *to != self.from)
    }

    fn verdict(&self) -> Verdict {
        let fails = self.error.is_some() || self.transitions.iter().any(|transition| transition.error.is_some());
        let waits = self.rollout.as_ref().is_some_and(Rollout::waits);
        if fails {
            Verdict::Fails
        } else if waits {
            Verdict::Waits
        } else {
            Verdict::Fine
        }
    }
}

impl NodePlan {
    pub(crate) fn verdict(&self) -> Verdict {
        let unselected = match (self.refused.is_empty(), self.unselected.is_empty()) {
            (false, _) => Verdict::Fails,
            (true, false) => Verdict::Waits,
            (true, true) if self.incomplete => Verdict::Incomplete,
            (true, true) => Verdict::Fine,
        };
        self.pools.iter().map(PoolPlan::verdict).max().unwrap_or(Verdict::Fine).max(unselected)
    }
}

/// What the rendering of a pool has come to.
struct Outcome<'a> {
    pool: &'a MachineConfigPool,
    given: Vec<String>,
    result: Result<Rendered, String>,
}

/// What would become of the cluster with the given MachineConfigs and what they are made of, which replace those of the same name.
pub(crate) fn plan(cluster: &Cluster, given: &[MachineConfig], sources: &[Source], now: Timestamp) -> NodePlan {
    let (defaults, mut remarks) = defaults::of(&cluster.pools, &cluster.configs, &cluster.controller);
    let configs = with_given(&cluster.configs, given);
    let made = sources::made(cluster, configs, given, sources, &defaults.controller_version);
    let (configs, given) = (made.configs, made.given);
    let mut pools: Vec<&MachineConfigPool> = cluster.pools.iter().collect();
    pools.sort_by_key(|pool| pool_name(pool));
    let outcomes: Vec<Outcome<'_>> =
        pools.iter().map(|pool| outcome(pool, (cluster, &configs), &given, &defaults)).collect();
    for outcome in &outcomes {
        remarks.extend(pending(outcome, &cluster.configs, &defaults));
    }
    let (members, overlaps) = members(&cluster.nodes, &cluster.pools);
    remarks.extend(overlaps);
    remarks.extend(left_alone(&cluster.nodes, &cluster.pools));
    let master = pools.iter().find(|pool| pool_name(pool) == MASTER);
    let at_risk = master.and_then(|master| {
        quorum::at_risk(master.spec.max_unavailable.as_ref(), |pool| members.get(pool).map_or(0, Vec::len))
    });
    let courses = course::courses(&outcomes, members, cluster, now);
    let plans = outcomes.iter().zip(courses);
    let mut plans: Vec<PoolPlan> =
        plans.map(|(outcome, (facts, course))| pool_plan(outcome, &facts, course, cluster)).collect();
    for master in plans.iter_mut().filter(|plan| plan.name == MASTER && plan.changes()) {
        master.warnings.extend(at_risk.clone());
    }
    let incomplete = is_incomplete(cluster, &plans);
    remarks.extend(unknowns(cluster, &plans));
    NodePlan {
        schema: SCHEMA,
        pools: plans,
        unselected: unselected(&cluster.pools, &configs, &given),
        refused: made.refused,
        incomplete,
        remarks,
    }
}

fn pool_name(pool: &MachineConfigPool) -> &str {
    pool.metadata.name.as_deref().unwrap_or_default()
}

/// Replaced as `kubectl apply` does it: labels and annotations that only the live object has stay.
fn with_given(configs: &[MachineConfig], given: &[MachineConfig]) -> Vec<MachineConfig> {
    let replaced = |live: &&MachineConfig| given.iter().all(|given| name(given) != name(live));
    let mut all: Vec<MachineConfig> = configs.iter().filter(replaced).cloned().collect();
    for config in given {
        let mut config = config.clone();
        if let Some(live) = configs.iter().find(|live| name(live) == name(&config)) {
            let own = std::mem::replace(&mut config.metadata, live.metadata.clone());
            config.metadata.labels.get_or_insert_default().extend(own.labels.unwrap_or_default());
            config.metadata.annotations.get_or_insert_default().extend(own.annotations.unwrap_or_default());
        }
        all.push(config);
    }
    all
}

fn inputs(pool: &MachineConfigPool, configs: &[MachineConfig]) -> Vec<MachineConfig> {
    configs.iter().filter(|config| is_input(pool, config)).cloned().collect()
}

fn outcome<'a>(
    pool: &'a MachineConfigPool,
    (cluster, configs): (&Cluster, &[MachineConfig]),
    given: &[MachineConfig],
    defaults: &Defaults,
) -> Outcome<'a> {
    let (live, overrides) = (&cluster.configs, &cluster.settings.overrides);
    let inputs = inputs(pool, configs);
    let named = inputs.iter().map(name).filter(|input| given.iter().any(|given| name(given) == *input));
    let given = named.map(str::to_owned).collect();
    let result = render(pool_name(pool), &inputs, defaults).map_err(|error| error.to_string()).and_then(|rendered| {
        let before = &pool.spec.configuration.name;
        let Some(old) = live.iter().find(|config| name(config) == before.as_str()) else { return Ok(rendered) };
        let new = (rendered.name.as_str(), &rendered.spec);
        match reconcile::check((before, &old.spec), new, &inputs, overrides) {
            Err(error) if *before != rendered.name => Err(error.to_string()),
            _ => Ok(rendered),
        }
    });
    Outcome { pool, given, result }
}

/// The plan shows what is rendered of the cluster as it is, too, if the pool does not have that yet.
fn pending(outcome: &Outcome<'_>, live: &[MachineConfig], defaults: &Defaults) -> Option<String> {
    let (name, before) = (pool_name(outcome.pool), &outcome.pool.spec.configuration.name);
    let changes = outcome.result.as_ref().is_ok_and(|rendered| rendered.name != *before);
    let present = render(name, &inputs(outcome.pool, live), defaults).ok().filter(|_| changes)?;
    (present.name != *before && !before.is_empty()).then(|| {
        format!(
            "Pool {name} has {before}, and its present MachineConfigs would be rendered to {} already: what is shown \
             contains that change, too. See its condition RenderDegraded; a controller of another version may also render \
             differently",
            present.name
        )
    })
}

type Members = BTreeMap<String, Vec<NodeFacts>>;

/// Nodes by their pools, and what is to be said of nodes that several pools claim.
fn members(nodes: &[Node], pools: &[MachineConfigPool]) -> (Members, Vec<String>) {
    let (mut members, mut overlaps) = (Members::new(), Vec::new());
    for node in nodes {
        let facts = NodeFacts::of(node);
        match Membership::of(&NodeFacts::labels(node), pools) {
            Membership::Member { pool, .. } => members.entry(pool).or_default().push(facts),
            Membership::Overlapping(pools) => overlaps.push(format!(
                "Node {} is selected by the pools {}, so that none configures it: change their nodeSelectors",
                facts.name,
                pools.join(" and ")
            )),
            Membership::Unmanaged => {}
        }
    }
    (members, overlaps)
}

fn left_alone(nodes: &[Node], pools: &[MachineConfigPool]) -> Vec<String> {
    let labels: Vec<_> = nodes.iter().map(|node| (node_name(node), NodeFacts::labels(node))).collect();
    let texts = without_pool(labels.iter().map(|(name, labels)| (name.as_str(), labels)), pools);
    texts.into_iter().map(|text| format!("Left alone: {text}")).collect()
}

fn pool_plan(outcome: &Outcome<'_>, facts: &PoolFacts, course: Option<course::Course>, cluster: &Cluster) -> PoolPlan {
    let from = outcome.pool.spec.configuration.name.clone();
    let mut plan = PoolPlan {
        name: pool_name(outcome.pool).to_owned(),
        given: outcome.given.clone(),
        from,
        to: None,
        error: None,
        warnings: Vec::new(),
        transitions: Vec::new(),
        rollout: None,
    };
    let rendered = match &outcome.result {
        Ok(rendered) => rendered,
        Err(error) => return PoolPlan { error: Some(error.clone()), ..plan },
    };
    plan.to = Some(rendered.name.clone());
    plan.warnings.clone_from(&rendered.warnings);
    if !plan.changes() {
        return plan;
    }
    let lacking = lacking(&cluster.nodes);
    let known = (cluster.configs.as_slice(), &lacking);
    plan.transitions = transition::transitions(&plan.from, facts, rendered, known, &cluster.settings);
    let drained: BTreeSet<&str> =
        plan.transitions.iter().filter(|transition| transition.drains).flat_map(nodes_of).collect();
    let alone: BTreeSet<String> = cluster.nodes.iter().filter(|node| is_alone(node)).map(node_name).collect();
    plan.rollout = course.map(|course| {
        let drained = |name: &&str| drained.contains(name) && !alone.contains(*name);
        let drained: Vec<&str> = course.order.iter().map(String::as_str).filter(drained).collect();
        let drains = drains::drains(&drained, cluster);
        Rollout::new(course, drains)
    });
    plan
}

fn nodes_of(transition: &Transition) -> impl Iterator<Item = &str> {
    transition.nodes.iter().map(String::as_str)
}

/// Services that the built-in policies assume and that nodes lack, as far as what they say of themselves tells. Their agents look.
fn lacking(nodes: &[Node]) -> transition::Lacking {
    let of_node = |node: &Node| {
        let info = node.status.as_ref().and_then(|status| status.node_info.as_ref());
        let runtime = info.map(|info| info.container_runtime_version.as_str()).unwrap_or_default();
        (node_name(node), lacking_with(runtime))
    };
    nodes.iter().map(of_node).collect()
}

/// Nobody could take its pods, so that its agent does not ask for a drain.
fn is_alone(node: &Node) -> bool {
    let key = format!("{GROUP}/{}", annotation::CONTROL_PLANE_TOPOLOGY);
    node.metadata
        .annotations
        .as_ref()
        .and_then(|annotations| annotations.get(&key))
        .is_some_and(|it| it == "SingleReplica")
}

fn node_name(node: &Node) -> String {
    node.metadata.name.clone().unwrap_or_default()
}

/// Given MachineConfigs without effect.
fn unselected(pools: &[MachineConfigPool], configs: &[MachineConfig], given: &[MachineConfig]) -> Vec<Unselected> {
    let given = configs.iter().filter(|config| given.iter().any(|given| name(given) == name(config)));
    let lost = given.filter(|config| !pools.iter().any(|pool| is_input(pool, config)));
    let entry = |config: &MachineConfig| {
        let labels = config.metadata.labels.iter().flatten();
        let labels: Vec<String> = labels.map(|(key, value)| format!("{key}={value}")).collect();
        let has =
            if labels.is_empty() { "it has no label".to_owned() } else { format!("it has {}", labels.join(", ")) };
        let message = format!(
            "no MachineConfigPool selects it, so that it reaches no node: {has}, and a pool selects by its \
             machineConfigSelector, usually {}=POOL",
            ROLE_LABEL
        );
        Unselected { name: name(config).to_owned(), message }
    };
    lost.map(entry).collect()
}

fn transitions(pools: &[PoolPlan]) -> impl Iterator<Item = &Transition> {
    pools.iter().flat_map(|pool| &pool.transitions)
}

/// Whether something that was not read would show that nodes wait.
fn is_incomplete(cluster: &Cluster, pools: &[PoolPlan]) -> bool {
    let drains = transitions(pools).any(|transition| transition.drains);
    let unread = cluster.pods.is_none() || cluster.budgets.is_none() || !cluster.undecided.is_empty();
    let changes = transitions(pools).next().is_some();
    (drains && unread) || (changes && cluster.settings_unread)
}

/// What the plan cannot tell.
fn unknowns(cluster: &Cluster, pools: &[PoolPlan]) -> Vec<String> {
    let drains = transitions(pools).any(|transition| transition.drains);
    let unreadable = drains && (cluster.pods.is_none() || cluster.budgets.is_none());
    let undecided = cluster.undecided.first().filter(|_| drains);
    let system = transitions(pools).any(|transition| transition.changes_system);
    let texts = [
        unreadable.then(|| {
            "Pods or PodDisruptionBudgets cannot be read, so that what stands in the way of a drain is not known".to_owned()
        }),
        undecided.map(|first| {
            format!("Whether {} pods leave a node is not known, such as {first}", cluster.undecided.len())
        }),
        system.then(|| {
            "Which nodes can change their operating system, its kernel or its extensions only their agents know: one that \
             cannot refuses, and its annotation says so"
                .to_owned()
        }),
    ];
    texts.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests;
