//! Every acceptance line of payload-and-apply §10, 1 to 26, is named by a test: in the comment right above it, as the
//! number behind `§10.`. Lines 27 to 30 belong to retrieval and self-update and are checked by end-to-end tests.

use super::sources;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;

const LAST: usize = 26;

/// A test function with the lines its comment names.
#[derive(Debug, PartialEq)]
struct Test {
    name: String,
    lines: Vec<usize>,
}

/// The tests of a file, those that are ignored left out.
fn tests(source: &str) -> Vec<Test> {
    let lines: Vec<&str> = source.lines().map(str::trim).collect();
    let is_test = |line: &str| line == "#[test]" || line.starts_with("#[tokio::test");
    let mut found = Vec::new();
    for (at, _) in lines.iter().enumerate().filter(|(_, line)| is_test(line)) {
        let head = |line: &&&str| line.starts_with("#[") || line.starts_with("///");
        let above: Vec<&str> = lines[..at].iter().rev().take_while(head).copied().collect();
        let below: Vec<&str> = lines[at + 1..].iter().take_while(head).copied().collect();
        let declared = lines.get(at + 1 + below.len()).copied().unwrap_or_default();
        let declared = declared.strip_prefix("async ").unwrap_or(declared).strip_prefix("fn ");
        let all = || above.iter().chain(&below);
        let (Some(declared), false) = (declared, all().any(|line| line.starts_with("#[ignore"))) else { continue };
        let name = declared.split(['(', '<']).next().unwrap_or_default().to_owned();
        let mut lines: Vec<usize> = all().filter_map(|line| line.strip_prefix("///")).flat_map(named).collect();
        lines.sort_unstable();
        found.push(Test { name, lines });
    }
    found
}

/// The acceptance lines that a line of a comment names. A section of another document has its name in front.
fn named(comment: &str) -> Vec<usize> {
    let mut parts = comment.split("§10.");
    let mut before = parts.next().unwrap_or_default();
    let mut found = Vec::new();
    for after in parts {
        let digits: String = after.chars().take_while(char::is_ascii_digit).collect();
        let word = before.trim_end().rsplit(' ').next().unwrap_or_default();
        if let (Ok(line), true) = (digits.parse(), word == "and" || !word.ends_with(char::is_alphanumeric)) {
            found.push(line);
        }
        before = after;
    }
    found
}

#[test]
fn every_acceptance_line_is_named_by_a_test() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    for folder in ["src", "e2e"] {
        sources(&root.join(folder), &[], &mut files);
    }
    let mut by_line: BTreeMap<usize, Vec<String>> = (1..=LAST).map(|line| (line, Vec::new())).collect();
    for (path, _) in files {
        let file = path.strip_prefix(root).unwrap().display().to_string();
        for test in tests(&fs::read_to_string(&path).unwrap()) {
            for line in &test.lines {
                let place = format!("{file}: {}", test.name);
                by_line.entry(*line).or_default().push(place);
            }
        }
    }
    let mut table = String::new();
    for (line, places) in &mut by_line {
        places.sort();
        places.dedup();
        for (nth, place) in places.iter().enumerate() {
            let number = if nth == 0 { format!("§10.{line}") } else { String::new() };
            writeln!(table, "{number:8} {place}").unwrap();
        }
    }
    println!("{table}");
    let missing: Vec<usize> = by_line.iter().filter(|(_, places)| places.is_empty()).map(|(line, _)| *line).collect();
    assert!(missing.is_empty(), "no test names these lines of payload-and-apply §10: {missing:?}");
    let unknown: Vec<_> = by_line.iter().filter(|(line, _)| !(1..=30).contains(*line)).collect();
    assert!(unknown.is_empty(), "there are no such lines: {unknown:?}");
}

#[test]
fn only_what_stands_right_above_a_test_counts() {
    // An `@` stands for the mark of attributes, so that this text is no test itself.
    let source = "
        /// §10.1: one.
        /// More, and §10.2.
        @[test]
        fn both() {}

        /// §10.3.

        @[test]
        fn apart() {}

        /// §10.4.
        fn no_test() {}
        // @[test]
        // /// §10.5

        /// §10.6, §10.7 and §10.18.
        @[tokio::test(flavor = \"multi_thread\")]
        async fn three() {}

        /// §10.8.
        @[test]
        @[ignore = \"slow\"]
        fn asleep() {}

        /// §10.26.
        @[test]
        fn property(a in any::<u8>()) {}

        /// cluster-version §10.9, payload-and-apply §10 and §10.x.
        @[test]
        fn elsewhere() {}
    ";
    let found = tests(&source.replace('@', "#"));
    let expected: [(&str, &[usize]); 5] =
        [("both", &[1, 2]), ("apart", &[]), ("three", &[6, 7, 18]), ("property", &[26]), ("elsewhere", &[])];
    let expected: Vec<Test> =
        expected.iter().map(|(name, lines)| Test { name: (*name).into(), lines: lines.to_vec() }).collect();
    assert_eq!(found, expected);
}
