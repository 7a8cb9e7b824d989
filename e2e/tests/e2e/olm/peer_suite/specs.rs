//! What a run of the suite says of each spec, and which failures are known.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;

use serde_json::{Value, json};

/// One spec of the suite that was to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Spec {
    pub name: String,
    /// `passed`, `skipped`; everything else failed.
    pub state: String,
    pub seconds: u64,
    /// Why it has not passed.
    pub message: String,
}

/// What a run amounts to.
#[derive(Debug)]
pub(super) struct Verdict {
    /// A line a spec.
    pub table: String,
    /// Failures that no difference names, and differences that are none.
    pub wrong: Vec<String>,
}

/// Reads the report of a run. Specs that were left out by label or focus are not in it.
pub(super) fn read(report: &Path) -> Vec<Spec> {
    let report: Value = serde_json::from_slice(&std::fs::read(report).unwrap()).unwrap();
    of_report(&report)
}

fn list<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    value[key].as_array().into_iter().flatten()
}

fn of_report(report: &Value) -> Vec<Spec> {
    let suites = report.as_array().into_iter().flatten();
    suites.flat_map(|suite| list(suite, "SpecReports")).filter_map(of_spec).collect()
}

fn of_spec(spec: &Value) -> Option<Spec> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (state, message) = (text(&spec["State"]), text(&spec["Failure"]["Message"]));
    // What was left out by label or focus is skipped without a word; what is no spec has something to say when it fails.
    let is_spec = spec["LeafNodeType"] == "It";
    let is_left_out = state == "pending" || state == "skipped" && message.is_empty();
    if is_left_out || state == "passed" && !is_spec {
        return None;
    }
    let mut names: Vec<String> = list(spec, "ContainerHierarchyTexts").map(text).collect();
    names.push(text(if is_spec { &spec["LeafNodeText"] } else { &spec["LeafNodeType"] }));
    let seconds = spec["RunTime"].as_u64().unwrap_or_default() / 1_000_000_000;
    Some(Spec { name: names.join(" / ").trim().to_owned(), state, seconds, message })
}

/// Specs that fail, each with the reason.
pub(super) fn differences() -> BTreeMap<&'static str, &'static str> {
    let lines = include_str!("differences.txt").lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let pair = |line: &'static str| line.split_once(" => ").unwrap_or_else(|| panic!("{line}: no reason"));
    let all: Vec<_> = lines.map(pair).collect();
    let names: BTreeSet<&str> = all.iter().map(|(name, _)| *name).collect();
    assert_eq!(names.len(), all.len(), "a difference is named twice");
    all.into_iter().collect()
}

/// Tells each spec, and what is unexpected.
pub(super) fn judge(specs: &[Spec], differences: &BTreeMap<&str, &str>) -> Verdict {
    let (mut table, mut wrong) = (String::new(), Vec::new());
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for Spec { name, state, seconds, message } in specs {
        let difference = differences.get(name.as_str());
        let (told, why) = match (state.as_str(), difference) {
            ("passed", Some(reason)) => {
                wrong.push(format!("{name}: passes, though it is named as a difference ({reason})"));
                ("passed", "named as a difference")
            }
            ("passed", None) => ("passed", ""),
            ("skipped", _) => ("skipped", message.as_str()),
            (_, Some(reason)) => ("differs", *reason),
            (_, None) => {
                wrong.push(format!("{name}: {state}: {message}"));
                ("FAILED", message.as_str())
            }
        };
        *counts.entry(told).or_default() += 1;
        let why: String = why.lines().next().unwrap_or_default().chars().take(160).collect();
        let _ = writeln!(table, "{told:8} {seconds:4} s  {name}  {why}");
    }
    let counts: Vec<String> = counts.iter().map(|(told, count)| format!("{count} {told}")).collect();
    let _ = writeln!(table, "{} specs: {}", specs.len(), counts.join(", "));
    if specs.is_empty() {
        wrong.push("no spec has run: neither label nor focus may exclude all of them".to_owned());
    }
    Verdict { table, wrong }
}

fn report() -> Value {
    let spec = |name: &str, kind: &str, state: &str, message: &str| {
        json!({"ContainerHierarchyTexts": ["Plans", "by hand"], "LeafNodeType": kind, "LeafNodeText": name,
            "State": state, "RunTime": 2_500_000_000_u64, "Failure": {"Message": message}})
    };
    json!([{"SpecReports": [
        spec("is good", "It", "passed", ""),
        spec("is left out", "It", "skipped", ""),
        spec("is not ready", "It", "pending", ""),
        spec("is not for here", "It", "skipped", "needs more"),
        spec("differs", "It", "failed", "expected\nmore"),
        spec("is bad", "It", "timedout", "too late"),
        spec("is known", "It", "passed", ""),
        spec("", "BeforeSuite", "passed", ""),
        spec("", "BeforeSuite", "failed", "no catalog"),
    ]}])
}

#[test]
fn failures_without_a_name_and_names_without_a_failure_are_told() {
    let specs = of_report(&report());
    let known = [("Plans / by hand / differs", "on purpose"), ("Plans / by hand / is known", "once")];
    let verdict = judge(&specs, &known.into_iter().collect());
    let expected = "\
passed      2 s  Plans / by hand / is good  
skipped     2 s  Plans / by hand / is not for here  needs more
differs     2 s  Plans / by hand / differs  on purpose
FAILED      2 s  Plans / by hand / is bad  too late
passed      2 s  Plans / by hand / is known  named as a difference
FAILED      2 s  Plans / by hand / BeforeSuite  no catalog
6 specs: 2 FAILED, 1 differs, 2 passed, 1 skipped
";
    assert_eq!(verdict.table, expected);
    assert_eq!(
        verdict.wrong,
        [
            "Plans / by hand / is bad: timedout: too late",
            "Plans / by hand / is known: passes, though it is named as a difference (once)",
            "Plans / by hand / BeforeSuite: failed: no catalog",
        ]
    );
    assert_eq!(judge(&[], &BTreeMap::new()).wrong.len(), 1);
}

#[test]
fn differences_have_a_reason() {
    for (name, reason) in differences() {
        assert!(name.contains(" / ") && reason.split(' ').count() > 3, "{name}: {reason}");
    }
}
