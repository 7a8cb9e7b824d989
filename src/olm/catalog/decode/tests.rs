use super::*;
use crate::olm::catalog::blobs::Blobs;

/// What each document of a stream is: schema and name, or why nobody can tell.
fn decoded(text: &[u8]) -> Vec<String> {
    let (mut blobs, mut found) = (Blobs::new(text), Vec::new());
    while let Some(document) = blobs.next_document().unwrap() {
        let mut json = Vec::new();
        let decoded = document.decode(&mut json);
        found.extend(match decoded.record {
            Ok(None) => None,
            Ok(Some(record)) => Some(record.label()),
            Err(reason) => Some(format!("{}: {reason}", decoded.line)),
        });
    }
    found
}

#[test]
fn json_and_yaml_say_the_same() {
    let text = b"{\"schema\": \"olm.package\", \"name\": \"a\"}\n---\nschema: olm.package\nname: b\n---\n{schema: olm.package, name: c}\n";
    assert_eq!(decoded(text), ["olm.package a", "olm.package b", "olm.package c"]);
}

#[test]
fn yaml_is_read_as_kubernetes_reads_it() {
    let (mut json, text) = (Vec::new(), &b"base: &b {name: a}\n<<: *b\nschema: x\nmode: 0644\non: yes\n"[..]);
    let mut blobs = Blobs::new(text);
    let record = blobs.next_document().unwrap().unwrap().decode(&mut json).record.unwrap().unwrap();
    assert_eq!(record.json, r#"{"base":{"name":"a"},"mode":420,"name":"a","schema":"x","true":true}"#);
}

#[test]
fn documents_without_content_are_passed_over() {
    assert_eq!(decoded(b"# note\n---\nnull\n---\n~\n---\nschema: x\n"), ["x"]);
}

#[test]
fn document_that_is_no_object_is_refused() {
    for (text, found) in
        [("- a", "a list"), ("a", "a text"), ("1", "a number"), ("yes", "a boolean"), ("[{}]", "a list")]
    {
        assert_eq!(decoded(text.as_bytes()), [format!("1: a blob must be an object with the key schema, not {found}")]);
    }
}

#[test]
fn text_that_is_neither_json_nor_yaml_is_told_with_both_causes() {
    let found = decoded(b"\n{\"schema\": \"x\",\n \"a\": }}\n");
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("2: neither JSON (line 3: expected value) nor YAML (line "), "{found:?}");
}

#[test]
fn mistake_in_one_object_spoils_no_other() {
    let found = decoded(b"{\"schema\": \"a\"}\n{\"schema\": \"b\", \"c\": [1, }]}\n{\"schema\": \"d\"}\n");
    assert_eq!((found[0].as_str(), found[2].as_str()), ("a", "d"), "{found:?}");
    let found = decoded(b"schema: a\n---\nb: c: d\n---\nschema: e\n");
    assert_eq!((found[0].as_str(), found[2].as_str()), ("a", "e"), "{found:?}");
}

#[test]
fn bytes_that_are_no_text_are_refused_with_their_line() {
    assert_eq!(decoded(b"schema: x\n---\na: b\nc: \xff\n"), ["x", "3: line 4: not UTF-8 text"]);
    assert_eq!(decoded(b"{\"a\": \"\xff\"}"), ["1: line 1: not UTF-8 text"]);
}

#[test]
fn nesting_is_bounded() {
    let text = format!("{{\"schema\": \"x\", \"a\": {}{}}}", "[".repeat(200), "]".repeat(200));
    assert_eq!(decoded(text.as_bytes()), ["1: nested deeper than 120 levels"]);
    let text = format!("schema: x\na: {}{}", "[".repeat(200), "]".repeat(200));
    assert_eq!(decoded(text.as_bytes()), ["1: line 2: nested deeper than 120 levels"]);
    // A bundle with constraints in constraints, and the package beside it.
    let (open, close) = ("{\"any\":{\"constraints\":[".repeat(1_000), "]}}".repeat(1_000));
    let constraint = format!("{{\"type\":\"olm.constraint\",\"value\":{open}{{}}{close}}}");
    let text = format!(
        "{{\"schema\":\"olm.package\",\"name\":\"a\"}}\n{{\"schema\":\"olm.bundle\",\"properties\":[{constraint}]}}"
    );
    assert_eq!(decoded(text.as_bytes()), ["olm.package a", "2: nested deeper than 120 levels"]);
}

#[test]
fn separator_with_text_behind_it_is_refused() {
    let found = decoded(b"schema: a\n--- b: c\nschema: d\n---\nschema: e\n");
    assert_eq!((found[0].as_str(), found[2].as_str()), ("a", "e"), "{found:?}");
    assert!(found[1].starts_with("2: line 2: only blanks or a comment may follow"), "{found:?}");
}

#[test]
fn yaml_that_is_too_large_is_refused() {
    let text = format!("schema: x\na: {}\n", "x".repeat(MAX_YAML));
    assert!(decoded(text.as_bytes())[0].starts_with("1: the document that begins here is longer than 8388608 bytes"));
    let text = format!("schema: x\na: {}\n", "x".repeat(5 << 20));
    assert_eq!(decoded(text.as_bytes()), ["x"], "the limit for manifests does not count");
}
