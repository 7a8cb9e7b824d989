//! What the daemon does.

use super::{Observation, Snapshot};
use crate::metrics::encoder::{Text, count, seconds};
use crate::metrics::process;
use jiff::Timestamp;

pub(super) fn write(text: &mut Text, snapshot: &Snapshot, now: Timestamp) {
    let help = "Who installed the cluster; always 1.";
    text.gauge("cluster_installer", help, |samples| {
        if let Some(installer) = &snapshot.installer {
            let labels = [("type", &installer.type_), ("version", &installer.version), ("invoker", &installer.invoker)];
            samples.add(&labels.map(|(name, value)| (name, value.as_str())), 1.0);
        }
    });
    let help = "1 while this process is the leader, 0 while it waits for the lease.";
    text.gauge("cluster_version_operator_leader", help, |samples| {
        samples.add(&[], if snapshot.observation.is_some() { 1.0 } else { 0.0 });
    });
    if let Some(observation) = &snapshot.observation {
        work(text, observation, now);
        counters(text, observation);
    }
    let help = "Failures to retrieve updates, by reason.";
    text.counter("cluster_version_operator_update_retrieval_failures_total", help, |samples| {
        for (reason, number) in &snapshot.retrieval.failures {
            samples.add(&[("reason", reason)], count(*number));
        }
    });
    let help = "Kinds of which changes are noticed at once (1), or late, because there is no watch now (0).";
    text.gauge("cluster_version_operator_kind_watched", help, |samples| {
        for (resource, watched) in &snapshot.kinds {
            samples.add(&[("resource", resource)], f64::from(u8::from(*watched)));
        }
    });
    process::requests(text, "cluster_version_operator_api_requests_total", &snapshot.requests);
    process::write(text, &snapshot.process);
}

fn work(text: &mut Text, observation: &Observation, now: Timestamp) {
    let help = "When the controller last took in what had happened and acted on it.";
    text.gauge("cluster_version_operator_last_turn_timestamp_seconds", help, |samples| {
        samples.add(&[], seconds(observation.turn));
    });
    let help = "How long a component took when it was last rolled out.";
    text.gauge("cluster_version_operator_component_duration_seconds", help, |samples| {
        for (component, duration) in &observation.durations {
            samples.add(&[("component", component)], *duration);
        }
    });
    let Some(rollout) = &observation.rollout else { return };
    let help = "How long a component has waited for an object until now.";
    text.gauge("cluster_version_operator_gate_wait_seconds", help, |samples| {
        for node in &rollout.waiting {
            let component = node.id.rsplit('/').next().unwrap_or_default();
            for object in &node.waiting {
                let waited = object.since.map_or(0.0, |since| (seconds(now) - seconds(since)).max(0.0));
                let labels = [
                    ("component", component),
                    ("kind", &object.kind),
                    ("namespace", &object.namespace),
                    ("name", &object.name),
                ];
                samples.add(&labels, waited);
            }
        }
    });
    let help = "Repairs within ten minutes of an object that another client keeps changing.";
    text.gauge("cluster_version_operator_conflict_repairs", help, |samples| {
        for conflict in &rollout.conflicts {
            samples.add(&[("object", &conflict.object), ("manager", &conflict.manager)], f64::from(conflict.repairs));
        }
    });
}

fn counters(text: &mut Text, observation: &Observation) {
    let counters = &observation.counters;
    let help = "Attempts to load a release that ended, by the last step and its outcome.";
    text.counter("cluster_version_operator_load_attempts_total", help, |samples| {
        for ((step, outcome), number) in &counters.loads {
            samples.add(&[("step", step), ("outcome", outcome)], count(*number));
        }
    });
    let help = "Objects that were brought back after another client had changed them, by kind.";
    text.counter("cluster_version_operator_repairs_total", help, |samples| {
        for (kind, number) in &counters.repairs {
            samples.add(&[("kind", kind)], count(*number));
        }
    });
}
