//! Errors as people read them.

use std::error::Error;

/// An error with its causes on one line, each once: many errors name their cause and have it as their source as well.
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        next = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    #[derive(Debug, thiserror::Error)]
    #[error("image {image}: {source}")]
    struct Repeating {
        image: &'static str,
        source: io::Error,
    }

    #[test]
    fn each_cause_is_named_once() {
        let error =
            anyhow::Error::from(Repeating { image: "a", source: io::Error::other("gone") }).context("cannot pull");
        assert_eq!(format!("{error:#}"), "cannot pull: image a: gone: gone", "what this is for");
        assert_eq!(chain(error.as_ref()), "cannot pull: image a: gone");
    }
}
