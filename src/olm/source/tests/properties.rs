//! Whatever is known: no panic, nothing good is dropped, nothing is written twice, and nothing waits for ever.

use super::*;
use crate::olm::source::held::Loaded;
use proptest::prelude::*;

const IMAGES: [&str; 5] = ["", "a/b:1", "a/b:2", "a b", "a/b:1@sha256:cc"];
const TEMPLATES: [&str; 6] = [
    "",
    "a/b:{kube_major_version}",
    "a/b:{kube_minor_version}.{kube_patch_version}",
    "{nobody}{",
    "a/b:1",
    "x y{kube_major_version}",
];

#[derive(Clone, Debug)]
enum Event {
    Type(SourceType),
    Image(usize),
    Address(bool),
    ConfigMap(bool),
    Interval(usize),
    Template(Option<usize>),
    Version(u8),
    See(Option<Read<u8>>),
    Channel(Option<Connection>),
    Sibling(Option<i64>),
    /// Pods are known, and each image has one.
    Pods(Option<bool>),
    Lead(bool),
    Restart,
    TryAgain,
    /// The work ends: loaded, refused or failed, and which digest there is.
    End(u8, u8),
    Terminate,
    Pass(i64),
    /// Somebody else writes conditions.
    Spoil(String),
}

fn event() -> impl Strategy<Value = Event> {
    let source_type = prop_oneof![
        3 => Just(SourceType::Grpc),
        1 => Just(SourceType::ConfigMap),
        1 => Just(SourceType::Internal),
        1 => Just(SourceType::Other("x".to_owned())),
    ];
    let connection = prop_oneof![
        Just(Connection::Ready),
        Just(Connection::Connecting),
        Just(Connection::TransientFailure),
        Just(Connection::Other("?".to_owned())),
    ];
    let read = prop_oneof![3 => (0..3_u8).prop_map(Read::Value), 1 => Just(Read::Absent), 1 => Just(Read::Failed("no".to_owned()))];
    let of_spec = prop_oneof![
        source_type.prop_map(Event::Type),
        (0..IMAGES.len()).prop_map(Event::Image),
        any::<bool>().prop_map(Event::Address),
        any::<bool>().prop_map(Event::ConfigMap),
        (0..4_usize).prop_map(Event::Interval),
        proptest::option::of(0..TEMPLATES.len()).prop_map(Event::Template),
    ];
    prop_oneof![
        4 => of_spec,
        1 => (0..4_u8).prop_map(Event::Version),
        2 => proptest::option::of(read).prop_map(Event::See),
        1 => proptest::option::of(connection).prop_map(Event::Channel),
        1 => proptest::option::of(-1..2_i64).prop_map(Event::Sibling),
        1 => proptest::option::of(any::<bool>()).prop_map(Event::Pods),
        1 => any::<bool>().prop_map(Event::Lead),
        1 => Just(Event::Restart),
        1 => Just(Event::TryAgain),
        10 => (0..6_u8, 0..3_u8).prop_map(|(how, which)| Event::End(how, which)),
        3 => (0..5000_i64).prop_map(Event::Pass),
        1 => "(a/b:1@sha256:a{64}|server a:50051@sha256:c{64}|ConfigMap c@sha256:b{64}(: x)?|.{0,20})".prop_map(Event::Spoil),
    ]
}

fn name(which: u8) -> String {
    char::from(b'a' + which % 6).to_string()
}

impl World {
    fn apply(&mut self, event: &Event, now: &mut i64) {
        let spec = &mut self.object.spec;
        match event {
            Event::Type(source_type) => spec.source_type = source_type.clone(),
            Event::Image(image) => spec.image = IMAGES[*image].to_owned(),
            Event::Address(there) => spec.address = if *there { "a:50051".to_owned() } else { String::new() },
            Event::ConfigMap(there) => spec.config_map = if *there { "c".to_owned() } else { String::new() },
            Event::Interval(interval) => {
                let interval = ["", "1m", "x", "1h"][*interval].to_owned();
                spec.update_strategy = Some(UpdateStrategy { registry_poll: Some(RegistryPoll { interval }) });
            }
            Event::Template(None) => self.object.metadata.annotations = None,
            Event::Template(Some(template)) => self.annotate(CATALOG_IMAGE_TEMPLATE, TEMPLATES[*template]),
            Event::Version(0) => self.version = None,
            Event::Version(1) => self.version = Some(Err("no".to_owned())),
            Event::Version(minor) => self.version = Some(Ok(KubeVersion::of("1", &minor.to_string(), "").unwrap())),
            Event::See(read) => {
                self.config_map = read.clone().map(|read| ConfigMapState {
                    since: at(*now),
                    read: match read {
                        Read::Absent => Read::Absent,
                        Read::Failed(cause) => Read::Failed(cause),
                        Read::Value(which) => Read::Value(ConfigMapSeen {
                            uid: "u".to_owned(),
                            resource_version: now.to_string(),
                            digest: digest(&name(which)),
                            adopted: which != 0,
                        }),
                    },
                });
            }
            Event::Channel(state) => {
                self.channel = state.clone().map(|state| Channel {
                    address: "a:50051".to_owned(),
                    state,
                    since: at(*now),
                    error: None,
                });
            }
            Event::Sibling(created) => {
                let sibling = |created: &i64| Sibling { name: "community".to_owned(), created: Some(at(*created)) };
                self.siblings = created.iter().map(sibling).collect();
            }
            Event::Lead(leading) => self.leading = *leading,
            Event::Restart => self.restart(),
            Event::TryAgain => self.held.try_again(),
            Event::Pods(known) => self.pods = known.map(|always| Pods { always, ..Pods::default() }),
            Event::Terminate => self.object.metadata.deletion_timestamp = time(*now),
            Event::Pass(seconds) => *now += seconds,
            Event::Spoil(message) => self.spoil(message, *now),
            Event::End(how, which) => self.end_by(*how, *which, *now),
        }
    }

    /// Somebody else writes the condition by which replicas know what is served.
    fn spoil(&mut self, message: &str, now: i64) {
        let holds = message.len().is_multiple_of(2);
        self.object.status.get_or_insert_default().conditions = vec![Condition {
            type_: condition::CONTENT_LOADED.to_owned(),
            status: if holds { "True" } else { "False" }.to_owned(),
            reason: if holds { "Loaded" } else { "Failed" }.to_owned(),
            message: message.to_owned(),
            last_transition_time: time(now).unwrap(),
            observed_generation: None,
        }];
    }

    fn end_by(&mut self, how: u8, which: u8, now: i64) {
        let Some(work) = self.decide(now).work else { return };
        let outcome = match (how, &work) {
            (0, _) => Outcome::Failed { cause: "no".to_owned() },
            (2, Work::Pull { .. }) if which == 2 => Outcome::OnlyServes { digest: digest(&name(which)) },
            (1, Work::Pull { .. } | Work::ReadConfigMap { .. } | Work::ReadServer { .. }) => {
                Outcome::Refused { content: read(&work, &name(which)), cause: "sick".to_owned() }
            }
            _ => loaded(&work, &name(which)),
        };
        self.held.on(&work, outcome, at(now));
    }

    /// What must hold whatever has happened.
    fn check(&mut self, now: i64) {
        let before = self.held.clone();
        let decision = self.decide(now);
        assert_eq!(before.loaded.is_some(), decision.serve == Serve::Content);
        assert!(self.leading || (&decision.status, &decision.image, decision.adopt) == (&None, &None, false));
        assert!(decision.next.is_none_or(|next| next > at(now)), "it would be decided again at once");
        self.write(&decision);
        let again = self.decide(now);
        assert_eq!((&again.image, &again.status), (&None, &None), "nothing has changed, so nothing is written");
        assert_eq!((&again.work, again.serve, again.next), (&decision.work, decision.serve, decision.next));
        if self.leading && decision.status.is_some() {
            let status = self.status();
            let state = status.connection_state.map(|connection| connection.last_observed_state);
            let of_server = matches!(&before.loaded, Some(Loaded { content: Content::Server { .. }, .. }));
            let ready = of_server || state == Some(Connection::Ready);
            assert!(decision.serve != Serve::Content || ready, "what is served is ready");
        }
        self.is_going_somewhere(&again);
    }

    /// An image that is wanted is served, read, asked for later, or can only become another one by somebody's hands.
    fn is_going_somewhere(&self, decision: &Decision) {
        let spec = &self.object.spec;
        let terminating = self.object.metadata.deletion_timestamp.is_some();
        let wanted = spec.source_type == SourceType::Grpc && ["a/b:1", "a/b:2"].contains(&spec.image.as_str());
        let free = self.pods.is_none()
            && self.held.only_serves.is_none()
            && self.siblings.is_empty()
            && self.object.metadata.annotations.is_none();
        if self.leading && wanted && free && !terminating {
            let serves = self.serves().is_some_and(|content| content.starts_with(&format!("{}@", spec.image)));
            assert!(serves || decision.work.is_some() || decision.next.is_some(), "it waits for nothing");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn content_stays_writes_end_and_work_goes_on(
        events in proptest::collection::vec(event(), 1..60),
        terminate in proptest::option::of(0..60_usize),
    ) {
        let (mut world, mut now) = (World::image("a/b:1"), 1);
        for (position, event) in events.iter().enumerate() {
            let restarts = matches!(event, Event::Restart);
            let had = world.held.loaded.is_some();
            world.apply(event, &mut now);
            prop_assert!(restarts || !had || world.held.loaded.is_some(), "{:?} has dropped content", event);
            if terminate == Some(position) {
                world.apply(&Event::Terminate, &mut now);
            }
            world.check(now);
        }
    }

    #[test]
    fn wanted_image_is_served_once_nothing_fails_any_more(
        events in proptest::collection::vec(event(), 1..40),
        minor in 2..4_u8,
    ) {
        let (mut world, mut now) = (World::image("a/b:1"), 1);
        for event in &events {
            world.apply(event, &mut now);
            let decision = world.decide(now);
            world.write(&decision);
        }
        // From now on everything is as it should be.
        world.object.spec = World::polled("a/b:9", "1m").object.spec;
        world.object.metadata.annotations = None;
        for event in [Event::Lead(true), Event::Version(minor), Event::Sibling(None), Event::Pods(Some(false))] {
            world.apply(&event, &mut now);
        }
        for _ in 0..6 {
            now += 1000;
            let decision = world.decide(now);
            world.write(&decision);
            if let Some(work) = decision.work {
                world.held.on(&work, loaded(&work, "e"), at(now));
            }
        }
        world.step(now);
        prop_assert_eq!(world.serves().unwrap(), format!("a/b:9@{}", digest("e")));
        prop_assert_eq!(world.state(), Some(Connection::Ready));
        prop_assert_eq!(world.said(), Default::default());
    }
}
