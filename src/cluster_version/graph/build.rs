//! Builds the graph of a rollout from the manifests in load order.
//!
//! The list is cut into groups, groups are put into stages, and stages become nodes and edges. A group never contains files
//! of both folders of a release: the orchestrator's own manifests come first whatever their level, so that the target's
//! orchestrator has taken over before anything else of the target is written.

use super::{Graph, Mode, Node};
use crate::object::manifest::{Manifest, ObjectId, Origin};
use petgraph::graph::{DiGraph, NodeIndex};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Builds the graph of a rollout. `manifests` are in load order, the own ones first. `own_deployment` is this program's
/// Deployment. It becomes the last own manifest wherever its file sorts, since writing it replaces this process.
pub fn build(manifests: &[Arc<Manifest>], mode: Mode, own_deployment: Option<&ObjectId>) -> Graph {
    let groups = cut(manifests, own_deployment);
    let stages = match mode {
        Mode::Update => by_level(groups),
        Mode::Install | Mode::Reconcile => flatten(groups),
    };
    connect(stages)
}

/// Manifests that are applied in order.
#[derive(Debug)]
struct Group<'a> {
    origin: Origin,
    /// `None` for a file without a level.
    level: Option<&'a str>,
    /// The component, or the name of a file without a level.
    name: &'a str,
    /// A Job is alone in its group and a barrier in every mode: it starts after everything before it is done, and nothing
    /// after it starts before it is done.
    job: bool,
    manifests: Vec<usize>,
}

impl<'a> Group<'a> {
    fn of(position: usize, manifest: &'a Manifest) -> Self {
        let (level, name) = match manifest.run_level() {
            Some((level, component)) => (Some(level), component),
            None => (None, &*manifest.file),
        };
        let job = manifest.id.kind == "Job" && manifest.api_version == "batch/v1";
        Group { origin: manifest.origin, level, name, job, manifests: vec![position] }
    }

    /// Whether `next` belongs to this group.
    fn continues_with(&self, next: &Group<'_>) -> bool {
        !self.job && !next.job && (self.origin, self.level, self.name) == (next.origin, next.level, next.name)
    }

    /// Whether both groups are of the same run level.
    fn same_level(&self, next: &Group<'_>) -> bool {
        let comparable = self.level.is_some() && !self.job && !next.job;
        comparable && (self.origin, self.level) == (next.origin, next.level)
    }
}

/// Cuts the list wherever folder, level or component change, and around Jobs. The own Deployment becomes the last of the own
/// manifests.
fn cut<'a>(manifests: &'a [Arc<Manifest>], own_deployment: Option<&ObjectId>) -> Vec<Group<'a>> {
    let mut groups: Vec<Group<'a>> = Vec::new();
    let mut deployment: Option<Group<'a>> = None;
    for (position, manifest) in manifests.iter().enumerate() {
        let next = Group::of(position, manifest);
        let own = manifest.origin == Origin::Own && own_deployment == Some(&manifest.id);
        match (groups.last_mut(), &mut deployment) {
            (_, Some(first)) if own => first.manifests.push(position),
            (_, None) if own => deployment = Some(next),
            (Some(last), _) if last.continues_with(&next) => last.manifests.push(position),
            _ => groups.push(next),
        }
    }
    if let Some(deployment) = deployment {
        match groups.iter_mut().rfind(|group| group.origin == Origin::Own) {
            Some(last) => last.manifests.extend(deployment.manifests),
            None => groups.insert(0, deployment),
        }
    }
    groups
}

/// Groups that start only after the whole stage before them is done.
#[derive(Debug)]
struct Stage<'a> {
    kind: StageKind,
    groups: Vec<Group<'a>>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum StageKind {
    /// One group after the other.
    Serial,
    /// All groups at once.
    Parallel,
    /// A single Job.
    Job,
}

/// The stages of an update. A level with several components is a parallel stage. Neighbouring levels with one component
/// each, and files without a level, share a serial stage.
fn by_level(groups: Vec<Group<'_>>) -> Vec<Stage<'_>> {
    let mut levels: Vec<Vec<Group<'_>>> = Vec::new();
    for group in groups {
        match levels.last_mut() {
            Some(level) if level.last().is_some_and(|last| last.same_level(&group)) => level.push(group),
            _ => levels.push(vec![group]),
        }
    }
    let mut stages: Vec<Stage<'_>> = Vec::new();
    for level in levels {
        let kind = match level.as_slice() {
            [group] if group.job => StageKind::Job,
            [_] => StageKind::Serial,
            _ => StageKind::Parallel,
        };
        match stages.last_mut() {
            Some(stage) if kind == StageKind::Serial && stage.kind == kind => stage.groups.extend(level),
            _ => stages.push(Stage { kind, groups: level }),
        }
    }
    stages
}

/// The stages of an install or reconcile: everything between two Jobs is one parallel stage.
fn flatten(groups: Vec<Group<'_>>) -> Vec<Stage<'_>> {
    let mut stages: Vec<Stage<'_>> = Vec::new();
    for group in groups {
        let kind = if group.job { StageKind::Job } else { StageKind::Parallel };
        match stages.last_mut() {
            Some(stage) if kind == StageKind::Parallel && stage.kind == kind => stage.groups.push(group),
            _ => stages.push(Stage { kind, groups: vec![group] }),
        }
    }
    stages
}

/// Makes nodes and edges of the stages. Every edge leads from an earlier node to a later one.
fn connect(stages: Vec<Stage<'_>>) -> Graph {
    let mut nodes: Vec<Node> = Vec::new();
    let mut shape = DiGraph::new();
    let mut ids = Ids::default();
    let mut before: Vec<NodeIndex> = Vec::new();
    for (i, stage) in stages.into_iter().enumerate() {
        let mut ends = Vec::new();
        for group in stage.groups {
            let node = shape.add_node(());
            let id = ids.unique(format!("{}/{}/{}", i + 1, group.level.unwrap_or("-"), group.name));
            nodes.push(Node { id, stage: i + 1, manifests: group.manifests });
            let after = if stage.kind == StageKind::Parallel || ends.is_empty() { &before } else { &ends };
            for &earlier in after {
                shape.add_edge(earlier, node, ());
            }
            if stage.kind != StageKind::Parallel {
                ends.clear();
            }
            ends.push(node);
        }
        before = ends;
    }
    Graph::new(nodes, shape)
}

/// Makes ids unique by numbering repeated ones.
#[derive(Default)]
struct Ids {
    used: HashSet<String>,
    counts: HashMap<String, usize>,
}

impl Ids {
    fn unique(&mut self, id: String) -> String {
        let mut candidate = id.clone();
        let count = self.counts.entry(id.clone()).or_insert(0);
        // A file may be named like a numbered id, hence the loop.
        loop {
            *count += 1;
            if *count > 1 {
                candidate = format!("{id}#{count}");
            }
            if self.used.insert(candidate.clone()) {
                return candidate;
            }
        }
    }
}

#[cfg(test)]
mod tests;
