//! Small problems with their answers, with a letter for each variable.

use super::*;

/// A problem as `p! D(m,n) ≤1(m,n); m; n`: variables with `!` for Mandatory, `x` for Prohibited, `D(…)`, `C(…)` and `≤k(…)`; what is
/// only named comes after those that stand for themselves.
fn problem(text: &str) -> (Vec<String>, Problem) {
    let mut names: Vec<String> = Vec::new();
    let variables: Vec<&str> = text.split(';').map(str::trim).filter(|it| !it.is_empty()).collect();
    let name_of = |variable: &str| variable.split([' ', '!']).next().unwrap().to_owned();
    names.extend(variables.iter().map(|variable| name_of(variable)));
    let mut number = |name: &str| {
        let known = names.iter().position(|it| it == name);
        known.unwrap_or_else(|| {
            names.push(name.to_owned());
            names.len() - 1
        })
    };
    let mut problem = Vec::new();
    for variable in &variables {
        let (first, rest) = variable.split_once(' ').unwrap_or((variable, ""));
        let mut constraints = Vec::from_iter(first.ends_with('!').then_some(Mandatory));
        for word in rest.split_whitespace() {
            if word == "x" {
                constraints.push(Prohibited);
                continue;
            }
            let (kind, list) = word.trim_end_matches(')').split_once('(').unwrap();
            let list: Vec<usize> = list.split(',').map(&mut number).collect();
            constraints.push(match kind {
                "D" => Dependency(list),
                "C" => Conflict(list[0]),
                most => AtMost(most.trim_start_matches('≤').parse().unwrap(), list),
            });
        }
        problem.push(constraints);
    }
    problem.resize(names.len(), Vec::new());
    (names, problem)
}

fn chosen(text: &str) -> String {
    let (names, problem) = problem(text);
    let mut chosen: Vec<&str> = answer(&problem).unwrap().into_iter().map(|it| names[it].as_str()).collect();
    chosen.sort_unstable();
    chosen.join(" ")
}

/// The constraints that cannot hold together, each as the name of its variable and its number.
fn core(text: &str) -> String {
    let (names, problem) = problem(text);
    let core = answer(&problem).unwrap_err();
    core.iter().map(|it| format!("{}.{}", names[it.variable], it.constraint)).collect::<Vec<_>>().join(" ")
}

#[test]
fn what_must_be_true_is_with_what_it_depends_on() {
    for (text, expected) in [
        ("", ""),
        ("a", ""),
        ("a!", "a"),
        ("q; p! D(q)", "p q"),
        ("r; q D(r); p! D(q)", "p q r"),
        ("q; r; p! D(q) D(r)", "p q r"),
    ] {
        assert_eq!(chosen(text), expected, "{text}");
    }
}

#[test]
fn first_candidate_that_can_be_is_chosen() {
    for (text, expected) in [
        ("q; r; p! D(q,r)", "p q"),
        ("q; r C(q); p! D(r,q)", "p r"),
        ("p! D(m,n) ≤1(m,n); q! D(n); m; n", "n p q"),
        ("p! D(n); q! D(m,n); m; n", "n p q"),
        ("p! D(n,o,k); q! D(m,n); m; n; o; k", "n p q"),
        ("p! D(m1,m2) D(n1,n2); m1; m2; n1; n2", "m1 n1 p"),
        (
            "a! D(a1,a2); b! D(b1,b2); c! D(c1,c2); a1 C(c1) C(c2); a2 C(c1); b1 C(c1) C(c2); b2 C(c1); c1; c2",
            "a a2 b b2 c c2",
        ),
    ] {
        assert_eq!(chosen(text), expected, "{text}");
    }
}

#[test]
fn first_choice_stands_although_one_variable_would_do() {
    assert_eq!(chosen("p! D(m,n); q! D(n); m; n"), "m n p q");
}

#[test]
fn what_nobody_needs_has_no_influence() {
    assert_eq!(chosen("p D(m,n); q! D(n,m); m; n"), "n q");
}

#[test]
fn constraints_that_cannot_hold_are_told() {
    for (text, expected) in [
        ("a! x", "a.0 a.1"),
        ("p!; q! C(p)", "p.0 q.0 q.1"),
        ("p! D(m,n) ≤1(m,n); m!; n!", "p.2 m.0 n.0"),
        ("p! D(q); q D(r); r x; s! D(t); t", "p.0 p.1 q.0 r.0"),
    ] {
        assert_eq!(core(text), expected, "{text}");
    }
}
