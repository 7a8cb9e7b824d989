//! Health and conditions of the ClusterOperators, and of the ClusterVersion, which stands beside them as `version`.

use super::{CLUSTER_VERSION, SeenClusterVersion, Snapshot, cluster_version};
use crate::cluster_version::status::conditions::AVAILABLE;
use crate::metrics::encoder::{Text, count};
use crate::object::condition::{Condition, ConditionStatus, find};

/// An operator, or the ClusterVersion.
struct Subject<'a> {
    name: &'a str,
    version: &'a str,
    conditions: &'a [Condition],
}

impl Subject<'_> {
    fn is_up(&self) -> (bool, &str) {
        let available = find(self.conditions, AVAILABLE);
        available.map_or((false, "NoAvailableCondition"), |c| (c.status == ConditionStatus::True, c.reason.as_str()))
    }
}

pub(super) fn write(text: &mut Text, snapshot: &Snapshot) {
    let Some(observation) = &snapshot.observation else { return };
    let seen = observation.cluster_version.as_deref();
    let subjects = subjects(snapshot, seen);
    let help = "Whether an operator, or the cluster as a whole (version), is available.";
    text.gauge("cluster_operator_up", help, |samples| {
        for subject in &subjects {
            let (up, reason) = subject.is_up();
            let labels = [("name", subject.name), ("version", subject.version), ("reason", reason)];
            samples.add(&labels, f64::from(u8::from(up)));
        }
        if seen.is_none() {
            let labels = [("name", CLUSTER_VERSION), ("version", ""), ("reason", "ClusterVersionNotFound")];
            samples.add(&labels, 0.0);
        }
    });
    let conditions = || subjects.iter().flat_map(|subject| subject.conditions.iter().map(move |c| (subject.name, c)));
    let help = "Conditions that are True (1) or False (0); those that are Unknown have no series.";
    text.gauge("cluster_operator_conditions", help, |samples| {
        for (name, condition) in conditions().filter(|(_, c)| c.status != ConditionStatus::Unknown) {
            samples.add(&labels(name, condition), value(condition));
        }
    });
    let help = "All conditions: 1 is True, 0 is False, -1 is Unknown.";
    text.gauge("cluster_version_operator_conditions", help, |samples| {
        for (name, condition) in conditions() {
            samples.add(&labels(name, condition), value(condition));
        }
    });
    let help = "How often a condition of an operator changed its status while this process watched it.";
    text.gauge("cluster_operator_condition_transitions", help, |samples| {
        for ((name, condition), number) in &snapshot.transitions {
            samples.add(&[("name", name), ("condition", condition)], count(*number));
        }
    });
}

fn subjects<'a>(snapshot: &'a Snapshot, seen: Option<&'a SeenClusterVersion>) -> Vec<Subject<'a>> {
    let of_cluster = seen.map(|seen| Subject {
        name: CLUSTER_VERSION,
        version: cluster_version::completed(&seen.status).map_or("", |entry| &entry.version),
        conditions: &seen.status.conditions,
    });
    let operators = snapshot.operators.iter().flat_map(|operators| operators.iter());
    let operators = operators.map(|(name, report)| Subject {
        name,
        version: report.version("operator").unwrap_or_default(),
        conditions: &report.conditions,
    });
    of_cluster.into_iter().chain(operators).collect()
}

fn labels<'a>(name: &'a str, condition: &'a Condition) -> [(&'static str, &'a str); 3] {
    [("name", name), ("condition", &condition.type_), ("reason", &condition.reason)]
}

fn value(condition: &Condition) -> f64 {
    match condition.status {
        ConditionStatus::True => 1.0,
        ConditionStatus::False => 0.0,
        ConditionStatus::Unknown => -1.0,
    }
}
