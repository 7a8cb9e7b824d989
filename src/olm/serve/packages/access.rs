//! Whether a user may read packages: the API server is asked, and its answer counts for a short time.

use crate::cluster::access::{self, Review};
use crate::olm::api::package_manifest::GROUP;
use crate::olm::packages::status::{Attributes, Status};
use crate::serve::front_proxy::User;
use k8s_openapi::api::authentication::v1::UserInfo;
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::Instant;

/// How long an answer counts: a right that is given or taken does so after this long at most.
const KEPT_FOR: Duration = Duration::from_secs(10);
/// Answers that are kept.
const KEPT: usize = 1000;
/// Questions at once.
const REVIEWS: usize = 8;
/// For one of them, waiting for others included.
const REVIEW_TIMEOUT: Duration = Duration::from_secs(8);

/// A user and what it wants. Its length does not depend on them.
type Key = [u8; 32];

/// Decides about users.
pub(super) struct Access {
    client: kube::Client,
    known: Mutex<HashMap<Key, (Review, Instant)>>,
    reviews: Semaphore,
}

impl Access {
    pub(super) fn new(client: kube::Client) -> Self {
        Access { client, known: Mutex::default(), reviews: Semaphore::new(REVIEWS) }
    }

    /// An error is the answer to a user that may not do so.
    pub(super) async fn check(&self, user: &User, what: &Attributes<'_>) -> Result<(), Status> {
        let key = key(user, what);
        let review = match self.known(&key) {
            Some(review) => review,
            None => {
                let review = self.ask(user, what).await?;
                self.keep(key, review.clone());
                review
            }
        };
        if review.allowed { Ok(()) } else { Err(Status::forbidden(&user.name, what, &review.reason)) }
    }

    fn known(&self, key: &Key) -> Option<Review> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(key).filter(|(_, until)| Instant::now() < *until).map(|(review, _)| review.clone())
    }

    fn keep(&self, key: Key, review: Review) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if known.len() >= KEPT {
            known.retain(|_, (_, until)| now < *until);
        }
        if known.len() >= KEPT {
            // All of them are young, and will be asked for again.
            known.clear();
        }
        known.insert(key, (review, now + KEPT_FOR));
    }

    async fn ask(&self, user: &User, what: &Attributes<'_>) -> Result<Review, Status> {
        let text = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        let info = UserInfo {
            username: text(&user.name),
            uid: text(&user.uid),
            groups: Some(user.groups.clone()),
            extra: Some(user.extra.clone()),
        };
        let Attributes { verb, resource, subresource, namespace, name } = *what;
        let what = access::Attributes { verb, group: GROUP, resource, subresource, namespace, name };
        let asked = async {
            let _place = self.reviews.acquire().await.map_err(|error| error.to_string())?;
            access::review(&self.client, info, &what).await.map_err(|error| error.to_string())
        };
        let answer = tokio::time::timeout(REVIEW_TIMEOUT, asked).await;
        answer.unwrap_or_else(|_| Err("the API server does not answer".to_owned())).map_err(|cause| {
            // The cause may name what only the cluster should know.
            tracing::warn!(error = cause, "the rights of a user cannot be reviewed");
            Status::unavailable("your right to packages cannot be reviewed now; try again")
        })
    }
}

fn key(user: &User, what: &Attributes<'_>) -> Key {
    let User { name, uid, groups, extra } = user;
    let Attributes { verb, resource, subresource, namespace, name: object } = what;
    // The same text means the same user and question: JSON keeps the parts apart. It is all text.
    let text = serde_json::to_vec(&(name, uid, groups, extra, verb, resource, subresource, namespace, object));
    Sha256::digest(text.unwrap_or_default()).into()
}

#[cfg(test)]
pub(crate) mod tests;
