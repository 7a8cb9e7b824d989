use super::*;

/// Each kind of object, gone and changed, for a webhook and for an API.
#[test]
fn what_somebody_removes_or_changes_comes_back_and_is_told() {
    let api = ["Failed/APIServiceResourceIssue", "Pending/APIServiceResourcesNeedReinstall"];
    let webhook = ["InstallReady/InstallWaiting"];
    let of_pods = [
        ("Service", "server-service"),
        ("Role", "server-service-cert"),
        ("RoleBinding", "server-service-cert"),
        ("RoleBinding", "server-service-auth-reader"),
        ("ClusterRoleBinding", "server-service-system:auth-delegator"),
    ];
    let of_api = of_pods.iter().copied().chain([("APIService", "v1.gears.example.com")]);
    let of_webhook = of_pods.iter().copied().chain([("ValidatingWebhookConfiguration", "check.example.com-")]);
    let all = of_api.map(|it| (it, true)).chain(of_webhook.map(|it| (it, false)));
    for ((kind, name), is_api) in all {
        for removed in [true, false] {
            let csv = if is_api { with_api("a") } else { with_webhooks("a", json!([validating()])) };
            let mut cluster = Cluster::served(csv);
            let wanted = cluster.object(kind, name).clone();
            let is = |it: &Value| it["kind"] == kind && it["metadata"]["name"] == wanted["metadata"]["name"];
            if removed {
                cluster.components.retain(|it| !is(it));
            } else {
                let object = cluster.components.iter_mut().find(|it| is(it)).unwrap();
                match kind {
                    "Service" => object["spec"]["selector"] = json!({"app": "other"}),
                    "Role" => object["rules"] = json!([]),
                    "APIService" => object["spec"]["service"]["name"] = json!("other"),
                    "ValidatingWebhookConfiguration" => object["webhooks"][0]["failurePolicy"] = json!("Ignore"),
                    _ => object["subjects"] = json!([]),
                }
            }
            let lines = cluster.settle(&mut at(20));
            let phases: Vec<&str> = lines.iter().filter_map(|it| it.strip_prefix("a: ")).collect();
            let expected: &[&str] = if is_api { &api } else { &webhook };
            assert!(phases.starts_with(expected), "{kind} {removed}: {lines:#?}");
            assert_eq!(phases.last().unwrap(), &"Succeeded/InstallSucceeded", "{kind}");
            let found = cluster.object(kind, name);
            for key in ["spec", "rules", "subjects", "webhooks"] {
                let without_default = |it: &Value| {
                    let mut it = it.clone();
                    if let Some(webhook) = it.pointer_mut("/0").and_then(Value::as_object_mut) {
                        webhook.retain(|key, _| key != "failurePolicy");
                    }
                    it
                };
                assert_eq!(without_default(&found[key]), without_default(&wanted[key]), "{kind} {key}");
            }
            assert!(!lines.iter().any(|it| it == "write Deployment server"), "no pod is made anew: {lines:#?}");
        }
    }
}

#[test]
fn conversion_that_somebody_changes_comes_back() {
    let mut cluster = Cluster::served(with_conversion("a"));
    let wanted = cluster.definitions["widgets.example.com"].conversion.clone();
    cluster.definitions.get_mut("widgets.example.com").unwrap().conversion = json!({"strategy": "None"});
    let expected = "InstallReady/InstallWaiting: installing: CustomResourceDefinition widgets.example.com differs: spec.conversion";
    assert_eq!(cluster.step("a", 20), expected);
    cluster.settle(&mut at(20));
    assert_eq!(cluster.definitions["widgets.example.com"].conversion, wanted);
    assert_eq!(cluster.csvs[0]["status"]["phase"], "Succeeded");
}

/// Without its Service, its certificate or its roles it would not become ready.
#[test]
fn installation_begins_anew_where_something_is_gone_that_pods_need() {
    for removed in ["Service", "Secret"] {
        let mut cluster = Cluster::served(with_webhooks("a", json!([validating()])));
        cluster.csv_mut("a")["status"]["phase"] = json!("Installing");
        let what = match removed {
            "Secret" => {
                cluster.certificates.get_mut(SECRET).unwrap().stored = Stored::Absent;
                format!("Secret {SECRET}: the Secret is missing")
            }
            _ => {
                cluster.components.retain(|it| it["kind"] != removed);
                "Service shop/server-service is missing".to_owned()
            }
        };
        assert_eq!(cluster.step("a", 11), format!("InstallReady/InstallWaiting: installing: {what}"));
    }
}

/// Without pods that answer, they would refuse what others write.
#[test]
fn webhooks_of_an_operator_that_must_not_run_go_with_its_deployments() {
    let mut csv = with_webhooks("a", json!([validating(), webhook("set.example.com", "MutatingAdmissionWebhook")]));
    csv["spec"]["customresourcedefinitions"] =
        json!({"owned": [{"name": "widgets.example.com", "version": "v1", "kind": "Widget"}]});
    let mut cluster = Cluster::served(csv);
    // Of another operator.
    let mut theirs = cluster.object("ValidatingWebhookConfiguration", "").clone();
    merge(&mut theirs["metadata"], &json!({"name": "theirs", "labels": {"olm.owner": "other"}}));
    cluster.components.push(theirs);
    let apis = json!({"olm.providedAPIs": "Widget.v1.example.com"});
    cluster.others = vec![json!({"metadata": {"name": "g2", "namespace": "mall", "annotations": apis},
        "spec": {"targetNamespaces": ["shop"], "staticProvidedAPIs": true}})];
    let lines = cluster.settle(&mut at(20));
    assert!(lines.contains(&"a: Failed/InterOperatorGroupOwnerConflict".to_owned()), "{lines:#?}");
    assert!(cluster.deployments.is_empty(), "{lines:#?}");
    let named = |kind: &str| {
        let of_kind = cluster.components.iter().filter(|it| it["kind"] == kind);
        of_kind.map(|it| it["metadata"]["name"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(named("ValidatingWebhookConfiguration"), ["theirs"]);
    assert_eq!(named("MutatingWebhookConfiguration"), [""; 0]);
    assert_eq!(named("Service"), ["server-service"], "what leads nowhere is no danger");
    assert_eq!(lines.iter().filter(|it| it.starts_with("delete ")).count(), 2, "{lines:#?}");
}

fn refused(phase: &str, reason: &str, name: &str) -> Cluster {
    let mut cluster = Cluster::served(with_webhooks("a", json!([validating()])));
    cluster.csv_mut("a")["status"]["phase"] = json!(phase);
    cluster.csv_mut("a")["status"]["reason"] = json!(reason);
    cluster.refused.insert(name.to_owned(), "no".to_owned());
    cluster
}

#[test]
fn objects_that_the_server_does_not_take_are_told_and_tried_again() {
    let failed = "Failed/InstallComponentFailed: install strategy failed: no";
    for (phase, reason) in [("InstallReady", "x"), ("Failed", "InstallComponentFailed")] {
        let mut cluster = refused(phase, reason, "Service shop/server-service");
        cluster.components.retain(|it| it["kind"] != "Service");
        assert_eq!(cluster.step("a", 11), failed, "{phase}");
        assert_eq!(cluster.decide("a", 11).components.len(), 1, "{phase}");
    }
    for (phase, reason) in [("Installing", "x"), ("Failed", "InstallComponentFailed")] {
        let name = refused(phase, reason, "x").object("ValidatingWebhookConfiguration", "")["metadata"]["name"].clone();
        let mut cluster = refused(phase, reason, &format!("ValidatingWebhookConfiguration {}", name.as_str().unwrap()));
        cluster.components.retain(|it| it["kind"] != "ValidatingWebhookConfiguration");
        assert_eq!(cluster.step("a", 11), failed, "{phase}");
        assert_eq!(cluster.decide("a", 11).components.len(), 1, "{phase}");
        // Once it is taken, it is well.
        cluster.refused.clear();
        cluster.settle(&mut at(11));
        assert_eq!(cluster.csvs[0]["status"]["phase"], "Succeeded", "{phase}");
    }
    let mut cluster = refused("InstallReady", "x", &format!("Secret shop/{SECRET}"));
    cluster.certificates.get_mut(SECRET).unwrap().stored = Stored::Absent;
    assert_eq!(cluster.step("a", 11), failed);
}

/// Since minute 20, where the pods are ready since minute `ready` or not at all.
fn away(phase: &str, ready: Option<i64>) -> Cluster {
    let mut cluster = Cluster::served(with_api("a"));
    let service = cluster.services.get_mut("v1.gears.example.com").unwrap();
    service.is_available = false;
    (service.message, service.since) = ("MissingEndpoints: none".to_owned(), Some(at(20)));
    let live = Arc::make_mut(&mut cluster.deployments.get_mut("server").unwrap().object);
    match ready {
        None => live["status"] = waiting(),
        Some(minute) => live["status"]["conditions"][0]["lastTransitionTime"] = json!(at(minute).to_string()),
    }
    cluster.csv_mut("a")["status"]["phase"] = json!(phase);
    cluster.csv_mut("a")["status"]["lastTransitionTime"] = json!(at(20).to_string());
    cluster
}

/// As where a node is drained.
#[test]
fn api_whose_pods_move_changes_no_phase_for_five_minutes() {
    let moving = away("Succeeded", None);
    let decision = moving.decide("a", 24);
    assert_eq!((decision.status, decision.next), (None, Some(at(25))));
    let step = moving.step("a", 25);
    assert!(step.starts_with("Failed/ComponentUnhealthy: installing: waiting for deployment server"), "{step}");
    // API servers need a moment to notice that they are there.
    let back = away("Succeeded", Some(22));
    let until = at(22) + SignedDuration::from_secs(30);
    let decision = back.decide_at("a", until - SignedDuration::from_secs(1));
    assert_eq!((decision.status, decision.next), (None, Some(until)));
    let failed =
        "Failed/APIServiceInstallFailed: APIService v1.gears.example.com is not available: MissingEndpoints: none";
    assert_eq!(back.step("a", 23), failed);
    assert_eq!(away("Succeeded", Some(5)).step("a", 21), failed, "pods that are ready all the time are no excuse");
}

#[test]
fn api_that_does_not_come_fails_the_installation() {
    let cluster = away("Installing", Some(20));
    let what = "APIService v1.gears.example.com is not available: MissingEndpoints: none";
    assert_eq!(cluster.step("a", 24), format!("Installing/InstallWaiting: installing: {what}"));
    assert_eq!(cluster.decide("a", 24).next, Some(at(25)));
    assert_eq!(cluster.step("a", 25), format!("Failed/APIServiceInstallFailed: {what}"));
    let mut failed = away("Failed", Some(20));
    failed.csv_mut("a")["status"]["reason"] = json!("APIServiceInstallFailed");
    failed.csv_mut("a")["status"]["message"] = json!(what);
    assert_eq!(failed.step("a", 30), "", "it stays so");
    failed.services.get_mut("v1.gears.example.com").unwrap().is_available = true;
    assert_eq!(failed.step("a", 30), "Succeeded/InstallSucceeded: install strategy completed with no errors");
}
