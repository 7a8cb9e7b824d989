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
mod tests;
