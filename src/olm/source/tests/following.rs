//! A process without the lease serves what the holder says is served.

use super::*;

/// A process that follows one that holds the lease.
fn follower(leader: &World) -> World {
    World { leading: false, held: Held::default(), ..leader.clone() }
}

#[test]
fn follower_reads_what_the_holder_serves_and_writes_nothing() {
    let mut leader = World::polled("a/b:1", "10m");
    leader.step(1);
    let mut other = follower(&leader);
    assert_eq!(other.decide(1), Decision::default(), "nothing is served yet");
    leader.load(2, "a");
    other.object = leader.object.clone();
    assert_eq!(other.decide(3).work, pull("a/b:1", Some(digest("a"))));
    let decision = other.load(3, "");
    assert_eq!((decision.status, decision.work, decision.serve), (None, None, Serve::Content));
    assert_eq!(other.serves(), leader.serves());
    assert_eq!(other.decide(100_000).work, None, "the holder polls");
    leader.load(1000, "b");
    leader.load(1001, "");
    other.object = leader.object.clone();
    assert_eq!(other.decide(1002).work, pull("a/b:1", Some(digest("b"))));
    other.load(1003, "");
    assert_eq!(other.serves(), leader.serves());
}

#[test]
fn follower_keeps_what_it_serves_whatever_the_holder_says() {
    let mut leader = World::config_map();
    leader.load(1, "");
    let mut other = follower(&leader);
    assert!(matches!(other.load(2, "").serve, Serve::Content));
    other.object.status = None;
    assert_eq!(other.decide(3), Decision { serve: Serve::Content, ..Decision::default() });
}

#[test]
fn follower_tries_again_later_and_later() {
    let mut leader = World::image("a/b:1");
    leader.load(1, "a");
    let mut other = follower(&leader);
    let decision = other.fail(2, "no route");
    let next = decision.next.unwrap();
    assert!(next >= at(12) && next <= at(15), "{next}");
    let decision = other.fail(15, "no route");
    assert!(decision.next.unwrap() >= at(35));
    assert_eq!(other.decide(100).work, pull("a/b:1", Some(digest("a"))));
    let decision = other.refuse(100, "a", "it has another form");
    assert_eq!((decision.work, decision.next), (None, None), "it would be the same the next time");
}

#[test]
fn follower_is_connected_to_the_address_as_well() {
    let leader = World::address("a:1");
    let mut other = follower(&leader);
    let decision = other.decide(1);
    assert_eq!((decision.dial.as_deref(), decision.serve, decision.status), (Some("a:1"), Serve::Nothing, None));
    let connected = at(2);
    let channel = Channel { address: "a:1".to_owned(), state: Connection::Ready, since: connected, error: None };
    other.channel = Some(channel);
    assert_eq!(other.decide(3).work, Some(Work::ReadServer { address: "a:1".to_owned(), connected }));
    let decision = other.fail(3, "it is slow");
    assert_eq!((decision.work, decision.next.is_some_and(|next| next >= at(13))), (None, true));
    assert_eq!(other.load(20, "a").serve, Serve::Content);
    // The holder may have read another content of the server that is being replaced.
    let mut leader = leader;
    leader.channel = other.channel.clone();
    leader.load(21, "b");
    other.object = leader.object.clone();
    assert_eq!(other.decide(22).work, None);
}

/// Nobody has judged what is in it.
#[test]
fn follower_does_not_read_another_folder_before_the_holder_says_that_it_is_served() {
    let mut leader = World::image("a/b:1");
    leader.load(1, "a");
    let mut other = follower(&leader);
    other.load(2, "");
    let extract_content = Some(ExtractContent { catalog_dir: "/mine".to_owned(), ..ExtractContent::default() });
    leader.object.spec.grpc_pod_config = Some(GrpcPodConfig { extract_content, ..GrpcPodConfig::default() });
    leader.refuse(3, "a", "it has no package");
    other.object = leader.object.clone();
    assert_eq!(other.decide(4).work, None);
    // Nor does the holder lose the old one.
    let mut next = leader.clone();
    next.restart();
    assert_eq!(next.decide(4).work, pull("a/b:1", Some(digest("a"))));
    leader.restart();
    leader.load(5, "");
    leader.load(6, "b");
    let said = leader.words(condition::CONTENT_LOADED).unwrap().2;
    assert_eq!(said, format!("a/b:1@{} in \"/mine\"", digest("b")));
    other.object = leader.object.clone();
    assert!(matches!(other.decide(7).work, Some(Work::Pull { directory, .. }) if directory == "/mine"));
}
