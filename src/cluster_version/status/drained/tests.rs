use super::*;
use crate::cluster_version::status::failure::Effect;

fn operator(reason: Reason, name: &str, effect: Effect) -> UpdateError {
    UpdateError { effect, names: vec![name.into()], ..UpdateError::new(reason, format!("{name} is not well")) }
}

fn away(name: &str) -> UpdateError {
    operator(Reason::OperatorNotAvailable, name, Effect::Fail)
}

fn drained(all: &[(&str, &[&str])]) -> Drained {
    all.iter()
        .map(|(name, nodes)| ((*name).to_owned(), nodes.iter().map(|node| (*node).to_owned()).collect()))
        .collect()
}

#[test]
fn operators_that_nodes_explain_are_waited_for_together() {
    let known = drained(&[("b", &["n1"]), ("a", &["n1"]), ("c", &[])]);
    let [error] = <[_; 1]>::try_from(without_drained(vec![away("b"), away("a"), away("c")], &known)).unwrap();
    assert_eq!((&error.reason, error.effect), (&Reason::NodesUpdating, Effect::Wait));
    assert_eq!(error.message, "a, b, whose pods had to leave node n1, which is being updated");
    let known = drained(&[("a", &["n1", "n2"])]);
    let several = without_drained(vec![away("a")], &known);
    assert_eq!(several[0].message, "a, whose pods had to leave nodes n1, n2, which are being updated");
    assert_eq!(without_drained(vec![away("a")], &drained(&[("a", &[])])), [], "it is being found out");
}

#[test]
fn all_other_errors_stay() {
    let known = drained(&[("a", &["n1"])]);
    let others = [
        away("b"),
        operator(Reason::OperatorDegraded, "a", Effect::FailAfterInterval),
        // It has never been available.
        operator(Reason::OperatorNotAvailable, "a", Effect::FailAfterInterval),
        operator(Reason::WorkloadNotAvailable, "a", Effect::Fail),
    ];
    for other in others {
        assert_eq!(without_drained(vec![other.clone()], &known), std::slice::from_ref(&other));
        assert_eq!(without_drained(vec![away("a"), other.clone()], &known)[0], other);
    }
}

#[test]
fn only_operators_that_fail_at_once_are_unavailable() {
    let errors = [
        away("a"),
        operator(Reason::OperatorNotAvailable, "b", Effect::FailAfterInterval),
        operator(Reason::OperatorDegraded, "c", Effect::Fail),
    ];
    assert_eq!(unavailable(&errors), ["a".to_owned()].into());
}
