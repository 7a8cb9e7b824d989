//! Which variables are true so that all constraints hold, and of what could be chosen the first counts.
//!
//! Choices are made in breadth-first order: first the variables that must be true, in their order, then the dependencies of each
//! chosen one. A choice that an earlier one has met already is passed over; otherwise its first candidate is taken with which all
//! constraints can still hold, which a SAT solver knows. Nothing else is true. The same problem has the same answer always.

mod sat;

pub(crate) use sat::Limits;

use petgraph::unionfind::UnionFind;
use sat::Sat;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// What must hold of a variable. Variables are numbers of places in the problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Constraint {
    /// It is true.
    Mandatory,
    /// It is false.
    Prohibited,
    /// If it is true, one of these is; earlier ones are preferred. None of an empty list ever is.
    Dependency(Vec<usize>),
    /// It and this one are not both true.
    Conflict(usize),
    /// At most so many of these are true, whatever it is itself.
    AtMost(usize, Vec<usize>),
}

/// The constraints of each variable.
pub(crate) type Problem = Vec<Vec<Constraint>>;

/// A constraint: the variable that has it, and its number among those of the variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub variable: usize,
    pub constraint: usize,
}

/// Variables that share no constraint with others, and what is found for them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    /// In their order.
    pub variables: Vec<usize>,
    pub outcome: Outcome,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// These are true, all others false.
    Chosen(BTreeSet<usize>),
    /// These cannot hold together, and could without any one of them.
    Impossible(BTreeSet<Place>),
    /// No answer within the limit of conflicts, or it was cancelled.
    GaveUp,
}

/// Why the search ends early.
struct GaveUp;

/// Solves each part that has a variable which must be true; where there is none, all are false. Parts have the order of their
/// first variables.
pub(crate) fn solve(problem: &[Vec<Constraint>], limits: &Limits) -> Vec<Part> {
    let is_wanted = |variables: &[usize]| {
        let mut all = variables.iter().filter_map(|variable| problem.get(*variable)).flatten();
        all.any(|constraint| *constraint == Constraint::Mandatory)
    };
    let parts = parts(problem).into_iter().filter(|variables| is_wanted(variables));
    parts.map(|variables| Part { outcome: outcome(problem, &variables, limits), variables }).collect()
}

/// Variables by the constraints that join them.
fn parts(problem: &[Vec<Constraint>]) -> Vec<Vec<usize>> {
    let mut joined = UnionFind::<usize>::new(problem.len());
    for (variable, constraint) in problem.iter().enumerate().flat_map(|(v, all)| all.iter().map(move |c| (v, c))) {
        for other in constraint.variables().iter().filter(|other| **other < problem.len()) {
            joined.union(variable, *other);
        }
    }
    let mut parts: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (variable, label) in joined.into_labeling().into_iter().enumerate() {
        parts.entry(label).or_default().push(variable);
    }
    let mut parts: Vec<_> = parts.into_values().collect();
    parts.sort();
    parts
}

fn outcome(problem: &[Vec<Constraint>], variables: &[usize], limits: &Limits) -> Outcome {
    let mut sat = Sat::new(problem, variables, limits);
    match search(problem, variables, &mut sat) {
        Ok(Some(chosen)) => Outcome::Chosen(chosen),
        Ok(None) => Outcome::Impossible(sat.minimal_core()),
        Err(GaveUp) => Outcome::GaveUp,
    }
}

/// `None` if the constraints cannot hold.
fn search(problem: &[Vec<Constraint>], variables: &[usize], sat: &mut Sat) -> Result<Option<BTreeSet<usize>>, GaveUp> {
    if !sat.can_hold()? {
        return Ok(None);
    }
    let constraints = |variable: usize| problem.get(variable).into_iter().flatten();
    let is_mandatory = |variable: &&usize| constraints(**variable).any(|c| *c == Constraint::Mandatory);
    let mandatory: Vec<[usize; 1]> = variables.iter().filter(is_mandatory).map(|variable| [*variable]).collect();
    let mut choices: VecDeque<&[usize]> = mandatory.iter().map(<[usize; 1]>::as_slice).collect();
    let mut chosen = BTreeSet::new();
    while let Some(candidates) = choices.pop_front() {
        if candidates.iter().any(|candidate| chosen.contains(candidate)) {
            continue;
        }
        for candidate in candidates {
            if sat.take(*candidate)? {
                chosen.insert(*candidate);
                choices.extend(constraints(*candidate).filter_map(|constraint| match constraint {
                    Constraint::Dependency(candidates) => Some(candidates.as_slice()),
                    _ => None,
                }));
                break;
            }
        }
    }
    Ok(Some(chosen))
}

impl Constraint {
    /// The other variables that it names.
    fn variables(&self) -> &[usize] {
        match self {
            Constraint::Mandatory | Constraint::Prohibited => &[],
            Constraint::Conflict(other) => std::slice::from_ref(other),
            Constraint::Dependency(others) | Constraint::AtMost(_, others) => others,
        }
    }
}

#[cfg(test)]
pub(in crate::olm) mod tests;
