//! The constraints as clauses of a SAT solver. Each has a literal of its own that switches it on, so that those which cannot hold
//! together can be told.

use super::{Constraint, GaveUp, Place};
use batsat::{Callbacks, ClauseKind, Lit, Solver, SolverInterface, lbool};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// When a search ends without an answer.
#[derive(Clone, Debug)]
pub(crate) struct Limits {
    /// How many conflicts the solver may meet for one part of a problem: a measure of time that is the same on all machines.
    pub conflicts: u64,
    /// How often rules may be asked of bundles: another such measure.
    pub questions: u64,
    /// Nobody wants the answer any more.
    pub cancelled: Arc<AtomicBool>,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { conflicts: 100_000, questions: 500_000, cancelled: Arc::default() }
    }
}

/// Counts conflicts.
struct Countdown {
    limits: Limits,
}

impl Callbacks for Countdown {
    fn on_new_clause(&mut self, _clause: &[Lit], kind: ClauseKind) {
        if kind == ClauseKind::Learnt {
            self.limits.conflicts = self.limits.conflicts.saturating_sub(1);
        }
    }

    fn stop(&self) -> bool {
        self.limits.conflicts == 0 || self.limits.cancelled.load(Ordering::Relaxed)
    }
}

pub(super) struct Sat {
    solver: Solver<Countdown>,
    literals: BTreeMap<usize, Lit>,
    /// By place: what switches a constraint on.
    switches: BTreeMap<Place, Lit>,
    /// The values of all variables in what was found last.
    found: Vec<lbool>,
}

impl Sat {
    /// A solver for these variables of the problem. One that they name beside them is false.
    pub(super) fn new(problem: &[Vec<Constraint>], variables: &[usize], limits: &Limits) -> Self {
        let mut solver = Solver::new(batsat::core::SolverOpts::default(), Countdown { limits: limits.clone() });
        let preferred = preferred(problem, variables);
        let literal = |variable: &usize| {
            let likely = if preferred.contains(variable) { lbool::TRUE } else { lbool::UNDEF };
            (*variable, Lit::new(solver.new_var(likely, true), true))
        };
        let literals = variables.iter().map(literal).collect();
        let mut sat = Sat { solver, literals, switches: BTreeMap::new(), found: Vec::new() };
        for variable in variables {
            for (constraint, what) in problem.get(*variable).into_iter().flatten().enumerate() {
                let switch = new_literal(&mut sat.solver);
                sat.add(*variable, what, switch);
                sat.switches.insert(Place { variable: *variable, constraint }, switch);
            }
        }
        sat
    }

    fn add(&mut self, variable: usize, constraint: &Constraint, switch: Lit) {
        let Some(own) = self.literals.get(&variable).copied() else { return };
        match constraint {
            Constraint::Mandatory => self.clause([!switch, own]),
            Constraint::Prohibited => self.clause([!switch, !own]),
            Constraint::Dependency(candidates) => {
                let candidates = candidates.iter().filter_map(|candidate| self.literals.get(candidate).copied());
                let clause: Vec<Lit> = candidates.chain([!switch, !own]).collect();
                self.clause(clause);
            }
            Constraint::Conflict(other) => {
                if let Some(other) = self.literals.get(other).copied() {
                    self.clause([!switch, !own, !other]);
                }
            }
            Constraint::AtMost(most, variables) => {
                let distinct: BTreeSet<&usize> = variables.iter().collect();
                let literals = distinct.into_iter().filter_map(|it| self.literals.get(it).copied()).collect();
                self.at_most(*most, literals, switch);
            }
        }
    }

    /// A sequential counter: `counted[n]` is true if more than n of the literals so far are.
    fn at_most(&mut self, most: usize, literals: Vec<Lit>, switch: Lit) {
        let mut counted: Vec<Lit> = Vec::new();
        for (before, literal) in literals.into_iter().enumerate() {
            if before >= most {
                match counted.last() {
                    Some(full) if most > 0 => self.clause([!switch, !literal, !*full]),
                    _ => self.clause([!switch, !literal]),
                }
            }
            let mut next = Vec::new();
            for number in 0..most.min(before + 1) {
                let now = new_literal(&mut self.solver);
                if let Some(already) = counted.get(number) {
                    self.clause([!*already, now]);
                }
                match number.checked_sub(1).map(|below| counted.get(below)) {
                    None => self.clause([!literal, now]),
                    Some(Some(below)) => self.clause([!literal, !*below, now]),
                    Some(None) => {}
                }
                next.push(now);
            }
            counted = next;
        }
    }

    fn clause(&mut self, clause: impl Into<Vec<Lit>>) {
        // Without switches all clauses hold, and what is added later can hold too, so that none makes the solver give up for good.
        self.solver.add_clause_reuse(&mut clause.into());
    }

    fn check(&mut self, assumptions: &[Lit]) -> Result<bool, GaveUp> {
        match self.solver.solve_limited(assumptions) {
            it if it == lbool::TRUE => {
                self.found.clear();
                self.found.extend_from_slice(self.solver.get_model());
                Ok(true)
            }
            it if it == lbool::FALSE => Ok(false),
            _ => Err(GaveUp),
        }
    }

    /// Whether all constraints can hold. If so they do from now on: the solver need not assume each of them again and again.
    pub(super) fn can_hold(&mut self) -> Result<bool, GaveUp> {
        let switches: Vec<Lit> = self.switches.values().copied().collect();
        let can_hold = self.check(&switches)?;
        if can_hold {
            switches.into_iter().for_each(|switch| self.clause([switch]));
        }
        Ok(can_hold)
    }

    /// Makes the variable true, if that can be beside all that was taken before. To be asked once constraints hold.
    pub(super) fn take(&mut self, variable: usize) -> Result<bool, GaveUp> {
        let Some(literal) = self.literals.get(&variable).copied() else { return Ok(false) };
        // What was found last holds beside all that was taken since: where it is true there, it can be.
        let was_true = self.found.get(literal.var().idx() as usize) == Some(&lbool::TRUE);
        let can_be = was_true || self.check(&[literal])?;
        self.clause([if can_be { literal } else { !literal }]);
        Ok(can_be)
    }

    /// Constraints that cannot hold together, after the solver has said that all cannot. One after the other is left out, and stays
    /// so if the rest cannot hold either. Where conflicts run out it may have more than it needs.
    pub(super) fn minimal_core(&mut self) -> BTreeSet<Place> {
        let mut core: Vec<(Place, Lit)> = self.switches.iter().map(|(place, switch)| (*place, *switch)).collect();
        let mut needed = self.in_core(&mut core, 0);
        while needed < core.len() {
            let left_out = core.len() - needed - 1;
            let without = core.iter().enumerate().filter(|(at, _)| *at != left_out).map(|(_, (_, switch))| *switch);
            let without: Vec<Lit> = without.collect();
            match self.check(&without) {
                Ok(true) => needed += 1,
                Ok(false) => {
                    core.remove(left_out);
                    needed = self.in_core(&mut core, needed);
                }
                Err(GaveUp) => break,
            }
        }
        core.into_iter().map(|(place, _)| place).collect()
    }

    /// Keeps what the solver has needed last. Of the last `needed` of them all are; says how many of them stand at the end.
    fn in_core(&self, core: &mut Vec<(Place, Lit)>, needed: usize) -> usize {
        core.retain(|(_, switch)| self.solver.unsat_core_contains_var(switch.var()));
        needed.min(core.len())
    }
}

/// Of a variable that the solver need not choose: where it is not forced to be true it can be false.
fn new_literal(solver: &mut Solver<Countdown>) -> Lit {
    Lit::new(solver.new_var(lbool::UNDEF, false), true)
}

/// The first candidates of all dependencies: they are what is taken most often.
fn preferred(problem: &[Vec<Constraint>], variables: &[usize]) -> BTreeSet<usize> {
    let constraints = variables.iter().filter_map(|variable| problem.get(*variable)).flatten();
    let first = |constraint: &Constraint| match constraint {
        Constraint::Dependency(candidates) => candidates.first().copied(),
        _ => None,
    };
    constraints.filter_map(first).collect()
}
