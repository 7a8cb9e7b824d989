use super::*;
use kube::core::Status;

#[test]
fn long_answer_is_shortened_where_it_is_shown_and_whole_for_the_log() {
    let message = format!("definition is invalid: {}: the last rule", "spec.rule: undeclared reference; ".repeat(2000));
    let status = Status { code: 422, reason: "Invalid".into(), message: message.clone(), ..Status::default() };
    let error = ApiError::of("update the definition", kube::Error::Api(Box::new(status)));
    let shown = error.to_string();
    assert!(shown.len() <= CAUSE, "{} bytes", shown.len());
    assert!(shown.starts_with("cannot update the definition: definition is invalid: spec.rule"), "{shown}");
    assert!(shown.ends_with("undeclared reference; : the last rule") && shown.contains(" bytes left out) "), "{shown}");
    assert!(error.whole().len() <= ANSWER + 100 && error.whole().len() > 60_000, "{} bytes", error.whole().len());
    assert!(error.is_refused() && error.is_rejected());
}

#[test]
fn manifest_that_cannot_be_applied_is_told_from_a_server_that_fails() {
    let answer = |code, message: &str| {
        let status = Status { code, message: message.into(), ..Status::default() };
        ApiError::of("apply it", kube::Error::Api(Box::new(status))).cannot_apply()
    };
    assert!(answer(
        500,
        "failed to create typed patch object (a/b; v1, Kind=B): .spec.x: field not declared in schema"
    ));
    assert!(answer(
        500,
        "failed to prune fields: failed to convert merged object to last applied version: .spec.x: field not declared in schema"
    ));
    assert!(answer(415, "the body of the request was in an unknown format"));
    assert!(!answer(500, "conversion webhook for v1, Kind=B failed"));
    assert!(!answer(422, "spec.x: Invalid value"));
}

#[test]
fn webhook_is_known_by_the_server_s_words_and_its_namespace_by_the_address() {
    let error = |code, message: &str| {
        let status = Status { code, message: message.into(), ..Status::default() };
        ApiError::of("apply it", kube::Error::Api(Box::new(status)))
    };
    let calling = |address: &str| {
        format!(
            "Internal error occurred: failed calling webhook \"denies.example.com\": failed to call webhook: Post \
             \"{address}\": dial tcp 10.0.0.1:443: connect: connection refused"
        )
    };
    let converting = "conversion webhook for example.com/v1, Kind=Widget failed: Post \"https://hook.widgets.svc:443/convert?timeout=30s\": EOF";
    for (message, namespace) in [
        (calling("https://hook.widgets.svc:443/validate?timeout=10s"), Some("widgets")),
        (calling("https://hook.widgets.svc/validate"), Some("widgets")),
        (calling("https://127.0.0.1:1/x?timeout=10s"), None),
        (calling("https://hook.widgets.svc.example.com:443/"), None),
        (converting.to_owned(), Some("widgets")),
    ] {
        let error = error(500, &message);
        assert!(error.is_of_webhook());
        assert_eq!(error.webhook_namespace(), namespace, "{message}");
    }
    assert!(!error(403, &calling("https://hook.widgets.svc:443/")).is_of_webhook(), "it has answered");
    assert_eq!(error(500, "etcdserver: request timed out").webhook_namespace(), None);
}

#[test]
fn missing_right_and_dry_run_that_is_not_possible_are_told_apart() {
    let answer = |code, reason: &str, message: &str| {
        let status = Status { code, reason: reason.into(), message: message.into(), ..Status::default() };
        ApiError::of("create it", kube::Error::Api(Box::new(status)))
    };
    let forbidden = answer(403, "Forbidden", "user cannot create it");
    assert!(forbidden.is_forbidden() && !forbidden.is_of_dry_run());
    let ending = "it cannot be created in namespace a because it is being terminated";
    assert!(!answer(403, "Forbidden", ending).is_forbidden());
    let hook = answer(400, "BadRequest", "admission webhook \"a.example.com\" does not support dry run");
    assert!(hook.is_of_dry_run() && !hook.is_forbidden());
    assert!(!answer(400, "BadRequest", "no").is_of_dry_run() && !answer(422, "Invalid", "dry run").is_of_dry_run());
}
