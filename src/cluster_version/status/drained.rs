//! Operators that are not available because nodes are being updated: what is told of them in place of a failure.

use super::failure::{Reason, UpdateError};
use crate::error::{CAUSE, listed};
use std::collections::{BTreeMap, BTreeSet};

/// The nodes that explain that an operator is not available, by its name. Without any it is still being found out whether some do.
pub(crate) type Drained = BTreeMap<String, BTreeSet<String>>;

/// The operators that these errors call not available at once, which is what nodes may explain.
pub(crate) fn unavailable<'a>(errors: impl IntoIterator<Item = &'a UpdateError>) -> BTreeSet<String> {
    errors.into_iter().filter(|error| is_unavailable(error)).flat_map(|error| error.names.clone()).collect()
}

fn is_unavailable(error: &UpdateError) -> bool {
    error.reason == Reason::OperatorNotAvailable && error.effect == super::failure::Effect::Fail
}

/// The errors without those that nodes explain, for which one other says what is waited for.
pub(crate) fn without_drained(errors: Vec<UpdateError>, drained: &Drained) -> Vec<UpdateError> {
    let (mut operators, mut nodes) = (BTreeSet::new(), BTreeSet::new());
    let mut rest: Vec<UpdateError> = Vec::new();
    for error in errors {
        match error.names.as_slice() {
            [name] if is_unavailable(&error) && drained.contains_key(name) => {
                if let Some(explaining) = drained.get(name).filter(|nodes| !nodes.is_empty()) {
                    operators.insert(name.clone());
                    nodes.extend(explaining.iter().cloned());
                }
            }
            _ => rest.push(error),
        }
    }
    if !operators.is_empty() {
        let effect = super::failure::Effect::Wait;
        rest.push(UpdateError { effect, ..UpdateError::new(Reason::NodesUpdating, text(&operators, &nodes)) });
    }
    rest
}

/// What is waited for, as the end of a sentence.
pub(crate) fn text(operators: &BTreeSet<String>, nodes: &BTreeSet<String>) -> String {
    let list = |names: &BTreeSet<String>| {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        listed(&names, ", ", CAUSE / 3, |n| format!("and {n} more"))
    };
    let noun = if nodes.len() == 1 { "node" } else { "nodes" };
    let verb = if nodes.len() == 1 { "is" } else { "are" };
    format!("{}, whose pods had to leave {noun} {}, which {verb} being updated", list(operators), list(nodes))
}

#[cfg(test)]
mod tests;
