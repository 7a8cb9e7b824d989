use super::*;
use Constraint::{AtMost, Conflict, Dependency, Mandatory, Prohibited};

mod brute;
mod vectors;

/// How many random cases are tried: as many as `PROPTEST_CASES` says, or `few`.
pub(in crate::olm) fn cases(few: u32) -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(few)
}

fn limits() -> Limits {
    Limits::default()
}

/// What is true, or the constraints that cannot hold together.
fn answer(problem: &[Vec<Constraint>]) -> Result<BTreeSet<usize>, BTreeSet<Place>> {
    let (mut chosen, mut impossible) = (BTreeSet::new(), BTreeSet::new());
    for part in solve(problem, &limits()) {
        match part.outcome {
            Outcome::Chosen(some) => chosen.extend(some),
            Outcome::Impossible(some) => impossible.extend(some),
            Outcome::GaveUp => panic!("gave up"),
        }
    }
    if impossible.is_empty() { Ok(chosen) } else { Err(impossible) }
}

/// `pigeons` each want one of the holes, of which each takes one.
fn pigeonhole(pigeons: usize, holes: usize) -> Problem {
    let hole = |pigeon: usize, hole: usize| pigeons + pigeon * holes + hole;
    let mut problem: Problem =
        (0..pigeons).map(|p| vec![Mandatory, Dependency((0..holes).map(|h| hole(p, h)).collect())]).collect();
    problem.resize(pigeons + pigeons * holes, Vec::new());
    for h in 0..holes {
        problem.push(vec![Mandatory, AtMost(1, (0..pigeons).map(|p| hole(p, h)).collect())]);
    }
    problem
}

#[test]
fn parts_that_share_nothing_are_solved_apart() {
    let problem = vec![
        vec![Mandatory, Dependency(vec![1])],
        vec![],
        vec![Mandatory, Prohibited],
        vec![],
        vec![Mandatory, Conflict(5)],
        vec![],
    ];
    let parts = solve(&problem, &limits());
    let outcomes: Vec<_> = parts.iter().map(|part| (part.variables.as_slice(), &part.outcome)).collect();
    let places = [0, 1].map(|constraint| Place { variable: 2, constraint });
    assert_eq!(
        outcomes,
        [
            (&[0, 1][..], &Outcome::Chosen([0, 1].into())),
            (&[2], &Outcome::Impossible(places.into())),
            (&[4, 5], &Outcome::Chosen([4].into())),
        ]
    );
}

#[test]
fn search_ends_at_the_limit_of_conflicts_and_when_it_is_cancelled() {
    let problem = pigeonhole(12, 11);
    let few = Limits { conflicts: 1_000, ..Limits::default() };
    assert_eq!(solve(&problem, &few)[0].outcome, Outcome::GaveUp);
    let cancelled = Limits { cancelled: std::sync::Arc::new(true.into()), ..Limits::default() };
    assert_eq!(solve(&problem, &cancelled)[0].outcome, Outcome::GaveUp);
    let enough = solve(&pigeonhole(5, 4), &limits());
    assert!(matches!(&enough[0].outcome, Outcome::Impossible(_)), "{enough:?}");
    assert_eq!(answer(&pigeonhole(4, 4)).unwrap().len(), 4 + 4 + 4);
}

#[test]
fn variables_that_do_not_exist_are_false() {
    assert_eq!(answer(&[vec![Mandatory, Conflict(7), AtMost(0, vec![9])]]), Ok([0].into()));
    let expected = [0, 1].map(|constraint| Place { variable: 0, constraint });
    assert_eq!(answer(&[vec![Mandatory, Dependency(vec![7])]]), Err(expected.into()));
}

#[test]
fn as_many_are_true_as_may_be() {
    for most in 0..5 {
        let wanted = |variable: usize| if variable < most { vec![Mandatory] } else { vec![] };
        let mut problem: Problem = (0..5).map(wanted).collect();
        problem.push(vec![Mandatory, AtMost(most, vec![0, 1, 2, 3, 4, 4, 0])]);
        assert_eq!(answer(&problem), Ok((0..most).chain([5]).collect()), "{most}");
        problem[4] = vec![Mandatory];
        assert_eq!(answer(&problem).is_err(), most < 5 && most != 5, "{most}");
    }
}
