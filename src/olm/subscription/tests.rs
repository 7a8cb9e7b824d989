//! Namespaces in their states, and what is decided for them.

use super::*;
use crate::object::condition::ConditionStatus;
use crate::olm::api::cluster_service_version::Phase;
use crate::olm::api::install_plan::InstallPlanPhase;
use crate::olm::api::subscription::{Approval, State, SubscriptionSpec, condition, reason};
use crate::olm::bundle::read;
use crate::olm::catalog::served::tests::content;
use crate::olm::resolve::answer::Outcome;
use crate::olm::subscription::forecast::Hypothesis;
use k8s_openapi::api::core::v1::ObjectReference;
use serde_json::{Value, json};
use std::collections::BTreeSet;

mod by_hand;
mod changes;
mod components;
mod forecast;
mod histories;
mod labels;
mod plans;
mod published;
mod review;
mod standing;
mod why_not;

const NOW: i64 = 1_700_000_000;

fn now() -> Timestamp {
    Timestamp::from_second(NOW).unwrap()
}

/// A namespace `ns` that sees catalog `main`.
struct Case {
    subscriptions: Vec<Arc<Subscription>>,
    csvs: Vec<Arc<Csv>>,
    groups: Vec<Arc<Group>>,
    plans: Vec<Arc<Plan>>,
    catalogs: BTreeMap<Id, Visible>,
    unpacked: Unpacked,
    refused: Option<String>,
}

fn hypothesis(case: &Case) -> Hypothesis {
    Hypothesis {
        namespace: "ns".to_owned(),
        global: "global".to_owned(),
        subscriptions: case.subscriptions.clone(),
        csvs: case.csvs.clone(),
        groups: case.groups.clone(),
        plans: case.plans.clone(),
        catalogs: case.catalogs.clone(),
    }
}

/// `a.v1` replaces nothing, `a.v2` replaces `a.v1`, all in channel `stable`. `b.v1` requires `K`, which `c.v1` provides.
fn blobs() -> Vec<Value> {
    let gvk = json!({"group": "g", "version": "v1", "kind": "K"});
    let bundle = |name: &str, more: Vec<Value>| {
        let (package, version) = name.split_once(".v").unwrap();
        let identity =
            json!({"type": "olm.package", "value": {"packageName": package, "version": format!("{version}.0.0")}});
        let properties: Vec<Value> = std::iter::once(identity).chain(more).collect();
        json!({"schema": "olm.bundle", "name": name, "package": package, "properties": properties,
            "image": format!("quay.io/test/{package}@sha256:{}", version.repeat(64))})
    };
    let package = |name: &str| json!({"schema": "olm.package", "name": name, "defaultChannel": "stable"});
    let channel = |package: &str, entries: Value| json!({"schema": "olm.channel", "package": package, "name": "stable", "entries": entries});
    vec![
        package("a"),
        channel("a", json!([{"name": "a.v1"}, {"name": "a.v2", "replaces": "a.v1"}])),
        bundle("a.v1", vec![]),
        bundle("a.v2", vec![]),
        package("b"),
        channel("b", json!([{"name": "b.v1"}])),
        bundle("b.v1", vec![json!({"type": "olm.gvk.required", "value": gvk})]),
        package("c"),
        channel("c", json!([{"name": "c.v1"}])),
        bundle("c.v1", vec![json!({"type": "olm.gvk", "value": gvk})]),
        package("d"),
        channel("d", json!([{"name": "d.v1"}])),
        bundle(
            "d.v1",
            vec![json!({"type": "olm.package.required", "value": {"packageName": "z", "versionRange": ">1.0.0"}})],
        ),
        json!({"schema": "olm.deprecations", "package": "a", "entries": [
            {"reference": {"schema": "olm.package"}, "message": "use e"},
            {"reference": {"schema": "olm.channel", "name": "stable"}, "message": "use fast"},
            {"reference": {"schema": "olm.bundle", "name": "a.v1"}, "message": "leaks"}]}),
    ]
}

fn healthy() -> Visible {
    let content = Some(Arc::new(content(&blobs()).0));
    Visible { uid: "c".to_owned(), health: Some(Ok(())), content, ..Visible::default() }
}

fn id(namespace: &str, name: &str) -> Id {
    (namespace.to_owned(), name.to_owned())
}

/// To channel `stable` of a package in catalog `main`.
fn subscription(package: &str) -> Subscription {
    let mut subscription = Subscription::new(
        &format!("sub-{package}"),
        SubscriptionSpec {
            name: package.to_owned(),
            channel: "stable".to_owned(),
            source: "main".to_owned(),
            source_namespace: "ns".to_owned(),
            ..SubscriptionSpec::default()
        },
    );
    subscription.metadata.namespace = Some("ns".to_owned());
    subscription.metadata.uid = Some(format!("uid-{package}"));
    subscription
}

fn csv(name: &str, phase: Phase) -> Csv {
    let (package, version) = name.split_once(".v").unwrap();
    let properties = json!({"properties": [
        {"type": "olm.package", "value": {"packageName": package, "version": format!("{version}.0.0")}}]});
    Csv { name: name.to_owned(), phase, properties: Some(properties.to_string()), ..Csv::default() }
}

fn replacing(name: &str, phase: Phase, replaces: &str) -> Csv {
    Csv { replaces: replaces.to_owned(), ..csv(name, phase) }
}

/// A plan with this ClusterServiceVersion, made for the Subscription to its package.
fn plan(generation: i64, csv: &str, phase: InstallPlanPhase) -> Plan {
    let package = csv.split_once(".v").unwrap().0;
    Plan {
        name: format!("install-{generation}"),
        uid: format!("plan-{generation}"),
        generation,
        approved: phase != InstallPlanPhase::RequiresApproval,
        phase,
        csvs: [csv.to_owned()].into(),
        packages: [(package.to_owned(), csv.to_owned())].into(),
        owners: [format!("uid-{package}")].into(),
        ..Plan::default()
    }
}

fn bundle(name: &str) -> Arc<Bundle> {
    let csv = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion", "metadata": {"name": name},
        "spec": {"install": {"strategy": "deployment", "spec": {"deployments": []}}}});
    Arc::new(read::manifests(name, &[csv.to_string()]).unwrap())
}

impl Case {
    fn of(packages: &[&str]) -> Case {
        Case {
            subscriptions: packages.iter().map(|package| Arc::new(subscription(package))).collect(),
            csvs: Vec::new(),
            groups: vec![Arc::default()],
            plans: Vec::new(),
            catalogs: [(id("ns", "main"), healthy())].into(),
            unpacked: Unpacked::Done(bundle("any")),
            refused: None,
        }
    }

    fn with_csv(mut self, csv: Csv) -> Case {
        self.csvs.push(Arc::new(csv));
        self
    }

    fn with_plan(mut self, plan: Plan) -> Case {
        self.plans.push(Arc::new(plan));
        self
    }

    fn change(mut self, at: usize, how: impl FnOnce(&mut Subscription)) -> Case {
        how(Arc::make_mut(&mut self.subscriptions[at]));
        self
    }

    fn catalog(mut self, namespace: &str, name: &str, health: Result<(), &str>) -> Case {
        let health = Some(health.map_err(ToOwned::to_owned));
        self.catalogs.insert(id(namespace, name), Visible { health, ..healthy() });
        self
    }

    fn facts(&self) -> Facts<'_> {
        Facts {
            namespace: "ns",
            subscriptions: &self.subscriptions,
            csvs: &self.csvs,
            groups: &self.groups,
            plans: &self.plans,
            catalogs: &self.catalogs,
            global: "global",
            refused: self.refused.as_deref(),
        }
    }

    fn decide(&self) -> Decision {
        let facts = self.facts();
        let gate = facts.gate();
        let found = match &gate {
            Gate::Open(inputs) => Some(inputs.answer(&ClusterVersions::default(), &Limits::default())),
            Gate::Closed(_) | Gate::Waiting => None,
        };
        facts.decide(&gate, found.as_ref(), &|_| self.unpacked.clone(), now())
    }

    /// Names of the ClusterServiceVersions of the plan that is made.
    fn planned(&self) -> Option<Vec<String>> {
        self.decide().create.first().map(|new| new.csvs().map(ToOwned::to_owned).collect())
    }

    /// The status of the first Subscription.
    fn status(&self) -> SubscriptionStatus {
        self.decide().statuses.into_iter().find(|(at, _)| *at == 0).map(|(_, status)| status).expect("it changes")
    }

    /// After the statuses are written.
    fn written(mut self) -> Case {
        for (at, status) in self.decide().statuses {
            Arc::make_mut(&mut self.subscriptions[at]).status = Some(status);
        }
        self
    }

    /// Reason and message of a condition of the first Subscription that is true.
    fn said(&self, type_: &str) -> Option<(String, String)> {
        let status = self.status();
        let found = status.conditions.iter().find(|it| it.type_ == type_ && it.status == ConditionStatus::True)?;
        Some((found.reason.clone(), found.message.clone()))
    }
}
