//! A cluster as the tools read it, in which nothing is wrong, and what each of them says of it.

use super::*;

/// All that is read of a cluster.
pub(super) struct World {
    pub(super) state: State,
    pub(super) parts: Parts,
    /// The namespace of the operator `network`, which is waited for.
    pub(super) network: Namespace,
}

pub(super) fn of<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

pub(super) const DAEMON: &str = "system:serviceaccount:openshift-cluster-version:cluster-version-operator";

/// The daemon's Deployment.
pub(super) fn own(replicas: i64) -> Value {
    json!({"metadata": {"namespace": "openshift-cluster-version", "name": "cluster-version-operator"},
        "spec": {"replicas": replicas, "template": {"spec": {"serviceAccountName": "cluster-version-operator"}}},
        "status": {"readyReplicas": replicas}})
}

pub(super) fn ago(seconds: i64) -> Timestamp {
    now() - SignedDuration::from_secs(seconds)
}

pub(super) fn ready_node(name: &str) -> Node {
    of(json!({"metadata": {"name": name}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}))
}

/// Stored by the API server so long ago, by a clock that is so far ahead.
pub(super) fn renewal(stored: i64, ahead: i64) -> Renewal {
    let renewed = Some(ago(stored) + SignedDuration::from_secs(ahead));
    Renewal {
        holder: "h".into(),
        renewed,
        stored: Some(ago(stored)),
        period: SignedDuration::from_secs(34),
        not_written: None,
    }
}

pub(super) fn webhook(kind: &str, name: &str, more: Value) -> Value {
    let rule =
        json!({"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"], "scope": "*"});
    let mut hook = json!({"name": format!("{name}.example.com"), "rules": [rule]});
    hook.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({"kind": kind, "metadata": {"name": name}, "webhooks": [hook]})
}

/// A cluster that is well.
pub(super) fn world() -> World {
    let attempt = |what: &str, namespace: &str| Attempt {
        what: what.into(),
        namespace: namespace.into(),
        vital: true,
        answer: Answer::Accepted,
    };
    let own_namespace = "openshift-cluster-version";
    let related = json!([{"group": "", "resource": "namespaces", "name": "network"}]);
    let mut network = operator("network", &[condition("Available", "True", "2026-11-21T12:00:00Z", "", "")]);
    network.status.as_mut().unwrap().related_objects = of(related);
    let parts = Parts {
        nodes: vec![ready_node("n0"), ready_node("n1")],
        renewed: ["n0", "n1"].map(|name| (name.to_owned(), renewal(5, 0))).into(),
        answering: Some(BTreeSet::new()),
        deployment: Deployment::Found(own(1)),
        clocks: Some((now(), now())),
        attempts: vec![
            attempt("update lease openshift-cluster-version/version", own_namespace),
            attempt("update the status of clusterversion version", ""),
            attempt("have another pod in namespace openshift-cluster-version", own_namespace),
        ],
        ..Parts::default()
    };
    let deployment = json!({"metadata": {"namespace": "network", "name": "network-operator"}, "spec": {"replicas": 1, "selector": {}, "template": {}}});
    let pod = json!({"metadata": {"namespace": "network", "name": "network-operator-1"},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
    let network_pods = Namespace {
        complete: true,
        deployments: of(json!([deployment])),
        pods: of(json!([pod])),
        ..Namespace::default()
    };
    World { state: State { operators: Read::Value(vec![network]), ..running() }, parts, network: network_pods }
}

impl World {
    /// The daemon does not renew its lease.
    pub(super) fn silent(&mut self) {
        let holder = of_daemon("openshift-cluster-version", "version");
        // Two causes make one silence.
        self.parts.silences.retain(|silence| !silence.lease.contains("cluster-version"));
        self.parts.silences.extend(silence(holder, Some(&renewal(66, 0)), now()));
    }

    /// The API server answers writes of the daemon so.
    pub(super) fn refuse(&mut self, all: bool, code: u16, message: &str) {
        for attempt in self.parts.attempts.iter_mut().filter(|it| all || !it.what.contains("clusterversion")) {
            attempt.answer = Answer::Refused { code, message: message.into() };
        }
    }

    pub(super) fn condition(&mut self, type_: &str, status: &str, reason: &str, message: &str) {
        let version = self.state.cluster_version.as_mut().unwrap();
        let conditions = &mut version.status.as_mut().unwrap().conditions;
        conditions.retain(|condition| condition.type_ != type_);
        conditions.push(of(super::condition(type_, status, "2026-11-21T12:00:00Z", reason, message)));
    }

    pub(super) fn pod(&mut self, name: &str, owner: Option<&str>, status: Value) {
        let owners: Vec<Value> = owner
            .iter()
            .map(|name| json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "uid": "u"}))
            .collect();
        let pod =
            json!({"metadata": {"namespace": "network", "name": name, "ownerReferences": owners}, "status": status});
        self.network.pods.push(of(pod));
    }

    /// What each tool says.
    pub(super) fn said(mut self) -> Said {
        let mut found = self.network.troubles(None, now());
        // It is waited for.
        if found.is_empty() {
            found.push(silent("network", &[("network".to_owned(), &self.network)]));
        }
        self.state.details = vec![Detail { object: "ClusterOperator network".into(), causes: found, more: 0 }];
        self.state.silences.clone_from(&self.parts.silences);
        let own = |silence: &&mut Silence| silence.lease.contains("cluster-version");
        if let Some(silence) = self.state.silences.iter_mut().find(own) {
            silence.causes = daemon::reasons(&self.parts);
        }
        let view = View::of(&self.state, now());
        let mut doctor = doctor::of_status(&view);
        doctor.extend(health::troubles(&self.parts));
        let plan: Vec<Blocker> = forecast::conditions(self.state.cluster_version.as_ref().unwrap())
            .into_iter()
            .chain(forecast::findings(health::troubles(&self.parts)))
            .collect();
        Said {
            doctor,
            status: render(&self.state, usize::MAX, false, now()),
            page: serde_json::to_string(&view).unwrap(),
            plan: plan.into_iter().map(|it| format!("{}: {}", it.object, it.message)).collect(),
        }
    }
}

pub(super) struct Said {
    pub(super) doctor: Vec<Trouble>,
    pub(super) status: String,
    pub(super) page: String,
    pub(super) plan: Vec<String>,
}
