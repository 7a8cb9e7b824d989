//! Answers of random problems against all assignments there are.

use super::*;
use proptest::prelude::*;

/// A constraint as sets of bits: of its variable, and of those that it names.
type Bits<'a> = (Place, u32, &'a Constraint, u32);

fn bits(problem: &[Vec<Constraint>]) -> Vec<Bits<'_>> {
    let all =
        problem.iter().enumerate().flat_map(|(variable, all)| all.iter().enumerate().map(move |it| (variable, it)));
    let named = |constraint: &Constraint| constraint.variables().iter().fold(0_u32, |all, it| all | 1 << it);
    all.map(|(variable, (constraint, it))| (Place { variable, constraint }, 1_u32 << variable, it, named(it))).collect()
}

/// Whether a constraint holds where exactly the bits of `model` are true.
fn holds(model: u32, (_, own, constraint, named): &Bits<'_>) -> bool {
    match constraint {
        Mandatory => model & own != 0,
        Prohibited => model & own == 0,
        Dependency(_) => model & own == 0 || model & named != 0,
        Conflict(_) => model & own == 0 || model & named == 0,
        AtMost(most, _) => (model & named).count_ones() as usize <= *most,
    }
}

fn possible(problem: &[Vec<Constraint>], counts: impl Fn(&Place) -> bool) -> bool {
    let counting: Vec<Bits<'_>> = bits(problem).into_iter().filter(|it| counts(&it.0)).collect();
    (0..1 << problem.len()).any(|model| counting.iter().all(|it| holds(model, it)))
}

/// The search as it is described, with all assignments at hand.
fn by_hand(problem: &[Vec<Constraint>]) -> Option<u32> {
    let all = bits(problem);
    let models: Vec<u32> = (0..1 << problem.len()).filter(|model| all.iter().all(|it| holds(*model, it))).collect();
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
    (1..13_usize).prop_flat_map(|count| {
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

/// The same with its variables in another order, by which place each has then.
fn moved(problem: &[Vec<Constraint>], places: &[usize]) -> Problem {
    let each = |list: &[usize]| list.iter().map(|it| places[*it]).collect();
    let mut moved = vec![Vec::new(); problem.len()];
    for (variable, constraints) in problem.iter().enumerate() {
        let constraint = |it: &Constraint| match it {
            Mandatory => Mandatory,
            Prohibited => Prohibited,
            Dependency(list) => Dependency(each(list)),
            Conflict(other) => Conflict(places[*other]),
            AtMost(most, list) => AtMost(*most, each(list)),
        };
        moved[places[variable]] = constraints.iter().map(constraint).collect();
    }
    moved
}

fn shuffled() -> impl Strategy<Value = (Problem, Vec<usize>)> {
    problems().prop_flat_map(|problem| {
        let places: Vec<usize> = (0..problem.len()).collect();
        (Just(problem), Just(places).prop_shuffle())
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(2_000), ..ProptestConfig::default() })]

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
                    prop_assert!(!possible(&problem, |place| core.contains(place)), "{:?} can hold", core);
                    for left_out in &core {
                        let without = |place: &Place| core.contains(place) && place != left_out;
                        prop_assert!(possible(&problem, without), "{:?} is not needed in {:?}", left_out, core);
                    }
                }
                prop_assert!(!core.is_empty());
            }
            (found, expected) => prop_assert!(false, "{:?} instead of {:?}", found, expected),
        }
    }

    /// Only the order of what must be true counts, as the order of choices.
    #[test]
    fn verdict_does_not_depend_on_the_order_of_variables((problem, places) in shuffled()) {
        let other = moved(&problem, &places);
        prop_assert_eq!(answer(&problem).is_ok(), answer(&other).is_ok());
        let mandatory = |problem: &Problem| (0..problem.len()).filter(|at| problem[*at].contains(&Mandatory)).count();
        if mandatory(&problem) < 2 && let (Ok(one), Ok(two)) = (answer(&problem), answer(&other)) {
            prop_assert_eq!(one.iter().map(|it| places[*it]).collect::<BTreeSet<_>>(), two);
        }
    }
}
