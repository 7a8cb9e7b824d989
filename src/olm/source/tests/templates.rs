//! The image follows the version of the API server.

use super::*;

const TEMPLATE: &str = "quay.io/x/cat:v{kube_major_version}.{kube_minor_version}";

fn both(status: &str, reason: &str) -> impl Fn(&World) -> bool {
    move |world| {
        [condition::TEMPLATES_HAVE_RESOLVED, condition::RESOLVED_IMAGE].iter().all(|type_| {
            let condition = world.condition(type_).unwrap();
            (condition.status.as_str(), condition.reason.as_str()) == (status, reason)
        })
    }
}

#[test]
fn resolved_template_becomes_the_image_and_both_conditions_say_so_in_the_same_turn() {
    let mut world = World::template(TEMPLATE, "", "25");
    let decision = world.step(1);
    assert_eq!(decision.image.as_deref(), Some("quay.io/x/cat:v1.25"));
    assert!(decision.status.is_some(), "spec and status are two writes of one turn");
    assert_eq!(decision.work, pull("quay.io/x/cat:v1.25", None));
    assert!(both("True", "AllTemplatesResolved")(&world));
    assert_eq!(world.condition(condition::RESOLVED_IMAGE).unwrap().message, "quay.io/x/cat:v1.25");
    let decision = world.step(2);
    assert_eq!((decision.image, decision.status), (None, None));
}

#[test]
fn new_version_of_the_server_moves_the_image_and_the_old_content_serves_meanwhile() {
    let mut world = World::template(TEMPLATE, "", "25");
    world.load(1, "a");
    world.version = Some(Ok(KubeVersion { major: "1".into(), minor: "27".into(), patch: None }));
    let decision = world.step(2);
    assert_eq!(decision.image.as_deref(), Some("quay.io/x/cat:v1.27"));
    assert_eq!((decision.work, decision.serve), (pull("quay.io/x/cat:v1.27", None), Serve::Content));
    let since = world.condition(condition::RESOLVED_IMAGE).unwrap().last_transition_time;
    assert_eq!(since, time(1).unwrap(), "it was resolved before");
    let decision = world.fail(3, "image quay.io/x/cat:v1.27: not found");
    assert_eq!(decision.serve, Serve::Content);
    let old = format!("quay.io/x/cat:v1.25@{}", digest("a"));
    let message =
        format!("image quay.io/x/cat:v1.27: not found; since 2026-03-01T12:00:03Z, and {old} is served meanwhile");
    assert_eq!(world.said(), (reason::REGISTRY_SERVER.to_owned(), message));
    assert_eq!(world.words(condition::CONTENT_LOADED), words("True", "Loaded", &old));
}

#[test]
fn template_that_cannot_be_resolved_leaves_the_image_alone() {
    for (template, expected) in [
        ("a/b:{nobody}-{kube_major_version}-{else}", "nobody knows {nobody}, {else}; there are"),
        ("a/b:{kube_major_version", "it is malformed: a brace has no counterpart"),
        (
            "a/b:{x}}",
            "nobody knows {x}; there are {kube_major_version}, {kube_minor_version}, {kube_patch_version}; it is malformed",
        ),
        ("a b:{kube_major_version}", "it stands for \"a b:1\", which is no image: it has a character"),
        ("", "it stands for \"\", which is no image"),
    ] {
        let mut world = World::template(template, "old:1", "25");
        let decision = world.step(1);
        assert_eq!((decision.image, decision.work), (None, pull("old:1", None)), "{template}");
        assert!(both("False", "UnableToResolve")(&world), "{template}");
        for type_ in [condition::TEMPLATES_HAVE_RESOLVED, condition::RESOLVED_IMAGE] {
            let message = world.condition(type_).unwrap().message;
            assert!(message.contains(expected), "{template}: {message}");
        }
        assert_eq!(world.said(), Default::default(), "the image of the spec is fine");
    }
}

#[test]
fn unresolvable_template_without_an_image_is_an_invalid_spec() {
    for source_type in [SourceType::Grpc, SourceType::Other("http".into())] {
        let mut world = World::template("a/b:{nobody}", "", "25");
        world.object.spec.source_type = source_type;
        assert_eq!(world.step(1).work, None);
        let (reason, message) = world.said();
        assert_eq!(reason, reason::SPEC_INVALID, "the template comes before the type check");
        assert!(message.contains("nobody knows {nobody}"), "{message}");
        assert!(both("False", "UnableToResolve")(&world));
    }
}

#[test]
fn source_that_needs_no_image_goes_on_with_a_template_that_cannot_be_resolved() {
    let mut world = World::address("a:1");
    world.annotate(CATALOG_IMAGE_TEMPLATE, "a/b:{nobody}");
    assert_eq!(world.step(1).dial.as_deref(), Some("a:1"));
    assert!(both("False", "UnableToResolve")(&world));
    let mut world = World::config_map();
    world.annotate(CATALOG_IMAGE_TEMPLATE, "a/b:{nobody}");
    assert!(matches!(world.step(1).work, Some(Work::ReadConfigMap { .. })));
}

#[test]
fn conditions_go_with_the_annotation_and_those_of_others_stay() {
    let mut world = World::template(TEMPLATE, "", "25");
    let other = Condition {
        type_: "Other".to_owned(),
        status: "Unknown".to_owned(),
        reason: "Theirs".to_owned(),
        message: String::new(),
        last_transition_time: time(0).unwrap(),
        observed_generation: Some(3),
    };
    world.object.status.get_or_insert_default().conditions.push(other.clone());
    world.step(1);
    world.object.metadata.annotations = None;
    world.step(2);
    assert_eq!(world.condition(condition::TEMPLATES_HAVE_RESOLVED), None);
    assert_eq!(world.condition(condition::RESOLVED_IMAGE), None);
    assert_eq!(world.condition("Other"), Some(other));
    assert_eq!(world.object.spec.image, "quay.io/x/cat:v1.25", "the image stays");
}

#[test]
fn nothing_is_written_before_the_version_is_known_and_what_was_served_is_read_again() {
    let mut world = World::template(TEMPLATE, "", "25");
    world.load(1, "a");
    let before = world.status();
    world.restart();
    world.version = None;
    let decision = world.decide(2);
    assert_eq!((decision.image, decision.status), (None, None));
    assert_eq!(decision.work, pull("quay.io/x/cat:v1.25", Some(digest("a"))));
    world.load(3, "a");
    assert_eq!(world.status(), before);
}

#[test]
fn version_that_cannot_be_read_is_said_with_the_variables_that_need_it() {
    let mut world = World::template(TEMPLATE, "old:1", "25");
    world.version = Some(Err("the server refuses".to_owned()));
    world.step(1);
    let message = world.condition(condition::RESOLVED_IMAGE).unwrap().message;
    let expected = "the API server has no value for {kube_major_version}, {kube_minor_version}: the server refuses";
    assert!(message.contains(expected), "{message}");
}

#[test]
fn server_at_an_address_stays_connected_before_the_version_is_known() {
    let mut world = World::address("a:50051");
    world.annotate(CATALOG_IMAGE_TEMPLATE, "a/b:{kube_minor_version}{nobody}");
    world.version = Some(Ok(KubeVersion { major: "1".into(), minor: "25".into(), patch: None }));
    assert_eq!(world.step(1).dial.as_deref(), Some("a:50051"));
    world.restart();
    world.version = None;
    assert_eq!(world.step(2).dial.as_deref(), Some("a:50051"));
    let mut world = World::config_map();
    world.annotate(CATALOG_IMAGE_TEMPLATE, "a/b:{kube_minor_version}");
    assert!(matches!(world.step(1).work, Some(Work::ReadConfigMap { .. })), "it needs no image");
}
