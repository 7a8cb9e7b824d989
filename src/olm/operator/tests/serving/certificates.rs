use super::*;

/// Installed with all that leads to a Deployment, at minute 10. The certificate ends at minute `until`.
fn served(until: i64) -> Cluster {
    let mut csv = with_conversion("a");
    csv["spec"]["webhookdefinitions"].as_array_mut().unwrap().push(validating());
    csv["spec"]["apiservicedefinitions"] = json!({"owned": [api()]});
    let mut cluster = Cluster::serving(csv);
    cluster.certificates.insert(SECRET.to_owned(), stored(&["old"], at(until)));
    cluster.settle(&mut at(10));
    assert_eq!(cluster.csvs[0]["status"]["phase"], "Succeeded");
    cluster
}

const DAY: i64 = 24 * 60;

/// What all that leads to the Deployment has.
fn bundles(cluster: &Cluster) -> Vec<Vec<String>> {
    let configuration =
        cluster.object("ValidatingWebhookConfiguration", "")["webhooks"][0]["clientConfig"]["caBundle"].clone();
    let api = cluster.object("APIService", "")["spec"]["caBundle"].clone();
    let conversion = &cluster.definitions["widgets.example.com"].conversion["webhook"]["clientConfig"]["caBundle"];
    [&configuration, &api, conversion].map(names).into()
}

#[test]
fn certificate_is_made_anew_a_day_before_it_ends() {
    let cluster = served(10 * DAY);
    let rotation: Timestamp = typed(cluster.csvs[0]["status"]["certsRotateAt"].clone());
    assert_eq!(rotation, at(9 * DAY));
    let decision = cluster.decide_at("a", rotation - SignedDuration::from_secs(1));
    assert_eq!((decision.status, decision.next), (None, Some(rotation)), "it is looked at again then");
    assert_eq!(
        cluster.step("a", 9 * DAY),
        format!("Pending/NeedsCertRotation: Secret {SECRET}: the certificate ends at {}", at(10 * DAY))
    );
}

/// Whatever has failed before.
#[test]
fn certificate_of_what_has_failed_is_made_anew_too() {
    let fail = |cluster: &mut Cluster| {
        let status = json!({"phase": "Failed", "reason": "ComponentUnhealthy", "message": "m"});
        merge(&mut cluster.csv_mut("a")["status"], &status);
    };
    let mut due = served(10 * DAY);
    fail(&mut due);
    let healthy = "Succeeded/InstallSucceeded: install strategy completed with no errors";
    assert_eq!(due.step("a", 9 * DAY - 1), healthy, "it is not due");
    let ends = format!("Pending/NeedsCertRotation: Secret {SECRET}: the certificate ends at {}", at(10 * DAY));
    assert_eq!(due.step("a", 9 * DAY), ends);
    let unusable = Stored::Unusable { cause: "tls.crt is none".to_owned(), version: "8".to_owned() };
    for (stored, why) in [(Stored::Absent, "the Secret is missing"), (unusable, "tls.crt is none")] {
        let mut spoilt = Cluster::served(with_webhooks("a", json!([validating()])));
        fail(&mut spoilt);
        spoilt.certificates.get_mut(SECRET).unwrap().stored = stored;
        assert_eq!(spoilt.step("a", 20), format!("Pending/NeedsCertRotation: Secret {SECRET}: {why}"));
        spoilt.settle(&mut at(20));
        assert_eq!(spoilt.csvs[0]["status"]["phase"], "Succeeded", "{why}");
        assert_eq!(spoilt.authorities(), ["made-1200"]);
    }
}

/// Each step waits for what the API server has then, and pods of both kinds are believed in between.
#[test]
fn new_authority_is_known_everywhere_before_a_pod_has_a_certificate_of_it() {
    let mut cluster = served(10 * DAY);
    let mut now = at(9 * DAY);
    let lines = cluster.settle(&mut now);
    let new = format!("made-{}", 9 * DAY * 60);
    let position = |what: &str| {
        lines.iter().position(|line| line.starts_with(what)).unwrap_or_else(|| panic!("{what}: {lines:#?}"))
    };
    assert_eq!(lines.first().unwrap(), "a: Pending/NeedsCertRotation");
    for what in ["replace ValidatingWebhookConfiguration", "replace APIService", "convert widgets.example.com"] {
        assert!(position("make") < position(what) && position(what) < position("told"), "{lines:#?}");
    }
    assert!(position("told") < position("store, in its place"));
    assert!(position("store, in its place") < position("write Deployment server"));
    assert_eq!(now, at(9 * DAY) + SignedDuration::from_secs(10), "as long as API servers may need");
    assert_eq!(lines.iter().filter(|line| *line == "write Deployment server").count(), 1);
    // Once all pods have the new one, the old authority goes.
    let last = lines.iter().rposition(|line| line == "a: Succeeded/InstallSucceeded").unwrap();
    assert!(lines[last..].contains(&"patch Secret".to_owned()), "{lines:#?}");
    assert_eq!(cluster.authorities(), std::slice::from_ref(&new));
    assert_eq!(bundles(&cluster), [[new.clone()], [new.clone()], [new]]);
    assert_eq!(cluster.csvs[0]["status"]["phase"], "Succeeded");
    assert_eq!(
        typed::<Timestamp>(cluster.csvs[0]["status"]["certsRotateAt"].clone()),
        now + SignedDuration::from_hours(24 * 729)
    );
}

#[test]
fn both_authorities_are_known_until_all_pods_have_the_new_certificate() {
    let mut cluster = served(10 * DAY);
    let (mut now, new) = (at(9 * DAY), format!("made-{}", 9 * DAY * 60));
    let mut lines = Vec::new();
    let mut seen = Vec::new();
    while !lines.contains(&"write Deployment server".to_owned()) {
        let decision = cluster.decide_at("a", now);
        if decision.certificates.iter().any(|step| matches!(step, Step::Store { .. })) {
            seen.push("store");
            assert_eq!(bundles(&cluster), [[&new, "old"], [&new, "old"], [&new, "old"]]);
        }
        now = decision.next.unwrap_or(now).min(now + SignedDuration::from_secs(10));
        cluster.carry_out("a", decision, now, &mut lines);
        assert!(lines.len() < 50, "{lines:#?}");
    }
    assert_eq!(seen, ["store"]);
    assert_eq!(cluster.authorities(), [new.clone(), "old".to_owned()]);
    // The pods are on their way.
    let live = Arc::make_mut(&mut cluster.deployments.get_mut("server").unwrap().object);
    live["status"] = waiting();
    cluster.settle(&mut now);
    assert_eq!(cluster.csvs[0]["status"]["phase"], "Installing");
    assert_eq!(bundles(&cluster), [[&new, "old"], [&new, "old"], [&new, "old"]]);
}

#[test]
fn somebody_who_takes_the_new_authority_away_is_waited_for() {
    let mut cluster = served(10 * DAY);
    let next = Next { authority: pem("new"), told: None };
    cluster.csv_mut("a")["status"]["phase"] = json!("InstallReady");
    cluster.certificates.get_mut(SECRET).unwrap().next = Some(next);
    let now = at(9 * DAY);
    let decision = cluster.decide_at("a", now);
    assert_eq!((decision.components.len(), decision.conversions.len(), decision.certificates.len()), (2, 1, 0));
    let mut lines = Vec::new();
    cluster.carry_out("a", decision, now, &mut lines);
    let told = |cluster: &Cluster| matches!(&cluster.decide_at("a", now).certificates[..], [Step::Told { .. }]);
    assert!(told(&cluster));
    cluster.certificates.get_mut(SECRET).unwrap().next.as_mut().unwrap().told = Some(now);
    let decision = cluster.decide_at("a", now + SignedDuration::from_secs(9));
    assert_eq!((decision.certificates.len(), decision.next), (0, Some(now + SignedDuration::from_secs(10))));
    cluster.definitions.get_mut("widgets.example.com").unwrap().conversion["webhook"]["clientConfig"]["caBundle"] =
        json!("");
    let decision = cluster.decide_at("a", now + SignedDuration::from_secs(20));
    assert_eq!((decision.certificates.len(), decision.conversions.len()), (0, 1));
}

/// It would be waited for the time at which the clock was.
#[test]
fn clock_that_goes_back_holds_a_rotation_no_longer_than_api_servers_need() {
    let mut cluster = served(10 * DAY);
    cluster.csv_mut("a")["status"]["phase"] = json!("InstallReady");
    let (now, mut lines) = (at(9 * DAY), Vec::new());
    let next = Next { authority: pem("new"), told: None };
    cluster.certificates.get_mut(SECRET).unwrap().next = Some(next);
    let decision = cluster.decide_at("a", now);
    cluster.carry_out("a", decision, now, &mut lines);
    let told = now + SignedDuration::from_hours(1);
    cluster.certificates.get_mut(SECRET).unwrap().next.as_mut().unwrap().told = Some(told);
    let decision = cluster.decide_at("a", now);
    assert!(matches!(&decision.certificates[..], [Step::Told { .. }]), "{:?}", decision.certificates);
    cluster.carry_out("a", decision, now, &mut lines);
    let until = now + SignedDuration::from_secs(10);
    let decision = cluster.decide_at("a", until - SignedDuration::from_secs(1));
    assert_eq!((decision.certificates.len(), decision.next), (0, Some(until)));
    // One that goes forward shortens the time, and holds nothing.
    for at in [until, now + SignedDuration::from_hours(1)] {
        let decision = cluster.decide_at("a", at);
        assert!(matches!(&decision.certificates[..], [Step::Store { .. }]), "{:?}", decision.certificates);
    }
}

/// Whatever pods serve with: what was believed before is believed still.
#[test]
fn certificate_that_is_spoilt_is_made_anew_beside_what_is_believed() {
    let unusable =
        Stored::Unusable { cause: "tls.crt of the Secret cannot be used: no".to_owned(), version: "8".to_owned() };
    for (api, stored, first) in [
        (false, unusable.clone(), "a: Pending/NeedsCertRotation"),
        (false, Stored::Absent, "a: Pending/NeedsCertRotation"),
        (true, unusable, "a: Failed/APIServiceResourceIssue"),
        (true, Stored::Absent, "a: Failed/APIServiceResourceIssue"),
    ] {
        let csv = if api { with_api("a") } else { with_webhooks("a", json!([validating()])) };
        let mut cluster = Cluster::served(csv);
        cluster.certificates.get_mut(SECRET).unwrap().stored = stored.clone();
        let (mut told, mut lines, mut now) = (Vec::new(), Vec::new(), at(20));
        while cluster.csvs[0]["status"]["phase"] != "Succeeded" || lines.is_empty() {
            let decision = cluster.decide_at("a", now);
            if decision.certificates.iter().any(|step| matches!(step, Step::Store { .. })) {
                let object = cluster
                    .components
                    .iter()
                    .find(|it| it["webhooks"].is_array() || it["kind"] == "APIService")
                    .unwrap();
                told = names(
                    object.pointer("/spec/caBundle").unwrap_or(&object["webhooks"][0]["clientConfig"]["caBundle"]),
                );
            }
            now = decision.next.filter(|next| *next < at(21)).unwrap_or(now);
            cluster.carry_out("a", decision, now, &mut lines);
            assert!(lines.len() < 50, "{lines:#?}");
        }
        assert_eq!(lines.first().unwrap(), first);
        if api {
            assert_eq!(lines[1], "a: Pending/APIServiceResourcesNeedReinstall");
        }
        assert_eq!(told, ["made-1200", "made-600"], "{stored:?}");
        cluster.settle(&mut now);
        assert_eq!(cluster.authorities(), ["made-1200"]);
    }
}

/// A process that has told of an authority, and has ended before it was used, leaves one that nobody has the key of.
#[test]
fn authority_in_use_is_kept_also_where_another_attempt_has_ended_in_between() {
    let mut cluster = served(10 * DAY);
    cluster.csv_mut("a")["status"]["phase"] = json!("InstallReady");
    for (stored, expected) in [(None, vec!["second", "old"]), (Some(Stored::Absent), vec!["second", "first", "old"])] {
        let secret = cluster.certificates.get_mut(SECRET).unwrap();
        secret.stored = stored.unwrap_or_else(|| secret.stored.clone());
        for name in ["first", "second"] {
            cluster.certificates.get_mut(SECRET).unwrap().next = Some(Next { authority: pem(name), told: None });
            let decision = cluster.decide_at("a", at(9 * DAY));
            cluster.carry_out("a", decision, at(9 * DAY), &mut Vec::new());
        }
        assert_eq!(bundles(&cluster), [expected.clone(), expected.clone(), expected]);
    }
}

#[test]
fn nothing_is_decided_before_the_secrets_are_known() {
    for phase in ["InstallReady", "Installing", "Succeeded", "Failed"] {
        let mut cluster = served(10 * DAY);
        cluster.csv_mut("a")["status"]["phase"] = json!(phase);
        cluster.certificates.clear();
        let decision = cluster.decide("a", 11);
        let writes = decision.deployments.len() + decision.components.len() + decision.certificates.len();
        assert_eq!((decision.status, writes), (None, 0), "{phase}");
    }
}
