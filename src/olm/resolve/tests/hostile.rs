//! Worlds that are made to take long. Each ends within a number of conflicts, with an answer or without one.

use super::*;

fn few(conflicts: u64) -> Limits {
    Limits { conflicts, ..Limits::default() }
}

fn verdicts(world: &World, limits: &Limits) -> (Problem, Vec<Verdict>) {
    let resolution = resolve(world, limits);
    (resolution.problem, resolution.parts.into_iter().map(|part| part.verdict).collect())
}

/// Each of `pigeons` needs one of its own operators, of which those with the same number provide the same API, one for each hole.
fn pigeonhole(pigeons: usize, holes: usize) -> World {
    let mut text = "catalog main\n".to_owned();
    for pigeon in 0..pigeons {
        text.push_str(&format!("p{pigeon}.v1 stable wants nest{pigeon}\n"));
        for hole in 0..holes {
            text.push_str(&format!("h{pigeon}-{hole}.v1 stable label nest{pigeon} provides Hole{hole}\n"));
        }
    }
    for pigeon in 0..pigeons {
        text.push_str(&format!("sub p{pigeon}/stable\n"));
    }
    written::written(&text).world()
}

#[test]
fn pigeons_without_enough_holes_are_given_up_at_the_limit() {
    let (_, verdicts_of_twelve) = verdicts(&pigeonhole(12, 11), &few(2_000));
    assert!(matches!(verdicts_of_twelve.as_slice(), [Verdict::GaveUp]), "{verdicts_of_twelve:?}");
    let (_, enough) = verdicts(&pigeonhole(12, 12), &few(2_000));
    let [Verdict::Install(all)] = enough.as_slice() else { panic!("{enough:?}") };
    assert_eq!(all.len(), 24);
    let (problem, none) = verdicts(&pigeonhole(5, 4), &few(2_000));
    let [Verdict::Impossible(core)] = none.as_slice() else { panic!("{none:?}") };
    assert!(problem.message(core).contains("provide Hole3 (g/v1)"), "{}", problem.message(core));
}

#[test]
fn other_parts_have_their_answer_beside_one_that_is_given_up() {
    let mut world = pigeonhole(12, 11);
    world.catalogs.push(catalog("beside", 0, &[bundle("z.v1")]));
    let catalog = ("ns".to_owned(), "beside".to_owned());
    world.subscriptions.push(Subscription { catalog, ..subscription("z") });
    let (_, verdicts) = verdicts(&world, &few(2_000));
    let installed: Vec<usize> = verdicts
        .iter()
        .map(|verdict| match verdict {
            Verdict::Install(candidates) => candidates.len(),
            _ => 0,
        })
        .collect();
    assert_eq!(installed, [0, 1]);
}

#[test]
fn three_hundred_rivals_for_an_api_are_told_apart_with_little_work() {
    let bundles: Vec<Bundle> = (0..300).map(|at| bundle(&format!("p{at}.v1")).provides("K")).collect();
    let subscriptions: Vec<Subscription> = (0..300).map(|at| subscription(&format!("p{at}"))).collect();
    let (_, all) = verdicts(&world(&bundles, &[], &subscriptions), &few(1_000));
    let [Verdict::Impossible(core)] = all.as_slice() else { panic!("{all:?}") };
    assert_eq!(core.len(), 5, "two Subscriptions, what each needs, and what cannot be twice");
    // One of them is enough, and the first one is preferred.
    let user = bundle("user.v1").requires("K");
    let bundles = [&[user][..], &bundles].concat();
    let (_, one) = verdicts(&world(&bundles, &[], &[subscription("user")]), &few(1_000));
    let [Verdict::Install(chosen)] = one.as_slice() else { panic!("{one:?}") };
    assert_eq!(chosen.iter().map(|it| it.entry.operator.name.as_str()).collect::<Vec<_>>(), ["p0.v1", "user.v1"]);
}

#[test]
fn three_hundred_providers_none_of_which_can_be_are_told_within_bounds() {
    let provider = |at: usize| bundle(&format!("p{at}.v1")).provides("K").requires(&format!("Missing{at}"));
    let bundles: Vec<Bundle> = std::iter::once(bundle("user.v1").requires("K")).chain((0..300).map(provider)).collect();
    let world = world(&bundles, &[], &[subscription("user")]);
    let (problem, all) = verdicts(&world, &few(1_000));
    let [Verdict::Impossible(core)] = all.as_slice() else { panic!("{all:?}") };
    assert_eq!(core.len(), 3 + 300, "what is asked for, and why each of them is out");
    let text = explain::explain(&world, &problem, core);
    assert!(text.len() <= 32 << 10 && text.contains("p0.v1"), "{text}");
}

#[test]
fn five_hundred_rules_have_their_verdicts() {
    let rule = |at: usize| json!({"cel": {"rule": format!("properties.exists(p, p.type == 'mark{at}')")}});
    let user = (0..500).fold(bundle("user.v1"), |user, at| user.constraint(rule(at)));
    let marked = (0..499).fold(bundle("b.v1"), |it, at| it.with(&format!("mark{at}"), json!(true)));
    let whole = marked.clone().with("mark499", json!(true));
    let (problem, none) = verdicts(&world(&[user.clone(), marked], &[], &[subscription("user")]), &few(1_000));
    let [Verdict::Impossible(core)] = none.as_slice() else { panic!("{none:?}") };
    assert!(problem.message(core).contains("mark499"), "{}", problem.message(core));
    let (_, all) = verdicts(&world(&[user, whole], &[], &[subscription("user")]), &few(1_000));
    assert!(matches!(all.as_slice(), [Verdict::Install(chosen)] if chosen.len() == 2), "{all:?}");
}

#[test]
fn rule_that_loops_over_loops_matches_nothing_large() {
    let loops = |count: usize| {
        let open: String = (0..count).map(|at| format!("properties.all(p{at}, ")).collect();
        let of_many = "properties.exists(q, q.type == 'mark0')";
        json!({"cel": {"rule": format!("{of_many} && {open}true{}", ")".repeat(count))}})
    };
    let many = (0..200).fold(bundle("b.v1"), |it, at| it.with(&format!("mark{at}"), json!(at)));
    let of = |count: usize| [bundle("a.v1").constraint(loops(count)), many.clone()];
    installs(&world(&of(2), &[], &[subscription("a")]), &["a.v1", "b.v1"]);
    fails(&world(&of(4), &[], &[subscription("a")]), &["bundle a.v1 requires an operator with constraint"]);
}

#[test]
fn rules_of_more_bundles_than_there_is_time_for_exclude_who_has_them() {
    let rule = |at: usize| json!({"cel": {"rule": format!("properties.exists(p, p.type == 'mark{at}')")}});
    let user = (0..60).fold(bundle("user.v1"), |user, at| user.constraint(rule(at)));
    let marked = (0..60).fold(bundle("b.v1"), |it, at| it.with(&format!("mark{at}"), json!(true)));
    let others = (0..97).map(|at| bundle(&format!("o{at}.v1")));
    let bundles: Vec<Bundle> = [user, marked, bundle("z.v1")].into_iter().chain(others).collect();
    let world = || world(&bundles, &[], &[subscription("user"), subscription("z")]);
    let limited = |questions| Limits { questions, ..Limits::default() };
    let (problem, all) = verdicts(&world(), &limited(5_999));
    let [Verdict::Impossible(core), Verdict::Install(other)] = all.as_slice() else { panic!("{all:?}") };
    assert!(problem.message(core).contains("bundle user.v1 cannot be judged"), "{}", problem.message(core));
    assert_eq!(other.len(), 1, "the others are not held");
    let (_, all) = verdicts(&world(), &limited(6_000));
    assert!(matches!(all.as_slice(), [Verdict::Install(one), Verdict::Install(_)] if one.len() == 2), "{all:?}");
    let cancelled = Limits::default();
    cancelled.cancelled.store(true, std::sync::atomic::Ordering::Relaxed);
    assert!(verdicts(&world(), &cancelled).1.iter().all(|it| !matches!(it, Verdict::Install(all) if all.len() == 2)));
}
