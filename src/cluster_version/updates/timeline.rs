//! The course of each installation and update: when its components began and ended, kept for the last ten, and what can be
//! said of it afterwards: how long each stage took, which components everything waited for, and what took longer than before.

use crate::cluster_version::progress::{ComponentRecord, LongestWait, NodeProgress, UpdateRecord};
use jiff::Timestamp;
use serde::Serialize;
use std::collections::BTreeMap;

/// Updates that are kept.
const KEPT: usize = 10;
/// About as many bytes of them are kept; of older ones the components that took least are left out.
const BYTES: usize = 64 << 10;
/// Bytes of an update and of a component without names, about.
const UPDATE_BYTES: usize = 260;
const COMPONENT_BYTES: usize = 70;
/// Two times that are this close are the same: each is rounded to a millisecond.
const SAME: u64 = 2;

/// A rollout as it is now.
#[derive(Debug)]
pub(crate) struct Course<'a> {
    /// `install` or `update`.
    pub mode: &'a str,
    /// The version that was completed before.
    pub from: &'a str,
    pub version: &'a str,
    pub image: &'a str,
    /// When this rollout began: another process of the daemon may have begun the update before.
    pub started: Timestamp,
    pub nodes: &'a [NodeProgress],
    pub completed: bool,
}

/// Keeps the records.
#[derive(Debug, Default)]
pub(crate) struct Timeline {
    /// Without the present rollout.
    before: Vec<UpdateRecord>,
    /// When the present rollout began.
    rollout: Option<Timestamp>,
    /// What the process before was waiting for when it ended: for being replaced, most of the time.
    waits: Vec<NodeProgress>,
    records: Vec<UpdateRecord>,
}

impl Timeline {
    /// As a process before has recorded them, newest first. `nodes`: the rollout that it left.
    pub(crate) fn recorded(records: &[UpdateRecord], nodes: &[NodeProgress]) -> Timeline {
        let waits = nodes.iter().filter(|node| !node.waiting.is_empty()).cloned().collect();
        Timeline { before: Vec::new(), rollout: None, waits, records: records.to_vec() }
    }

    /// Newest first.
    pub(crate) fn records(&self) -> &[UpdateRecord] {
        &self.records
    }

    pub(crate) fn observe(&mut self, course: &Course<'_>, now: Timestamp) {
        let is_over = |record: &UpdateRecord| record.image == course.image && record.finished.is_some();
        // Once it has completed, what is applied again is a repair.
        if self.records.first().is_some_and(is_over) {
            return;
        }
        if self.rollout != Some(course.started) {
            self.before.clone_from(&self.records);
            self.rollout = Some(course.started);
            if let Some(record) = self.before.first_mut().filter(|record| record.image == course.image) {
                end_waits(record, &std::mem::take(&mut self.waits), course.started);
            }
        }
        let mut records = self.before.clone();
        let goes_on = records.first().is_some_and(|record| record.image == course.image);
        if !goes_on {
            records.insert(
                0,
                UpdateRecord {
                    mode: course.mode.to_owned(),
                    from: course.from.to_owned(),
                    version: course.version.to_owned(),
                    image: course.image.to_owned(),
                    started: course.started,
                    ..UpdateRecord::default()
                },
            );
            records.truncate(KEPT);
        }
        if let Some(record) = records.first_mut() {
            record.rollouts = record.rollouts.saturating_add(1);
            record.components = components(record, course.nodes);
            record.finished = course.completed.then_some(now);
        }
        thin(&mut records);
        self.records = records;
    }
}

/// The components of an update, with what the present rollout says of them.
fn components(record: &UpdateRecord, nodes: &[NodeProgress]) -> Vec<ComponentRecord> {
    let mut before: BTreeMap<&str, &ComponentRecord> =
        record.components.iter().map(|component| (component.id.as_str(), component)).collect();
    let begun = nodes.iter().filter_map(|node| {
        let component = before.remove(node.id.as_str());
        match (of_node(node, record.started), component) {
            (Some(present), Some(before)) => Some(joined(before, present)),
            (present, before) => present.or_else(|| before.cloned()),
        }
    });
    let mut components: Vec<ComponentRecord> = begun.collect();
    // The configuration of the cluster may have excluded them meanwhile.
    components.extend(record.components.iter().filter(|component| before.contains_key(component.id.as_str())).cloned());
    components
}

/// A process that has been replaced did not see the end of what it waited for.
fn end_waits(record: &mut UpdateRecord, waits: &[NodeProgress], now: Timestamp) {
    for component in &mut record.components {
        let mut ended = waits.iter().filter(|node| node.id == component.id).filter_map(|node| node.wait(now));
        component.longest = component.longest.take().into_iter().chain(ended.next()).max_by_key(|wait| wait.millis);
    }
}

/// A wait under way is not part of it: the record would change with each moment.
fn of_node(node: &NodeProgress, start: Timestamp) -> Option<ComponentRecord> {
    let since = |time: Timestamp| u64::try_from(time.duration_since(start).as_millis()).unwrap_or_default();
    Some(ComponentRecord {
        id: node.id.clone(),
        begin: since(node.started?),
        end: node.finished.map(since),
        retries: node.retries,
        longest: node.longest.clone().filter(|wait| wait.millis > 0),
    })
}

/// A component that was in place before and still is keeps its times: a rollout that begins again looks at all of them.
fn joined(before: &ComponentRecord, present: ComponentRecord) -> ComponentRecord {
    let untouched = present.retries == 0 && present.longest.is_none();
    if before.end.is_some() && untouched {
        return before.clone();
    }
    let waits = before.longest.clone().into_iter().chain(present.longest);
    ComponentRecord {
        begin: before.begin.min(present.begin),
        end: present.end,
        retries: before.retries.saturating_add(present.retries),
        longest: waits.max_by_key(|wait| wait.millis),
        id: present.id,
    }
}

/// Leaves out what took least, from the oldest update on, until there is room. The present one is kept whole as long as any.
fn thin(records: &mut [UpdateRecord]) {
    let mut excess = records.iter().map(size).sum::<usize>().saturating_sub(BYTES);
    for record in records.iter_mut().rev() {
        if excess == 0 {
            return;
        }
        let path: Vec<String> = critical_path(record).into_iter().map(|step| step.id).collect();
        let mut order: Vec<(bool, u64, usize)> = record
            .components
            .iter()
            .enumerate()
            .map(|(at, component)| (path.contains(&component.id), component.took(), at))
            .collect();
        order.sort_unstable();
        let mut out = Vec::new();
        for (_, _, at) in order {
            let Some(component) = record.components.get(at).filter(|_| excess > 0) else { break };
            excess = excess.saturating_sub(component_size(component));
            out.push(at);
        }
        record.components_left_out += out.len();
        let mut at = 0..;
        record.components.retain(|_| at.next().is_none_or(|at| !out.contains(&at)));
    }
}

fn size(record: &UpdateRecord) -> usize {
    let names = record.image.len() + record.version.len() + record.from.len();
    UPDATE_BYTES + names + record.components.iter().map(component_size).sum::<usize>()
}

fn component_size(component: &ComponentRecord) -> usize {
    let wait = component.longest.as_ref().map_or(0, |wait| COMPONENT_BYTES + wait.object.len() + wait.reason.len());
    COMPONENT_BYTES + component.id.len() + wait
}

impl ComponentRecord {
    /// Milliseconds from its beginning to its end; none if it did not end.
    pub(crate) fn took(&self) -> u64 {
        self.end.unwrap_or(self.begin).saturating_sub(self.begin)
    }

    pub(crate) fn name(&self) -> &str {
        self.id.splitn(3, '/').nth(2).unwrap_or(&self.id)
    }

    fn stage(&self) -> &str {
        self.id.split('/').next().unwrap_or_default()
    }
}

/// What is told of an update.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Told {
    pub mode: String,
    pub from: String,
    pub version: String,
    pub image: String,
    /// `Completed`, `Partial` (another release replaced it) or `Running`.
    pub state: &'static str,
    pub started: Timestamp,
    pub finished: Option<Timestamp>,
    /// From the start to the end, or to what was known last.
    pub seconds: f64,
    /// Their seconds, and those of `lastCheck`, add up to those of the update.
    pub stages: Vec<StageTime>,
    /// From the end of the last component until all objects were seen in place.
    pub last_check: f64,
    /// The components that everything else waited for, first to last; their seconds add up like those of the stages.
    pub critical_path: Vec<Step>,
    /// What was waited for longest, longest first, at most five.
    pub longest_waits: Vec<Wait>,
    /// All components, longest first.
    pub components: Vec<ComponentTime>,
    pub components_left_out: usize,
    /// Failed attempts at manifests.
    pub retries: u64,
    pub rollouts: u32,
    /// As the history has them.
    pub accepted_risks: String,
    /// Against the update before it that was completed.
    pub comparison: Option<Comparison>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct StageTime {
    pub stage: String,
    pub seconds: f64,
    /// Components in it.
    pub components: usize,
}

/// A component of the critical path, with the seconds that it added.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Step {
    pub id: String,
    pub seconds: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Wait {
    pub component: String,
    pub object: String,
    pub reason: String,
    pub seconds: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct ComponentTime {
    pub id: String,
    /// Since the update started.
    pub begin: f64,
    /// `None` if it did not end.
    pub seconds: Option<f64>,
    pub retries: u32,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Comparison {
    pub version: String,
    pub seconds: f64,
    /// Components that took notably more or less, greatest difference first, at most five.
    pub components: Vec<Difference>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Difference {
    pub component: String,
    pub seconds: f64,
    pub before: f64,
}

fn seconds(millis: u64) -> f64 {
    // Below 2^53 for longer than any cluster lives.
    millis as f64 / 1000.0
}

/// What is told of each, newest first.
pub(crate) fn told(records: &[UpdateRecord]) -> Vec<Told> {
    let told = records.iter().enumerate().map(|(at, record)| {
        let earlier = records.get(at + 1..).unwrap_or_default();
        // How long an installation takes says nothing about an update.
        let before = earlier.iter().find(|before| before.finished.is_some() && before.mode == record.mode);
        Told {
            state: match (record.finished, at) {
                (Some(_), _) => "Completed",
                (None, 0) => "Running",
                (None, _) => "Partial",
            },
            comparison: before.and_then(|before| compare(record, before)),
            ..of_record(record)
        }
    });
    told.collect()
}

fn of_record(record: &UpdateRecord) -> Told {
    let end = known_end(record);
    let stages = stages(record);
    let last = record.components.iter().filter_map(|component| component.end).max().unwrap_or_default();
    let mut waits: Vec<Wait> = record.components.iter().filter_map(wait).collect();
    waits.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    waits.truncate(5);
    let time = |component: &ComponentRecord| ComponentTime {
        id: component.id.clone(),
        begin: seconds(component.begin),
        seconds: component.end.map(|_| seconds(component.took())),
        retries: component.retries,
    };
    let mut components: Vec<ComponentTime> = record.components.iter().map(time).collect();
    components.sort_by(|a, b| b.seconds.unwrap_or(f64::MAX).total_cmp(&a.seconds.unwrap_or(f64::MAX)));
    Told {
        mode: record.mode.clone(),
        from: record.from.clone(),
        version: record.version.clone(),
        image: record.image.clone(),
        started: record.started,
        finished: record.finished,
        seconds: seconds(end),
        last_check: seconds(record.finished.map_or(0, |_| end.saturating_sub(last))),
        stages,
        critical_path: critical_path(record),
        longest_waits: waits,
        components,
        components_left_out: record.components_left_out,
        retries: record.components.iter().map(|component| u64::from(component.retries)).sum(),
        rollouts: record.rollouts,
        ..Told::default()
    }
}

/// Milliseconds from the start to the end, or to the last that is known.
fn known_end(record: &UpdateRecord) -> u64 {
    let ends = record.components.iter().map(|component| component.end.unwrap_or(component.begin)).max();
    let finished = record.finished.map(|end| end.duration_since(record.started).as_millis());
    finished.and_then(|millis| u64::try_from(millis).ok()).unwrap_or_default().max(ends.unwrap_or_default())
}

fn wait(component: &ComponentRecord) -> Option<Wait> {
    let LongestWait { object, reason, millis } = component.longest.clone()?;
    Some(Wait { component: component.name().to_owned(), object, reason, seconds: seconds(millis) })
}

/// A stage lasts from the end of those before it to the end of its last component.
fn stages(record: &UpdateRecord) -> Vec<StageTime> {
    let mut ends: Vec<(&str, u64, usize)> = Vec::new();
    for component in &record.components {
        let end = component.end.unwrap_or(component.begin);
        match ends.last_mut().filter(|(stage, ..)| *stage == component.stage()) {
            Some((_, last, count)) => (*last, *count) = (end.max(*last), *count + 1),
            None => ends.push((component.stage(), end, 1)),
        }
    }
    let mut before = 0;
    let times = ends.into_iter().map(|(stage, end, components)| {
        let took = end.saturating_sub(before);
        before = end.max(before);
        StageTime { stage: stage.to_owned(), seconds: seconds(took), components }
    });
    times.collect()
}

/// From the component that ended last back to the first: before each stands the one whose end let it begin.
pub(crate) fn critical_path(record: &UpdateRecord) -> Vec<Step> {
    let ended = |at: &usize| record.components.get(*at).and_then(|component| component.end);
    // What is under way ends after all the others.
    let running = record.components.iter().rposition(|component| component.end.is_none());
    let last = (0..record.components.len()).filter(|at| ended(at).is_some()).max_by_key(|at| (ended(at), *at));
    let mut next = running.or(last);
    let mut path = Vec::new();
    while let Some((at, component)) = next.and_then(|at| Some((at, record.components.get(at)?))) {
        let begin = component.begin;
        next = (0..at)
            .filter(|before| ended(before).is_some_and(|end| end <= begin + SAME))
            .max_by_key(|before| (ended(before), record.components.get(*before).map(ComponentRecord::took)));
        let from = next.and_then(|before| ended(&before)).unwrap_or_default();
        let end = component.end.unwrap_or_else(|| known_end(record));
        path.push(Step { id: component.id.clone(), seconds: seconds(end.saturating_sub(from)) });
    }
    path.reverse();
    path
}

fn compare(record: &UpdateRecord, before: &UpdateRecord) -> Option<Comparison> {
    record.finished?;
    let earlier = by_name(before);
    let differences = by_name(record).into_iter().filter_map(|(name, took)| {
        let before = *earlier.get(name)?;
        let difference = took.abs_diff(before);
        // Less than that is chance.
        let notable = difference >= 1000 && difference.saturating_mul(5) >= before;
        notable.then(|| Difference { component: name.to_owned(), seconds: seconds(took), before: seconds(before) })
    });
    let mut components: Vec<Difference> = differences.collect();
    components.sort_by(|a, b| (b.seconds - b.before).abs().total_cmp(&(a.seconds - a.before).abs()));
    components.truncate(5);
    Some(Comparison { version: before.version.clone(), seconds: seconds(known_end(before)), components })
}

/// Milliseconds of each component; of one with several nodes, such as one at two run levels, those of all.
fn by_name(record: &UpdateRecord) -> BTreeMap<&str, u64> {
    let mut times: BTreeMap<&str, u64> = BTreeMap::new();
    for component in record.components.iter().filter(|component| component.end.is_some()) {
        let time = times.entry(component.name()).or_default();
        *time = time.saturating_add(component.took());
    }
    times
}

/// A component that is under way for longer than in the updates before.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Slow {
    pub component: String,
    pub seconds: f64,
    /// Of the updates before, newest first.
    pub before: Vec<f64>,
}

/// Seconds more than that are no news.
const SLOW_AFTER: f64 = 10.0;

/// The components under way that take notably longer than they ever did.
pub(crate) fn slow(nodes: &[NodeProgress], records: &[UpdateRecord], now: Timestamp) -> Vec<Slow> {
    let updates = records.iter().filter(|record| record.finished.is_some() && record.mode == "update");
    let updates: Vec<BTreeMap<&str, u64>> = updates.map(by_name).collect();
    let earlier = |name: &str| -> Vec<f64> {
        updates.iter().filter_map(|times| times.get(name)).map(|millis| seconds(*millis)).collect()
    };
    let under_way = nodes.iter().filter(|node| node.finished.is_none());
    under_way
        .filter_map(|node| {
            let component = node.id.splitn(3, '/').nth(2)?.to_owned();
            let took = now.duration_since(node.started?).as_secs_f64();
            let before = earlier(&component);
            let longest = before.iter().copied().reduce(f64::max)?;
            (took > longest * 1.5 + SLOW_AFTER).then_some(Slow { component, seconds: took, before })
        })
        .collect()
}

#[cfg(test)]
mod tests;
