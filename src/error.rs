//! Errors as people read them: with their causes, and never longer than people read.

use std::borrow::Cow;
use std::error::Error;

/// An enum of causes, each with what a person can do about it: a cause without a next step does not compile.
macro_rules! causes {
    ($(#[$meta:meta])* $vis:vis enum $name:ident {
        $($(#[$of:meta])* $variant:ident => $step:literal,)+
        $(; $(#[$other_of:meta])* $other:ident($inner:ty) => $other_step:literal,)?
    }) => {
        $(#[$meta])*
        $vis enum $name {
            $($(#[$of])* $variant,)+
            $($(#[$other_of])* $other($inner),)?
        }

        impl $name {
            /// Those that are not the text of somebody else.
            pub(crate) const ALL: &'static [$name] = &[$($name::$variant,)+];

            /// What a person can do about it.
            pub(crate) fn next_step(&self) -> &'static str {
                match self {
                    $($name::$variant => $step,)+
                    $($name::$other(_) => $other_step,)?
                }
            }
        }
    };
}
pub(crate) use causes;

/// Most bytes of one cause, however much the API server or another program says.
pub(crate) const CAUSE: usize = 500;
/// Most bytes of what a condition says of several things.
const TOGETHER: usize = 8 << 10;

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

/// The text in at most `limit` bytes: its beginning, how much is left out, and its end.
pub(crate) fn shortened(text: &str, limit: usize) -> Cow<'_, str> {
    if text.len() <= limit {
        return Cow::Borrowed(text);
    }
    let note = |bytes: usize| format!(" … ({bytes} bytes left out) … ");
    let Some(kept) = limit.checked_sub(note(text.len()).len()) else {
        return Cow::Borrowed(text.get(..text.floor_char_boundary(limit)).unwrap_or_default());
    };
    // The beginning says what it is about, the end often why.
    let begin = text.floor_char_boundary(kept / 3 * 2);
    let end = text.ceil_char_boundary(text.len() - (kept - begin));
    let part = |range| text.get(range).unwrap_or_default();
    Cow::Owned(format!("{}{}{}", part(0..begin), note(end - begin), part(end..text.len())))
}

/// What is wrong with JSON, without line and column, which nobody can use if the text is a part of another or our own, and without
/// most of a long value.
pub(crate) fn of_json(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let place = text.rsplit_once(" at line ").filter(|_| error.line() > 0);
    shortened(place.map_or(text.as_str(), |(cause, _)| cause), CAUSE).into_owned()
}

/// The items in at most `limit` bytes; in place of those that do not fit stands `rest` of their number.
pub(crate) fn listed<S: AsRef<str>>(
    items: &[S],
    separator: &str,
    limit: usize,
    rest: impl Fn(usize) -> String,
) -> String {
    let all: usize = items.iter().map(|item| item.as_ref().len() + separator.len()).sum();
    let room = if all <= limit + separator.len() { all } else { limit.saturating_sub(rest(items.len()).len()) };
    let mut text = String::new();
    for (position, item) in items.iter().enumerate() {
        if text.len() + item.as_ref().len() + separator.len() > room {
            text.push_str(&rest(items.len() - position));
            break;
        }
        text.push_str(item.as_ref());
        text.push_str(separator);
    }
    let text = text.strip_suffix(separator).unwrap_or(&text);
    shortened(text, limit).into_owned()
}

/// The items as a condition says them of several things, however many there are.
pub(crate) fn together<S: AsRef<str>>(items: &[S], separator: &str) -> String {
    listed(items, separator, TOGETHER, |rest| format!("and {rest} more"))
}

/// The URL as it may be shown: without the user and the password that may stand before the host.
pub(crate) fn without_password(url: &str) -> Cow<'_, str> {
    let Some((scheme, rest)) = url.split_once("://") else { return Cow::Borrowed(url) };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    match rest.split_at(end) {
        (authority, path) if authority.contains('@') => {
            let host = authority.rsplit('@').next().unwrap_or_default();
            Cow::Owned(format!("{scheme}://***@{host}{path}"))
        }
        _ => Cow::Borrowed(url),
    }
}

#[cfg(test)]
mod tests;
