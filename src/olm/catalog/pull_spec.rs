//! Whether a text names an image as container runtimes understand it.

use regex::Regex;
use std::sync::LazyLock;

/// `[HOST[:PORT]/]PATH[:TAG][@DIGEST]`. `None` only if the expression were wrong, which the tests exclude.
static PULL_SPEC: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let label = "[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?";
    let host = format!(r"(?:{label}(?:\.{label})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?");
    let part = "[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*";
    let tag = "[a-zA-Z0-9_][a-zA-Z0-9_.-]{0,127}";
    let digest = "[a-zA-Z][a-zA-Z0-9]*(?:[-_+.][a-zA-Z][a-zA-Z0-9]*)*:[0-9a-fA-F]{32,}";
    Regex::new(&format!("^(?:{host}/)?{part}(?:/{part})*(?::{tag})?(?:@{digest})?$")).ok()
});

pub(crate) fn is_pull_spec(text: &str) -> bool {
    PULL_SPEC.as_ref().is_some_and(|expression| expression.is_match(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pull_specs_are_told_from_other_texts() {
        let digest = format!("@sha256:{}", "0a".repeat(32));
        for text in ["a", "a:1.0", "localhost:5000/a/b", "quay.io/a/b-c/d__e:v1.0-x", "[::1]:5000/a", "Host/a"] {
            assert!(is_pull_spec(text), "{text}");
            assert!(is_pull_spec(&format!("{text}{digest}")), "{text}");
        }
        for text in
            ["", " a", "a b", "A", "quay.io/A", "a:", "a@sha256:00", "https://quay.io/a", "a//b", "a\n", "-a", "a:-1"]
        {
            assert!(!is_pull_spec(text), "{text:?}");
        }
    }
}
