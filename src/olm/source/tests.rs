use super::content::Content;
use super::held::Outcome;
use super::*;
use crate::olm::api::catalog_source::{
    CatalogSourceSpec, ConfigMapReference, ConnectionState, ExtractContent, GrpcPodConfig, RegistryPoll,
    RegistryService, SourceType, UpdateStrategy, condition, reason,
};
use crate::olm::api::keys::annotation::CATALOG_IMAGE_TEMPLATE;
use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

mod following;
mod pods;
mod polling;
mod properties;
mod reconciling;
mod states;
mod templates;

/// Seconds after the creation of the objects.
fn at(seconds: i64) -> Timestamp {
    "2026-03-01T12:00:00Z".parse::<Timestamp>().unwrap() + SignedDuration::from_secs(seconds)
}

fn time(seconds: i64) -> Option<Time> {
    Some(Time(at(seconds)))
}

fn digest(name: &str) -> String {
    format!("sha256:{}", name.repeat(64))
}

fn check(image: &str) -> Result<(), String> {
    match image.is_empty() || image.contains([' ', '{', '}']) {
        true => Err("it has a character that no name has".to_owned()),
        false => Ok(()),
    }
}

/// A CatalogSource, and a process that looks after it.
#[derive(Clone)]
struct World {
    object: CatalogSource,
    siblings: Vec<Sibling>,
    version: Option<Result<KubeVersion, String>>,
    leading: bool,
    held: Held,
    config_map: Option<ConfigMapState>,
    channel: Option<Channel>,
    pods: Option<Pods<'static>>,
    service: Option<String>,
}

impl World {
    fn new(spec: CatalogSourceSpec) -> World {
        let mut object = CatalogSource::new("community", spec);
        object.metadata.namespace = Some("olm".to_owned());
        object.metadata.uid = Some("5d8f".to_owned());
        object.metadata.creation_timestamp = time(0);
        let (siblings, held) = Default::default();
        World {
            object,
            siblings,
            version: None,
            leading: true,
            held,
            config_map: None,
            channel: None,
            pods: None,
            service: None,
        }
    }

    fn image(image: &str) -> World {
        World::new(CatalogSourceSpec {
            source_type: SourceType::Grpc,
            image: image.to_owned(),
            ..CatalogSourceSpec::default()
        })
    }

    fn polled(image: &str, interval: &str) -> World {
        let mut world = World::image(image);
        let registry_poll = Some(RegistryPoll { interval: interval.to_owned() });
        world.object.spec.update_strategy = Some(UpdateStrategy { registry_poll });
        world
    }

    fn address(address: &str) -> World {
        let address = address.to_owned();
        World::new(CatalogSourceSpec { source_type: SourceType::Grpc, address, ..CatalogSourceSpec::default() })
    }

    fn config_map() -> World {
        let mut world = World::new(CatalogSourceSpec {
            source_type: SourceType::ConfigMap,
            config_map: "catalog".to_owned(),
            ..CatalogSourceSpec::default()
        });
        world.see("a", "17");
        world
    }

    /// With an image template.
    fn template(template: &str, image: &str, minor: &str) -> World {
        let mut world = World::image(image);
        world.annotate(CATALOG_IMAGE_TEMPLATE, template);
        world.version = Some(Ok(KubeVersion { major: "1".into(), minor: minor.into(), patch: Some("3".into()) }));
        world
    }

    fn annotate(&mut self, key: &str, value: &str) {
        self.object.metadata.annotations.get_or_insert_default().insert(key.to_owned(), value.to_owned());
    }

    /// The ConfigMap has this content.
    fn see(&mut self, name: &str, resource_version: &str) {
        let seen = ConfigMapSeen {
            uid: "1f0a".to_owned(),
            resource_version: resource_version.to_owned(),
            digest: digest(name),
            adopted: true,
        };
        self.config_map = Some(ConfigMapState { read: Read::Value(seen), since: at(0) });
    }

    fn decide(&self, seconds: i64) -> Decision {
        let facts = Facts {
            object: &self.object,
            siblings: &self.siblings,
            version: self.version.as_ref(),
            leading: self.leading,
            held: &self.held,
            config_map: self.config_map.as_ref(),
            channel: self.channel.as_ref(),
            pods: self.pods.as_ref(),
            service: self.service.as_deref(),
        };
        decide(&facts, &check, at(seconds))
    }

    /// Decides, and writes what is to be written.
    fn step(&mut self, seconds: i64) -> Decision {
        let decision = self.decide(seconds);
        self.write(&decision);
        decision
    }

    fn write(&mut self, decision: &Decision) {
        self.object.spec.image = decision.image.clone().unwrap_or(self.object.spec.image.clone());
        self.object.status = decision.status.clone().or(self.object.status.take());
    }

    /// The work that is to be done ends so; then it is decided again.
    fn end(&mut self, seconds: i64, outcome: impl FnOnce(&Work) -> Outcome) -> Decision {
        let work = self.step(seconds).work.expect("there is work");
        let outcome = outcome(&work);
        self.held.on(&work, outcome, at(seconds));
        self.step(seconds)
    }

    fn load(&mut self, seconds: i64, name: &str) -> Decision {
        self.end(seconds, |work| loaded(work, name))
    }

    fn fail(&mut self, seconds: i64, cause: &str) -> Decision {
        self.end(seconds, |_| Outcome::Failed { cause: cause.to_owned() })
    }

    fn refuse(&mut self, seconds: i64, name: &str, cause: &str) -> Decision {
        self.end(seconds, |work| Outcome::Refused { content: read(work, name), cause: cause.to_owned() })
    }

    /// The process begins anew.
    fn restart(&mut self) {
        self.held = Held::default();
    }

    fn status(&self) -> CatalogSourceStatus {
        self.object.status.clone().unwrap_or_default()
    }

    /// Reason and message.
    fn said(&self) -> (String, String) {
        let status = self.status();
        (status.reason, status.message)
    }

    fn state(&self) -> Option<Connection> {
        self.status().connection_state.map(|connection| connection.last_observed_state)
    }

    fn connected(&self) -> Option<Time> {
        self.status().connection_state.and_then(|connection| connection.last_connect)
    }

    fn condition(&self, type_: &str) -> Option<Condition> {
        self.status().conditions.into_iter().find(|condition| condition.type_ == type_)
    }

    /// Status, reason and message of a condition.
    fn words(&self, type_: &str) -> Option<(String, String, String)> {
        self.condition(type_).map(|condition| (condition.status, condition.reason, condition.message))
    }

    fn serves(&self) -> Option<String> {
        self.held.loaded.as_ref().map(|loaded| loaded.content.to_string())
    }
}

/// What has been read: of the wanted digest, or, where none is wanted, of this one.
fn read(work: &Work, name: &str) -> Content {
    match work {
        Work::Pull { image, digest: wanted, directory } => {
            Content::of_image(image, &wanted.clone().unwrap_or_else(|| digest(name)), directory)
        }
        Work::ReadConfigMap { name, digest } => Content::ConfigMap { name: name.clone(), digest: digest.clone() },
        Work::ReadServer { address, .. } => Content::Server { address: address.clone(), digest: digest(name) },
        Work::TakeKept { address, digest } => Content::Server { address: address.clone(), digest: digest.clone() },
        Work::Ask { .. } => panic!("nothing is read"),
    }
}

fn loaded(work: &Work, name: &str) -> Outcome {
    match work {
        Work::Ask { .. } => Outcome::Asked { digest: digest(name) },
        work => Outcome::Loaded { content: read(work, name), notes: String::new() },
    }
}

fn pull(image: &str, digest: Option<String>) -> Option<Work> {
    Some(Work::Pull { image: image.to_owned(), digest, directory: String::new() })
}

fn ask(image: &str) -> Option<Work> {
    Some(Work::Ask { image: image.to_owned() })
}

fn words(status: &str, reason: &str, message: &str) -> Option<(String, String, String)> {
    Some((status.to_owned(), reason.to_owned(), message.to_owned()))
}
