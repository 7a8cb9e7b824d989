//! Answers of random problems against all assignments there are.

use super::*;
use proptest::prelude::*;

/// Whether the constraints that `counts` hold where exactly these bits are true.
fn holds(problem: &[Vec<Constraint>], bits: u32, counts: impl Fn(Place) -> bool) -> bool {
    let is = |variable: usize| bits >> variable & 1 == 1;
    problem.iter().enumerate().all(|(variable, constraints)| {
        constraints
            .iter()
            .enumerate()
            .filter(|(constraint, _)| counts(Place { variable, constraint: *constraint }))
            .all(|(_, constraint)| match constraint {
                Mandatory => is(variable),
                Prohibited => !is(variable),
                Dependency(list) => !is(variable) || list.iter().any(|it| is(*it)),
                Conflict(other) => !(is(variable) && is(*other)),
                AtMost(most, list) => {
                    list.iter().collect::<BTreeSet<_>>().into_iter().filter(|it| is(**it)).count() <= *most
                }
            })
    })
}

fn possible(problem: &[Vec<Constraint>], counts: impl Fn(Place) -> bool) -> bool {
    (0..1 << problem.len()).any(|bits| holds(problem, bits, &counts))
}

/// The search as it is described, with all assignments at hand.
fn by_hand(problem: &[Vec<Constraint>]) -> Option<u32> {
    let models: Vec<u32> = (0..1 << problem.len()).filter(|bits| holds(problem, *bits, |_| true)).collect();
    let mut choices: VecDeque<Vec<usize>> =
        (0..problem.len()).filter(|v| problem[*v].contains(&Mandatory)).map(|v| vec![v]).collect();
    let mut chosen = 0_u32;
    models.first()?;
    while let Some(candidates) = choices.pop_front() {
        if candidates.iter().any(|it| chosen >> it & 1 == 1) {
            continue;
        }
        let fits = |it: &&usize| models.iter().any(|model| model & chosen == chosen && model >> **it & 1 == 1);
        let first = *candidates.iter().find(fits).unwrap();
        chosen |= 1 << first;
        choices.extend(problem[first].iter().filter_map(|it| match it {
            Dependency(list) => Some(list.clone()),
            _ => None,
        }));
    }
    assert!(models.contains(&chosen), "what was chosen is enough: {problem:?}");
    Some(chosen)
}

fn problems() -> impl Strategy<Value = Problem> {
    (1..9_usize).prop_flat_map(|count| {
        let list = move || prop::collection::vec(0..count, 0..4);
        let constraint = prop_oneof![
            2 => Just(Mandatory),
            1 => Just(Prohibited),
            6 => list().prop_map(Dependency),
            4 => (0..count).prop_map(Conflict),
            2 => (0..3_usize, list()).prop_map(|(most, list)| AtMost(most, list)),
        ];
        prop::collection::vec(prop::collection::vec(constraint, 0..3), count)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn answers_are_those_of_all_assignments(problem in problems()) {
        match (answer(&problem), by_hand(&problem)) {
            (Ok(chosen), Some(bits)) => prop_assert_eq!(chosen.iter().fold(0, |all, it| all | 1 << it), bits),
            (Err(core), None) => {
                let parts = solve(&problem, &limits()).into_iter().filter_map(|part| match part.outcome {
                    Outcome::Impossible(core) => Some(core),
                    _ => None,
                });
                for core in parts {
                    prop_assert!(!possible(&problem, |place| core.contains(&place)), "{:?} can hold", core);
                    for left_out in &core {
                        let without = |place| core.contains(&place) && place != *left_out;
                        prop_assert!(possible(&problem, without), "{:?} is not needed in {:?}", left_out, core);
                    }
                }
                prop_assert!(!core.is_empty());
            }
            (found, expected) => prop_assert!(false, "{:?} instead of {:?}", found, expected),
        }
    }
}
