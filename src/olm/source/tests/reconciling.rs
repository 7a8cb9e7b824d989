//! What the spec asks for, and the first steps of each kind of source.

use super::*;

/// Each row: source type, image, address, ConfigMap, and the message.
#[test]
fn type_check_says_what_is_missing() {
    for (source_type, image, address, config_map, message) in [
        (SourceType::ConfigMap, "", "", "", "configmap name unset: must be set for sourcetype: configmap"),
        (SourceType::Internal, "a/b:1", "", "", "configmap name unset: must be set for sourcetype: internal"),
        (SourceType::Grpc, "", "", "c", "image and address unset: at least one must be set for sourcetype: grpc"),
        (SourceType::Other("http".into()), "a/b:1", "a:1", "c", "unknown sourcetype: http"),
        (SourceType::Other(String::new()), "", "", "", "unknown sourcetype: "),
    ] {
        let mut world = World::new(CatalogSourceSpec {
            source_type,
            image: image.to_owned(),
            address: address.to_owned(),
            config_map: config_map.to_owned(),
            ..CatalogSourceSpec::default()
        });
        let decision = world.step(1);
        assert_eq!(world.said(), (reason::SPEC_INVALID.to_owned(), message.to_owned()));
        assert_eq!((decision.work, decision.dial, decision.next), (None, None, None), "{message}");
        let status = world.status();
        assert_eq!((status.connection_state, status.registry_service, status.conditions), (None, None, Vec::new()));
    }
}

#[test]
fn text_that_is_no_image_is_an_invalid_spec() {
    let mut world = World::image("a b");
    assert_eq!(world.step(1).work, None);
    let message = "spec.image \"a b\" is no image: it has a character that no name has";
    assert_eq!(world.said(), (reason::SPEC_INVALID.to_owned(), message.to_owned()));
}

#[test]
fn reason_and_message_go_once_the_spec_is_right() {
    let mut world = World::image("");
    world.step(1);
    world.object.spec.image = "a/b:1".to_owned();
    world.step(2);
    assert_eq!(world.said(), Default::default());
    assert_eq!(world.state(), Some(Connection::Connecting));
}

#[test]
fn younger_of_two_catalogs_with_one_service_name_is_refused() {
    let sibling = |name: &str, seconds: i64| Sibling { name: name.to_owned(), created: Some(at(seconds)) };
    for (name, sibling, refused) in [
        ("a-b", sibling("a.b", -5), true),
        ("a-b", sibling("a.b", 5), false),
        // Of two of one second it is the second by name.
        ("a-b", sibling("a.b", 0), false),
        ("a.b", sibling("a-b", 0), true),
        ("a-b", sibling("a.c", -5), false),
        ("a-b", sibling("a-b", -5), false),
    ] {
        let mut world = World::image("a/b:1");
        world.object.metadata.name = Some(name.to_owned());
        world.siblings = vec![sibling.clone()];
        let decision = world.step(1);
        let expected = if refused { (reason::SPEC_INVALID, true) } else { ("", false) };
        assert_eq!((world.said().0.as_str(), decision.work.is_none()), expected, "{name} {sibling:?}");
    }
    let mut world = World::image("a/b:1");
    world.object.metadata.name = Some("a-b".to_owned());
    world.siblings = vec![sibling("a.b", -5)];
    world.step(1);
    let message = "its Service would be a-b, which is that of the older CatalogSource a.b: give it a name of its own";
    assert_eq!(world.said().1, message);
}

#[test]
fn image_comes_before_address_and_its_content_becomes_ready_with_every_field() {
    let mut world = World::polled("a/b:1", "30m0s");
    world.object.metadata.name = Some("my.catalog".to_owned());
    world.object.spec.address = "elsewhere:50051".to_owned();
    let decision = world.step(1);
    assert_eq!((decision.work, decision.dial, decision.serve), (pull("a/b:1", None), None, Serve::Nothing));
    assert_eq!(world.state(), Some(Connection::Connecting));
    assert_eq!(world.words(condition::CONTENT_LOADED), words("False", "Loading", "a/b:1"));
    let decision = world.load(3, "a");
    assert_eq!((decision.work, decision.serve), (None, Serve::Content));
    let status = world.status();
    let service = RegistryService {
        protocol: "grpc".to_owned(),
        service_name: "my-catalog".to_owned(),
        service_namespace: "olm".to_owned(),
        port: "50051".to_owned(),
        created_at: time(1),
    };
    assert_eq!(status.registry_service, Some(service), "made when the catalog was first seen");
    let connection = ConnectionState {
        address: "my-catalog.olm.svc:50051".to_owned(),
        last_observed_state: Connection::Ready,
        last_connect: time(3),
    };
    assert_eq!(status.connection_state, Some(connection));
    assert_eq!(status.latest_image_registry_poll, time(3));
    assert_eq!((status.reason, status.message, status.config_map_reference), Default::default());
    let served = format!("a/b:1@{}", digest("a"));
    assert_eq!(world.words(condition::CONTENT_LOADED), words("True", "Loaded", &served));
}

#[test]
fn folder_of_the_spec_is_read_instead_of_that_of_the_image() {
    let mut world = World::image("a/b:1");
    world.load(1, "a");
    let extract_content = Some(ExtractContent { catalog_dir: "/mine".to_owned(), ..ExtractContent::default() });
    world.object.spec.grpc_pod_config = Some(GrpcPodConfig { extract_content, ..GrpcPodConfig::default() });
    let work = Work::Pull { image: "a/b:1".into(), digest: Some(digest("a")), directory: "/mine".into() };
    assert_eq!(world.step(2).work, Some(work));
    world.load(3, "a");
    assert_eq!(world.step(4).work, None);
}

#[test]
fn config_map_is_adopted_read_and_named() {
    let mut world = World::config_map();
    let seen = |adopted| ConfigMapSeen {
        uid: "1f0a".to_owned(),
        resource_version: if adopted { "18" } else { "17" }.to_owned(),
        digest: digest("a"),
        adopted,
    };
    world.config_map = Some(ConfigMapState { read: Read::Value(seen(false)), since: at(0) });
    let decision = world.step(1);
    assert!(decision.adopt);
    let work = Work::ReadConfigMap { name: "catalog".into(), digest: digest("a") };
    assert_eq!(decision.work, Some(work));
    assert_eq!(world.status().config_map_reference, None, "nothing of it is served yet");
    world.load(2, "");
    world.config_map = Some(ConfigMapState { read: Read::Value(seen(true)), since: at(0) });
    let decision = world.step(3);
    assert_eq!((decision.adopt, decision.work, decision.next), (false, None, None), "its content is the same");
    let reference = ConfigMapReference {
        name: "catalog".to_owned(),
        namespace: "olm".to_owned(),
        uid: "1f0a".to_owned(),
        resource_version: "18".to_owned(),
        last_update_time: time(3),
    };
    assert_eq!(world.status().config_map_reference, Some(reference));
    assert_eq!(world.state(), Some(Connection::Ready));
    assert_eq!(world.connected(), time(4), "whoever has changed it waits for a later connection");
    assert_eq!(world.words(condition::CONTENT_LOADED).unwrap().2, format!("ConfigMap catalog@{}", digest("a")));
}

#[test]
fn changed_config_map_is_read_and_a_sick_one_leaves_the_old_content() {
    let mut world = World::config_map();
    world.load(1, "");
    world.see("b", "18");
    assert_eq!(world.step(2).work, Some(Work::ReadConfigMap { name: "catalog".into(), digest: digest("b") }));
    let decision = world.refuse(3, "", "key packages, line 3: not a list");
    assert_eq!((decision.work, decision.next, decision.serve), (None, None, Serve::Content), "until it changes again");
    let old = format!("ConfigMap catalog@{}", digest("a"));
    let message =
        format!("key packages, line 3: not a list; since 2026-03-01T12:00:03Z, and {old} is served meanwhile");
    assert_eq!(world.said(), (reason::CONFIG_MAP.to_owned(), message));
    assert_eq!(world.status().config_map_reference.unwrap().resource_version, "17");
    let connected = world.connected();
    world.see("c", "19");
    world.load(4, "");
    assert_eq!(world.said(), Default::default());
    let updated = world.status().config_map_reference.unwrap().last_update_time;
    assert!(updated > connected && world.connected() > updated, "{connected:?}, {updated:?}");
    let connected = world.connected();
    world.step(90);
    assert_eq!(world.connected(), connected, "as long as it is the same content");
    assert_eq!(world.status().config_map_reference.unwrap().resource_version, "19");
}

/// Times are of whole seconds, and whoever has changed it waits for a later one.
#[test]
fn each_change_of_a_config_map_has_a_later_time_also_within_one_second() {
    let mut world = World::config_map();
    world.load(1, "");
    let updated = |world: &World| world.status().config_map_reference.unwrap().last_update_time;
    assert_eq!((updated(&world), world.connected()), (time(1), time(2)));
    for (name, version, expected) in [("b", "18", 2), ("c", "19", 3)] {
        world.see(name, version);
        world.load(1, "");
        assert_eq!((updated(&world), world.connected()), (time(expected), time(expected + 1)), "{name}");
    }
    world.see("d", "20");
    world.load(90, "");
    assert_eq!((updated(&world), world.connected()), (time(90), time(91)));
}

#[test]
fn config_map_that_is_missing_or_unreadable_is_said() {
    for (read, expected) in [
        (Read::Absent, "ConfigMap olm/catalog does not exist: create it, or correct spec.configMap"),
        (Read::Failed("forbidden".to_owned()), "ConfigMap olm/catalog cannot be read: forbidden"),
    ] {
        let mut world = World::config_map();
        world.config_map = Some(ConfigMapState { read: read.clone(), since: at(-60) });
        assert_eq!(world.step(1).work, None);
        let message = format!("{expected}; since 2026-03-01T11:59:00Z");
        assert_eq!(world.said(), (reason::CONFIG_MAP.to_owned(), message.clone()));
        assert_eq!(world.state(), Some(Connection::TransientFailure));
        world.see("a", "17");
        world.load(2, "");
        world.config_map = Some(ConfigMapState { read, since: at(-60) });
        assert_eq!(world.step(3).serve, Serve::Content);
        let meanwhile = format!("{message}, and ConfigMap catalog@{} is served meanwhile", digest("a"));
        assert_eq!(world.said(), (reason::CONFIG_MAP.to_owned(), meanwhile));
        assert_eq!(world.state(), Some(Connection::Ready));
    }
}

#[test]
fn nothing_is_said_of_a_config_map_before_it_was_looked_for() {
    let mut world = World::config_map();
    world.config_map = None;
    let decision = world.step(1);
    assert_eq!((decision.work, world.said()), (None, Default::default()));
    assert_eq!(world.state(), Some(Connection::Connecting));
}

#[test]
fn invalid_interval_is_said_and_the_catalog_is_served_with_a_poll_each_quarter_of_an_hour() {
    for interval in ["soon", "15", "-1m", "0s"] {
        let mut world = World::polled("a/b:1", interval);
        let decision = world.load(1, "a");
        assert_eq!(world.said().0, reason::INVALID_INTERVAL);
        let message = world.said().1;
        assert!(message.contains(&format!("interval {interval:?} is no duration such as 30m0s")), "{message}");
        assert_eq!(world.state(), Some(Connection::Ready));
        let next = decision.next.unwrap();
        assert!(next >= at(901) && next <= at(1 + 900 + 225), "{next}");
    }
}

#[test]
fn more_important_reason_comes_first_and_both_are_said() {
    let mut world = World::polled("a/b:1", "soon");
    world.fail(1, "there is no registry a");
    let (reason, message) = world.said();
    assert_eq!(reason, reason::REGISTRY_SERVER);
    assert!(message.starts_with("there is no registry a; since") && message.contains("no duration"), "{message}");
}

#[test]
fn packages_that_are_left_out_are_said_without_a_reason() {
    let mut world = World::image("a/b:1");
    world.end(1, |work| Outcome::Loaded { content: read(work, "a"), notes: "1 of 2 packages is not served: x".into() });
    assert_eq!(world.said(), (String::new(), "1 of 2 packages is not served: x".to_owned()));
    assert_eq!(world.state(), Some(Connection::Ready));
}

#[test]
fn content_is_served_on_when_the_spec_becomes_invalid_and_until_the_object_is_gone() {
    let mut world = World::image("a/b:1");
    world.load(1, "a");
    world.object.spec.source_type = SourceType::Other("http".into());
    let decision = world.step(2);
    assert_eq!((decision.serve, decision.work), (Serve::Content, None));
    assert_eq!(world.said(), (reason::SPEC_INVALID.to_owned(), "unknown sourcetype: http".to_owned()));
    assert_eq!(world.state(), Some(Connection::Ready));
    assert!(world.status().registry_service.is_some());
    world.object.metadata.deletion_timestamp = time(3);
    world.object.spec = World::image("a/b:2").object.spec;
    assert_eq!(world.step(3), Decision { serve: Serve::Content, ..Decision::default() }, "nothing new is begun");
}

#[test]
fn service_that_cannot_be_brought_into_place_is_said_while_the_content_is_served() {
    let mut world = World::image("a/b:1");
    world.load(1, "a");
    let fine = world.status();
    world.service = Some("there is a Service olm/community of others already, which belongs to nobody".to_owned());
    world.step(2);
    let status = world.status();
    assert_eq!(status.reason, reason::REGISTRY_SERVER);
    for words in ["by its Service", "belongs to nobody"] {
        assert!(status.message.contains(words), "{}", status.message);
    }
    assert_eq!((status.connection_state, status.conditions), (fine.connection_state.clone(), fine.conditions.clone()));
    world.service = None;
    world.step(3);
    assert_eq!(world.status(), fine);
    // A catalog that is asked for at its own address has none.
    let mut world = World::address("a:50051");
    world.service = Some("no".to_owned());
    world.step(1);
    assert_eq!(world.status().reason, "");
}
