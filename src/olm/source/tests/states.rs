//! States of connections, and what a process finds that begins anew.

use super::*;

fn channel(state: Connection, seconds: i64, error: Option<&str>) -> Option<Channel> {
    let error = error.map(str::to_owned);
    Some(Channel { address: "a:50051".to_owned(), state, since: at(seconds), error })
}

fn reading(seconds: i64) -> Option<Work> {
    Some(Work::ReadServer { address: "a:50051".to_owned(), connected: at(seconds) })
}

fn of_server(name: &str) -> String {
    format!("server a:50051@{}", digest(name))
}

#[test]
fn state_of_the_connection_to_an_address_is_copied_with_its_time() {
    let mut world = World::address("a:50051");
    let decision = world.step(1);
    assert_eq!((decision.dial.as_deref(), decision.work, decision.serve), (Some("a:50051"), None, Serve::Nothing));
    assert_eq!(world.state(), Some(Connection::Connecting));
    assert_eq!(world.words(condition::CONTENT_LOADED), words("False", "Loading", "server a:50051"));
    for (state, seconds) in [
        (Connection::Idle, 2),
        (Connection::Connecting, 3),
        (Connection::Ready, 4),
        (Connection::TransientFailure, 5),
        (Connection::Shutdown, 6),
    ] {
        world.channel = channel(state.clone(), seconds, None);
        match state == Connection::Ready {
            true => world.load(seconds + 10, "a"),
            false => world.step(seconds + 10),
        };
        let expected =
            ConnectionState { address: "a:50051".to_owned(), last_observed_state: state, last_connect: time(seconds) };
        assert_eq!(world.status().connection_state, Some(expected));
    }
    let service = RegistryService { protocol: "grpc".to_owned(), created_at: time(1), ..RegistryService::default() };
    assert_eq!(world.status().registry_service, Some(service), "there is no Service of ours");
    assert_eq!(world.words(condition::CONTENT_LOADED), words("True", "Loaded", &of_server("a")));
}

#[test]
fn server_that_does_not_answer_is_said() {
    let mut world = World::address("a:50051");
    world.channel = channel(Connection::TransientFailure, 5, Some("connection refused"));
    world.step(6);
    let message = "the server at a:50051 does not answer: connection refused; since 2026-03-01T12:00:05Z";
    assert_eq!(world.said(), (reason::REGISTRY_SERVER.to_owned(), message.to_owned()));
    world.channel = channel(Connection::Ready, 9, None);
    world.step(10);
    assert_eq!(world.said(), Default::default());
}

#[test]
fn server_is_ready_once_its_catalog_is_read_and_what_hinders_that_is_said() {
    let mut world = World::address("a:50051");
    world.channel = channel(Connection::Ready, 4, None);
    assert_eq!(world.step(5).work, reading(4));
    assert_eq!(world.state(), Some(Connection::Connecting));
    let decision = world.fail(6, "it sends nothing");
    assert_eq!(world.state(), Some(Connection::TransientFailure));
    assert_eq!(world.said().1, "it sends nothing; since 2026-03-01T12:00:06Z");
    assert!(decision.work.is_none() && decision.next.is_some_and(|next| next >= at(16)), "{decision:?}");
    let decision = world.load(20, "a");
    assert_eq!((decision.work, decision.serve), (None, Serve::Content));
    assert_eq!((world.state(), world.said()), (Some(Connection::Ready), Default::default()));
}

#[test]
fn what_a_server_told_is_served_while_it_is_away_and_since_when_is_said() {
    let mut world = World::address("a:50051");
    world.channel = channel(Connection::Ready, 4, None);
    world.load(5, "a");
    world.channel = channel(Connection::TransientFailure, 50, Some("connection refused"));
    let decision = world.step(51);
    assert_eq!((decision.work, decision.serve), (None, Serve::Content));
    assert_eq!(world.state(), Some(Connection::TransientFailure));
    let message = format!(
        "the server at a:50051 does not answer: connection refused; since 2026-03-01T12:00:50Z, and {} is served meanwhile",
        of_server("a")
    );
    assert_eq!(world.said(), (reason::REGISTRY_SERVER.to_owned(), message));
    assert_eq!(health::stale_since(&world.object), Some(at(50)));
    assert!(health::health(&world.object).is_err());
    // It is back, perhaps with another catalog.
    world.channel = channel(Connection::Ready, 70, None);
    let decision = world.step(71);
    assert_eq!((decision.work, decision.serve), (reading(70), Serve::Content));
    assert_eq!((world.state(), world.said()), (Some(Connection::Ready), Default::default()));
    world.load(72, "b");
    assert_eq!(world.serves(), Some(of_server("b")));
    assert_eq!(health::stale_since(&world.object), None);
}

#[test]
fn sick_content_of_a_server_is_not_served_and_not_read_again_before_it_connects_anew() {
    let mut world = World::address("a:50051");
    world.channel = channel(Connection::Ready, 4, None);
    world.load(5, "a");
    world.channel = channel(Connection::Ready, 6, None);
    let decision = world.refuse(7, "b", "it has no package");
    assert_eq!((decision.work, decision.next, decision.serve), (None, None, Serve::Content));
    assert_eq!(world.serves(), Some(of_server("a")));
    assert!(world.said().1.starts_with("it has no package; since 2026-03-01T12:00:07Z, and server a:50051@"));
    world.channel = channel(Connection::Ready, 1000, None);
    assert_eq!(world.decide(1001).work, reading(1000));
}

#[test]
fn process_that_begins_anew_serves_what_a_server_told_from_its_disk() {
    let mut world = World::address("a:50051");
    world.channel = channel(Connection::Ready, 4, None);
    world.load(5, "a");
    world.restart();
    world.channel = None;
    let decision = world.decide(100);
    let taking = Work::TakeKept { address: "a:50051".to_owned(), digest: digest("a") };
    assert_eq!((decision.work, decision.status), (Some(taking.clone()), None));
    let mut follower = World { leading: false, ..world.clone() };
    assert_eq!(follower.decide(100).work, Some(taking));
    for world in [&mut world.clone(), &mut follower] {
        world.channel = channel(Connection::TransientFailure, 101, Some("refused"));
        assert_eq!(world.load(102, "").serve, Serve::Content);
    }
    // Another disk has nothing, which is no fault, and the server is asked.
    world.fail(102, "it is not on this disk");
    assert_eq!(world.said(), Default::default());
    let loading = words("False", "Loading", "server a:50051");
    assert_eq!(world.words(condition::CONTENT_LOADED), loading, "nobody can read it any more");
    assert_eq!(world.decide(103).work, None);
    world.channel = channel(Connection::Ready, 104, None);
    assert_eq!(world.load(105, "a").serve, Serve::Content);
}

#[test]
fn other_address_is_dialled_and_the_connection_to_the_old_one_does_not_count() {
    let mut world = World::address("a:50051");
    world.channel = channel(Connection::Ready, 4, None);
    world.load(5, "a");
    world.object.spec.address = "b:50051".to_owned();
    let decision = world.step(6);
    assert_eq!((decision.dial.as_deref(), decision.work, decision.serve), (Some("b:50051"), None, Serve::Content));
    let connection = world.status().connection_state.unwrap();
    assert_eq!((connection.address.as_str(), connection.last_observed_state), ("b:50051", Connection::Connecting));
}

#[test]
fn content_is_served_until_that_of_the_address_which_takes_its_place_is_read() {
    let mut world = World::image("a/b:1");
    world.load(1, "a");
    world.object.spec = World::address("a:50051").object.spec;
    world.channel = channel(Connection::Connecting, 2, None);
    let decision = world.step(3);
    assert_eq!((decision.serve, decision.dial.as_deref()), (Serve::Content, Some("a:50051")));
    assert_eq!(world.state(), Some(Connection::Ready));
    assert!(world.words(condition::CONTENT_LOADED).is_some());
    world.channel = channel(Connection::Ready, 4, None);
    assert_eq!(world.load(5, "b").serve, Serve::Content);
    assert_eq!(world.words(condition::CONTENT_LOADED), words("True", "Loaded", &of_server("b")));
    assert_eq!(world.step(6).status, None);
    // And back.
    world.object.spec = World::image("a/b:1").object.spec;
    world.channel = None;
    world.load(7, "a");
    assert_eq!(world.serves(), Some(format!("a/b:1@{}", digest("a"))));
}

#[test]
fn process_that_begins_anew_reads_what_was_served_and_writes_nothing() {
    for mut world in [World::polled("a/b:1", "10m"), World::image("a/b:1"), World::config_map()] {
        world.load(1, "a");
        world.restart();
        let decision = world.decide(100);
        assert_eq!(decision.status, None, "another process may serve it all the while");
        let work = decision.work.unwrap();
        assert!(!matches!(&work, Work::Pull { digest, .. } if *digest != Some(digest_of_a())), "{work:?}");
        world.load(101, "a");
        let decision = world.decide(102);
        assert_eq!((decision.work, decision.status), (None, None));
    }
}

fn digest_of_a() -> String {
    digest("a")
}

#[test]
fn process_that_begins_anew_polls_when_the_one_before_would_have() {
    let mut world = World::polled("a/b:1", "10m");
    let before = world.load(1, "a").next;
    world.restart();
    assert_eq!(world.load(100, "a").next, before);
}

#[test]
fn what_was_served_is_read_before_what_is_wanted_now() {
    let mut world = World::image("a/b:1");
    world.load(1, "a");
    world.restart();
    world.object.spec.image = "a/b:2".to_owned();
    assert_eq!(world.step(2).work, pull("a/b:1", Some(digest("a"))));
    let decision = world.load(2, "");
    assert_eq!((decision.work, decision.serve), (pull("a/b:2", None), Serve::Content));
    world.load(3, "b");
    assert_eq!(world.serves().unwrap(), format!("a/b:2@{}", digest("b")));
}

#[test]
fn what_was_served_and_cannot_be_read_does_not_hinder_what_is_wanted() {
    let mut world = World::image("a/b:1");
    world.load(1, "a");
    world.restart();
    world.object.spec.image = "a/b:2".to_owned();
    let decision = world.fail(2, "a/b:1 is gone");
    assert_eq!(decision.work, pull("a/b:2", None));
    world.fail(3, "a/b:2 is not there yet");
    assert_eq!(world.state(), Some(Connection::TransientFailure));
    let (status, reason, message) = world.words(condition::CONTENT_LOADED).unwrap();
    assert_eq!((status.as_str(), reason.as_str()), ("False", "Failed"));
    let expected = format!("a/b:1@{}: a/b:2 is not there yet", digest("a"));
    assert!(message.starts_with(&expected), "{message}");
    assert_eq!(world.decide(4).work, None);
    // Both are tried again, and the next process knows of both.
    world.restart();
    assert_eq!(world.decide(5).work, pull("a/b:1", Some(digest("a"))));
    world.load(5, "");
    assert_eq!(world.state(), Some(Connection::Ready));
}

/// Whoever goes on reads it before anything else.
#[test]
fn what_was_served_once_stays_named_while_it_is_read_again() {
    let mut world = World::image("a/b:1");
    world.load(1, "a");
    world.restart();
    world.fail(2, "it is not there");
    world.refuse(30, "b", "it has no package");
    // The image is what it was before.
    let decision = world.end(90, |_| Outcome::Asked { digest: digest("a") });
    assert_eq!(decision.work, pull("a/b:1", Some(digest("a"))));
    let message = format!("a/b:1@{}: a/b:1 is being read", digest("a"));
    assert_eq!(world.words(condition::CONTENT_LOADED), words("False", "Failed", &message));
    assert_eq!(world.step(91).status, None, "it is written once");
}

#[test]
fn what_was_served_is_read_again_though_the_spec_is_invalid_or_the_config_map_gone() {
    let mut world = World::image("a/b:1");
    world.load(1, "a");
    world.restart();
    world.object.spec.source_type = SourceType::Other("http".into());
    assert_eq!(world.step(2).work, pull("a/b:1", Some(digest("a"))));
    assert_eq!(world.load(2, "").serve, Serve::Content);
    let mut world = World::config_map();
    world.load(1, "");
    world.restart();
    world.config_map = Some(ConfigMapState { read: Read::Absent, since: at(2) });
    assert_eq!(world.step(3).work, Some(Work::ReadConfigMap { name: "catalog".into(), digest: digest("a") }));
    assert_eq!(world.state(), Some(Connection::Ready), "the other process still serves it");
    world.fail(4, "it is not on this disk");
    assert_eq!(world.state(), Some(Connection::TransientFailure));
}

#[test]
fn content_of_a_version_that_another_process_had_is_not_lost_to_an_older_one() {
    let mut world = World::image("a/b:1");
    world.leading = false;
    world.object.status = Some(CatalogSourceStatus::default());
    let mut other = World::image("a/b:1");
    other.load(1, "a");
    world.object.status = other.object.status.clone();
    world.load(2, "");
    other.held.on(&ask("a/b:1").unwrap(), Outcome::Asked { digest: digest("b") }, at(3));
    other.load(4, "");
    world.object.status = other.object.status.clone();
    // It holds the lease before it has read what the other one serves by now.
    world.leading = true;
    let decision = world.step(5);
    assert_eq!((decision.work, decision.status), (pull("a/b:1", Some(digest("b"))), None));
    world.load(6, "");
    assert_eq!(world.step(7).status, None);
}
