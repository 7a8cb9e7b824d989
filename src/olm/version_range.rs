//! Ranges of versions as catalogs write them: `>=1.0.0 <2.0.0 || 3.1.x`. Terms next to each other must all hold, `||` separates
//! alternatives. A pre-release is ordered as Semantic Versioning says, and build metadata does not count.

use semver::{BuildMetadata, Prerelease, Version};
use std::cmp::Ordering;

/// A range that parses. Alternatives, each with terms that must all hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionRange(Vec<Vec<Term>>);

/// Why a text is no range.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RangeError {
    #[error("it is empty; write a range such as >=1.0.0 <2.0.0")]
    Empty,
    #[error("nothing stands before or after ||; write terms on both of its sides")]
    NoTerm,
    #[error("{0:?} begins with no operator: there are = == != ! > >= < <=")]
    Operator(String),
    #[error("{text:?} is neither a complete version (1.2.3) nor one that ends in x (1.2.x): {cause}")]
    Version { text: String, cause: String },
}

/// What a version is compared with.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Term {
    operator: Operator,
    /// The least version that the text names.
    from: Version,
    /// The least version after those that a wildcard names.
    until: Option<Version>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Equal,
    Not,
    Greater,
    AtLeast,
    Less,
    AtMost,
}

impl VersionRange {
    /// Parses a range. Blanks separate terms; one may also follow an operator.
    pub fn parse(text: &str) -> Result<Self, RangeError> {
        let (mut alternatives, mut terms) = (Vec::new(), Vec::new());
        let mut operator = String::new();
        let dangling = |operator| RangeError::Version { text: operator, cause: "no version follows".to_owned() };
        for word in text.split(' ').filter(|word| !word.is_empty()) {
            if word == "||" {
                if !operator.is_empty() {
                    return Err(dangling(operator));
                }
                alternatives.push(std::mem::take(&mut terms));
            } else if word.bytes().all(|byte| b"=!<>".contains(&byte)) {
                operator.push_str(word);
            } else {
                terms.push(Term::parse(&(std::mem::take(&mut operator) + word))?);
            }
        }
        if !operator.is_empty() {
            return Err(dangling(operator));
        }
        if alternatives.is_empty() && terms.is_empty() {
            return Err(RangeError::Empty);
        }
        alternatives.push(terms);
        if alternatives.iter().any(Vec::is_empty) { Err(RangeError::NoTerm) } else { Ok(VersionRange(alternatives)) }
    }

    pub fn contains(&self, version: &Version) -> bool {
        self.0.iter().any(|terms| terms.iter().all(|term| term.holds(version)))
    }
}

impl Term {
    fn parse(text: &str) -> Result<Self, RangeError> {
        let digits = text.find(|c: char| c.is_ascii_digit()).unwrap_or(text.len());
        let (operator, version) = text.split_at(digits);
        let operator = match operator {
            "" | "=" | "==" => Operator::Equal,
            "!" | "!=" => Operator::Not,
            ">" => Operator::Greater,
            ">=" => Operator::AtLeast,
            "<" => Operator::Less,
            "<=" => Operator::AtMost,
            _ => return Err(RangeError::Operator(text.to_owned())),
        };
        let wrong = |cause: String| RangeError::Version { text: version.to_owned(), cause };
        let mut parts = version.split('.');
        let number = |text: &str| {
            let strict = text == "0" || !text.starts_with('0') && text.bytes().all(|byte| byte.is_ascii_digit());
            text.parse::<u64>().ok().filter(|_| strict).ok_or_else(|| wrong(format!("{text:?} is no number")))
        };
        let last = || wrong("the number before x is too large".to_owned());
        let (from, until) = match (parts.next(), parts.next(), parts.next(), parts.next()) {
            (Some(major), Some("x"), None | Some("x"), None) => {
                let major = number(major)?;
                (plain(major, 0), Some(plain(major.checked_add(1).ok_or_else(last)?, 0)))
            }
            (Some(major), Some(minor), Some("x"), None) => {
                let (major, minor) = (number(major)?, number(minor)?);
                (plain(major, minor), Some(plain(major, minor.checked_add(1).ok_or_else(last)?)))
            }
            _ => (Version::parse(version).map_err(|error| wrong(error.to_string()))?, None),
        };
        Ok(Term { operator, from, until })
    }

    fn holds(&self, version: &Version) -> bool {
        let from = version.cmp_precedence(&self.from);
        let within = match &self.until {
            Some(until) => from != Ordering::Less && version.cmp_precedence(until) == Ordering::Less,
            None => from == Ordering::Equal,
        };
        match self.operator {
            Operator::Equal => within,
            Operator::Not => !within,
            Operator::Greater => from == Ordering::Greater && !within,
            Operator::AtLeast => from != Ordering::Less,
            Operator::Less => from == Ordering::Less,
            Operator::AtMost => from == Ordering::Less || within,
        }
    }
}

fn plain(major: u64, minor: u64) -> Version {
    Version { major, minor, patch: 0, pre: Prerelease::EMPTY, build: BuildMetadata::EMPTY }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contains(range: &str, version: &str) -> bool {
        VersionRange::parse(range).unwrap().contains(&Version::parse(version).unwrap())
    }

    #[test]
    fn terms_next_to_each_other_must_hold_and_alternatives_are_enough() {
        for (range, inside, outside) in [
            (">1.0.0 <2.0.0", "1.0.1 1.9.9 2.0.0-rc.1", "1.0.0 2.0.0"),
            ("> 1.0.0 !1.2.1", "1.2.0 1.2.2 9.0.0", "1.0.0 1.2.1"),
            ("! 1.2.1", "1.2.0 1.2.2", "1.2.1"),
            ("0.5.2", "0.5.2 0.5.2+build", "0.5.1 0.5.3 0.5.2-rc.1"),
            (">0.5.1", "0.5.2 1.0.0", "0.5.1 0.5.1-rc.1"),
            (">=4.1.0 <4.1.2", "4.1.0 4.1.1", "4.0.9 4.1.2 4.1.0-rc.1"),
            ("<1.0.0 || >=2.0.0 !=2.1.0", "0.9.0 2.0.0 2.2.0", "1.0.0 1.9.0 2.1.0"),
            ("1.2.x", "1.2.0 1.2.9 1.3.0-rc.1", "1.1.9 1.3.0 1.2.0-rc.1"),
            ("1.x", "1.0.0 1.9.9", "0.9.9 2.0.0"),
            ("1.x.x", "1.0.0 1.9.9", "0.9.9 2.0.0"),
            ("!=1.2.x", "1.1.9 1.3.0", "1.2.0 1.2.9"),
            (">1.2.x", "1.3.0", "1.2.9 1.2.0"),
            (">=1.2.x", "1.2.0 1.3.0", "1.1.9"),
            ("<1.2.x", "1.1.9", "1.2.0"),
            ("<=1.2.x", "1.1.9 1.2.9", "1.3.0"),
            ("<=1.2.0 == 1.1.0", "1.1.0", "1.2.0"),
        ] {
            for version in inside.split(' ') {
                assert!(contains(range, version), "{range} {version}");
            }
            for version in outside.split(' ') {
                assert!(!contains(range, version), "{range} {version}");
            }
        }
    }

    #[test]
    fn text_that_is_no_range_is_refused_with_its_cause() {
        for (text, expected) in [
            ("", "empty"),
            ("   ", "empty"),
            ("||", "||"),
            (">1.0.0 ||", "||"),
            (">1.0.0 || || <1.0.0", "||"),
            (">1.0.0, <2.0.0", "1.0.0,"),
            (">1.0", "complete version"),
            ("1", "complete version"),
            ("x", "no operator"),
            ("~1.0.0", "~1.0.0"),
            ("^1.0.0", "^1.0.0"),
            ("=>1.0.0", "=>1.0.0"),
            ("1.0.0 >", "no version follows"),
            ("1.0.0 > || 2.0.0", "no version follows"),
            ("1.y.x", "\"y\""),
            ("01.x", "\"01\""),
            ("18446744073709551615.x", "too large"),
            ("1.0.0||2.0.0", "1.0.0||2.0.0"),
        ] {
            let error = VersionRange::parse(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{text:?}: {error}");
        }
    }
}
