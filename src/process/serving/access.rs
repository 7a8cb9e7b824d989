//! Who may read the metrics: the Prometheus of the platform by its client certificate, and whoever the cluster gives the right
//! to by a token.

use super::authentication;
use super::tokens::{self, Bearer, Known, Tokens, Verdict};
use crate::cluster::{Clients, Kinds};
use crate::process::serving::METRICS_AUDIENCE;
use crate::serve::caller::{Caller, Refusal};
use crate::serve::certificate::Authorities;
use axum::http::StatusCode;
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, UserInfo};
use k8s_openapi::api::authorization::v1::{NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use kube::api::{Api, PostParams};
use rustls::pki_types::CertificateDer;
use serde_json::Value;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{Semaphore, watch};
use tokio_util::sync::CancellationToken;

/// The key that says which authorities sign the certificates of the API server's clients.
const AUTHORITIES: &str = "client-ca-file";
/// The one whose certificate gives the right to read metrics.
const PROMETHEUS: &str = "system:serviceaccount:openshift-monitoring:prometheus-k8s";
/// For both reviews of a token, waiting for others included.
const REVIEW_TIMEOUT: Duration = Duration::from_secs(8);
/// Tokens that are reviewed at once.
const REVIEWS: usize = 4;

/// Decides about callers.
pub(super) struct Access {
    /// An error says why there are none.
    authorities: watch::Receiver<Result<Authorities, String>>,
    client: kube::Client,
    tokens: Mutex<Tokens>,
    reviews: Semaphore,
}

impl Access {
    /// Follows the authorities until `stop`.
    pub(super) fn follow(clients: &Clients, kinds: Arc<Kinds>, stop: &CancellationToken) -> Access {
        let lacking = "no client certificate gives access to the metrics";
        let authorities = authentication::follow(clients, kinds, stop, lacking, parse);
        Access::new(authorities, clients.call.clone())
    }

    fn new(authorities: watch::Receiver<Result<Authorities, String>>, client: kube::Client) -> Access {
        Access { authorities, client, tokens: Mutex::default(), reviews: Semaphore::new(REVIEWS) }
    }

    /// Whether the caller may read the metrics. A token counts where a certificate does not.
    pub(super) async fn check(&self, caller: Caller) -> Result<(), Refusal> {
        let certificate = if caller.chain.is_empty() { None } else { Some(self.check_certificate(&caller.chain)) };
        let refused = match (certificate, &caller.token) {
            (Some(Ok(())), _) => return Ok(()),
            (certificate, Some(token)) => {
                let by_token = self.check_token(token, &caller).await;
                let Err(refusal) = by_token else { return Ok(()) };
                match certificate {
                    Some(Err(other)) => {
                        Refusal { cause: format!("{}; and {}", refusal.cause, other.cause), status: refusal.status }
                    }
                    _ => refusal,
                }
            }
            (Some(Err(refusal)), None) => refusal,
            (None, None) => Refusal::unauthorized("a client certificate or a bearer token is required"),
        };
        tracing::debug!(address = %caller.address, status = %refused.status, error = refused.cause, "metrics refused");
        Err(refused)
    }

    fn check_certificate(&self, chain: &[CertificateDer<'_>]) -> Result<(), Refusal> {
        let authorities = self.authorities.borrow().clone().map_err(|cause| Refusal {
            status: StatusCode::INTERNAL_SERVER_ERROR,
            cause: format!("client certificates cannot be checked: {cause}"),
        })?;
        let name = authorities.common_name(chain);
        let name =
            name.map_err(|cause| Refusal::unauthorized(format!("the client certificate is not trusted: {cause}")))?;
        if name == PROMETHEUS {
            return Ok(());
        }
        Err(Refusal::forbidden(format!("the common name {name:?} of the client certificate may not read metrics")))
    }

    async fn check_token(&self, token: &str, caller: &Caller) -> Result<(), Refusal> {
        let bearer = Bearer::of(token, caller.address);
        match self.known().look(&bearer, Instant::now()) {
            Known::Verdict(verdict) => return verdict.0,
            Known::TooMany => {
                return Err(Refusal {
                    status: StatusCode::TOO_MANY_REQUESTS,
                    cause: "too many unknown tokens; try again in a minute".to_owned(),
                });
            }
            Known::Ask => {}
        }
        let reviewed = async {
            let _place = self.reviews.acquire().await.map_err(|e| e.to_string())?;
            self.review(token).await.map_err(|e| e.to_string())
        };
        let reviewed = tokio::time::timeout(REVIEW_TIMEOUT, reviewed).await;
        let verdict = reviewed.unwrap_or_else(|_| Err("the API server does not answer".to_owned()));
        let verdict = verdict.map_err(|cause| {
            // The cause may name what only the cluster should know.
            tracing::warn!(error = cause, "a token for the metrics cannot be reviewed");
            let cause = "the token cannot be reviewed now".to_owned();
            Refusal { status: StatusCode::SERVICE_UNAVAILABLE, cause }
        })?;
        let lifetime = tokens::lifetime(&verdict, token, jiff::Timestamp::now());
        self.known().keep(&bearer, verdict.clone(), Instant::now() + lifetime);
        verdict.0
    }

    fn known(&self) -> MutexGuard<'_, Tokens> {
        self.tokens.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks the API server whose token it is, and whether that user may read metrics.
    async fn review(&self, token: &str) -> kube::Result<Verdict> {
        // Without an audience the API server asks for its own.
        let audiences = tokens::is_for_metrics(token).then(|| vec![METRICS_AUDIENCE.to_owned()]);
        let spec = TokenReviewSpec { token: token.to_owned(), audiences: audiences.clone() };
        let asked = TokenReview { spec, ..TokenReview::default() };
        let answer = Api::<TokenReview>::all(self.client.clone()).create(&PostParams::default(), &asked).await?;
        let status = answer.status.unwrap_or_default();
        // A server that knows nothing of audiences names none, and has not looked at them.
        let for_us = audiences.is_none() || status.audiences == audiences;
        let Some(user) = status.user.filter(|_| status.authenticated == Some(true) && for_us) else {
            return Ok(Verdict(Err(Refusal::unauthorized("the token is not valid"))));
        };
        let name = user.username.clone().unwrap_or_default();
        let asked = SubjectAccessReview { spec: may_read_metrics(user), ..SubjectAccessReview::default() };
        let answer =
            Api::<SubjectAccessReview>::all(self.client.clone()).create(&PostParams::default(), &asked).await?;
        if answer.status.is_some_and(|status| status.allowed && status.denied != Some(true)) {
            return Ok(Verdict(Ok(())));
        }
        let cause =
            format!("user {name:?} may not get the path /metrics; a ClusterRole with that nonResourceURL allows it");
        Ok(Verdict(Err(Refusal::forbidden(cause))))
    }
}

fn may_read_metrics(user: UserInfo) -> SubjectAccessReviewSpec {
    let path = NonResourceAttributes { path: Some("/metrics".to_owned()), verb: Some("get".to_owned()) };
    SubjectAccessReviewSpec {
        extra: user.extra,
        groups: user.groups,
        non_resource_attributes: Some(path),
        uid: user.uid,
        user: user.username,
        ..SubjectAccessReviewSpec::default()
    }
}

fn parse(object: &Value) -> Result<Authorities, String> {
    let refuse = |cause: String| format!("{AUTHORITIES}: {cause}");
    let bundle = object.get("data").and_then(|data| data.get(AUTHORITIES)).and_then(Value::as_str);
    Authorities::parse(bundle.ok_or_else(|| refuse("is not there".to_owned()))?).map_err(refuse)
}

#[cfg(test)]
mod tests;
