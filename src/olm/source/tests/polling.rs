//! An image is asked for when it is due, with one request, and is read when it is another one.

use super::*;

#[test]
fn poll_is_due_an_interval_after_the_last_one_or_after_the_creation() {
    let mut world = World::polled("a/b:1", "10m");
    world.load(1, "a");
    // Another process has loaded it, so that this one has not asked.
    world.restart();
    world.object.status.as_mut().unwrap().latest_image_registry_poll = None;
    let next = world.load(2, "a").next.unwrap();
    assert!(next >= at(600) && next <= at(750), "{next}: of the creation");
    world.object.status.as_mut().unwrap().latest_image_registry_poll = time(500);
    let next = world.step(501).next.unwrap();
    assert!(next >= at(1100) && next <= at(1250), "{next}");
    assert_eq!(world.decide(1099).work, None);
    let decision = world.decide(1250);
    assert_eq!((decision.work, decision.serve), (ask("a/b:1"), Serve::Content));
}

#[test]
fn polls_of_several_catalogs_are_spread_and_each_is_due_at_one_time() {
    let due = |uid: &str| {
        let mut world = World::polled("a/b:1", "10m");
        world.object.metadata.uid = Some(uid.to_owned());
        world.load(1, "a");
        assert_eq!(world.decide(2).next, world.decide(300).next, "however often it is decided");
        world.decide(2).next
    };
    let times: std::collections::BTreeSet<_> = (0..20).map(|number| due(&format!("uid-{number}"))).collect();
    assert!(times.len() > 15, "{times:?}");
}

#[test]
fn unchanged_image_is_one_request_and_one_write_of_the_time() {
    let mut world = World::polled("a/b:1", "10m");
    world.load(1, "a");
    let before = world.status();
    for poll in 1..=10 {
        let seconds = poll * 1000;
        let decision = world.step(seconds);
        assert_eq!((decision.work, decision.status.is_some()), (ask("a/b:1"), false));
        let decision = world.load(seconds, "a");
        let expected = CatalogSourceStatus { latest_image_registry_poll: time(seconds), ..before.clone() };
        assert_eq!(decision.status, Some(expected));
        let decision = world.step(seconds + 1);
        assert_eq!((decision.work, decision.status), (None, None));
    }
}

#[test]
fn changed_image_is_read_beside_the_old_one_and_takes_its_place() {
    let mut world = World::polled("a/b:1", "10m");
    world.load(1, "a");
    let decision = world.load(1000, "b");
    assert_eq!((decision.work, decision.serve), (pull("a/b:1", Some(digest("b"))), Serve::Content));
    assert_eq!(world.words(condition::CONTENT_LOADED).unwrap().2, format!("a/b:1@{}", digest("a")));
    assert_eq!(world.state(), Some(Connection::Ready));
    world.load(1002, "");
    assert_eq!(world.serves().unwrap(), format!("a/b:1@{}", digest("b")));
    assert_eq!(world.words(condition::CONTENT_LOADED).unwrap().2, format!("a/b:1@{}", digest("b")));
    let connection = world.status().connection_state.unwrap();
    assert_eq!((connection.last_observed_state, connection.last_connect), (Connection::Ready, time(1)));
}

#[test]
fn sick_content_is_not_read_twice_and_the_old_one_serves_until_the_image_is_another_one() {
    let mut world = World::polled("a/b:1", "10m");
    world.load(1, "a");
    world.load(1000, "b");
    let decision = world.refuse(1002, "b", "configs/x.json, line 7: there are two heads");
    assert_eq!((decision.work, decision.serve), (None, Serve::Content));
    let old = format!("a/b:1@{}", digest("a"));
    let message = format!(
        "configs/x.json, line 7: there are two heads; since 2026-03-01T12:16:42Z, and {old} is served meanwhile"
    );
    assert_eq!(world.said(), (reason::REGISTRY_SERVER.to_owned(), message.clone()));
    assert_eq!(world.words(condition::CONTENT_LOADED), words("True", "Loaded", &old));
    assert_eq!(health::stale_since(&world.object), Some(at(1002)), "whoever lists its packages may say so");
    assert!(decision.next.unwrap() >= at(1600), "what serves is good, so the next poll is early enough");
    assert_eq!(world.load(2000, "b").work, None, "it is still the sick one");
    assert_eq!(world.said().1, message);
    assert_eq!(world.load(3000, "c").work, pull("a/b:1", Some(digest("c"))));
    world.load(3001, "");
    assert_eq!((world.said(), health::stale_since(&world.object)), Default::default());
}

#[test]
fn registry_that_is_away_leaves_the_catalog_healthy_and_is_asked_less_and_less_often() {
    let mut world = World::polled("a/b:1", "1m");
    world.load(1, "a");
    let (mut now, mut pauses) = (100, Vec::new());
    for _ in 0..8 {
        let decision = world.fail(now, "registry a: no route to host");
        assert_eq!((decision.work, decision.serve), (None, Serve::Content));
        let next = decision.next.unwrap();
        pauses.push((next.as_second() - at(now).as_second(), next));
        now += pauses.last().unwrap().0 + 1;
    }
    for ((pause, _), base) in pauses.iter().zip([10, 20, 40, 80, 160, 300, 300, 300]) {
        assert!((base..=base * 5 / 4).contains(pause), "{pauses:?}");
    }
    let (reason, message) = world.said();
    assert_eq!(reason, reason::REGISTRY_SERVER);
    assert!(message.starts_with("registry a: no route to host; since 2026-03-01T12:01:40Z, and a/b:1@"), "{message}");
    assert_eq!(world.state(), Some(Connection::Ready));
    assert_eq!(world.status().latest_image_registry_poll, time(1), "it was asked in vain");
    world.load(now, "a");
    assert_eq!(world.said(), Default::default());
}

#[test]
fn failures_do_not_change_the_status_each_time() {
    let mut world = World::image("a/b:1");
    world.fail(1, "no route");
    let before = world.status();
    for seconds in [100, 500, 1000] {
        world.fail(seconds, "no route");
        assert_eq!(world.status(), before);
    }
}

#[test]
fn what_could_not_be_read_is_asked_for_anew() {
    let mut world = World::polled("a/b:1", "10m");
    world.load(1, "a");
    world.load(1000, "b");
    let decision = world.fail(1001, "manifest not found");
    assert_eq!(decision.work, None);
    assert_eq!(world.decide(1020).work, pull("a/b:1", None), "the tag may have moved on");
    world.load(1020, "c");
    assert_eq!(world.serves().unwrap(), format!("a/b:1@{}", digest("c")));
    assert_eq!(world.status().latest_image_registry_poll, time(1020));
}

#[test]
fn image_that_cannot_be_read_is_tried_again_and_another_one_at_once() {
    let mut world = World::image("a/b:1");
    let decision = world.fail(1, "image a/b:1: not found");
    assert_eq!((decision.work, decision.serve), (None, Serve::Nothing));
    assert_eq!(world.state(), Some(Connection::TransientFailure));
    assert_eq!(world.words(condition::CONTENT_LOADED).unwrap().1, "Failed");
    assert_eq!(world.decide(2).work, None);
    world.object.spec.image = "a/b:2".to_owned();
    assert_eq!(world.step(2).work, pull("a/b:2", None));
    assert_eq!((world.state(), world.said()), (Some(Connection::Connecting), Default::default()));
    world.object.spec.image = "a/b:1".to_owned();
    world.held.try_again();
    assert_eq!(world.decide(3).work, pull("a/b:1", None), "a password may have changed");
}

#[test]
fn sick_image_without_polls_is_asked_for_until_it_is_another_one() {
    let mut world = World::image("a/b:1");
    let decision = world.refuse(1, "a", "it has no catalog");
    assert_eq!(decision.work, None);
    let next = decision.next.unwrap().as_second() - at(0).as_second();
    assert!((11..=14).contains(&next), "{next}");
    assert_eq!(world.step(20).work, ask("a/b:1"));
    world.load(20, "a");
    assert_eq!(world.step(21).work, None);
    let next = world.decide(21).next.unwrap().as_second() - at(0).as_second();
    assert!((40..=45).contains(&next), "{next}: later and later");
    assert!(world.said().1.starts_with("it has no catalog"), "{:?}", world.said());
    world.load(100, "b");
    assert_eq!(world.step(101).work, pull("a/b:1", Some(digest("b"))));
}

#[test]
fn registry_that_is_away_does_not_hide_that_the_content_is_sick() {
    let mut world = World::image("a/b:1");
    world.refuse(1, "a", "it has no catalog");
    world.fail(20, "no route");
    assert!(world.said().1.starts_with("no route"), "{:?}", world.said());
    world.load(100, "a");
    assert!(world.said().1.starts_with("it has no catalog"), "{:?}", world.said());
    assert_eq!(world.step(101).work, None, "it is not read again");
}

#[test]
fn image_with_a_digest_is_never_asked_for_again() {
    let image = format!("a/b@{}", digest("a"));
    let mut world = World::polled(&image, "1m");
    assert_eq!(world.step(1).work, pull(&image, None));
    let decision = world.load(1, "");
    assert_eq!((decision.work, decision.next), (None, None));
    assert_eq!(world.words(condition::CONTENT_LOADED), words("True", "Loaded", &image));
    world.restart();
    assert_eq!(world.decide(2).work, pull(&image, None));
    let mut sick = World::polled(&image, "1m");
    let decision = sick.refuse(1, "", "it has no catalog");
    assert_eq!((decision.work, decision.next), (None, None));
}

#[test]
fn image_that_loses_its_digest_is_asked_for() {
    let mut world = World::image(&format!("a/b:1@{}", digest("a")));
    world.load(1, "");
    world.object.spec.image = "a/b:1".to_owned();
    assert_eq!(world.step(2).work, pull("a/b:1", None));
    world.load(2, "b");
    assert_eq!(world.serves().unwrap(), format!("a/b:1@{}", digest("b")));
}

#[test]
fn image_without_polls_is_read_once() {
    let mut world = World::image("a/b:1");
    let decision = world.load(1, "a");
    assert_eq!((decision.work, decision.next), (None, None));
    assert_eq!(world.decide(1_000_000).work, None);
    assert_eq!(world.status().latest_image_registry_poll, None);
}

#[test]
fn interval_shorter_than_a_second_counts_as_one() {
    let mut world = World::polled("a/b:1", "1ns");
    let next = world.load(5, "a").next.unwrap();
    assert!(next >= at(6), "{next}");
}

/// Nobody waits for the whole interval because a process has ended in between.
#[test]
fn poll_is_told_once_its_content_is_served_or_was_tried_in_vain() {
    let mut world = World::polled("a/b:1", "10m");
    world.load(1, "a");
    assert_eq!(world.load(1000, "b").status, None);
    let mut other = world.clone();
    other.restart();
    other.load(1001, "a");
    assert_eq!(other.step(1002).work, ask("a/b:1"), "the one before has not read it");
    world.load(1003, "");
    assert_eq!(world.status().latest_image_registry_poll, time(1000));
    world.load(2000, "c");
    world.fail(2001, "no route");
    assert_eq!(world.status().latest_image_registry_poll, time(2000));
}

#[test]
fn time_of_a_poll_that_is_still_to_come_does_not_count() {
    let mut world = World::polled("a/b:1", "10m");
    world.load(1, "a");
    world.object.status.as_mut().unwrap().latest_image_registry_poll = time(1_000_000_000);
    world.restart();
    world.load(5000, "a");
    assert_eq!(world.decide(5001).work, ask("a/b:1"), "a clock was wrong");
    world.load(5001, "a");
    assert_eq!(world.status().latest_image_registry_poll, time(5001));
    // And now that of this process was.
    let next = world.decide(900).next;
    assert!(next.is_none_or(|next| next <= at(1650)), "{next:?}");
}

#[test]
fn config_maps_and_servers_are_not_polled() {
    let update_strategy = World::polled("a/b:1", "1m").object.spec.update_strategy;
    let mut of_map = World::config_map();
    of_map.object.spec.update_strategy = update_strategy.clone();
    of_map.load(1, "");
    let decision = of_map.step(100_000);
    assert_eq!((decision.work, decision.next, decision.status), (None, None, None));
    let mut of_server = World::address("a:50051");
    of_server.object.spec.update_strategy = update_strategy;
    let decision = of_server.step(100_000);
    assert_eq!((decision.work, decision.next), (None, None));
    assert_eq!(of_server.status().latest_image_registry_poll, None);
}
