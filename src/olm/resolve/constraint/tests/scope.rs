//! Constraints that several operators may meet.

use super::*;

fn api(kind: &str) -> Value {
    json!({"gvk": {"group": "g", "version": "v1", "kind": kind}})
}

fn of(kind: &str, members: &[Value]) -> Value {
    json!({kind: {"constraints": members}})
}

fn message(mut value: Value, text: &str) -> Value {
    value["failureMessage"] = json!(text);
    value
}

fn parts(value: &Value) -> Result<Vec<Constraint>, String> {
    Constraint::parse(value).unwrap().parts()
}

#[test]
fn members_of_an_all_are_demanded_one_by_one() {
    let [a, b, c, d] = ["A", "B", "C", "D"].map(api);
    for (value, expected) in [
        (a.clone(), vec![a.clone()]),
        (of("all", &[a.clone(), b.clone()]), vec![a.clone(), b.clone()]),
        (of("all", &[a.clone(), of("all", &[b.clone(), c.clone()])]), vec![a.clone(), b.clone(), c.clone()]),
        (of("any", &[a.clone(), b.clone()]), vec![of("any", &[a.clone(), b.clone()])]),
        // Whoever has not A has both others.
        (
            of("any", &[a.clone(), of("all", &[b.clone(), c.clone()])]),
            vec![of("any", &[a.clone(), b.clone()]), of("any", &[a.clone(), c.clone()])],
        ),
        // What is excluded is for each of the others.
        (
            of("all", &[a.clone(), of("not", std::slice::from_ref(&d)), b.clone()]),
            vec![
                of("all", &[a.clone(), of("not", std::slice::from_ref(&d))]),
                of("all", &[b.clone(), of("not", std::slice::from_ref(&d))]),
            ],
        ),
        (of("not", std::slice::from_ref(&d)), vec![of("not", std::slice::from_ref(&d))]),
        (of("all", &[of("not", std::slice::from_ref(&d))]), vec![of("all", &[of("not", std::slice::from_ref(&d))])]),
    ] {
        let expected: Vec<Constraint> = expected.iter().map(|it| Constraint::parse(it).unwrap()).collect();
        assert_eq!(parts(&value), Ok(expected), "{value}");
    }
}

#[test]
fn member_without_a_message_has_that_of_the_whole() {
    let value = message(of("all", &[message(api("A"), "own"), api("B")]), "whole");
    let messages: Vec<Option<String>> = parts(&value).unwrap().into_iter().map(|it| it.failure_message).collect();
    assert_eq!(messages, [Some("own".to_owned()), Some("whole".to_owned())]);
}

#[test]
fn constraint_that_comes_to_too_many_dependencies_is_refused() {
    let pair = of("all", &[api("A"), api("B")]);
    assert_eq!(parts(&of("any", &vec![pair.clone(); 6])).unwrap().len(), 64);
    let error = parts(&of("any", &vec![pair; 7])).unwrap_err();
    assert!(error.contains("more than 100 dependencies"), "{error}");
    assert!(parts(&of("all", &vec![api("A"); 101])).is_err());
}
