use super::*;
use proptest::prelude::*;
use serde_json::json;

fn values(text: &str) -> Vec<Value> {
    documents(text.as_bytes()).unwrap_or_else(|e| panic!("{text:?}: {e}")).into_iter().map(|d| d.value).collect()
}

fn one(text: &str) -> Value {
    let mut all = values(text);
    assert_eq!(all.len(), 1, "{text:?}");
    all.remove(0)
}

fn error(text: &str) -> String {
    documents(text.as_bytes()).map(|d| format!("{text:?} was read as {d:?}")).unwrap_err().to_string()
}

#[test]
fn plain_scalars_resolve_as_in_go_yaml() {
    let table = [
        ("0644", json!(420)),
        ("0744", json!(484)),
        ("0o17", json!(15)),
        ("0x1F", json!(31)),
        ("0b101", json!(5)),
        ("-0x10", json!(-16)),
        ("+5", json!(5)),
        ("-0", json!(0)),
        ("1_000", json!(1000)),
        ("08", json!(8)),
        ("1e3", json!(1000)),
        ("1.0", json!(1)),
        ("1.5", json!(1.5)),
        (".5", json!(0.5)),
        ("6.", json!(6)),
        ("1e", json!("1e")),
        ("+-5", json!("+-5")),
        ("1e999", json!("1e999")),
        ("9223372036854775807", json!(9223372036854775807i64)),
        ("18446744073709551615", json!(18446744073709551615u64)),
        ("-9223372036854775808", json!(i64::MIN)),
        ("+18446744073709551615", json!(18446744073709551615f64)),
        ("99999999999999999999", json!(1e20)),
        ("yes", json!(true)),
        ("Y", json!(true)),
        ("on", json!(true)),
        ("off", json!(false)),
        ("n", json!(false)),
        ("yEs", json!("yEs")),
        ("~", json!(null)),
        ("", json!(null)),
        ("\"0644\"", json!("0644")),
        ("'yes'", json!("yes")),
        ("2001-01-01", json!("2001-01-01")),
        ("10:30", json!("10:30")),
        ("4.20", json!(4.2)),
        ("1.2.3", json!("1.2.3")),
        ("v1", json!("v1")),
        ("0.0.0.0", json!("0.0.0.0")),
        ("-", json!([null])),
        ("!!str 5", json!("5")),
        ("!!int \"5\"", json!(5)),
        ("!!binary aGFsbG8=", json!("hallo")),
        ("!mine 5", json!("5")),
        ("=", json!("=")),
    ];
    for (text, expected) in table {
        let read = one(&format!("k:\n  {text}\n"));
        assert_eq!(read, json!({ "k": expected }), "{text:?}");
    }
}

#[test]
fn keys_become_text_and_the_last_duplicate_wins() {
    assert_eq!(one("on: 1\n5: 2\n0x10: 3\n1.50: 4\n"), json!({"true": 1, "5": 2, "16": 3, "1.5": 4}));
    assert_eq!(one("a: 1\nb: 2\na: 3\n"), json!({"a": 3, "b": 2}));
    assert!(error("a:\n  ? [1]\n  : 2\n").starts_with("line 2: a list cannot be the key"), "{}", error("? [1]\n: 2\n"));
    assert!(error("a: 1\n~: 2\n").starts_with("line 2: null cannot"));
}

#[test]
fn merge_keys_merge_at_their_position() {
    let head = "x: &x {a: 1, b: 1}\ny: &y {b: 2, c: 2}\n";
    assert_eq!(one(&format!("{head}z:\n  <<: *x\n  a: 9\n"))["z"], json!({"a": 9, "b": 1}));
    assert_eq!(one(&format!("{head}z:\n  a: 9\n  <<: *x\n"))["z"], json!({"a": 1, "b": 1}));
    assert_eq!(one(&format!("{head}z:\n  <<: [*x, *y]\n"))["z"], json!({"a": 1, "b": 1, "c": 2}));
    assert_eq!(one("z:\n  '<<': {a: 1}\n")["z"], json!({"<<": {"a": 1}}));
    assert_eq!(error("a: 1\nz:\n  <<: 5\n"), "line 3: << takes a mapping or a list of mappings");
}

/// Kubernetes' stream reader ends every line with a newline, the last one as well.
#[test]
fn block_scalar_at_the_end_of_the_input_ends_with_a_newline() {
    let table = [
        ("a: |\n  x\n  y", "x\ny\n"),
        ("a: |\n  x\n", "x\n"),
        ("a: |\n  x\n\n", "x\n"),
        ("a: |+\n  x\n\n", "x\n\n"),
        ("a: |-\n  x", "x"),
        ("a: >\n  x\n  y", "x y\n"),
        ("a: |\n  x\n# x", "x\n"),
        ("a: |\n  x\n\n  ", "x\n"),
        ("a: |\n  ä", "ä\n"),
        ("a: |+\n  x", "x\n"),
        ("a: |+\n  x\n\n  ", "x\n\n\n"),
        ("a: >+\n  x\n  ", "x\n\n"),
    ];
    for (text, expected) in table {
        assert_eq!(one(text), json!({ "a": expected }), "{text:?}");
    }
    assert_eq!(values("a: |\n  x\n---\nb: 1"), [json!({"a": "x\n"}), json!({"b": 1})]);
}

#[test]
fn documents_are_split_at_separators_and_empty_ones_are_dropped() {
    let text =
        "# only a comment\n---\na: 1\n--- # second\nb: |\n  c\n  ---\n---\nnull\n---   \n\n---\nd: 1\n...\nignored\n";
    let read = documents(text.as_bytes()).unwrap();
    let lines: Vec<_> = read.iter().map(|d| d.line).collect();
    assert_eq!(lines, [3, 5, 13]);
    assert_eq!(read[1].value, json!({"b": "c\n---\n"}));
    assert_eq!(values(""), Vec::<Value>::new());
    assert_eq!(values("\u{feff}a: 1\r\n---\r\nb: 2\r\n"), [json!({"a": 1}), json!({"b": 2})]);
    assert!(error("a: 1\n---oops\n").starts_with("line 2: only blanks or a comment may follow"));
    assert!(error("a: 1\n---\nb: 1\nc\n").starts_with("line 5:"), "{}", error("a: 1\n---\nb: 1\nc\n"));
}

#[test]
fn json_streams_may_fall_back_to_yaml() {
    let read = documents(b"\n {\"a\": 1}\n\n{\"b\": {\"c\":\n [1]}}{\"d\":1}\nnull\n").unwrap();
    assert_eq!(read.iter().map(|d| d.line).collect::<Vec<_>>(), [2, 4, 5]);
    assert_eq!(read[2].value, json!({"d": 1}));
    assert_eq!(values("{a: yes}\n"), [json!({"a": true})]);
    assert_eq!(values("{\"a\": 1}\n---\nb: 0644\n"), [json!({"a": 1}), json!({"b": 420})]);
    assert_eq!(values("{\"mode\": 0644}"), [json!({"mode": 420})]);
    // After two objects it cannot be YAML any more.
    assert!(error("{\"a\":1}\n{\"b\":1}\n{c: 1}\n").starts_with("line 3:"));
    assert!(error("\n{\"a\": [1}\n").contains("neither JSON"));
}

#[test]
fn exceeded_limits_and_unresolved_values_are_errors() {
    let laughs = (1..30).fold("a0: &a0 [x,x,x,x,x,x,x,x]\n".to_owned(), |text, i| {
        let list = vec![format!("*a{}", i - 1); 8].join(",");
        format!("{text}a{i}: &a{i} [{list}]\n")
    });
    assert!(error(&laughs).contains("once aliases are expanded"), "{}", error(&laughs));
    let text = format!("a: &a {}\nb: [{}]\n", "x".repeat(1 << 20), vec!["*a"; 200].join(","));
    assert!(error(&text).starts_with("line 2: more than"), "{}", error(&text));
    for open in ["[", "{a: ", "- ", "? "] {
        let message = error(&open.repeat(100_000));
        assert!(message.starts_with("line 1:"), "{open}: {message}");
    }
    assert!(error(&"- ".repeat(MAX_DEPTH + 2)).contains("nested deeper"));
    assert_eq!(one(&format!("{}1", "- ".repeat(100))).to_string().len(), 201);
    let nested_aliases = (1..200).fold("a0: &a0 []\n".to_owned(), |t, i| format!("{t}a{i}: &a{i} [*a{}]\n", i - 1));
    assert!(error(&nested_aliases).contains("nested deeper"));
    assert!(error("a: &a [*a]\n").starts_with("line 1:"));
    assert!(error("a: *b\n").starts_with("line 1:"));
    assert!(error("a:\n  !!int x\n").contains("the tag !!int does not fit \"x\""));
    assert!(error("a:\n- .inf\n").starts_with("line 2: .inf cannot be written as JSON"));
    assert!(error(&format!("{{\"a\": [{}1]}}", "1,".repeat(4 * MAX_NODES))).contains("more than"));
    let empty = format!("{{\"a\": [{}1]}}", "{\"a\":1},".repeat(MAX_NODES));
    assert!(error(&empty).contains("more than 100000 values"), "{}", error(&empty));
    assert!(error(&"a: 1\n---\n".repeat(MAX_NODES / 2 + 1)).contains("more than 100000 values"));
    assert_eq!(
        documents("---\n".repeat(MAX_BYTES / 4).as_bytes()),
        Ok(vec![]),
        "a million documents with nothing in them"
    );
    assert_eq!(documents(&vec![b' '; MAX_BYTES + 1]), Err(YamlError::TooLarge { bytes: MAX_BYTES + 1 }));
    assert_eq!(documents(b"a: 1\nb: \xff"), Err(YamlError::NotText { line: 2 }));
}

#[test]
fn json_of_the_deepest_value_can_be_read_again() {
    let deep = format!("{}1", "- ".repeat(MAX_DEPTH));
    let value = one(&deep);
    assert_eq!(serde_json::from_str::<Value>(&value.to_string()).unwrap(), value);
}

const SEED: &str = "apiVersion: v1\nkind: ConfigMap # c\nmetadata: &m\n  name: 'it''s'\n  labels: {a: \"b\\n\", c: !!str 5}\n\
list:\n- *m\n- [1, 0644, yes]\n- |+2\n   lit\n  x\n\n- >-\n  folded\n  text\n? k\n: v\nmerged:\n  <<: *m\n---\n{\"j\": [1.5e3, null]}\n";

/// Single edits reach far more states of the parser than random bytes do.
fn mutate(mut bytes: Vec<u8>, edits: &[(u8, usize, u8)]) -> Vec<u8> {
    const PIECES: &[&str] = &[
        "---", "\n", "{", "}", "[", "*m", "&m", "<<:", "|", ">", "!!", "? ", "- ", "%", "\t", "'", "\"", "\u{85}", ": ",
    ];
    for &(kind, at, byte) in edits {
        let at = at % (bytes.len() + 1);
        match kind % 4 {
            0 if at < bytes.len() => bytes[at] = byte,
            1 if at < bytes.len() => drop(bytes.remove(at)),
            2 => bytes.truncate(at),
            _ => {
                let piece = PIECES[byte as usize % PIECES.len()].bytes();
                bytes.splice(at..at, piece);
            }
        }
    }
    bytes
}

/// Generators of definitions break long quoted texts so, and Go's decoder takes them.
#[test]
fn continued_lines_of_quoted_text_need_no_indentation() {
    for (text, expected) in [
        ("a:\n  b: 'x\n  y'\n  c: 1\n", json!({"a": {"b": "x y", "c": 1}})),
        ("a:\n  b: 'x\n y'\n", json!({"a": {"b": "x y"}})),
        ("a:\n  b: \"x\ny\"\n", json!({"a": {"b": "x y"}})),
        ("a:\n  b: 'it''s x\n\n  y'\n", json!({"a": {"b": "it's x\ny"}})),
        ("a:\n  b: \"x\\\n  y \\\"z\\\"\n  w\"\n", json!({"a": {"b": "xy \"z\" w"}})),
        ("a:\n  b: 'x\n  y'\n  c: 'ä\n  ö'\n", json!({"a": {"b": "x y", "c": "ä ö"}})),
        ("- a:\n    - 'x\n      y\n    z'\n", json!([{"a": ["x y z"]}])),
    ] {
        assert_eq!(documents(text.as_bytes()).unwrap()[0].value, expected, "{text}");
    }
}

#[test]
fn what_is_wrong_besides_the_indentation_is_told_with_its_line() {
    let error = documents(b"a:\n  b: 'x\n  y'\n  c: [\n").unwrap_err().to_string();
    assert!(error.starts_with("line ") && !error.contains("indentation"), "{error}");
    let error = documents(b"a:\n  b: 'x\n  y\n").unwrap_err();
    assert!(matches!(error, YamlError::Syntax { line: 2, .. }), "{error}");
}

#[test]
fn indenting_many_texts_is_bounded() {
    let text = format!("a:\n{}", "  - 'x\n y'\n".repeat(50_000));
    let start = std::time::Instant::now();
    assert!(matches!(documents(text.as_bytes()), Err(YamlError::Syntax { .. })));
    let few = format!("a:\n{}", "  - 'x\n y'\n".repeat(500));
    assert_eq!(documents(few.as_bytes()).unwrap()[0].value["a"][499], "x y");
    assert!(start.elapsed().as_secs() < 60, "{:?}", start.elapsed());
}

#[test]
fn indenting_makes_no_text_many_times_larger() {
    let text = format!("k:\n  {}: \"{}z\"\n", "x".repeat(390), "\n".repeat(1 << 18));
    assert!(matches!(documents(text.as_bytes()), Err(YamlError::Syntax { .. })));
    let few = format!("k:\n  {}: \"{}z\"\n", "x".repeat(390), "\n".repeat(1 << 10));
    assert!(documents(few.as_bytes()).is_ok());
}

/// Reading JSON may change the last digit of a float. A manifest must not always differ from the object it made.
#[test]
fn float_is_the_same_when_its_json_is_read_again() {
    for text in ["10000018446744073709551616", "{\"a\": 10000018446744073709551616, \"b\": [1.5, 2e300]}"] {
        let read = documents(format!("a: {text}\n").as_bytes()).unwrap();
        let json = documents(format!("{{\"a\": {text}}}\n").as_bytes()).unwrap();
        for document in read.into_iter().chain(json) {
            let again: Value = serde_json::from_slice(&serde_json::to_vec(&document.value).unwrap()).unwrap();
            assert_eq!(again, document.value);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases.max(4000), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn edited_input_does_not_panic_and_gives_plain_json(edits in prop::collection::vec((any::<u8>(), 0usize..2000, any::<u8>()), 0..8)) {
        if let Ok(read) = documents(&mutate(SEED.as_bytes().to_vec(), &edits)) {
            for document in read {
                prop_assert!(!document.value.is_null() && document.line > 0);
                let again: Value = serde_json::from_slice(&serde_json::to_vec(&document.value).unwrap()).unwrap();
                prop_assert_eq!(again, document.value);
            }
        }
    }

    #[test]
    fn random_bytes_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Err(error) = documents(&bytes) {
            prop_assert!(error.to_string().starts_with("line "), "{}", error);
        }
    }
}

#[test]
fn one_document_may_be_larger_than_a_stream() {
    let text = format!("---\na: {}\n", "x".repeat(MAX_BYTES));
    assert!(matches!(documents(text.as_bytes()), Err(YamlError::TooLarge { .. })));
    let read = document(&text, 7).unwrap().unwrap();
    assert_eq!((read.line, read.value["a"].as_str().map(str::len)), (8, Some(MAX_BYTES)));
    assert_eq!(document("# nothing\n", 1), Ok(None));
    assert_eq!(document("--- a\n", 7), Err(YamlError::Separator { line: 7, found: "a".to_owned() }));
}
