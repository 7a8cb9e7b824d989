use super::*;

#[test]
fn order_of_what_the_server_lists_does_not_matter() {
    let answer = in_any_order("definition is invalid: [spec.a: no such function, spec.b: too long]");
    assert_eq!(in_any_order("definition is invalid: [spec.b: too long, spec.a: no such function]"), answer);
    assert_ne!(in_any_order("definition is invalid: [spec.b: too long, spec.c: no such function]"), answer);
}
