//! What an update will do, predicted before it starts. The functions of the rollout decide: `graph::build` the order,
//! `merge::step` what each manifest needs, `rollout::verdict` what is waited for. So the plan shows what the daemon will do.
//!
//! The serialised [`Forecast`] is a contract: fields may be added, but `schema` grows when one is removed or changes its
//! meaning.

mod concerns;
mod dot;
pub(crate) mod drained;
mod excluded;
mod live;
mod namespaces;
pub(crate) mod placement;

pub(crate) use crate::cluster_version::health::troubles;
pub(crate) use crate::diff::field::Field;
pub(crate) use concerns::{
    Blocker, Cause, ClusterState, Severity, conditions, findings, preconditions, quorum, webhooks,
};
pub(crate) use dot::dot;
pub(crate) use excluded::{Excluded, ExcludedBy, excluded};
pub(crate) use live::{LiveObject, LiveObjects, LiveState, contained, dropped, live_after_release, managed};

use crate::cluster_version::graph;
use crate::cluster_version::graph::{Graph, Mode};
use crate::cluster_version::rollout::verdict;
use crate::cluster_version::status::failure::Reason;
use crate::error::{CAUSE, listed};
use crate::gate::Observed;
use crate::merge::{self, Manager, MergeError, Skip};
use crate::object::manifest::{Manifest, ObjectId};
use crate::release::api::Release;
use serde::Serialize;
use serde_json::Value;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Version of the JSON form.
pub(crate) const SCHEMA: u32 = 1;

/// A plan of an update: what `cvo plan -o json` prints.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Forecast {
    pub schema: u32,
    pub mode: Mode,
    pub from: Side,
    pub to: Side,
    pub counts: Counts,
    /// In the order in which they are applied.
    pub stages: Vec<Stage>,
    /// Manifests of the release that are excluded, and why.
    pub excluded: Vec<Excluded>,
    /// Objects of the previous release that the new one does not contain or excludes: they stay, but are no longer managed.
    /// Empty too when the previous release is not known.
    pub dropped: Vec<ObjectId>,
    /// Capabilities that become enabled because an object that is already managed now belongs to them.
    pub implicit_capabilities: Vec<String>,
    /// Whether the release is signed as the running one demands; `null` if that was not found out.
    pub verified: Option<bool>,
    /// Objects that overrides make unmanaged.
    pub overrides_hide: Vec<ObjectId>,
    /// What will probably stop the update.
    pub blockers: Vec<Blocker>,
    /// What cannot be known beforehand, or could not be read.
    pub unknowns: Vec<String>,
}

/// One side of the update.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Side {
    /// `cluster`, or the folder or image as given.
    pub source: String,
    pub release: Release,
}

/// Manifests by what happens to their objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Counts {
    pub create: usize,
    pub change: usize,
    pub replace: usize,
    pub delete: usize,
    pub leave: usize,
    /// Excluded by a capability or an override.
    pub hidden: usize,
    pub refused: usize,
    pub unknown: usize,
}

/// Nothing of a stage is written before every gate of the stages before it is open.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Stage {
    /// From 1.
    pub number: usize,
    pub nodes: Vec<Node>,
}

/// Manifests that are applied one after the other.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Node {
    /// As in status, page and progress record: `stage/level/component`.
    pub id: String,
    /// Nodes of one wave run in parallel; from 1.
    pub wave: usize,
    /// Ids of the nodes that must be done first.
    pub after: Vec<String>,
    /// In the order of writing. ClusterOperators that do not exist yet come first: they are created when the node starts.
    pub steps: Vec<Step>,
}

/// One manifest.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Step {
    /// As the cluster identifies it, if the cluster was read.
    pub object: ObjectId,
    pub api_version: String,
    pub file: String,
    /// Position in that file, from 0.
    pub index: usize,
    #[serde(flatten)]
    pub action: Action,
    /// What is waited for before the next step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gate: Option<PlannedGate>,
}

/// What happens to an object; in JSON the member `action`, with the fields of the variant beside it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "action", rename_all = "lowercase")]
pub(crate) enum Action {
    Create,
    Change {
        fields: Vec<Field>,
    },
    /// Deleted and created again, because a field differs that cannot be changed in place.
    Replace {
        fields: Vec<Field>,
    },
    Delete,
    Leave {
        why: &'static str,
    },
    /// It cannot be done: the rollout will stop here.
    Refused {
        why: String,
    },
    Unknown {
        why: String,
    },
}

impl Action {
    /// The action in a word, for people.
    pub(crate) fn word(&self) -> &'static str {
        match self {
            Action::Create => "create",
            Action::Change { .. } => "change",
            Action::Replace { .. } => "replace",
            Action::Delete => "delete",
            Action::Leave { .. } => "leave",
            Action::Refused { .. } => "refused",
            Action::Unknown { .. } => "unknown",
        }
    }

    /// Whether the daemon will write.
    pub(crate) fn writes(&self) -> bool {
        matches!(self, Action::Create | Action::Change { .. } | Action::Replace { .. } | Action::Delete)
    }
}

/// A gate after a manifest.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PlannedGate {
    /// Follows the name of the object in a sentence: "to be established".
    pub awaits: String,
    pub now: GateState,
    /// Why it is not open now.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// State of a gate before the update.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum GateState {
    Open,
    Closed,
    /// Its object has failed.
    Failing,
    /// The cluster was not read, or the object does not exist yet.
    Unknown,
}

/// The desired object of a manifest, ready to be compared, with owner and injections.
pub(crate) type Prepare<'a> = &'a dyn Fn(&Manifest) -> Result<Value, MergeError>;

/// Everything a plan is made from.
pub(crate) struct PlanInput<'a> {
    pub from: Side,
    pub to: Side,
    pub mode: Mode,
    /// Those that are included, in load order: what the rollout starts with.
    pub manifests: &'a [Arc<Manifest>],
    pub excluded: Vec<Excluded>,
    pub live: &'a LiveObjects,
    /// The namespaces that exist, of those that manifests are in; `None` if no cluster was read.
    pub namespaces: Option<HashSet<String>>,
    pub prepared: Prepare<'a>,
    /// This program's own Deployment.
    pub own_deployment: &'a ObjectId,
    /// Under whose name the objects will be written.
    pub manager: Manager,
    /// The minor version of the API server, 36 for 1.36; `None` if no cluster was read.
    pub server: Option<u64>,
    /// Show the values of fields, not only which differ. Never of Secrets.
    pub values: bool,
}

impl std::fmt::Debug for PlanInput<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PlanInput").field("from", &self.from).field("to", &self.to).finish_non_exhaustive()
    }
}

/// Predicts the rollout. The caller adds what only it knows: conditions, permissions, capabilities, unknowns.
pub(crate) fn forecast(input: &PlanInput<'_>) -> Forecast {
    let graph = graph::build(input.manifests, input.mode, Some(input.own_deployment));
    let mut walk = Walk::new(input);
    let mut stages: Vec<Stage> = Vec::new();
    let mut waves: Vec<usize> = Vec::new();
    for (index, node) in graph.nodes().iter().enumerate() {
        let before = graph.predecessors(index);
        let wave = before.iter().filter_map(|i| waves.get(*i)).max().copied().unwrap_or(0) + 1;
        waves.push(wave);
        let planned =
            Node { id: node.id.clone(), wave, after: ids(&graph, &before), steps: walk.node(&node.manifests) };
        match stages.last_mut().filter(|stage| stage.number == node.stage) {
            Some(stage) => stage.nodes.push(planned),
            None => stages.push(Stage { number: node.stage, nodes: vec![planned] }),
        }
    }
    walk.blockers.extend(namespaces::missing(input, &graph, &walk.created));
    let by = |cause: ExcludedBy| input.excluded.iter().filter(move |excluded| excluded.by == cause);
    let overridden: Vec<ObjectId> = by(ExcludedBy::Override).map(|excluded| excluded.object.clone()).collect();
    let hidden = by(ExcludedBy::Capability).count() + overridden.len();
    Forecast {
        schema: SCHEMA,
        mode: input.mode,
        from: input.from.clone(),
        to: input.to.clone(),
        counts: Counts { hidden, ..walk.counts },
        stages,
        excluded: input.excluded.clone(),
        dropped: Vec::new(),
        implicit_capabilities: Vec::new(),
        verified: None,
        overrides_hide: overridden,
        blockers: walk.blockers,
        unknowns: Vec::new(),
    }
}

fn ids(graph: &Graph, nodes: &[usize]) -> Vec<String> {
    nodes.iter().filter_map(|i| graph.node(*i)).map(|node| node.id.clone()).collect()
}

impl Forecast {
    /// All steps, in the order of the stages and their nodes.
    pub(crate) fn steps(&self) -> impl Iterator<Item = &Step> {
        self.stages.iter().flat_map(|stage| &stage.nodes).flat_map(|node| &node.steps)
    }

    /// Whether something will probably stop the update.
    pub(crate) fn is_blocked(&self) -> bool {
        self.blockers.iter().any(|blocker| blocker.severity == Severity::Blocks)
    }
}

/// The walk over the nodes in the order in which they are applied.
struct Walk<'a> {
    input: &'a PlanInput<'a>,
    /// Objects as the last of their manifests so far leaves them: the next manifest of the same object starts from there.
    after: HashMap<&'a ObjectId, Option<Value>>,
    counts: Counts,
    blockers: Vec<Blocker>,
    /// Position and identity of what is to be created.
    created: Vec<(usize, ObjectId)>,
    served: HashSet<(String, String)>,
    schemas: merge::Schemas,
}

impl<'a> Walk<'a> {
    fn new(input: &'a PlanInput<'a>) -> Self {
        Walk {
            input,
            after: HashMap::new(),
            counts: Counts::default(),
            blockers: Vec::new(),
            created: Vec::new(),
            served: live::kinds_defined(input.manifests),
            schemas: merge::Schemas::new(input.manifests),
        }
    }

    fn node(&mut self, positions: &[usize]) -> Vec<Step> {
        let mut steps: Vec<Step> = positions.iter().filter_map(|position| self.step(*position)).collect();
        // The rollout creates missing ClusterOperators when their node starts.
        let precreated = |step: &Step| {
            let id = &step.object;
            step.action == Action::Create && id.group == "config.openshift.io" && id.kind == "ClusterOperator"
        };
        steps.sort_by_key(|step| !precreated(step));
        steps
    }

    fn step(&mut self, position: usize) -> Option<Step> {
        let manifest = self.input.manifests.get(position)?;
        let live = self.input.live.get(&manifest.id)?;
        let action = self.action(manifest, live);
        self.check_server(manifest, live, &action);
        let gate = self.gate(manifest, live, &action);
        self.count(&action);
        if action == Action::Create {
            self.created.push((position, live.id.clone()));
        }
        Some(Step {
            object: live.id.clone(),
            api_version: manifest.api_version.clone(),
            file: manifest.file.to_string(),
            index: manifest.index_in_file,
            action,
            gate,
        })
    }

    fn action(&mut self, manifest: &Manifest, object: &'a LiveObject) -> Action {
        let live = match (self.after.get(&object.id), &object.state) {
            (Some(after), _) => after.clone(),
            (None, LiveState::Exists(live)) => Some((**live).clone()),
            (None, LiveState::Absent) => None,
            (None, LiveState::NotServed | LiveState::OtherVersion(_)) if !self.will_be_served(manifest) => {
                return self.not_served(manifest);
            }
            (None, LiveState::NotServed) => None,
            (None, LiveState::OtherVersion(why) | LiveState::Unreadable(why)) => {
                return Action::Unknown { why: why.clone() };
            }
        };
        let schema = || self.schemas.of(manifest);
        let decided =
            merge::step(live.as_ref(), manifest, self.input.manager, &schema, || (self.input.prepared)(manifest));
        let fields = |paths: Vec<String>, after: &Value| {
            let shown = self.input.values && manifest.id.kind != "Secret";
            crate::diff::field::fields(paths, live.as_ref().filter(|_| shown), Some(after).filter(|_| shown))
        };
        let (action, after) = match decided {
            Ok(merge::Step::Skip(skip)) => {
                let after = if skip == Skip::Absent { None } else { live };
                (Action::Leave { why: why(skip) }, after)
            }
            Ok(merge::Step::Create(object)) => (Action::Create, Some(object)),
            Ok(merge::Step::Change { object, fields: paths }) => {
                (Action::Change { fields: fields(paths, &object) }, Some(object))
            }
            Ok(merge::Step::Replace { object, fields: paths }) => {
                (Action::Replace { fields: fields(paths, &object) }, Some(object))
            }
            Ok(merge::Step::Delete) => (Action::Delete, None),
            Err(error) => {
                let blocker = Blocker::new(Cause::Refused, &object.id, Reason::Integrity.as_str(), error.to_string());
                self.blockers.push(blocker);
                (Action::Refused { why: error.to_string() }, live)
            }
        };
        self.after.insert(&object.id, after);
        action
    }

    /// What a definition or policy needs of the API server. What the live object has already, the server takes again.
    fn check_server(&mut self, manifest: &Manifest, object: &LiveObject, action: &Action) {
        let (Some(server), Ok(desired)) = (self.input.server.filter(|_| action.writes()), manifest.object()) else {
            return;
        };
        let mut needed = crate::diff::expressions::too_new(&desired, server);
        if let LiveState::Exists(live) = &object.state {
            let present = crate::diff::expressions::too_new(live, server);
            needed.retain(|function, _| !present.contains_key(function));
        }
        if let Some(newest) = needed.values().max() {
            let functions: Vec<String> = needed.iter().map(|(name, minor)| format!("{name} (1.{minor})")).collect();
            let functions = listed(&functions, ", ", CAUSE, |n| format!("and {n} more"));
            let message = format!(
                "its CEL expressions need Kubernetes 1.{newest}, and this API server is 1.{server}, which refuses it: {functions}"
            );
            let reason = Reason::ResourceInvalid.as_str();
            self.blockers.push(Blocker::new(Cause::ServerVersion, &object.id, reason, message));
        }
        if server < crate::diff::expressions::SELECTABLE_FIELDS
            && crate::diff::expressions::has_selectable_fields(&desired)
        {
            let message = format!(
                "its selectableFields need Kubernetes 1.31, and this API server is 1.{server}, which ignores them"
            );
            self.blockers.push(Blocker::new(Cause::ServerVersion, &object.id, "", message).warns());
        }
    }

    /// A kind need not be served to delete an object of it.
    fn will_be_served(&self, manifest: &Manifest) -> bool {
        manifest.delete() == Ok(true) || self.served.contains(&(manifest.api_version.clone(), manifest.id.kind.clone()))
    }

    fn not_served(&mut self, manifest: &Manifest) -> Action {
        let why = format!(
            "the API server does not serve {} {}, and no CustomResourceDefinition of the release defines it",
            manifest.api_version, manifest.id.kind
        );
        let reason = Reason::ResourceTypeMissing.as_str();
        self.blockers.push(Blocker::new(Cause::NotServed, &manifest.id, reason, why.clone()));
        Action::Refused { why }
    }

    /// The gate after the manifest as the rollout will have it, and its state now.
    fn gate(&mut self, manifest: &Manifest, live: &LiveObject, action: &Action) -> Option<PlannedGate> {
        let skipped = matches!(action, Action::Refused { .. }) || manifest.delete() != Ok(false);
        if skipped {
            return None;
        }
        if live.id == *self.input.own_deployment {
            // If the running daemon already belongs to the release, it does not replace itself.
            let awaits = "to replace the running daemon by the new release's".to_owned();
            let hands_over = self.input.from.release.image != self.input.to.release.image;
            return hands_over.then_some(PlannedGate { awaits, now: GateState::Unknown, message: String::new() });
        }
        if manifest.create_only() {
            return None;
        }
        let want = Observed::of_manifest(manifest).ok()?;
        let awaits = verdict::awaits(&want, self.input.mode)?;
        if let Some(error) = verdict::never_opens(&want) {
            self.blockers.push(Blocker::new(Cause::Refused, &live.id, error.reason.as_str(), error.message.clone()));
            return Some(PlannedGate { awaits, now: GateState::Failing, message: error.message });
        }
        let (LiveState::Exists(object), true) = (&live.state, live.has_status) else {
            return Some(PlannedGate { awaits, now: GateState::Unknown, message: String::new() });
        };
        let unready = verdict::judge(&want, Some(&Observed::of(object)), self.input.mode);
        self.blockers.extend(unready.as_ref().and_then(|unready| concerns::from_unready(&live.id, action, unready)));
        let (now, message) = match unready {
            None => (GateState::Open, String::new()),
            Some(unready) if unready.is_wait() => (GateState::Closed, unready.message),
            Some(unready) => (GateState::Failing, unready.error.whole()),
        };
        Some(PlannedGate { awaits, now, message })
    }

    fn count(&mut self, action: &Action) {
        let counts = &mut self.counts;
        let count = match action {
            Action::Create => &mut counts.create,
            Action::Change { .. } => &mut counts.change,
            Action::Replace { .. } => &mut counts.replace,
            Action::Delete => &mut counts.delete,
            Action::Leave { .. } => &mut counts.leave,
            Action::Refused { .. } => &mut counts.refused,
            Action::Unknown { .. } => &mut counts.unknown,
        };
        *count += 1;
    }
}

fn why(skip: Skip) -> &'static str {
    match skip {
        Skip::AsDesired => "it is already as the release defines it",
        Skip::CreateOnly => "it exists, and the release only creates it",
        Skip::Absent => "it is to be deleted, and does not exist",
        Skip::Terminating => "it is already being deleted",
    }
}

#[cfg(test)]
mod tests;
