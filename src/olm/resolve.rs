//! Which operators are installed for the Subscriptions of a namespace, and why none are.

pub(crate) mod answer;
pub(crate) mod candidates;
pub(crate) mod constraint;
pub(crate) mod explain;
pub(crate) mod operator;
pub(crate) mod package;
pub(crate) mod problem;
pub(crate) mod rule;
mod shared;
pub(crate) mod why_not;
pub(crate) mod world;

use crate::olm::solve::{self, Limits, Outcome, Place};
use candidates::Candidate;
use problem::{Problem, What};
use std::collections::BTreeSet;
use world::World;

/// The answer for a world, by parts that have nothing to do with each other.
#[derive(Debug)]
pub(crate) struct Resolution {
    pub problem: Problem,
    pub parts: Vec<Part>,
}

#[derive(Debug)]
pub(crate) struct Part {
    /// By their places in the world.
    pub subscriptions: Vec<usize>,
    pub verdict: Verdict,
}

#[derive(Debug)]
pub(crate) enum Verdict {
    /// The bundles that are to be installed, in the order of their identifiers; none if all is as it should be.
    Install(Vec<Candidate>),
    /// Constraints that cannot hold together; without any one of them the others could.
    Impossible(BTreeSet<Place>),
    /// There are more possibilities than can be tried.
    GaveUp,
}

/// The same world has the same answer, whatever the order of its parts.
pub(crate) fn resolve(world: &World, limits: &Limits) -> Resolution {
    let problem = Problem::of(world, limits);
    let parts = solve::solve(&problem.constraints(), limits);
    let parts = parts.into_iter().map(|part| Part {
        subscriptions: part.variables.iter().filter_map(|at| problem.subscription(*at)).collect(),
        verdict: match part.outcome {
            Outcome::Chosen(chosen) => Verdict::Install(problem.candidates(&chosen)),
            Outcome::Impossible(core) => Verdict::Impossible(core),
            Outcome::GaveUp => Verdict::GaveUp,
        },
    });
    Resolution { parts: parts.collect(), problem }
}

impl Problem {
    fn subscription(&self, variable: usize) -> Option<usize> {
        match self.variables.get(variable)?.what {
            What::Subscription(at) => Some(at),
            _ => None,
        }
    }

    fn candidates(&self, chosen: &BTreeSet<usize>) -> Vec<Candidate> {
        let mut chosen: Vec<_> = chosen.iter().filter_map(|at| self.variables.get(*at)).collect();
        chosen.sort_by_key(|variable| &variable.identifier);
        let candidate = |variable: &problem::Variable| match &variable.what {
            What::Candidate(candidate) => Some(candidate.clone()),
            _ => None,
        };
        chosen.into_iter().filter_map(candidate).collect()
    }

    /// What cannot hold together, in one line: `constraints not satisfiable: …`.
    pub(crate) fn message(&self, core: &BTreeSet<Place>) -> String {
        let text = |place: &Place| Some(&self.variables.get(place.variable)?.constraints.get(place.constraint)?.1);
        let texts: BTreeSet<&str> = core.iter().filter_map(text).map(String::as_str).collect();
        format!("constraints not satisfiable: {}", texts.into_iter().collect::<Vec<_>>().join(", "))
    }
}

#[cfg(test)]
pub(in crate::olm) mod tests;
