use super::*;

const DIGEST: &str = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
const TIME: &str = "2026-01-01T00:00:00Z";

fn condition(type_: &str, status: &str, reason: &str) -> Value {
    json!({"type": type_, "status": status, "reason": reason, "message": format!("{type_} text"), "lastTransitionTime": TIME})
}

fn release(version: &str) -> Value {
    json!({"version": version, "image": format!("r.example/a@{version}")})
}

/// At 1.0.0, with 1.0.1 and 1.1.0 recommended, and 1.2.0 not.
fn cluster() -> Value {
    let risk = json!({"url": "u", "name": "R", "message": "m", "matchingRules": [{"type": "Always"}]});
    let conditional = |version: &str, conditions: Value| json!({"release": release(version), "risks": [risk], "conditions": conditions});
    let entry = |version: &str| {
        json!({"state": "Completed", "startedTime": TIME, "completionTime": TIME, "version": version,
               "image": format!("r.example/a@{version}"), "verified": true})
    };
    json!({
        "metadata": {"name": "version"},
        "spec": {"clusterID": "c", "channel": "stable"},
        "status": {
            "desired": {"version": "1.0.0", "image": "r.example/a@1.0.0", "channels": ["fast", "stable"]},
            "history": [entry("1.0.0"), entry("0.9.9")], "observedGeneration": 1, "versionHash": "h",
            "availableUpdates": [release("1.0.1"), {"version": "1.1.0", "image": format!("r.example/a@{DIGEST}")}],
            "conditionalUpdates": [
                conditional("1.2.0", json!([condition("Recommended", "False", "R")])),
                conditional("1.3.0", json!([condition("Recommended", "True", "R")])),
                conditional("1.4.0", json!([])),
            ],
            "conditions": [
                condition("RetrievedUpdates", "True", ""), condition("Progressing", "False", ""),
                condition("Failing", "False", ""),
            ],
        },
    })
}

fn object(value: &Value) -> ClusterVersion {
    serde_json::from_value(value.clone()).unwrap()
}

fn to(version: &str) -> Ask {
    Ask::new(Wanted::Version(version.to_owned()))
}

fn image(image: &str) -> Ask {
    Ask::new(Wanted::Image(image.to_owned()))
}

fn asked(value: &Value, ask: &Ask) -> Result<Change, String> {
    update(&object(value), ask).map_err(|refused| refused.to_string())
}

fn desired(version: &str, image: &str) -> Value {
    json!({"spec": {"desiredUpdate": {"architecture": "", "version": version, "image": image, "force": false}}})
}

#[test]
fn available_update_is_requested_with_all_fields() {
    let change = asked(&cluster(), &to("1.0.1")).unwrap();
    assert_eq!(change.patch, Some(desired("1.0.1", "r.example/a@1.0.1")));
    assert_eq!((change.said.as_str(), change.warnings.len()), ("Requested the update to 1.0.1", 0));
    // By the digest, from where the administrator says.
    let mirror = format!("mirror.example/b@{DIGEST}");
    assert_eq!(asked(&cluster(), &image(&mirror)).unwrap().patch, Some(desired("1.1.0", &mirror)));
    let latest = asked(&cluster(), &Ask::new(Wanted::Latest)).unwrap();
    assert_eq!(latest.target.unwrap().version, "1.1.0");
    // As the daemon demands: a tag may mean other bytes tomorrow.
    for ask in [to("1.0.1"), Ask::new(Wanted::MultiArch)] {
        let refused = asked(&cluster(), &Ask { force: true, ..ask }).unwrap_err();
        assert!(refused.contains("force needs the image by its digest"), "{refused}");
    }
    let forced = asked(&cluster(), &Ask { force: true, ..to("1.1.0") }).unwrap();
    assert_eq!(forced.patch.unwrap()["spec"]["desiredUpdate"]["force"], true);
    assert_eq!(forced.warnings.len(), 1);
}

#[test]
fn nothing_is_changed_where_the_cluster_is_there_already() {
    for ask in [to("1.0.0"), image("r.example/a@1.0.0")] {
        let change = asked(&cluster(), &ask).unwrap();
        assert_eq!(change.patch, None, "{ask:?}");
        assert!(change.said.starts_with("The cluster is already at "), "{}", change.said);
    }
    let mut none = cluster();
    none["status"]["availableUpdates"] = json!([]);
    let change = asked(&none, &Ask::new(Wanted::Latest)).unwrap();
    assert_eq!(
        (change.patch, change.said.as_str()),
        (None, "The cluster is already at the latest available version 1.0.0")
    );
}

#[test]
fn update_that_is_not_recommended_has_to_be_allowed() {
    let error = asked(&cluster(), &to("1.2.0")).unwrap_err();
    assert!(
        error.starts_with("1.2.0 is not recommended for this cluster: Recommended=False (R): Recommended text"),
        "{error}"
    );
    let allowed = asked(&cluster(), &Ask { not_recommended: true, ..to("1.2.0") }).unwrap();
    assert_eq!(allowed.patch, Some(desired("1.2.0", "r.example/a@1.2.0")));
    assert_eq!(allowed.warnings.len(), 2);
    let unless_forced = "the daemon does not begin it as long as that is so, unless it is forced by --force, which overrides the check of its signature, too";
    assert_eq!(allowed.warnings[1], unless_forced);
    assert!(
        error.ends_with(&format!("--allow-not-recommended requests it all the same, and {unless_forced}")),
        "{error}"
    );
    let latest = Ask { not_recommended: true, ..Ask::new(Wanted::Latest) };
    assert_eq!(asked(&cluster(), &latest).unwrap().target.unwrap().version, "1.2.0");
    // One that is recommended is among the available ones; one that nothing is known of yet is not offered.
    for version in ["1.3.0", "1.4.0"] {
        let error = asked(&cluster(), &Ask { not_recommended: true, ..to(version) }).unwrap_err();
        assert!(error.contains("is not one of the possible updates, which are 1.2.0, 1.1.0, 1.0.1"), "{error}");
    }
}

#[test]
fn risks_that_the_daemon_wants_to_be_accepted_are_named() {
    let mut value = cluster();
    let update = &mut value["status"]["conditionalUpdates"][0];
    update["riskNames"] = json!(["R"]);
    update["risks"][0]["conditions"] = json!([condition("Applies", "True", "Match")]);
    let warnings = |value: &Value, ask: Ask| asked(value, &Ask { not_recommended: true, ..ask }).unwrap().warnings;
    let told = warnings(&value, to("1.2.0"));
    assert!(told.len() == 2 && told[1].contains("unless its risks are accepted by --accept-risk R, or"), "{told:?}");
    let accepting = || Ask { accept: vec!["R".into()], ..to("1.2.0") };
    assert_eq!(warnings(&value, accepting()).len(), 1);
    let error = asked(&value, &accepting()).unwrap_err();
    assert!(error.ends_with("--allow-not-recommended requests it all the same"), "{error}");
    value["spec"]["desiredUpdate"] = json!({"acceptRisks": [{"name": "R"}]});
    assert_eq!(warnings(&value, to("1.2.0")).len(), 1, "it has been accepted before");
    // Nobody knows whether it applies.
    let unknown = json!([condition("Applies", "Unknown", "EvaluationFailed")]);
    value["status"]["conditionalUpdates"][0]["risks"][0]["conditions"] = unknown;
    assert!(warnings(&value, to("1.2.0"))[1].contains("as long as that is so, unless it is forced"));
}

#[test]
fn what_is_not_found_says_why_and_what_else_can_be_done() {
    let error = asked(&cluster(), &to("9.0.0")).unwrap_err();
    assert_eq!(
        error,
        "9.0.0 is not one of the possible updates, which are 1.1.0, 1.0.1; --to-image requests a release by its image"
    );
    let unknown = image("r.example/x@sha256:b");
    assert!(asked(&cluster(), &unknown).unwrap_err().ends_with("requests an image that is not among them"));
    let explicit = asked(&cluster(), &Ask { explicit: true, ..unknown }).unwrap();
    assert_eq!(explicit.patch, Some(desired("", "r.example/x@sha256:b")));
    assert_eq!(explicit.said, "Requested the update to the release image r.example/x@sha256:b");
    let mut none = cluster();
    (none["status"]["availableUpdates"], none["status"]["conditionalUpdates"]) = (json!([]), json!([]));
    assert!(asked(&none, &to("9.0.0")).unwrap_err().starts_with("there are no recommended updates"));
    let allowed = Ask { not_recommended: true, ..to("9.0.0") };
    assert!(asked(&none, &allowed).unwrap_err().starts_with("there are no recommended or conditional updates"));
    none["status"]["conditions"][0] = condition("RetrievedUpdates", "False", "NoChannel");
    let error = asked(&none, &to("9.0.0")).unwrap_err();
    assert!(error.starts_with("the available updates are not known: RetrievedUpdates text (NoChannel)"), "{error}");
    assert!(asked(&none, &Ask::new(Wanted::Latest)).is_err(), "that there is nothing newer is not known");
}

#[test]
fn cluster_that_does_not_do_well_is_updated_only_on_purpose() {
    for (index, type_, sentence) in [
        (2, "Failing", "1.0.0 is failing: Failing text (Because)"),
        (1, "Progressing", "an update is under way: Progressing text (Because)"),
        (0, "Invalid", "the ClusterVersion is invalid: Invalid text (Because)"),
    ] {
        let mut bad = cluster();
        bad["status"]["conditions"][index] = condition(type_, "True", "Because");
        let error = asked(&bad, &to("1.0.1")).unwrap_err();
        assert!(error.starts_with(sentence) && error.contains("--allow-upgrade-with-warnings"), "{error}");
        let allowed = asked(&bad, &Ask { with_warnings: true, ..to("1.0.1") }).unwrap();
        assert_eq!(allowed.warnings, [sentence]);
        assert!(allowed.patch.is_some());
        bad["status"]["conditions"][index] = condition(type_, "Unknown", "Because");
        assert!(asked(&bad, &to("1.0.1")).is_ok(), "what is unknown does not stop it");
    }
}

#[test]
fn accepted_risks_stay_and_are_added_to() {
    let mut value = cluster();
    value["spec"]["desiredUpdate"] = json!({"acceptRisks": [{"name": "B"}], "mode": "Preflight"});
    let change = asked(&value, &Ask { accept: vec!["A".into(), "B".into()], ..to("1.0.1") }).unwrap();
    let update = &change.patch.unwrap()["spec"]["desiredUpdate"];
    assert_eq!(update["acceptRisks"], json!([{"name": "B"}, {"name": "A"}]));
    assert_eq!(update.as_object().unwrap().get("mode"), Some(&Value::Null), "it would stay otherwise");
    let cleared = clear(&object(&value)).patch.unwrap();
    let mut expected =
        json!({"architecture": "", "version": "", "image": "", "force": false, "acceptRisks": [{"name": "B"}]});
    expected["mode"] = Value::Null;
    assert_eq!(cleared["spec"]["desiredUpdate"], expected);
    value["spec"]["desiredUpdate"]["mode"] = json!("");
    let cleared = clear(&object(&value)).patch.unwrap();
    assert_eq!(cleared["spec"]["desiredUpdate"].get("mode"), None, "there is nothing to remove");
}

#[test]
fn request_is_withdrawn() {
    let mut value = cluster();
    assert_eq!(clear(&object(&value)).patch, None);
    value["spec"]["desiredUpdate"] = json!({"version": "1.0.1"});
    let change = clear(&object(&value));
    assert_eq!(change.patch, Some(json!({"spec": {"desiredUpdate": null}})));
    assert_eq!(change.said, "Withdrew the request for 1.0.1");
    value["spec"]["desiredUpdate"] = json!({"version": "1.0.0", "image": "r.example/a@1.0.0"});
    assert_eq!(clear(&object(&value)).said, "Withdrew the request, and the cluster stays at 1.0.0");
    // It has begun.
    value["spec"]["desiredUpdate"] = json!({"version": "1.0.1", "image": "r.example/a@1.0.1"});
    value["status"]["desired"] = json!({"version": "1.0.1", "image": "r.example/a@1.0.1"});
    let mut entry = value["status"]["history"][0].clone();
    (entry["state"], entry["completionTime"]) = (json!("Partial"), Value::Null);
    (entry["version"], entry["image"]) = (json!("1.0.1"), json!("r.example/a@1.0.1"));
    value["status"]["history"].as_array_mut().unwrap().insert(0, entry);
    let said = clear(&object(&value)).said;
    assert!(
        said.starts_with("Withdrew the request for 1.0.1, which has begun") && said.ends_with("goes back to 1.0.0"),
        "{said}"
    );
}

#[test]
fn all_architectures() {
    let ask = Ask::new(Wanted::MultiArch);
    let mut value = cluster();
    let change = asked(&value, &ask).unwrap();
    let expected = json!({"architecture": "Multi", "version": "1.0.0", "image": "", "force": false});
    assert_eq!(change.patch.unwrap()["spec"]["desiredUpdate"], expected);
    value["spec"]["desiredUpdate"] = json!({"architecture": "Multi", "version": "1.0.0"});
    assert!(asked(&value, &ask).unwrap_err().contains("requested already"));
    value["spec"]["desiredUpdate"] = Value::Null;
    value["status"]["desired"]["version"] = json!("");
    assert!(asked(&value, &ask).unwrap_err().contains("is not known"));
}

#[test]
fn way_back_is_to_the_release_before_within_the_minor_version() {
    let back = |value: &Value| rollback(&object(value)).map_err(|refused| refused.to_string());
    let mut value = cluster();
    value["status"]["history"][1]["version"] = json!("1.0.0-rc.1");
    let change = back(&value).unwrap();
    assert_eq!(change.patch, Some(desired("1.0.0-rc.1", "r.example/a@0.9.9")));
    assert_eq!(change.said, "Requested the way back from 1.0.0 to 1.0.0-rc.1");
    let mut preflight = value.clone();
    preflight["spec"]["desiredUpdate"] =
        json!({"version": "1.0.1", "mode": "Preflight", "acceptRisks": [{"name": "B"}]});
    let update = &back(&preflight).unwrap().patch.unwrap()["spec"]["desiredUpdate"];
    assert_eq!(update.get("mode"), Some(&Value::Null), "it would stay otherwise");
    assert_eq!(update["acceptRisks"], json!([{"name": "B"}]), "what is accepted stays accepted");
    for (edit, expected) in [
        (("/status/history/1/version", json!("0.9.9")), "has another minor version"),
        (("/status/history/1/version", json!("1.0.1")), "is not older than"),
        (("/status/history/1/version", json!("x")), "the version of the previous release is not known"),
        (("/status/desired/version", json!("")), "the present version is not known"),
        (("/status/history", json!([])), "no other release"),
        (("/status/conditions/1/status", json!("True")), "an update is under way: Progressing text"),
        (("/status/conditions", json!([])), "nothing tells whether"),
    ] {
        let mut bad = value.clone();
        *bad.pointer_mut(edit.0).unwrap() = edit.1.clone();
        let error = back(&bad).unwrap_err();
        assert!(error.starts_with("cannot go back: ") && error.contains(expected), "{edit:?}: {error}");
    }
}

#[test]
fn channel_has_to_contain_the_present_release() {
    let set = |value: &Value, wanted: &str, explicit: bool| {
        channel(&object(value), wanted, explicit).map_err(|refused| refused.to_string())
    };
    let mut value = cluster();
    let change = set(&value, "fast", false).unwrap();
    assert_eq!((change.patch, change.warnings.len()), (Some(json!({"spec": {"channel": "fast"}})), 0));
    assert_eq!(set(&value, "stable", false).unwrap().patch, None);
    let error = set(&value, "slow", false).unwrap_err();
    assert!(error.starts_with("the channel \"slow\" is not one of those that contain 1.0.0: fast, stable"), "{error}");
    assert_eq!(set(&value, "slow", true).unwrap().warnings, ["The channel slow does not contain 1.0.0"]);
    assert!(set(&value, "", false).is_err());
    let cleared = set(&value, "", true).unwrap();
    assert_eq!((cleared.patch, cleared.warnings.len()), (Some(json!({"spec": {"channel": ""}})), 1));
    value["status"]["desired"]["channels"] = json!([]);
    assert_eq!(set(&value, "slow", false).unwrap().warnings, ["Which channels contain 1.0.0 is not known"]);
    value["spec"]["channel"] = json!("");
    assert_eq!(set(&value, "", false).unwrap().said, "The channel is already cleared");
}
