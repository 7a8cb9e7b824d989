use super::*;
use crate::cli::layout::Page;
use crate::diff::field::Field;
use crate::olm::forecast::known::Key;
use crate::olm::forecast::rights::NewRights;
use crate::olm::forecast::{Change, DefinitionVerdict, Verb};
use crate::olm::resolve::answer::{Answer, Failure, New};

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

fn page() -> Page {
    Page { width: usize::MAX, colours: false, now: jiff::Timestamp::UNIX_EPOCH }
}

fn both() -> Round {
    let failure = Failure {
        message: "constraints not satisfiable: subscription y exists".to_owned(),
        explanation: "1. y asks for a package.\nWhat would help, one of:\n- delete y".to_owned(),
        subscriptions: ["y".to_owned()].into(),
    };
    round(
        vec![
            ("x", Outcome::Install(vec![new("a.v2", "a.v1", "subscription x asks for it")])),
            ("y", Outcome::Impossible(failure)),
        ],
        None,
    )
}

#[test]
fn what_is_installed_is_told_with_its_reasons_and_what_is_not_with_a_way_out() {
    let both = [both()];
    insta::assert_snapshot!(text::answers(&both, None, &page()), @r"
    a.v2, in the place of a.v1: channel stable of catalog shop/main
      subscription x asks for it
    constraints not satisfiable: subscription y exists
      1. y asks for a package.
      What would help, one of:
      - delete y
    somebody has to approve it, because of the Subscriptions x
    ");
    assert_eq!([None, Some("x"), Some("y")].map(|only| fails(&both[0], only)), [true, false, true]);
    assert_eq!(both[0].told()["failures"][0]["subscriptions"], json!(["y"]));
    let held = [round(Vec::new(), Some("found 0 operatorGroups, expected 1"))];
    insta::assert_snapshot!(text::answers(&held, None, &page()), @"nothing is looked for: found 0 operatorGroups, expected 1");
    assert!(fails(&held[0], None));
    let nothing = [round(vec![("x", Outcome::Install(Vec::new()))], None)];
    assert_eq!(
        (text::answers(&nothing, None, &page()).as_str(), fails(&nothing[0], None)),
        ("nothing is to be installed\n", false)
    );
    let gave_up = [round(vec![("x", Outcome::GaveUp)], None)];
    assert!(text::answers(&gave_up, None, &page()).contains("gave up") && fails(&gave_up[0], None));
}

/// `a.v2` with what it requires, and what that writes.
fn planned(held: &[&str]) -> Plan {
    let mut head = new("a.v2", "a.v1", "subscription x asks for it");
    head.subscriptions = ["x".to_owned()].into();
    let required =
        new("b.v1", "", "bundle a.v2 requires an operator with package: b and with version in range: >=1.0.0");
    let round = round(vec![("x", Outcome::Install(vec![head, required]))], None);
    let change = |verb, kind: (&str, &str), name: &str, of: &str, fields: &[&str]| Change {
        verb,
        key: Key::new(kind, "shop", name),
        of: of.to_owned(),
        fields: fields
            .iter()
            .map(|path| Field { path: (*path).to_owned(), from: Some(json!("w:1")), to: Some(json!("w:2")) })
            .collect(),
    };
    let forecast = Forecast {
        changes: vec![
            change(Verb::Create, ("", "ServiceAccount"), "a", "a.v2", &[]),
            change(Verb::Update, ("apps", "Deployment"), "a", "a.v2", &["spec.template.spec.containers[a].image"]),
            change(Verb::Delete, ("operators.coreos.com", "ClusterServiceVersion"), "a.v1", "a.v1", &[]),
        ],
        unchanged: 2,
        trials: Vec::new(),
        rights: vec![NewRights {
            of: "a.v2".to_owned(),
            account: "a".to_owned(),
            everywhere: true,
            rules: vec!["list secrets".to_owned()],
        }],
        definitions: vec![DefinitionVerdict {
            name: "as.example.com".to_owned(),
            findings: vec!["it is new".to_owned()],
            ..DefinitionVerdict::default()
        }],
        held: held.iter().map(|text| (*text).to_owned()).collect(),
        unknown: Vec::new(),
    };
    Plan { rounds: vec![Foretold { round, forecast }], unknown: vec!["What operators do.".to_owned()] }
}

#[test]
fn plan_tells_each_object_new_rights_definitions_and_what_holds_it() {
    insta::assert_snapshot!(text::text(&planned(&["busy"]), &page()), @r"
    a.v2, in the place of a.v1: channel stable of catalog shop/main
      subscription x asks for it
    b.v1: channel stable of catalog shop/main
      bundle a.v2 requires an operator with package: b and with version in range: >=1.0.0
    somebody has to approve it, because of the Subscriptions x
    will hold it: busy
    3 objects are written, 2 objects are as they should be
      create ServiceAccount shop/a
      change Deployment shop/a
        spec.template.spec.containers[a].image: w:1 → w:2
      delete ClusterServiceVersion shop/a.v1
    New rights
      a.v2, ServiceAccount a, in all namespaces: list secrets
    Definitions
      as.example.com: it is new
    Not known beforehand
      What operators do.
    ");
    assert_eq!([&["busy"][..], &[]].map(|held| exit(&planned(held))), [Exit::Blocked, Exit::Success]);
    let told = of_plan(&planned(&["busy"]));
    assert_eq!(told["rounds"][0]["changes"][1]["verb"], "update");
    assert_eq!(told["rounds"][0]["changes"][1]["kind"], "Deployment");
    assert_eq!(told["rounds"][0]["rights"][0]["rules"], json!(["list secrets"]));
    assert_eq!(
        (&told["rounds"][0]["hindrances"], &told["unknown"]),
        (&json!(["busy"]), &json!(["What operators do."]))
    );
}

#[test]
fn plan_is_a_graph_of_subscriptions_versions_and_what_they_require() {
    insta::assert_snapshot!(dot::dot(&planned(&[]).rounds), @r#"
    digraph plan {
      rankdir=LR;
      node [shape=box];
      subgraph cluster_0 {
        label="round 1";
        "a.v2" [label="a.v2\lchannel stable of shop/main\l1 created, 1 changed\l" style=filled fillcolor=lightyellow];
        "b.v1" [label="b.v1\lchannel stable of shop/main\l\l" style=filled fillcolor=lightyellow];
      }
      "Subscription x" [shape=ellipse];
      "Subscription x" -> "a.v2";
      "a.v1" -> "a.v2" [label="replaced by" style=dashed];
      "a.v2" -> "b.v1" [label=requires];
    }
    "#);
}
