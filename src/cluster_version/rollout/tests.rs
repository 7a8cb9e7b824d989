//! The rollout as tables of transitions, and its promises over random events.

mod afterwards;
mod properties;
mod run;
mod simulation;
mod transitions;

use super::verdict::Unready;
use super::*;
use crate::cluster_version::graph;
use crate::cluster_version::status::drained::Drained;
use crate::cluster_version::status::failure::Reason;
use crate::merge::inject::Source;
use crate::object::manifest::Origin;
use crate::release::load;
use proptest::prelude::*;
use serde_json::{Value, json};

impl Rollout {
    /// What is wrong now, without anything that explains it.
    fn failure(&self) -> Option<UpdateError> {
        self.failures.failure_beside(&Drained::new())
    }
}

impl View {
    /// The same.
    pub(crate) fn failure(&self) -> Option<UpdateError> {
        self.failure_beside(&Drained::new())
    }
}

fn any_mode() -> impl Strategy<Value = Mode> {
    prop_oneof![Just(Mode::Install), Just(Mode::Update), Just(Mode::Reconcile)]
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_000_000 + seconds).unwrap()
}

fn manifest(file: &str, version: &str, kind: &str, name: &str, annotations: Value) -> Arc<Manifest> {
    let object = json!({"apiVersion": version, "kind": kind,
        "metadata": {"name": name, "namespace": "ns", "annotations": annotations}});
    load::manifests_of(Origin::Release, file, &serde_json::to_vec(&object).unwrap()).unwrap().remove(0)
}

/// By a short name for its kind: `config`, `deployment`, `operator`, `definition`, `namespace`, `job`, `widget`.
fn object(file: &str, kind: &str, name: &str) -> Arc<Manifest> {
    let (version, kind) = match kind {
        "deployment" => ("apps/v1", "Deployment"),
        "operator" => ("config.openshift.io/v1", "ClusterOperator"),
        "definition" => ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
        "namespace" => ("v1", "Namespace"),
        "job" => ("batch/v1", "Job"),
        "widget" => ("example.com/v1", "Widget"),
        _ => ("v1", "ConfigMap"),
    };
    manifest(file, version, kind, name, json!({}))
}

/// A definition by its name.
fn definition(name: &str) -> Arc<Manifest> {
    manifest("0000_10_a_1", "apiextensions.k8s.io/v1", "CustomResourceDefinition", name, json!({}))
}

fn plan(manifests: Vec<Arc<Manifest>>, mode: Mode) -> Plan {
    Plan {
        release: Release::default(),
        mode,
        graph: graph::build::build(&manifests, mode, None),
        own_deployment: ObjectId::new("apps", "Deployment", "ns", "own"),
        hand_over: false,
        unfinished_pass: false,
        manifests,
    }
}

fn applied() -> Outcome {
    Outcome { applied: Some(Applied::Created), ..Outcome::default() }
}

fn judged(unready: Option<Unready>) -> Outcome {
    Outcome {
        judged: Some(Judged { unready, as_desired: true }),
        applied: Some(Applied::Unchanged),
        ..Outcome::default()
    }
}

fn unready(error: UpdateError) -> Option<Unready> {
    Some(Unready { reason: error.reason.to_string(), message: error.message.clone(), error })
}

fn waiting() -> Option<Unready> {
    unready(UpdateError { effect: Effect::Wait, ..UpdateError::new(Reason::Other("NotYet".into()), "not yet") })
}

fn failed(cause: Cause) -> Outcome {
    let failure = Failure { error: UpdateError::new(Reason::Other("Broken".into()), "it is broken"), cause };
    Outcome { failure: Some(failure), ..Outcome::default() }
}
