use super::*;
use crate::olm::resolve::answer::{Answer, Failure};

fn new(name: &str, replaces: &str, reason: &str) -> New {
    New {
        name: name.to_owned(),
        package: "a".to_owned(),
        channel: "stable".to_owned(),
        catalog: ("shop".to_owned(), "main".to_owned()),
        image: String::new(),
        replaces: replaces.to_owned(),
        properties: Vec::new(),
        subscriptions: Default::default(),
        reasons: vec![reason.to_owned()],
    }
}

fn round(parts: Vec<(&str, Outcome)>, held: Option<&str>) -> Round {
    let part = |(name, outcome): (&str, Outcome)| Part { subscriptions: [name.to_owned()].into(), outcome };
    let answer = Answer { parts: parts.into_iter().map(part).collect() };
    Round { held: held.map(ToOwned::to_owned), answer, manual: vec!["x".to_owned()] }
}

#[test]
fn what_is_installed_is_told_with_its_reasons_and_what_is_not_with_a_way_out() {
    let page = Page { width: usize::MAX, colours: false, now: jiff::Timestamp::UNIX_EPOCH };
    let failure = Failure {
        message: "constraints not satisfiable: subscription y exists".to_owned(),
        explanation: "1. y asks for a package.\nWhat would help, one of:\n- delete y".to_owned(),
        subscriptions: ["y".to_owned()].into(),
    };
    let both = [round(
        vec![
            ("x", Outcome::Install(vec![new("a.v2", "a.v1", "subscription x asks for it")])),
            ("y", Outcome::Impossible(failure)),
        ],
        None,
    )];
    insta::assert_snapshot!(text(&both, None, &page), @r"
    a.v2, in the place of a.v1: channel stable of catalog shop/main
      subscription x asks for it
    constraints not satisfiable: subscription y exists
      1. y asks for a package.
      What would help, one of:
      - delete y
    somebody has to approve it, because of the Subscriptions x
    ");
    assert!(!text(&both, Some("x"), &page).contains("satisfiable"));
    assert_eq!(
        (exit(&both, None), exit(&both, Some("x")), exit(&both, Some("y"))),
        (Exit::Blocked, Exit::Success, Exit::Blocked)
    );
    let held = [round(Vec::new(), Some("found 0 operatorGroups, expected 1"))];
    assert_eq!(text(&held, None, &page), "nothing is looked for: found 0 operatorGroups, expected 1\n");
    assert_eq!(exit(&held, None), Exit::Blocked);
    let nothing = [round(vec![("x", Outcome::Install(Vec::new()))], None)];
    assert_eq!(
        (text(&nothing, None, &page).as_str(), exit(&nothing, None)),
        ("nothing is to be installed\n", Exit::Success)
    );
}
