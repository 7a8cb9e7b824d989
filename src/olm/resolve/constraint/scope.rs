//! Whether one operator has to meet a constraint by itself, or several of those that are installed together may.

use super::{Constraint, Demand};
use serde_json::Value;

/// Dependencies that one constraint is made of at most.
const MAX_PARTS: usize = 100;

/// What the constraints of a bundle are questions about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Scope {
    /// One operator.
    #[default]
    Bundle,
    /// All that are installed together: different ones may meet the members of an `all`.
    Set,
}

impl Scope {
    /// The value of a property `olm.constraint.scope`.
    pub(crate) fn parse(value: &Value) -> Result<Self, String> {
        match value.as_str() {
            Some("bundle") => Ok(Scope::Bundle),
            Some("set") => Ok(Scope::Set),
            _ => Err("value must be set, if several operators may meet the members of an all, or bundle".to_owned()),
        }
    }
}

impl Constraint {
    /// What has to be met where different operators may meet it: each of these by one of them. What a `not` beside other members
    /// of an `all` excludes is excluded for each of those.
    pub(crate) fn parts(&self) -> Result<Vec<Constraint>, String> {
        self.split().ok_or_else(|| {
            format!(
                "with olm.constraint.scope it comes to more than {MAX_PARTS} dependencies: nest fewer all within any, or split it"
            )
        })
    }

    /// `None` if there are too many.
    fn split(&self) -> Option<Vec<Constraint>> {
        match &self.demand {
            Demand::All(members) => self.each_of(members),
            Demand::Any(members) => self.one_of(members),
            _ => Some(vec![self.clone()]),
        }
    }

    fn each_of(&self, members: &[Constraint]) -> Option<Vec<Constraint>> {
        let (excluded, wanted): (Vec<&Constraint>, Vec<&Constraint>) =
            members.iter().partition(|it| matches!(it.demand, Demand::Not(_)));
        if wanted.is_empty() {
            return Some(vec![self.clone()]);
        }
        let mut found = Vec::new();
        for part in wanted.into_iter().map(Constraint::split) {
            found.extend(part?.into_iter().map(|part| self.part_without(part, &excluded)));
            if found.len() > MAX_PARTS {
                return None;
            }
        }
        Some(found)
    }

    fn part_without(&self, part: Constraint, excluded: &[&Constraint]) -> Constraint {
        let failure_message = part.failure_message.clone().or_else(|| self.failure_message.clone());
        let demand = match excluded {
            [] => part.demand,
            _ => Demand::All(std::iter::once(part).chain(excluded.iter().map(|it| (*it).clone())).collect()),
        };
        Constraint { demand, failure_message }
    }

    /// One of each member, in all combinations: whatever is chosen of them, one member is met as a whole.
    fn one_of(&self, members: &[Constraint]) -> Option<Vec<Constraint>> {
        let mut combined: Vec<Vec<Constraint>> = vec![Vec::new()];
        for member in members {
            let parts = member.split()?;
            if combined.len() * parts.len() > MAX_PARTS {
                return None;
            }
            let with = |chosen: &Vec<Constraint>| {
                let chosen = chosen.clone();
                parts.clone().into_iter().map(move |part| chosen.iter().cloned().chain([part]).collect())
            };
            combined = combined.iter().flat_map(with).collect();
        }
        let any = |members| Constraint { demand: Demand::Any(members), failure_message: self.failure_message.clone() };
        Some(combined.into_iter().map(any).collect())
    }
}
