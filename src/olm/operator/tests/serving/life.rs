use super::*;

/// Pods answer before anything leads to them.
#[test]
fn webhook_leads_to_pods_that_are_ready() {
    let mut cluster = Cluster::serving(with_webhooks("a", json!([validating()])));
    let lines = cluster.settle(&mut at(10));
    let configuration = cluster.object("ValidatingWebhookConfiguration", "")["metadata"]["name"].as_str().unwrap();
    let expected = [
        "a: marked",
        "a: InstallReady/AllRequirementsMet",
        "create Service shop/server-service",
        "create Role shop/server-service-cert",
        "create ClusterRoleBinding server-service-system:auth-delegator",
        "create RoleBinding kube-system/server-service-auth-reader",
        "make for server-service.shop",
        "create RoleBinding shop/server-service-cert",
        "store, new",
        "write Deployment server",
        "a: Installing/InstallSucceeded",
        &format!("create ValidatingWebhookConfiguration {configuration}"),
        "a: Succeeded/InstallSucceeded",
    ];
    assert_eq!(lines, expected);
    let hash = crate::olm::operator::serving::certificate::hash(&pem("made-600"));
    let deployment = &cluster.deployments["server"].object;
    assert_eq!(deployment.pointer("/spec/template/metadata/annotations/olmcahash").unwrap(), &hash);
    assert_eq!(cluster.certificates[SECRET].metadata["annotations"]["olmcahash"], hash.as_str());
    let status = &cluster.csvs[0]["status"];
    let rotation: Timestamp = typed(status["certsRotateAt"].clone());
    assert_eq!(rotation, at(10) + SignedDuration::from_hours(24 * 729));
    assert_eq!(status["certsLastUpdated"], at(10).to_string());
    assert_eq!(cluster.settle(&mut at(20)), [""; 0], "nothing is written twice");
}

#[test]
fn certificate_is_made_for_all_hosts_in_the_name_of_the_provider() {
    let mut csv = with_webhooks("a", json!([validating()]));
    csv["spec"]["provider"] = json!({"name": "Example", "url": "https://example.com"});
    csv["status"]["phase"] = json!("InstallReady");
    let decision = Cluster::serving(csv).marked().decide("a", 10);
    let hosts = ["server-service.shop", "server-service.shop.svc", "server-service.shop.svc.cluster.local"];
    let (secret, organization) = (SECRET.to_owned(), "Example".to_owned());
    assert_eq!(decision.certificates, [Step::Make { secret, hosts: hosts.map(str::to_owned).into(), organization }]);
}

#[test]
fn certificate_that_is_there_is_used() {
    let mut cluster = Cluster::serving(with_webhooks("a", json!([validating()])));
    let mut known = stored(&["given"], at(10) + SignedDuration::from_hours(1000));
    known.metadata = Arc::new(json!({"name": SECRET, "namespace": "shop", "resourceVersion": "1"}));
    cluster.certificates.insert(SECRET.to_owned(), known);
    let lines = cluster.settle(&mut at(10));
    assert!(!lines.iter().any(|line| line.starts_with("make")), "{lines:?}");
    assert_eq!(cluster.csvs[0]["status"]["phase"], "Succeeded");
    assert_eq!(
        names(&cluster.object("ValidatingWebhookConfiguration", "")["webhooks"][0]["clientConfig"]["caBundle"]),
        ["given"]
    );
    assert_eq!(cluster.certificates[SECRET].metadata["ownerReferences"][0]["uid"], "uid-a");
    assert_eq!(cluster.certificates[SECRET].metadata["labels"]["olm.managed"], "true");
}

/// With what belonged to the version before it would go.
#[test]
fn next_version_owns_what_it_uses_before_the_one_before_goes() {
    let version = |name: &str, replaces: &str| {
        let mut csv = with_conversion(name);
        csv["spec"]["webhookdefinitions"].as_array_mut().unwrap().push(validating());
        csv["spec"]["apiservicedefinitions"] = json!({"owned": [api()]});
        csv["spec"]["replaces"] = json!(replaces);
        csv["spec"]["install"]["spec"]["deployments"][0]["spec"]["template"]["spec"]["containers"][0]["image"] =
            json!(name);
        csv
    };
    let mut cluster = Cluster::served(version("a", ""));
    let ids = |cluster: &Cluster| {
        let mut ids: Vec<String> =
            cluster.components.iter().filter_map(component::Id::of).map(|id| id.to_string()).collect();
        ids.sort();
        ids
    };
    let (before, authorities) = (ids(&cluster), cluster.authorities());
    for (name, replaces, uid) in [("b", "a", "uid-b"), ("c", "b", "uid-c")] {
        cluster.csvs.push(version(name, replaces));
        let mut lines = Vec::new();
        // Nothing waits for the version before.
        while cluster.csvs.iter().any(|it| it["metadata"]["name"] == replaces && it["status"]["phase"] != "Deleting") {
            let names: Vec<String> =
                cluster.csvs.iter().map(|it| it["metadata"]["name"].as_str().unwrap().to_owned()).collect();
            for name in names {
                let decision = cluster.decide_at(&name, at(30));
                cluster.carry_out(&name, decision, at(30), &mut lines);
            }
            assert!(lines.len() < 100, "{lines:#?}");
        }
        assert!(
            !lines.iter().any(|it| it.starts_with("delete ") || it.starts_with("create ") || it.starts_with("make")),
            "{lines:#?}"
        );
        assert_eq!(lines.iter().filter(|it| *it == "write Deployment server").count(), 1, "{lines:#?}");
        assert_eq!((ids(&cluster), cluster.authorities()), (before.clone(), authorities.clone()));
        for object in
            cluster.components.iter().map(|it| &it["metadata"]).chain([&*cluster.certificates[SECRET].metadata])
        {
            assert_eq!(object["labels"]["olm.owner"], name, "{object}");
            let owners = object.get("ownerReferences").and_then(Value::as_array).cloned().unwrap_or_default();
            assert!(owners.iter().all(|owner| owner["uid"] == uid), "{object}");
        }
        // The version before takes nothing along.
        let rest = cluster.settle(&mut at(31));
        assert!(!rest.iter().any(|it| it.starts_with("delete ") || it.starts_with("convert ")), "{rest:#?}");
        assert_eq!(ids(&cluster), before);
        assert_eq!(cluster.csvs.len(), 1, "{rest:#?}");
    }
    assert_eq!(cluster.definitions["widgets.example.com"].conversion["strategy"], "Webhook");
}

#[test]
fn webhooks_that_are_not_described_any_more_go() {
    let mut other = validating();
    other["generateName"] = json!("other.example.com");
    let mut cluster = Cluster::served(with_webhooks("a", json!([validating(), other.clone()])));
    cluster.object("ValidatingWebhookConfiguration", "check.example.com-");
    cluster.csv_mut("a")["spec"]["webhookdefinitions"] = json!([other]);
    let lines = cluster.settle(&mut at(20));
    assert!(
        lines.iter().any(|it| it.starts_with("delete ValidatingWebhookConfiguration check.example.com-")),
        "{lines:?}"
    );
    cluster.object("ValidatingWebhookConfiguration", "other.example.com-");
    // The other one is answered by the same Deployment.
    assert!(!lines.iter().any(|it| it.contains("Service ") || it.contains("Secret")), "{lines:?}");
    cluster.csv_mut("a")["spec"]["webhookdefinitions"] = json!([]);
    let lines = cluster.settle(&mut at(30));
    assert!(
        lines.iter().any(|it| it.starts_with("delete ValidatingWebhookConfiguration other.example.com-")),
        "{lines:?}"
    );
    assert_eq!(cluster.csvs[0]["status"]["phase"], "Succeeded");
    // The pods need no certificate then, and nobody asks them.
    assert_eq!(cluster.deployments["server"].object.pointer("/spec/template/spec/volumes"), None);
    let end = lines.iter().position(|it| it == "a: Succeeded/InstallSucceeded").unwrap();
    let mut deleted: Vec<&str> = lines[end + 1..].iter().map(String::as_str).collect();
    assert_eq!(deleted.pop(), Some("delete Role shop/server-service-cert"), "by it the others are known");
    deleted.sort_unstable();
    let expected = [
        "delete ClusterRoleBinding server-service-system:auth-delegator",
        "delete RoleBinding kube-system/server-service-auth-reader",
        "delete RoleBinding shop/server-service-cert",
        "delete Secret uid-secret",
        "delete Service shop/server-service",
    ];
    assert_eq!(deleted, expected);
    assert!(cluster.components.is_empty(), "{:?}", cluster.components);
    assert_eq!(cluster.settle(&mut at(40)), [""; 0]);
}

/// With what leads to it, and nothing of the other one.
#[test]
fn deployment_that_answers_no_more_takes_its_service_along() {
    let mut csv = with_webhooks("a", json!([validating()]));
    csv["spec"]["install"]["spec"]["deployments"].as_array_mut().unwrap().push(entry("other"));
    let mut second = webhook("second.example.com", "MutatingAdmissionWebhook");
    second["deploymentName"] = json!("other");
    csv["spec"]["webhookdefinitions"].as_array_mut().unwrap().push(second);
    let mut cluster = Cluster::serving(csv);
    let absent = Known { stored: Stored::Absent, metadata: Arc::default(), next: None };
    cluster.certificates.insert("other-service-cert".to_owned(), absent);
    cluster.settle(&mut at(10));
    let named = |cluster: &Cluster, part: &str| {
        let ids = cluster.components.iter().filter_map(component::Id::of);
        ids.filter(|id| id.name.contains(part)).count()
    };
    assert_eq!((named(&cluster, "server-service"), named(&cluster, "other-service")), (5, 5));
    let spec = &mut cluster.csv_mut("a")["spec"];
    spec["install"]["spec"]["deployments"].as_array_mut().unwrap().pop();
    spec["webhookdefinitions"].as_array_mut().unwrap().pop();
    cluster.settle(&mut at(20));
    assert_eq!((named(&cluster, "server-service"), named(&cluster, "other-service")), (5, 0));
    assert_eq!(cluster.certificates["other-service-cert"].stored, Stored::Absent);
    assert_ne!(cluster.certificates[SECRET].stored, Stored::Absent);
    assert_eq!(cluster.csvs[0]["status"]["phase"], "Succeeded");
}

/// Bundles bring Services by such names, and others make Secrets.
#[test]
fn service_and_secret_that_were_not_made_for_a_description_stay() {
    let mut cluster = Cluster::served(with_webhooks("a", json!([validating()])));
    cluster.csv_mut("a")["spec"]["webhookdefinitions"] = json!([]);
    let role = cluster.components.iter_mut().find(|it| it["kind"] == "Role").unwrap();
    role["rules"][0]["verbs"] = json!(["get", "list"]);
    let lines = cluster.settle(&mut at(20));
    let is_deleted = |it: &&String| it.starts_with("delete ") && !it.contains("WebhookConfiguration");
    assert_eq!(lines.iter().find(is_deleted), None);

    let mut cluster = Cluster::served(with_webhooks("a", json!([validating()])));
    cluster.csv_mut("a")["spec"]["webhookdefinitions"] = json!([]);
    Arc::make_mut(&mut cluster.certificates.get_mut(SECRET).unwrap().metadata)["ownerReferences"] = json!([]);
    let service = cluster.components.iter_mut().find(|it| it["kind"] == "Service").unwrap();
    service["metadata"]["labels"]["olm.owner"] = json!("b");
    cluster.settle(&mut at(20));
    assert_ne!(cluster.certificates[SECRET].stored, Stored::Absent);
    let left: Vec<String> = cluster.components.iter().filter_map(component::Id::of).map(|id| id.to_string()).collect();
    assert_eq!(left, ["Service shop/server-service"]);
}

#[test]
fn secret_that_is_left_over_is_waited_for() {
    let mut cluster = Cluster::served(with_webhooks("a", json!([validating()])));
    cluster.csv_mut("a")["spec"]["webhookdefinitions"] = json!([]);
    let known = cluster.certificates.remove(SECRET).unwrap();
    cluster.settle(&mut at(20));
    let left: Vec<String> = cluster.components.iter().filter_map(component::Id::of).map(|id| id.to_string()).collect();
    assert_eq!(left, ["Role shop/server-service-cert"], "it is not known whether there is a Secret");
    cluster.certificates.insert(SECRET.to_owned(), known);
    assert_eq!(cluster.settle(&mut at(30)), ["delete Secret uid-secret", "delete Role shop/server-service-cert"]);
}

#[test]
fn description_that_changes_is_taken_over_by_its_configuration() {
    let mut cluster = Cluster::served(with_webhooks("a", json!([validating()])));
    let before = cluster.object("ValidatingWebhookConfiguration", "")["metadata"].clone();
    cluster.csv_mut("a")["spec"]["webhookdefinitions"][0]["webhookPath"] = json!("/v2");
    cluster.settle(&mut at(20));
    let after = cluster.object("ValidatingWebhookConfiguration", "");
    assert_eq!(after["webhooks"][0]["clientConfig"]["service"]["path"], "/v2");
    assert_eq!(after["metadata"]["name"], before["name"]);
    let hash = "olm.webhook-description-hash";
    assert_ne!(after["metadata"]["labels"][hash], before["labels"][hash]);
    assert_eq!(cluster.csvs[0]["status"]["phase"], "Succeeded");
}

/// An attempt whose end nobody has seen, or another program, may have left two.
#[test]
fn one_configuration_stays_of_several_for_the_same_description() {
    let mut cluster = Cluster::served(with_webhooks("a", json!([validating()])));
    let mut second = cluster.object("ValidatingWebhookConfiguration", "").clone();
    second["metadata"]["name"] = json!("check.example.com-zzzzz");
    cluster.components.push(second);
    cluster.settle(&mut at(20));
    cluster.object("ValidatingWebhookConfiguration", "check.example.com-");
}

fn deleted(mut cluster: Cluster) -> (Cluster, Vec<String>) {
    cluster.csv_mut("a")["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let lines = cluster.settle(&mut at(20));
    (cluster, lines)
}

#[test]
fn what_does_not_go_with_its_version_is_removed_first() {
    let mut csv = with_conversion("a");
    csv["spec"]["webhookdefinitions"].as_array_mut().unwrap().push(validating());
    csv["spec"]["apiservicedefinitions"] = json!({"owned": [api()]});
    let (cluster, lines) = deleted(Cluster::served(csv));
    assert_eq!(lines.last().unwrap(), "a: marked", "the finalizer goes last");
    assert!(cluster.csvs.is_empty());
    let left: Vec<String> = cluster.components.iter().filter_map(component::Id::of).map(|id| id.to_string()).collect();
    // These name their owner.
    assert_eq!(
        left,
        ["Service shop/server-service", "Role shop/server-service-cert", "RoleBinding shop/server-service-cert"]
    );
    assert_eq!(cluster.definitions["widgets.example.com"].conversion, json!({"strategy": "None", "webhook": null}));
}

#[test]
fn version_that_is_deleted_waits_until_what_it_leaves_is_gone() {
    let mut cluster = Cluster::served(with_webhooks("a", json!([validating()])));
    cluster.csv_mut("a")["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    for object in &mut cluster.components {
        object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    }
    assert_eq!(cluster.decide("a", 20), Decision::default());
}

#[test]
fn conversion_stays_where_another_version_needs_it_or_another_webhook_does_it() {
    let mut cluster = Cluster::served(with_conversion("a"));
    let mut next = with_conversion("b");
    next["spec"]["replaces"] = json!("a");
    next["status"]["phase"] = json!("Pending");
    next["spec"]["minKubeVersion"] = json!("2.0.0");
    cluster.csvs.push(next);
    let (cluster, lines) = deleted(cluster);
    assert!(!lines.iter().any(|it| it.starts_with("convert")), "{lines:?}");
    assert_eq!(cluster.definitions["widgets.example.com"].conversion["strategy"], "Webhook");

    let mut cluster = Cluster::served(with_conversion("a"));
    let theirs = json!({"strategy": "Webhook", "webhook": {"clientConfig": {"url": "https://example.com"}}});
    cluster.definitions.get_mut("widgets.example.com").unwrap().conversion = theirs.clone();
    let (cluster, _) = deleted(cluster);
    assert_eq!(cluster.definitions["widgets.example.com"].conversion, theirs);
}

#[test]
fn conversion_ends_with_its_description() {
    let mut cluster = Cluster::served(with_conversion("a"));
    cluster.csv_mut("a")["spec"]["webhookdefinitions"] = json!([]);
    cluster.settle(&mut at(20));
    assert_eq!(cluster.definitions["widgets.example.com"].conversion["strategy"], "None");
    assert_eq!(cluster.csvs[0]["status"]["phase"], "Succeeded");
}
