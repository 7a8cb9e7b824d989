//! Finds where a JSON object ends, by its braces alone. What is between them is checked by whoever decodes it.

/// How far a scan has come.
#[derive(Debug, Default)]
pub(super) struct Scan {
    depth: usize,
    pub deepest: usize,
    in_text: bool,
    escaped: bool,
}

impl Scan {
    /// Takes the next bytes of the object, which begins with its brace: where it ends in them, if it does.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut at = 0;
        loop {
            let rest = bytes.get(at..).filter(|rest| !rest.is_empty())?;
            if self.escaped {
                self.escaped = false;
                at += 1;
            } else if self.in_text {
                let found = memchr::memchr2(b'"', b'\\', rest)?;
                self.escaped = rest.get(found) == Some(&b'\\');
                self.in_text = self.escaped;
                at += found + 1;
            } else {
                let is_mark = |byte: &u8| matches!(byte, b'"' | b'{' | b'}' | b'[' | b']');
                let found = rest.iter().position(is_mark)?;
                at += found + 1;
                match rest.get(found) {
                    Some(b'"') => self.in_text = true,
                    Some(b'{' | b'[') => {
                        self.depth += 1;
                        self.deepest = self.deepest.max(self.depth);
                    }
                    _ => {
                        self.depth = self.depth.saturating_sub(1);
                        if self.depth == 0 {
                            return Some(at);
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn object_ends_where_its_first_brace_is_closed() {
        for (text, expected) in [
            ("{} {}", Some(2)),
            (r#"{"a": "}"}x"#, Some(10)),
            (r#"{"a\"}": [{}, "\\"]}"#, Some(20)),
            (r#"{"a": "\\\"}"}{"#, Some(14)),
            ("{\"a\": [{}", None),
            ("{\"a}", None),
            ("{", None),
        ] {
            // In one piece, and byte by byte.
            assert_eq!(Scan::default().feed(text.as_bytes()), expected, "{text}");
            let mut scan = Scan::default();
            let found = text.bytes().position(|byte| scan.feed(&[byte]).is_some());
            assert_eq!(found.map(|at| at + 1), expected, "{text}");
        }
    }

    #[test]
    fn nesting_is_measured() {
        let mut scan = Scan::default();
        assert_eq!(scan.feed(b"{\"a\": [[], [[]]], \"b\": \"[[[[[\"}"), Some(31));
        assert_eq!(scan.deepest, 4);
    }
}
