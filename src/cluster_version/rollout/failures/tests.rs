use super::*;
use crate::cluster_version::status::failure::Reason;

impl Failures {
    fn failure(&self) -> Option<UpdateError> {
        self.failure_beside(&Drained::new())
    }
}

fn error(text: &str) -> Option<UpdateError> {
    Some(UpdateError::new(Reason::Other(text.into()), text))
}

#[test]
fn failure_clears_only_when_its_own_node_passes() {
    let mut failures = Failures::default();
    assert_eq!(failures.failure(), None);
    failures.of_node(3, error("three"));
    // Others start, wait silently, pass.
    for other in [0, 1, 2, 4] {
        failures.of_node(other, None);
        assert_eq!(failures.failure(), error("three"), "node {other}");
    }
    failures.of_node(1, error("one"));
    let both = failures.failure().unwrap();
    let reasons: Vec<&str> = both.nested.iter().map(|e| e.reason.as_str()).collect();
    assert_eq!((&both.reason, reasons), (&Reason::MultipleErrors, vec!["one", "three"]));
    // The node waits for something else now.
    failures.of_node(3, error("more"));
    failures.of_node(1, None);
    assert_eq!(failures.failure(), error("more"));
    failures.of_node(3, None);
    assert_eq!(failures.failure(), None);
}

#[test]
fn failure_of_an_object_stands_until_that_object_is_well() {
    let (a, b) = (ObjectId::new("", "A", "", "a"), ObjectId::new("", "B", "", "b"));
    let mut failures = Failures::default();
    failures.of_object(a.clone(), error("a"));
    failures.of_object(b.clone(), error("b"));
    failures.of_node(0, None);
    failures.of_object(b, None);
    assert_eq!(failures.failure(), error("a"));
    failures.of_object(a, None);
    assert_eq!(failures.failure(), None);
}
