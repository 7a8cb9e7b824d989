use super::*;

fn rules(webhook: &mut Value, groups: &[&str], resources: &[&str]) {
    webhook["rules"][0]["apiGroups"] = json!(groups);
    webhook["rules"][0]["resources"] = json!(resources);
}

/// Clients compare the first of these texts as a whole.
#[test]
fn webhooks_that_cannot_be_installed_are_refused_and_say_why() {
    let one = |change: &dyn Fn(&mut Value)| {
        let mut webhook = validating();
        change(&mut webhook);
        json!([webhook])
    };
    let (configurations, registration) = (
        "webhook rules cannot include MutatingWebhookConfiguration or ValidatingWebhookConfiguration resources",
        "admissionregistration.k8s.io",
    );
    let refused: [(Value, &str); 14] = [
        (json!([validating(), validating()]), "CSV contains repeated WebhookDescription name"),
        (one(&|it| rules(it, &["a.com", "*"], &["x"])), "webhook rules cannot include all groups"),
        (one(&|it| rules(it, &["operators.coreos.com"], &["x"])), "webhook rules cannot include the OLM group"),
        (one(&|it| rules(it, &[registration], &["*"])), configurations),
        (one(&|it| rules(it, &[registration], &["x", "mutatingwebhookconfigurations"])), configurations),
        (one(&|it| rules(it, &[registration], &["validatingwebhookconfigurations/status"])), configurations),
        (one(&|it| rules(it, &[registration], &["*/*"])), configurations),
        (one(&|it| rules(it, &[registration], &["MutatingWebhookConfigurations"])), configurations),
        (
            one(&|it| it["generateName"] = json!("")),
            "webhook \"\" of spec.webhookdefinitions: generateName is empty; name the webhook",
        ),
        (
            one(&|it| it["type"] = json!("Other")),
            "webhook \"check.example.com\" of spec.webhookdefinitions: its type \"Other\" is none of ValidatingAdmissionWebhook, \
             MutatingAdmissionWebhook and ConversionWebhook; correct it",
        ),
        (
            one(&|it| it["deploymentName"] = json!("none")),
            "webhook \"check.example.com\" of spec.webhookdefinitions: no Deployment \"none\" is in spec.install.spec.deployments; \
             correct deploymentName",
        ),
        (
            one(&|it| it["containerPort"] = json!(65_536)),
            "webhook \"check.example.com\" of spec.webhookdefinitions: containerPort is not from 1 to 65535; correct it",
        ),
        (
            one(&|it| it["containerPort"] = json!(-1)),
            "webhook \"check.example.com\" of spec.webhookdefinitions: containerPort is not from 1 to 65535; correct it",
        ),
        (
            json!([validating(), {"generateName": "other.example.com", "type": "MutatingAdmissionWebhook",
                "deploymentName": "server", "targetPort": 8443, "sideEffects": "None", "admissionReviewVersions": ["v1"]}]),
            "containerPort 443 of Deployment server leads to the port 443 of its pods and to 8443 in spec.webhookdefinitions and \
             spec.apiservicedefinitions; give each another containerPort",
        ),
    ];
    for (webhooks, message) in refused {
        for phase in ["Pending", "Succeeded", "Failed"] {
            let mut cluster = Cluster::serving(with_webhooks("a", webhooks.clone())).marked();
            cluster.csv_mut("a")["status"]["phase"] = json!(phase);
            assert_eq!(cluster.step("a", 10), format!("Failed/InvalidWebhookDescription: {message}"), "{phase}");
            let said = json!({"phase": "Failed", "reason": "InvalidWebhookDescription", "message": message});
            merge(&mut cluster.csv_mut("a")["status"], &said);
            assert_eq!(cluster.step("a", 10), "", "it stays so");
        }
    }
}

#[test]
fn webhooks_of_others_groups_and_resources_are_not_refused() {
    for (groups, resources) in
        [(["admissionregistration.k8s.io"], ["validatingadmissionpolicies"]), (["coreos.com"], ["*"]), ([""], ["pods"])]
    {
        let mut webhook = validating();
        rules(&mut webhook, &groups, &resources);
        let cluster = Cluster::serving(with_webhooks("a", json!([webhook]))).marked();
        assert!(cluster.step("a", 10).starts_with("InstallReady/AllRequirementsMet"), "{groups:?}");
    }
}

#[test]
fn conversion_is_for_operators_of_all_namespaces_and_definitions_of_their_own() {
    let step = |change: &dyn Fn(&mut Cluster)| {
        let mut cluster = Cluster::serving(with_conversion("a"));
        change(&mut cluster);
        cluster.marked().step("a", 10)
    };
    assert!(step(&|_| {}).starts_with("InstallReady/AllRequirementsMet"));
    let refused = |what: &str| {
        format!(
            "Failed/InvalidWebhookDescription: ConversionWebhook \"convert.example.com\" of spec.webhookdefinitions: {what}"
        )
    };
    for mode in ["OwnNamespace", "SingleNamespace", "MultiNamespace"] {
        let found = step(&|cluster| {
            let modes = cluster.csv_mut("a")["spec"]["installModes"].as_array_mut().unwrap();
            modes.push(json!({"type": mode, "supported": true}));
        });
        assert_eq!(
            found,
            refused("a CSV with one must support AllNamespaces alone in spec.installModes; correct them"),
            "{mode}"
        );
    }
    let found = step(&|cluster| {
        let modes = cluster.csv_mut("a")["spec"]["installModes"].as_array_mut().unwrap();
        modes.push(json!({"type": "OwnNamespace", "supported": false}));
    });
    assert!(found.starts_with("InstallReady"), "{found}");
    let found = step(&|cluster| {
        cluster.csv_mut("a")["spec"]["webhookdefinitions"][0]["conversionCRDs"] = json!(["b.example.com"])
    });
    assert_eq!(
        found,
        refused(
            "CustomResourceDefinition b.example.com is not owned by this CSV; add it to spec.customresourcedefinitions.owned, or \
             remove it from conversionCRDs"
        )
    );
    let found =
        step(&|cluster| cluster.definitions.get_mut("widgets.example.com").unwrap().keeps_unknown_fields = true);
    assert_eq!(
        found,
        refused(
            "CustomResourceDefinition widgets.example.com has spec.preserveUnknownFields: true, with which nothing is converted; set \
             it to false"
        )
    );
}

/// The Deployment of an API has to be there.
#[test]
fn api_waits_for_its_deployment_to_be_named() {
    let mut csv = with_api("a");
    csv["spec"]["apiservicedefinitions"]["owned"][0]["deploymentName"] = json!("none");
    let cluster = Cluster::serving(csv).marked();
    let (_, status) = cluster.decide("a", 10).status.unwrap();
    assert_eq!((&status.phase, status.reason.as_str()), (&Phase::Pending, "RequirementsNotMet"));
    let line = |cluster: &Cluster| json!(cluster.decide("a", 10).status.unwrap().1.requirement_status[0]);
    assert_eq!(
        (&line(&cluster)["kind"], &line(&cluster)["status"]),
        (&json!("APIService"), &json!("DeploymentNotFound"))
    );
    let cluster = Cluster::serving(with_api("a")).marked();
    assert_eq!(
        (&line(&cluster)["name"], &line(&cluster)["status"]),
        (&json!("v1.gears.example.com"), &json!("DeploymentFound"))
    );
    assert!(cluster.step("a", 10).starts_with("InstallReady"));
}

/// It may be that of another operator, of the cluster, or of a definition.
#[test]
fn api_of_somebody_else_is_not_taken_over() {
    let owner = |kind: &str, namespace: &str, name: &str| {
        Some(component::Owner { kind: kind.into(), namespace: namespace.into(), name: name.into() })
    };
    let csv = "ClusterServiceVersion";
    let step = |owner: Option<component::Owner>, others: Vec<Value>| {
        let mut next = with_api("b");
        next["spec"]["replaces"] = json!("a");
        let mut cluster = Cluster::serving(next);
        cluster.csvs.extend(others);
        cluster.services.insert("v1.gears.example.com".into(), ApiService { owner, ..ApiService::default() });
        cluster.marked().step("b", 10)
    };
    let of = |phase: &str, name: &str| super::super::csv(name, phase, "x");
    for (owner, others) in [
        (owner(csv, "shop", "b"), vec![]),
        (owner(csv, "shop", "a"), vec![of("Replacing", "a")]),
        (owner(csv, "shop", "c"), vec![of("Replacing", "a"), of("Replacing", "c")]),
        (owner(csv, "shop", "c"), vec![of("Replacing", "a"), of("Deleting", "c")]),
    ] {
        assert!(step(owner.clone(), others).starts_with("InstallReady"), "{owner:?}");
    }
    for (owner, whose) in [
        (None, "it does not belong to an operator"),
        (owner(csv, "shop", "c"), "it belongs to ClusterServiceVersion shop/c"),
        (owner(csv, "other", "b"), "it belongs to ClusterServiceVersion other/b"),
        (owner("OperatorGroup", "shop", "b"), "it belongs to OperatorGroup shop/b"),
    ] {
        let step = step(owner, vec![of("Replacing", "a"), of("Succeeded", "c")]);
        let message = format!(
            "Failed/OwnerConflict: unable to adopt APIService v1.gears.example.com: {whose}; delete that, or this ClusterServiceVersion"
        );
        assert_eq!(step, message);
    }
}
