//! Does the work for a catalog that takes time: asks registries, and reads contents.

use super::access::{Reach, Way};
use super::watched;
use crate::cluster::{Kind, Objects};
use crate::error::chain;
use crate::heap;
use crate::net::registry::digest::Tagged;
use crate::net::registry::{RegistryError, source};
use crate::olm::catalog::served;
use crate::olm::endpoints::Id;
use crate::olm::net::pull::{self, PullError};
use crate::olm::net::registry_client::RegistryClient;
use crate::olm::net::server;
use crate::olm::net::store::{Key, Store, StoreError, Stored};
use crate::olm::source::content::Content;
use crate::olm::source::health::judge;
use crate::olm::source::held::{Outcome, Work};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};

/// Contents that are read from the disk at the same time: each takes some 60 MiB.
const MOST: usize = 2;
/// Images that come from registries at the same time, for catalogs of the global namespace and for all others: of each some 16 MiB
/// are in memory.
const IMAGES: usize = 2;

/// What is to be done.
#[derive(Debug)]
pub(super) struct Job {
    pub namespace: String,
    pub work: Work,
    /// How images are reached; `None` before that is known: then only what is on disk is looked for.
    pub reach: Option<Way>,
    /// What the registry said last.
    pub tagged: Option<Tagged>,
    /// The server that the catalog names.
    pub server: Option<RegistryClient>,
    /// The status says that this very content was served, so that it may be taken from the disk without asking for it.
    pub told: bool,
    /// What is served, if packages of it must not be lost.
    pub served: Option<Arc<served::Content>>,
}

/// What came of it; nothing if it is not there and cannot be asked for yet.
#[derive(Debug, Default)]
pub(super) struct Done {
    pub outcome: Option<Outcome>,
    pub content: Option<Arc<served::Content>>,
    pub tagged: Option<Tagged>,
}

/// Work that has ended.
#[derive(Debug)]
pub(super) struct Ended {
    pub id: Id,
    /// Which of the works of this catalog it is.
    pub number: u64,
    pub done: Done,
}

pub(super) struct Reader {
    store: Arc<Store>,
    objects: Objects,
    global: String,
    places: Arc<Semaphore>,
    /// A registry may take half an hour for an image, so that those of users keep none of the platform waiting.
    global_images: Semaphore,
    other_images: Semaphore,
}

/// A failure, by whether it is of the content.
enum Failure {
    Passing(String),
    /// The same, and the registry does not want to be asked before that long.
    Busy(String, Duration),
    /// The same: the registry refuses us, or cannot be reached.
    NoAccess(String),
    Lasting(Content, String),
    /// Only a pod can serve it.
    OnlyServes(Content),
    /// It is not known yet how images are reached.
    Waiting,
}

impl From<RegistryError> for Failure {
    fn from(error: RegistryError) -> Failure {
        Failure::Passing(error.to_string())
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Failure {
        Failure::Passing(error.to_string())
    }
}

impl Failure {
    fn of_registry(error: &RegistryError, reach: &Reach) -> Failure {
        let cause = reach.explained(error);
        match error.retry_after() {
            Some(wait) => Failure::Busy(cause, wait),
            None if error.has_no_access() => Failure::NoAccess(cause),
            None => Failure::Passing(cause),
        }
    }

    fn outcome(self) -> Option<Outcome> {
        match self {
            Failure::Passing(cause) => Some(Outcome::Failed { cause }),
            Failure::NoAccess(cause) => Some(Outcome::NoAccess { cause }),
            Failure::Busy(cause, wait) => Some(Outcome::Busy { cause, wait }),
            Failure::Lasting(content, cause) => Some(Outcome::Refused { content, cause }),
            Failure::OnlyServes(content) => Some(Outcome::OnlyServes { digest: content.digest().to_owned() }),
            Failure::Waiting => None,
        }
    }
}

type Read = Result<(Content, Stored), Failure>;

impl Reader {
    /// `global`: the namespace whose catalogs are visible in all others.
    pub(super) fn new(store: Arc<Store>, objects: Objects, global: &str) -> Reader {
        Reader {
            store,
            objects,
            global: global.to_owned(),
            places: Arc::new(Semaphore::new(MOST)),
            global_images: Semaphore::new(IMAGES),
            other_images: Semaphore::new(IMAGES),
        }
    }

    pub(super) async fn perform(&self, job: Job) -> Done {
        let read = match &job.work {
            Work::Ask { image } => return self.ask(&job, image).await,
            Work::Pull { image, digest, directory } => self.pull(&job, (image, digest.as_deref(), directory)).await,
            Work::ReadConfigMap { name, digest } => self.config_map(&job, name, digest).await,
            Work::ReadServer { address, .. } => self.server(&job, address).await,
            Work::TakeKept { address, digest } => self.kept(address, digest).await,
        };
        match read {
            Ok((content, stored)) => judged(&job, content, stored),
            Err(failure) => Done { outcome: failure.outcome(), ..Done::default() },
        }
    }

    async fn ask(&self, job: &Job, image: &str) -> Done {
        let asked = async {
            let reach = reach(job)?;
            let image = source::parse(image)?;
            let asked = reach.sources.digest(&image, job.tagged.as_ref()).await;
            asked.map_err(|error| Failure::of_registry(&error, reach))
        };
        match asked.await {
            Ok(tagged) => {
                let outcome = Some(Outcome::Asked { digest: tagged.digest.clone() });
                Done { outcome, tagged: Some(tagged), ..Done::default() }
            }
            Err(failure) => Done { outcome: failure.outcome(), ..Done::default() },
        }
    }

    async fn pull(&self, job: &Job, (image, digest, directory): (&str, Option<&str>, &str)) -> Read {
        let reference = source::parse(image)?;
        let pinned = reference.digest.as_deref().filter(|_| job.told);
        if let Some(known) = digest.or(pinned) {
            let content = Content::of_image(image, known, directory);
            if let Some(stored) = pull::stored(&self.store, &Key::of(&content)).await {
                return Ok((content, stored));
            }
        }
        let reach = reach(job)?;
        let opened = pull::open(&reach.sources, &reference, digest).await;
        let opened = opened.map_err(|error| Failure::of_registry(&error, reach))?;
        let content = Content::of_image(image, &opened.image.named, directory);
        let key = Key::of(&content);
        let reading = self.store.reading(&key);
        let _alone = reading.lock().await;
        // Another catalog may have read it meanwhile.
        if let Some(stored) = pull::stored(&self.store, &key).await {
            return Ok((content, stored));
        }
        let _image = self.images(&job.namespace).acquire().await.map_err(|error| stopped(&error))?;
        let read = pull::image(&self.store, &opened, directory, key, self.place()).await;
        heap::give_back();
        finished(content, read, Some(reach))
    }

    async fn config_map(&self, job: &Job, name: &str, digest: &str) -> Read {
        let content = Content::ConfigMap { name: name.to_owned(), digest: digest.to_owned() };
        let key = Key::of(&content);
        let reading = self.store.reading(&key);
        let _alone = reading.lock().await;
        if let Some(stored) = pull::stored(&self.store, &key).await {
            return Ok((content, stored));
        }
        let place = format!("ConfigMap {}/{name}", job.namespace);
        let object = self.objects.get(&Kind::config_map(), &job.namespace, name).await;
        let object = object.map_err(|error| Failure::Passing(error.to_string()))?;
        let object = object.ok_or_else(|| Failure::Passing(format!("{place} does not exist")))?;
        let data = watched::data(&object);
        if watched::digest(&data) != digest {
            return Err(Failure::Passing(format!("{place} has another content by now")));
        }
        let permit = self.place().await?;
        let read = pull::config_map(&self.store, data, key, permit).await;
        heap::give_back();
        finished(content, read, None)
    }

    async fn server(&self, job: &Job, address: &str) -> Read {
        let Some(client) = job.server.as_ref().filter(|client| client.address() == address) else {
            return Err(Failure::Passing(format!("the server at {address} is not the one of the catalog any more")));
        };
        let read = server::read(&self.store, client, &self.places).await;
        heap::give_back();
        read.map_err(|error| Failure::Passing(chain(&error)))
    }

    async fn kept(&self, address: &str, digest: &str) -> Read {
        let content = Content::Server { address: address.to_owned(), digest: digest.to_owned() };
        let stored = pull::stored(&self.store, &Key::of(&content)).await;
        let stored = stored.ok_or_else(|| Failure::Passing(format!("{content} is not on this disk any more")))?;
        Ok((content, stored))
    }

    async fn place(&self) -> Result<OwnedSemaphorePermit, StoreError> {
        self.places.clone().acquire_owned().await.map_err(|error| stopped(&error))
    }

    fn images(&self, namespace: &str) -> &Semaphore {
        if namespace == self.global { &self.global_images } else { &self.other_images }
    }
}

/// Never: no semaphore is closed.
fn stopped(error: &AcquireError) -> StoreError {
    StoreError::Stopped(error.to_string())
}

fn reach(job: &Job) -> Result<&Reach, Failure> {
    match job.reach.as_deref() {
        None => Err(Failure::Waiting),
        Some(Err(cause)) => Err(Failure::Passing(cause.clone())),
        Some(Ok(reach)) => Ok(reach),
    }
}

fn finished(content: Content, read: Result<Stored, PullError>, reach: Option<&Reach>) -> Read {
    match (read, reach) {
        (Ok(stored), _) => Ok((content, stored)),
        (Err(error), _) if error.only_serves() => Err(Failure::OnlyServes(content)),
        (Err(error), _) if error.is_of_content() => {
            let cause = format!("{content}: {}", chain(&error));
            Err(Failure::Lasting(content, cause))
        }
        (Err(PullError::Registry(error)), Some(reach)) => Err(Failure::of_registry(&error, reach)),
        (Err(error), _) => Err(Failure::Passing(chain(&error))),
    }
}

/// The content, unless it must not be served.
fn judged(job: &Job, content: Content, stored: Stored) -> Done {
    let is_served = |package: &str| job.served.as_ref().is_some_and(|served| served.index.package(package).is_some());
    match judge(&stored.found, is_served) {
        Ok(notes) => {
            let outcome = Some(Outcome::Loaded { content, notes });
            Done { outcome, content: Some(stored.content), ..Done::default() }
        }
        Err(cause) => {
            let cause = format!("{content}: {cause}");
            Done { outcome: Some(Outcome::Refused { content, cause }), ..Done::default() }
        }
    }
}

#[cfg(test)]
mod tests;
