//! What else works in the cluster: plans that bring what operators need, and the controllers of Kubernetes.

use super::checks;
use super::specs::{self, CRASHES};
use super::store::{KINDS, Key, Store, is_going, label, owners, text};
use crate::random::SeededRandom;
use cvo::testing::operator_process::Part;
use serde_json::{Value, json};
use std::collections::BTreeSet;

pub(super) const CSV: &str = "ClusterServiceVersion";

pub(super) struct World {
    pub store: Store,
    pub random: SeededRandom,
    /// uids of ClusterServiceVersions that plans have made, which bring what these need.
    pub planned: BTreeSet<String>,
    /// uids of ClusterServiceVersions that somebody has changed by hand.
    pub touched: BTreeSet<String>,
    /// Kinds whose writes the server turns down at present.
    pub refuses: Option<&'static str>,
    /// Nothing goes wrong any more, and users do nothing.
    pub calm: bool,
}

impl World {
    pub(super) fn empty(random: SeededRandom, store: Store) -> World {
        World { store, random, planned: BTreeSet::new(), touched: BTreeSet::new(), refuses: None, calm: false }
    }

    /// With some namespaces, and nothing in them.
    pub(super) fn new(random: SeededRandom, store: Store) -> World {
        let mut world = World::empty(random, store);
        for name in specs::NAMESPACES.into_iter().take(3).chain(["kube-system"]) {
            let namespace = specs::namespace(&world.random, name);
            world.create("Namespace", "", &namespace);
        }
        let config = json!({"apiVersion": "operators.coreos.com/v1", "kind": "OLMConfig", "metadata": {"name": "cluster"}, "spec": {}});
        world.create("OLMConfig", "", &config);
        world
    }

    /// The ClusterServiceVersions that are no copies, and the groups, for whoever looks for what goes wrong.
    pub(super) fn told(&self) -> String {
        let (mut lines, store) = (Vec::new(), &self.store);
        for (namespace, name, csv) in store.all(CSV).filter(|(_, _, csv)| label(csv, "olm.copiedFrom").is_none()) {
            let [phase, reason, since] =
                ["phase", "reason", "lastTransitionTime"].map(|key| text(csv, &format!("/status/{key}")));
            let (uid, before) = (text(csv, "/metadata/uid"), text(csv, "/spec/replaces"));
            let going = if is_going(csv) { ", being deleted" } else { "" };
            lines.push(format!("{namespace}/{name} {uid}: {phase} {reason} since {since}, replaces {before:?}{going}"));
        }
        for (namespace, name, group) in store.all("OperatorGroup") {
            lines.push(format!("group {namespace}/{name}: {} {}", group["spec"], group["status"]));
        }
        lines.join("\n")
    }

    pub(super) fn create(&mut self, kind: &str, namespace: &str, object: &Value) {
        let _done = self.store.create(kind, namespace, object);
    }

    /// What its plan brings beside a version.
    pub(super) fn carry_out(&mut self, csv: &Value) {
        let (namespace, name) = (text(csv, "/metadata/namespace"), text(csv, "/metadata/name"));
        let owned = csv.pointer("/spec/customresourcedefinitions/owned").and_then(Value::as_array);
        for definition in owned.into_iter().flatten().map(|it| text(it, "/name")) {
            self.create("CustomResourceDefinition", "", &specs::definition(definition));
            let key = format!("operatorframework.io/installed-alongside-{namespace}-{name}");
            let alongside = format!("{namespace}/{name}");
            self.store.change("CustomResourceDefinition", "", definition, |it| {
                it["metadata"]["annotations"][key] = alongside.into();
            });
        }
        for (kind, object) in specs::permissions(csv) {
            let of = text(&object, "/metadata/name").to_owned();
            self.create(kind, namespace, &object);
            if kind != "ServiceAccount" {
                // Somebody may have changed it.
                self.store.change(kind, namespace, &of, |it| {
                    let wanted = object.as_object().cloned().unwrap_or_default();
                    for (key, value) in wanted.into_iter().filter(|(key, _)| key != "metadata") {
                        it[key] = value;
                    }
                    it["metadata"]["labels"] = object["metadata"]["labels"].clone();
                    it["metadata"]["ownerReferences"] = object["metadata"]["ownerReferences"].clone();
                });
            }
            if kind == "ServiceAccount" {
                let (owner, uid) = (specs::owner(csv), text(csv, "/metadata/uid").to_owned());
                self.store.change(kind, namespace, &of, |it| {
                    if owners(it).all(|known| known != uid) {
                        let mut all = it["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
                        all.push(owner);
                        it["metadata"]["ownerReferences"] = all.into();
                    }
                });
            }
        }
    }

    /// All plans are carried out to the end.
    fn carry_out_all(&mut self) {
        let all = self.store.all(CSV).map(|(_, _, csv)| csv.clone());
        let all: Vec<_> = all.filter(|csv| self.is_planned(csv) && !is_going(csv)).collect();
        all.iter().for_each(|csv| self.carry_out(csv));
    }

    pub(super) fn is_planned(&self, csv: &Value) -> bool {
        self.planned.contains(text(csv, "/metadata/uid"))
    }

    /// The controllers of Kubernetes do some of what there is to do, or all of it once it is calm.
    pub(super) fn kubernetes(&mut self) -> anyhow::Result<()> {
        for key in self.store.orphans() {
            if self.calm || self.random.chance(70) {
                self.collect(&key)?;
            }
        }
        if self.calm || self.random.chance(50) {
            self.store.empty_namespaces();
        }
        let deployments: Vec<_> =
            self.store.all("Deployment").map(|(of, name, it)| (of.to_owned(), name.to_owned(), it.clone())).collect();
        for (namespace, name, it) in deployments {
            let is_told = it["status"]["observedGeneration"] == it["metadata"]["generation"];
            let is_bad = it["spec"]["template"]["spec"]["containers"][0]["image"] == CRASHES;
            let what = match (self.calm, is_bad) {
                (_, true) => "late",
                (true, false) => "ready",
                (false, false) => self.random.pick(&["ready", "ready", "ready", "away", "late"]),
            };
            if self.calm || !is_told && self.random.chance(60) {
                self.report(&namespace, &name, what);
            }
        }
        self.establish();
        if self.calm || self.random.chance(5) {
            self.carry_out_all();
        }
        Ok(())
    }

    fn collect(&mut self, (kind, namespace, name): &Key) -> anyhow::Result<()> {
        let kind = KINDS[*kind];
        if kind == "Deployment" {
            checks::collected(&self.store, (namespace, name), &self.touched)?;
        }
        let _done = self.store.delete(kind, namespace, name, "");
        Ok(())
    }

    fn establish(&mut self) {
        let definitions: Vec<_> =
            self.store.all("CustomResourceDefinition").map(|(_, name, _)| name.to_owned()).collect();
        for name in definitions {
            if self.calm || self.random.chance(60) {
                let is = |type_: &str| json!({"type": type_, "status": "True", "message": ""});
                let patch = json!({"status": {"conditions": [is("Established"), is("NamesAccepted")]}});
                let _done = self.store.patch("CustomResourceDefinition", ("", &name), &patch, Part::Status);
            }
        }
        let services: Vec<_> = self.store.all("APIService").map(|(_, name, _)| name.to_owned()).collect();
        for name in services {
            if self.calm || self.random.chance(50) {
                let status = if self.calm || self.random.chance(85) { "True" } else { "False" };
                let known = self
                    .store
                    .get("APIService", "", &name)
                    .and_then(|it| it.pointer("/status/conditions/0/status").cloned());
                if known.as_ref().and_then(Value::as_str) != Some(status) {
                    let patch = json!({"status": {"conditions": [{"type": "Available", "status": status, "reason": "R",
                        "message": "m", "lastTransitionTime": json!(self.store.now)}]}});
                    let _done = self.store.patch("APIService", ("", &name), &patch, Part::Status);
                }
            }
        }
    }

    /// The controller of Deployments says how one is.
    pub(super) fn report(&mut self, namespace: &str, name: &str, what: &str) {
        let Some(live) = self.store.get("Deployment", namespace, name) else { return };
        let replicas = live["spec"]["replicas"].as_i64().unwrap_or(1);
        let condition =
            |type_: &str, status: &str, reason: &str| json!({"type": type_, "status": status, "reason": reason});
        let (updated, condition) = match what {
            "ready" => (replicas, condition("Available", "True", "MinimumReplicasAvailable")),
            "late" => (0, condition("Progressing", "False", "ProgressDeadlineExceeded")),
            _ => (replicas, condition("Available", "False", "MinimumReplicasUnavailable")),
        };
        let status = json!({"status": {"observedGeneration": live["metadata"]["generation"], "replicas": replicas,
            "updatedReplicas": updated, "conditions": [condition]}});
        let _done = self.store.patch("Deployment", (namespace, name), &status, Part::Status);
    }

    /// What nobody will mend by himself is put right, so that everything that can run does.
    pub(super) fn calm_down(&mut self) {
        self.calm = true;
        self.refuses = None;
    }

    /// Whether a definition is there that serves its version.
    pub(super) fn is_defined(&self, name: &str) -> bool {
        self.store.get("CustomResourceDefinition", "", name).is_some_and(|it| !is_going(it))
    }
}
