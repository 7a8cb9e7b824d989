//! Catalogs that pods serve.

use super::*;
use crate::olm::api::keys::annotation::CATALOG_SERVING;
use crate::olm::source::pod::decide::PodSeen;
use crate::olm::source::pod::{ImageAccess, images, pod_hash};
use crate::olm::source::spec::Why;

const OWN: &str = "community.olm.svc:50051";

/// A catalog of an image that a pod is to serve.
fn world() -> World {
    let mut world = World::polled("a/b:1", "10m");
    world.annotate(CATALOG_SERVING, "pod");
    world.pods = Some(Pods::default());
    world
}

fn create(candidate: bool) -> Vec<PodWrite> {
    vec![PodWrite::Create { candidate }]
}

/// The pod that is wanted is there, and is in use.
fn run(world: &mut World, name: &str, ready: bool, seconds: i64) {
    let objects = world.decide(seconds).pod.unwrap();
    let images = images(&objects.pod).into_iter().map(|(name, image)| (name.to_owned(), image.to_owned())).collect();
    let pod = PodSeen {
        name: name.to_owned(),
        uid: name.to_owned(),
        hash: pod_hash(&objects.pod).to_owned(),
        images,
        in_use: true,
        created: at(seconds),
        ready,
        reached: ready,
        ..PodSeen::default()
    };
    world.pods.as_mut().unwrap().seen = vec![pod];
}

fn connect(world: &mut World, seconds: i64) {
    let (address, since) = (OWN.to_owned(), at(seconds));
    world.channel = Some(Channel { address, state: Connection::Ready, since, error: None });
}

#[test]
fn pod_is_made_of_the_image_with_its_digest_and_read_like_a_server() {
    let mut world = world();
    let decision = world.step(1);
    assert_eq!((decision.work, decision.pod_writes), (ask("a/b:1"), vec![]));
    let decision = world.end(1, |_| Outcome::Asked { digest: digest("a") });
    assert_eq!((decision.pod_writes, decision.dial.as_deref()), (create(false), Some(OWN)));
    let pod = decision.pod.unwrap().pod;
    assert_eq!(pod["spec"]["containers"][0]["image"], format!("a/b:1@{}", digest("a")));
    run(&mut world, "p", false, 2);
    let error = Some("refused".to_owned());
    world.channel = Some(Channel { address: OWN.to_owned(), state: Connection::TransientFailure, since: at(2), error });
    world.step(3);
    assert_eq!(world.said().1, "pod p: it is not ready yet", "that nobody answers is no news");
    assert_eq!(world.state(), Some(Connection::TransientFailure));
    run(&mut world, "p", true, 4);
    connect(&mut world, 5);
    let decision = world.load(6, "c");
    assert_eq!((decision.work, decision.pod_writes), (None, vec![]));
    assert!(decision.next.is_some(), "the registry is asked again");
    assert_eq!((world.state(), world.said()), (Some(Connection::Ready), Default::default()));
    let service = world.status().registry_service.unwrap();
    assert_eq!((service.service_name.as_str(), service.port.as_str()), ("community", "50051"));
    assert_eq!(world.words(condition::CONTENT_LOADED).unwrap().2, format!("server {OWN}@{}", digest("c")));
    // A follower reads the pod as well.
    let mut follower = World { leading: false, held: Held::default(), ..world.clone() };
    assert_eq!(follower.decide(7).dial.as_deref(), Some(OWN));
    follower.fail(7, "it is not on this disk");
    assert_eq!(follower.load(8, "c").serve, Serve::Content);
}

#[test]
fn image_that_moves_has_a_pod_beside_the_old_one_and_its_content_once_that_is_in_use() {
    let mut world = world();
    world.end(1, |_| Outcome::Asked { digest: digest("a") });
    run(&mut world, "p", true, 2);
    connect(&mut world, 3);
    world.load(4, "c");
    let decision = world.end(1000, |_| Outcome::Asked { digest: digest("b") });
    assert_eq!((decision.pod_writes, decision.serve), (create(true), Serve::Content));
    assert_eq!(world.state(), Some(Connection::Ready));
}

#[test]
fn pod_that_the_api_server_does_not_take_is_told_without_its_name() {
    let mut world = world();
    world.end(1, |_| Outcome::Asked { digest: digest("a") });
    let mut say = |name: &str| {
        let cause = format!("create pods: pods \"{name}\" is forbidden: violates PodSecurity \"restricted:latest\"");
        world.pods.as_mut().unwrap().refused = Some(cause);
        world.step(2);
        world.said()
    };
    let said = say("community-a1");
    let told = "the pod cannot be made: violates PodSecurity \"restricted:latest\"";
    assert_eq!(said, (reason::REGISTRY_SERVER.to_owned(), told.to_owned()));
    assert_eq!(say("community-b2"), said);
    // It is there meanwhile.
    run(&mut world, "p", true, 3);
    connect(&mut world, 4);
    world.load(5, "c");
    assert_eq!(world.said(), Default::default());
}

#[test]
fn registry_that_refuses_us_does_not_hinder_a_pod() {
    let mut world = world();
    let decision = world.fail(1, "denied");
    assert_eq!(decision.pod_writes, create(false));
    assert_eq!(decision.pod.unwrap().pod["spec"]["containers"][0]["image"], "a/b:1");
    assert_eq!(world.said(), (String::new(), "denied; since 2026-03-01T12:00:01Z".to_owned()));
}

#[test]
fn image_that_only_serves_has_a_pod_and_a_process_that_begins_anew_knows_it_by_that() {
    let mut world = World::image("a/b:1");
    world.pods = Some(Pods::default());
    let decision = world.end(1, |_| Outcome::OnlyServes { digest: digest("a") });
    assert_eq!(decision.pod_writes, create(false));
    run(&mut world, "p", true, 2);
    world.pods.as_mut().unwrap().seen[0].why = Some(("a/b:1".to_owned(), Why::OnlyServes));
    world.restart();
    assert_eq!(world.step(3).work, ask("a/b:1"));
    let decision = world.end(3, |_| Outcome::Asked { digest: digest("a") });
    assert_eq!(decision.pod_writes, []);
    // Another image is looked into first.
    world.object.spec.image = "a/b:2".to_owned();
    assert_eq!(world.decide(4).work, pull("a/b:2", None));
}

#[test]
fn flag_gives_each_image_a_pod() {
    let mut world = World::image("a/b:1");
    world.pods = Some(Pods { always: true, ..Pods::default() });
    assert_eq!(world.end(1, |_| Outcome::Asked { digest: digest("a") }).pod_writes, create(false));
    for mut other in [World::config_map(), World::address("a:1")] {
        other.pods = world.pods.clone();
        let decision = other.step(1);
        assert_eq!((decision.pod, decision.pod_writes), (None, vec![]));
    }
}

#[test]
fn pod_whose_image_somebody_has_changed_is_replaced() {
    let mut world = world();
    world.end(1, |_| Outcome::Asked { digest: digest("a") });
    run(&mut world, "p", true, 2);
    assert_eq!(world.decide(3).pod_writes, []);
    let images = &mut world.pods.as_mut().unwrap().seen[0].images;
    images.insert("injected".to_owned(), "x".to_owned());
    assert_eq!(world.decide(3).pod_writes, [], "what others add is theirs");
    world.pods.as_mut().unwrap().seen[0].images.insert("registry-server".to_owned(), "evil".to_owned());
    assert_eq!(world.decide(3).pod_writes, create(true));
}

#[test]
fn pods_go_once_the_process_itself_serves_the_image() {
    let mut world = world();
    world.end(1, |_| Outcome::Asked { digest: digest("a") });
    run(&mut world, "p", true, 2);
    connect(&mut world, 3);
    world.load(4, "c");
    world.object.metadata.annotations = None;
    let decision = world.step(5);
    assert_eq!((decision.pod_writes, decision.serve), (vec![], Serve::Content), "the catalog is not read yet");
    let decision = world.load(6, "a");
    let gone = PodWrite::Delete { name: "p".to_owned(), uid: "p".to_owned(), grace: 1 };
    assert_eq!((decision.pod_writes, decision.pod), (vec![gone], None));
}

fn denied(_: &Work) -> Outcome {
    Outcome::NoAccess { cause: "denied".to_owned() }
}

#[test]
fn image_that_only_nodes_may_read_is_read_through_one_until_we_may() {
    let mut world = World::image("a/b:1");
    world.pods = Some(Pods::default());
    let decision = world.end(1, denied);
    assert_eq!((decision.pod, decision.pod_writes), (None, vec![]), "it may pass");
    let decision = world.end(100, denied);
    assert_eq!(decision.pod_writes, create(false));
    assert_eq!(decision.pod.unwrap().pod["spec"]["initContainers"][1]["image"], "a/b:1");
    run(&mut world, "p", true, 101);
    world.pods.as_mut().unwrap().seen[0].why = Some(("a/b:1".to_owned(), Why::Access));
    connect(&mut world, 102);
    let decision = world.load(103, "c");
    assert_eq!((decision.serve, world.state()), (Serve::Content, Some(Connection::Ready)));
    // The next process knows it by the pod, and asks again.
    world.restart();
    let content = world.load(104, "");
    assert_eq!((content.pod.is_some(), content.pod_writes), (true, vec![]));
    let decision = world.end(105, |_| Outcome::Asked { digest: digest("a") });
    assert_eq!((decision.work, decision.serve), (pull("a/b:1", Some(digest("a"))), Serve::Content));
    let decision = world.load(106, "");
    assert!(matches!(&decision.pod_writes[..], [PodWrite::Delete { .. }]), "{decision:?}");
}

#[test]
fn flag_says_whether_images_are_read_through_nodes() {
    for (access, refusals, pod) in
        [(ImageAccess::Direct, 3, false), (ImageAccess::Pod, 1, true), (ImageAccess::Auto, 3, true)]
    {
        let mut world = World::image("a/b:1");
        world.pods = Some(Pods { access, ..Pods::default() });
        for count in 1..=refusals {
            world.end(1000 * count, denied);
        }
        assert_eq!(world.decide(10_000).pod.is_some(), pod, "{access:?}");
        // A registry that fails is no reason.
        let mut world = World::image("a/b:1");
        world.pods = Some(Pods { access, ..Pods::default() });
        for count in 1..=3 {
            world.fail(1000 * count, "500");
        }
        assert_eq!(world.decide(10_000).pod.is_some(), access == ImageAccess::Pod, "{access:?}");
    }
}
