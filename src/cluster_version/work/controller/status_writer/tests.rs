use super::*;
use crate::cluster_version::api::Capabilities;

#[test]
fn name_that_the_schema_refuses_is_found_and_left_out() {
    let list = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>();
    let capabilities = Capabilities {
        enabled_capabilities: list(&["Build", "Future"]),
        known_capabilities: list(&["Build", "ClusterAPI"]),
    };
    let available_updates = Some(vec![]);
    let mut status = ClusterVersionStatus { capabilities, available_updates, ..ClusterVersionStatus::default() };
    let error = |code, message: &str| {
        let cause = Cause::Server { code, reason: "Invalid".into(), message: message.into() };
        ApiError { attempt: "write".into(), cause }
    };
    let message = "ClusterVersion.config.openshift.io \"version\" is invalid: [status.capabilities.\
        enabledCapabilities[1]: Unsupported value: \"Future\": supported values: \"Build\", status.capabilities.\
        knownCapabilities[1]: Unsupported value: \"ClusterAPI\": supported values: \"Build\"]";
    let refused = Refused::of(&error(422, message), &status).unwrap();
    assert_eq!(refused.capabilities.iter().map(String::as_str).collect::<Vec<_>>(), ["ClusterAPI", "Future"]);
    assert_eq!(Refused::of(&error(409, message), &status), None);
    let large = Refused { updates: true, ..Refused::default() };
    assert_eq!(Refused::of(&error(413, "limit is 3145728"), &status), Some(large.clone()));
    assert_eq!(Refused::of(&error(500, "etcdserver: request is too large"), &status), Some(large));
    assert_eq!(Refused::of(&error(422, "status.desired: Required value"), &status), None);
    refused.leave_out(&mut status);
    assert_eq!(status.capabilities.enabled_capabilities, ["Build"]);
    assert_eq!(status.capabilities.known_capabilities, ["Build"]);
    assert_eq!(status.available_updates, Some(vec![]), "no reason to hide them");

    let message = "ClusterVersion.config.openshift.io \"version\" is invalid: status.conditionalUpdates[0].risks[0].url: \
        Invalid value: \"x\": status.conditionalUpdates[0].risks[0].url in body must be of type uri: \"x\"";
    Refused::of(&error(422, message), &status).unwrap().leave_out(&mut status);
    assert_eq!((&status.available_updates, &status.capabilities.known_capabilities), (&None, &vec!["Build".into()]));
}

/// A past time to offer again would wake the controller again and again.
#[tokio::test]
async fn status_that_needs_no_write_is_no_longer_due() {
    let client = kube::Client::try_from(kube::Config::new("http://127.0.0.1:1".parse().unwrap())).unwrap();
    let mut writer = StatusWriter::new(Objects::reader(client), "version", Arc::default());
    let offer = |writer: &mut StatusWriter| writer.offer(Value::Null, ClusterVersionStatus::default());
    offer(&mut writer);
    assert_eq!(writer.finish().await, None);
    offer(&mut writer);
    assert!(writer.due().is_some(), "it failed, so that the next comes later");
    writer.rest();
    assert_eq!(writer.due(), None);
}

/// An older definition has no risk names, for instance.
#[test]
fn fields_that_the_server_drops_are_left_out_of_what_is_compared_and_written() {
    use serde_json::json;
    let time = "2026-01-01T00:00:00Z";
    let risk = json!({"url": "https://u", "name": "R", "message": "m", "matchingRules": [{"type": "Always"}],
        "conditions": [{"type": "Applies", "status": "True", "reason": "Match", "message": "", "lastTransitionTime": time}]});
    let update = |version: &str| json!({"release": {"version": version, "image": "i"}, "risks": [risk.clone()], "riskNames": ["R"]});
    let sent = json!({"desired": {"version": "1", "image": "i"}, "history": [], "observedGeneration": 1,
        "versionHash": "", "availableUpdates": null, "conditionalUpdates": [update("2"), update("3")],
        "conditionalUpdateRisks": [risk]});
    let status: ClusterVersionStatus = serde_json::from_value(sent).unwrap();
    let whole = json!({"status": serde_json::to_value(&status).unwrap()});
    let mut answer = whole.clone();
    answer["status"].as_object_mut().unwrap().remove("conditionalUpdateRisks");
    answer["status"].as_object_mut().unwrap().remove("availableUpdates");
    for update in answer["status"]["conditionalUpdates"].as_array_mut().unwrap() {
        update.as_object_mut().unwrap().remove("riskNames");
        update["risks"][0].as_object_mut().unwrap().remove("conditions");
    }
    let fields = dropped(&whole, &answer);
    let expected = ["conditionalUpdateRisks", "conditionalUpdates.riskNames", "conditionalUpdates.risks.conditions"];
    assert_eq!(fields.iter().map(String::as_str).collect::<Vec<_>>(), expected);
    let mut left = status.clone();
    Refused { fields, ..Refused::default() }.leave_out(&mut left);
    assert_eq!(left, serde_json::from_value(answer["status"].clone()).unwrap());
    assert_eq!(dropped(&whole, &whole), BTreeSet::new());
}

/// The watch may be broken at that moment.
#[tokio::test]
async fn a_status_that_another_client_has_written_is_returned_and_slows_the_next_attempt() {
    use serde_json::json;
    let object = |version: &str, hash: &str| {
        json!({"apiVersion": "config.openshift.io/v1", "kind": "ClusterVersion",
            "metadata": {"name": "version", "uid": "u", "resourceVersion": version}, "status": {"versionHash": hash}})
    };
    let newer = object("2", "another");
    let (service, mut requests) =
        tower_test::mock::pair::<http::Request<kube::client::Body>, http::Response<kube::client::Body>>();
    let answer = newer.clone();
    tokio::spawn(async move {
        while let Some((request, respond)) = requests.next_request().await {
            let conflict =
                json!({"kind": "Status", "apiVersion": "v1", "code": 409, "reason": "Conflict", "message": "no"});
            let put = request.method() == http::Method::PUT;
            let (code, body) = if put { (409, &conflict) } else { (200, &answer) };
            let body = kube::client::Body::from(body.to_string().into_bytes());
            respond.send_response(http::Response::builder().status(code).body(body).unwrap());
        }
    });
    let objects = Objects::new(kube::Client::new(service, "default"), "tests", std::sync::Arc::new(|| true));
    let mut writer = StatusWriter::new(objects, "version", Arc::default());
    for failures in 1..=3 {
        writer.last = None;
        writer.offer(object("1", "old"), ClusterVersionStatus::default());
        assert_eq!(writer.finish().await, Some(newer.clone()));
        assert_eq!(writer.failures, failures);
    }
}
