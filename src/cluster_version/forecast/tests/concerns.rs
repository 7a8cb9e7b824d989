//! What is told beside the steps.

use super::*;

#[test]
fn unhealthy_operator_blocks_and_outdated_one_does_not() {
    let live = |available: &str, degraded: &str| {
        let mut object = operator("net", "1.0.0");
        object["status"]["conditions"] = json!([
            {"type": "Available", "status": available, "reason": "R", "message": "says available"},
            {"type": "Degraded", "status": degraded, "reason": "R", "message": "says degraded"}]);
        live(object)
    };
    let table = [
        ("True", "False", None, GateState::Closed),
        ("False", "False", Some("ClusterOperatorNotAvailable"), GateState::Failing),
        ("True", "True", Some("ClusterOperatorDegraded"), GateState::Failing),
    ];
    for (available, degraded, reason, now) in table {
        let forecast = one(operator("net", "1.0.1"), live(available, degraded));
        assert_eq!(forecast.blockers.first().map(|b| b.reason.as_str()), reason, "{available} {degraded}");
        assert_eq!(forecast.is_blocked(), reason.is_some());
        let gate = forecast.stages[0].nodes[0].steps[0].gate.clone().unwrap();
        assert_eq!(gate.now, now);
        assert_eq!(gate.message.contains("says"), reason.is_some(), "{gate:?}");
    }
}

#[test]
fn upgradeable_false_blocks_minor_updates_and_lets_patches_pass() {
    let version = json!({"apiVersion": "config.openshift.io/v1", "kind": "ClusterVersion", "metadata": {"name": "version"},
        "spec": {"clusterID": "x", "channel": "fast"}, "status": {"desired": {"version": "4.0.0", "image": "i"},
        "availableUpdates": [{"version": "4.0.1", "image": "i1"}, {"version": "4.1.0", "image": "i2"}],
        "history": [{"state": "Completed", "startedTime": "2026-01-01T00:00:00Z", "completionTime": "2026-01-01T00:00:00Z",
        "version": "4.0.0", "image": "i", "verified": true}]}});
    let version: ClusterVersion = serde_json::from_value(version).unwrap();
    let refusal = NotUpgradeable { name: "net".into(), reason: "R".into(), message: "not now".into() };
    let state = ClusterState {
        operators: Read::Value(vec![refusal]),
        gates: Read::Value(BTreeMap::new()),
        acks: Read::Absent,
        deletions: Vec::new(),
        unplaced: Read::Absent,
    };
    let found = |version_of_target: &str, image: &str| {
        let target = Release { version: version_of_target.into(), image: image.into(), ..Release::default() };
        preconditions(&version, &state, &target, &ObjectId::default())
    };
    let [blocker] = &found("4.1.0", "i2")[..] else { panic!("{:?}", found("4.1.0", "i2")) };
    assert_eq!((blocker.cause, blocker.severity), (Cause::Precondition, Severity::Blocks));
    assert_eq!(blocker.reason, "ClusterOperatorUpgradeableNet");
    assert!(blocker.message.contains("net") && blocker.message.contains("not now"), "{blocker:?}");
    assert_eq!(found("4.0.1", "i1"), []);
    assert_eq!(found("3.9.0", "i3")[0].reason, "LowDesiredVersion");
    assert_eq!(found("4.0.1", ""), [], "which image is meant is not known");
}

#[test]
fn release_that_is_being_applied_is_told_with_what_becomes_of_another_one() {
    let told = |history: Value| {
        let version = json!({"apiVersion": "config.openshift.io/v1", "kind": "ClusterVersion", "metadata": {"name": "version"},
            "spec": {"clusterID": "x"}, "status": {"desired": {"version": "4.0.1", "image": "i"}, "history": history}});
        let version: ClusterVersion = serde_json::from_value(version).unwrap();
        conditions(&version).into_iter().map(|blocker| blocker.message).collect::<Vec<_>>().join(", ")
    };
    let entry = |state: &str, version: &str| {
        json!({"state": state, "startedTime": "2026-01-01T00:00:00Z", "completionTime": "2026-01-01T00:00:00Z",
            "version": version, "image": "i", "verified": true})
    };
    assert_eq!(told(json!([entry("Completed", "4.0.0")])), "");
    let update = told(json!([entry("Partial", "4.0.1"), entry("Completed", "4.0.0")]));
    assert!(update.contains("4.0.1 is still being applied") && update.contains("replaces it"), "{update}");
    let install = told(json!([entry("Partial", "4.0.0")]));
    assert!(install.contains("the install of 4.0.0 has not completed") && install.contains("waits until"), "{install}");
}

#[test]
fn webhooks_that_match_a_write_are_named() {
    let configuration = |name: &str, operation: &str, group: &str, resource: &str| {
        json!({"metadata": {"name": name}, "webhooks": [{"rules": [{"operations": [operation], "apiGroups": [group],
            "apiVersions": ["v1"], "resources": [resource]}]}]})
    };
    let forecast = one(map("a", "2"), live(map("a", "1")));
    let all = [
        configuration("delete", "DELETE", "", "configmaps"),
        configuration("exact", "UPDATE", "", "configmaps"),
        configuration("stars", "*", "*", "*"),
        configuration("with subresources", "UPDATE", "*", "*/*"),
        configuration("a subresource", "UPDATE", "", "configmaps/status"),
        configuration("create", "CREATE", "", "configmaps"),
        configuration("group", "UPDATE", "apps", "configmaps"),
        configuration("kind", "UPDATE", "", "secrets"),
    ];
    let plural = |_: &str, kind: &str| Some(format!("{}s", kind.to_lowercase()));
    let found = webhooks(&all, &forecast, plural);
    let names: Vec<_> = found.iter().map(|w| (w.name.as_str(), w.writes)).collect();
    assert_eq!(names, [("exact", 1), ("stars", 1), ("with subresources", 1)]);
    let mut gone = map("a", "1");
    gone["metadata"]["annotations"] = json!({"release.openshift.io/delete": "true"});
    let found = webhooks(&all, &one(gone, live(map("a", "1"))), plural);
    assert_eq!(found.iter().map(|w| w.name.as_str()).collect::<Vec<_>>(), ["delete", "stars"]);
}

#[test]
fn operator_without_versions_blocks() {
    let nothing = json!({"apiVersion": "config.openshift.io/v1", "kind": "ClusterOperator", "metadata": {"name": "a"}});
    for state in [LiveState::Absent, live(operator("a", "1.0.0"))] {
        let forecast = one(nothing.clone(), state);
        let [blocker] = &forecast.blockers[..] else { panic!("{:?}", forecast.blockers) };
        assert_eq!((blocker.reason.as_str(), blocker.cause), ("ClusterOperatorNoVersions", Cause::Refused));
        let gate = forecast.stages[0].nodes[0].steps[0].gate.clone().unwrap();
        assert_eq!((gate.awaits.as_str(), gate.now), ("to be available and not degraded", GateState::Failing));
    }
}

#[test]
fn newly_filtered_object_is_dropped() {
    // Without a cluster profile.
    let foreign =
        |name: &str, object: Value| SourceFile { name: name.to_owned(), bytes: object.to_string().into_bytes() };
    let before = release("1.0.0", vec![], vec![file("a.yaml", map("once", "1")), file("b.yaml", map("twice", "1"))]);
    let after = release(
        "1.0.1",
        vec![],
        vec![
            foreign("a.yaml", map("once", "1")),
            foreign("b.yaml", map("twice", "1")),
            file("c.yaml", map("twice", "1")),
        ],
    );
    assert_eq!(between(&before, &after).1, [ObjectId::new("", "ConfigMap", "ns", "once")]);
}

#[test]
fn definition_that_needs_a_newer_server_blocks() {
    let definition = |name: &str, rule: &str, version: &str| {
        let schema = json!({"openAPIV3Schema": {"type": "object", "description": version,
            "x-kubernetes-validations": [{"rule": rule}]}});
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{name}.example.com")},
            "spec": {"group": "example.com", "names": {"kind": name, "plural": name}, "scope": "Cluster",
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}]}})
    };
    let before = release("1.0.0", vec![], vec![file("a.yaml", definition("present", "isIP(self.a)", "1"))]);
    let after = release(
        "1.0.1",
        vec![],
        vec![
            file("a.yaml", definition("present", "isIP(self.a)", "2")),
            file("b.yaml", definition("older", "self.a.all(x, isSorted(x))", "2")),
            file("c.yaml", definition("newer", "isIP(self.a) && format.uri().validate(self.b).hasValue()", "2")),
        ],
    );
    let (forecast, _) = between(&before, &after);
    let needs = |blocker: &&Blocker| blocker.cause == Cause::ServerVersion && blocker.severity == Severity::Blocks;
    let blockers: Vec<_> =
        forecast.blockers.iter().filter(needs).map(|b| (b.object.as_str(), b.message.as_str())).collect();
    let message = "its CEL expressions need Kubernetes 1.32, and this API server is 1.30, which refuses it: \
        format.uri (1.32), isIP (1.31)";
    assert_eq!(blockers, [("customresourcedefinition.apiextensions.k8s.io \"newer.example.com\"", message)]);
}

/// Three nodes of the control plane, two of which may be away at once.
#[test]
fn a_limit_that_takes_the_quorum_of_etcd_is_warned_of() {
    let label = "node-role.kubernetes.io/master";
    let pool = |max: u32| {
        serde_json::from_value(json!({
            "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfigPool",
            "metadata": {"name": "master"},
            "spec": {"nodeSelector": {"matchLabels": {label: ""}}, "maxUnavailable": max},
        }))
        .unwrap()
    };
    let node = |name: &str| serde_json::from_value(json!({"metadata": {"name": name, "labels": {label: ""}}})).unwrap();
    let nodes = ["a", "b", "c"].map(node);
    assert_eq!(summary::quorum(&[pool(1)], &nodes), None);
    assert_eq!(summary::quorum(&[], &nodes), None);
    let warning = summary::quorum(&[pool(2)], &nodes).map(quorum).unwrap();
    assert_eq!((warning.severity, warning.reason.as_str()), (Severity::Warns, "EtcdQuorumAtRisk"));
    assert!(warning.message.ends_with("set spec.maxUnavailable to 1"), "{}", warning.message);
}
