//! Why the answers for a world may differ. A rule holds only where both sides have the same answer once what it is about is taken
//! away, or where the search of the other side went back and its answer is shown to be a later choice, or none.

use super::*;
use std::collections::VecDeque;

pub(super) const EQUAL: &str = "equal";
/// The order of its maps decides.
pub(super) const SEVERAL: &str = "the peer has several answers to the same, and this is one of them";
pub(super) const APART: &str =
    "what has nothing to do with each other is solved apart, so that one failing Subscription does not hold all others";
pub(super) const UNREADABLE: &str =
    "a constraint that cannot be read excludes its bundle, and does not hold the namespace";
pub(super) const LATER: &str = "the peer's search went back, and leaves the choices that it had tried before to its solver; \
    what it takes is preferred less";
pub(super) const LOST: &str =
    "the peer's search went back over a Subscription, or over what is installed, which its answer then need not have";
pub(super) const LACKS: &str = "the peer's search went back, and a bundle of its answer requires what neither the answer nor anything installed is";

/// What is found here.
#[derive(Debug)]
pub(super) struct Ours {
    problem: Problem,
    /// What is true of each part with an answer, and its variables.
    parts: Vec<(Vec<usize>, BTreeSet<usize>)>,
    pub chosen: Chosen,
    /// Of each part without an answer, the Subscriptions and what is installed.
    pub failing: Vec<[BTreeSet<String>; 2]>,
}

fn place(world: &World, candidate: &Candidate) -> String {
    let catalog = &world.catalogs[candidate.catalog];
    format!("{} {} {} {}", catalog.namespace, catalog.name, candidate.channel, candidate.entry.operator.name)
}

impl Ours {
    pub(super) fn of(written: &Written) -> Ours {
        let world = written.world();
        let problem = Problem::of(&world, &Limits::default());
        let (mut parts, mut chosen, mut failing) = (Vec::new(), Chosen::new(), Vec::new());
        for part in solve::solve(&problem.constraints(), &Limits::default()) {
            match part.outcome {
                Outcome::Chosen(found) => {
                    for candidate in problem.candidates(&found) {
                        let replaced = candidate.entry.replaces.clone().unwrap_or_default();
                        chosen.insert(format!("{} {replaced}", place(&world, &candidate)));
                    }
                    parts.push((part.variables, found));
                }
                Outcome::Impossible(_) => failing.push(concerned(&world, &problem, &part.variables)),
                Outcome::GaveUp => panic!("gave up"),
            }
        }
        Ours { problem, parts, chosen, failing }
    }

    /// The rule by which the peer's choice, after its search went back, may be another one: it can be, and where it differs first, it
    /// has something less preferred; or it can be only where nothing has to be; or it cannot be at all.
    fn after_a_way_back(&self, world: &World, peers: &Chosen) -> Option<&'static str> {
        if let Some(found) = self.with(world, peers, true) {
            let orders: Vec<Option<bool>> = self.parts.iter().map(|it| self.first_difference(it, &found)).collect();
            let is_later = !orders.contains(&Some(false)) && orders.contains(&Some(true));
            return is_later.then_some(LATER);
        }
        let lost = self.with(world, peers, false).map(|_| LOST);
        lost.or_else(|| self.lacks(world, peers).then_some(LACKS))
    }

    /// Whether one of these candidates depends on something that is neither among them nor installed.
    fn lacks(&self, world: &World, candidates: &Chosen) -> bool {
        let is_chosen = |candidate: &Candidate| {
            let place = place(world, candidate) + " ";
            candidates.iter().any(|it| it.starts_with(&place))
        };
        let is_there = |at: &usize| match &self.problem.variables[*at].what {
            What::Candidate(candidate) => is_chosen(candidate),
            what => matches!(what, What::Installed(_)),
        };
        let is_met = |constraint: &solve::Constraint| match constraint {
            solve::Constraint::Dependency(options) => options.iter().any(is_there),
            _ => true,
        };
        let lacks = |it: &problem::Variable| !it.constraints.iter().all(|(constraint, _)| is_met(constraint));
        let chosen = |it: &&problem::Variable| matches!(&it.what, What::Candidate(candidate) if is_chosen(candidate));
        self.problem.variables.iter().filter(chosen).any(lacks)
    }

    /// What is true where exactly these candidates are. `roots`: together with what has to be true; else that may be false.
    fn with(&self, world: &World, candidates: &Chosen, roots: bool) -> Option<BTreeSet<usize>> {
        let mut fixed = self.problem.constraints();
        let mut missing = candidates.len();
        for (variable, constraints) in self.problem.variables.iter().zip(&mut fixed) {
            constraints.retain(|it| roots || *it != solve::Constraint::Mandatory);
            let What::Candidate(candidate) = &variable.what else { continue };
            let place = place(world, candidate) + " ";
            let is_chosen = candidates.iter().any(|it| it.starts_with(&place));
            missing -= usize::from(is_chosen);
            constraints.push(if is_chosen { solve::Constraint::Mandatory } else { solve::Constraint::Prohibited });
        }
        let mut found = BTreeSet::new();
        for part in solve::solve(&fixed, &Limits::default()) {
            let Outcome::Chosen(some) = part.outcome else { return None };
            found.extend(some);
        }
        (missing == 0).then_some(found)
    }

    /// In the order of choices: whether what is chosen here comes before what is chosen there; `None` where both are the same.
    fn first_difference(
        &self,
        (variables, ours): &(Vec<usize>, BTreeSet<usize>),
        peers: &BTreeSet<usize>,
    ) -> Option<bool> {
        let constraints = self.problem.constraints();
        let is_mandatory = |it: &&usize| constraints[**it].contains(&solve::Constraint::Mandatory);
        let mut choices: VecDeque<Vec<usize>> = variables.iter().filter(is_mandatory).map(|it| vec![*it]).collect();
        let mut agreed = BTreeSet::new();
        while let Some(candidates) = choices.pop_front() {
            if candidates.iter().any(|it| agreed.contains(it)) {
                continue;
            }
            let [our, their] = [ours, peers].map(|all| candidates.iter().position(|it| all.contains(it)));
            if our != their {
                return Some(our < their);
            }
            let taken = candidates[our?];
            agreed.insert(taken);
            choices.extend(constraints[taken].iter().filter_map(|it| match it {
                solve::Constraint::Dependency(candidates) => Some(candidates.clone()),
                _ => None,
            }));
        }
        None
    }
}

fn concerned(world: &World, problem: &Problem, variables: &[usize]) -> [BTreeSet<String>; 2] {
    let (mut subscriptions, mut installed) = (BTreeSet::new(), BTreeSet::new());
    for variable in variables {
        match &problem.variables[*variable].what {
            What::Subscription(at) => _ = subscriptions.insert(world.subscriptions[*at].name.clone()),
            What::Installed(operator) => _ = installed.insert(operator.name.clone()),
            _ => {}
        }
    }
    [subscriptions, installed]
}

/// The rules by which the answers for a world differ, or that they are equal; else how they differ.
pub(super) fn compare(world: &Written, peer: &mut Peer) -> Result<Vec<&'static str>, String> {
    let ours = Ours::of(world);
    let answers = peer.answers(world, Some(&ours.chosen).filter(|_| ours.failing.is_empty()));
    let unlike = |why: &str| {
        let Ours { chosen, failing, .. } = &ours;
        Err(format!(
            "{why}\n  ours: {chosen:?}, failing: {failing:?}\n  peer: {answers:?}\n{}",
            generated::shown(world)
        ))
    };
    let (chosen, errors): (Vec<_>, Vec<_>) = answers.iter().partition(|it| it.chosen.is_ok());
    let unreadable = |it: &&PeerAnswer| it.chosen.as_ref().is_err_and(|error| error.contains("olm.constraint"));
    if !errors.is_empty() && errors.iter().all(unreadable) {
        let readable = worlds::readable(world);
        if Ours::of(&readable).chosen != ours.chosen {
            return unlike("what cannot be read is not the same as what nobody may install");
        }
        return Ok(compare(&readable, peer)?.into_iter().filter(|it| *it != EQUAL).chain([UNREADABLE]).collect());
    }
    if !ours.failing.is_empty() {
        if !chosen.is_empty() {
            return unlike("the peer finds an answer where there is none here");
        }
        return if ours.chosen.is_empty() { Ok(vec![EQUAL]) } else { apart(world, &ours, peer) };
    }
    let same = answers.iter().filter(|it| it.chosen.as_ref() == Ok(&ours.chosen)).count();
    if !errors.is_empty() {
        return unlike("the peer finds no answer where there is one here");
    }
    if same > 0 {
        return Ok(vec![if answers.len() == 1 { EQUAL } else { SEVERAL }]);
    }
    let read = world.world();
    let rule = |it: &PeerAnswer| ours.after_a_way_back(&read, it.chosen.as_ref().ok()?).filter(|_| it.back > 0);
    let rules: Option<BTreeSet<&str>> = answers.iter().map(rule).collect();
    rules.map_or_else(|| unlike("another choice"), |rules| Ok(rules.into_iter().collect()))
}

/// Without what fails the answers are the same, and what fails does so alone.
fn apart(world: &Written, ours: &Ours, peer: &mut Peer) -> Result<Vec<&'static str>, String> {
    let fails = |which: usize, name: &String| ours.failing.iter().any(|it| it[which].contains(name));
    let mut kept = world.clone();
    kept.subscriptions.retain(|it| !fails(0, &it.name));
    kept.installed.retain(|it| !fails(1, &it.name));
    let alone = Ours::of(&kept);
    if alone.chosen != ours.chosen || !alone.failing.is_empty() {
        return Err(format!(
            "it is another answer without what fails: {:?}\n{}",
            alone.chosen,
            generated::shown(world)
        ));
    }
    for [subscriptions, installed] in &ours.failing {
        let mut failing = world.clone();
        failing.subscriptions.retain(|it| subscriptions.contains(&it.name));
        failing.installed.retain(|it| installed.contains(&it.name));
        if peer.answers(&failing, None).iter().any(|it| it.chosen.is_ok()) {
            return Err(format!("{subscriptions:?} {installed:?} does not fail alone\n{}", generated::shown(world)));
        }
    }
    Ok(compare(&kept, peer)?.into_iter().filter(|it| *it != EQUAL).chain([APART]).collect())
}
