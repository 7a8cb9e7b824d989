use super::*;
use crate::promql::QueryError;
use crate::release::api::PromQl;

fn now() -> Timestamp {
    Timestamp::from_second(1_700_000_000).unwrap()
}

fn release(version: &str) -> Release {
    Release { version: version.into(), image: format!("img-{version}"), ..Release::default() }
}

/// A risk whose query is its second part.
fn risk(name: &str, query: &str) -> ConditionalUpdateRisk {
    let rule = match query {
        "always" => MatchingRule { type_: "Always".into(), promql: None },
        query => MatchingRule { type_: "PromQL".into(), promql: Some(PromQl { promql: query.into() }) },
    };
    ConditionalUpdateRisk {
        url: format!("https://example.com/{name}"),
        name: name.into(),
        message: format!("{name} hurts."),
        matching_rules: vec![rule],
        conditions: Vec::new(),
    }
}

fn update(version: &str, risks: Vec<ConditionalUpdateRisk>) -> ConditionalUpdate {
    ConditionalUpdate { release: release(version), risks, conditions: Vec::new(), risk_names: Vec::new() }
}

/// Queries named 0 and 1 have that verdict, others fail.
fn evaluated(conditional: &[ConditionalUpdate]) -> Evaluations {
    let mut evaluations = Evaluations::default();
    evaluations.need(conditional.iter().flat_map(|update| &update.risks), now());
    loop {
        let begun = evaluations.begin(now());
        if begun.is_empty() {
            return evaluations;
        }
        for query in begun {
            let answer = match query.get(..1) {
                Some("1") => Ok(true),
                Some("0") => Ok(false),
                _ => Err(QueryError::Answer("0 samples".into())),
            };
            evaluations.on_answer(&query, answer, now());
        }
    }
}

fn judged_with(
    available: &[Release],
    conditional: &[ConditionalUpdate],
    own_risks: &[Risk],
    accepted: Option<&[&str]>,
) -> Judged {
    let accepted = accepted.map(|names| names.iter().map(|&name| name.to_owned()).collect::<BTreeSet<_>>());
    let evaluations = evaluated(conditional);
    let basis =
        Basis { current: "4.1.0", own_risks, accepted: accepted.as_ref(), evaluations: &evaluations, now: now() };
    judge(available, conditional, basis)
}

fn recommended(update: &ConditionalUpdate) -> (&str, &str, &str) {
    let [condition] = update.conditions.as_slice() else { panic!("{:?}", update.conditions) };
    assert_eq!(condition.type_, "Recommended");
    (&condition.status, &condition.reason, &condition.message)
}

fn versions(releases: &[Release]) -> Vec<&str> {
    releases.iter().map(|release| release.version.as_str()).collect()
}

#[test]
fn risks_decide_whether_an_update_is_recommended() {
    type Row = (&'static [(&'static str, &'static str)], Option<&'static [&'static str]>, &'static str, &'static str);
    // risks with their queries, accepted names, status, reason
    let table: [Row; 14] = [
        (&[("A", "0a")], None, "True", "NotExposedToRisks"),
        (&[("A", "1a")], None, "False", "A"),
        (&[("A-b", "1a")], None, "False", "ExposedToRisks"),
        (&[("A", "always")], None, "False", "A"),
        (&[("A", "x")], None, "Unknown", "EvaluationFailed"),
        (&[("A", "0a"), ("B", "1b")], None, "False", "B"),
        (&[("A", "1a"), ("B", "1b")], None, "False", "MultipleReasons"),
        (&[("A", "1a"), ("B", "x")], None, "False", "MultipleReasons"),
        (&[("A", "x"), ("B", "1b")], None, "False", "MultipleReasons"),
        (&[("A", "x"), ("B-c", "1b")], None, "False", "ExposedToRisks"),
        (&[("A", "1a")], Some(&["A"]), "True", "AllExposedRisksAccepted"),
        (&[("A", "1a"), ("B", "1b")], Some(&["A"]), "False", "B"),
        (&[("A", "1a"), ("B", "1b")], Some(&["B"]), "False", "MultipleReasons"),
        // What is not known cannot be accepted.
        (&[("A", "x")], Some(&["A"]), "Unknown", "EvaluationFailed"),
    ];
    for (risks, accepted, status, reason) in table {
        let list = risks.iter().map(|(name, query)| risk(name, query)).collect();
        let judged = judged_with(&[], &[update("4.1.1", list)], &[], accepted);
        let found = recommended(&judged.conditional[0]);
        assert_eq!((found.0, found.1), (status, reason), "{risks:?} accepted {accepted:?}");
        assert_eq!(judged.available.len(), usize::from(status == "True"), "{risks:?} accepted {accepted:?}");
    }
}

#[test]
fn message_says_of_each_risk_whether_it_applies() {
    let risks =
        vec![risk("No", "0a"), risk("Broken", "x"), risk("Accepted", "1b"), risk("Yes", "1c"), risk("All", "always")];
    let judged = judged_with(&[], &[update("4.1.1", risks)], &[], Some(&["Accepted"]));
    let (_, _, message) = recommended(&judged.conditional[0]);
    let expected = "Yes hurts. https://example.com/Yes (Risk Yes applies)\n\n\
        All hurts. https://example.com/All (Risk All applies)\n\n\
        Whether risk Broken applies is unknown: 0 samples. If it applies: Broken hurts. https://example.com/Broken\n\n\
        Risk Accepted applies and is accepted: Accepted hurts. \
        https://example.com/Accepted\n\n\
        Risk No does not apply.";
    assert_eq!(message, expected);
}

#[test]
fn names_and_conditions_of_risks_need_the_feature_gate() {
    let conditional = [update("4.1.1", vec![risk("B", "1b"), risk("A", "0a")]), update("4.1.2", vec![risk("A", "x")])];
    let without = judged_with(&[], &conditional, &[], None);
    assert!(without.risks.is_empty());
    assert!(
        without.conditional.iter().all(|u| u.risk_names.is_empty() && u.risks.iter().all(|r| r.conditions.is_empty()))
    );
    let with = judged_with(&[], &conditional, &[], Some(&[]));
    assert_eq!(with.conditional[0].release.version, "4.1.2");
    assert_eq!(with.conditional[1].risk_names, ["A", "B"]);
    let said: Vec<_> = with
        .risks
        .iter()
        .map(|risk| (risk.name.as_str(), risk.conditions[0].status.as_str(), risk.conditions[0].reason.as_str()))
        .collect();
    // Of two definitions that of the higher version is listed.
    assert_eq!(said, [("A", "Unknown", "EvaluationFailed"), ("B", "True", "Match")]);
    assert_eq!(with.conditional[1].risks[1].conditions[0].reason, "NotMatch");
}

#[test]
fn same_name_with_other_rules_is_judged_separately() {
    let conditional = [update("4.1.1", vec![risk("A", "1a")]), update("4.1.2", vec![risk("A", "0a")])];
    let judged = judged_with(&[], &conditional, &[], None);
    assert_eq!(versions(&judged.available), ["4.1.2"]);
    assert_eq!(recommended(&judged.conditional[1]).1, "A");
}

#[test]
fn own_risks_concern_updates_to_higher_minor_versions_and_need_the_feature_gate() {
    let own = |name: &str| Risk { name: name.into(), message: "m".into(), url: "https://example.com".into() };
    let available = [release("4.1.1"), release("4.2.0"), release("5.0.0")];
    let conditional = [update("4.1.2", vec![risk("A", "0a")]), update("4.2.1", vec![risk("A", "0a")])];
    let risks = [own("Own-a.b"), own("lower"), Risk { url: "nowhere".into(), ..own("Url") }, own("A")];
    let ignored = judged_with(&available, &conditional, &risks, None);
    assert_eq!(versions(&ignored.available), ["5.0.0", "4.2.1", "4.2.0", "4.1.2", "4.1.1"]);
    let judged = judged_with(&available, &conditional, &risks, Some(&[]));
    assert_eq!(versions(&judged.available), ["4.1.2", "4.1.1"]);
    let names: Vec<_> = judged.conditional.iter().map(|u| (u.release.version.as_str(), u.risk_names.clone())).collect();
    let both = || vec!["A".to_owned(), "Own-a.b".to_owned()];
    assert_eq!(names, [("5.0.0", both()), ("4.2.1", both()), ("4.2.0", both()), ("4.1.2", vec!["A".into()])]);
    // A published risk of the same name stays as it is.
    assert_eq!(judged.conditional[1].risks.len(), 2);
    assert!(judged.conditional[1].risks[0].matching_rules[0].promql.is_some());
    assert_eq!(judged.notes.len(), 2, "{:?}", judged.notes);
    let accepted = judged_with(&available, &[], &risks[..1], Some(&["Own-a.b"]));
    assert_eq!(versions(&accepted.available), ["5.0.0", "4.2.0", "4.1.1"]);
}

#[test]
fn lists_fit_into_status_after_judging() {
    let long = "x".repeat(1500);
    let with_long = |n: u32| {
        let mut risk = risk("A", "0a");
        risk.message.clone_from(&long);
        update(&format!("4.1.{n}"), vec![risk])
    };
    let conditional: Vec<_> = (1..=450).map(with_long).collect();
    let available: Vec<_> = (451..=900).map(|n| release(&format!("4.1.{n}"))).collect();
    let judged = judged_with(&available, &conditional, &[], Some(&[]));
    let bytes = |value: serde_json::Value| value.to_string().len();
    assert!(bytes(serde_json::json!(judged.conditional)) < 500 << 10);
    assert!((100..450).contains(&judged.conditional.len()), "{}", judged.conditional.len());
    assert_eq!(judged.conditional[0].release.version, "4.1.450");
    assert_eq!(judged.available.len(), 500);
    assert_eq!(judged.available[0].version, "4.1.900");
    assert!(judged.notes.iter().any(|note| note.contains("conditional updates")), "{:?}", judged.notes);
    // One huge risk makes no huge message.
    let mut huge = risk("A", "1a");
    huge.message = "y".repeat(100_000);
    let judged = judged_with(&[], &[update("4.1.1", vec![huge])], &[], None);
    assert!(recommended(&judged.conditional[0]).2.len() < 8 << 10);
}
