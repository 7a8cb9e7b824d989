//! What a request for a list asks for: selectors and pages, as they stand in its address.

use crate::object::selector::{is_empty, matches};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The longest token: three names and what JSON and base64 add.
const MAX_TOKEN: usize = 4096;

/// A request that is understood.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Query {
    labels: LabelSelector,
    /// Names, of which the object must have all; more than one thus selects nothing.
    names: Vec<String>,
    /// At most so many items.
    pub limit: Option<usize>,
    /// The item before the page.
    pub after: Option<Token>,
}

/// Why a request is not understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum QueryError {
    #[error("field label not supported: {0}; objects are selected by metadata.name=<name> only")]
    Field(String),
    #[error("labelSelector {text:?}: {cause}")]
    Label { text: String, cause: String },
    #[error("limit {0:?} is no number that is not negative")]
    Limit(String),
    /// Perhaps it is of another release of this server. Clients begin anew if they are told that it has expired.
    #[error("The provided continue parameter is none of this server: ask for the list again without it")]
    Continue,
}

/// The last item of a page, from which a list goes on. It means the same at every replica and at any time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Token {
    name: String,
    #[serde(rename = "catalogNamespace")]
    namespace: String,
    catalog: String,
}

impl Token {
    pub(super) fn at((name, namespace, catalog): (&str, &str, &str)) -> Self {
        Token { name: name.to_owned(), namespace: namespace.to_owned(), catalog: catalog.to_owned() }
    }

    pub(super) fn key(&self) -> (&str, &str, &str) {
        (&self.name, &self.namespace, &self.catalog)
    }

    pub(super) fn encode(&self) -> String {
        // Text is always JSON.
        URL_SAFE_NO_PAD.encode(serde_json::to_vec(self).unwrap_or_default())
    }

    fn decode(text: &str) -> Option<Self> {
        let json = (text.len() <= MAX_TOKEN).then(|| URL_SAFE_NO_PAD.decode(text).ok())??;
        serde_json::from_slice(&json).ok()
    }
}

impl Query {
    /// From the values of `labelSelector`, `fieldSelector`, `limit` and `continue`; empty ones are as none.
    pub(crate) fn parse(labels: &str, fields: &str, limit: &str, token: &str) -> Result<Self, QueryError> {
        let limit = match limit {
            "" => 0,
            text => text.parse::<usize>().map_err(|_| QueryError::Limit(text.to_owned()))?,
        };
        let after = (!token.is_empty()).then(|| Token::decode(token).ok_or(QueryError::Continue)).transpose()?;
        let labels = parse_labels(labels)
            .map_err(|cause| QueryError::Label { text: labels.chars().take(200).collect(), cause })?;
        Ok(Query { labels, names: names(fields)?, limit: Some(limit).filter(|limit| *limit > 0), after })
    }

    /// The only name that is selected, if it is one.
    pub(super) fn only_name(&self) -> Option<&str> {
        match self.names.as_slice() {
            [name] => Some(name),
            _ => None,
        }
    }

    /// `labels` is called only if it has to be.
    pub(super) fn selects(&self, name: &str, labels: impl FnOnce() -> BTreeMap<String, String>) -> bool {
        self.names.iter().all(|wanted| wanted == name) && (is_empty(&self.labels) || matches(&self.labels, &labels()))
    }
}

fn names(selector: &str) -> Result<Vec<String>, QueryError> {
    let terms = selector.split(',').map(str::trim).filter(|term| !term.is_empty());
    let name = |term: &str| {
        let (field, value) = term.split_once('=').unwrap_or((term, ""));
        match field.trim() {
            "metadata.name" => Ok(value.trim_start_matches('=').trim().to_owned()),
            other => Err(QueryError::Field(other.to_owned())),
        }
    };
    terms.map(name).collect()
}

/// A selector as kubectl writes it: `a=b,c!=d,e in (f,g),h notin (i),j,!k`.
fn parse_labels(text: &str) -> Result<LabelSelector, String> {
    let mut requirements = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        let (requirement, after) = requirement(rest)?;
        requirements.push(requirement);
        rest = match after.trim_start() {
            "" => "",
            after => match after.strip_prefix(',').map(str::trim_start) {
                Some("") => return Err("it ends with a comma".to_owned()),
                Some(after) => after,
                None => return Err(format!("there must be a comma before {after:?}")),
            },
        };
    }
    Ok(LabelSelector { match_expressions: Some(requirements), match_labels: None })
}

/// The first requirement of a text, and what follows it.
fn requirement(text: &str) -> Result<(LabelSelectorRequirement, &str), String> {
    let made = |key: &str, operator: &str, values: Option<Vec<String>>| LabelSelectorRequirement {
        key: key.to_owned(),
        operator: operator.to_owned(),
        values,
    };
    if let Some(negated) = text.strip_prefix('!') {
        let (key, rest) = word(negated.trim_start());
        return Ok((made(named(key, text)?, "DoesNotExist", None), rest));
    }
    let (key, rest) = word(text);
    let (key, rest) = (named(key, text)?, rest.trim_start());
    for (sign, operator) in [("!=", "NotIn"), ("==", "In"), ("=", "In")] {
        if let Some(value) = rest.strip_prefix(sign) {
            let (value, rest) = word(value.trim_start());
            return Ok((made(key, operator, Some(vec![value.to_owned()])), rest));
        }
    }
    for (sign, operator) in [("notin", "NotIn"), ("in", "In")] {
        if let Some(list) = rest.strip_prefix(sign).map(str::trim_start).and_then(|rest| rest.strip_prefix('(')) {
            let (list, rest) = list.split_once(')').ok_or("a parenthesis is not closed")?;
            let values = list.split(',').map(|value| value.trim().to_owned()).collect();
            return Ok((made(key, operator, Some(values)), rest));
        }
    }
    match rest.chars().next() {
        None | Some(',') => Ok((made(key, "Exists", None), rest)),
        Some(_) => Err(format!("{rest:?} begins with no operator: there are = == != in notin")),
    }
}

fn named<'a>(key: &'a str, text: &str) -> Result<&'a str, String> {
    if key.is_empty() { Err(format!("a label must be named before {text:?}")) } else { Ok(key) }
}

/// The name or value that a text begins with, and what follows.
fn word(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| c.is_whitespace() || "=!,()<>".contains(c)).unwrap_or(text.len());
    text.split_at(end)
}
