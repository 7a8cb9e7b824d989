use super::*;

const NAMES: [&str; 6] = ["not", "accepted", "unknown", "exposed", "X", "Y"];

fn want(name: &str) -> Option<Want> {
    match name {
        "not" => None,
        "accepted" => Some(Want::Accepted),
        "unknown" => Some(Want::Unknown),
        "exposed" => Some(Want::Exposed),
        name => Some(Want::of_risk(name)),
    }
}

fn folded(names: &[&str]) -> (&'static str, String) {
    let mut fold = Fold::default();
    names.iter().filter_map(|name| want(name)).for_each(|want| fold.add(want));
    (fold.status(), fold.reason().to_owned())
}

#[test]
fn two_risks_fold_as_in_the_table() {
    const NOT: &str = "NotExposedToRisks";
    const ACC: &str = "AllExposedRisksAccepted";
    const FAIL: &str = "EvaluationFailed";
    const EXP: &str = "ExposedToRisks";
    const MANY: &str = "MultipleReasons";
    // The first risk by row, the second by column, both in the order of NAMES.
    let table = [
        [NOT, ACC, FAIL, EXP, "X", "Y"],
        [ACC, ACC, FAIL, EXP, "X", "Y"],
        [FAIL, FAIL, FAIL, EXP, MANY, MANY],
        [EXP, EXP, EXP, EXP, MANY, MANY],
        ["X", MANY, MANY, MANY, "X", MANY],
        ["Y", MANY, MANY, MANY, MANY, "Y"],
    ];
    for (first, row) in NAMES.iter().zip(table) {
        for (second, expected) in NAMES.iter().zip(row) {
            assert_eq!(folded(&[first, second]).1, expected, "{first}, then {second}");
        }
    }
    for name in NAMES {
        assert_eq!(folded(&["X", "Y", name]).1, MANY, "several reasons stay several with {name}");
    }
}

#[test]
fn false_is_stronger_than_unknown_and_unknown_than_true() {
    for (names, status) in [
        (&["not", "accepted"][..], "True"),
        (&["accepted", "unknown"], "Unknown"),
        (&["unknown", "X", "accepted"], "False"),
        (&["exposed", "unknown"], "False"),
        (&[], "True"),
    ] {
        assert_eq!(folded(names).0, status, "{names:?}");
    }
}

#[test]
fn only_some_names_can_be_reasons() {
    for name in ["A", "a1", "VSphereSkew", "A_b,c:d", "A_"] {
        assert_eq!(Want::of_risk(name), Want::Named(name.to_owned()));
    }
    for name in ["", "1A", "A-b", "A.b", "A:", "A,", "A b", "_A", "Ä"] {
        assert_eq!(Want::of_risk(name), Want::Exposed, "{name}");
    }
}
