use super::*;
use crate::api::cluster_version::Capabilities;

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
    let mut writer = StatusWriter::new(Objects::new(client, std::sync::Arc::new(|| false)), "version");
    let offer = |writer: &mut StatusWriter| writer.offer(Value::Null, ClusterVersionStatus::default());
    offer(&mut writer);
    assert_eq!(writer.finish().await, None);
    offer(&mut writer);
    assert!(writer.due().is_some(), "it failed, so that the next comes later");
    writer.rest();
    assert_eq!(writer.due(), None);
}
