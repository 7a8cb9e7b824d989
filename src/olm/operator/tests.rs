//! One namespace with its ClusterServiceVersions, and what is done for one of them.

mod config;
mod copies;
mod drift;
mod given;
mod groups;
mod hostile;
mod object;
mod phases;
mod published;
mod required;
mod roles;
mod serving;
mod shown;
mod tenancy;
mod writes;

use super::copies::book::Copies;
use super::deployment::Live;
use super::deployment::config::{Config, Proxy, Subscriber};
use super::group::targets;
use super::requirements::{Account, ApiService, Definition, World};
use super::rights::{Binding, Rights};
use super::tenancy::{Tenancy, Verdict};
use super::{Decision, Facts, Group, Tenant, component, decide, is_member, step, tenancy as tenants};
use crate::olm::api::cluster_service_version::{ClusterServiceVersion, Phase};
use crate::olm::api::operator_condition::OperatorCondition;
use crate::olm::api::operator_group::OperatorGroup;
use jiff::Timestamp;
use k8s_openapi::api::rbac::v1::{PolicyRule, RoleRef, Subject};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

fn typed<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn at(minute: i64) -> Timestamp {
    Timestamp::from_second(minute * 60).unwrap()
}

/// What there is. A version is called `a`, its successor `b`, and so on.
struct Cluster {
    csvs: Vec<Value>,
    groups: Vec<Value>,
    /// Beside `shop`, without labels.
    namespaces: Vec<&'static str>,
    /// Groups of other namespaces.
    others: Vec<Value>,
    /// uids of copies by namespace.
    copies: BTreeMap<String, String>,
    /// Namespaces with another version of the name.
    taken: BTreeSet<String>,
    deployments: BTreeMap<String, Live>,
    definitions: BTreeMap<String, Definition>,
    services: BTreeMap<String, ApiService>,
    accounts: BTreeMap<(String, String), Account>,
    /// Rules of the account `server`, in the namespace `shop` or, where that is empty, everywhere.
    rules: Vec<(&'static str, PolicyRule)>,
    conditions: Vec<Value>,
    subscribers: Vec<Subscriber>,
    proxy: Proxy,
    failing: BTreeMap<String, String>,
    kubernetes: Result<semver::Version, String>,
    components: Vec<Value>,
    refused: BTreeMap<String, String>,
    certificates: BTreeMap<String, super::serving::certificate::Known>,
    /// Of the namespace `shop`.
    labels: BTreeMap<String, String>,
}

fn rule(verbs: &[&str], resources: &[&str]) -> PolicyRule {
    typed(json!({"apiGroups": [""], "resources": resources, "verbs": verbs}))
}

fn entry(name: &str) -> Value {
    json!({"name": name, "label": {"tier": "one"}, "spec": {
        "replicas": 1, "selector": {"matchLabels": {"app": name}},
        "template": {"metadata": {"labels": {"app": name}, "annotations": {"own": "kept"}},
            "spec": {"containers": [{"name": "c", "image": "i:1"}]}},
    }})
}

/// A version with one Deployment, in a phase for a reason since minute 10.
fn csv(name: &str, phase: &str, reason: &str) -> Value {
    json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
        "metadata": {"name": name, "namespace": "shop", "uid": format!("uid-{name}"), "resourceVersion": "1"},
        "spec": {
            "displayName": name, "version": "1.0.0",
            "installModes": [{"type": "OwnNamespace", "supported": true}, {"type": "AllNamespaces", "supported": true}],
            "install": {"strategy": "deployment", "spec": {"deployments": [entry("server")]}},
        },
        "status": {"phase": phase, "reason": reason, "message": "m", "lastTransitionTime": at(10).to_string(),
            "conditions": [{"phase": phase, "reason": reason}]},
    })
}

impl Cluster {
    /// With the first of these versions; all of them have an OperatorGroup that selects its own namespace.
    fn new(csvs: impl IntoIterator<Item = Value>) -> Cluster {
        let group = json!({"metadata": {"name": "g", "namespace": "shop"}, "spec": {"targetNamespaces": ["shop"]}});
        Cluster {
            csvs: csvs.into_iter().collect(),
            groups: vec![group],
            namespaces: Vec::new(),
            others: Vec::new(),
            copies: BTreeMap::new(),
            taken: BTreeSet::new(),
            deployments: BTreeMap::new(),
            definitions: BTreeMap::new(),
            services: BTreeMap::new(),
            accounts: BTreeMap::new(),
            rules: Vec::new(),
            conditions: Vec::new(),
            subscribers: Vec::new(),
            proxy: Proxy::default(),
            failing: BTreeMap::new(),
            kubernetes: Ok(semver::Version::new(1, 33, 2)),
            components: Vec::new(),
            refused: BTreeMap::new(),
            certificates: BTreeMap::new(),
            labels: BTreeMap::new(),
        }
    }

    /// What its labels and annotations lack is there already.
    fn marked(mut self) -> Cluster {
        for at in 0..self.csvs.len() {
            let name = self.csvs[at]["metadata"]["name"].as_str().unwrap().to_owned();
            if let Some(patch) = self.decide(&name, 0).patch {
                merge(&mut self.csvs[at], &patch);
            }
        }
        self.named()
    }

    /// The group names the APIs of its members.
    fn named(mut self) -> Cluster {
        let all: Vec<ClusterServiceVersion> = self.csvs.iter().cloned().map(typed).collect();
        let apis: Vec<String> = all.iter().flat_map(super::apis::provided).collect();
        if let Some(group) = self.groups.first_mut().filter(|_| !apis.is_empty()) {
            group["metadata"]["annotations"] = json!({"olm.providedAPIs": apis.join(",")});
        }
        self
    }

    /// The Deployment of this version as it wants it, with this status.
    fn deployed(mut self, name: &str, status: Value) -> Cluster {
        let csv: ClusterServiceVersion = typed(self.csv(name).clone());
        for entry in &csv.spec.install.spec.as_ref().unwrap().deployments {
            let config = Config::of(name, &self.subscribers, &self.proxy);
            let mut object = super::deployment::desired(&csv, entry, &config);
            object["metadata"]["uid"] = json!(format!("uid-{}", entry.name));
            object["metadata"]["resourceVersion"] = json!("9");
            object["metadata"]["generation"] = json!(1);
            object["status"] = status.clone();
            self.deployments.insert(entry.name.clone(), Live { object: Arc::new(object), ..Live::default() });
        }
        self
    }

    fn csv(&self, name: &str) -> &Value {
        self.csvs.iter().find(|it| it["metadata"]["name"] == name).unwrap()
    }

    fn csv_mut(&mut self, name: &str) -> &mut Value {
        self.csvs.iter_mut().find(|it| it["metadata"]["name"] == name).unwrap()
    }

    /// One step, at minute `now`.
    fn decide(&self, name: &str, now: i64) -> Decision {
        self.decide_at(name, at(now))
    }

    /// One step.
    fn decide_at(&self, name: &str, now: Timestamp) -> Decision {
        self.decided(name, |facts| step(facts, now))
    }

    /// As many steps as are told by one write.
    fn steps_at(&self, name: &str, now: Timestamp) -> Decision {
        self.decided(name, |facts| decide(facts, now))
    }

    fn decided(&self, name: &str, decide: impl FnOnce(&Facts<'_>) -> Decision) -> Decision {
        let csvs: Vec<ClusterServiceVersion> = self.csvs.iter().cloned().map(typed).collect();
        let siblings = csvs.iter().map(|it| (it.metadata.name.as_deref().unwrap(), it)).collect();
        let groups: Vec<OperatorGroup> = self.groups.iter().cloned().map(typed).collect();
        let namespaces = self.namespaces.iter().chain(&["shop"]);
        let namespaces = namespaces.map(|name| ((*name).to_owned(), self.labels.clone())).collect();
        let group = |it| -> Group<'_> {
            let object: &OperatorGroup = it;
            Group { object, targets: targets(&object.spec, &namespaces) }
        };
        let groups: Vec<Group<'_>> = groups.iter().map(group).collect();
        let others: Vec<OperatorGroup> = self.others.iter().cloned().map(typed).collect();
        let others: Vec<Group<'_>> = others.iter().map(group).collect();
        let csv = csvs.iter().find(|it| it.metadata.name.as_deref() == Some(name)).unwrap();
        let members = csvs.iter().filter(|csv| is_member(csv, &groups)).collect();
        let own = groups.first().map(|group| tenants::Tenant { group, members, is_whole: true });
        let other = |group| tenants::Tenant { group, members: Vec::new(), is_whole: false };
        let all: Vec<_> = own.into_iter().chain(others.iter().map(other)).collect();
        let tenancy = Tenancy::new(&all);
        let apis = groups.first().map_or(Verdict::Free, |group| tenancy.verdict(group, csv));
        let tenant = Tenant {
            apis,
            namespaces: &namespaces,
            copies: Copies { uids: self.copies.clone(), taken: self.taken.clone() },
        };
        let conditions: Vec<OperatorCondition> = self.conditions.iter().cloned().map(typed).collect();
        let conditions = conditions.iter().map(|it| (it.metadata.name.as_deref().unwrap(), it)).collect();
        let rights = self.rights();
        let world = World {
            kubernetes: self.kubernetes.as_ref().map_err(String::as_str),
            definitions: &self.definitions,
            services: &self.services,
            served: &BTreeSet::from([("apps".to_owned(), "v1".to_owned(), "Deployment".to_owned())]),
            accounts: &self.accounts,
            rights: &rights,
        };
        let facts = Facts {
            csv,
            tenant: &tenant,
            siblings: &siblings,
            groups: &groups,
            world: &world,
            deployments: &self.deployments.iter().map(|(name, it)| (name.as_str(), it)).collect(),
            conditions: &conditions,
            subscribers: &self.subscribers,
            proxy: &self.proxy,
            failing: &self.failing,
            components: &component::Known::new(self.components.iter().cloned().map(Arc::new)),
            refused: &self.refused,
            certificates: &self.certificates,
        };
        decide(&facts)
    }

    fn rights(&self) -> Rights {
        let role: RoleRef = typed(json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "0"}));
        let roles: Vec<RoleRef> =
            (0..self.rules.len()).map(|number| RoleRef { name: number.to_string(), ..role.clone() }).collect();
        let subjects: Vec<Subject> = typed(json!([{"kind": "ServiceAccount", "name": "server", "namespace": "shop"}]));
        let bindings = self.rules.iter().zip(&roles).map(|((namespace, _), role)| Binding {
            namespace,
            role,
            subjects: &subjects,
        });
        Rights::new(bindings, |_, name| Some([self.rules[name.parse::<usize>().unwrap()].1.clone()].into()))
    }

    /// Phase, reason and message that it goes to; nothing where it stays as it is.
    fn step(&self, name: &str, now: i64) -> String {
        let decision = self.decide(name, now);
        assert_eq!(decision.patch, None, "it is marked");
        match decision.status {
            Some((states, _)) => match states.as_slice() {
                [] => String::new(),
                [state] => format!("{:?}/{}: {}", state.phase, state.reason, state.message),
                _ => panic!("{states:?} are one step"),
            },
            None => String::new(),
        }
    }
}

fn merge(object: &mut Value, patch: &Value) {
    match (object, patch) {
        (Value::Object(object), Value::Object(patch)) => {
            for (key, value) in patch {
                merge(object.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (object, patch) => *object = patch.clone(),
    }
}

/// Of a Deployment that is ready.
fn ready() -> Value {
    json!({"observedGeneration": 1, "replicas": 1, "updatedReplicas": 1,
        "conditions": [{"type": "Available", "status": "True"}]})
}

/// Of one whose pods are not there yet.
fn waiting() -> Value {
    json!({"observedGeneration": 1, "conditions": [{"type": "Available", "status": "False", "reason": "Few"}]})
}

/// Of one that has given up.
fn late() -> Value {
    json!({"observedGeneration": 1, "conditions": [{"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}]})
}
