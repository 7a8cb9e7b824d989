//! What this process has for one CatalogSource, and the work that is under way for it.

use super::access::{Inputs, Way};
use super::reading::{Done, Ended, Job, Reader};
use super::servers::Server;
use crate::cluster::task;
use crate::net::registry::Access;
use crate::net::registry::digest::Tagged;
use crate::olm::api::catalog_source::CatalogSource;
use crate::olm::catalog::served::{self, Served};
use crate::olm::endpoints::Id;
use crate::olm::packages::view;
use crate::olm::source::content::{Content, Subject, record};
use crate::olm::source::health::{health, stale_since};
use crate::olm::source::held::{Held, Outcome, Work};
use crate::olm::source::pod;
use crate::olm::source::{Channel, Serve};
use crate::olm::subscription::Visible;
use jiff::Timestamp;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

/// Where work says that it has ended.
#[derive(Clone)]
pub(super) struct Ends {
    queue: Arc<Mutex<Vec<Ended>>>,
    changed: Arc<Notify>,
}

impl Ends {
    pub(super) fn new(changed: Arc<Notify>) -> Ends {
        Ends { queue: Arc::default(), changed }
    }

    pub(super) fn take(&self) -> Vec<Ended> {
        std::mem::take(&mut self.queue.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn push(&self, ended: Ended) {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).push(ended);
        self.changed.notify_one();
    }
}

/// What work needs besides what it is about.
pub(super) struct Workshop {
    pub reader: Arc<Reader>,
    pub ends: Ends,
    pub stop: CancellationToken,
}

#[derive(Default)]
pub(super) struct Catalog {
    uid: String,
    pub held: Held,
    /// That of `held.loaded`.
    content: Option<Arc<served::Content>>,
    tagged: Option<Tagged>,
    inputs: Option<Inputs>,
    pub reach: Option<Way>,
    server: Option<Server>,
    running: Option<Running>,
    number: u64,
    /// What is not on disk, and waits until it is known how images are reached.
    waiting: Option<Work>,
    pub serve: Serve,
    /// What is made for a pod, if one is to serve it.
    pub pod: Option<pod::Objects>,
    /// How often another content has come.
    pub snapshots: u64,
}

/// Work that is under way, until this is dropped.
struct Running {
    work: Work,
    number: u64,
    /// What was to be done when credentials were others.
    outdated: bool,
    _task: AbortOnDropHandle<()>,
}

impl Catalog {
    pub(super) fn of(source: &CatalogSource) -> Catalog {
        Catalog { uid: source.metadata.uid.clone().unwrap_or_default(), ..Catalog::default() }
    }

    /// Whether it is that of this very object.
    pub(super) fn is_of(&self, source: &CatalogSource) -> bool {
        source.metadata.uid.as_deref() == Some(self.uid.as_str())
    }

    /// How the image is reached now. What has failed may succeed where that is another way than before.
    pub(super) fn on_inputs(&mut self, inputs: Option<Inputs>, known: &Access) {
        let Some(inputs) = inputs else { return };
        if self.inputs.as_ref() == Some(&inputs) {
            return;
        }
        self.reach = Some(Arc::new(inputs.reach(known)));
        if self.inputs.replace(inputs).is_some() {
            self.held.try_again();
            self.running.iter_mut().for_each(|running| running.outdated = true);
        }
        self.waiting = None;
    }

    /// The connection to the server that has the catalog.
    pub(super) fn channel(&self) -> Option<Channel> {
        self.server.as_ref().map(|server| server.client.channel())
    }

    /// Is connected to this server from now on, and to no other one.
    pub(super) fn dial(&mut self, address: Option<&str>, start: impl FnOnce(&str) -> Server) {
        if self.server.as_ref().map(|server| server.client.address()) != address {
            self.server = address.map(start);
        }
    }

    pub(super) fn on_end(&mut self, number: u64, done: Done, now: Timestamp) {
        let Some(running) = self.running.take_if(|running| running.number == number) else { return };
        let Done { outcome, content, tagged } = done;
        let Some(outcome) = outcome else {
            // It may be known since.
            self.waiting = Some(running.work).filter(|_| self.reach.is_none());
            return;
        };
        self.tagged = tagged.or(self.tagged.take());
        if let (Outcome::Loaded { .. }, Some(content)) = (&outcome, content) {
            let same = self.content.as_ref().is_some_and(|known| Arc::ptr_eq(known, &content));
            self.snapshots += u64::from(!same);
            self.content = Some(content);
        }
        match &outcome {
            Outcome::Failed { cause }
            | Outcome::NoAccess { cause }
            | Outcome::Busy { cause, .. }
            | Outcome::Refused { cause, .. } => {
                tracing::warn!(%cause, "a catalog is not read");
            }
            Outcome::Loaded { content, .. } => tracing::info!(%content, "a catalog is read"),
            Outcome::OnlyServes { digest } => tracing::info!(%digest, "only a pod can serve the catalog of an image"),
            Outcome::Asked { .. } => {}
        }
        self.held.on(&running.work, outcome, now);
        if running.outdated {
            self.held.try_again();
        }
    }

    /// Begins the work, unless it is under way, and ends whatever else is. `leading`: what is served must not be lost.
    pub(super) fn begin(
        &mut self,
        source: &CatalogSource,
        id: &Id,
        work: Option<Work>,
        leading: bool,
        shop: &Workshop,
    ) {
        let Some(work) = work else {
            self.running = None;
            return;
        };
        if self.running.as_ref().is_some_and(|running| running.work == work) || self.waiting.as_ref() == Some(&work) {
            return;
        }
        self.number += 1;
        let number = self.number;
        let job = Job {
            namespace: id.0.clone(),
            told: is_told(source, &work),
            reach: self.reach.clone(),
            tagged: self.tagged.clone(),
            server: self.server.as_ref().map(|server| server.client.clone()),
            // What a server says nobody has judged for this process.
            served: self.content.clone().filter(|_| leading || matches!(work, Work::ReadServer { .. })),
            work: work.clone(),
        };
        let (reader, ends, id) = (shop.reader.clone(), shop.ends.clone(), id.clone());
        let working = async move {
            let done = reader.perform(job).await;
            ends.push(Ended { id, number, done });
        };
        let task = tokio::spawn(task::guarded("a catalog", &shop.stop, working));
        self.running = Some(Running { work, number, outdated: false, _task: AbortOnDropHandle::new(task) });
    }

    /// What those get who ask for it.
    pub(super) fn served(&self, source: &CatalogSource) -> Option<Served> {
        let content = self.content.clone().filter(|_| self.serve == Serve::Content)?;
        Some(Served { about: Arc::new(about(source)), content })
    }

    /// What Subscriptions see of it. Content that is not here yet, although it is said to be served, is waited for.
    pub(super) fn visible(&self, source: &CatalogSource) -> Visible {
        let health = match (health(source), &self.content) {
            (Ok(()), Some(_)) => Some(Ok(())),
            (Ok(()), None) if self.has_tried(source) => Some(Err("its content cannot be read here".to_owned())),
            (Ok(()), None) => None,
            (Err(cause), _) => Some(Err(cause)),
        };
        Visible {
            uid: self.uid.clone(),
            resource_version: source.metadata.resource_version.clone().unwrap_or_default(),
            priority: source.spec.priority,
            health,
            content: self.content.clone(),
        }
    }

    /// Whether what the holder of the lease says is served is so here, or was tried in vain.
    pub(super) fn has_tried(&self, source: &CatalogSource) -> bool {
        let status = source.status.as_ref();
        let told = status.and_then(record).filter(|it| it.served);
        let Some(told) = told else { return true };
        let held = self.held.loaded.as_ref().map(|loaded| &loaded.content);
        let has_failed = |subject: &Subject| self.held.trouble(subject).is_some();
        // Of a server each process reads what there is.
        let of_server = matches!(told.content, Content::Server { .. });
        held.is_some_and(|held| *held == told.content || of_server)
            || has_failed(&Work::read(&told.content).subject())
            || has_failed(&Subject::Image(source.spec.image.clone()))
    }
}

/// Whether the status says that this is what was served.
fn is_told(source: &CatalogSource, work: &Work) -> bool {
    let Work::Pull { image, .. } = work else { return false };
    let status = source.status.as_ref();
    let told = status.and_then(record);
    told.is_some_and(|told| Some(told.content.digest()) == image.split_once('@').map(|(_, digest)| digest))
}

fn about(source: &CatalogSource) -> view::Catalog {
    let metadata = &source.metadata;
    view::Catalog {
        namespace: metadata.namespace.clone().unwrap_or_default(),
        name: metadata.name.clone().unwrap_or_default(),
        display_name: source.spec.display_name.clone(),
        publisher: source.spec.publisher.clone(),
        labels: metadata.labels.clone().unwrap_or_default(),
        created: metadata.creation_timestamp.as_ref().map(|time| time.0),
        priority: source.spec.priority,
        stale_since: stale_since(source),
    }
}

#[cfg(test)]
mod tests {
    use super::super::access::Shared;
    use super::*;
    use crate::object::read::Read;
    use crate::olm::api::catalog_source::{CatalogSourceSpec, CatalogSourceStatus, SourceType, condition};
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

    const IMAGE: &str = "a.example/b:1";

    fn digest(name: &str) -> String {
        format!("sha256:{}", name.repeat(64))
    }

    /// A catalog of which this content is said to be served.
    fn told(image: &str, content: &str) -> CatalogSource {
        let spec = CatalogSourceSpec { source_type: SourceType::Grpc, image: image.to_owned(), ..Default::default() };
        let mut source = CatalogSource::new("a", spec);
        source.metadata.uid = Some("u".to_owned());
        let loaded = Condition {
            type_: condition::CONTENT_LOADED.to_owned(),
            status: "True".to_owned(),
            reason: condition::LOADED.to_owned(),
            message: format!("{IMAGE}@{}", digest(content)),
            last_transition_time: Time(Timestamp::UNIX_EPOCH),
            observed_generation: None,
        };
        source.status = Some(CatalogSourceStatus { conditions: vec![loaded], ..Default::default() });
        source
    }

    fn ended(catalog: &mut Catalog, work: &Work, outcome: Option<Outcome>) {
        let task = AbortOnDropHandle::new(tokio::spawn(async {}));
        let running = Running { work: work.clone(), number: 1, outdated: false, _task: task };
        catalog.running = Some(running);
        catalog.on_end(1, Done { outcome, ..Done::default() }, Timestamp::UNIX_EPOCH);
    }

    #[tokio::test]
    async fn what_is_said_to_be_served_is_waited_for_until_it_is_or_was_tried_in_vain() {
        let pinned = format!("{IMAGE}@{}", digest("a"));
        for image in [IMAGE, &pinned] {
            let source = told(image, "a");
            let content = Content::of_image(IMAGE, &digest("a"), "");
            let work = Work::Pull { image: image.to_owned(), digest: None, directory: String::new() };
            for (outcome, expected) in [
                (Outcome::Failed { cause: "no".to_owned() }, true),
                (Outcome::Loaded { content: content.clone(), notes: String::new() }, true),
                (Outcome::Asked { digest: digest("b") }, false),
            ] {
                let mut catalog = Catalog::of(&source);
                assert!(!catalog.has_tried(&source), "{image}");
                ended(&mut catalog, &work, Some(outcome.clone()));
                assert_eq!(catalog.has_tried(&source), expected, "{image} {outcome:?}");
            }
        }
        assert!(Catalog::default().has_tried(&CatalogSource::new("a", CatalogSourceSpec::default())));
    }

    #[tokio::test]
    async fn what_is_not_on_disk_waits_until_it_is_known_how_images_are_reached() {
        let source = told(IMAGE, "a");
        let work = Work::Pull { image: IMAGE.to_owned(), digest: Some(digest("a")), directory: String::new() };
        let mut catalog = Catalog::of(&source);
        ended(&mut catalog, &work, None);
        assert_eq!(catalog.waiting.as_ref(), Some(&work));
        assert!(!catalog.has_tried(&source));
        catalog.reach = Some(Arc::new(Err("no way".to_owned())));
        ended(&mut catalog, &work, None);
        assert_eq!(catalog.waiting, None, "it is known since");
    }

    #[tokio::test]
    async fn end_of_work_that_is_not_wanted_any_more_does_not_count() {
        let source = told(IMAGE, "a");
        let mut catalog = Catalog::of(&source);
        let outcome = Outcome::Failed { cause: "no".to_owned() };
        catalog.on_end(1, Done { outcome: Some(outcome), ..Done::default() }, Timestamp::UNIX_EPOCH);
        assert!(!catalog.has_tried(&source));
        assert!(catalog.is_of(&source) && catalog.snapshots == 0);
    }

    #[test]
    fn pinned_image_is_taken_from_the_disk_only_if_it_was_served() {
        let work = |image: &str| Work::Pull { image: image.to_owned(), digest: None, directory: String::new() };
        let pinned = |name: &str| format!("{IMAGE}@{}", digest(name));
        assert!(is_told(&told(&pinned("a"), "a"), &work(&pinned("a"))));
        assert!(!is_told(&told(&pinned("b"), "a"), &work(&pinned("b"))));
        assert!(!is_told(&told(IMAGE, "a"), &work(IMAGE)));
        assert!(!is_told(&CatalogSource::new("a", CatalogSourceSpec::default()), &work(&pinned("a"))));
    }

    #[test]
    fn what_is_said_of_a_catalog_is_what_its_object_says() {
        let mut source = told(IMAGE, "a");
        source.metadata.namespace = Some("shop".to_owned());
        source.metadata.labels = Some([("tier".to_owned(), "gold".to_owned())].into());
        source.metadata.creation_timestamp = Some(Time("2026-03-01T00:00:00Z".parse().unwrap()));
        source.spec.priority = -400;
        (source.spec.display_name, source.spec.publisher) = ("Community".to_owned(), "Others".to_owned());
        let expected = view::Catalog {
            namespace: "shop".to_owned(),
            name: "a".to_owned(),
            display_name: "Community".to_owned(),
            publisher: "Others".to_owned(),
            labels: [("tier".to_owned(), "gold".to_owned())].into(),
            created: "2026-03-01T00:00:00Z".parse().ok(),
            priority: -400,
            stale_since: None,
        };
        assert_eq!(about(&source), expected);
        let message = "no route; since 2026-03-02T00:00:00Z, and a@sha256:1 is served meanwhile";
        source.status.as_mut().unwrap().message = message.to_owned();
        let stale_since = "2026-03-02T00:00:00Z".parse().ok();
        assert_eq!(about(&source), view::Catalog { stale_since, ..expected });
    }

    #[test]
    fn catalog_that_was_made_again_under_its_name_is_another_one() {
        let source = told(IMAGE, "a");
        let mut again = source.clone();
        again.metadata.uid = Some("v".to_owned());
        let catalog = Catalog::of(&source);
        assert!(catalog.is_of(&source) && !catalog.is_of(&again));
    }

    /// All that is looked up is absent.
    fn inputs(source: &CatalogSource, shared: Result<Arc<Shared>, String>) -> Option<Inputs> {
        let absent = (Arc::new(Read::Absent), Timestamp::UNIX_EPOCH);
        Inputs::of(source, &|_| Some(absent.clone()), Some(shared))
    }

    #[tokio::test]
    async fn what_failed_is_tried_again_once_images_are_reached_in_another_way() {
        let source = told(IMAGE, "a");
        let work = Work::Pull { image: IMAGE.to_owned(), digest: None, directory: String::new() };
        let failed = || Some(Outcome::Failed { cause: "no route".to_owned() });
        let mut catalog = Catalog::of(&source);
        catalog.on_inputs(inputs(&source, Err("no proxy is known".to_owned())), &Access::default());
        assert_eq!(catalog.reach.as_deref().unwrap().as_ref().unwrap_err(), "no proxy is known");
        ended(&mut catalog, &work, failed());
        catalog.on_inputs(inputs(&source, Err("no proxy is known".to_owned())), &Access::default());
        catalog.on_inputs(None, &Access::default());
        assert!(catalog.held.trouble(&work.subject()).is_some(), "it is the same way");
        catalog.on_inputs(inputs(&source, Ok(Arc::default())), &Access::default());
        assert!(catalog.reach.as_ref().unwrap().is_ok() && catalog.held.trouble(&work.subject()).is_none());
        // What began before has the old passwords, so that its end says nothing of the new ones.
        let task = AbortOnDropHandle::new(tokio::spawn(async {}));
        catalog.running = Some(Running { work: work.clone(), number: 7, outdated: false, _task: task });
        catalog.on_inputs(inputs(&source, Err("the proxy is gone".to_owned())), &Access::default());
        catalog.on_end(7, Done { outcome: failed(), ..Done::default() }, Timestamp::UNIX_EPOCH);
        assert!(catalog.held.trouble(&work.subject()).is_none());
    }
}
