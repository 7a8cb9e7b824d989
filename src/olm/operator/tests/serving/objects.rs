use super::*;

/// All kinds of them by a Deployment with a dot in its name.
fn all() -> Value {
    let mut csv = with_conversion("a");
    let mut mutating = webhook("change.example.com", "MutatingAdmissionWebhook");
    mutating["reinvocationPolicy"] = json!("IfNeeded");
    mutating["containerPort"] = json!(9443);
    mutating["targetPort"] = json!("hooks");
    let mut validating = validating();
    let more = json!({"webhookPath": "/check", "failurePolicy": "Ignore", "matchPolicy": "Exact", "timeoutSeconds": 3,
        "objectSelector": {"matchLabels": {"x": "y"}}, "reinvocationPolicy": "Never"});
    validating.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let webhooks = csv["spec"]["webhookdefinitions"].as_array_mut().unwrap();
    webhooks.extend([validating, mutating]);
    csv["spec"]["apiservicedefinitions"] = json!({"owned": [api()]});
    let text = csv.to_string().replace("\"server\"", "\"server.v1\"");
    serde_json::from_str(&text).unwrap()
}

fn installed() -> Cluster {
    let mut cluster = Cluster::serving(all());
    let absent = cluster.certificates[SECRET].clone();
    cluster.certificates.insert("server-v1-service-cert".to_owned(), absent);
    cluster.settle(&mut at(10));
    assert_eq!(cluster.csvs[0]["status"]["phase"], "Succeeded", "{}", cluster.csvs[0]["status"]);
    cluster
}

fn owner() -> Value {
    json!({"olm.managed": "true", "olm.owner": "a", "olm.owner.namespace": "shop", "olm.owner.kind": "ClusterServiceVersion"})
}

#[test]
fn everything_that_leads_to_a_deployment_names_the_same_service() {
    let cluster = installed();
    let service = "server-v1-service";
    assert_eq!(cluster.object("Service", "")["metadata"]["name"], service);
    for kind in ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"] {
        assert_eq!(cluster.object(kind, "")["webhooks"][0]["clientConfig"]["service"]["name"], service, "{kind}");
    }
    assert_eq!(cluster.object("APIService", "")["spec"]["service"]["name"], service);
    let conversion = &cluster.definitions["widgets.example.com"].conversion;
    assert_eq!(conversion["webhook"]["clientConfig"]["service"]["name"], service);
    let volume = cluster.deployments["server.v1"].object.pointer("/spec/template/spec/volumes/0/secret/secretName");
    assert_eq!(volume.unwrap(), "server-v1-service-cert");
    let hosts = crate::olm::operator::serving::endpoint::hosts("shop", "server.v1");
    assert_eq!(
        hosts,
        [format!("{service}.shop"), format!("{service}.shop.svc"), format!("{service}.shop.svc.cluster.local")]
    );
}

#[test]
fn service_leads_to_the_pods_at_each_port_that_is_described() {
    let cluster = installed();
    let service = cluster.object("Service", "server-v1-service");
    assert_eq!(service["spec"]["selector"], json!({"app": "server.v1"}));
    let ports = json!([{"name": "443", "port": 443, "targetPort": 443, "protocol": "TCP"},
        {"name": "9443", "port": 9443, "targetPort": "hooks", "protocol": "TCP"}]);
    assert_eq!(
        service["spec"]["ports"]
            .as_array()
            .unwrap()
            .iter()
            .map(|it| (&it["name"], &it["port"], &it["targetPort"]))
            .collect::<Vec<_>>(),
        ports.as_array().unwrap().iter().map(|it| (&it["name"], &it["port"], &it["targetPort"])).collect::<Vec<_>>()
    );
    assert_eq!(service["metadata"]["labels"], owner());
    assert_eq!(service["metadata"]["ownerReferences"][0]["uid"], "uid-a");
}

#[test]
fn account_of_the_pods_may_read_its_certificate_and_ask_who_asks() {
    let mut csv = all();
    csv.pointer_mut("/spec/install/spec/deployments/0/spec/template/spec").unwrap()["serviceAccountName"] =
        json!("runner");
    for (csv, account) in [(all(), "default"), (csv, "runner")] {
        let mut cluster = Cluster::serving(csv);
        cluster.certificates.insert("server-v1-service-cert".to_owned(), cluster.certificates[SECRET].clone());
        cluster.settle(&mut at(10));
        let rules = json!([{"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["server-v1-service-cert"],
            "verbs": ["get"]}]);
        let role = cluster.object("Role", "server-v1-service-cert");
        assert_eq!((&role["rules"], &role["metadata"]["namespace"]), (&rules, &json!("shop")));
        let subjects = json!([{"kind": "ServiceAccount", "name": account, "namespace": "shop"}]);
        for (kind, name, namespace, role) in [
            ("RoleBinding", "server-v1-service-cert", json!("shop"), ("Role", "server-v1-service-cert")),
            (
                "RoleBinding",
                "server-v1-service-auth-reader",
                json!("kube-system"),
                ("Role", "extension-apiserver-authentication-reader"),
            ),
            (
                "ClusterRoleBinding",
                "server-v1-service-system:auth-delegator",
                Value::Null,
                ("ClusterRole", "system:auth-delegator"),
            ),
        ] {
            let binding = cluster.object(kind, name);
            assert_eq!((&binding["subjects"], &binding["metadata"]["namespace"]), (&subjects, &namespace), "{name}");
            assert_eq!((&binding["roleRef"]["kind"], &binding["roleRef"]["name"]), (&json!(role.0), &json!(role.1)));
            assert_eq!(binding["metadata"]["labels"], owner());
            // An owner in another namespace would be taken for one that is gone.
            assert_eq!(binding["metadata"].get("ownerReferences").is_some(), namespace == "shop", "{name}");
        }
    }
}

/// Else both would write their own accounts into it for ever.
#[test]
fn bindings_of_an_operator_in_another_namespace_stay_his() {
    let binding = |kind: &str, name: &str, namespace: Value| {
        let mut labels = owner();
        labels["olm.owner.namespace"] = json!("mall");
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind,
            "metadata": {"name": name, "namespace": namespace, "labels": labels, "uid": name, "resourceVersion": "1"},
            "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": "mall"}]})
    };
    let others = [
        binding("RoleBinding", "server-v1-service-auth-reader", json!("kube-system")),
        binding("ClusterRoleBinding", "server-v1-service-system:auth-delegator", Value::Null),
    ];
    let mut cluster = Cluster::serving(all());
    cluster.certificates.insert("server-v1-service-cert".to_owned(), cluster.certificates[SECRET].clone());
    cluster.components.extend(others.clone());
    cluster.settle(&mut at(10));
    assert_eq!(cluster.csvs[0]["status"]["phase"], "Succeeded");
    for other in &others {
        let (kind, name) = (other["kind"].as_str().unwrap(), other["metadata"]["name"].as_str().unwrap());
        assert_eq!(cluster.object(kind, name), other);
        let own = cluster.object(kind, &format!("shop.{name}"));
        assert_eq!(own["subjects"][0]["namespace"], "shop");
        assert_eq!(own["metadata"]["namespace"], other["metadata"]["namespace"]);
    }
    // Nothing is made anew only because the other one has gone.
    cluster.components.retain(|it| !others.contains(it));
    assert_eq!(cluster.settle(&mut at(20)), [""; 0]);
}

#[test]
fn webhook_configurations_say_what_their_descriptions_say() {
    let cluster = installed();
    let found = cluster.object("ValidatingWebhookConfiguration", "check.example.com-");
    let name = found["metadata"]["name"].as_str().unwrap();
    assert_eq!(name.len(), "check.example.com-".len() + 5, "{name}");
    let labels = found["metadata"]["labels"].as_object().unwrap();
    assert_eq!(labels["olm.webhook-description-generate-name"], "check.example.com");
    assert!(!labels["olm.webhook-description-hash"].as_str().unwrap().is_empty());
    for (key, value) in owner().as_object().unwrap() {
        assert_eq!(labels[key], *value);
    }
    let webhook = &found["webhooks"][0];
    assert_eq!(found["webhooks"].as_array().unwrap().len(), 1);
    for (key, value) in [
        ("name", json!("check.example.com")),
        ("failurePolicy", json!("Ignore")),
        ("matchPolicy", json!("Exact")),
        ("timeoutSeconds", json!(3)),
        ("sideEffects", json!("None")),
        ("admissionReviewVersions", json!(["v1"])),
        ("objectSelector", json!({"matchLabels": {"x": "y"}})),
        ("rules", all()["spec"]["webhookdefinitions"][1]["rules"].clone()),
    ] {
        assert_eq!(webhook[key], value, "{key}");
    }
    assert_eq!(webhook.get("reinvocationPolicy"), None, "validating webhooks have none");
    let client = &webhook["clientConfig"];
    let service = json!({"name": "server-v1-service", "namespace": "shop", "port": 443, "path": "/check"});
    assert_eq!((&client["service"], names(&client["caBundle"])), (&service, vec!["made-600".to_owned()]));
    let found = cluster.object("MutatingWebhookConfiguration", "change.example.com-");
    let webhook = &found["webhooks"][0];
    assert_eq!(
        (&webhook["reinvocationPolicy"], &webhook["clientConfig"]["service"]["port"]),
        (&json!("IfNeeded"), &json!(9443))
    );
}

#[test]
fn webhook_concerns_the_namespaces_of_its_group() {
    let by_label = json!({"matchLabels": {"olm.operatorgroup.uid/group-uid": ""}});
    let selector = json!({"matchLabels": {"team": "a"}});
    for (group, modes, expected) in [
        (json!({}), "AllNamespaces", Value::Null),
        (json!({"targetNamespaces": ["shop"]}), "OwnNamespace", by_label.clone()),
        (json!({"targetNamespaces": ["mall"]}), "SingleNamespace", by_label),
        (json!({"selector": selector}), "OwnNamespace", selector.clone()),
    ] {
        let mut csv = with_webhooks("a", json!([validating()]));
        csv["spec"]["installModes"] = json!([{"type": modes, "supported": true}]);
        let mut cluster = Cluster::serving(csv);
        cluster.groups[0]["spec"] = group.clone();
        cluster.labels = BTreeMap::from([("team".to_owned(), "a".to_owned())]);
        cluster.settle(&mut at(10));
        let found = cluster.object("ValidatingWebhookConfiguration", "");
        assert_eq!(found["webhooks"][0]["namespaceSelector"], expected, "{group}");
    }
}

#[test]
fn api_service_leads_to_its_deployment() {
    let cluster = installed();
    let found = cluster.object("APIService", "v1.gears.example.com");
    assert_eq!(names(&found["spec"]["caBundle"]), ["made-600"]);
    let mut spec = found["spec"].clone();
    spec.as_object_mut().unwrap().remove("caBundle");
    let expected = json!({"group": "gears.example.com", "version": "v1", "groupPriorityMinimum": 2000, "versionPriority": 15,
        "service": {"name": "server-v1-service", "namespace": "shop", "port": 443}});
    assert_eq!(spec, expected);
    assert_eq!(found["metadata"]["labels"], owner());
}

#[test]
fn conversion_is_written_into_the_definition() {
    let cluster = installed();
    let conversion = &cluster.definitions["widgets.example.com"].conversion;
    let client = &conversion["webhook"]["clientConfig"];
    assert_eq!((&conversion["strategy"], names(&client["caBundle"])), (&json!("Webhook"), vec!["made-600".to_owned()]));
    let service = json!({"name": "server-v1-service", "namespace": "shop", "port": 443, "path": "/"});
    assert_eq!(client["service"], service, "the path has a default");
    assert_eq!(conversion["webhook"]["conversionReviewVersions"], json!(["v1"]));
    // What the API server leaves out is no difference.
    let mut cluster = installed();
    let live = &mut cluster.definitions.get_mut("widgets.example.com").unwrap().conversion;
    live.pointer_mut("/webhook/clientConfig/service").unwrap().as_object_mut().unwrap().remove("port");
    assert_eq!(cluster.step("a", 20), "");
}
