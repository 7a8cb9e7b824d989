//! From manifests in load order to the graph of a pass (payload-and-apply §3.1-§3.4, architecture §3 "Hand-over").
//!
//! Manifests are cut into groups, groups are laid out in stages, stages become nodes and edges. A group never holds
//! files of both folders of a release: our own manifests come first whatever their level, so that the hand-over to
//! the target's own program happens before anything else of the target is written.

use super::{Graph, Mode, Node};
use crate::payload::{Manifest, ObjectId, Origin};
use petgraph::graph::{DiGraph, NodeIndex};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Builds the graph of a pass. `manifests` are in load order, the own ones first; `own_deployment` is this program's
/// Deployment, which is moved to the end of the last own node wherever its file sorts. Cannot make a cycle: every
/// edge leads from an earlier node to a later one.
pub fn build(manifests: &[Arc<Manifest>], mode: Mode, own_deployment: Option<&ObjectId>) -> Graph {
    let groups = cut(manifests, own_deployment);
    let stages = match mode {
        Mode::Update => by_level(groups),
        Mode::Install | Mode::Reconcile => flatten(groups),
    };
    connect(stages)
}

/// Consecutive manifests that are applied in order.
#[derive(Debug)]
struct Group<'a> {
    origin: Origin,
    /// `None` for a file without a level, which shares a run with nobody.
    level: Option<&'a str>,
    /// The component, or the name of the file without a level.
    name: &'a str,
    /// A Job stands alone and is a barrier (§3.2).
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

    /// Whether `next` continues this group.
    fn takes(&self, next: &Group<'_>) -> bool {
        !self.job && !next.job && (self.origin, self.level, self.name) == (next.origin, next.level, next.name)
    }

    /// Whether `next` belongs to the same run of one level (§3.3).
    fn same_run(&self, next: &Group<'_>) -> bool {
        let levelled = self.level.is_some() && !self.job && !next.job;
        levelled && (self.origin, self.level) == (next.origin, next.level)
    }
}

/// Cuts the list wherever folder, level or component change and around Jobs; then puts the own Deployment last among
/// the own manifests.
fn cut<'a>(manifests: &'a [Arc<Manifest>], own_deployment: Option<&ObjectId>) -> Vec<Group<'a>> {
    let mut groups: Vec<Group<'a>> = Vec::new();
    let mut held: Option<Group<'a>> = None;
    for (position, manifest) in manifests.iter().enumerate() {
        let next = Group::of(position, manifest);
        let own = manifest.origin == Origin::Own && own_deployment == Some(&manifest.id);
        match (groups.last_mut(), &mut held) {
            (_, Some(first)) if own => first.manifests.push(position),
            (_, None) if own => held = Some(next),
            (Some(last), _) if last.takes(&next) => last.manifests.push(position),
            _ => groups.push(next),
        }
    }
    if let Some(deployment) = held {
        match groups.iter_mut().rfind(|group| group.origin == Origin::Own) {
            Some(last) => last.manifests.extend(deployment.manifests),
            None => groups.insert(0, deployment),
        }
    }
    groups
}

/// What is reached only after everything of the stage before it.
#[derive(Debug)]
struct Stage<'a> {
    kind: StageKind,
    groups: Vec<Group<'a>>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum StageKind {
    /// One group after the other; open for the next single group.
    Serial,
    /// All groups at once.
    Parallel,
    /// One Job, alone.
    Job,
}

/// §3.3: a level with several components is a stage of its own; neighbouring levels with one component each, and
/// files without a level, share a serial stage.
fn by_level(groups: Vec<Group<'_>>) -> Vec<Stage<'_>> {
    let mut runs: Vec<Vec<Group<'_>>> = Vec::new();
    for group in groups {
        match runs.last_mut() {
            Some(run) if run.last().is_some_and(|last| last.same_run(&group)) => run.push(group),
            _ => runs.push(vec![group]),
        }
    }
    let mut stages: Vec<Stage<'_>> = Vec::new();
    for run in runs {
        let kind = match run.as_slice() {
            [one] if one.job => StageKind::Job,
            [_] => StageKind::Serial,
            _ => StageKind::Parallel,
        };
        match stages.last_mut() {
            Some(stage) if kind == StageKind::Serial && stage.kind == kind => stage.groups.extend(run),
            _ => stages.push(Stage { kind, groups: run }),
        }
    }
    stages
}

/// §3.4: every group by itself, between Jobs everything at once.
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

/// Numbers the stages, names the nodes and draws the edges, all of them from an earlier node to a later one.
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
    let order: Vec<NodeIndex> = shape.node_indices().collect();
    Graph::assemble(nodes, shape, &order)
}

/// Ids already given away, with the number of times each was asked for.
#[derive(Default)]
struct Ids {
    taken: HashSet<String>,
    asked: HashMap<String, usize>,
}

impl Ids {
    fn unique(&mut self, id: String) -> String {
        let mut candidate = id.clone();
        let asked = self.asked.entry(id.clone()).or_insert(0);
        // A file may be called like a numbered id, hence the loop.
        loop {
            *asked += 1;
            if *asked > 1 {
                candidate = format!("{id}#{asked}");
            }
            if self.taken.insert(candidate.clone()) {
                return candidate;
            }
        }
    }
}

#[cfg(test)]
mod tests;
