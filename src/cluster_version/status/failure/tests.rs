use super::*;

#[test]
fn api_server_errors_map_to_reasons() {
    let table = [
        (404, "NotFound", "UpdatePayloadResourceNotFound"),
        (409, "AlreadyExists", "UpdatePayloadResourceNotFound"),
        (409, "Conflict", "UpdatePayloadResourceConflict"),
        (409, "", "UpdatePayloadResourceConflict"),
        (504, "Timeout", "UpdatePayloadClusterDown"),
        (503, "ServiceUnavailable", "UpdatePayloadClusterDown"),
        (502, "", "UpdatePayloadClusterDown"),
        (500, "", "UpdatePayloadClusterDown"),
        (500, "InternalError", "UpdatePayloadClusterError"),
        (422, "Invalid", "UpdatePayloadResourceInvalid"),
        (401, "Unauthorized", "UpdatePayloadClusterUnauthorized"),
        (403, "Forbidden", "UpdatePayloadResourceForbidden"),
        (504, "ServerTimeout", "UpdatePayloadClusterOverloaded"),
        (429, "TooManyRequests", "UpdatePayloadClusterOverloaded"),
        (429, "", "UpdatePayloadClusterOverloaded"),
        (400, "BadRequest", "UpdatePayloadFailed"),
        (0, "", "UpdatePayloadFailed"),
    ];
    for (code, reason, want) in table {
        assert_eq!(classify(code, reason).as_str(), want, "{code} {reason}");
    }
}

fn operator(reason: Reason, name: &str, effect: Effect) -> UpdateError {
    UpdateError { effect, names: vec![name.into()], ..UpdateError::new(reason, format!("{name} is not well")) }
}

#[test]
fn errors_of_one_reason_become_one_with_the_strongest_effect() {
    assert_eq!(aggregate(Vec::new()), None);
    let one = operator(Reason::OperatorDegraded, "a", Effect::Report);
    assert_eq!(aggregate(vec![one.clone()]), Some(one.clone()));
    let both = aggregate(vec![operator(Reason::OperatorDegraded, "b", Effect::FailAfterInterval), one]).unwrap();
    assert_eq!(both.reason.as_str(), "ClusterOperatorsDegraded");
    assert_eq!(both.message, "Cluster operators a, b are degraded");
    assert_eq!((both.names.join(","), both.effect), ("a,b".into(), Effect::FailAfterInterval));
}

#[test]
fn strongest_effect_wins_in_any_order() {
    use Effect::{Fail, FailAfterInterval, Report, Wait};
    let order = [Report, Wait, FailAfterInterval, Fail];
    for (i, weak) in order.into_iter().enumerate() {
        for strong in order.into_iter().skip(i) {
            for pair in [[weak, strong], [strong, weak]] {
                let errors = pair.into_iter().zip(["b", "a"]);
                let errors = errors.map(|(effect, name)| operator(Reason::OperatorUpdating, name, effect));
                let joined = aggregate(errors.collect()).unwrap();
                assert_eq!(joined.effect, strong, "{pair:?}");
                assert_eq!((joined.names.join(","), joined.nested.len()), ("a,b".into(), 2));
            }
        }
    }
    // Beside an error of another kind the whole is a failure, and its children keep their effects.
    let all = aggregate(vec![
        operator(Reason::OperatorUpdating, "a", Report),
        UpdateError::new(Reason::Other("Y".into()), "y"),
        operator(Reason::OperatorUpdating, "b", Wait),
    ]);
    let all = all.unwrap();
    let effects: Vec<_> = all.nested.iter().map(|e| (e.reason.as_str(), e.effect)).collect();
    assert_eq!((all.effect, effects), (Fail, vec![("Y", Fail), ("ClusterOperatorsUpdating", Wait)]));
}

#[test]
fn errors_of_several_reasons_are_listed_with_operators_last() {
    let errors = vec![
        operator(Reason::OperatorUpdating, "z", Effect::Wait),
        operator(Reason::OperatorDegraded, "y", Effect::Fail),
        UpdateError::new(Reason::Other("X".into()), "x is broken"),
    ];
    let all = aggregate(errors).unwrap();
    assert_eq!((&all.reason, all.effect), (&Reason::MultipleErrors, Effect::Fail));
    let reasons: Vec<&str> = all.nested.iter().map(|e| e.reason.as_str()).collect();
    assert_eq!(reasons, ["X", "ClusterOperatorDegraded", "ClusterOperatorUpdating"]);
    assert!(all.message.ends_with(":\n* x is broken\n* y is not well\n* z is not well"), "{}", all.message);
}

/// As an API server refused them that does not know the functions in the rules of these definitions.
#[test]
fn many_long_errors_become_one_message_of_bounded_length() {
    let answer = "spec.validation.openAPIV3Schema.properties[spec].x-kubernetes-validations[0].rule: Invalid value; ";
    let error = |n: usize| {
        let message = format!("definition {n} is invalid: {}: that is all of {n}", answer.repeat(46));
        UpdateError::new(Reason::ResourceInvalid, message)
    };
    let one = error(1);
    assert!(one.message.len() <= CAUSE, "{} bytes", one.message.len());
    assert!(one.message.starts_with("definition 1 is invalid: spec") && one.message.ends_with("that is all of 1"));
    let all = aggregate((0..17).map(error).collect()).unwrap();
    assert!(all.message.len() <= MESSAGE, "{} bytes", all.message.len());
    assert_eq!(all.message.matches("that is all of").count() + 10, 17, "{}", all.message);
    let rest = "\n* and 10 more; `cvo status` and the log of the daemon have all of them";
    assert!(all.message.ends_with(rest), "{}", all.message);
    assert_eq!(all.nested.len(), 17);
}

#[test]
fn whole_text_has_what_the_operators_say_of_themselves() {
    let degraded = |name: &str| UpdateError {
        nested: vec![UpdateError::new(Reason::Other("Sick".into()), format!("{name} has a fever"))],
        ..operator(Reason::OperatorDegraded, name, Effect::Fail)
    };
    assert_eq!(degraded("dns").whole(), "dns is not well: Sick: dns has a fever");
    let two = aggregate(vec![degraded("dns"), degraded("etcd")]).unwrap();
    let text = "Cluster operators dns, etcd are degraded: dns: Sick: dns has a fever; etcd: Sick: etcd has a fever";
    assert_eq!(two.whole(), text);
    let mixed = aggregate(vec![degraded("dns"), UpdateError::new(Reason::Other("X".into()), "x is broken")]).unwrap();
    assert!(mixed.whole().ends_with(":\n* dns is not well: Sick: dns has a fever\n* x is broken"), "{}", mixed.whole());
    let silent =
        UpdateError { nested: vec![UpdateError::new(Reason::NoCondition, "it says nothing")], ..degraded("dns") };
    assert_eq!(silent.whole(), "dns is not well: it says nothing");
    let many = aggregate((0..900).map(|n| degraded(&format!("operator-{n}"))).collect()).unwrap();
    assert!(many.whole().len() <= MESSAGE, "{} bytes", many.whole().len());
}
