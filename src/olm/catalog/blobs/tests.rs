use super::*;
use proptest::prelude::*;

/// A reader that gives a few bytes at a time.
struct Slow<'a>(&'a [u8], usize);

impl Read for Slow<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let take = self.1.min(into.len()).min(self.0.len());
        let (now, later) = self.0.split_at(take);
        into[..take].copy_from_slice(now);
        self.0 = later;
        Ok(take)
    }
}

/// Each document as `line form text`, and the error at the end.
fn split(mut blobs: Blobs<impl Read>) -> Vec<String> {
    let mut found = Vec::new();
    loop {
        match blobs.next_document() {
            Ok(None) => return found,
            Ok(Some(it)) => {
                found.push(format!("{} {:?} {}", it.line, it.form, String::from_utf8_lossy(it.bytes)));
            }
            Err(error) => {
                found.push(error.to_string());
                assert!(matches!(blobs.next_document(), Ok(None)), "nothing follows an error");
                return found;
            }
        }
    }
}

fn documents(text: &str) -> Vec<String> {
    let whole = split(Blobs::new(text.as_bytes()));
    assert_eq!(split(Blobs::new(Slow(text.as_bytes(), 1))), whole, "in pieces");
    whole
}

#[test]
fn objects_are_split_with_and_without_blanks_between_them() {
    let expected = ["1 Json {\"a\": 1}", "1 Json {\"b\": \"}\"}", "3 Json {\n}"];
    assert_eq!(documents("{\"a\": 1}{\"b\": \"}\"}\n\n {\n}\n"), expected);
}

#[test]
fn yaml_is_split_at_separators() {
    let text = "# note\na: 1\n---\n--- # two\n\n  b: 2\n  c: |\n    ---\n---\nd: 3";
    assert_eq!(documents(text), ["1 Yaml # note\na: 1\n", "6 Yaml   b: 2\n  c: |\n    ---\n", "10 Yaml d: 3"]);
}

#[test]
fn json_and_yaml_may_be_mixed() {
    let text = "\u{feff}{\"a\": 1}\n---\nb: 2\n---\n{\"c\": 3}\n{\"d\": 4}\n";
    assert_eq!(documents(text), ["1 Json {\"a\": 1}", "3 Yaml b: 2\n", "5 Json {\"c\": 3}", "6 Json {\"d\": 4}"]);
}

#[test]
fn braces_of_yaml_reach_to_the_next_separator() {
    assert_eq!(documents("{a: b}\n---\nc: d\n"), ["1 Json {a: b}", "3 Yaml c: d\n"]);
    assert_eq!(documents("{a: '}'}\n---\nc: d\n"), ["1 Json {a: '}'}\n", "3 Yaml c: d\n"]);
    assert_eq!(documents("{a: '\"'}\n---\nc: d\n"), ["1 Json {a: '\"'}\n", "3 Yaml c: d\n"]);
}

#[test]
fn object_that_is_not_closed_reaches_to_the_end() {
    assert_eq!(documents("{\"a\": 1}\n{\"b\": [\n"), ["1 Json {\"a\": 1}", "2 Json {\"b\": [\n"]);
}

/// Each is looked for up to the end of the stream, so many of them would take the square of their number.
#[test]
fn many_objects_that_are_not_closed_are_split_in_little_time() {
    let (start, count) = (std::time::Instant::now(), 40_000);
    let found = split(Blobs::new("{\"\n".repeat(count).as_bytes()));
    assert_eq!((found.len(), found[count - 1].as_str()), (count, "40000 Json {\"\n"));
    assert!(start.elapsed().as_secs() < 5, "{:?}", start.elapsed());
    // What comes behind them is still told from them, and measured.
    let deep = format!("{{\"a\": {}{}}}", "[".repeat(MAX_DEPTH), "]".repeat(MAX_DEPTH));
    let text = "{\"\n".repeat(100) + "{\"a\": 1}{\"b\":\n2}\n" + &deep + "\n";
    let found = split(Blobs::new(text.as_bytes()));
    assert_eq!(found[100..102], ["101 Json {\"a\": 1}", "101 Json {\"b\":\n2}"]);
    assert!(found[102].starts_with("103 TooDeep {") && found.len() == 103, "{:?}", &found[100..]);
}

#[test]
fn object_with_too_few_or_too_many_braces_ends_where_the_next_one_begins() {
    let expected = ["1 Json {\"a\": [\n", "2 Json {\"b\": 1}", "3 Yaml ---x: }\n"];
    assert_eq!(documents("{\"a\": [\n{\"b\": 1}\n---x: }\n"), expected);
    assert_eq!(documents("{\"a\": 1}}\n{\n}\n"), ["1 Json {\"a\": 1}}\n", "2 Json {\n}"]);
}

#[test]
fn separator_with_text_behind_it_is_not_passed_over() {
    assert_eq!(documents("a: 1\n---b\nc: 2\n---\nd: 3\n"), ["1 Yaml a: 1\n", "2 Yaml ---b\nc: 2\n", "5 Yaml d: 3\n"]);
}

#[test]
fn stream_without_content_has_no_documents() {
    for text in ["", "\n \n", "---\n", "\u{feff}", "---\n---\n# nothing"] {
        assert!(documents(text).len() <= usize::from(text.contains('#')), "{text:?}");
    }
}

#[test]
fn nesting_is_limited() {
    let nested = |depth: usize| format!("{{\"a\": {}{}}}", "[".repeat(depth - 1), "]".repeat(depth - 1));
    let form = |depth| documents(&nested(depth))[0].split(' ').nth(1).unwrap().to_owned();
    assert_eq!((form(MAX_DEPTH), form(MAX_DEPTH + 1)), ("Json".to_owned(), "TooDeep".to_owned()));
}

#[test]
fn document_that_never_ends_is_refused_with_its_line() {
    for text in [&b"{\"a\": \""[..], b"a: b\nc: \""] {
        let input = (&b"{}\n\n"[..]).chain(text).chain(io::repeat(b'x'));
        let found = split(Blobs::new(input));
        assert_eq!(found.len(), 2, "{found:?}");
        assert_eq!(found[1], "the document in line 3 is larger than 16777216 bytes");
    }
}

#[test]
fn large_document_leaves_no_large_buffer() {
    let large = format!("{{\"a\": \"{}\"}}\n{{}}\n{{}}", "x".repeat(8 << 20));
    let mut blobs = Blobs::new(large.as_bytes());
    assert_eq!(blobs.next_document().unwrap().unwrap().bytes.len(), (8 << 20) + 9);
    while blobs.next_document().unwrap().is_some() {}
    assert!(blobs.buffer.capacity() <= KEPT, "{}", blobs.buffer.capacity());
}

#[test]
fn error_of_the_reader_ends_the_stream() {
    struct Broken;
    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("gone"))
        }
    }
    assert_eq!(split(Blobs::new((&b"{}\n"[..]).chain(Broken))), ["gone"]);
}

#[test]
fn documents_have_their_places_in_the_stream() {
    let text = "{}\n---\na: 1\n---\n{\"b\": 2}";
    let mut blobs = Blobs::new(text.as_bytes());
    while let Some(it) = blobs.next_document().unwrap() {
        let at = usize::try_from(it.offset).unwrap();
        assert_eq!(&text.as_bytes()[at..at + it.bytes.len()], it.bytes);
        assert_eq!(it.line, 1 + text[..at].matches('\n').count());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_split_without_losing_more_than_blanks_and_separators(
        parts in prop::collection::vec(prop::sample::select(vec!["{", "}", "\"", "'", "a: b", "\n", " ", "---", "--", "#", "\\", "[", "]"]), 0..40),
        piece in 1_usize..5,
    ) {
        let text = parts.concat();
        let (mut blobs, mut at) = (Blobs::new(Slow(text.as_bytes(), piece)), 0);
        while let Some(it) = blobs.next_document().unwrap() {
            let start = usize::try_from(it.offset).unwrap();
            for line in text[at..start].lines() {
                let line = line.trim();
                prop_assert!(line.is_empty() || line.starts_with("---"), "{line:?} is lost of {text:?}");
            }
            at = start + it.bytes.len();
            prop_assert!(!it.bytes.is_empty());
        }
    }
}
