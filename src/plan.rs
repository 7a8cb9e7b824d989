//! What an update will do, told before it starts. The pass's own functions decide: `graph::build` the order,
//! `merge::step` what each manifest needs, `gate` what is waited for; so what is foretold is what is done.
//!
//! The serialised [`Forecast`] is a contract: `schema` grows when a field changes its meaning or goes; new fields may come.

mod concerns;
mod dot;
mod field;
mod found;
mod left_out;
mod namespaces;

pub use concerns::{Blocker, Cause, Severity, Webhook, conditions, webhooks};
pub use dot::dot;
pub use field::Field;
pub use found::{Findings, Found, Sight, dropped, of_release};
pub use left_out::{By, LeftOut, left_out, managed};

use crate::api::Release;
use crate::gate::{self, Verdict};
use crate::graph::{self, Graph, Mode};
use crate::merge::{self, Left, MergeError};
use crate::payload::{Manifest, ObjectId};
use crate::status::failure::Reason;
use serde::Serialize;
use serde_json::Value;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Version of the JSON form.
pub const SCHEMA: u32 = 1;

/// A plan of an update: what `cvo plan -o json` prints.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Forecast {
    pub schema: u32,
    pub mode: Mode,
    pub from: Side,
    pub to: Side,
    pub counts: Counts,
    /// In the order in which they are done.
    pub stages: Vec<Stage>,
    /// Manifests of the release that take no part, and what leaves them out.
    pub excluded: Vec<LeftOut>,
    /// Objects of the release before that the new one does not name, or filters out: they stay, and nobody looks after
    /// them any more.
    /// Empty as well when the release before is not known.
    pub dropped: Vec<ObjectId>,
    /// Capabilities that get enabled because something already managed needs them now.
    pub implicit_capabilities: Vec<String>,
    /// Objects that overrides take out of the daemon's hands.
    pub overrides_hide: Vec<ObjectId>,
    /// What will probably stop the update.
    pub blockers: Vec<Blocker>,
    /// What nobody can know beforehand, or could not be read.
    pub unknowns: Vec<String>,
}

/// One side of the update.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Side {
    /// `cluster`, or the folder or image as given.
    pub source: String,
    pub release: Release,
}

/// Manifests by what becomes of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Counts {
    pub create: usize,
    pub change: usize,
    pub replace: usize,
    pub delete: usize,
    pub leave: usize,
    /// Left out by a capability or an override.
    pub hidden: usize,
    pub refused: usize,
    pub unknown: usize,
}

/// Nothing of a stage is written before every gate of the stages before it is open.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Stage {
    /// From 1.
    pub number: usize,
    pub nodes: Vec<Node>,
}

/// Manifests that are applied one after the other.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Node {
    /// As in status, page and progress record: `stage/level/component`.
    pub id: String,
    /// Nodes of one wave run side by side; from 1.
    pub wave: usize,
    /// Ids of the nodes that must be done before.
    pub after: Vec<String>,
    /// In the order of writing. ClusterOperators that are not there yet come first: they appear when the node starts.
    pub steps: Vec<Step>,
}

/// One manifest.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Step {
    /// As the cluster knows it, where the cluster was asked.
    pub object: ObjectId,
    pub api_version: String,
    pub file: String,
    /// Position in that file, from 0.
    pub index: usize,
    #[serde(flatten)]
    pub action: Action,
    /// What is waited for before what comes after.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gate: Option<GateAhead>,
}

/// What becomes of an object; in JSON the member `action`, with the others beside it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "action", rename_all = "lowercase")]
pub enum Action {
    Create,
    Change {
        fields: Vec<Field>,
    },
    /// Deleted and created anew, because a field differs that cannot change in place.
    Replace {
        fields: Vec<Field>,
    },
    Delete,
    Leave {
        why: &'static str,
    },
    /// It cannot be done: the pass will stop here.
    Refused {
        why: String,
    },
    Unknown {
        why: String,
    },
}

impl Action {
    /// For people.
    pub fn word(&self) -> &'static str {
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

    /// Whether the daemon is going to write.
    pub fn writes(&self) -> bool {
        matches!(self, Action::Create | Action::Change { .. } | Action::Replace { .. } | Action::Delete)
    }
}

/// A gate after a manifest.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GateAhead {
    /// In words that follow the object's name: "to be established".
    pub awaits: String,
    pub now: Now,
    /// What keeps it closed now.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// Where a gate stands before the update.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Now {
    Open,
    Closed,
    /// It has failed.
    Failing,
    /// The cluster was not asked, or there is nothing to ask about yet.
    Unknown,
}

/// The object that a manifest wants, ready to be compared, owner and injections included.
pub type Prepare<'a> = &'a dyn Fn(&Manifest) -> Result<Value, MergeError>;

/// Everything a plan is made from.
pub struct Question<'a> {
    pub from: Side,
    pub to: Side,
    pub mode: Mode,
    /// Those that take part, in load order: what the pass is begun with.
    pub manifests: &'a [Arc<Manifest>],
    /// The others.
    pub left_out: Vec<LeftOut>,
    pub found: &'a Findings,
    /// The namespaces that are there, of those that manifests are in; `None` if no cluster was asked.
    pub namespaces: Option<HashSet<String>>,
    pub prepared: Prepare<'a>,
    /// This program's own Deployment.
    pub own_deployment: &'a ObjectId,
    /// Show what fields hold, not only which differ. Never of Secrets.
    pub values: bool,
}

impl std::fmt::Debug for Question<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Question").field("from", &self.from).field("to", &self.to).finish_non_exhaustive()
    }
}

/// Foretells the pass. What the caller knows beyond it (conditions, permissions, capabilities, what is unknown) is for
/// the caller to add.
pub fn forecast(question: &Question<'_>) -> Forecast {
    let graph = graph::build(question.manifests, question.mode, Some(question.own_deployment));
    let mut telling = Telling::new(question);
    let mut stages: Vec<Stage> = Vec::new();
    let mut waves: Vec<usize> = Vec::new();
    for (index, node) in graph.nodes().iter().enumerate() {
        let before = graph.predecessors(index);
        let wave = before.iter().filter_map(|i| waves.get(*i)).max().copied().unwrap_or(0) + 1;
        waves.push(wave);
        let told =
            Node { id: node.id.clone(), wave, after: names(&graph, &before), steps: telling.node(&node.manifests) };
        match stages.last_mut().filter(|stage| stage.number == node.stage) {
            Some(stage) => stage.nodes.push(told),
            None => stages.push(Stage { number: node.stage, nodes: vec![told] }),
        }
    }
    telling.blockers.extend(namespaces::missing(question, &graph, &telling.created));
    let by = |wanted: By| question.left_out.iter().filter(move |left_out| left_out.by == wanted);
    let overridden: Vec<ObjectId> = by(By::Override).map(|left_out| left_out.object.clone()).collect();
    let hidden = by(By::Capability).count() + overridden.len();
    Forecast {
        schema: SCHEMA,
        mode: question.mode,
        from: question.from.clone(),
        to: question.to.clone(),
        counts: Counts { hidden, ..telling.counts },
        stages,
        excluded: question.left_out.clone(),
        dropped: Vec::new(),
        implicit_capabilities: Vec::new(),
        overrides_hide: overridden,
        blockers: telling.blockers,
        unknowns: Vec::new(),
    }
}

fn names(graph: &Graph, nodes: &[usize]) -> Vec<String> {
    nodes.iter().filter_map(|i| graph.node(*i)).map(|node| node.id.clone()).collect()
}

impl Forecast {
    /// All steps, in the order of the stages and their nodes.
    pub fn steps(&self) -> impl Iterator<Item = &Step> {
        self.stages.iter().flat_map(|stage| &stage.nodes).flat_map(|node| &node.steps)
    }

    /// Whether something will probably stop the update.
    pub fn is_blocked(&self) -> bool {
        self.blockers.iter().any(|blocker| blocker.severity == Severity::Blocks)
    }
}

/// The walk over the nodes.
struct Telling<'a> {
    question: &'a Question<'a>,
    /// Objects that several manifests name, as the last of them leaves them: the next one starts from there.
    left_as: HashMap<&'a ObjectId, Option<Value>>,
    counts: Counts,
    blockers: Vec<Blocker>,
    /// Position and identity of what is to be created.
    created: Vec<(usize, ObjectId)>,
    served: HashSet<(String, String)>,
}

impl<'a> Telling<'a> {
    fn new(question: &'a Question<'a>) -> Self {
        Telling {
            question,
            left_as: HashMap::new(),
            counts: Counts::default(),
            blockers: Vec::new(),
            created: Vec::new(),
            served: found::kinds_brought(question.manifests),
        }
    }

    fn node(&mut self, positions: &[usize]) -> Vec<Step> {
        let mut steps: Vec<Step> = positions.iter().filter_map(|position| self.step(*position)).collect();
        // They are announced when their node starts (§3.7).
        let announced = |step: &Step| {
            let id = &step.object;
            step.action == Action::Create && id.group == "config.openshift.io" && id.kind == "ClusterOperator"
        };
        steps.sort_by_key(|step| !announced(step));
        steps
    }

    fn step(&mut self, position: usize) -> Option<Step> {
        let manifest = self.question.manifests.get(position)?;
        let found = self.question.found.get(&manifest.id)?;
        let action = self.action(manifest, found);
        let gate = self.gate(manifest, found, &action);
        self.count(&action);
        if action == Action::Create {
            self.created.push((position, found.id.clone()));
        }
        Some(Step {
            object: found.id.clone(),
            api_version: manifest.api_version.clone(),
            file: manifest.file.to_string(),
            index: manifest.index_in_file,
            action,
            gate,
        })
    }

    fn action(&mut self, manifest: &Manifest, found: &'a Found) -> Action {
        let live = match (self.left_as.get(&found.id), &found.sight) {
            (Some(left), _) => left.clone(),
            (None, Sight::There(live)) => Some((**live).clone()),
            (None, Sight::Absent) => None,
            (None, Sight::NotServed | Sight::Otherwise(_)) if !self.will_be_served(manifest) => {
                return self.not_served(manifest);
            }
            (None, Sight::NotServed) => None,
            (None, Sight::Otherwise(why)) => return Action::Unknown { why: why.clone() },
            (None, Sight::Unread(why)) => return Action::Unknown { why: why.clone() },
        };
        let decided = merge::step(live.as_ref(), manifest, || (self.question.prepared)(manifest));
        let fields = |paths: Vec<String>, after: &Value| {
            let shown = self.question.values && manifest.id.kind != "Secret";
            field::fields(paths, live.as_ref().filter(|_| shown), Some(after).filter(|_| shown))
        };
        let (action, after) = match decided {
            Ok(merge::Step::Leave(left)) => {
                let after = if left == Left::Gone { None } else { live };
                (Action::Leave { why: why(left) }, after)
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
                let blocker = Blocker::of(Cause::Refused, &found.id, Reason::Integrity.as_str(), error.to_string());
                self.blockers.push(blocker);
                (Action::Refused { why: error.to_string() }, live)
            }
        };
        self.left_as.insert(&found.id, after);
        action
    }

    /// What is to be deleted need not be.
    fn will_be_served(&self, manifest: &Manifest) -> bool {
        manifest.delete() == Ok(true) || self.served.contains(&(manifest.api_version.clone(), manifest.id.kind.clone()))
    }

    fn not_served(&mut self, manifest: &Manifest) -> Action {
        let why = format!(
            "the API server does not serve {} {}, and no CustomResourceDefinition of the release brings it",
            manifest.api_version, manifest.id.kind
        );
        let reason = Reason::ResourceTypeMissing.as_str();
        self.blockers.push(Blocker::of(Cause::NotServed, &manifest.id, reason, why.clone()));
        Action::Refused { why }
    }

    /// The gate after the manifest, under the conditions of the pass; and what it says now.
    fn gate(&mut self, manifest: &Manifest, found: &Found, action: &Action) -> Option<GateAhead> {
        let skipped = matches!(action, Action::Refused { .. }) || manifest.delete() != Ok(false);
        if skipped {
            return None;
        }
        if found.id == *self.question.own_deployment {
            // Not waited for where the daemon is the release's already.
            let awaits = "to replace the running daemon by the new release's".to_owned();
            let hands_over = self.question.from.release.image != self.question.to.release.image;
            return hands_over.then_some(GateAhead { awaits, now: Now::Unknown, message: String::new() });
        }
        if manifest.create_only() {
            return None;
        }
        let want = gate::Observed::of_manifest(manifest).ok()?;
        let awaits = gate::awaits(&want, self.question.mode)?;
        if let Some(error) = gate::hopeless(&want) {
            self.blockers.push(Blocker::of(Cause::Refused, &found.id, error.reason.as_str(), error.message.clone()));
            return Some(GateAhead { awaits, now: Now::Failing, message: error.message });
        }
        let Sight::There(live) = &found.sight else {
            return Some(GateAhead { awaits, now: Now::Unknown, message: String::new() });
        };
        if !found.reports_status {
            return Some(GateAhead { awaits, now: Now::Unknown, message: String::new() });
        }
        let verdict = gate::judge(&want, Some(&gate::Observed::of(live)), self.question.mode);
        self.blockers.extend(concerns::of_verdict(&found.id, action, &verdict));
        let (now, message) = match verdict {
            Verdict::Ready => (Now::Open, String::new()),
            Verdict::Waiting { message, .. } => (Now::Closed, message),
            Verdict::Failing(error) => (Now::Failing, concerns::told(&error)),
        };
        Some(GateAhead { awaits, now, message })
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

fn why(left: Left) -> &'static str {
    match left {
        Left::AsWanted => "it is as the release wants it",
        Left::CreateOnly => "it is there, and the release only creates it once",
        Left::Gone => "it is to be deleted, and not there",
        Left::Going => "it is being deleted already",
    }
}

#[cfg(test)]
mod tests;
