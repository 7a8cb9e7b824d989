//! Where an image comes from: the mirrors of the cluster and the registry that it names, as far as the policy of the cluster allows.

use super::digest::Tagged;
use super::files::{self, Limits};
use super::image::Image;
use super::place::Place;
use super::{Access, READ_TIMEOUT, RegistryError, Repository, parse_reference};
use crate::images::mirrors::{Rule, candidates};
use crate::images::overlay::Summary;
use crate::images::platform::Platform;
use crate::images::policy::Policy;
use crate::images::reference::Reference;
use std::path::Path;

/// How images are reached in a cluster.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sources {
    pub access: Access,
    pub mirrors: Vec<Rule>,
    pub policy: Policy,
}

/// An image that was found.
#[derive(Clone, Debug)]
pub(crate) struct Opened {
    pub image: Image,
    /// As it was asked for.
    name: String,
    /// Where it was found, then the places that were not asked yet.
    places: Vec<Place>,
}

/// Parses the name of an image.
pub(crate) fn parse(given: &str) -> Result<Reference, RegistryError> {
    let found = parse_reference(given)?;
    Ok(Reference {
        registry: found.registry().to_owned(),
        repository: found.repository().to_owned(),
        tag: found.tag().map(str::to_owned),
        digest: found.digest().map(str::to_owned),
    })
}

fn for_library(image: &Reference) -> oci_client::Reference {
    let (registry, repository) = (image.registry.clone(), image.repository.clone());
    match &image.digest {
        Some(digest) => oci_client::Reference::with_digest(registry, repository, digest.clone()),
        None => oci_client::Reference::with_tag(registry, repository, image.version().to_owned()),
    }
}

impl Sources {
    /// The digest of what the image names now, with one request if nothing has changed (see [`Repository::digest`]).
    pub(crate) async fn digest(&self, image: &Reference, known: Option<&Tagged>) -> Result<Tagged, RegistryError> {
        let mut attempts = Vec::new();
        for place in self.places(image)? {
            let found = match place {
                Ok(repository) => repository.digest(known).await,
                Err(error) => Err(error),
            };
            match found {
                Ok(found) => return Ok(found),
                Err(error) => attempts.push(error),
            }
        }
        Err(nowhere(image.to_string(), attempts))
    }

    /// Whether one of the places has the image, with one request for its manifest at each. It is an error if none has it and one of
    /// them could not be asked.
    pub(crate) async fn has(&self, image: &Reference) -> Result<bool, RegistryError> {
        let mut attempts = Vec::new();
        for place in self.places(image)? {
            let found = match place {
                Ok(repository) => repository.asked(None).await,
                Err(error) => Err(error),
            };
            match found {
                Ok(_) => return Ok(true),
                Err(error) => attempts.push(error),
            }
        }
        let is_missing = attempts.iter().all(|error| error.status() == Some(404));
        if is_missing { Ok(false) } else { Err(nowhere(image.to_string(), attempts)) }
    }

    /// Reads manifest and config of the image, at the first place that has it.
    pub(crate) async fn open(&self, image: &Reference, platform: Platform<'_>) -> Result<Opened, RegistryError> {
        let (mut attempts, mut places) = (Vec::new(), self.places(image)?.into_iter());
        while let Some(place) = places.next() {
            let found = match place {
                Ok(repository) => {
                    let place = Place::Registry(Box::new(repository));
                    place.image(image.version(), platform).await.map(|found| (place, found))
                }
                Err(error) => Err(error),
            };
            match found {
                Ok((place, found)) => {
                    let others = places.filter_map(|place| Some(Place::Registry(Box::new(place.ok()?))));
                    let places = [place].into_iter().chain(others).collect();
                    return Ok(Opened { image: found, name: image.to_string(), places });
                }
                Err(error) => attempts.push(error),
            }
        }
        Err(nowhere(image.to_string(), attempts))
    }

    /// The places in their order, or what is against each. There is one at least.
    fn places(&self, image: &Reference) -> Result<Vec<Result<Repository, RegistryError>>, RegistryError> {
        self.policy.check_name(image)?;
        let repository = |place: &Reference| {
            self.policy.check_place(place)?;
            self.access.connect(&for_library(place), READ_TIMEOUT, self.policy.is_insecure(place))
        };
        Ok(candidates(image, &self.mirrors)?.iter().map(|candidate| repository(&candidate.image)).collect())
    }
}

impl Opened {
    /// An image at one place.
    pub(crate) async fn at(place: Place, name: &str, platform: Platform<'_>) -> Result<Opened, RegistryError> {
        Ok(Opened { image: place.image(name, platform).await?, name: name.to_owned(), places: vec![place] })
    }

    /// The image as it was asked for.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Writes files of the image into a folder (see [`files::write`]). A place that fails is followed by the next one.
    pub(crate) async fn write(
        &self,
        directories: &[&str],
        to: &Path,
        limits: &Limits,
    ) -> Result<Summary, RegistryError> {
        let mut attempts = Vec::new();
        for place in &self.places {
            match files::write(place, &self.image, directories, to, limits).await {
                Err(error) if error.is_of_place() => attempts.push(error),
                done => return done,
            }
        }
        Err(nowhere(self.name.clone(), attempts))
    }
}

/// The error of the only place, or of all of them.
fn nowhere(image: String, mut attempts: Vec<RegistryError>) -> RegistryError {
    match (attempts.pop(), attempts.is_empty()) {
        (Some(only), true) => only,
        (last, _) => {
            attempts.extend(last);
            RegistryError::Everywhere { image, attempts }
        }
    }
}

#[cfg(test)]
mod tests;
